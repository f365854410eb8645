//! Arguments that are not typed yet: bytes and texts with a length beside them, limits in milliseconds.

use crate::message::{Failure, fail};
use ascend_sys::{ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID};
use std::ffi::{c_char, c_void};
use std::time::Duration;

/// Bytes of the caller.
///
/// # Safety
/// `data` is null, or valid for `length` bytes.
pub(super) unsafe fn bytes<'a>(
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
pub(super) unsafe fn write_text(to: *mut c_char, length: usize, words: &str) {
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
pub(super) fn limit(milliseconds: i32) -> Result<Option<Duration>, Failure> {
    match milliseconds {
        -1 => Ok(None),
        0.. => Ok(Some(Duration::from_millis(milliseconds as u64))),
        _ => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "timeout is {milliseconds}; it must be -1 (for ever) or at least 0"
        ),
    }
}
