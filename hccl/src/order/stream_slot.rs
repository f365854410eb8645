//! A slot for streams: the numbers of their operations, and records of the last of these.
//!
//! A stream has a slot for as long as it lives; later another stream gets it. Slots are never
//! freed, and numbers and tickets go on from one stream to the next, so *a slot and a number name
//! an operation for ever*. A stamp, an event or a `Work` keeps only that pair, without a reference
//! count.
//!
//! The part that belongs to the stream itself, its handle and its device, is the stream's
//! [`StreamQueue`](super::queue::StreamQueue). A holder of a number may [ask for
//! it](StreamSlot::occupant_of). It is gone only when everything on the stream is complete and its
//! failures are in the slot. So a caller that does not get it knows that the operation is complete,
//! and how it ended.
//!
//! Completion is known in one of two ways. Where the backend counts ([`Progress`]) it is one load.
//! Elsewhere events tell it ([`super::marks`]).

#![forbid(unsafe_code)]

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::faults::Faults;
use super::issue_order::Issuer;
use super::label::Label;
use super::timeline::{StreamTimeline, WINDOW};
use super::unseen::Feed;
use crate::api::entries::Progress;
use crate::error::{Error, OpContext, Result};
use crate::sync::lock;
use ascend_program::check::Finding;
use ascend_sync::{Biased, Guard, SpinLock};

/// The record of an operation, for messages.
#[derive(Default)]
struct Record {
    number: u64,
    operation: &'static str,
    label: Option<Arc<Label>>,
    /// The number in the communicator.
    sequence: u64,
}

impl Record {
    fn context(&self) -> OpContext {
        match &self.label {
            Some(label) => label.context(self.operation, self.sequence),
            None => OpContext::new(self.operation, self.sequence),
        }
    }
}

/// The data that the issue lock guards: the right to enqueue, and the records of the last
/// operations.
pub(crate) struct Issuing {
    records: Box<[Record]>,
}

impl Issuing {
    pub(crate) fn note(
        &mut self,
        number: u64,
        operation: &'static str,
        label: Option<&Arc<Label>>,
        sequence: u64,
    ) {
        let record = &mut self.records[(number % WINDOW) as usize];
        record.number = number;
        record.operation = operation;
        record.sequence = sequence;
        let same = match (&record.label, label) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !same {
            record.label = label.cloned();
        }
    }
}

/// The stream that has a slot, as the slot and the reactor know it. It is always a
/// [`StreamQueue`](super::queue::StreamQueue), whose other parts they do not know.
pub(crate) trait Occupant: Any + Send + Sync {
    fn slot(&self) -> &'static StreamSlot;
    /// Whether the number is complete. May ask the backend; never blocks.
    fn is_complete(&self, number: u64) -> bool;
    /// Looks at failures that the backend counted and nobody has looked at.
    fn examine(&self);
    /// Blocks until something has become complete on some stream since `seen`, for at most `limit`.
    /// Returns whether the backend has a call for that.
    fn await_activity(&self, seen: &mut u64, limit: Duration) -> bool;
    /// Ends the stream, which was dropped and is complete by now.
    fn end(self: Arc<Self>);
}

/// See the [module](self).
pub(crate) struct StreamSlot {
    /// The line of the backend's counters, where it counts.
    pub(crate) progress: Option<Progress>,
    pub(crate) timeline: StreamTimeline,
    issuing: Biased<Issuing>,
    pub(crate) faults: Faults,
    /// The number of failures of the line that have been looked at.
    pub(crate) failed_seen: AtomicU64,
    /// For each of the last numbers: the number itself when its `Work` was dropped before it was
    /// seen complete.
    detached: [AtomicU64; WINDOW as usize],
    /// The same for numbers whose call has returned an error: no `Work` was made.
    refused: [AtomicU64; WINDOW as usize],
    /// The last number while its `Work` is alive; only where events tell.
    watched: AtomicU64,
    occupant: SpinLock<Option<Arc<dyn Occupant>>>,
    /// Operations whose outcome is known elsewhere, with their numbers.
    elsewhere: Mutex<Vec<(u64, Arc<dyn Elsewhere>)>>,
    /// The number of these operations.
    elsewhere_count: AtomicUsize,
    /// The operations of other streams that operations of this one wait for.
    pub(super) fed: Mutex<Vec<Feed>>,
    /// The number of these.
    pub(super) fed_count: AtomicUsize,
    /// The notes of the kernel checker, by operation.
    notes: Mutex<VecDeque<(u64, Arc<[Finding]>)>>,
}

/// The outcome of an operation whose call was made for another stream: see `comm::detour`.
pub(crate) trait Elsewhere: Send + Sync {
    /// Lets go what the operation has held, and returns the failure, if it has failed. Asked when
    /// the operation is complete; `gave_up` says that its stream may have failed before it got
    /// there. Does not wait for other ranks.
    fn failure(&self, gave_up: bool) -> Option<Error>;

    /// Returns the backend's words for what it waits for; `None` when nobody knows.
    fn waits_for(&self) -> Option<Box<str>>;

    /// Returns the ranks that it waits for, as far as the backend tells.
    fn awaited_ranks(&self) -> Vec<u32>;
}

/// The slots that no stream has, by the address of their line of counters.
static FREE: Mutex<BTreeMap<usize, Vec<&'static StreamSlot>>> = Mutex::new(BTreeMap::new());

impl StreamSlot {
    /// Takes a slot for a new stream.
    ///
    /// Tickets go on as numbers do, because the slot keeps its line, and the tickets of a line go
    /// on.
    pub(crate) fn take(progress: Option<Progress>) -> &'static StreamSlot {
        let line = progress.map_or(0, Progress::address);
        let free = lock(&FREE).get_mut(&line).and_then(Vec::pop);
        let completed = progress.map_or(0, Progress::completed);
        let slot = free.filter(|slot| slot.timeline.last_ticket() <= completed);
        let slot = slot.unwrap_or_else(|| Box::leak(Box::new(StreamSlot::new(progress))));
        // A foreign stream has a past that is not ours.
        slot.failed_seen.store(progress.map_or(0, Progress::failed), Release);
        slot.faults.begin();
        lock(&slot.fed).clear();
        slot.fed_count.store(0, Release);
        slot.timeline.begin(completed);
        slot.issuing.forget_owner();
        slot
    }

    /// Gives the slot back, which [`take`](Self::take) took, when nobody has the queue any more.
    pub(crate) fn give_back(&'static self) {
        let line = self.progress.map_or(0, Progress::address);
        lock(&FREE).entry(line).or_default().push(self);
    }

    fn new(progress: Option<Progress>) -> Self {
        let records = (0..WINDOW).map(|_| Record::default()).collect();
        Self {
            progress,
            timeline: StreamTimeline::new(),
            issuing: Biased::new(Issuing { records }),
            faults: Faults::default(),
            failed_seen: AtomicU64::new(0),
            detached: std::array::from_fn(|_| AtomicU64::new(0)),
            refused: std::array::from_fn(|_| AtomicU64::new(0)),
            watched: AtomicU64::new(0),
            occupant: SpinLock::new(None),
            elsewhere: Mutex::default(),
            elsewhere_count: AtomicUsize::new(0),
            fed: Mutex::default(),
            fed_count: AtomicUsize::new(0),
            notes: Mutex::default(),
        }
    }

    pub(crate) fn set_occupant(&self, occupant: Option<Arc<dyn Occupant>>) {
        let before = std::mem::replace(&mut *self.occupant.lock(), occupant);
        // Without the lock.
        drop(before);
    }

    /// Returns the stream that has the slot now.
    pub(crate) fn occupant(&self) -> Option<Arc<dyn Occupant>> {
        self.occupant.lock().clone()
    }

    /// Returns the stream that operation `number` is on. `None` when that is gone: then the
    /// operation is complete.
    pub(crate) fn occupant_of(&self, number: u64) -> Option<Arc<dyn Occupant>> {
        self.occupant().filter(|_| !self.timeline.is_past(number))
    }

    /// Takes the issue lock: the right to enqueue.
    #[inline]
    pub(crate) fn issuing(&self) -> Guard<'_, Issuing> {
        self.issuing.lock()
    }

    pub(crate) fn try_issuing(&self) -> Option<Guard<'_, Issuing>> {
        self.issuing.try_lock()
    }

    /// Returns the ticket that the stream has reached; 0 where the backend does not count.
    #[inline]
    pub(crate) fn ticket(&self) -> u64 {
        self.progress.map_or(0, Progress::submitted)
    }

    /// Whether events tell completion, and there is a `Work` of this number.
    #[inline]
    pub(crate) fn is_watched(&self, number: u64) -> bool {
        self.progress.is_none() && self.watched.load(Acquire) == number
    }

    #[inline]
    pub(crate) fn watch(&self, number: u64) {
        if self.progress.is_none() {
            self.watched.store(number, Release);
        }
    }

    /// The number has no `Work` any more.
    #[inline]
    pub(crate) fn unwatch(&self, number: u64) {
        if self.progress.is_none() {
            let _ = self.watched.compare_exchange(number, 0, AcqRel, Relaxed);
        }
    }

    /// Whether the number is complete, as far as the slot knows without a call.
    #[inline]
    pub(crate) fn is_known_complete(&self, number: u64) -> bool {
        match self.progress {
            Some(progress) => {
                self.timeline.is_past(number)
                    || self.timeline.ticket(number).is_some_and(|t| progress.completed() >= t)
            }
            None => self.timeline.is_told_complete(number),
        }
    }

    /// Whether the number is complete. May ask the backend; never blocks.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        self.is_known_complete(number)
            || self.progress.is_none()
                && self.occupant_of(number).is_none_or(|stream| stream.is_complete(number))
    }

    /// As [`is_complete`](Self::is_complete) for a `Work`, which knows its own ticket.
    #[inline]
    pub(crate) fn is_work_complete(&self, number: u64, ticket: u64) -> bool {
        match self.progress {
            Some(progress) => progress.completed() >= ticket,
            None => self.is_complete(number),
        }
    }

    /// Keeps the notes of the kernel checker on an operation, for as long as its record is kept.
    pub(crate) fn note(&self, number: u64, found: Arc<[Finding]>) {
        let mut notes = lock(&self.notes);
        if notes.len() as u64 >= WINDOW {
            notes.pop_front();
        }
        notes.push_back((number, found));
    }

    /// Returns the notes of the kernel checker on an operation.
    pub(crate) fn notes(&self, number: u64) -> Option<Arc<[Finding]>> {
        let notes = lock(&self.notes);
        let found = notes.iter().find(|(of, _)| *of == number);
        found.map(|(_, notes)| Arc::clone(notes))
    }

    /// Returns an unfinished operation up to `number` whose communicator has been aborted. `None`
    /// when it cannot be told, because an operation is just being enqueued.
    pub(crate) fn aborted(&self, number: u64) -> Option<Option<OpContext>> {
        let issuing = self.try_issuing()?;
        let submitted = self.timeline.submitted();
        let aborted = issuing.records.iter().find(|record| {
            let is_aborted = |label: &Arc<Label>| label.aborted.load(Acquire);
            record.label.as_ref().is_some_and(is_aborted)
                && record.number <= number
                && record.number + WINDOW > submitted
                && !self.is_known_complete(record.number)
        });
        Some(aborted.map(Record::context))
    }

    /// Returns the operation with this number, as far as it is remembered.
    pub(crate) fn describe(&self, number: u64) -> OpContext {
        self.described(number, Label::context)
    }

    /// As [`describe`](Self::describe), with the states of the ranks when its communicator failed.
    #[cold]
    pub(crate) fn describe_failed(&self, number: u64) -> OpContext {
        self.described(number, Label::failed)
    }

    /// As [`describe`](Self::describe), with the present states of the ranks.
    #[cold]
    pub(crate) fn describe_waiting(&self, number: u64) -> OpContext {
        self.described(number, Label::waiting)
    }

    /// As [`describe_waiting`](Self::describe_waiting), for a wait that goes on.
    #[cold]
    pub(crate) fn describe_watched(&self, number: u64) -> OpContext {
        self.described(number, Label::watched)
    }

    fn described(
        &self,
        number: u64,
        by: impl FnOnce(&Label, &'static str, u64) -> OpContext,
    ) -> OpContext {
        // The lock may be held by an enqueue that waits for peers; a message is not worth waiting
        // for it.
        let known = self.try_issuing().and_then(|issuing| {
            let record = &issuing.records[(number % WINDOW) as usize];
            let known = (record.label.clone(), record.operation, record.sequence);
            (record.number == number).then_some(known)
        });
        match known {
            // Without the lock, since the backend is asked.
            Some((Some(label), operation, sequence)) => by(&label, operation, sequence),
            Some((None, operation, sequence)) => OpContext::new(operation, sequence),
            None => OpContext::new("operation", self.timeline.position(number)),
        }
    }

    /// Returns how a complete operation ended.
    #[inline]
    pub(crate) fn outcome(&self, number: u64, tickets: (u64, u64)) -> Result<()> {
        // If the stream is gone, its failures have been looked at.
        if self.has_news()
            && let Some(stream) = self.occupant_of(number)
        {
            stream.examine();
        }
        if !self.faults.any() {
            return Ok(());
        }
        self.faults.of(number, tickets).map_or(Ok(()), Err)
    }

    /// Whether there may be failures that nobody has looked at: the backend has counted some, or
    /// there are outcomes elsewhere.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.progress.is_some_and(|progress| progress.failed() != self.failed_seen.load(Acquire))
            || self.elsewhere_count.load(Acquire) != 0
    }

    /// Says that the outcome of operation `number` will be known elsewhere. With the issue lock
    /// held, before the number is published.
    pub(crate) fn ends_elsewhere(&self, number: u64, end: Arc<dyn Elsewhere>) {
        let mut elsewhere = lock(&self.elsewhere);
        elsewhere.push((number, end));
        self.elsewhere_count.fetch_add(1, Release);
    }

    /// Returns the first unfinished operation up to `number` whose outcome is known elsewhere.
    pub(crate) fn first_elsewhere(&self, number: u64) -> Option<Arc<dyn Elsewhere>> {
        let elsewhere = lock(&self.elsewhere);
        let mut open = elsewhere.iter().filter(|(at, _)| !self.is_known_complete(*at));
        open.find(|(at, _)| *at <= number).map(|(_, end)| end.clone())
    }

    /// Takes over what is known elsewhere of operations that are complete. Whether there are
    /// others.
    pub(crate) fn settle(&self) -> bool {
        if self.elsewhere_count.load(Acquire) == 0 {
            return false;
        }
        let mut elsewhere = lock(&self.elsewhere);
        let is_over = |(number, _): &mut (u64, _)| self.is_complete(*number);
        let over: Vec<_> = elsewhere.extract_if(.., is_over).collect();
        // Reads the backend's counters after the check above.
        let counted = self
            .progress
            .is_some_and(|progress| progress.failed() != self.failed_seen.load(Acquire));
        for (number, end) in &over {
            if let Some(error) = end.failure(counted || self.faults.is_known(*number)) {
                self.faults.add(*number..=*number, None, error);
            }
        }
        // Last: a thread that finds none has seen the failures.
        self.elsewhere_count.fetch_sub(over.len(), Release);
        let others = !elsewhere.is_empty();
        drop(elsewhere);
        // Without the lock: it ends streams.
        drop(over);
        others
    }

    /// Notes that the `Work` of this number is gone and nobody has seen how the operation ended.
    #[inline]
    pub(crate) fn detach(&self, number: u64, ticket: u64) {
        // The operation is complete and nothing new failed: there is nothing to tell.
        if self.progress.is_some_and(|progress| progress.completed() >= ticket)
            && !self.has_news()
            && !self.faults.any_untold()
        {
            return;
        }
        self.unwatch(number);
        // A later number that is dropped at the same moment may lose its note to this one. Then its
        // failure is told later.
        if number + WINDOW > self.timeline.submitted() {
            self.detached[(number % WINDOW) as usize].store(number, Release);
        }
    }

    /// Notes that the call of this number has returned an error, so that its caller knows.
    pub(crate) fn refuse(&self, number: u64) {
        self.refused[(number % WINDOW) as usize].store(number, Release);
    }

    /// Whether the call of this number has returned an error, as far as that is remembered.
    pub(crate) fn is_refused(&self, number: u64) -> bool {
        number != 0 && self.refused[(number % WINDOW) as usize].load(Acquire) == number
    }

    /// Whether the `Work` of this number was dropped before it was seen complete, or the number is
    /// older than the window.
    pub(crate) fn is_detached(&self, number: u64) -> bool {
        number + WINDOW <= self.timeline.submitted()
            || self.detached[(number % WINDOW) as usize].load(Acquire) == number
    }
}

impl Issuer for StreamSlot {
    type Issuing = Issuing;
    #[inline]
    fn issue_lock(&self) -> &Biased<Issuing> {
        &self.issuing
    }
}
