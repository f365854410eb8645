//! The entries for teams of ranks, their windows and channels, as in CANN's `hccl_team.h`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, In, Out};
use super::entries::{Hccl, entries};
use super::hccl_entry::not_null;
use super::hcomm_endpoint::memory_of;
use crate::callback::may_block;
use crate::fabric::Member;
use crate::fabric::registry::with_issue_state;
use crate::message::{Failure, refuse};
use crate::operator::channel::{MOST_NOTIFIES, NOTIFIES_OF_CCU};
use crate::operator::engine::OperatorEngine;
use crate::operator::team::{self, Channels, TeamRequest};
use ascend_sys::{
    CommMem, CommProtocol, HcclTeamCreateChannelsDesc, HcclTeamCreateDesc, HcommTeamHandle,
    HcommWindowHandle,
};

entries! {
    Hccl;

    fn HcclWorldTeamCreate(
        comm: Handle<Member>,
        description: In<HcclTeamCreateDesc>,
        world: Out<HcommTeamHandle>,
    ) {
        comm.required("comm")?;
        let description = description.required("desc")?;
        let world = world.required("worldTeam")?;
        let member = comm.find()?;
        let wish = wish(description, &member)?;
        let team = team::create_world(member, &wish)?;
        world.write(team as HcommTeamHandle);
        Ok(())
    }

    fn HcclSubTeamCreate(
        world: HcommTeamHandle,
        description: In<HcclTeamCreateDesc>,
        sub: Out<HcommTeamHandle>,
    ) {
        not_null(world, "worldTeam")?;
        let description = description.required("desc")?;
        let sub = sub.required("team")?;
        let wish = wish(description, &*team::of_world(world as u64)?)?;
        let team = team::create_sub(world as u64, &wish)?;
        sub.write(team as HcommTeamHandle);
        Ok(())
    }

    fn HcclTeamDestroy(team: HcommTeamHandle) {
        not_null(team, "team")?;
        team::destroy(team as u64)
    }

    fn HcclTeamWindowRegister(
        comm: Handle<Member>,
        world: HcommTeamHandle,
        memory: In<CommMem>,
        window: Out<HcommWindowHandle>,
        flag: u32,
    ) {
        comm.required("comm")?;
        not_null(world, "worldTeam")?;
        let memory = memory.required("localMem")?;
        let window = window.required("window")?;
        // For windows of a communicator only 1 is allowed. CANN does not document 0 for teams, so
        // both are accepted.
        if flag > 1 {
            return refuse!(HCCL_E_PARA, "flag is {flag}; pass 0 or 1");
        }
        let memory = memory_of(memory, "localMem")?;
        let handle = team::register_window(&*comm.find()?, world as u64, memory)?;
        window.write(handle as HcommWindowHandle);
        Ok(())
    }

    fn HcclTeamWindowDeregister(world: HcommTeamHandle, window: HcommWindowHandle) {
        not_null(world, "worldTeam")?;
        not_null(window, "window")?;
        team::deregister_window(world as u64, window as u64)
    }

    fn HcclTeamChannelsCreate(
        comm: Handle<Member>,
        team: HcommTeamHandle,
        description: In<HcclTeamCreateChannelsDesc>,
    ) {
        comm.required("comm")?;
        not_null(team, "team")?;
        let description = description.required("desc")?;
                let HcclTeamCreateChannelsDesc { engine, notifyNum, protocol, channelCnt, .. } =
            *description;
        may_block()?;
        with_issue_state(comm.number(), |issue_state| {
            let engine = OperatorEngine::of_channels(issue_state.member.comm.product, engine)?;
            if notifyNum > MOST_NOTIFIES {
                return refuse!(
                    HCCL_E_PARA,
                    "notifyNum is {notifyNum}; set at most {MOST_NOTIFIES}"
                );
            }
            if channelCnt == 0 || channelCnt > MOST_CHANNELS {
                return refuse!(
                    HCCL_E_PARA,
                    "channelCnt is {channelCnt}; set 1 to {MOST_CHANNELS}"
                );
            }
            let notifies = if engine == OperatorEngine::Ccu { NOTIFIES_OF_CCU } else { notifyNum };
            let protocol = Some(protocol).filter(|it| *it != CommProtocol::COMM_PROTOCOL_RESERVED);
            let channels = Channels { engine, protocol, notifies, count: channelCnt };
            team::create_channels(&issue_state.member, team as u64, &channels, ENTRY)
        })
    }
}

/// Returns a number of a description; `None` if it is all ones, which means "not set".
fn set(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number != u32::MAX)
}

/// Returns the request in a description. As in CANN, the header of the description is ignored.
fn wish(description: &HcclTeamCreateDesc, member: &Member) -> Result<TeamRequest, Failure> {
    let (count, most) = (description.rankNum as usize, member.comm.ranks());
    if count > most {
        return refuse!(
            HCCL_E_PARA,
            "desc->rankNum is {count}, but the number of ranks of the communicator is {most}; set \
             at most that number"
        );
    }
    let ranks = if count == 0 {
        None
    } else {
        not_null(description.rankIds, "desc->rankIds")?;
        // SAFETY: the pointer is not null, so by the C contract of a description it is an array of
        // `count` ranks.
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

/// The largest number of channels to each of the other ranks.
const MOST_CHANNELS: u32 = 1 << 10;
