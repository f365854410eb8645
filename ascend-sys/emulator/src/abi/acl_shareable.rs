//! The entries for physical memory that processes share by handles.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_ipc::{exporter, one_flag, own_home, permit};
use super::acl_virtual_memory::{PhysicalMemory, is_zero};
use super::arguments::{Handle, Out, Place, Slice};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::fabric::processes::{announce, find};
use crate::ipc::ask::ANSWER;
use crate::ipc::key::{ExportKey, ExportKind, KEY};
use crate::machine::Device;
use crate::message::{Failure, fail};
use crate::virtual_memory::shared;
use crate::{context, machine};
use ascend_sys::{
    ACL_ERROR_RT_IPC_ERROR, ACL_ERROR_RT_PARAM_INVALID,
    ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, aclrtDrvMemHandle, aclrtMemFabricHandle,
    aclrtMemHandleType, aclrtMemSharedHandleType,
};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtMemExportToShareableHandle(
        handle: Handle<PhysicalMemory>,
        handle_type: aclrtMemHandleType,
        flags: u64,
        shareable_handle: Out<u64>,
    ) {
        let handle = handle.required("handle")?.number();
        let to = shareable_handle.required("shareableHandle")?;
        let is_known = matches!(
            handle_type,
            aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE
                | aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_POSIX
        );
        if !is_known {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "handleType is {}; pass 0 (NONE) or 2 (POSIX)",
                handle_type.0
            );
        }
        to.write(export_by_number(handle, flags)?);
        Ok(())
    }

    fn aclrtMemExportToShareableHandleV2(
        handle: Handle<PhysicalMemory>,
        flags: u64,
        share_type: aclrtMemSharedHandleType,
        shareable_handle: Out<aclrtMemFabricHandle, *mut c_void>,
    ) {
        let handle = handle.required("handle")?.number();
        let to = shareable_handle.required("shareableHandle")?;
        if is_number(share_type)? {
            to.cast::<u64>().write(export_by_number(handle, flags)?);
            return Ok(());
        }
        let key = export(handle, flags)?;
        let mut fabric = aclrtMemFabricHandle { data: [0; FABRIC] };
        fabric.data[..KEY].copy_from_slice(key.text().as_bytes());
        to.write(fabric);
        Ok(())
    }

    fn aclrtMemImportFromShareableHandle(
        shareable_handle: u64,
        device_id: i32,
        handle: Out<aclrtDrvMemHandle>,
    ) {
        let handle = handle.required("handle")?;
        let device = machine::find_device(device_id)?;
        import(handle, device, || found(shareable_handle))
    }

    fn aclrtMemImportFromShareableHandleV2(
        shareable_handle: *mut c_void,
        share_type: aclrtMemSharedHandleType,
        flags: u64,
        handle: Out<aclrtDrvMemHandle>,
    ) {
        given(shareable_handle)?;
        let handle = handle.required("handle")?;
        let is_number = is_number(share_type)?;
        is_zero("flags", flags)?;
        let (_, device) = context::current_device()?;
        import(handle, device, || match is_number {
            // SAFETY: the C contract of a handle of this type.
            true => found(unsafe { number_at(shareable_handle) }),
            // SAFETY: as above.
            false => key_of(unsafe { fabric_at(shareable_handle) }),
        })
    }

    fn aclrtMemSetPidToShareableHandle(
        shareable_handle: u64,
        pid: Slice<i32, *mut i32>[num],
        num: usize,
    ) {
        context::current_device()?;
        permit(shareable_handle, pid, num)
    }

    fn aclrtMemSetPidToShareableHandleV2(
        shareable_handle: *mut c_void,
        share_type: aclrtMemSharedHandleType,
        pid: Slice<i32, *mut i32>[num],
        num: usize,
    ) {
        given(shareable_handle)?;
        let is_number = is_number(share_type)?;
        context::current_device()?;
        if is_number {
            // SAFETY: the C contract of a handle of this type.
            return permit(unsafe { number_at(shareable_handle) }, pid, num);
        }
        // SAFETY: as above.
        let key = key_of(unsafe { fabric_at(shareable_handle) })?;
        if key.home != own_home()? {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "process {} has exported this memory, and only that process may permit imports; \
                 call this function there",
                key.home.process
            );
        }
        permit(key.number, pid, num)
    }
}

/// The size in bytes of a handle that contains the address of its process.
const FABRIC: usize = size_of::<aclrtMemFabricHandle>();

/// Returns whether a handle of this type is a number, as in the functions without V2.
fn is_number(kind: aclrtMemSharedHandleType) -> Result<bool, Failure> {
    match kind {
        aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT => Ok(true),
        aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC => Ok(false),
        other => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "shareType is {}; pass 1 (DEFAULT) or 2 (FABRIC)",
            other.0
        ),
    }
}

fn given(handle: *mut c_void) -> Result<(), Failure> {
    if handle.is_null() { Err(Failure::null("shareableHandle")) } else { Ok(()) }
}

/// Reads the handle of the type DEFAULT at an address.
///
/// # Safety
///
/// `handle` is valid for a read of a `u64`.
unsafe fn number_at(handle: *const c_void) -> u64 {
    // SAFETY: the promise of the caller.
    unsafe { handle.cast::<u64>().read_unaligned() }
}

/// Reads the handle of the type FABRIC at an address.
///
/// # Safety
///
/// `handle` is valid for a read of an `aclrtMemFabricHandle`.
unsafe fn fabric_at(handle: *const c_void) -> aclrtMemFabricHandle {
    // SAFETY: the promise of the caller.
    unsafe { handle.cast::<aclrtMemFabricHandle>().read_unaligned() }
}

fn export(handle: u64, flags: u64) -> Result<ExportKey, Failure> {
    let is_open = one_flag(flags, ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION)?;
    context::current_device()?;
    shared::export(handle, own_home()?, !is_open)
}

/// Exports memory and announces its number, by which other processes find this process.
fn export_by_number(handle: u64, flags: u64) -> Result<u64, Failure> {
    let number = export(handle, flags)?.number;
    shared::keep_announced(handle, || {
        announce(number).map_err(|text| Failure::new(ACL_ERROR_RT_IPC_ERROR, text))
    })?;
    Ok(number)
}

fn import(
    to: Place<aclrtDrvMemHandle>,
    device: &'static Device,
    key: impl FnOnce() -> Result<ExportKey, Failure>,
) -> Result<(), Failure> {
    let key = key()?;
    let made = shared::import(&exporter(&key)?, &key, device)?;
    to.write(std::ptr::without_provenance_mut(made as usize));
    Ok(())
}

/// Returns the export with this number, from any process of the same user. Blocks until that
/// process answers, for at most `ANSWER`.
fn found(number: u64) -> Result<ExportKey, Failure> {
    may_block()?;
    let failed = |text| Failure::new(ACL_ERROR_RT_IPC_ERROR, text);
    match find(number, ANSWER).map_err(failed)? {
        Some(home) => Ok(ExportKey { kind: ExportKind::Physical, home, number }),
        None => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "shareableHandle is {number:#x}, but no process of this user has exported memory under \
             this number; pass a handle of a process that still runs"
        ),
    }
}

/// Returns the export that a handle of the type FABRIC contains.
fn key_of(fabric: aclrtMemFabricHandle) -> Result<ExportKey, Failure> {
    let (key, rest) = fabric.data.split_at(KEY);
    if rest.iter().any(|byte| *byte != 0) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "this is not a shareable handle of the emulator; pass all bytes that \
             aclrtMemExportToShareableHandleV2 wrote"
        );
    }
    ExportKey::of(key, ExportKind::Physical)
}
