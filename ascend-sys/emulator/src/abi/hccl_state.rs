//! Communicators: what they are called, how they are set and how they are, stopping and resuming. CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;

use ascend_sys::{
    Functions, HcclComm, HcclCommStatePhase, HcclCommStatus, HcclConfigType, HcclResult,
};

use super::hccl_entry::{abi_entry, member, not_null, product_of_thread, text_of};
use crate::collective::comm_error::Cause;
use crate::context;
use crate::fabric::{Member, hooks, registry};
use crate::message::{Failure, refuse};
use crate::profile::Product;

pub(super) fn fill(table: &mut Functions) {
    table.HcclGetRankSize = Some(HcclGetRankSize);
    table.HcclGetRankId = Some(HcclGetRankId);
    table.HcclGetCommName = Some(HcclGetCommName);
    table.HcclCommGetHandleWithName = Some(HcclCommGetHandleWithName);
    table.HcclConfigGetInfo = Some(HcclConfigGetInfo);
    table.HcclGetCommAsyncError = Some(HcclGetCommAsyncError);
    table.HcclCommGetStatus = Some(HcclCommGetStatus);
    table.HcclCommSuspend = Some(HcclCommSuspend);
    table.HcclCommResume = Some(HcclCommResume);
}

unsafe extern "C" fn HcclGetRankSize(comm: HcclComm, rank_size: *mut u32) -> HcclResult {
    abi_entry("HcclGetRankSize", || {
        not_null(comm, "comm")?;
        not_null(rank_size, "rankSize")?;
        let ranks = member(comm)?.comm.ranks() as u32;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { rank_size.write(ranks) };
        Ok(())
    })
}

unsafe extern "C" fn HcclGetRankId(comm: HcclComm, rank: *mut u32) -> HcclResult {
    abi_entry("HcclGetRankId", || {
        not_null(comm, "comm")?;
        not_null(rank, "rank")?;
        let own = member(comm)?.rank as u32;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { rank.write(own) };
        Ok(())
    })
}

/// Bytes of a name with its NUL.
const NAME: usize = 128;

unsafe extern "C" fn HcclGetCommName(comm: HcclComm, name: *mut c_char) -> HcclResult {
    abi_entry("HcclGetCommName", || {
        not_null(comm, "comm")?;
        not_null(name, "commName")?;
        let member = member(comm)?;
        let mut bytes = [0u8; NAME];
        let own = member.comm.name.as_bytes();
        let length = own.len().min(NAME - 1);
        bytes[..length].copy_from_slice(&own[..length]);
        // SAFETY: not null, so valid for 128 bytes by the C contract.
        unsafe { name.cast::<[u8; NAME]>().write_unaligned(bytes) };
        Ok(())
    })
}

/// The communicator of the calling thread's device that has this name.
fn named(name: &str) -> Result<u64, Failure> {
    let (current, _) = context::current_device()?;
    match registry::find_by_name(name, current.device) {
        Some(handle) => Ok(handle),
        None => {
            refuse!(HCCL_E_PARA, "device {} has no communicator named \"{name}\"", current.device)
        }
    }
}

unsafe extern "C" fn HcclCommGetHandleWithName(
    name: *const c_char,
    comm: *mut HcclComm,
) -> HcclResult {
    abi_entry("HcclCommGetHandleWithName", || {
        // SAFETY: null or NUL-terminated by the C contract.
        let name = unsafe { text_of(name, "commName") }?;
        not_null(comm, "comm")?;
        let product = product_of_thread();
        if product == Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "{product} does not look communicators up by name");
        }
        let handle = named(&name)?;
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { comm.write_unaligned(handle as HcclComm) };
        Ok(())
    })
}

unsafe extern "C" fn HcclConfigGetInfo(
    comm: HcclComm,
    kind: HcclConfigType,
    length: u32,
    info: *mut c_void,
) -> HcclResult {
    abi_entry("HcclConfigGetInfo", || {
        const ALGORITHM: usize = 1600;
        not_null(comm, "comm")?;
        not_null(info, "info")?;
        let member = member(comm)?;
        match kind {
            HcclConfigType::HCCL_CONFIG_TYPE_OP_EXPANSION_MODE if length == 4 => {
                // SAFETY: as large as the caller says.
                unsafe { info.cast::<u32>().write_unaligned(expansion_mode(&member)) };
                Ok(())
            }
            HcclConfigType::HCCL_CONFIG_TYPE_HCCL_ALGO if length as usize >= ALGORITHM => {
                let mut text = [0u8; ALGORITHM];
                let own = member.config.algorithm.as_bytes();
                let own = &own[..own.len().min(ALGORITHM - 1)];
                text[..own.len()].copy_from_slice(own);
                // SAFETY: at least that large, as the caller says.
                unsafe { info.cast::<[u8; ALGORITHM]>().write_unaligned(text) };
                Ok(())
            }
            _ => refuse!(HCCL_E_PARA, "cfgType {} does not go with infoLen {length}", kind.0),
        }
    })
}

/// `HcclOpExpansionMode` of a communicator, from the number in its configuration. Unset is answered with CCU_SCHED, as CANN does.
fn expansion_mode(member: &Member) -> u32 {
    const AI_CPU: u32 = 0;
    const AIV: u32 = 1;
    const HOST_TS: u32 = 3;
    const CCU_MS: u32 = 4;
    const CCU_SCHED: u32 = 5;
    const AIV_ONLY: u32 = 6;
    match member.config.expansion {
        1 => HOST_TS,
        2 | 7 => AI_CPU,
        3 => AIV,
        4 => AIV_ONLY,
        5 => CCU_MS,
        _ => CCU_SCHED,
    }
}

unsafe extern "C" fn HcclGetCommAsyncError(comm: HcclComm, error: *mut HcclResult) -> HcclResult {
    abi_entry("HcclGetCommAsyncError", || {
        not_null(comm, "comm")?;
        not_null(error, "asyncError")?;
        let member = member(comm)?;
        if member.comm.product == Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "Ascend 950 has no HcclGetCommAsyncError");
        }
        // It tells what the two sides of a link have found out: that they differ, or that the other one is lost. A rank that
        // does not come is no such thing, and shows in the stream alone.
        let code = match member.comm.meeting.error().map(|error| error.cause) {
            None | Some(Cause::Timeout | Cause::Unrecorded) => HcclResult::HCCL_SUCCESS,
            Some(Cause::Mismatch | Cause::Message) => HcclResult::HCCL_E_PARA,
            Some(Cause::Gone) => HcclResult::HCCL_E_REMOTE,
        };
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { error.write(code) };
        Ok(())
    })
}

unsafe extern "C" fn HcclCommGetStatus(
    name: *const c_char,
    status: *mut HcclCommStatus,
) -> HcclResult {
    abi_entry("HcclCommGetStatus", || {
        // SAFETY: null or NUL-terminated by the C contract.
        let name = unsafe { text_of(name, "commId") }?;
        not_null(status, "status")?;
        if product_of_thread() != Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "only Ascend 950 has HcclCommGetStatus");
        }
        let member = registry::member(named(&name)?)?;
        // What has this question has no HcclCommSuspend.
        let state = match member.comm.meeting.error() {
            Some(_) => HcclCommStatus::HCCL_COMM_STATUS_INVALID,
            None => HcclCommStatus::HCCL_COMM_STATUS_READY,
        };
        // SAFETY: not null, so valid for a write by the C contract.
        unsafe { status.write(state) };
        Ok(())
    })
}

unsafe extern "C" fn HcclCommSuspend(comm: HcclComm) -> HcclResult {
    abi_entry("HcclCommSuspend", || {
        let member = member(comm)?;
        let product = member.comm.product;
        if product == Product::Ascend950 {
            return refuse!(HCCL_E_NOT_SUPPORT, "{product} has no HcclCommSuspend");
        }
        member.suspended.store(true, Ordering::Release);
        // 1 is the host, 2 the AI CPU; unset is the AI CPU on A3 only. There the device confirms with this code.
        match member.config.expansion {
            2 => {}
            0 if product == Product::A3 => {}
            _ => return Ok(()),
        }
        refuse!(HCCL_E_SUSPENDING, "the communicator is suspended; this code means success")
    })
}

unsafe extern "C" fn HcclCommResume(comm: HcclComm) -> HcclResult {
    abi_entry("HcclCommResume", || {
        let member = member(comm)?;
        let on_950 = member.comm.product == Product::Ascend950;
        if on_950 {
            hooks::call(comm as u64, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_RESUME_PRE)?;
        }
        member.suspended.store(false, Ordering::Release);
        if on_950 {
            hooks::call(comm as u64, HcclCommStatePhase::HCCL_COMM_STATE_PHASE_RESUME_POST)?;
        }
        Ok(())
    })
}
