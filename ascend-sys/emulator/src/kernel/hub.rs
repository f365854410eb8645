//! The hub of a communicator, in which the servers of all its ranks meet.
//!
//! Turns are collectives of a separate communicator, so that they may run in any order relative to
//! those of the host. A collective compares its own arguments. The hub compares the tasks before
//! their first turn: all ranks must have prepared the same task, with the same strides and the same
//! number of turns.
//!
//! Ranks in other processes send messages about the tasks that they have prepared. A server waits
//! until all ranks have sent theirs.

use super::work::{PreparedWork, WorkKind};
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::sides::{Sides, list};
use crate::collective::validate::name_of;
use crate::fabric::{Comm, CommPart, Heard, PartNews};
use crate::sleeping_streams::SleepingStreams;
use crate::stream::Stream;
use ascend_sync::lock_std as lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The servers of one communicator.
pub(crate) struct Hub {
    /// The number of the hub; no two hubs have the same number.
    pub(super) number: u64,
    pub(crate) comm: Arc<Comm>,
    /// The address of the context of each rank of this process; 0 if the rank has none.
    pub(super) contexts: Box<[AtomicUsize]>,
}

/// The tasks that ranks have reached. They are a part of the communicator of the servers.
struct Tasks {
    ranks: usize,
    known: Mutex<KnownTasks>,
    /// The servers of this process that wait until all ranks have reached a task.
    sleepers: SleepingStreams,
}

#[derive(Default)]
struct KnownTasks {
    /// For each task number, the task that each rank has prepared.
    said: BTreeMap<u64, Vec<Option<Said>>>,
    /// The number of the last task that all ranks have reached.
    compared: u64,
}

#[derive(Clone, PartialEq)]
struct Said {
    columns: Vec<String>,
    place: String,
}

impl Hub {
    /// Makes the hub for servers that meet in a communicator.
    pub(crate) fn new(comm: Arc<Comm>) -> Hub {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let contexts = (0..comm.ranks()).map(|_| AtomicUsize::new(0)).collect();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // From now on the communicator receives messages about tasks.
        Tasks::of(&comm);
        Hub { number, comm, contexts }
    }

    fn tasks(&self) -> &Tasks {
        Tasks::of(&self.comm)
    }

    /// Notes and compares a task that a rank of this process has reached. A disagreement ends the
    /// communicator.
    pub(super) fn say(&self, rank: usize, number: u64, work: &PreparedWork) {
        let mine = Said { columns: columns(work), place: work.place.clone() };
        self.comm.tell_parts(rank, || {
            let Said { columns, place } = mine.clone();
            PartNews::Task { number, columns, place }
        });
        if let Some(error) = self.tasks().hear(rank, number, mine) {
            self.comm.fail(error);
        }
    }

    /// Returns whether the first turn of a task may begin. Between processes it may begin only
    /// after the tasks of all ranks were compared. If a rank is gone, or the communicator has
    /// failed, it may begin at once, because the turn then fails with the reason.
    pub(super) fn is_compared(&self, number: u64) -> bool {
        let is_gone = |rank: &usize| self.comm.board.departure(*rank).is_some();
        !self.comm.is_joint() || self.comm.meeting.error().is_some() || {
            let absent = self.absent(number);
            absent.is_empty() || absent.iter().any(is_gone)
        }
    }

    /// Registers a server that is about to sleep, so that it is woken when the result of
    /// [`is_compared`](Self::is_compared) may have changed. Returns the current result.
    pub(super) fn arm(&self, number: u64, stream: &'static Stream) -> bool {
        self.tasks().sleepers.add(stream);
        self.is_compared(number)
    }

    /// Returns the ranks that have not reached a task.
    fn absent(&self, number: u64) -> Vec<usize> {
        let known = lock(&self.tasks().known);
        if number <= known.compared {
            return Vec::new();
        }
        let said = known.said.get(&number);
        let has_said = |rank: usize| said.is_some_and(|said| said[rank].is_some());
        (0..self.comm.ranks()).filter(|rank| !has_said(*rank)).collect()
    }

    /// Returns the end of an error text that names the ranks that have not reached a task.
    pub(super) fn missing(&self, number: u64) -> String {
        format!("{} to come to the same task", list(&self.absent(number)))
    }
}

impl Tasks {
    fn of(comm: &Comm) -> &Tasks {
        comm.part(|| Tasks {
            ranks: comm.ranks(),
            known: Mutex::default(),
            sleepers: SleepingStreams::default(),
        })
    }

    /// Notes and compares a task that a rank of any process has reached. Returns an error if the
    /// tasks disagree.
    fn hear(&self, rank: usize, number: u64, task: Said) -> Option<CommError> {
        let mut known = lock(&self.known);
        if number <= known.compared {
            return None;
        }
        let said = known.said.entry(number).or_insert_with(|| vec![None; self.ranks]);
        let differs = said.iter().flatten().any(|other| other.columns != task.columns);
        if let Some(place) = said.get_mut(rank) {
            *place = Some(task);
        }
        if differs {
            let mut sides = Sides::default();
            for (rank, said) in said.iter().enumerate() {
                let Some(Said { columns, place }) = said else {
                    sides.silent(rank);
                    continue;
                };
                let prepared = [format!("prepared in {place}")];
                sides.says(rank, columns.iter().cloned().chain(prepared).collect());
            }
            let account = sides.under("the kernels of the ranks have prepared different tasks");
            return Some(CommError::new(Origin::Call, Cause::Mismatch, account));
        }
        if said.iter().all(Option::is_some) {
            known.said.remove(&number);
            known.compared = number;
            drop(known);
            self.sleepers.wake();
        }
        None
    }
}

impl CommPart for Tasks {
    fn left(&self, _: usize, _: &str) {
        self.sleepers.wake();
    }

    fn broken(&self) {
        self.sleepers.wake();
    }

    fn heard(&self, _: &Comm, rank: usize, news: &PartNews) -> Heard {
        let PartNews::Task { number, columns, place } = news else { return Heard::NotForThis };
        let said = Said { columns: columns.clone(), place: place.clone() };
        self.hear(rank, *number, said).map_or(Heard::Taken, Heard::Fails)
    }
}

/// Returns the arguments that must agree, as columns of text.
fn columns(work: &PreparedWork) -> Vec<String> {
    let mut columns = vec![work.kind.name().to_owned()];
    if work.kind == WorkKind::AlltoAllvWrite {
        // Each rank may write to different places.
        return columns;
    }
    if work.kind != WorkKind::AlltoAllV {
        columns.push(format!("count {}", work.count));
    }
    columns.push(name_of(work.dtype).into());
    if let WorkKind::AllReduce(op) | WorkKind::ReduceScatter(op) = work.kind {
        columns.push(format!("{op:?}").to_uppercase());
    }
    if !matches!(work.kind, WorkKind::AlltoAllV | WorkKind::AllReduce(_)) {
        columns.push(format!("stride {}", work.stride));
    }
    columns.push(format!("repeat {}", work.repeat));
    columns.extend(work.steps.map(|steps| format!("steps of {steps}")));
    columns
}
