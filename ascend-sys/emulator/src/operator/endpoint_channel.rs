//! Channels between endpoints, without a communicator.
//!
//! Making an end does not wait for the other end. An end is connected when both sides have made
//! their ends. The k-th end from endpoint A to endpoint B is paired with the k-th end from B to A.
//! The status of an end reports whether it is connected. An end that finds no counterpart within
//! the connect timeout fails.
//!
//! Each connection is a hidden communicator of two ranks. So the rules for channels of
//! communicators (see [`super`]) hold here too: a wait that fails ends the connection on both
//! sides.
//!
//! The module [`endpoint_link`](super::endpoint_link) handles ends that lead to an endpoint of
//! another process.

use super::channel::{Channel, Exchanged};
use super::endpoint::Endpoint;
use super::endpoint_link::{self, Link};
use super::engine::OperatorEngine;
use super::resources::{ChannelKey, with_resources};
use super::{open, registered_import};
use crate::collective::comm_error::{Cause, CommError, Origin};
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

/// An end that a program requests.
pub(crate) struct WantedEnd {
    pub(crate) to: Endpoint,
    pub(crate) notifies: u32,
    /// The numbers of the memory that the other side may reach; `None` means all memory of the
    /// endpoint.
    pub(crate) memories: Option<Vec<u64>>,
    pub(crate) role: Role,
}

/// The role of an end in its socket connection; `Any` if the program has set none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Any,
    Client,
    Server,
}

pub(super) struct End {
    /// The handle of the open endpoint on which the end begins.
    pub(super) open: u64,
    pub(super) from: Endpoint,
    pub(super) wanted: WantedEnd,
    memories: Vec<Exchanged>,
    pub(super) member: Arc<Member>,
    pub(super) state: ConnectionState,
    since: Instant,
    /// The number of the end; numbers ascend in the order in which ends are made.
    pub(super) number: u64,
    /// The link to the other process, for an end that leads to an endpoint of another process.
    pub(super) link: Option<Link>,
}

pub(super) enum ConnectionState {
    Waiting,
    Connected,
    Failed(HcclResult, String),
}

/// All ends, by the handles of their channels.
static ENDS: Mutex<BTreeMap<u64, End>> = Mutex::new(BTreeMap::new());

/// Connections that have failed but whose waits have not been notified, with the reasons.
static FAILED: Mutex<Vec<(Arc<Member>, CommError)>> = Mutex::new(Vec::new());

/// Ends the waits of connections that have failed. The caller must hold no lock.
pub(super) fn tell_failed() {
    let failed = std::mem::take(&mut *lock(&FAILED));
    for (member, error) in failed {
        member.comm.fail(error);
    }
}

pub(super) fn ends() -> MutexGuard<'static, BTreeMap<u64, End>> {
    lock(&ENDS)
}

/// Makes ends on an open endpoint. Does not wait until the other side has made its ends. But if an
/// end leads to an endpoint of another process, waits for the first answer of that process. If one
/// end cannot be made, no end is made.
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
    tell_failed();
    Ok(made)
}

fn create_one(open: u64, engine: OperatorEngine, wanted: WantedEnd) -> Result<u64, Failure> {
    let from = open::with(open, |it| Ok(it.endpoint))?;
    let Some(settings) = machine::device_slot(from.place.device).settings() else {
        return refuse!(HCCL_E_RUNTIME, "EI9999: device {} is gone", from.device_name());
    };
    engine.check_protocol(settings.product, from.protocol)?;
    if wanted.to.protocol != from.protocol {
        return refuse!(
            HCCL_E_PARA,
            "remoteEndpoint has the protocol {}, but the own endpoint has {}; pass endpoints of \
             one protocol",
            wanted.to.protocol.0,
            from.protocol.0
        );
    }
    let fits = match wanted.to.abroad {
        None => wanted.to.place != from.place && wanted.to.place.block == from.place.block,
        Some(_) => wanted.to.place.index != from.place.index,
    };
    if !fits {
        return refuse!(
            HCCL_E_PARA,
            "remoteEndpoint is on device {}; pass an endpoint of another device of the block of \
             the own device {}",
            wanted.to.device_name(),
            from.device_name()
        );
    }
    let memories = open::exchanged(open, wanted.memories.as_deref())?;
    if let Some(there) = wanted.to.abroad {
        let link = Link::new(from, &wanted.to, there, &settings)?;
        let comm = link.alone()?;
        let (channel, member) = make(comm, link.own_rank(), engine, (from, &settings), &wanted)?;
        let mut ends = ends();
        let end = End::new(open, from, wanted, memories, member);
        ends.insert(channel, End { link: Some(link), ..end });
        endpoint_link::announce(&mut ends, channel);
        return Ok(channel);
    }
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
    let (channel, member) = make(comm, rank, engine, (from, &settings), &wanted)?;
    ends.insert(channel, End::new(open, from, wanted, memories, member));
    if let Some((partner, _)) = partner {
        meet(&mut ends, channel, partner)?;
    }
    Ok(channel)
}

impl End {
    fn new(
        open: u64,
        from: Endpoint,
        wanted: WantedEnd,
        memories: Vec<Exchanged>,
        member: Arc<Member>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (state, since) = (ConnectionState::Waiting, Instant::now());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { open, from, wanted, memories, member, state, since, number, link: None }
    }

    /// Returns the two devices as text: "from device 0 to device 1".
    pub(super) fn ways(&self) -> String {
        let (from, to) = (self.from.device_name(), self.wanted.to.device_name());
        format!("from device {from} to device {to}")
    }

    /// Marks the end as failed. The caller must then call [`tell_failed`].
    pub(super) fn fail(&mut self, code: HcclResult, text: String) {
        let cause = match code {
            HcclResult::HCCL_E_PARA => Cause::Mismatch,
            HcclResult::HCCL_E_TIMEOUT => Cause::Timeout,
            _ => Cause::Gone,
        };
        // The communicator prefixes the text with the number of its own cause.
        let plain = text.split_once(": ").filter(|(number, _)| number.starts_with("EI"));
        let plain = plain.map_or(text.as_str(), |(_, plain)| plain).to_owned();
        let error = CommError::new(Origin::Call, cause, plain);
        lock(&FAILED).push((Arc::clone(&self.member), error));
        self.state = ConnectionState::Failed(code, text);
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, ConnectionState::Waiting)
    }
}

/// Makes the channel of an end, and the rank of the communicator that the end belongs to.
fn make(
    comm: Arc<Comm>,
    rank: usize,
    engine: OperatorEngine,
    (from, settings): (Endpoint, &Settings),
    wanted: &WantedEnd,
) -> Result<(u64, Arc<Member>), Failure> {
    let member = Arc::new(Member {
        comm,
        rank,
        device: from.place.device,
        origin: None,
        config: CommConfig::default(),
        exec_timeout: Some(settings.exec_timeout).filter(|limit| !limit.is_zero()),
        suspended: false.into(),
        numbers_zeros: false.into(),
    });
    let channel = Channel::create(&member, 1 - rank, engine, from.protocol, wanted.notifies)?;
    Channel::named(channel)?.serve_all();
    keep(&member, channel, engine, from)?;
    Ok((channel, member))
}

/// Adds the channel to the channels of the rank, so that it ends when the rank leaves.
pub(super) fn keep(
    member: &Member,
    channel: u64,
    engine: OperatorEngine,
    from: Endpoint,
) -> Result<(), Failure> {
    let key = ChannelKey {
        engine,
        remote: 1 - member.rank,
        protocol: from.protocol.0,
        endpoints: Box::default(),
        index: 0,
    };
    with_resources(member, |resources| {
        resources.channels.insert(key, channel);
        Ok(())
    })
}

/// Returns an error text if two ends that have met do not match. Each side is given as the name of
/// the device, the number of notifies, and the role.
pub(super) fn disagreement(one: (&str, u32, Role), other: (&str, u32, Role)) -> Option<String> {
    let both = |what: &str, of_one: &dyn std::fmt::Debug, of_other: &dyn std::fmt::Debug| {
        format!(
            "EI0005: the two ends of a channel do not match in {what}\n  device {}: {of_one:?}\n  \
             device {}: {of_other:?}\nMake them match on both sides.",
            one.0, other.0
        )
    };
    if one.1 != other.1 {
        Some(both("notifyNum", &one.1, &other.1))
    } else if one.2 == other.2 && one.2 != Role::Any {
        Some(both("role; one client and one server are needed", &one.2, &other.2))
    } else {
        None
    }
}

/// Makes the hidden communicator of a connection.
fn hidden(from: Endpoint, to: Endpoint, settings: &Settings) -> Comm {
    let name = format!("endpoints of devices {} and {}", from.place.device, to.place.device);
    let places = Box::new([from.place, to.place]);
    Comm::new(name, settings.product, settings.connect_timeout, 2).on(places)
}

/// Connects two ends that have met, if they match. Otherwise both fail.
fn meet(ends: &mut BTreeMap<u64, End>, one: u64, other: u64) -> Result<(), Failure> {
    let (Some(a), Some(b)) = (ends.get(&one), ends.get(&other)) else { return Ok(()) };
    let names = [a, b].map(|end| end.from.device_name());
    let differ = disagreement(
        (&names[0], a.wanted.notifies, a.wanted.role),
        (&names[1], b.wanted.notifies, b.wanted.role),
    );
    match differ {
        Some(text) => {
            for channel in [one, other] {
                if let Some(end) = ends.get_mut(&channel) {
                    end.fail(HcclResult::HCCL_E_PARA, text.clone());
                }
            }
        }
        None => {
            for (end, peer, own, theirs) in [(a, b, one, other), (b, a, other, one)] {
                let mut reachable = peer.memories.clone();
                reachable.extend(registered_import::imported_from(end.open, &peer.from));
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

/// Returns the status of an end: the inner result is `Ok` if the end is connected, else the code
/// and the text of the reason. The outer result is an error if the end does not exist.
pub(crate) fn status(channel: u64) -> Result<Result<(), Failure>, Failure> {
    let mut ends = ends();
    let Some(end) = ends.get_mut(&channel) else { return unknown(channel) };
    let limit = end.member.comm.connect_timeout;
    let between = end.ways();
    if let Some(why) = end.link.as_ref().and_then(Link::gone).filter(|_| end.is_waiting()) {
        let text = format!("EI0012: the channel {between} found no counterpart: {why}");
        end.fail(HcclResult::HCCL_E_REMOTE, text);
    }
    if end.is_waiting() && end.since.elapsed() >= limit {
        let text = format!(
            "EI0006: the channel {between} found no counterpart within {:.1} s: the other side \
             has not called HcommChannelCreate for it; make that call with this endpoint as \
             remoteEndpoint",
            limit.as_secs_f64()
        );
        end.fail(HcclResult::HCCL_E_TIMEOUT, text);
        end.link.iter().for_each(|link| link.withdraw(channel));
    }
    let status = match &end.state {
        ConnectionState::Waiting => {
            refuse!(HCCL_E_AGAIN, "the channel {between} waits for its other end; ask again")
        }
        ConnectionState::Connected => {
            end.member.comm.check(Origin::Call).and(Channel::named(channel)?.check_peer())
        }
        ConnectionState::Failed(code, text) => Err(Failure::new(*code, text.clone())),
    };
    drop(ends);
    tell_failed();
    Ok(status)
}

fn unknown<T>(channel: u64) -> Result<T, Failure> {
    refuse!(
        HCCL_E_NOT_FOUND,
        "{channel:#x} is not a channel of HcommChannelCreate, or was destroyed"
    )
}

/// Destroys an end, and notifies the other end.
pub(crate) fn destroy(channel: u64) -> Result<(), Failure> {
    let Some(end) = ends().remove(&channel) else { return unknown(channel) };
    if end.is_waiting() {
        end.link.iter().for_each(|link| link.withdraw(channel));
    }
    end.member.comm.leave(end.member.rank, "it has destroyed its end of the channel".into());
    Ok(())
}

/// Destroys all ends on an endpoint that was closed.
pub(super) fn end_on(endpoint: u64) {
    let gone = |end: &End| end.open == endpoint;
    let gone: Vec<u64> =
        ends().iter().filter(|(_, end)| gone(end)).map(|(channel, _)| *channel).collect();
    gone.into_iter().for_each(|channel| drop(destroy(channel)));
}

/// Makes memory of another endpoint reachable or unreachable over the channels that lead to it.
pub(super) fn admit(
    open: u64,
    is_from: impl Fn(&Endpoint) -> bool,
    memory: &Exchanged,
    reachable: bool,
) {
    let leads_there = |end: &End| end.open == open && is_from(&end.wanted.to);
    for (channel, _) in ends().iter().filter(|(_, end)| leads_there(end)) {
        change(*channel, memory, reachable);
    }
}

/// Returns the channels that begin on an open endpoint.
pub(super) fn on(open: u64) -> Vec<&'static Channel> {
    let ends = ends();
    let own = ends.iter().filter(|(_, end)| end.open == open);
    own.filter_map(|(channel, _)| Channel::named(*channel).ok()).collect()
}

/// Makes memory that is no longer registered unreachable over all channels to its owner.
pub(super) fn dismiss(owner: Endpoint, memory: &Exchanged) {
    for (channel, _) in ends().iter().filter(|(_, end)| end.wanted.to == owner) {
        change(*channel, memory, false);
    }
}

fn change(channel: u64, memory: &Exchanged, reachable: bool) {
    // A channel that has ended reaches no memory.
    if let Ok(channel) = Channel::named(channel) {
        channel.admit(memory, reachable);
    }
}
