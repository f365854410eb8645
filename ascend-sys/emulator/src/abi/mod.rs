//! The doors: C functions with CANN's names. A door checks its arguments, catches panics and calls inward; nothing else.
//!
//! None of them is an exported symbol: the table holds their addresses.

pub(crate) mod acl;
mod acl_copy;
mod acl_device;
mod acl_event;
mod acl_memory;
mod acl_notify;
mod acl_stream;
pub(crate) mod ext;
pub(crate) mod hccl;
mod hccl_batch;
mod hccl_comm;
mod hccl_ops;
mod hccl_state;

use crate::message::{Failure, fail, report};
use ascend_sys::{
    ACL_ERROR_INTERNAL_ERROR, ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, ACL_SUCCESS,
    aclError,
};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Runs the inside of a C function: a failure becomes its code, with the text noted for `aclGetRecentErrMsg`.
#[inline]
pub(crate) fn door(name: &'static str, inside: impl FnOnce() -> Result<(), Failure>) -> aclError {
    match catch_unwind(AssertUnwindSafe(inside)) {
        Ok(Ok(())) => ACL_SUCCESS,
        Ok(Err(failure)) => refuse(name, &failure),
        Err(_) => refuse(name, &panicked()),
    }
}

#[cold]
fn refuse(name: &str, failure: &Failure) -> aclError {
    report(failure.code, failure.told_by(name));
    failure.code
}

#[cold]
fn panicked() -> Failure {
    Failure::new(
        ACL_ERROR_INTERNAL_ERROR,
        "the emulator panicked; this is a defect of the emulator",
    )
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
