//! Teams: groups of ranks that kernels address together, and the windows of a team.
//!
//! CANN publishes the names, structs and purposes of these functions and little more. This module
//! implements these functions as the published facts suggest. A world team has all ranks of a
//! communicator, and a sub-team has some of them. A window is memory of this rank that is
//! registered with a world team. Making a team or a window does not block. No kernel of the
//! emulator uses teams. So the signals, counters and barriers that a team requests take no memory,
//! and other ranks are not informed of a window.

use super::acquire::{WantedChannel, acquire_channels};
use super::endpoint::Endpoint;
use super::engine::OperatorEngine;
use super::handles::Handles;
use super::open::ReachableMemory;
use super::rank_graph::layer;
use crate::collective::sides::list;
use crate::collective::validate;
use crate::fabric::{CommPart, Member};
use crate::memory::held::HeldMemory;
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::slots::HandleKind;
use ascend_sys::CommProtocol;
use std::sync::Arc;

static TEAMS: Handles<Team> = Handles::new(HandleKind::Team);
static WINDOWS: Handles<Window> = Handles::new(HandleKind::Window);

/// The part of a team that belongs to one rank.
struct Team {
    member: Arc<Member>,
    /// The world team from which a sub-team was made; `None` for a world team.
    world: Option<u64>,
    /// The ranks of the team, by their numbers in the communicator.
    ranks: Vec<usize>,
    protocol: Option<CommProtocol>,
}

struct Window {
    team: u64,
    /// A hold on the memory of the window.
    _held: Option<HeldMemory>,
}

/// The part of a communicator that ends its teams. The field is the id of the communicator.
struct Teams(u64);

impl CommPart for Teams {
    /// Ends the teams of a rank whose side of the communicator has ended.
    fn left(&self, rank: usize, _: &str) {
        let of_rank = |team: &Team| (team.member.comm.id, team.member.rank) == (self.0, rank);
        for (handle, _) in TEAMS.take_all(of_rank) {
            drop(WINDOWS.take_all(|window| window.team == handle));
        }
    }
}

/// The contents of the description of a team. A field that the program has not set is `None`.
pub(crate) struct TeamRequest {
    pub(crate) ranks: Option<Vec<u32>>,
    pub(crate) own: Option<u32>,
    pub(crate) layer: Option<u32>,
    pub(crate) protocol: Option<CommProtocol>,
}

/// Makes a team of all ranks.
pub(crate) fn create_world(member: Arc<Member>, wish: &TeamRequest) -> Result<u64, Failure> {
    let all: Vec<usize> = (0..member.comm.ranks()).collect();
    if let Some(ranks) = &wish.ranks
        && !ranks.iter().map(|rank| *rank as usize).eq(all.iter().copied())
    {
        return refuse!(
            HCCL_E_PARA,
            "the world team has all {} ranks of the communicator, in their order: leave rankIds NULL and rankNum 0, or list them; \
             HcclSubTeamCreate makes smaller teams",
            all.len()
        );
    }
    wish.check(&member, &all)?;
    member.comm.part(|| Teams(member.comm.id));
    Ok(TEAMS.add(Team { member, world: None, ranks: all, protocol: wish.protocol }))
}

/// Makes a team of some ranks of a world team.
pub(crate) fn create_sub(world: u64, wish: &TeamRequest) -> Result<u64, Failure> {
    let member = of_world(world)?;
    let Some(listed) = &wish.ranks else {
        return refuse!(HCCL_E_PARA, "rankNum is 0; list at least one rank");
    };
    let mut ranks: Vec<usize> = Vec::with_capacity(listed.len());
    for rank in listed {
        validate::rank("rank in rankIds", *rank, member.comm.ranks())?;
        if ranks.contains(&(*rank as usize)) {
            return refuse!(HCCL_E_PARA, "rank {rank} is in rankIds twice; list it once");
        }
        ranks.push(*rank as usize);
    }
    if !ranks.contains(&member.rank) {
        return refuse!(
            HCCL_E_PARA,
            "rankIds has {}, but not rank {}, which makes this call; add it",
            list(&ranks),
            member.rank
        );
    }
    wish.check(&member, &ranks)?;
    Ok(TEAMS.add(Team { member, world: Some(world), ranks, protocol: wish.protocol }))
}

impl TeamRequest {
    /// Checks that the ranks can form the requested team.
    fn check(&self, member: &Member, ranks: &[usize]) -> Result<(), Failure> {
        if let Some(own) = self.own.filter(|own| *own as usize != member.rank) {
            return refuse!(
                HCCL_E_PARA,
                "selfRankId is {own}, but rank {} of the communicator makes this call; pass that \
                 number",
                member.rank
            );
        }
        let comm = &member.comm;
        let among: Vec<_> = match self.layer {
            Some(number) => {
                let layer = layer(member, number)?;
                let apart =
                    ranks.iter().find(|rank| !comm.are_together(layer, member.rank, **rank));
                if let Some(apart) = apart {
                    return refuse!(
                        HCCL_E_PARA,
                        "ranks {} and {apart} are in different instances of layer {number}; list \
                         ranks of one instance (HcclRankGraphGetRanksByLayer)",
                        member.rank
                    );
                }
                vec![layer]
            }
            None => comm.layers().iter().collect(),
        };
        match self.protocol {
            Some(protocol) if !among.iter().any(|it| it.protocols.contains(&protocol)) => refuse!(
                HCCL_E_PARA,
                "there is no link of the protocol {} {}; pass a protocol of HcclRankGraphGetLinks",
                protocol.0,
                self.layer.map_or("on any layer".into(), |number| format!("on layer {number}"))
            ),
            _ => Ok(()),
        }
    }
}

/// Returns the rank to which this world team belongs. Returns an error for a sub-team.
pub(crate) fn of_world(team: u64) -> Result<Arc<Member>, Failure> {
    TEAMS.with(team, |team| match team.world {
        None => Ok(Arc::clone(&team.member)),
        Some(_) => {
            refuse!(
                HCCL_E_PARA,
                "this is a sub-team, but only the world team has sub-teams and windows; pass the \
                 world team"
            )
        }
    })
}

/// Ends a team. Returns an error if a world team still has sub-teams or windows, which must end
/// first.
pub(crate) fn destroy(team: u64) -> Result<(), Failure> {
    TEAMS.with(team, |_| Ok(()))?;
    let sub = TEAMS.find(|handle, other| (other.world == Some(team)).then_some(handle));
    let window = WINDOWS.find(|handle, window| (window.team == team).then_some(handle));
    let left = sub
        .map(|sub| format!("the sub-team {sub:#x}; HcclTeamDestroy"))
        .or(window.map(|window| format!("the window {window:#x}; HcclTeamWindowDeregister")));
    match left {
        None => TEAMS.take(team).map(drop),
        Some(left) => refuse!(HCCL_E_PARA, "the world team still has {left} must end it first"),
    }
}

/// Registers memory of this rank as a window of a world team.
pub(crate) fn register_window(
    member: &Member,
    team: u64,
    memory: ReachableMemory,
) -> Result<u64, Failure> {
    belongs(member, &*of_world(team)?)?;
    let held = memory.hold(member.device, "localMem->addr")?;
    Ok(WINDOWS.add(Window { team, _held: held }))
}

pub(crate) fn deregister_window(team: u64, window: u64) -> Result<(), Failure> {
    of_world(team)?;
    WINDOWS.with(window, |window| {
        if window.team == team {
            return Ok(());
        }
        refuse!(HCCL_E_PARA, "the window belongs to another team; pass that team")
    })?;
    WINDOWS.take(window).map(drop)
}

/// The channels to make for a team.
pub(crate) struct Channels {
    pub(crate) engine: OperatorEngine,
    /// The protocol; `None` means the protocol of the team.
    pub(crate) protocol: Option<CommProtocol>,
    pub(crate) notifies: u32,
    /// The number of channels to each of the other ranks.
    pub(crate) count: u32,
}

/// Acquires channels to the other ranks of a team, and blocks until these ranks have done the same.
/// `HcclChannelQuery` and a second acquisition return the same channels.
pub(crate) fn create_channels(
    member: &Arc<Member>,
    team: u64,
    channels: &Channels,
    call: &'static str,
) -> Result<(), Failure> {
    let (of, ranks, usual) = TEAMS
        .with(team, |team| Ok((Arc::clone(&team.member), team.ranks.clone(), team.protocol)))?;
    belongs(member, &of)?;
    let product = member.comm.product;
    let Some(protocol) = channels.protocol.or(usual) else {
        return refuse!(
            HCCL_E_PARA,
            "neither the channels nor their team name a protocol; set one"
        );
    };
    channels.engine.check_protocol(product, protocol)?;
    if channels.count > 1 && product != Product::Ascend950 {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "channelCnt is {}, but {product} has one channel of a protocol for each pair of \
             ranks; set 1",
            channels.count
        );
    }
    let end = |rank: usize| match (product, member.comm.place_of(rank)) {
        (Product::Ascend950, Some(place)) => Endpoint::own(place, protocol).bytes(product).to_vec(),
        _ => Vec::new(),
    };
    let mut wanted = Vec::new();
    for remote in ranks.into_iter().filter(|rank| *rank != member.rank) {
        let endpoints = [end(member.rank), end(remote)].concat();
        wanted.extend((0..channels.count).map(|_| WantedChannel {
            remote,
            protocol,
            notifies: channels.notifies,
            endpoints: endpoints.clone().into(),
            memories: Vec::new(),
        }));
    }
    acquire_channels(member, channels.engine, call, &wanted).map(drop)
}

/// Checks that a team belongs to this rank.
fn belongs(member: &Member, of: &Member) -> Result<(), Failure> {
    if (member.comm.id, member.rank) == (of.comm.id, of.rank) {
        return Ok(());
    }
    refuse!(
        HCCL_E_PARA,
        "the team belongs to rank {} of communicator \"{}\", and not to rank {} of \"{}\"; pass a \
         team of the communicator",
        of.rank,
        of.comm.title(),
        member.rank,
        member.comm.title()
    )
}
