//! Acquires channels. A rank gets the channels that it already has, and new channels. The peers of
//! new channels must acquire them too.

use super::abroad;
use super::channel::{Channel, Exchanged};
use super::engine::OperatorEngine;
use super::link::{ChannelRequest, LinkRequest, abandon, compare, meet};
use super::memory;
use super::resources::{ChannelKey, end_channel, with_resources};
use crate::collective::comm_error::Origin;
use crate::fabric::Member;
use crate::message::{Failure, refuse};
use ascend_sys::CommProtocol;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A channel that a rank requests.
pub(crate) struct WantedChannel {
    pub(crate) remote: usize,
    pub(crate) protocol: CommProtocol,
    pub(crate) notifies: u32,
    /// Both endpoints as bytes on Ascend 950; empty on other products.
    pub(crate) endpoints: Box<[u8]>,
    /// The numbers of the registered memory to exchange.
    pub(crate) memories: Vec<u64>,
}

/// Ends of channels that have not been returned to a caller yet. They are destroyed on drop.
struct Ends(Vec<u64>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.drain(..).for_each(end_channel);
    }
}

/// Returns the keys of requests: two requests with equal keys are for the same channel.
fn keys(engine: OperatorEngine, wanted: &[WantedChannel]) -> Vec<ChannelKey> {
    let mut keys: Vec<ChannelKey> = Vec::with_capacity(wanted.len());
    let mut alike: BTreeMap<(usize, i32, &[u8]), usize> = BTreeMap::new();
    for WantedChannel { remote, protocol, endpoints, .. } in wanted {
        let next = alike.entry((*remote, protocol.0, endpoints)).or_default();
        let (protocol, endpoints) = (protocol.0, endpoints.clone());
        keys.push(ChannelKey { engine, remote: *remote, protocol, endpoints, index: *next });
        *next += 1;
    }
    keys
}

/// Returns the handles of the channels that a rank has, and 0 for each channel that it does not
/// have. A channel is ended here if its other end is gone although the peer has not left the
/// communicator.
fn known(member: &Member, keys: &[ChannelKey]) -> Result<Vec<u64>, Failure> {
    let is_dead = |key: &ChannelKey, handle: u64| {
        let peer = Channel::named(handle).and_then(Channel::check_peer);
        peer.is_err() && member.comm.board.departure(key.remote).is_none()
    };
    let mut dead = Vec::new();
    let handles = with_resources(member, |resources| {
        let known = keys.iter().map(|key| match resources.channels.get(key).copied() {
            Some(handle) if is_dead(key, handle) => {
                resources.channels.remove(key);
                dead.push(handle);
                0
            }
            handle => handle.unwrap_or(0),
        });
        Ok(known.collect())
    });
    dead.into_iter().for_each(end_channel);
    handles
}

/// Returns the handles of the wanted channels that a rank has already, and 0 for each channel that
/// it does not have.
pub(crate) fn query_channels(
    member: &Member,
    engine: OperatorEngine,
    wanted: &[WantedChannel],
) -> Result<Vec<u64>, Failure> {
    known(member, &keys(engine, wanted))
}

/// Destroys this rank's end of a channel.
pub(crate) fn destroy_channel(member: &Member, handle: u64) -> Result<(), Failure> {
    with_resources(member, |resources| {
        resources.channels.retain(|_, known| *known != handle);
        Ok(())
    })?;
    end_channel(handle);
    Ok(())
}

/// Acquires a channel for each request. Blocks until the peers of new channels have acquired them
/// too. If one new channel cannot be made, no channel is made.
pub(crate) fn acquire_channels(
    member: &Arc<Member>,
    engine: OperatorEngine,
    function: &'static str,
    wanted: &[WantedChannel],
) -> Result<Vec<u64>, Failure> {
    let comm = &member.comm;
    comm.check(Origin::Call)?;
    let keys = keys(engine, wanted);
    let mut handles = known(member, &keys)?;
    let mut new: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, handle) in handles.iter().enumerate() {
        if *handle == 0 {
            new.entry(wanted[at].remote).or_default().push(at);
        }
    }
    let mut ends = Ends(Vec::new());
    let mut requests = Vec::new();
    for (remote, places) in &mut new {
        // Both sides must use the same order.
        places.sort_by_key(|at| (keys[*at].protocol, keys[*at].index));
        let mut channel_requests = Vec::with_capacity(places.len());
        for at in places.iter() {
            let WantedChannel { protocol, notifies, memories, .. } = &wanted[*at];
            let end = Channel::create(member, *remote, engine, *protocol, *notifies)?;
            ends.0.push(end);
            handles[*at] = end;
            let (protocol, notifies, memories) =
                (*protocol, *notifies, exchanged(member, memories)?);
            channel_requests.push(ChannelRequest { protocol, notifies, end, memories });
        }
        let request = LinkRequest { channel_requests, function, offer: Vec::new(), number: 0 };
        requests.push((*remote, request));
    }
    let mut to_others = requests.iter_mut().filter(|(remote, _)| !comm.is_own(*remote));
    to_others
        .try_for_each(|(remote, request)| abroad::lend(member, *remote, request))
        .inspect_err(|_| requests.iter().for_each(|(_, request)| abroad::take_back(request)))?;
    let shared = requests.into_iter().map(|(remote, request)| (remote, Arc::new(request)));
    let requests: Vec<(usize, Arc<LinkRequest>)> = shared.collect();
    if !requests.is_empty() {
        let theirs = meet(member, &requests)?;
        let both = || {
            let all = requests.iter().zip(&theirs);
            all.map(|((peer, ours), theirs)| (*peer, &**ours, &**theirs))
        };
        both()
            .try_for_each(|(peer, ours, theirs)| compare(member, peer, ours, theirs))
            .and_then(|()| {
                both().try_for_each(|(peer, ours, theirs)| connect(member, peer, ours, theirs))
            })
            .inspect_err(|_| abandon(member, both().map(|(peer, _, theirs)| (peer, theirs))))?;
        with_resources(member, |resources| {
            let made = keys.into_iter().zip(&handles).filter(|(_, end)| ends.0.contains(end));
            made.for_each(|(key, end)| {
                resources.channels.insert(key, *end);
            });
            Ok(())
        })?;
        ends.0.clear();
    }
    comm.check(Origin::Call)?;
    Ok(handles)
}

/// Connects the ends of a request with the ends of the request that it has met.
fn connect(
    member: &Member,
    peer: usize,
    ours: &LinkRequest,
    theirs: &LinkRequest,
) -> Result<(), Failure> {
    for (own, other) in ours.channel_requests.iter().zip(&theirs.channel_requests) {
        match theirs.is_abroad() {
            true => abroad::connect(member, peer, own.end, other)?,
            false => Channel::named(own.end)?.connect(other.end, other.memories.clone()),
        }
    }
    Ok(())
}

/// Lists the memory that a rank exchanges over a channel: its HCCL buffer, then the memory that it
/// has registered for the channel.
fn exchanged(member: &Member, numbers: &[u64]) -> Result<Vec<Exchanged>, Failure> {
    let mut all = vec![Exchanged::buffer(memory::buffer(member)?)];
    with_resources(member, |resources| {
        for number in numbers {
            let place =
                number.checked_sub(1).and_then(|at| resources.registered.get_mut(at as usize));
            let Some(registered) = place else {
                return refuse!(
                    HCCL_E_PARA,
                    "memHandles has {number:#x}, which is not a handle of memory that rank {} has \
                     registered; pass handles of HcclCommMemReg",
                    member.rank
                );
            };
            if let Some(held) = &mut registered.held
                && let Err(text) = held.check()
            {
                return refuse!(
                    HCCL_E_PARA,
                    "registered memory must not be freed: {text}. Free it after the communicator \
                     has ended"
                );
            }
            all.push(registered.memory.clone());
        }
        Ok(())
    })?;
    Ok(all)
}
