//! Notifies.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{abi_entry, out};
use crate::check;
use crate::context;
use crate::message::fail;
use crate::notify::{self, Notify};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, ACL_NOTIFY_DEVICE_USE_ONLY, Functions,
    aclError, aclrtNotify, aclrtStream,
};
use std::time::Duration;

pub(super) fn fill(table: &mut Functions) {
    table.aclrtCreateNotify = Some(aclrtCreateNotify);
    table.aclrtDestroyNotify = Some(aclrtDestroyNotify);
    table.aclrtRecordNotify = Some(aclrtRecordNotify);
    table.aclrtWaitAndResetNotify = Some(aclrtWaitAndResetNotify);
    table.aclrtGetNotifyId = Some(aclrtGetNotifyId);
    table.aclrtNotifyBatchReset = Some(aclrtNotifyBatchReset);
}

unsafe extern "C" fn aclrtCreateNotify(notify: *mut aclrtNotify, flag: u64) -> aclError {
    abi_entry("aclrtCreateNotify", || {
        // SAFETY: null, or valid for a write by the C contract.
        let notify = unsafe { out(notify, "notify") }?;
        if flag > u64::from(ACL_NOTIFY_DEVICE_USE_ONLY) {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "flag is {flag}; 0 or 1 is expected");
        }
        let (_, device) = context::current_device()?;
        notify.write(Notify::create(device)? as aclrtNotify);
        Ok(())
    })
}

unsafe extern "C" fn aclrtDestroyNotify(notify: aclrtNotify) -> aclError {
    abi_entry("aclrtDestroyNotify", || Notify::destroy(notify as u64))
}

unsafe extern "C" fn aclrtRecordNotify(notify: aclrtNotify, stream: aclrtStream) -> aclError {
    abi_entry("aclrtRecordNotify", || {
        let stream = Stream::of_current_context(stream as u64)?;
        check::submit(stream, "aclrtRecordNotify", notify::record(notify as u64)?).map(drop)
    })
}

unsafe extern "C" fn aclrtWaitAndResetNotify(
    notify: aclrtNotify,
    stream: aclrtStream,
    timeout: u32,
) -> aclError {
    abi_entry("aclrtWaitAndResetNotify", || {
        let limit = (timeout != 0).then(|| Duration::from_secs(timeout.into()));
        let stream = Stream::of_current_context(stream as u64)?;
        let wait = notify::wait(notify as u64, stream, limit)?;
        check::submit(stream, "aclrtWaitAndResetNotify", wait).map(drop)
    })
}

unsafe extern "C" fn aclrtGetNotifyId(notify: aclrtNotify, notify_id: *mut u32) -> aclError {
    abi_entry("aclrtGetNotifyId", || {
        // SAFETY: null, or valid for a write by the C contract.
        unsafe { out(notify_id, "notifyId") }?.write(Notify::named(notify as u64)?.id());
        Ok(())
    })
}

unsafe extern "C" fn aclrtNotifyBatchReset(notifies: *mut aclrtNotify, num: usize) -> aclError {
    abi_entry("aclrtNotifyBatchReset", || {
        if notifies.is_null() || num == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "notifies is NULL or num is 0");
        }
        // SAFETY: not null, and valid for `num` handles by the C contract.
        for notify in unsafe { std::slice::from_raw_parts(notifies, num) } {
            Notify::named(*notify as u64)?.clear(*notify as u64);
        }
        Ok(())
    })
}
