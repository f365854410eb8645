//! The entries of the ABI: C functions with CANN's names. An entry only checks its arguments,
//! catches panics and calls an inner function.
//!
//! Entries are not exported symbols; the function table holds their addresses.
//!
//! # To add a function of the ABI
//!
//! 1. Declare it in a header below `ascend-sys/include`, in the section of its area (`/* Device
//!    */`). Types of the runtime belong to `acl/acl_base_rt.h`, its functions to `acl/acl_rt.h`.
//!    Add a line to `symbols.csv`: name, library, first version. The libraries are those of
//!    `Symbol` in `ascend-sys/src/symbol.rs`. Run `cargo run --manifest-path
//!    ascend-sys/generate/Cargo.toml`, which needs libclang. A test compares the table with
//!    `tests/data/cann-abi.json`; functions that this file lacks are listed in `MORE_FUNCTIONS` of
//!    `tests/tests/all/abi.rs`.
//! 2. Write it in [`entries!`](entries) of its file: typed [arguments], checks in CANN's order, and
//!    one call. Write an argument as `rank: Out<u32>`. Write an array with the name of its length
//!    argument: `ranks: Slice<u32>[count]`. Functions that differ only in one word are the lines of
//!    an `each` table at the end.
//! 3. A new file is a `mod` here and a line in [`fill`].
//! 4. A new kind of handle needs a line in `handle_kinds!` in `slots.rs`, and a file for its
//!    object. If the code for a wrong handle is one of the runtime, keep the object in slots. The
//!    model is `notify.rs`: `create`, `named`, and `destroy`, which retires and then recycles. If
//!    the code is `HCCL_E_PARA`, keep the object in `operator::handles::Handles`. End the objects
//!    of a device in `ending.rs`. The argument type is `Handle<Object>`; for its method `find`,
//!    implement `Named` in [`handles`].
//! 5. Test it through the table, in `ascend-sys/emulator/tests`.
//!
//! # Differences from CANN
//!
//! A function of CANN that the emulator does not implement is in the list in `unsupported_list.rs`,
//! and its entry returns "not supported". To implement it, remove it from the list and write it as
//! above. A test checks that a function is `None` in the table only if no library of CANN exports
//! it. After a change of the list, `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all
//! abi::page::` rewrites the page of the book.
//!
//! Some functions do less than those of CANN:
//! - The host calls the primitives of operators (`Hcomm...OnThread`) with the handles of any
//!   thread, because there are no AICPU processors to call them. The headers from which the table
//!   is made do not declare `HcclAllocNotify` and `HcclGetNotifyNumInThread`.
//! - `aclInit` uses only `err_msg_mode` and `defaultDevice` of its configuration file.
//! - The stream flags PERSISTENT, DEVICE_USE_ONLY and CPU_SCHEDULE are stored and returned, but
//!   have no effect. A stream with these flags accepts tasks and can be waited for.
//! - A capture cannot begin on a stream with the flag PERSISTENT, CPU_SCHEDULE or DEVICE_USE_ONLY.
//! - Memory and notifies can be exported only to processes of this machine. The calls that permit
//!   processes of other servers return "not supported" (207000).
//! - The process has one limit for all events. A single device does not run out of events (207007),
//!   and recording an event never waits for a free event.

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
pub(crate) mod undeclared;
pub(crate) mod unsupported;
pub(crate) mod unsupported_list;

use ascend_sys::Functions;

/// Puts all functions into the function table.
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
    unsupported_list::fill(table);
}
