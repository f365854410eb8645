//! Exchanges messages between the checkers of processes whose ranks share a communicator.
//!
//! A checker sends the clock of its rank when the rank arrives at a meeting, and each access of its
//! rank to memory of a rank of another process. It sends both before the operation itself begins,
//! over the socket between the two processes, so they arrive in that order. But the end of the
//! operation may be visible earlier, in shared memory. So the [note](super::note) after the
//! operation waits until all messages have arrived. A checker also sends the clock of the host: see
//! [`hosts`](super::hosts).
//!
//! The process that owns the memory compares the accesses and prints findings. An unchecked rank
//! does not send its clock. So a process that receives data from an unchecked rank is assumed to
//! know everything that was sent to other processes before. Because of this, some races are missed,
//! but no false race is reported.

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

/// The part of a communicator that receives the messages of other checkers.
struct CheckedComm {
    comm: u64,
    engines: Vec<Arc<Checker>>,
    /// The streams that wait for the arrival of a rank of another process.
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

    /// Returns the part for a communicator with ranks in other processes. From now on, this host
    /// sends its clock to the hosts of these processes.
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

/// Returns the accesses of an operation of another process to memory of this process.
fn touches(told: &ToldOperation) -> Vec<Touch> {
    let touch = |touch: &ToldTouch| {
        let start = nominal(std::ptr::without_provenance(touch.data));
        Touch { range: start..start.saturating_add(touch.bytes), mode: touch.mode.into() }
    };
    told.touches.iter().map(touch).collect()
}

/// Returns the number of the way of messages from one rank to another: the middle part of an
/// [`ArrivalKey`]. For collectives this part is 0.
pub(super) fn way(source: usize, destination: usize) -> u64 {
    1 << 63 | (source as u64) << 32 | destination as u64
}

/// Returns the sender and the receiver of a way of messages.
fn ends(way: u64) -> [usize; 2] {
    [(way << 1 >> 33) as usize, way as u32 as usize]
}

/// Returns the participant number of a rank in a meeting, and the number of participants. Returns
/// `None` if the meeting is a message, and the rank neither sends nor receives it.
fn participant(comm: &Comm, way: u64, rank: usize) -> Option<(usize, usize)> {
    if way == 0 {
        return Some((rank, comm.ranks()));
    }
    ends(way).iter().position(|it| *it == rank).map(|side| (side, 2))
}

/// Sends a message to each other process that has a checked rank of a communicator.
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

/// Sends the clock of a rank that is about to arrive at a meeting, as of the point `at`, to the
/// other processes of the meeting.
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

/// The arrivals of ranks of other processes that must be reported before the end of an operation.
#[derive(Clone)]
pub(super) struct Arrivals {
    comm: Arc<Comm>,
    /// The participants that report their arrival, with their ranks.
    told: Vec<(usize, usize)>,
    /// Whether there are participants that do not report their arrival.
    some_tell_nothing: bool,
}

impl Arrivals {
    /// Returns the arrivals of these participants, each given with its rank. Returns `None` if all
    /// of them are in this process.
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

    /// Returns whether the wait is over: all arrivals were reported, or some never will be.
    /// Otherwise the stream is woken when this may have changed.
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

    /// Returns whether the rank may have learned of steps that no checker has reported.
    pub(super) fn leave_something_out(&self, engine: &Checker, key: ArrivalKey) -> bool {
        self.some_tell_nothing || !self.are_heard(engine, key)
    }
}

/// Notes that a rank can reach memory of another process from now on. `data` is the start of the
/// memory in that process.
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

/// Notes that a rank has joined a communicator. If the rank is checked, its checker receives the
/// messages of other checkers from now on.
pub(crate) fn joins(member: &Member) {
    if member.comm.is_joint() && engine(member.device).is_some() {
        CheckedComm::linked(&member.comm);
    }
}

/// Notes that ranks of other processes may write these parts of memory from now on. Checked ranks
/// report their writes.
pub(crate) fn lent(member: &Member, memory: &[Range<usize>]) {
    if let Some(engine) = engine(member.device) {
        // The checkers must be linked before the first access, so that every access is reported.
        CheckedComm::linked(&member.comm);
        memory.iter().for_each(|one| engine.lent(one.start));
    }
}

/// Makes the message for another process when a rank records a notify of a rank there. The record
/// is the current task of `stream`, or a call of the host if `stream` is `None`. Returns `None` if
/// the device is not checked.
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

/// Notes that a rank of another process has recorded a notify of this process.
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
