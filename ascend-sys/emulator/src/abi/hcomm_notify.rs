//! The entries for primitives that synchronise, as in CANN's `hcomm_primitives.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::entries::{Hcomm, entries};
use ascend_sys::{ChannelHandle, ThreadHandle};

use crate::message::refuse;
use crate::operator::crossing::{Crossing, cross};
use crate::operator::engine::OperatorEngine;
use crate::operator::issue::{self, Limit};

entries! {
    Hcomm;

    fn HcommThreadNotifyRecordOnThread(thread: ThreadHandle, of: ThreadHandle, index: u32) {
        issue::record_thread(ENTRY, thread, of, index)
    }

    fn HcommThreadNotifyWaitOnThread(thread: ThreadHandle, index: u32, timeout: u32) {
        issue::wait_thread(ENTRY, thread, index, Limit::Seconds(timeout))
    }

    fn HcommThreadNotifyWaitOnThreadWithDefaultTimeout(thread: ThreadHandle, index: u32) {
        issue::wait_thread(ENTRY, thread, index, Limit::Default)
    }

    fn HcommChannelNotifyRecordOnThread(thread: ThreadHandle, channel: ChannelHandle, index: u32) {
        cross(ENTRY, thread, channel, Crossing::Record(index))
    }

    fn HcommChannelNotifyWaitOnThread(
        thread: ThreadHandle,
        channel: ChannelHandle,
        index: u32,
        timeout: u32,
    ) {
        issue::wait_channel(ENTRY, thread, channel, index, Limit::Seconds(timeout))
    }

    fn HcommChannelNotifyWaitOnThreadWithDefaultTimeout(
        thread: ThreadHandle,
        channel: ChannelHandle,
        index: u32,
    ) {
        let waits = issue::thread_of(thread)?;
        if waits.owner().is_some_and(|owner| owner.engine == OperatorEngine::Cpu) {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "{} is a thread of the host, which has no default limit for notifies of channels; pass a limit to HcommChannelNotifyWaitOnThread",
                waits.describe()
            );
        }
        issue::wait_channel(ENTRY, thread, channel, index, Limit::Default)
    }

    fn HcommAclrtNotifyRecordOnThread(thread: ThreadHandle, notify: u64) {
        issue::record_aclrt(ENTRY, thread, notify)
    }

    fn HcommAclrtNotifyWaitOnThread(thread: ThreadHandle, notify: u64, timeout: u32) {
        issue::wait_aclrt(ENTRY, thread, notify, Limit::Seconds(timeout))
    }
}
