//! The entries of the ABI: C functions with CANN's names. An entry checks its arguments, catches
//! panics and calls inward; nothing else.
//!
//! None of them is an exported symbol: the table holds their addresses.
//!
//! # To add a function of the ABI
//!
//! 1. Declare it below `ascend-sys/include` (of the runtime, types go into `acl/acl_base_rt.h` and
//!    functions into `acl/acl_rt.h`) in the section of its area (`/* Device */`), with a line in
//!    `symbols.csv`: name, library, first version; the libraries are those of `Symbol` in
//!    `ascend-sys/src/symbol.rs`. Run `cargo run --manifest-path ascend-sys/generate/Cargo.toml`,
//!    which needs libclang. A test compares the table with `tests/data/cann-abi.json`; functions
//!    that are not there are listed in `MORE_FUNCTIONS` of `tests/tests/all/abi.rs`.
//! 2. Write it in [`entries!`](entries) of its file: typed [arguments] (`rank: Out<u32>`, an array
//!    with the argument that is its length as `ranks: Slice<u32>[count]`), checks in CANN's order,
//!    one call. A function that differs from another in a word is a line of an `each` table at the
//!    end.
//! 3. A new file is a `mod` here and a line in [`fill`].
//! 4. A new kind of handle is a line of `handle_kinds!` in `slots.rs`, and an object in a file of
//!    its own: in slots where a wrong handle has a code of the runtime (`notify.rs` is the model:
//!    create, `named`, `destroy` retires and then recycles), in `operator::handles::Handles` where
//!    the code is `HCCL_E_PARA`. An object of a device ends in `ending.rs`. An argument is a
//!    `Handle<Object>`; to call `find` on it, say how in [`handles`].
//! 5. Test it through the table, in `ascend-sys/emulator/tests`.
//!
//! # What is not there
//!
//! A function of CANN that the emulator does not do is a line of the list in `unsupported_list.rs`:
//! its entry answers "not supported". To do it, take it off the list and write it as above. A test
//! checks that only functions that no library of CANN exports are `None` in the table. After a
//! change of the list `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all abi::page::` writes
//! the page of the book anew.
//!
//! Some of the functions do less than CANN's:
//! - Primitives of operators (`Hcomm...OnThread`) are called by the host, with the handles of any
//!   thread: there are no AICPU processors to call them. `HcclAllocNotify` and
//!   `HcclGetNotifyNumInThread` are in no header that the table is made from.
//! - `aclInit` follows `err_msg_mode` and `defaultDevice` of its configuration file, and ignores
//!   the rest of it.
//! - The stream flags PERSISTENT, DEVICE_USE_ONLY and CPU_SCHEDULE are kept and returned, and
//!   change nothing: such a stream takes tasks, and is waited for, like any other.
//! - Of a captured stream's flags, PERSISTENT, CPU_SCHEDULE and DEVICE_USE_ONLY are those that
//!   Begin refuses.
//! - Memory and notifies can be exported to processes of this machine only: the calls that permit
//!   processes of other servers are answered with "not supported" (207000).
//! - Events share one limit, that of the process. No device runs out of them by itself (207007),
//!   and recording never waits for one to become free.

mod acl;
mod acl_config;
mod acl_copy;
mod acl_copy_batch;
mod acl_copy_indirect;
mod acl_count_notify;
mod acl_data;
mod acl_device;
mod acl_event;
mod acl_exception;
mod acl_graph;
mod acl_graph_build;
mod acl_graph_tasks;
mod acl_ipc;
mod acl_kernel;
mod acl_kernel_args;
mod acl_launch;
mod acl_limits;
mod acl_memory;
mod acl_memory_pool;
mod acl_notify;
mod acl_prof;
mod acl_reduce;
mod acl_shareable;
mod acl_state;
mod acl_stream;
mod acl_value;
mod acl_virtual_memory;
mod arguments;
mod entries;
mod ext;
mod ext_comm;
mod files;
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
mod hccl_windows;
mod hcomm_channel;
mod hcomm_endpoint;
mod hcomm_mode;
mod hcomm_nbi;
mod hcomm_notify;
mod hcomm_task_cache;
mod hcomm_thread;
mod hcomm_transfer;
pub(crate) mod unsupported;
mod unsupported_list;

use ascend_sys::Functions;

/// Puts all functions into a table.
pub(crate) fn fill(table: &mut Functions) {
    acl::fill(table);
    acl_copy::fill(table);
    acl_copy_batch::fill(table);
    acl_copy_indirect::fill(table);
    acl_count_notify::fill(table);
    acl_data::fill(table);
    acl_device::fill(table);
    acl_event::fill(table);
    acl_exception::fill(table);
    acl_graph::fill(table);
    acl_graph_build::fill(table);
    acl_graph_tasks::fill(table);
    acl_ipc::fill(table);
    acl_kernel::fill(table);
    acl_kernel_args::fill(table);
    acl_limits::fill(table);
    acl_launch::fill(table);
    acl_memory::fill(table);
    acl_memory_pool::fill(table);
    acl_notify::fill(table);
    acl_prof::fill(table);
    acl_reduce::fill(table);
    acl_shareable::fill(table);
    acl_state::fill(table);
    acl_stream::fill(table);
    acl_value::fill(table);
    acl_virtual_memory::fill(table);
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
    hccl_windows::fill(table);
    hcomm_channel::fill(table);
    hcomm_endpoint::fill(table);
    hcomm_mode::fill(table);
    hcomm_nbi::fill(table);
    hcomm_notify::fill(table);
    hcomm_task_cache::fill(table);
    hcomm_thread::fill(table);
    hcomm_transfer::fill(table);
    unsupported::fill(table);
}
