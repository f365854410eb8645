//! The entries for counting notifies.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, In, Out};
use super::entries::{Acl, entries};
use crate::context;
use crate::count_notify::{self, AwaitedCount, CountChange, CountCondition, CountNotify};
use crate::message::fail;
use crate::stream::Stream;
use crate::submit;
use ascend_sys::{
    ACL_ERROR_RT_PARAM_INVALID, ACL_NOTIFY_DEVICE_USE_ONLY, aclrtCntNotify,
    aclrtCntNotifyRecordInfo, aclrtCntNotifyRecordMode as RecordMode, aclrtCntNotifyWaitInfo,
    aclrtCntNotifyWaitMode as WaitMode,
};
use std::time::Duration;

entries! {
    Acl;

    fn aclrtCntNotifyCreate(cnt_notify: Out<aclrtCntNotify>, flag: u64) {
        let cnt_notify = cnt_notify.required("cntNotify")?;
        if flag > u64::from(ACL_NOTIFY_DEVICE_USE_ONLY) {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "flag is {flag}; pass 0 or 1");
        }
        let (_, device) = context::current_device()?;
        cnt_notify.write(CountNotify::create(device)? as aclrtCntNotify);
        Ok(())
    }

    fn aclrtCntNotifyDestroy(cnt_notify: Handle<CountNotify>) {
        CountNotify::destroy(cnt_notify.number())
    }

    fn aclrtCntNotifyRecord(
        cnt_notify: Handle<CountNotify>,
        stream: Handle<Stream>,
        info: In<aclrtCntNotifyRecordInfo, *mut aclrtCntNotifyRecordInfo>,
    ) {
        let aclrtCntNotifyRecordInfo { mode, value } = *info.required("info")?;
        let change = match mode {
            RecordMode::ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE => CountChange::Set(value),
            RecordMode::ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE => CountChange::Add(value),
            RecordMode::ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE => CountChange::Or(value),
            RecordMode::ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE => CountChange::And(value),
            RecordMode(mode) => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "info: mode is {mode}; set 0 (SET_VALUE), 1 (ADD), 2 (BIT_OR) or 4 (BIT_AND)"
                );
            }
        };
        let stream = stream.find()?;
        let task = count_notify::change(cnt_notify.number(), change)?;
        submit::submit(stream, ENTRY, task).map(drop)
    }

    fn aclrtCntNotifyWaitWithTimeout(
        cnt_notify: Handle<CountNotify>,
        stream: Handle<Stream>,
        info: In<aclrtCntNotifyWaitInfo, *mut aclrtCntNotifyWaitInfo>,
    ) {
        let aclrtCntNotifyWaitInfo { mode, value, timeout, isClear, .. } = *info.required("info")?;
        let condition = match mode {
            WaitMode::ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE => CountCondition::Less,
            WaitMode::ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE => CountCondition::Equal,
            WaitMode::ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE => CountCondition::Bigger,
            WaitMode::ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE => CountCondition::BiggerOrEqual,
            WaitMode::ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE => CountCondition::HasBits,
            WaitMode(mode) => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "info: mode is {mode}; set 0 (LESS), 1 (EQUAL), 2 (BIGGER), 3 \
                     (BIGGER_OR_EQUAL) or 4 (EQUAL_WITH_BITMASK)"
                );
            }
        };
        let limit = (timeout != 0).then(|| Duration::from_secs(timeout.into()));
        let stream = stream.find()?;
        let awaited = AwaitedCount { condition, value, clears: isClear != 0 };
        let task = count_notify::wait(cnt_notify.number(), stream, awaited, limit)?;
        submit::submit(stream, ENTRY, task).map(drop)
    }

    fn aclrtCntNotifyReset(cnt_notify: Handle<CountNotify>, stream: Handle<Stream>) {
        let stream = stream.find()?;
        let task = count_notify::change(cnt_notify.number(), CountChange::Set(0))?;
        submit::submit(stream, ENTRY, task).map(drop)
    }

    fn aclrtCntNotifyGetId(cnt_notify: Handle<CountNotify>, notify_id: Out<u32>) {
        notify_id.required("notifyId")?.write(cnt_notify.find()?.id());
        Ok(())
    }
}
