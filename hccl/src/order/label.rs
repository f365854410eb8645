//! A communicator as its operations know it, and the numbers that they take.
//!
//! Collectives and batches are numbered by communicator, messages by peer and direction. The
//! communicator counts the operations that it issues itself. A graph, which may be replayed by
//! another thread, counts here those that it issues in the communicator's name. A number is the sum
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

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) communicator: Box<str>,
    pub(crate) rank: u32,
    pub(crate) world_size: u32,
    /// The states of its ranks, for errors.
    peers: PeerSource,
    /// The states of the ranks when it failed, which do not change.
    failure: OnceLock<Arc<PeerReport>>,
    /// Whether waits for its operations may end.
    pub(crate) aborted: AtomicBool,
    /// Labels of graphs that use this communicator beside others: its abort is theirs.
    joint: Mutex<Vec<Weak<Label>>>,
    /// Collectives that the communicator has issued itself; it is the only one to write this.
    issued: AtomicU64,
    replayed: Replayed,
    /// The number of users that may issue in its name: the communicator, operations on a detour,
    /// parts that are being made, and graphs.
    users: AtomicUsize,
    /// Why the communicator was dropped, for those that leave after it.
    dropped: OnceLock<&'static CStr>,
    /// Lives as long as somebody may issue, where a run has to know.
    alive: OnceLock<Weak<()>>,
}

/// The operations that graphs have issued.
#[derive(Debug, Default)]
struct Replayed {
    collectives: AtomicU64,
    batches: AtomicU64,
    /// The messages by peer and direction. Made when messages are captured.
    messages: OnceLock<Box<[[AtomicU64; 2]]>>,
}

/// The numbers that an operation takes.
#[derive(Clone, Copy)]
pub(crate) enum Takes<'a> {
    /// It belongs to no communicator, or is a replay, which is counted when it has been issued.
    Nothing,
    Collective,
    Message(Direction, u32),
    Batch(&'a [Item]),
}

/// The number of operations of each kind, for example that a graph issues at every replay.
#[derive(Default)]
pub(crate) struct Numbers {
    collectives: u64,
    batches: u64,
    messages: Vec<(Direction, u32, u64)>,
}

impl Takes<'_> {
    /// The same kind of number, without the items of a batch.
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
    /// How many operations take a number of this kind.
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

    /// Stores the guard of a run that has to know how long somebody may issue in its name.
    pub(crate) fn set_alive(&self, alive: &Arc<()>) {
        drop(self.alive.set(Arc::downgrade(alive)));
    }

    /// The guard that a user keeps as long as it may issue, where a run has to know.
    pub(crate) fn alive(&self) -> Option<Arc<()>> {
        self.alive.get().and_then(Weak::upgrade)
    }

    /// One more user may issue in its name.
    pub(crate) fn join(&self) {
        self.users.fetch_add(1, Relaxed);
    }

    /// The communicator is dropped for this reason.
    pub(crate) fn note_drop(&self, reason: &'static CStr) {
        // It is dropped once.
        let _ = self.dropped.set(reason);
    }

    /// One user less may issue: one that the communicator began before it was dropped.
    pub(crate) fn leave_after_it(&self, table: &Table) {
        self.leave(
            table,
            self.dropped.get().copied().unwrap_or(c"it has dropped its communicator"),
        );
    }

    /// One user less may issue. After the last one the peers are told that this rank issues nothing
    /// more, where the backend can.
    pub(crate) fn leave(&self, table: &Table, reason: &CStr) {
        if self.users.fetch_sub(1, AcqRel) == 1 {
            self.peers.leave(table, reason);
        }
    }

    /// Returns the label that the replays of a graph use: that of its only communicator, or one
    /// that is aborted when any of them is. It has the names of all, and the rank in the first.
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
            // An abort sets its own flag before it looks at the list.
            if label.aborted.load(Acquire) {
                joint.aborted.store(true, Release);
            }
        }
        Some(joint)
    }

    /// Ends waits for its operations, those of graphs too. Returns whether that is news.
    pub(crate) fn abort(&self) -> bool {
        let before = self.aborted.swap(true, AcqRel);
        for other in lock(&self.joint).iter().filter_map(Weak::upgrade) {
            other.aborted.store(true, Release);
        }
        !before
    }

    /// Names an operation, or with number 0 a call that takes none.
    pub(crate) fn context(&self, operation: &'static str, sequence: u64) -> OpContext {
        let communicator = Some(self.communicator.clone());
        let (rank, world_size) = (Some(self.rank), Some(self.world_size));
        OpContext { operation, communicator, rank, world_size, sequence, peers: None }
    }

    /// The same with the states of the ranks when the communicator failed, if it has.
    #[cold]
    pub(crate) fn failed(&self, operation: &'static str, sequence: u64) -> OpContext {
        OpContext { peers: self.failure(), ..self.context(operation, sequence) }
    }

    /// The same with the present states of the ranks, as seen from a collective. Of other
    /// operations the backend does not see which ranks have come.
    #[cold]
    pub(crate) fn waiting(&self, operation: &'static str, sequence: u64) -> OpContext {
        let now = || self.peers.now(sequence, self.rank, self.world_size).map(Arc::new);
        let peers = self.failure().or_else(|| is_collective(operation).then(now).flatten());
        OpContext { peers, ..self.context(operation, sequence) }
    }

    /// The same if that is not too much for a wait that goes on.
    #[cold]
    pub(crate) fn watched(&self, operation: &'static str, sequence: u64) -> OpContext {
        match self.world_size {
            ..=MOST_WATCHED => self.waiting(operation, sequence),
            _ => self.context(operation, sequence),
        }
    }

    /// The states of the ranks when the communicator failed, if it has.
    fn failure(&self) -> Option<Arc<PeerReport>> {
        if let Some(known) = self.failure.get() {
            return Some(known.clone());
        }
        let report = Arc::new(self.peers.failure(self.world_size)?);
        Some(self.failure.get_or_init(|| report).clone())
    }

    /// Adds the operation to an error, unless the error has one itself.
    #[cold]
    pub(crate) fn explain(&self, operation: &'static str, sequence: u64, error: Error) -> Error {
        let error = error.in_operation(|| self.failed(operation, sequence));
        if error.context().is_some() {
            return error;
        }
        let context = Box::new(self.failed(operation, sequence));
        Error::Refused { context, cause: Box::new(error) }
    }

    /// The number of the next collective.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.issued.load(Relaxed) + self.replayed.collectives.load(Relaxed) + 1
    }

    /// The communicator has issued a collective.
    #[inline]
    pub(crate) fn count(&self) {
        self.issued.store(self.issued.load(Relaxed) + 1, Relaxed);
    }

    /// Batches that graphs have issued.
    #[inline]
    pub(crate) fn replayed_batches(&self) -> u64 {
        self.replayed.batches.load(Relaxed)
    }

    /// Messages to or from a peer that graphs have issued.
    #[inline]
    pub(crate) fn replayed_messages(&self, direction: Direction, peer: u32) -> u64 {
        let peers = self.replayed.messages.get();
        let peer = peers.and_then(|peers| peers.get(peer as usize));
        peer.map_or(0, |directions| directions[direction as usize].load(Relaxed))
    }

    /// Counts one more operation of a graph.
    pub(crate) fn will_replay(&self, takes: Takes<'_>, numbers: &mut Numbers) {
        numbers.add(takes);
        if !numbers.messages.is_empty() {
            // Made now, so that no replay allocates.
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
