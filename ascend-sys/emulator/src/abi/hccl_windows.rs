//! The entries for symmetric windows, and for memory ranges for collectives without copies.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Out};
use super::entries::{Hccl, entries};
use super::hccl_entry::not_null;
use crate::callback::may_block;
use crate::fabric::Member;
use crate::fabric::registry::with_issue_state;
use crate::message::{Failure, refuse};
use crate::operator::{memory_range, symmetric_window};
use ascend_sys::{HcclCommSymWindow, aclrtDrvMemHandle};
use std::ffi::c_void;

entries! {
    Hccl;

    fn HcclCommSymWinRegister(
        comm: Handle<Member>,
        address: *mut c_void,
        size: u64,
        window: Out<HcclCommSymWindow>,
        flag: u32,
    ) {
        comm.required("comm")?;
        not_null(address, "addr")?;
        let window = window.required("winHandle")?;
        if size == 0 {
            return refuse!(HCCL_E_PARA, "size is 0; pass at least 1");
        }
        if flag != 1 {
            return refuse!(HCCL_E_PARA, "flag is {flag}; it must be 1");
        }
        may_block()?;
        let handle = with_issue_state(comm.number(), |issue_state| {
            symmetric_window::register(&issue_state.member, address.addr(), size, ENTRY)
        })?;
        window.write(std::ptr::without_provenance_mut(handle as usize));
        Ok(())
    }

    fn HcclCommSymWinDeregister(window: HcclCommSymWindow) {
        not_null(window, "winHandle")?;
        symmetric_window::deregister(window.addr() as u64)
    }

    fn HcclCommSymWinGet(
        comm: Handle<Member>,
        pointer: *mut c_void,
        size: usize,
        window: Out<HcclCommSymWindow>,
        offset: Out<usize>,
    ) {
        comm.required("comm")?;
        not_null(pointer, "ptr")?;
        let window = window.required("winHandle")?;
        let offset = offset.required("offset")?;
        if size == 0 {
            return refuse!(HCCL_E_PARA, "size is 0; pass at least 1");
        }
        let found = symmetric_window::find(&*comm.find()?, pointer.addr(), size as u64)?;
        let (handle, at) = found.unwrap_or_default();
        window.write(std::ptr::without_provenance_mut(handle as usize));
        offset.write(at as usize);
        Ok(())
    }

    fn HcclCommSetMemoryRange(
        comm: Handle<Member>,
        base: *mut c_void,
        size: usize,
        alignment: usize,
        flags: u64,
    ) {
        comm.required("comm")?;
        not_null(base, "baseVirPtr")?;
        is_zero(alignment as u64, "alignment")?;
        is_zero(flags, "flags")?;
        may_block()?;
        with_issue_state(comm.number(), |issue_state| {
            memory_range::declare(&issue_state.member, base.addr(), size, ENTRY)
        })
    }

    fn HcclCommUnsetMemoryRange(comm: Handle<Member>, base: *mut c_void) {
        comm.required("comm")?;
        not_null(base, "baseVirPtr")?;
        memory_range::forget(&*comm.find()?, base.addr())
    }

    fn HcclCommActivateCommMemory(
        comm: Handle<Member>,
        start: *mut c_void,
        size: usize,
        offset: usize,
        handle: aclrtDrvMemHandle,
        flags: u64,
    ) {
        comm.required("comm")?;
        not_null(start, "virPtr")?;
        not_null(handle, "handle")?;
        is_zero(offset as u64, "offset")?;
        is_zero(flags, "flags")?;
        let member = comm.find()?;
        memory_range::activate(&member, start.addr(), size, handle.addr() as u64, ENTRY)
    }

    fn HcclCommDeactivateCommMemory(comm: Handle<Member>, start: *mut c_void) {
        comm.required("comm")?;
        not_null(start, "virPtr")?;
        memory_range::deactivate(&*comm.find()?, start.addr(), ENTRY)
    }
}

/// Checks that an argument is 0, the only value that CANN documents.
fn is_zero(value: u64, argument: &str) -> Result<(), Failure> {
    if value == 0 {
        return Ok(());
    }
    refuse!(HCCL_E_PARA, "{argument} is {value}; pass 0")
}
