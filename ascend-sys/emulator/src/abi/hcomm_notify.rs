//! Primitives that synchronise, and the batch mode. CANN's `hcomm_primitives.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::{CStr, c_char};
use std::time::Duration;

use ascend_sys::{ChannelHandle, Functions, ThreadHandle};

use super::hcomm_transfer::primitive;
use crate::collective::validate::{Refusal, refuse};
use crate::operator::batch_mode;
use crate::operator::issue::{self, Limit};

pub(super) fn fill(table: &mut Functions) {
    table.HcommThreadNotifyRecordOnThread = Some(HcommThreadNotifyRecordOnThread);
    table.HcommThreadNotifyWaitOnThread = Some(HcommThreadNotifyWaitOnThread);
    table.HcommThreadNotifyWaitOnThreadWithDefaultTimeout =
        Some(HcommThreadNotifyWaitOnThreadWithDefaultTimeout);
    table.HcommChannelNotifyRecordOnThread = Some(HcommChannelNotifyRecordOnThread);
    table.HcommChannelNotifyWaitOnThread = Some(HcommChannelNotifyWaitOnThread);
    table.HcommChannelNotifyWaitOnThreadWithDefaultTimeout =
        Some(HcommChannelNotifyWaitOnThreadWithDefaultTimeout);
    table.HcommAclrtNotifyRecordOnThread = Some(HcommAclrtNotifyRecordOnThread);
    table.HcommAclrtNotifyWaitOnThread = Some(HcommAclrtNotifyWaitOnThread);
    table.HcommSetNotifyWaitTimeOut = Some(HcommSetNotifyWaitTimeOut);
    table.HcommThreadResAcquireTimeOut = Some(HcommThreadResAcquireTimeOut);
    table.HcommBatchModeStart = Some(HcommBatchModeStart);
    table.HcommBatchModeEnd = Some(HcommBatchModeEnd);
}

unsafe extern "C" fn HcommThreadNotifyRecordOnThread(
    thread: ThreadHandle,
    of: ThreadHandle,
    index: u32,
) -> i32 {
    const NAME: &str = "HcommThreadNotifyRecordOnThread";
    primitive(NAME, || issue::record_thread(NAME, thread, of, index))
}

unsafe extern "C" fn HcommThreadNotifyWaitOnThread(
    thread: ThreadHandle,
    index: u32,
    timeout: u32,
) -> i32 {
    const NAME: &str = "HcommThreadNotifyWaitOnThread";
    primitive(NAME, || issue::wait_thread(NAME, thread, index, Limit::Seconds(timeout)))
}

unsafe extern "C" fn HcommThreadNotifyWaitOnThreadWithDefaultTimeout(
    thread: ThreadHandle,
    index: u32,
) -> i32 {
    const NAME: &str = "HcommThreadNotifyWaitOnThreadWithDefaultTimeout";
    primitive(NAME, || issue::wait_thread(NAME, thread, index, Limit::Default))
}

unsafe extern "C" fn HcommChannelNotifyRecordOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    index: u32,
) -> i32 {
    const NAME: &str = "HcommChannelNotifyRecordOnThread";
    primitive(NAME, || issue::record_channel(NAME, thread, channel, index))
}

unsafe extern "C" fn HcommChannelNotifyWaitOnThread(
    thread: ThreadHandle,
    channel: ChannelHandle,
    index: u32,
    timeout: u32,
) -> i32 {
    const NAME: &str = "HcommChannelNotifyWaitOnThread";
    primitive(NAME, || issue::wait_channel(NAME, thread, channel, index, Limit::Seconds(timeout)))
}

unsafe extern "C" fn HcommChannelNotifyWaitOnThreadWithDefaultTimeout(
    thread: ThreadHandle,
    channel: ChannelHandle,
    index: u32,
) -> i32 {
    const NAME: &str = "HcommChannelNotifyWaitOnThreadWithDefaultTimeout";
    primitive(NAME, || issue::wait_channel(NAME, thread, channel, index, Limit::Default))
}

unsafe extern "C" fn HcommAclrtNotifyRecordOnThread(thread: ThreadHandle, notify: u64) -> i32 {
    const NAME: &str = "HcommAclrtNotifyRecordOnThread";
    primitive(NAME, || issue::record_aclrt(NAME, thread, notify))
}

unsafe extern "C" fn HcommAclrtNotifyWaitOnThread(
    thread: ThreadHandle,
    notify: u64,
    timeout: u32,
) -> i32 {
    const NAME: &str = "HcommAclrtNotifyWaitOnThread";
    primitive(NAME, || issue::wait_aclrt(NAME, thread, notify, Limit::Seconds(timeout)))
}

/// Seconds of a C caller.
fn seconds(seconds: f32) -> Result<Duration, Refusal> {
    match Duration::try_from_secs_f32(seconds) {
        Ok(limit) => Ok(limit),
        Err(_) => refuse!(
            HCCL_E_PARA,
            "timeOut is {seconds}; a number of seconds is expected, 0 is for ever"
        ),
    }
}

unsafe extern "C" fn HcommSetNotifyWaitTimeOut(timeout: f32) -> i32 {
    primitive("HcommSetNotifyWaitTimeOut", || {
        issue::set_default_limit(seconds(timeout)?);
        Ok(())
    })
}

/// Threads are there at once: there is nothing to wait for.
unsafe extern "C" fn HcommThreadResAcquireTimeOut(timeout: f32) -> i32 {
    primitive("HcommThreadResAcquireTimeOut", || seconds(timeout).map(drop))
}

/// A tag, which may be NULL.
///
/// # Safety
///
/// `tag` is null or NUL-terminated.
unsafe fn tag_of(tag: *const c_char) -> Option<String> {
    // SAFETY: the caller's promise.
    (!tag.is_null()).then(|| unsafe { CStr::from_ptr(tag) }.to_string_lossy().into_owned())
}

unsafe extern "C" fn HcommBatchModeStart(tag: *const c_char) -> i32 {
    // SAFETY: null, or NUL-terminated by the C contract.
    primitive("HcommBatchModeStart", || batch_mode::start(unsafe { tag_of(tag) }))
}

unsafe extern "C" fn HcommBatchModeEnd(tag: *const c_char) -> i32 {
    // SAFETY: null, or NUL-terminated by the C contract.
    primitive("HcommBatchModeEnd", || batch_mode::end(unsafe { tag_of(tag) }.as_deref()))
}
