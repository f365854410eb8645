//! The entries for names, settings and states of communicators, and for suspending and resuming
//! them, as in CANN's `hccl_comm.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, Out, OutSlice};
use super::entries::{Hccl, entries};
use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;

use ascend_sys::{HcclComm, HcclCommStatePhase, HcclCommStatus, HcclConfigType, HcclResult};

use super::hccl_entry::product_of_thread;
use crate::collective::comm_error::Cause;
use crate::context;
use crate::fabric::{Member, hooks, registry};
use crate::machine;
use crate::message::{Failure, refuse};
use crate::profile::Product;

entries! {
    Hccl;

    fn HcclGetRankSize(comm: Handle<Member>, rank_size: Out<u32>) {
        comm.required("comm")?;
        let rank_size = rank_size.required("rankSize")?;
        let ranks = comm.find()?.comm.ranks() as u32;
        rank_size.write(ranks);
        Ok(())
    }

    fn HcclGetRankId(comm: Handle<Member>, rank: Out<u32>) {
        comm.required("comm")?;
        let rank = rank.required("rank")?;
        let own = comm.find()?.rank as u32;
        rank.write(own);
        Ok(())
    }

    fn HcclGetCommName(comm: Handle<Member>, name: Out<[u8; NAME], *mut c_char>) {
        comm.required("comm")?;
        let name = name.required("commName")?;
        let member = comm.find()?;
        let mut bytes = [0u8; NAME];
        let own = member.comm.name.as_bytes();
        let length = own.len().min(NAME - 1);
        bytes[..length].copy_from_slice(&own[..length]);
        name.write(bytes);
        Ok(())
    }

    fn HcclCommGetHandleWithName(name: CText, comm: Out<HcclComm>) {
        let name = name.required("commName")?;
        let comm = comm.required("comm")?;
        let product = product_of_thread();
        if product == Product::Ascend950 {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "{product} cannot find communicators by name; use the handle of the communicator"
            );
        }
        let handle = named(&name)?;
        comm.write(handle as HcclComm);
        Ok(())
    }

    fn HcclConfigGetInfo(
        comm: Handle<Member>,
        kind: HcclConfigType,
        length: u32,
        info: OutSlice<u8, *mut c_void>[length],
    ) {
        const ALGORITHM: usize = 1600;
        comm.required("comm")?;
        let info = info.required("info")?;
        let member = comm.find()?;
        match kind {
            HcclConfigType::HCCL_CONFIG_TYPE_OP_EXPANSION_MODE if length == 4 => {
                info.write(&expansion_mode(&member).to_ne_bytes());
                Ok(())
            }
            HcclConfigType::HCCL_CONFIG_TYPE_HCCL_ALGO if length as usize >= ALGORITHM => {
                let mut text = [0u8; ALGORITHM];
                let own = member.config.algorithm.as_bytes();
                let own = &own[..own.len().min(ALGORITHM - 1)];
                text[..own.len()].copy_from_slice(own);
                info.write(&text);
                Ok(())
            }
            _ => refuse!(
                HCCL_E_PARA,
                "cfgType is {} and infoLen is {length}; pass 0 (OP_EXPANSION_MODE) with 4 bytes, \
                 or 1 (HCCL_ALGO) with at least {ALGORITHM} bytes",
                kind.0
            ),
        }
    }

    fn HcclGetCommAsyncError(comm: Handle<Member>, error: Out<HcclResult>) {
        comm.required("comm")?;
        let error = error.required("asyncError")?;
        let member = comm.find()?;
        if member.comm.product == Product::Ascend950 {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "Ascend 950 has no HcclGetCommAsyncError; use HcclCommGetStatus"
            );
        }
        // The call reports errors between the two sides of a link: they differ, or one side is
        // lost. A rank that does not arrive is not such an error; only the stream reports it.
        let code = match member.comm.meeting.error().map(|error| error.cause) {
            None | Some(Cause::Timeout | Cause::Deadlock | Cause::Unrecorded) => HcclResult::HCCL_SUCCESS,
            Some(Cause::Mismatch | Cause::Message) => HcclResult::HCCL_E_PARA,
            Some(Cause::Gone | Cause::Aborted) => HcclResult::HCCL_E_REMOTE,
        };
        error.write(code);
        Ok(())
    }

    fn HcclCommGetStatus(name: CText, status: Out<HcclCommStatus>) {
        let name = name.required("commId")?;
        let status = status.required("status")?;
        if product_of_thread() != Product::Ascend950 {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "only Ascend 950 has HcclCommGetStatus; use HcclGetCommAsyncError"
            );
        }
        let member = registry::member(named(&name)?)?;
        // The product that has this query has no HcclCommSuspend, so the state is never
        // "suspended".
        let state = match member.comm.meeting.error() {
            Some(_) => HcclCommStatus::HCCL_COMM_STATUS_INVALID,
            None => HcclCommStatus::HCCL_COMM_STATUS_READY,
        };
        status.write(state);
        Ok(())
    }

    fn HcclCommSuspend(comm: Handle<Member>) {
        let member = comm.find()?;
        let product = member.comm.product;
        if product == Product::Ascend950 {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "{product} has no HcclCommSuspend; call it only on A2 and A3"
            );
        }
        member.suspended.store(true, Ordering::Release);
        // The mode 1 is the host, 2 the AI CPU. Unset means the AI CPU on A3 only. With the AI CPU,
        // the device confirms with this code.
        match member.config.expansion {
            2 => {}
            0 if product == Product::A3 => {}
            _ => return Ok(()),
        }
        refuse!(HCCL_E_SUSPENDING, "the communicator is suspended; this code means success")
    }

    fn HcclCommResume(comm: Handle<Member>) {
        let member = comm.find()?;
        let on_950 = member.comm.product == Product::Ascend950;
        if on_950 {
            hooks::call(comm.number(), HcclCommStatePhase::HCCL_COMM_STATE_PHASE_RESUME_PRE)?;
        }
        member.suspended.store(false, Ordering::Release);
        if on_950 {
            hooks::call(comm.number(), HcclCommStatePhase::HCCL_COMM_STATE_PHASE_RESUME_POST)?;
        }
        Ok(())
    }
}

/// The size in bytes of a name with its NUL.
const NAME: usize = 128;

/// Returns the handle of the communicator with this name on the calling thread's device.
fn named(name: &str) -> Result<u64, Failure> {
    let (current, _) = context::current_device()?;
    match registry::find_by_name(name, current.device) {
        Some(handle) => Ok(handle),
        None => {
            refuse!(
                HCCL_E_PARA,
                "device {} has no communicator named \"{name}\"; pass a name that HcclGetCommName \
                 returns",
                machine::named(current.device)
            )
        }
    }
}

/// Returns the `HcclOpExpansionMode` of a communicator, from the number in its configuration or in
/// the environment. If the mode is unset, returns CCU_SCHED, as CANN does.
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
