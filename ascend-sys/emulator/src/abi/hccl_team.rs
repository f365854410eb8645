//! Teams of ranks, their windows and channels. CANN's `hccl_team.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::hccl_entry::{abi_entry, member, not_null};
use super::hcomm_endpoint::memory_of;
use crate::callback::may_block;
use crate::fabric::registry::with_issue_state;
use crate::message::{Failure, refuse};
use crate::operator::channel::{MOST_NOTIFIES, NOTIFIES_OF_CCU};
use crate::operator::engine::OperatorEngine;
use crate::operator::team::{self, Channels, TeamRequest};
use ascend_sys::{
    CommMem, CommProtocol, Functions, HcclComm, HcclResult, HcclTeamCreateChannelsDesc,
    HcclTeamCreateDesc, HcommTeamHandle, HcommWindowHandle,
};

pub(super) fn fill(table: &mut Functions) {
    table.HcclWorldTeamCreate = Some(HcclWorldTeamCreate);
    table.HcclSubTeamCreate = Some(HcclSubTeamCreate);
    table.HcclTeamDestroy = Some(HcclTeamDestroy);
    table.HcclTeamWindowRegister = Some(HcclTeamWindowRegister);
    table.HcclTeamWindowDeregister = Some(HcclTeamWindowDeregister);
    table.HcclTeamChannelsCreate = Some(HcclTeamChannelsCreate);
}

/// A number of a description that may be "not set", which is all ones.
fn set(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number != u32::MAX)
}

/// What a description says. Its header is not looked at, as in CANN.
///
/// # Safety
///
/// `description` is null, or valid for a read, with `rankNum` numbers at `rankIds`.
unsafe fn wish(description: *const HcclTeamCreateDesc) -> Result<TeamRequest, Failure> {
    not_null(description, "desc")?;
    // SAFETY: the caller's promise.
    let description = unsafe { &*description };
    let count = description.rankNum as usize;
    let ranks = if count == 0 {
        None
    } else {
        not_null(description.rankIds, "desc->rankIds")?;
        // SAFETY: the caller's promise.
        Some(unsafe { std::slice::from_raw_parts(description.rankIds, count) }.to_vec())
    };
    let protocol = description.protocol;
    Ok(TeamRequest {
        ranks,
        own: set(description.selfRankId),
        layer: set(description.netLayer),
        protocol: Some(protocol).filter(|it| *it != CommProtocol::COMM_PROTOCOL_RESERVED),
    })
}

unsafe extern "C" fn HcclWorldTeamCreate(
    comm: HcclComm,
    description: *const HcclTeamCreateDesc,
    world: *mut HcommTeamHandle,
) -> HcclResult {
    abi_entry("HcclWorldTeamCreate", || {
        not_null(comm, "comm")?;
        // SAFETY: null, or as it says, by the C contract.
        let wish = unsafe { wish(description) }?;
        not_null(world, "worldTeam")?;
        let team = team::create_world(member(comm)?, &wish)?;
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { world.write_unaligned(team as HcommTeamHandle) };
        Ok(())
    })
}

unsafe extern "C" fn HcclSubTeamCreate(
    world: HcommTeamHandle,
    description: *const HcclTeamCreateDesc,
    sub: *mut HcommTeamHandle,
) -> HcclResult {
    abi_entry("HcclSubTeamCreate", || {
        not_null(world, "worldTeam")?;
        // SAFETY: null, or as it says, by the C contract.
        let wish = unsafe { wish(description) }?;
        not_null(sub, "team")?;
        let team = team::create_sub(world as u64, &wish)?;
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { sub.write_unaligned(team as HcommTeamHandle) };
        Ok(())
    })
}

unsafe extern "C" fn HcclTeamDestroy(team: HcommTeamHandle) -> HcclResult {
    abi_entry("HcclTeamDestroy", || {
        not_null(team, "team")?;
        team::destroy(team as u64)
    })
}

unsafe extern "C" fn HcclTeamWindowRegister(
    comm: HcclComm,
    world: HcommTeamHandle,
    memory: *const CommMem,
    window: *mut HcommWindowHandle,
    flag: u32,
) -> HcclResult {
    abi_entry("HcclTeamWindowRegister", || {
        not_null(comm, "comm")?;
        not_null(world, "worldTeam")?;
        not_null(memory, "localMem")?;
        not_null(window, "window")?;
        // The windows of a communicator take 1 alone; nothing is said of 0 here.
        if flag > 1 {
            return refuse!(HCCL_E_PARA, "flag is {flag}; 0 and 1 are possible");
        }
        // SAFETY: not null, so valid for a read by the C contract.
        let memory = memory_of(unsafe { &*memory }, "localMem")?;
        let handle = team::register_window(&*member(comm)?, world as u64, memory)?;
        // SAFETY: not null, and valid for a write by the C contract.
        unsafe { window.write_unaligned(handle as HcommWindowHandle) };
        Ok(())
    })
}

unsafe extern "C" fn HcclTeamWindowDeregister(
    world: HcommTeamHandle,
    window: HcommWindowHandle,
) -> HcclResult {
    abi_entry("HcclTeamWindowDeregister", || {
        not_null(world, "worldTeam")?;
        not_null(window, "window")?;
        team::deregister_window(world as u64, window as u64)
    })
}

/// The most channels to each of the other ranks.
const MOST_CHANNELS: u32 = 1 << 10;

unsafe extern "C" fn HcclTeamChannelsCreate(
    comm: HcclComm,
    team: HcommTeamHandle,
    description: *const HcclTeamCreateChannelsDesc,
) -> HcclResult {
    const CALL: &str = "HcclTeamChannelsCreate";
    abi_entry(CALL, || {
        not_null(comm, "comm")?;
        not_null(team, "team")?;
        not_null(description, "desc")?;
        // SAFETY: not null, so valid for a read by the C contract.
        let description = unsafe { &*description };
        let HcclTeamCreateChannelsDesc { engine, notifyNum, protocol, channelCnt, .. } =
            *description;
        may_block()?;
        with_issue_state(comm as u64, |issue_state| {
            let engine = OperatorEngine::of_channels(issue_state.member.comm.product, engine)?;
            if notifyNum > MOST_NOTIFIES {
                return refuse!(
                    HCCL_E_PARA,
                    "notifyNum is {notifyNum}; a channel has at most {MOST_NOTIFIES}"
                );
            }
            if channelCnt == 0 || channelCnt > MOST_CHANNELS {
                return refuse!(
                    HCCL_E_PARA,
                    "channelCnt is {channelCnt}; it goes from 1 to {MOST_CHANNELS}"
                );
            }
            let notifies = if engine == OperatorEngine::Ccu { NOTIFIES_OF_CCU } else { notifyNum };
            let protocol = Some(protocol).filter(|it| *it != CommProtocol::COMM_PROTOCOL_RESERVED);
            let channels = Channels { engine, protocol, notifies, count: channelCnt };
            team::create_channels(&issue_state.member, team as u64, &channels, CALL)
        })
    })
}
