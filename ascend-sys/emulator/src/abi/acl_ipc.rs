//! The entries for memory that processes share by keys.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, MOST_ITEMS, Out, OutText, Slice};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::context;
use crate::fabric::processes::{home, reach};
use crate::ipc::ask::ANSWER;
use crate::ipc::exports;
use crate::ipc::key::{ExportKey, ExportKind, KEY};
use crate::ipc::memory;
use crate::message::{Failure, fail};
use crate::processes::peer::Peer;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_IPC_ERROR,
    ACL_ERROR_RT_PARAM_INVALID, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_MULTI_PORT_PATH,
    ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
    ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS, aclrtIpcMemAttrType, aclrtServerPid,
};
use std::ffi::{CStr, c_void};
use std::sync::Arc;

entries! {
    Acl;

    fn aclrtIpcMemGetExportKey(
        dev_ptr: *mut c_void,
        size: usize,
        key: OutText[len],
        len: usize,
        flags: u64,
    ) {
        if dev_ptr.is_null() || key.is_null() || size == 0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "devPtr or key is NULL, or size is 0; pass device memory, its size, and a buffer \
                 for the key"
            );
        }
        let is_open = one_flag(flags, ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION)?;
        has_room(len)?;
        context::current_device()?;
        let made = memory::export_memory(own_home()?, dev_ptr.addr(), size, !is_open)?;
        key.write(&made.text());
        Ok(())
    }

    fn aclrtIpcMemImportByKey(dev_ptr: Out<*mut c_void>, key: CText, flags: u64) {
        let dev_ptr = dev_ptr.required("devPtr")?;
        let key = ExportKey::of(key.as_it_is("key")?.to_bytes(), ExportKind::Memory)?;
        let with_peer = one_flag(flags, ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS)?;
        let (_, device) = context::current_device()?;
        let peer = exporter(&key)?;
        let (address, card) = memory::import_memory(&peer, &key, device)?;
        if with_peer && card.id != device.id {
            device.peers().insert(card.id);
        }
        dev_ptr.write(std::ptr::with_exposed_provenance_mut(address));
        Ok(())
    }

    fn aclrtIpcMemClose(key: CText) {
        let key = ExportKey::of(key.as_it_is("key")?.to_bytes(), ExportKind::Memory)?;
        context::current_device()?;
        if key.home == own_home()? {
            return exports::close_memory(key.number);
        }
        may_block()?;
        match memory::close_import(&key) {
            Some(closed) => closed,
            None => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "this process has no import of this key: it never had one, has closed it already, or \
                 the exporter has freed the memory; close each import once"
            ),
        }
    }

    fn aclrtIpcMemSetImportPid(key: CText, pid: Slice<i32, *mut i32>[num], num: usize) {
        let number = own_export(key.as_it_is("key")?)?;
        permit(number, pid, num)
    }

    fn aclrtIpcMemImportPidInterServer(
        key: CText,
        server_pids: *mut aclrtServerPid,
        num: usize,
    ) {
        own_export(key.as_it_is("key")?)?;
        other_servers(server_pids, num)
    }

    fn aclrtIpcMemSetAttr(key: CText, kind: aclrtIpcMemAttrType, attr: u64) {
        let number = own_export(key.as_it_is("key")?)?;
        let most = ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_MULTI_PORT_PATH as u64;
        if kind != aclrtIpcMemAttrType::ACL_RT_IPC_MEM_ATTR_ACCESS_LINK || attr > most {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "type is {} and attr is {attr}; pass type 0 (ACCESS_LINK) and attr 0 to {most}",
                kind.0
            );
        }
        // The emulator has only one kind of link, so the setting has no effect.
        exports::permit(number, &[])
    }
}

/// Checks that a buffer of `len` bytes has room for a key and its NUL.
pub(super) fn has_room(len: usize) -> Result<(), Failure> {
    if len <= KEY {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "len is {len}; pass a buffer of at least {} bytes, for a key and its NUL",
            KEY + 1
        );
    }
    Ok(())
}

/// Returns whether the only known flag is set. Returns an error for other flags.
pub(super) fn one_flag(flags: u64, known: u64) -> Result<bool, Failure> {
    if flags & !known != 0 {
        return fail!(ACL_ERROR_RT_PARAM_INVALID, "flags is {flags:#x}; pass 0 or {known:#x}");
    }
    Ok(flags != 0)
}

pub(super) fn own_home() -> Result<crate::processes::peer::Home, Failure> {
    home().map_err(|text| Failure::new(ACL_ERROR_RT_IPC_ERROR, text))
}

/// Returns the process that has exported an object; it must not be this process. If that process is
/// not connected yet, blocks until it answers, for at most `ANSWER`.
pub(super) fn exporter(key: &ExportKey) -> Result<Arc<Peer>, Failure> {
    if key.home == own_home()? {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{} is imported in the process that has exported it; import it in another process",
            key.kind.name()
        );
    }
    may_block()?;
    reach(&key.home, ANSWER).map_err(|text| Failure::new(ACL_ERROR_RT_IPC_ERROR, text))
}

/// Returns the number of an export of memory by this process.
fn own_export(key: &CStr) -> Result<u64, Failure> {
    let key = ExportKey::of(key.to_bytes(), ExportKind::Memory)?;
    context::current_device()?;
    if key.home != own_home()? {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "process {} has exported this memory, and only that process may permit imports; call \
             this function there",
            key.home.process
        );
    }
    Ok(key.number)
}

/// Permits processes to import the object that is exported under a number.
pub(super) fn permit(number: u64, pid: Slice<i32, *mut i32>, num: usize) -> Result<(), Failure> {
    if pid.is_null() || num == 0 {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "pid is NULL or num is 0; pass at least one process id"
        );
    }
    let processes = pid.required("pid")?.counted(MOST_ITEMS, "num", ACL_ERROR_RT_PARAM_INVALID)?;
    if let Some(wrong) = processes.iter().find(|process| **process <= 0) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "pid {wrong} is not the number of a process; pass positive process ids"
        );
    }
    exports::permit(number, &processes)
}

/// Returns the error for processes of other servers, which do not exist.
pub(super) fn other_servers(list: *mut aclrtServerPid, num: usize) -> Result<(), Failure> {
    if list.is_null() || num == 0 {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "serverPids is NULL or num is 0; pass at least one entry"
        );
    }
    fail!(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "the emulator's machine is one server; permit its processes by aclrtIpcMemSetImportPid or \
         aclrtNotifySetImportPid"
    )
}
