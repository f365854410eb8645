//! Ranks of a communicator in other processes: the news between their checkers and this one's.
//!
//! A checker tells two things: the knowledge of its rank when the rank comes to a meeting, and the
//! memory of a rank of another process that the rank touches. It tells them before the operation
//! itself begins, over the socket between the two processes, so they are heard in that order. The
//! end of the operation may be seen sooner, in shared memory: the [note](super::note) behind it
//! waits until all has been heard.
//!
//! The process that has the memory compares accesses, and prints what it finds. The knowledge of an
//! unchecked rank is not told. A process that hears from a rank may know everything that other
//! processes were told before. So some races are missed, but none is invented.

use super::blocks::engine;
use super::clock::ClockPoint;
use super::engine::{ArrivalKey, Checker};
use super::hosts;
use super::reached;
use crate::fabric::{CheckNews, Comm, CommPart, Heard, Member, PartNews, ToldOperation, ToldTouch};
use crate::memory::nominal;
use crate::sleeping_streams::SleepingStreams;
use crate::stream::Stream;
use crate::task::Touch;
use std::ops::Range;
use std::sync::{Arc, Once};

/// The part of a communicator that hears other checkers.
struct CheckedComm {
    comm: u64,
    engines: Vec<Arc<Checker>>,
    /// Streams that wait for an arrival.
    waiting: SleepingStreams,
    linked: Once,
}

impl CheckedComm {
    fn of(comm: &Arc<Comm>) -> &CheckedComm {
        comm.part(|| {
            let own = (0..comm.ranks()).filter(|rank| comm.is_own(*rank));
            let mut engines: Vec<Arc<Checker>> = Vec::new();
            for checker in own.filter_map(|rank| engine_of(comm, rank)) {
                if !engines.iter().any(|known| Arc::ptr_eq(known, &checker)) {
                    engines.push(checker);
                }
            }
            CheckedComm {
                comm: comm.id,
                engines,
                waiting: SleepingStreams::default(),
                linked: Once::new(),
            }
        })
    }

    /// The same, for a communicator with ranks in other processes. From now on this host speaks to
    /// their hosts.
    fn linked(comm: &Arc<Comm>) -> &CheckedComm {
        let part = CheckedComm::of(comm);
        part.linked.call_once(|| {
            let own = (0..comm.ranks()).find(|rank| comm.is_own(*rank));
            for engine in &part.engines {
                let (comm, own) = (Arc::downgrade(comm), own.unwrap_or_default());
                let tell = move |engine: &Checker| {
                    let comm = comm.upgrade()?;
                    let news = || {
                        let known = engine.told_host();
                        PartNews::Check(CheckNews::HostKnows { known })
                    };
                    let listens = !comm.is_behind();
                    if listens {
                        tell_checkers(&comm, own, news);
                    }
                    Some(listens)
                };
                hosts::link(engine, Box::new(tell));
            }
        });
        part
    }
}

fn engine_of(comm: &Comm, rank: usize) -> Option<Arc<Checker>> {
    engine(comm.place_of(rank)?.device)
}

impl CommPart for CheckedComm {
    fn left(&self, _: usize, _: &str) {}

    fn broken(&self) {
        self.waiting.wake();
    }

    fn lost(&self, _: &Comm, _: usize) {
        self.waiting.wake();
    }

    fn heard(&self, comm: &Comm, rank: usize, news: &PartNews) -> Heard {
        match news {
            PartNews::Check(CheckNews::Arrives { way, number, known }) => {
                if let Some((participant, participants)) = participant(comm, *way, rank) {
                    let key = (comm.id, *way, *number);
                    for engine in &self.engines {
                        engine.arrived_abroad(key, participant, participants, known);
                    }
                    self.waiting.wake();
                }
            }
            PartNews::Check(CheckNews::Touches { to, operation }) => {
                if let Some(engine) = engine_of(comm, *to).filter(|_| comm.is_own(*to)) {
                    engine.touched_by_other(operation, touches(operation), comm.process_of(rank));
                }
            }
            PartNews::Check(CheckNews::HostKnows { known }) => {
                self.engines.iter().for_each(|engine| engine.hosts_know(known));
            }
            _ => return Heard::NotForThis,
        }
        Heard::Taken
    }
}

impl Drop for CheckedComm {
    fn drop(&mut self) {
        self.engines.iter().for_each(|engine| engine.forget_meetings(self.comm));
    }
}

/// Returns the accesses of an operation of another process to memory of this one.
fn touches(told: &ToldOperation) -> Vec<Touch> {
    let touch = |touch: &ToldTouch| {
        let start = nominal(std::ptr::without_provenance(touch.data));
        Touch { range: start..start.saturating_add(touch.bytes), mode: touch.mode.into() }
    };
    told.touches.iter().map(touch).collect()
}

/// Returns the way of messages from one rank to another, as the middle of an [`ArrivalKey`]. The
/// way of collectives is 0.
pub(super) fn way(source: usize, destination: usize) -> u64 {
    1 << 63 | (source as u64) << 32 | destination as u64
}

/// Returns the two ends of a way of messages: sender and receiver.
fn ends(way: u64) -> [usize; 2] {
    [(way << 1 >> 33) as usize, way as u32 as usize]
}

/// Returns the number of a rank as a participant of a meeting, and the number of participants.
fn participant(comm: &Comm, way: u64, rank: usize) -> Option<(usize, usize)> {
    if way == 0 {
        return Some((rank, comm.ranks()));
    }
    ends(way).iter().position(|it| *it == rank).map(|side| (side, 2))
}

/// Tells each process of a communicator that has a watched rank.
pub(super) fn tell_checkers(comm: &Comm, rank: usize, news: impl Fn() -> PartNews) {
    let mut told = Vec::new();
    for to in (0..comm.ranks()).filter(|to| comm.is_checked_abroad(*to)) {
        let process = comm.process_of(to);
        if !told.contains(&process) {
            told.push(process);
            comm.tell_part_of(rank, to, news());
        }
    }
}

/// A rank is about to come to a meeting with ranks of other processes, and knows what is complete
/// at a point.
pub(super) fn tell_arrival(
    engine: &Checker,
    comm: &Arc<Comm>,
    rank: usize,
    (_, way, number): ArrivalKey,
    at: ClockPoint,
) {
    if !comm.is_joint() {
        return;
    }
    let news = || {
        let known = engine.told(at);
        PartNews::Check(CheckNews::Arrives { way, number, known })
    };
    CheckedComm::linked(comm);
    if way == 0 {
        tell_checkers(comm, rank, news);
    } else {
        let others = ends(way).into_iter().filter(|end| comm.is_checked_abroad(*end));
        others.for_each(|end| comm.tell_part_of(rank, end, news()));
    }
    engine.tells(at);
}

/// The arrivals of ranks of other processes for which the end of an operation waits.
#[derive(Clone)]
pub(super) struct Arrivals {
    comm: Arc<Comm>,
    /// The participants that tell of their arrival, with their ranks.
    told: Vec<(usize, usize)>,
    /// There are participants that do not tell of their arrival.
    some_tell_nothing: bool,
}

impl Arrivals {
    /// Returns the arrivals of these participants, each given with its rank. `None` when all are in
    /// this process.
    pub(super) fn of(
        comm: &Arc<Comm>,
        participants: impl Iterator<Item = (usize, usize)>,
    ) -> Option<Arrivals> {
        if !comm.is_joint() {
            return None;
        }
        let abroad = participants.filter(|(_, rank)| !comm.is_own(*rank));
        let (told, silent): (Vec<_>, Vec<_>) =
            abroad.partition(|(_, rank)| comm.is_checked_abroad(*rank));
        let some_tell_nothing = !silent.is_empty();
        (some_tell_nothing || !told.is_empty()).then(|| Arrivals {
            comm: Arc::clone(comm),
            told,
            some_tell_nothing,
        })
    }

    /// Whether the wait is over: all arrivals have been heard, or some will not be. Otherwise the
    /// stream is woken when that may have changed.
    pub(super) fn are_over(
        &self,
        engine: &Checker,
        key: ArrivalKey,
        stream: &'static Stream,
    ) -> bool {
        let part = CheckedComm::of(&self.comm);
        let is_over = || self.are_heard(engine, key) || self.are_given_up();
        if is_over() {
            return true;
        }
        part.waiting.add(stream);
        is_over()
    }

    fn are_given_up(&self) -> bool {
        self.comm.meeting.is_broken() || self.told.iter().any(|(_, rank)| self.comm.is_lost(*rank))
    }

    fn are_heard(&self, engine: &Checker, key: ArrivalKey) -> bool {
        self.told.iter().all(|(participant, _)| engine.has_arrived(key, *participant))
    }

    /// Whether the rank may know something that no checker has told.
    pub(super) fn leave_something_out(&self, engine: &Checker, key: ArrivalKey) -> bool {
        self.some_tell_nothing || !self.are_heard(engine, key)
    }
}

/// A rank reaches memory of another process from now on. `data` is the start of the memory there.
pub(crate) fn reaches(member: &Member, remote: usize, addresses: &Range<usize>, data: usize) {
    if engine(member.device).is_none() || !member.comm.is_checked_abroad(remote) {
        return;
    }
    let (comm, rank) = (Arc::downgrade(&member.comm), member.rank);
    let tell = move |operation| {
        if let Some(comm) = comm.upgrade() {
            let news = CheckNews::Touches { to: remote, operation };
            comm.tell_part_of(rank, remote, PartNews::Check(news));
        }
    };
    reached::add(addresses, data, (member.comm.id, rank, remote), Arc::new(tell));
}

/// A rank has joined a communicator. If it is watched, it hears the others from now on.
pub(crate) fn joins(member: &Member) {
    if member.comm.is_joint() && engine(member.device).is_some() {
        CheckedComm::linked(&member.comm);
    }
}

/// Ranks of other processes may write these parts of memory from now on. They report it where they
/// are checked.
pub(crate) fn lent(member: &Member, memory: &[Range<usize>]) {
    if let Some(engine) = engine(member.device) {
        // The other process hears of each access from the first one on.
        CheckedComm::linked(&member.comm);
        memory.iter().for_each(|one| engine.lent(one.start));
    }
}

/// The news for another process when a rank records a notify of a rank there. `stream` is at the
/// record; without one the host records.
pub(crate) fn records_abroad(
    device: u32,
    stream: Option<&Stream>,
    name: impl FnOnce() -> String,
    call: &str,
) -> Option<Box<ToldOperation>> {
    let engine = engine(device)?;
    let what = format!("record of {}", name());
    let (at, operation) = match stream {
        Some(stream) => {
            let at = super::hear::here(stream);
            (at, super::hear::at_head(stream, what, call.to_owned(), Vec::new()))
        }
        None => {
            let at = engine.host_steps();
            engine.tells(at);
            (at, super::blocks::by_host(what, call, Vec::new()))
        }
    };
    Some(Box::new(engine.tell(at, &operation, Vec::new())))
}

/// A rank of another process records a notify of this one.
pub(crate) fn recorded_abroad(
    device: u32,
    signal: u64,
    name: impl FnOnce() -> String,
    by: Option<&ToldOperation>,
    process: u32,
) {
    if let (Some(engine), Some(by)) = (engine(device), by) {
        engine.set_by_other(signal, &name(), by, process);
    }
}
