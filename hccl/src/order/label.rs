//! The label of a communicator: the part that its operations need, and the numbers that they take.
//!
//! Collectives and batches are numbered by communicator, messages by peer and direction. The
//! communicator counts the operations that it issues itself. Another thread may replay a graph that
//! uses the communicator, so operations of graphs have counters of their own. A number is the sum
//! of both counts.

#![forbid(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use crate::api::Table;
use crate::api::item::Item;
use crate::api::peers::{PeerSource, is_collective};
use crate::error::batch::Direction;
use crate::error::peers::{MOST_WATCHED, PeerReport};
use crate::error::{Error, OpContext};
use crate::sync::lock;

/// The label of a communicator; see the [module](self).
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) communicator: Box<str>,
    pub(crate) rank: u32,
    pub(crate) world_size: u32,
    /// The source of the states of the ranks, which errors report.
    peers: PeerSource,
    /// The states of the ranks at the time when the communicator failed. They do not change.
    failure: OnceLock<Arc<PeerReport>>,
    /// Whether the communicator was aborted, so that waits for its operations end.
    pub(crate) aborted: AtomicBool,
    /// The labels of graphs that use this communicator together with other communicators. An abort
    /// of this communicator aborts them too.
    joint: Mutex<Vec<Weak<Label>>>,
    /// The number of collectives that the communicator has issued itself. Only the communicator
    /// writes it.
    issued: AtomicU64,
    replayed: Replayed,
    /// The number of users that may issue in the name of the communicator: the communicator itself,
    /// operations on a detour, parts that are being made, and graphs.
    users: AtomicUsize,
    /// The reason why the communicator was dropped. Users that leave later report it.
    dropped: OnceLock<&'static CStr>,
    /// A guard that lives as long as a user may issue, for a run that has to check this.
    alive: OnceLock<Weak<()>>,
}

/// The numbers of operations that graphs have issued.
#[derive(Debug, Default)]
struct Replayed {
    collectives: AtomicU64,
    batches: AtomicU64,
    /// The messages by peer and direction. Allocated when the first message is captured.
    messages: OnceLock<Box<[[AtomicU64; 2]]>>,
}

/// The kind of number that an operation takes.
#[derive(Clone, Copy)]
pub(crate) enum Takes<'a> {
    /// The operation belongs to no communicator, or it is a replay, which is counted after it has
    /// been issued.
    Nothing,
    Collective,
    Message(Direction, u32),
    Batch(&'a [Item]),
}

/// The number of operations of each kind, for example of those that a graph issues at each replay.
#[derive(Default)]
pub(crate) struct Numbers {
    collectives: u64,
    batches: u64,
    messages: Vec<(Direction, u32, u64)>,
}

impl Takes<'_> {
    /// Returns the same kind of number, without the items of a batch.
    pub(crate) fn without_items(self) -> Takes<'static> {
        match self {
            Takes::Nothing => Takes::Nothing,
            Takes::Collective => Takes::Collective,
            Takes::Message(direction, peer) => Takes::Message(direction, peer),
            Takes::Batch(_) => Takes::Batch(&[]),
        }
    }
}

impl Numbers {
    /// Returns how many operations take a number of this kind.
    pub(crate) fn of(&self, takes: Takes<'_>) -> u64 {
        match takes {
            Takes::Nothing => 0,
            Takes::Collective => self.collectives,
            Takes::Batch(_) => self.batches,
            Takes::Message(direction, peer) => {
                let mut messages = self.messages.iter();
                let same = messages.find(|(d, p, _)| (*d, *p) == (direction, peer));
                same.map_or(0, |(_, _, count)| *count)
            }
        }
    }

    pub(crate) fn add(&mut self, takes: Takes<'_>) {
        match takes {
            Takes::Nothing => {}
            Takes::Collective => self.collectives += 1,
            Takes::Message(direction, peer) => self.message(direction, peer),
            Takes::Batch(items) => {
                self.batches += 1;
                items.iter().for_each(|item| self.message(item.direction(), item.peer()));
            }
        }
    }

    fn message(&mut self, direction: Direction, peer: u32) {
        let same = |(d, p, _): &&mut (Direction, u32, u64)| (*d, *p) == (direction, peer);
        match self.messages.iter_mut().find(same) {
            Some((_, _, count)) => *count += 1,
            None => self.messages.push((direction, peer, 1)),
        }
    }
}

impl Label {
    pub(crate) fn new(
        communicator: Box<str>,
        rank: u32,
        world_size: u32,
        peers: PeerSource,
    ) -> Self {
        let (aborted, issued) = (AtomicBool::new(false), AtomicU64::new(0));
        let replayed = Replayed::default();
        let joint = Mutex::default();
        let (failure, users) = (OnceLock::new(), AtomicUsize::new(1));
        Label {
            communicator,
            rank,
            world_size,
            peers,
            failure,
            aborted,
            joint,
            issued,
            replayed,
            users,
            dropped: OnceLock::new(),
            alive: OnceLock::new(),
        }
    }

    /// Stores the guard of a run that has to check whether a user may still issue in the name of
    /// the communicator.
    pub(crate) fn set_alive(&self, alive: &Arc<()>) {
        drop(self.alive.set(Arc::downgrade(alive)));
    }

    /// Returns the guard that a user keeps as long as it may issue. Returns `None` if no run has
    /// set a guard, or if no user keeps it any more.
    pub(crate) fn alive(&self) -> Option<Arc<()>> {
        self.alive.get().and_then(Weak::upgrade)
    }

    /// Adds a user that may issue in the name of the communicator.
    pub(crate) fn join(&self) {
        self.users.fetch_add(1, Relaxed);
    }

    /// Stores the reason why the communicator is dropped.
    pub(crate) fn note_drop(&self, reason: &'static CStr) {
        // A communicator is dropped only once, so the cell is empty.
        let _ = self.dropped.set(reason);
    }

    /// Returns the reason that a user gives when it leaves after the communicator was dropped.
    pub(crate) fn reason_to_leave(&self) -> &'static CStr {
        self.dropped.get().copied().unwrap_or(c"it has dropped its communicator")
    }

    /// Removes a user. When the last user is removed, reports to the peers that this rank issues
    /// nothing more.
    pub(crate) fn leave(&self, table: &Table, reason: &CStr) {
        if self.remove_user() {
            self.report_leave(table, reason);
        }
    }

    /// Removes a user, and returns whether it was the last one.
    pub(crate) fn remove_user(&self) -> bool {
        self.users.fetch_sub(1, AcqRel) == 1
    }

    /// Reports to the peers that this rank issues nothing more, if the backend can do that.
    pub(crate) fn report_leave(&self, table: &Table, reason: &CStr) {
        self.peers.leave(table, reason);
    }

    /// Returns the label that the replays of a graph use, or `None` if the graph uses no
    /// communicator. If it uses one, this is the label of that communicator. If it uses several,
    /// the label has the names of all of them and the rank in the first communicator. This label is
    /// aborted when any of the communicators is aborted.
    pub(crate) fn of_graph<'a>(labels: impl Iterator<Item = &'a Arc<Label>>) -> Option<Arc<Label>> {
        let labels: Vec<_> = labels.collect();
        let first = match *labels {
            [] => return None,
            [only] => return Some(only.clone()),
            [first, ..] => first,
        };
        let names: Vec<&str> = labels.iter().map(|label| &*label.communicator).collect();
        let peers = PeerSource::default();
        let joint = Label::new(names.join(" and ").into(), first.rank, first.world_size, peers);
        let joint = Arc::new(joint);
        for label in labels {
            let mut others = lock(&label.joint);
            others.retain(|other| other.strong_count() != 0);
            others.push(Arc::downgrade(&joint));
            drop(others);
            // An abort sets its flag before it locks the list, and this code reads the flag after
            // it has locked the list. So at least one of the two sets the flag of `joint`.
            if label.aborted.load(Acquire) {
                joint.aborted.store(true, Release);
            }
        }
        Some(joint)
    }

    /// Notes that the communicator is aborted, also in the labels of graphs that use it together
    /// with other communicators. The caller raises an [alarm](super::patience::alarm) afterwards,
    /// so that waits for the operations end. Returns whether this is the first abort.
    pub(crate) fn abort(&self) -> bool {
        let before = self.aborted.swap(true, AcqRel);
        for other in lock(&self.joint).iter().filter_map(Weak::upgrade) {
            other.aborted.store(true, Release);
        }
        !before
    }

    /// Returns the context that names an operation. `sequence` is 0 for a call that takes no
    /// number.
    pub(crate) fn context(&self, operation: &'static str, sequence: u64) -> OpContext {
        let communicator = Some(self.communicator.clone());
        let (rank, world_size) = (Some(self.rank), Some(self.world_size));
        OpContext { operation, communicator, rank, world_size, sequence, peers: None }
    }

    /// Returns the [`context`](Self::context) of an operation. If the communicator has failed, adds
    /// the states of the ranks at that time.
    #[cold]
    pub(crate) fn failed(&self, operation: &'static str, sequence: u64) -> OpContext {
        OpContext { peers: self.failure(), ..self.context(operation, sequence) }
    }

    /// Returns the context of an operation as [`failed`](Self::failed) does. If the communicator
    /// has not failed and the operation is a collective, adds the present states of the ranks. For
    /// other operations the backend does not know which ranks have issued them.
    #[cold]
    pub(crate) fn waiting(&self, operation: &'static str, sequence: u64) -> OpContext {
        let now = || self.peers.now(sequence, self.rank, self.world_size).map(Arc::new);
        let peers = self.failure().or_else(|| is_collective(operation).then(now).flatten());
        OpContext { peers, ..self.context(operation, sequence) }
    }

    /// Returns the context of an operation as [`waiting`](Self::waiting) does, for a wait that goes
    /// on. Adds no states of ranks if the communicator has more than [`MOST_WATCHED`] ranks.
    #[cold]
    pub(crate) fn watched(&self, operation: &'static str, sequence: u64) -> OpContext {
        match self.world_size {
            ..=MOST_WATCHED => self.waiting(operation, sequence),
            _ => self.context(operation, sequence),
        }
    }

    /// Returns the states that the ranks had when the communicator failed. Returns `None` if it has
    /// not failed or has too many ranks for a report, or if the backend does not report the states.
    fn failure(&self) -> Option<Arc<PeerReport>> {
        if let Some(known) = self.failure.get() {
            return Some(known.clone());
        }
        let report = Arc::new(self.peers.failure(self.world_size)?);
        Some(self.failure.get_or_init(|| report).clone())
    }

    /// Adds the operation to an error, unless the error already names one.
    #[cold]
    pub(crate) fn explain(&self, operation: &'static str, sequence: u64, error: Error) -> Error {
        let error = error.in_operation(|| self.failed(operation, sequence));
        if error.context().is_some() {
            return error;
        }
        let context = Box::new(self.failed(operation, sequence));
        Error::Refused { context, cause: Box::new(error) }
    }

    /// Returns the number of the next collective.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.issued.load(Relaxed) + self.replayed.collectives.load(Relaxed) + 1
    }

    /// Counts a collective that the communicator itself has issued.
    #[inline]
    pub(crate) fn count(&self) {
        self.issued.store(self.issued.load(Relaxed) + 1, Relaxed);
    }

    /// Returns the number of batches that graphs have issued.
    #[inline]
    pub(crate) fn replayed_batches(&self) -> u64 {
        self.replayed.batches.load(Relaxed)
    }

    /// Returns the number of messages to or from a peer that graphs have issued.
    #[inline]
    pub(crate) fn replayed_messages(&self, direction: Direction, peer: u32) -> u64 {
        let peers = self.replayed.messages.get();
        let peer = peers.and_then(|peers| peers.get(peer as usize));
        peer.map_or(0, |directions| directions[direction as usize].load(Relaxed))
    }

    /// Adds an operation of a graph to `numbers`, the numbers that each replay takes.
    pub(crate) fn will_replay(&self, takes: Takes<'_>, numbers: &mut Numbers) {
        numbers.add(takes);
        if !numbers.messages.is_empty() {
            // Allocates the counters now, so that no replay allocates.
            self.peers();
        }
    }

    /// Counts the operations of a graph that has been replayed.
    pub(crate) fn count_replayed(&self, numbers: &Numbers) {
        let Numbers { collectives, batches, messages } = numbers;
        self.replayed.collectives.fetch_add(*collectives, Relaxed);
        self.replayed.batches.fetch_add(*batches, Relaxed);
        if messages.is_empty() {
            return;
        }
        let peers = self.peers();
        for (direction, peer, count) in messages {
            if let Some(directions) = peers.get(*peer as usize) {
                directions[*direction as usize].fetch_add(*count, Relaxed);
            }
        }
    }

    fn peers(&self) -> &[[AtomicU64; 2]] {
        let make = || (0..self.world_size).map(|_| Default::default()).collect();
        self.replayed.messages.get_or_init(make)
    }
}
