//! A slot for streams: the numbers of their operations, and records of the most recent operations.
//!
//! A stream has a slot for as long as it lives; later another stream gets the slot. Slots are never
//! freed, and a stream continues the numbers and tickets of the stream before it. So *a slot and a
//! number name an operation for ever*. A stamp, an event or a `Work` keeps only that pair, without
//! a reference count.
//!
//! The handle and the device of a stream belong to its
//! [`StreamQueue`](super::queue::StreamQueue). A caller that has a number may [request the
//! queue](StreamSlot::occupant_of). The queue is gone only when everything on the stream is
//! complete and the failures are in the slot. So a caller that gets no queue knows that the
//! operation is complete, and finds its outcome in the slot.
//!
//! There are two ways to find out whether an operation is complete. If the backend counts tasks
//! ([`Progress`]), one load is enough. Otherwise events show it ([`super::marks`]).

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
    /// The number of the operation in the communicator, or in the stream if there is no
    /// communicator.
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

/// The data that the issue lock guards: the records of the last operations. A thread that holds the
/// lock also has the right to enqueue.
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

/// The interface through which a slot and the reactor use the stream that has the slot. The only
/// implementation is [`StreamQueue`](super::queue::StreamQueue), which belongs to a higher layer.
pub(crate) trait Occupant: Any + Send + Sync {
    fn slot(&self) -> &'static StreamSlot;
    /// Returns whether the number is complete. May query the backend; never blocks.
    fn is_complete(&self, number: u64) -> bool;
    /// Collects the failures that the backend has counted since the last call.
    fn examine(&self);
    /// Blocks until a task of any stream has completed since the activity counter was `seen`, for
    /// at most `limit`, and updates `seen`. Returns false if the backend has no such call, or if
    /// the call failed.
    fn await_activity(&self, seen: &mut u64, limit: Duration) -> bool;
    /// Ends the stream, which was dropped and is complete by now.
    fn end(self: Arc<Self>);
}

/// A slot for streams; see the [module](self).
pub(crate) struct StreamSlot {
    /// The backend's line of counters, if the backend counts tasks.
    pub(crate) progress: Option<Progress>,
    pub(crate) timeline: StreamTimeline,
    issuing: Biased<Issuing>,
    pub(crate) faults: Faults,
    /// The number of failures of this line that have been collected.
    pub(crate) failed_seen: AtomicU64,
    /// The recent numbers whose `Work` was dropped before the operation was seen complete. The
    /// index of a number is `number % WINDOW`.
    detached: [AtomicU64; WINDOW as usize],
    /// The recent numbers whose call returned an error, so that they have no `Work`. The index
    /// of a number is `number % WINDOW`.
    refused: [AtomicU64; WINDOW as usize],
    /// The last number that got a `Work`, or 0 after this `Work` was dropped. Used only if events
    /// show completion.
    watched: AtomicU64,
    occupant: SpinLock<Option<Arc<dyn Occupant>>>,
    /// The operations whose outcome is kept elsewhere, with their numbers.
    elsewhere: Mutex<Vec<(u64, Arc<dyn Elsewhere>)>>,
    /// The length of `elsewhere`, which is read without the lock.
    elsewhere_count: AtomicUsize,
    /// The operations of other streams that operations of this stream wait for.
    pub(super) fed: Mutex<Vec<Feed>>,
    /// The length of `fed`, which is read without the lock.
    pub(super) fed_count: AtomicUsize,
    /// The notes of the kernel checker, with the numbers of the launches that they are about.
    notes: Mutex<VecDeque<(u64, Arc<[Finding]>)>>,
}

/// A record that operations of a stream, from number `own` on, wait for operation `number` of
/// another stream. See [`unseen`](super::unseen).
#[derive(Clone, Copy)]
pub(super) struct Feed {
    pub(super) own: u64,
    pub(super) slot: &'static StreamSlot,
    pub(super) number: u64,
}

/// The outcome of an operation whose call a helper thread makes on another stream; see
/// `comm::detour`.
pub(crate) trait Elsewhere: Send + Sync {
    /// Releases the resources of the operation and returns its failure, if it has failed. Called
    /// when the operation is complete on its own stream. Blocks until it is complete on the other
    /// stream too, but does not wait for other ranks. `gave_up` says that its own stream may have
    /// failed before it reached the operation. Then the call does not wait for the other stream.
    fn failure(&self, gave_up: bool) -> Option<Error>;

    /// Returns a description of what the operation waits for, or `None` if that is not known. May
    /// block for 1 ms.
    fn waits_for(&self) -> Option<Box<str>>;

    /// Returns the ranks that the operation waits for, as far as they are known.
    fn awaited_ranks(&self) -> Vec<u32>;
}

/// The free slots, by the address of their line of counters (0 for slots without a line).
static FREE: Mutex<BTreeMap<usize, Vec<&'static StreamSlot>>> = Mutex::new(BTreeMap::new());

impl StreamSlot {
    /// Takes a slot for a new stream.
    ///
    /// The new stream continues the tickets as well as the numbers, because the slot keeps its line
    /// of counters, and the tickets of a line never start over.
    pub(crate) fn take(progress: Option<Progress>) -> &'static StreamSlot {
        let line = progress.map_or(0, Progress::address);
        let free = lock(&FREE).get_mut(&line).and_then(Vec::pop);
        let completed = progress.map_or(0, Progress::completed);
        let slot = free.filter(|slot| slot.timeline.last_ticket() <= completed);
        let slot = slot.unwrap_or_else(|| Box::leak(Box::new(StreamSlot::new(progress))));
        // A stream that other code has made may have failed before; those failures are not ours.
        slot.failed_seen.store(progress.map_or(0, Progress::failed), Release);
        slot.faults.begin();
        lock(&slot.fed).clear();
        slot.fed_count.store(0, Release);
        slot.timeline.begin(completed);
        slot.issuing.forget_owner();
        slot
    }

    /// Makes the slot free again after [`take`](Self::take). Called when the queue of its stream is
    /// dropped.
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
        // The lock is released by now, because the drop may destroy the stream.
        drop(before);
    }

    /// Returns the stream that has the slot now, or `None` if no stream has it.
    pub(crate) fn occupant(&self) -> Option<Arc<dyn Occupant>> {
        self.occupant.lock().clone()
    }

    /// Returns the stream on which operation `number` was issued. Returns `None` if that stream is
    /// gone, in which case the operation is complete.
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

    /// Returns the ticket that the stream has reached, or 0 if the backend does not count tasks.
    #[inline]
    pub(crate) fn ticket(&self) -> u64 {
        self.progress.map_or(0, Progress::submitted)
    }

    /// Returns whether events show completion, and `number` is the last number that got a `Work`,
    /// which is still alive.
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

    /// Notes that the `Work` of this number is gone.
    #[inline]
    pub(crate) fn unwatch(&self, number: u64) {
        if self.progress.is_none() {
            let _ = self.watched.compare_exchange(number, 0, AcqRel, Relaxed);
        }
    }

    /// Returns whether the number is known to be complete without a call of the backend.
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

    /// Returns whether the number is complete. May query the backend; never blocks.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        self.is_known_complete(number)
            || self.progress.is_none()
                && self.occupant_of(number).is_none_or(|stream| stream.is_complete(number))
    }

    /// Returns whether the number is complete, for a `Work`. The `Work` has the ticket of its
    /// operation, so this is faster than [`is_complete`](Self::is_complete).
    #[inline]
    pub(crate) fn is_work_complete(&self, number: u64, ticket: u64) -> bool {
        match self.progress {
            Some(progress) => progress.completed() >= ticket,
            None => self.is_complete(number),
        }
    }

    /// Stores the notes of the kernel checker on a launch. The notes of the last [`WINDOW`]
    /// launches that have any are kept.
    pub(crate) fn note(&self, number: u64, found: Arc<[Finding]>) {
        let mut notes = lock(&self.notes);
        if notes.len() as u64 >= WINDOW {
            notes.pop_front();
        }
        notes.push_back((number, found));
    }

    /// Returns the notes of the kernel checker on an operation. Returns `None` if there are no
    /// notes, or if they are no longer kept.
    pub(crate) fn notes(&self, number: u64) -> Option<Arc<[Finding]>> {
        let notes = lock(&self.notes);
        let found = notes.iter().find(|(of, _)| *of == number);
        found.map(|(_, notes)| Arc::clone(notes))
    }

    /// Returns an unfinished operation up to `number` whose communicator has been aborted, or
    /// `Some(None)` if there is none. Returns `None` if that is not known at the moment, because
    /// another thread holds the issue lock.
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

    /// Returns the name and the number of an operation for messages. If its record is not kept any
    /// more, or another thread holds the issue lock, the name is "operation".
    pub(crate) fn describe(&self, number: u64) -> OpContext {
        self.described(number, Label::context)
    }

    /// Returns the operation as [`describe`](Self::describe) does. If its communicator has failed,
    /// adds the states of the ranks at that time.
    #[cold]
    pub(crate) fn describe_failed(&self, number: u64) -> OpContext {
        self.described(number, Label::failed)
    }

    /// Returns the operation as [`describe_failed`](Self::describe_failed) does. If it is a
    /// collective whose communicator has not failed, adds the present states of the ranks.
    #[cold]
    pub(crate) fn describe_waiting(&self, number: u64) -> OpContext {
        self.described(number, Label::waiting)
    }

    /// Returns the operation as [`describe_waiting`](Self::describe_waiting) does, for a wait that
    /// goes on: without the states of the ranks if the communicator is large.
    #[cold]
    pub(crate) fn describe_watched(&self, number: u64) -> OpContext {
        self.described(number, Label::watched)
    }

    fn described(
        &self,
        number: u64,
        by: impl FnOnce(&Label, &'static str, u64) -> OpContext,
    ) -> OpContext {
        // An enqueue that waits for peers may hold the lock. A message is not worth that wait.
        let known = self.try_issuing().and_then(|issuing| {
            let record = &issuing.records[(number % WINDOW) as usize];
            let known = (record.label.clone(), record.operation, record.sequence);
            (record.number == number).then_some(known)
        });
        match known {
            // The lock is released by now, because `by` may query the backend.
            Some((Some(label), operation, sequence)) => by(&label, operation, sequence),
            Some((None, operation, sequence)) => OpContext::new(operation, sequence),
            None => OpContext::new("operation", self.timeline.position(number)),
        }
    }

    /// Returns the outcome of a complete operation, whose tasks have the tickets after `tickets.0`
    /// up to `tickets.1`.
    #[inline]
    pub(crate) fn outcome(&self, number: u64, tickets: (u64, u64)) -> Result<()> {
        // If the stream is gone, its failures are in `faults` already.
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

    /// Returns whether there may be failures that have not been collected: the backend has counted
    /// some, or there are outcomes elsewhere.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.progress.is_some_and(|progress| progress.failed() != self.failed_seen.load(Acquire))
            || self.elsewhere_count.load(Acquire) != 0
    }

    /// Registers that the outcome of operation `number` will be kept elsewhere. The caller holds
    /// the issue lock and has not published the number yet.
    pub(crate) fn ends_elsewhere(&self, number: u64, end: Arc<dyn Elsewhere>) {
        let mut elsewhere = lock(&self.elsewhere);
        elsewhere.push((number, end));
        self.elsewhere_count.fetch_add(1, Release);
    }

    /// Returns the first unfinished operation up to `number` whose outcome is kept elsewhere, if
    /// there is one.
    pub(crate) fn first_elsewhere(&self, number: u64) -> Option<Arc<dyn Elsewhere>> {
        let elsewhere = lock(&self.elsewhere);
        let mut open = elsewhere.iter().filter(|(at, _)| !self.is_known_complete(*at));
        open.find(|(at, _)| *at <= number).map(|(_, end)| end.clone())
    }

    /// Collects the outcomes, kept elsewhere, of operations that are complete. May block, as
    /// [`Elsewhere::failure`] does. Returns whether there are operations left whose outcome is kept
    /// elsewhere.
    pub(crate) fn settle(&self) -> bool {
        if self.elsewhere_count.load(Acquire) == 0 {
            return false;
        }
        let mut elsewhere = lock(&self.elsewhere);
        let is_over = |(number, _): &mut (u64, _)| self.is_complete(*number);
        let over: Vec<_> = elsewhere.extract_if(.., is_over).collect();
        // The counter is read after the check above, because the backend counts a failure before
        // the task counts as complete.
        let counted = self
            .progress
            .is_some_and(|progress| progress.failed() != self.failed_seen.load(Acquire));
        for (number, end) in &over {
            if let Some(error) = end.failure(counted || self.faults.is_known(*number)) {
                self.faults.add(*number..=*number, None, error);
            }
        }
        // Subtracted last: a thread that reads 0 also sees the failures that were added above.
        self.elsewhere_count.fetch_sub(over.len(), Release);
        let others = !elsewhere.is_empty();
        drop(elsewhere);
        // The lock is released by now, because the drop ends streams.
        drop(over);
        others
    }

    /// Notes that the `Work` of this number is gone and that the program has not seen the outcome.
    #[inline]
    pub(crate) fn detach(&self, number: u64, ticket: u64) {
        // The operation is complete and nothing new has failed, so there is nothing to report.
        if self.progress.is_some_and(|progress| progress.completed() >= ticket)
            && !self.has_news()
            && !self.faults.any_untold()
        {
            return;
        }
        self.unwatch(number);
        // If the `Work` of a later number with the same index is dropped at the same moment, this
        // store may overwrite its note. Then a failure of that operation is reported later.
        if number + WINDOW > self.timeline.submitted() {
            self.detached[(number % WINDOW) as usize].store(number, Release);
        }
    }

    /// Notes that the call of this number returned an error to its caller.
    pub(crate) fn refuse(&self, number: u64) {
        self.refused[(number % WINDOW) as usize].store(number, Release);
    }

    /// Returns whether the call of this number returned an error. May return false for a number
    /// that is older than the window.
    pub(crate) fn is_refused(&self, number: u64) -> bool {
        number != 0 && self.refused[(number % WINDOW) as usize].load(Acquire) == number
    }

    /// Returns whether the `Work` of this number was dropped before it was seen complete, or the
    /// number is older than the window.
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
