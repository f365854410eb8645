//! Notifies.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Out;
use super::entries::{Acl, entries};
use crate::check;
use crate::context;
use crate::message::fail;
use crate::notify::{self, Notify};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, ACL_NOTIFY_DEVICE_USE_ONLY, aclrtNotify,
    aclrtStream,
};
use std::time::Duration;

entries! {
    Acl;

    fn aclrtCreateNotify(notify: Out<aclrtNotify>, flag: u64) {
        let notify = notify.required("notify")?;
        if flag > u64::from(ACL_NOTIFY_DEVICE_USE_ONLY) {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "flag is {flag}; 0 or 1 is expected");
        }
        let (_, device) = context::current_device()?;
        notify.write(Notify::create(device)? as aclrtNotify);
        Ok(())
    }

    fn aclrtDestroyNotify(notify: aclrtNotify) {
        Notify::destroy(notify as u64)
    }

    fn aclrtRecordNotify(notify: aclrtNotify, stream: aclrtStream) {
        let stream = Stream::of_current_context(stream as u64)?;
        check::submit(stream, ENTRY, notify::record(notify as u64)?).map(drop)
    }

    fn aclrtWaitAndResetNotify(notify: aclrtNotify, stream: aclrtStream, timeout: u32) {
        let limit = (timeout != 0).then(|| Duration::from_secs(timeout.into()));
        let stream = Stream::of_current_context(stream as u64)?;
        let wait = notify::wait(notify as u64, stream, limit)?;
        check::submit(stream, ENTRY, wait).map(drop)
    }

    fn aclrtGetNotifyId(notify: aclrtNotify, notify_id: Out<u32>) {
        notify_id.required("notifyId")?.write(Notify::named(notify as u64)?.id());
        Ok(())
    }

    fn aclrtNotifyBatchReset(notifies: *mut aclrtNotify, num: usize) {
        if notifies.is_null() || num == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "notifies is NULL or num is 0");
        }
        // SAFETY: not null, and valid for `num` handles by the C contract.
        for notify in unsafe { std::slice::from_raw_parts(notifies, num) } {
            Notify::named(*notify as u64)?.clear(*notify as u64);
        }
        Ok(())
    }
}
