//! Channels between endpoints, without a communicator.
//!
//! Making an end waits for nobody. It is connected when both sides have made theirs: the k-th end from one endpoint to another goes
//! with the k-th end that comes back. Its status says so; one that finds no counterpart within the connect timeout has failed.
//!
//! Each connection is a communicator of two ranks that nobody else knows, so that what is said of channels of
//! communicators (see [`super`]) holds for these too: a wait that fails ends the connection on both sides.

use super::channel::{Channel, Exchanged};
use super::endpoint::Endpoint;
use super::engine::OperatorEngine;
use super::open;
use super::resources::{ChannelKey, with_resources};
use crate::collective::comm_error::Origin;
use crate::fabric::config::CommConfig;
use crate::fabric::{Comm, Member};
use crate::machine::{self, Settings};
use crate::message::{Failure, refuse};
use ascend_sync::lock_std as lock;
use ascend_sys::HcclResult;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// One end that a program asks for.
pub(crate) struct WantedEnd {
    pub(crate) to: Endpoint,
    pub(crate) notifies: u32,
    /// The numbers of the memory that the other side may reach; `None` is all of the endpoint's.
    pub(crate) memories: Option<Vec<u64>>,
    pub(crate) role: Role,
}

/// Which side of the socket an end is, where the program has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Any,
    Client,
    Server,
}

struct End {
    /// The open endpoint that it begins on.
    open: u64,
    from: Endpoint,
    wanted: WantedEnd,
    memories: Vec<Exchanged>,
    member: Arc<Member>,
    state: ConnectionState,
    since: Instant,
    /// It was made after those with lower numbers.
    number: u64,
}

enum ConnectionState {
    Waiting,
    Connected,
    Failed(HcclResult, String),
}

/// All ends, by the handles of their channels.
static ENDS: Mutex<BTreeMap<u64, End>> = Mutex::new(BTreeMap::new());

fn ends() -> MutexGuard<'static, BTreeMap<u64, End>> {
    lock(&ENDS)
}

/// Makes ends on an open endpoint: all of them, or none.
pub(crate) fn create(
    endpoint: u64,
    engine: OperatorEngine,
    wanted: Vec<WantedEnd>,
) -> Result<Vec<u64>, Failure> {
    let mut made = Vec::with_capacity(wanted.len());
    for (at, one) in wanted.into_iter().enumerate() {
        match create_one(endpoint, engine, one) {
            Ok(channel) => made.push(channel),
            Err(failure) => {
                made.into_iter().for_each(|channel| drop(destroy(channel)));
                return Err(failure.of_item(format_args!("channelDescs[{at}]")));
            }
        }
    }
    Ok(made)
}

fn create_one(open: u64, engine: OperatorEngine, wanted: WantedEnd) -> Result<u64, Failure> {
    let from = open::with(open, |it| Ok(it.endpoint))?;
    let Some(settings) = machine::device_slot(from.place.device).settings() else {
        return refuse!(
            HCCL_E_RUNTIME,
            "EI9999: device {} is gone",
            machine::named(from.place.device)
        );
    };
    engine.check_protocol(settings.product, from.protocol)?;
    if wanted.to.protocol != from.protocol {
        return refuse!(
            HCCL_E_PARA,
            "remoteEndpoint is of the protocol {}, and the own endpoint of {}",
            wanted.to.protocol.0,
            from.protocol.0
        );
    }
    if wanted.to.place == from.place || wanted.to.place.block != from.place.block {
        return refuse!(
            HCCL_E_PARA,
            "remoteEndpoint is on device {}; another device of the block than the own one, {}, is expected",
            machine::named(wanted.to.place.device),
            machine::named(from.place.device)
        );
    }
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let memories = open::exchanged(open, wanted.memories.as_deref())?;
    let mut ends = ends();
    let fits = |end: &End| {
        matches!(end.state, ConnectionState::Waiting)
            && end.from == wanted.to
            && end.wanted.to == from
    };
    let partner = ends.iter().filter(|(_, end)| fits(end)).min_by_key(|(_, end)| end.number);
    let partner = partner.map(|(channel, end)| (*channel, Arc::clone(&end.member.comm)));
    let (comm, rank) = match &partner {
        Some((_, comm)) => (Arc::clone(comm), 1),
        None => (Arc::new(hidden(from, wanted.to, &settings)), 0),
    };
    let member = Arc::new(Member {
        comm,
        rank,
        device: from.place.device,
        origin: None,
        config: CommConfig::default(),
        exec_timeout: Some(settings.exec_timeout).filter(|limit| !limit.is_zero()),
        suspended: false.into(),
    });
    let channel = Channel::create(&member, 1 - rank, engine, from.protocol, wanted.notifies)?;
    Channel::named(channel)?.serve_all();
    let key = ChannelKey {
        engine,
        remote: 1 - rank,
        protocol: from.protocol.0,
        endpoints: Box::default(),
        index: 0,
    };
    with_resources(&member, |resources| {
        resources.channels.insert(key, channel);
        Ok(())
    })?;
    let (state, since, number) =
        (ConnectionState::Waiting, Instant::now(), NEXT.fetch_add(1, Ordering::Relaxed));
    ends.insert(channel, End { open, from, wanted, memories, member, state, since, number });
    if let Some((partner, _)) = partner {
        meet(&mut ends, channel, partner)?;
    }
    Ok(channel)
}

/// The communicator behind a connection.
fn hidden(from: Endpoint, to: Endpoint, settings: &Settings) -> Comm {
    let name = format!("endpoints of devices {} and {}", from.place.device, to.place.device);
    let places = Box::new([from.place, to.place]);
    Comm::new(name, settings.product, settings.connect_timeout, 2).on(places)
}

/// Both ends are there: connects them if they fit.
fn meet(ends: &mut BTreeMap<u64, End>, one: u64, other: u64) -> Result<(), Failure> {
    let (Some(a), Some(b)) = (ends.get(&one), ends.get(&other)) else { return Ok(()) };
    let roles = (a.wanted.role, b.wanted.role);
    let both = |what: &str, of_a: &dyn std::fmt::Debug, of_b: &dyn std::fmt::Debug| {
        format!(
            "EI0005: the two ends of a channel differ in {what}\n  device {}: {of_a:?}\n  device {}: {of_b:?}",
            machine::named(a.from.place.device),
            machine::named(b.from.place.device)
        )
    };
    let disagreement = if a.wanted.notifies != b.wanted.notifies {
        Some(both("notifyNum", &a.wanted.notifies, &b.wanted.notifies))
    } else if roles.0 == roles.1 && roles.0 != Role::Any {
        Some(both("role, of which there must be one client and one server", &roles.0, &roles.1))
    } else {
        None
    };
    match disagreement {
        Some(text) => {
            for channel in [one, other] {
                if let Some(end) = ends.get_mut(&channel) {
                    end.state = ConnectionState::Failed(HcclResult::HCCL_E_PARA, text.clone());
                }
            }
        }
        None => {
            for (end, peer, own, theirs) in [(a, b, one, other), (b, a, other, one)] {
                let mut reachable = peer.memories.clone();
                reachable.extend(open::imported_from(end.open, peer.from));
                Channel::named(own)?.connect(theirs, reachable);
            }
            for channel in [one, other] {
                if let Some(end) = ends.get_mut(&channel) {
                    end.state = ConnectionState::Connected;
                }
            }
        }
    }
    Ok(())
}

/// How an end is: `Ok` when it is connected, else the code and the text for one that is not.
pub(crate) fn status(channel: u64) -> Result<Result<(), Failure>, Failure> {
    let mut ends = ends();
    let Some(end) = ends.get_mut(&channel) else { return unknown(channel) };
    let limit = end.member.comm.connect_timeout;
    let between = format!(
        "from device {} to device {}",
        machine::named(end.from.place.device),
        machine::named(end.wanted.to.place.device)
    );
    if matches!(end.state, ConnectionState::Waiting) && end.since.elapsed() >= limit {
        let text = format!(
            "EI0006: the channel {between} found no counterpart within {:.1} s: the other side has not called HcommChannelCreate for it",
            limit.as_secs_f64()
        );
        end.state = ConnectionState::Failed(HcclResult::HCCL_E_TIMEOUT, text);
    }
    Ok(match &end.state {
        ConnectionState::Waiting => {
            refuse!(HCCL_E_AGAIN, "the channel {between} waits for its other end")
        }
        ConnectionState::Connected => {
            end.member.comm.check(Origin::Call).and(Channel::named(channel)?.peer().map(drop))
        }
        ConnectionState::Failed(code, text) => Err(Failure::new(*code, text.clone())),
    })
}

fn unknown<T>(channel: u64) -> Result<T, Failure> {
    refuse!(HCCL_E_NOT_FOUND, "{channel:#x} is no channel of HcommChannelCreate, or was destroyed")
}

/// Ends one end; the other one is told.
pub(crate) fn destroy(channel: u64) -> Result<(), Failure> {
    let Some(end) = ends().remove(&channel) else { return unknown(channel) };
    end.member.comm.leave(end.member.rank, "it has destroyed its end of the channel".into());
    Ok(())
}

/// Ends all ends on an open endpoint that is gone.
pub(super) fn end_on(endpoint: u64) {
    let gone = |end: &End| end.open == endpoint;
    let gone: Vec<u64> =
        ends().iter().filter(|(_, end)| gone(end)).map(|(channel, _)| *channel).collect();
    gone.into_iter().for_each(|channel| drop(destroy(channel)));
}

/// Memory of another endpoint is reached over the channels to it from now on, or is not any more.
pub(super) fn admit(open: u64, from: Endpoint, memory: &Exchanged, reachable: bool) {
    for (channel, _) in ends().iter().filter(|(_, end)| end.open == open && end.wanted.to == from) {
        change(*channel, memory, reachable);
    }
}

/// Memory that is no longer registered is reached over no channel.
pub(super) fn dismiss(owner: Endpoint, memory: &Exchanged) {
    for (channel, _) in ends().iter().filter(|(_, end)| end.wanted.to == owner) {
        change(*channel, memory, false);
    }
}

fn change(channel: u64, memory: &Exchanged, reachable: bool) {
    // One that has ended reaches nothing anyway.
    if let Ok(channel) = Channel::named(channel) {
        channel.admit(memory, reachable);
    }
}
