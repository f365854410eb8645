//! Notifies.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Out, Slice};
use super::entries::{Acl, entries};
use crate::context;
use crate::message::fail;
use crate::notify::{self, Notify};
use crate::stream::Stream;
use crate::submit;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, ACL_NOTIFY_DEVICE_USE_ONLY, aclrtNotify,
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

    fn aclrtDestroyNotify(notify: Handle<Notify>) {
        Notify::destroy(notify.number())
    }

    fn aclrtRecordNotify(notify: Handle<Notify>, stream: Handle<Stream>) {
        let stream = stream.find()?;
        submit::submit(stream, ENTRY, notify::record(notify.number())?).map(drop)
    }

    fn aclrtWaitAndResetNotify(notify: Handle<Notify>, stream: Handle<Stream>, timeout: u32) {
        let limit = (timeout != 0).then(|| Duration::from_secs(timeout.into()));
        let stream = stream.find()?;
        let wait = notify::wait(notify.number(), stream, limit)?;
        submit::submit(stream, ENTRY, wait).map(drop)
    }

    fn aclrtGetNotifyId(notify: Handle<Notify>, notify_id: Out<u32>) {
        notify_id.required("notifyId")?.write(notify.find()?.id());
        Ok(())
    }

    fn aclrtNotifyBatchReset(notifies: Slice<aclrtNotify, *mut aclrtNotify>[num], num: usize) {
        if notifies.is_null() || num == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "notifies is NULL or num is 0");
        }
        for notify in notifies.required("notifies")?.iter() {
            Notify::named(*notify as u64)?.clear(*notify as u64);
        }
        Ok(())
    }
}
