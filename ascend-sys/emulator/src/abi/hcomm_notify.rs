//! Primitives that synchronise. CANN's `hcomm_primitives.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use ascend_sys::{ChannelHandle, Functions, ThreadHandle};

use super::hcomm_transfer::primitive;
use crate::message::refuse;
use crate::operator::crossing::{Crossing, cross};
use crate::operator::engine::OperatorEngine;
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
    primitive(NAME, || cross(NAME, thread, channel, Crossing::Record(index)))
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
    primitive(NAME, || {
        let waits = issue::thread_of(thread)?;
        if waits.owner().is_some_and(|owner| owner.engine == OperatorEngine::Cpu) {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "{} is a thread of the host, which has no default limit for notifies of channels; say one: HcommChannelNotifyWaitOnThread",
                waits.describe()
            );
        }
        issue::wait_channel(NAME, thread, channel, index, Limit::Default)
    })
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
