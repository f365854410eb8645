//! The entries of the ABI: C functions with CANN's names. An entry checks its arguments, catches panics and calls inward;
//! nothing else.
//!
//! None of them is an exported symbol: the table holds their addresses.
//!
//! # To add a function of the ABI
//!
//! 1. Declare it below `ascend-sys/include`, with a line in `symbols.csv`; run `ascend-sys/generate`.
//! 2. Write its line in `entries!` of its file: typed [arguments], checks in CANN's order, one call.
//! 3. A new file is a `mod` here and a line in [`fill`].
//! 4. A new kind of handle is a variant of `slots::HandleKind`, a `Slotted` object and its `Slots`;
//!    for objects of operators, an `operator::handles::Handles` with a first byte of its own.
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
mod ext;
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

use crate::message::{Failure, fail};
use ascend_sys::{ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, Functions};
use std::ffi::{c_char, c_void};
use std::time::Duration;

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

/// Bytes of the caller.
///
/// # Safety
/// `data` is null, or valid for `length` bytes.
pub(crate) unsafe fn bytes<'a>(
    data: *const c_void,
    length: usize,
    argument: &str,
) -> Result<&'a [u8], Failure> {
    if data.is_null() || length == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "{argument} is NULL or has no bytes");
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
}

/// Writes words with a NUL behind them, cut to `length` bytes.
///
/// # Safety
/// `to` is null, or valid for `length` bytes.
pub(crate) unsafe fn write_text(to: *mut c_char, length: usize, words: &str) {
    if to.is_null() || length == 0 {
        return;
    }
    let words = &words.as_bytes()[..words.len().min(length - 1)];
    // SAFETY: the caller's promise; the words and their NUL are no more than `length`.
    unsafe {
        std::ptr::copy_nonoverlapping(words.as_ptr(), to.cast(), words.len());
        *to.add(words.len()) = 0;
    }
}

/// A limit in milliseconds, where -1 is none.
pub(crate) fn limit(milliseconds: i32) -> Result<Option<Duration>, Failure> {
    match milliseconds {
        -1 => Ok(None),
        0.. => Ok(Some(Duration::from_millis(milliseconds as u64))),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "timeout is {milliseconds}; it must be -1 (for ever) or at least 0"
        ),
    }
}
