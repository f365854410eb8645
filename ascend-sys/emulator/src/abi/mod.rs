//! The entries of the ABI: C functions with CANN's names. An entry checks its arguments, catches panics and calls inward;
//! nothing else.
//!
//! None of them is an exported symbol: the table holds their addresses.
//!
//! # To add a function of the ABI
//!
//! 1. Declare it below `ascend-sys/include` (of the runtime, types go into `acl/acl_base_rt.h` and
//!    functions into `acl/acl_rt.h`), with a line in `symbols.csv`: name, library, first version; the
//!    libraries are those of `Symbol` in `ascend-sys/src/symbol.rs`. Run
//!    `cargo run --manifest-path ascend-sys/generate/Cargo.toml`, which needs libclang. A test
//!    compares the table with `tests/data/cann-abi.json`; what is not there is listed in
//!    `MORE_FUNCTIONS` of `tests/tests/all/abi.rs`.
//! 2. Write it in [`entries!`](entries) of its file: typed [arguments] (`rank: Out<u32>`, an array with the
//!    argument that is its length as `ranks: Slice<u32>[count]`), checks in CANN's order, one call. A
//!    function that differs from another in a word is a line of an `each` table at the end.
//! 3. A new file is a `mod` here and a line in [`fill`].
//! 4. A new kind of handle is a line of `handle_kinds!` in `slots.rs`, and an object in a file of its
//!    own: in slots where a wrong handle has a code of the runtime (`notify.rs` is the model: create,
//!    `named`, `destroy` retires and then recycles), in `operator::handles::Handles` where the code is
//!    `HCCL_E_PARA`. An object of a device ends in `ending.rs`. An argument is a `Handle<Object>`; to
//!    call `find` on it, say how in [`handles`].
//! 5. Test it through the table, in `ascend-sys/emulator/tests`.
//!
//! # What is not there
//!
//! A function that the emulator does not have is `None` in the table, and a missing symbol of the shared libraries. Of the
//! runtime these are, in the order in which a program may miss them: `aclrtMemcpyBatch` and its relatives,
//! `aclrtReduceAsync`, `aclrtStreamStop`, `aclrtDeviceTaskAbort`, `aclrtValueWrite` and `aclrtValueWait`, counting notifies,
//! sharing of memory, events and notifies between processes, virtual memory management, and callbacks for exceptions.
//!
//! Of kernels these are `aclrtBinaryGetDevAddress`, `aclrtBinaryGetGlobal`, `aclrtGetFuncBySymbol`, the addresses and sizes of functions, SIMT launches, and
//! `aclrtCacheLastTask...`: a recorded kernel has no code at an address.
//!
//! Of HCCL these are `HcclAicpuKernelLaunch` (what it launches is code for a processor that is not emulated), rank tables, symmetric windows and
//! zero copy.
//!
//! Some of what is there does less than CANN's:
//! - Primitives of operators (`Hcomm...OnThread`) are called by the host, with the handles of any thread: there are no AICPU processors to call them.
//!   `HcclAllocNotify` and `HcclGetNotifyNumInThread` are in no header that the table is made from.
//! - `aclInit` reads its configuration file, so that a wrong path is an error, and ignores what it says: texts of errors
//!   belong to the thread, and no device is set by default.
//! - `ASCEND_RT_VISIBLE_DEVICES` is not read: `ASCEND_EMULATOR_DEVICES` says how many devices there are.
//! - The stream flags PERSISTENT, DEVICE_USE_ONLY and CPU_SCHEDULE are kept and returned, and change nothing: such a stream
//!   takes tasks, and is waited for, like any other.
//! - Graphs that are built or edited by hand, and `aclmdlRIAbort`, are answered with "not supported" (207000). Of a captured stream's flags,
//!   PERSISTENT, CPU_SCHEDULE and DEVICE_USE_ONLY are those that Begin refuses.
//! - Events share one limit, that of the process. No device runs out of them by itself (207007), and recording never waits
//!   for one to become free.

mod acl;
mod acl_copy;
mod acl_device;
mod acl_event;
mod acl_graph;
mod acl_graph_edit;
mod acl_kernel;
mod acl_kernel_args;
mod acl_launch;
mod acl_memory;
mod acl_notify;
mod acl_stream;
mod arguments;
mod entries;
mod ext;
mod ext_comm;
mod handles;
mod hccl;
mod hccl_batch;
mod hccl_channel;
mod hccl_channel_config;
mod hccl_comm;
mod hccl_config;
mod hccl_engine_ctx;
mod hccl_entry;
mod hccl_group;
mod hccl_kernel;
mod hccl_messages;
mod hccl_ops;
mod hccl_rank_graph;
mod hccl_state;
mod hccl_tables;
mod hccl_team;
mod hccl_thread;
mod hccl_thread_export;
mod hcomm_channel;
mod hcomm_endpoint;
mod hcomm_mode;
mod hcomm_nbi;
mod hcomm_notify;
mod hcomm_task_cache;
mod hcomm_thread;
mod hcomm_transfer;

use ascend_sys::Functions;

/// Puts all functions into a table.
pub(crate) fn fill(table: &mut Functions) {
    acl::fill(table);
    acl_copy::fill(table);
    acl_device::fill(table);
    acl_event::fill(table);
    acl_graph::fill(table);
    acl_graph_edit::fill(table);
    acl_kernel::fill(table);
    acl_kernel_args::fill(table);
    acl_launch::fill(table);
    acl_memory::fill(table);
    acl_notify::fill(table);
    acl_stream::fill(table);
    ext::fill(table);
    ext_comm::fill(table);
    hccl::fill(table);
    hccl_batch::fill(table);
    hccl_channel::fill(table);
    hccl_channel_config::fill(table);
    hccl_comm::fill(table);
    hccl_config::fill(table);
    hccl_engine_ctx::fill(table);
    hccl_group::fill(table);
    hccl_kernel::fill(table);
    hccl_messages::fill(table);
    hccl_ops::fill(table);
    hccl_rank_graph::fill(table);
    hccl_state::fill(table);
    hccl_tables::fill(table);
    hccl_team::fill(table);
    hccl_thread::fill(table);
    hccl_thread_export::fill(table);
    hcomm_channel::fill(table);
    hcomm_endpoint::fill(table);
    hcomm_mode::fill(table);
    hcomm_nbi::fill(table);
    hcomm_notify::fill(table);
    hcomm_task_cache::fill(table);
    hcomm_thread::fill(table);
    hcomm_transfer::fill(table);
}
