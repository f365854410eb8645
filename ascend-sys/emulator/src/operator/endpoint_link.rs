//! Ends of channels that lead to an endpoint of another process.
//!
//! Of two processes, the one with the lower address *decides* which ends are paired. The other
//! process sends it a request for each end that it makes, and withdraws the request if the end is
//! no longer wanted. When two ends have met, the two processes make a communicator of two ranks.
//! The deciding process makes the shared memory of the communicator, and is rank 0. Until then an
//! end belongs to a communicator that exists only in its own process. So a wait can be queued
//! early; it then waits for the other process.
//!
//! 1. Frames arrive in the order in which they were sent. The thread that receives them joins the
//!    communicator before it receives the next frame. So no message about a communicator is handled
//!    before the process has joined that communicator.
//! 2. The deciding process announces that two ends have met before its program can use its own end.
//! 3. If a process is notified that one of its ends has met another end, but its own end is gone,
//!    it answers `Gone`.

use super::abroad;
use super::channel::Channel;
use super::endpoint::Endpoint;
use super::endpoint_channel::{ConnectionState, End, Role, disagreement, ends, keep, tell_failed};
use super::endpoint_home::EndpointHome;
use super::registered_import::imported_from;
use super::resources::with_resources;
use crate::fabric::endpoint_news::{self, say};
use crate::fabric::pair::{MadePair, RankPair};
use crate::fabric::{AskedEnd, EndpointNews};
use crate::fabric::{Comm, Member, Seat, processes};
use crate::machine::Settings;
use crate::message::Failure;
use crate::processes::peer::Peer;
use ascend_sync::lock_std as lock;
use ascend_sys::{CommProtocol, HcclResult};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The state of an end that leads to another process.
pub(super) struct Link {
    pair: RankPair,
    /// The seat of this end's endpoint.
    seat: Seat,
    /// Whether this process decides.
    decides: bool,
}

/// The time limit for the first answer of another process.
const LIMIT: Duration = Duration::from_secs(20);
/// The largest number of ends of another process that may wait here.
const MOST_ASKED: usize = 1 << 12;

/// The requests of other processes whose ends have met no end of this process, the oldest first.
static ASKED: Mutex<Vec<(Arc<Peer>, AskedEnd)>> = Mutex::new(Vec::new());

/// Registers the handlers for messages about ends.
pub(super) fn listen() {
    endpoint_news::listen(hear, lose);
}

impl Link {
    /// Connects to the other process. Waits for its answer, for at most [`LIMIT`].
    pub(super) fn new(
        from: Endpoint,
        to: &Endpoint,
        there: EndpointHome,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        listen();
        let unreachable = |why: String| {
            let of = to.device_name();
            let text = format!("EI0012: remoteEndpoint, on device {of}, is out of reach: {why}");
            Failure::new(HcclResult::HCCL_E_REMOTE, text)
        };
        let home = processes::home().map_err(unreachable)?;
        let peer = processes::reach(&there.home, LIMIT).map_err(unreachable)?;
        let decides = home < there.home;
        let pair = RankPair {
            name: format!("endpoints of devices {} and {}", from.device_name(), to.device_name()),
            product: settings.product,
            connect_timeout: settings.connect_timeout,
            own: usize::from(!decides),
            place: from.place,
            peer,
            // The description of an endpoint does not contain the setting of checked mode.
            seat: Seat {
                card: to.place.index,
                start: there.start,
                bytes: there.bytes,
                checked: false,
            },
        };
        Ok(Self { pair, seat: processes::seat_of_device(from.place.device, settings), decides })
    }

    pub(super) fn own_rank(&self) -> usize {
        self.pair.own
    }

    /// Makes the communicator for an end that has not met its counterpart yet.
    pub(super) fn alone(&self) -> Result<Arc<Comm>, Failure> {
        self.pair
            .alone()
            .map_err(|text| Failure::new(HcclResult::HCCL_E_REMOTE, format!("EI0012: {text}")))
    }

    /// Returns the reason why the other process is gone; `None` if it is not gone.
    pub(super) fn gone(&self) -> Option<&str> {
        self.pair.peer.gone()
    }

    /// Withdraws the request for an end that is no longer wanted, if this process has sent one.
    pub(super) fn withdraw(&self, end: u64) {
        if !self.decides {
            say(&self.pair.peer, EndpointNews::Withdraws { end }, None);
        }
    }

    /// Returns whether this end and an end of another process fit: each leads to the endpoint on
    /// which the other end begins.
    fn fits(&self, end: &End, peer: &Peer, asked: &AskedEnd) -> bool {
        let own = (self.pair.peer.home, self.pair.seat.start, self.seat.start);
        (peer.home, asked.seat.start, asked.to) == own
            && end.from.protocol == CommProtocol(asked.protocol)
    }
}

impl Role {
    fn number(self) -> i32 {
        match self {
            Self::Client => 0,
            Self::Server => 1,
            Self::Any => -1,
        }
    }

    fn of_number(number: i32) -> Self {
        match number {
            0 => Self::Client,
            1 => Self::Server,
            _ => Self::Any,
        }
    }
}

/// Handles a new end of this process: requests a counterpart from the deciding process, or pairs
/// the end with the oldest request that fits.
pub(super) fn announce(ends: &mut BTreeMap<u64, End>, channel: u64) {
    let Some(end) = ends.get_mut(&channel) else { return };
    let Some(link) = &end.link else { return };
    if !link.decides {
        let asked = AskedEnd {
            end: channel,
            protocol: end.from.protocol.0,
            seat: link.seat,
            to: link.pair.seat.start,
            notifies: end.wanted.notifies,
            role: end.wanted.role.number(),
        };
        return say(&link.pair.peer, EndpointNews::Asks(asked), None);
    }
    let mut waiting = lock(&ASKED);
    waiting.retain(|(peer, _)| peer.gone().is_none());
    let oldest = waiting.iter().position(|(peer, asked)| link.fits(end, peer, asked));
    if let Some((_, asked)) = oldest.map(|at| waiting.remove(at)) {
        drop(waiting);
        meet(channel, end, &asked);
    }
}

/// Handles a message of another process about ends.
fn hear(from: &Arc<Peer>, news: EndpointNews, file: Option<OwnedFd>) {
    match news {
        EndpointNews::Asks(asked) => {
            let mut ends = ends();
            let fits = |end: &End| {
                let link = end.link.as_ref().filter(|link| link.decides);
                end.is_waiting() && link.is_some_and(|link| link.fits(end, from, &asked))
            };
            let oldest = ends.iter_mut().filter(|(_, end)| fits(end)).min_by_key(|it| it.1.number);
            match oldest {
                Some((channel, end)) => meet(*channel, end, &asked),
                None => {
                    let mut waiting = lock(&ASKED);
                    let of_peer = waiting.iter().filter(|(peer, _)| peer.home == from.home);
                    if of_peer.count() < MOST_ASKED {
                        waiting.push((Arc::clone(from), asked));
                    }
                }
            }
        }
        EndpointNews::Withdraws { end } => {
            lock(&ASKED).retain(|(peer, asked)| peer.home != from.home || asked.end != end);
        }
        EndpointNews::Differs { end, text } => {
            if let Some(end) = asked_of(&mut ends(), end, from) {
                end.fail(HcclResult::HCCL_E_PARA, text);
            }
        }
        EndpointNews::Meets { end, other, key, bytes } => {
            let mut ends = ends();
            let Some(known) = asked_of(&mut ends, end, from) else {
                return say(from, EndpointNews::Gone { end: other }, None);
            };
            if let Err(text) = join(end, known, other, (key, bytes, file)) {
                known.fail(HcclResult::HCCL_E_REMOTE, text);
                say(from, EndpointNews::Gone { end: other }, None);
            }
        }
        EndpointNews::Gone { end } => {
            let ends = ends();
            let is_theirs = |link: &Link| link.decides && link.pair.peer.home == from.home;
            let known = ends.get(&end).filter(|end| end.link.as_ref().is_some_and(is_theirs));
            let Some(member) = known.map(|end| Arc::clone(&end.member)) else { return };
            drop(ends);
            abroad::lose_end(&member, end);
        }
    }
    tell_failed();
}

/// Fails the ends that wait for an end of a process that is gone.
fn lose(lost: &Arc<Peer>, why: &str) {
    lock(&ASKED).retain(|(peer, _)| peer.home != lost.home);
    let leads_there = |link: &Link| link.pair.peer.home == lost.home;
    for end in ends().values_mut() {
        if end.is_waiting() && end.link.as_ref().is_some_and(leads_there) {
            let text = format!("EI0012: the channel {} found no counterpart: {why}", end.ways());
            end.fail(HcclResult::HCCL_E_REMOTE, text);
        }
    }
    tell_failed();
}

/// Returns an end of this process, if it has sent a request to the process `of` and has no answer
/// yet.
fn asked_of<'a>(ends: &'a mut BTreeMap<u64, End>, end: u64, of: &Peer) -> Option<&'a mut End> {
    let has_asked = |link: &Link| !link.decides && link.pair.peer.home == of.home;
    let end = ends.get_mut(&end)?;
    (end.is_waiting() && end.link.as_ref().is_some_and(has_asked)).then_some(end)
}

/// Connects an end of this process with an end of another process, and notifies that process. If
/// the two ends do not match, both fail.
fn meet(channel: u64, end: &mut End, asked: &AskedEnd) {
    let Some(link) = &end.link else { return };
    let peer = Arc::clone(&link.pair.peer);
    let names = [end.from.device_name(), end.wanted.to.device_name()];
    let own_name = format!("{} of process {}", names[0], std::process::id());
    let differ = disagreement(
        (&own_name, end.wanted.notifies, end.wanted.role),
        (&names[1], asked.notifies, Role::of_number(asked.role)),
    );
    let made = match differ {
        Some(text) => Err((HcclResult::HCCL_E_PARA, text)),
        None => link.pair.make().map_err(|text| (HcclResult::HCCL_E_REMOTE, text)),
    };
    let joined = made.and_then(|MadePair { comm, key, bytes, file }| {
        enter(channel, end, comm).map_err(|text| (HcclResult::HCCL_E_REMOTE, text))?;
        // Announced before this end can be used: rule 2 of the module.
        let news = EndpointNews::Meets { end: asked.end, other: channel, key, bytes };
        say(&peer, news, Some(&file));
        connect(channel, end, asked.end).map_err(|text| (HcclResult::HCCL_E_REMOTE, text))
    });
    if let Err((code, text)) = joined {
        say(&peer, EndpointNews::Differs { end: asked.end, text: text.clone() }, None);
        end.fail(code, text);
    }
}

/// Joins the communicator that the other process has made, and connects the end.
fn join(
    channel: u64,
    end: &mut End,
    other: u64,
    (key, bytes, file): (u64, usize, Option<OwnedFd>),
) -> Result<(), String> {
    let Some(link) = &end.link else { return Ok(()) };
    let file = file.ok_or(
        "the other process has sent no memory; run the same version of the emulator in both",
    )?;
    let comm = link.pair.join(key, bytes, file)?;
    enter(channel, end, comm)?;
    connect(channel, end, other)
}

/// Moves the end to this communicator.
fn enter(channel: u64, end: &mut End, comm: Arc<Comm>) -> Result<(), String> {
    let failed = |failure: Failure| failure.in_hccl().1.to_string();
    let old = &end.member;
    let member = Arc::new(Member {
        comm,
        rank: old.rank,
        device: old.device,
        origin: None,
        config: old.config.clone(),
        exec_timeout: old.exec_timeout,
        suspended: false.into(),
        numbers_zeros: false.into(),
    });
    let known = Channel::named(channel).map_err(failed)?;
    let Some((engine, _)) = known.kind() else { return Err("the end has ended".into()) };
    keep(&member, channel, engine, end.from).map_err(failed)?;
    known.enter(&member);
    let old = std::mem::replace(&mut end.member, member);
    // A wait that has failed earlier has also failed the old communicator, and so the connection.
    let _ = with_resources(&old, |resources| {
        resources.channels.clear();
        Ok(())
    });
    if let Some(error) = old.comm.meeting.error() {
        end.member.comm.fail((*error).clone());
    }
    Ok(())
}

/// Connects the channel of the end, so that the program can use it.
fn connect(channel: u64, end: &mut End, other: u64) -> Result<(), String> {
    let known = Channel::named(channel).map_err(|failure| failure.in_hccl().1.to_string())?;
    abroad::lend_end(&end.member, channel);
    let reachable = imported_from(end.open, &end.wanted.to);
    known.connect_abroad(other, reachable, Vec::new());
    end.state = ConnectionState::Connected;
    Ok(())
}
