//! The entries of the ABI: C functions with CANN's names. An entry checks its arguments, catches panics and calls inward; nothing else.
//!
//! None of them is an exported symbol: the table holds their addresses.
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

pub(crate) mod acl;
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
pub(crate) mod ext;
pub(crate) mod hccl;
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

use crate::message::{Failure, PANICKED, fail, report};
use ascend_sys::{
    ACL_ERROR_INTERNAL_ERROR, ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, ACL_SUCCESS,
    aclError,
};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Runs the inside of a C function: a failure becomes its code, with the text noted for `aclGetRecentErrMsg`.
#[inline]
pub(crate) fn abi_entry(
    name: &'static str,
    inside: impl FnOnce() -> Result<(), Failure>,
) -> aclError {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(())) => ACL_SUCCESS,
        Ok(Err(failure)) => refuse(name, &failure),
        Err(_) => refuse(name, &panicked()),
    }
}

#[cold]
fn refuse(name: &str, failure: &Failure) -> aclError {
    let code = failure.acl_code();
    report(code, failure.told_by(name));
    code
}

#[cold]
fn panicked() -> Failure {
    Failure::new(ACL_ERROR_INTERNAL_ERROR, PANICKED)
}

/// Where a result goes.
///
/// # Safety
/// `to` is null, or valid for a write of a `T`.
pub(crate) unsafe fn out<'a, T>(
    to: *mut T,
    argument: &str,
) -> Result<&'a mut MaybeUninit<T>, Failure> {
    // SAFETY: the caller's promise; uninitialised memory is a valid `MaybeUninit`.
    match unsafe { to.cast::<MaybeUninit<T>>().as_mut() } {
        Some(to) => Ok(to),
        None => fail!(ACL_ERROR_INVALID_PARAM, "{argument} is NULL"),
    }
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
