//! The entries for notifies.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_ipc::{exporter, has_room, one_flag, other_servers, own_home, permit};
use super::arguments::{CText, Handle, MOST_ITEMS, Out, OutText, Slice};
use super::entries::{Acl, entries};
use crate::context;
use crate::ipc::import::import_notify;
use crate::ipc::key::{ExportKey, ExportKind};
use crate::message::{Failure, fail};
use crate::notify::{self, Notify};
use crate::stream::Stream;
use crate::submit;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, ACL_NOTIFY_DEVICE_USE_ONLY,
    ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS,
    aclrtNotify, aclrtServerPid,
};
use std::time::Duration;

entries! {
    Acl;

    fn aclrtCreateNotify(notify: Out<aclrtNotify>, flag: u64) {
        let notify = notify.required("notify")?;
        if flag > u64::from(ACL_NOTIFY_DEVICE_USE_ONLY) {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "flag is {flag}; pass 0 or 1");
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
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "notifies is NULL or num is 0; pass at least one notify"
            );
        }
        let notifies = notifies.required("notifies")?;
        let notifies = notifies.counted(MOST_ITEMS, "num", ACL_ERROR_RT_PARAM_INVALID)?;
        for notify in notifies.iter() {
            Notify::named(*notify as u64)?.clear(*notify as u64)?;
        }
        Ok(())
    }

    fn aclrtNotifyGetExportKey(
        notify: Handle<Notify>,
        key: OutText[len],
        len: usize,
        flags: u64,
    ) {
        if key.is_null() {
            return Err(Failure::null("key"));
        }
        let is_open = one_flag(flags, ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION)?;
        has_room(len)?;
        context::current_device()?;
        key.write(&notify.find()?.export(own_home()?, !is_open)?.text());
        Ok(())
    }

    fn aclrtNotifyImportByKey(notify: Out<aclrtNotify>, key: CText, flags: u64) {
        let notify = notify.required("notify")?;
        let key = ExportKey::of(key.as_it_is("key")?.to_bytes(), ExportKind::Notify)?;
        one_flag(flags, ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS)?;
        let (_, device) = context::current_device()?;
        let shared = import_notify(&exporter(&key)?, &key)?;
        notify.write(Notify::import(device, shared)? as aclrtNotify);
        Ok(())
    }

    fn aclrtNotifySetImportPid(
        notify: Handle<Notify>,
        pid: Slice<i32, *mut i32>[num],
        num: usize,
    ) {
        permit(notify.find()?.export_number()?, pid, num)
    }

    fn aclrtNotifySetImportPidInterServer(
        notify: Handle<Notify>,
        server_pids: *mut aclrtServerPid,
        num: usize,
    ) {
        notify.find()?.export_number()?;
        other_servers(server_pids, num)
    }
}
