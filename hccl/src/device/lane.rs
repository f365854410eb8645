//! What a stream is inside: the handle, its [timeline](super::timeline), and how completion is known.
//!
//! A lane is shared by the `Stream`, by every `Work` on it and by every stamp that names it, and its handle lives until the
//! last of them is gone; so whoever has a stamp can ask and wait.
//!
//! Completion is known in one of two ways. Where the backend counts ([`Progress`]) it is one load. Elsewhere events tell
//! ([`super::marks`]).

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use super::Device;
use super::faults::Faults;
use super::marks::Marks;
use super::timeline::{Timeline, WINDOW};
use crate::api::Table;
use crate::api::handles::{Progress, StreamHandle};
use crate::brief::{Brief, Guard, pause};
use crate::device::turn::Issuer;
use crate::error::{Error, OpContext, Result};
use crate::sync::lock;

/// How often failures are looked at again while more come.
const MOST_LOOKS: u32 = 1000;

/// A communicator as its operations know it: for messages, and for waits that it may end.
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) communicator: Box<str>,
    pub(crate) rank: u32,
    pub(crate) aborted: AtomicBool,
}

/// What is remembered of an operation, for messages.
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
        OpContext {
            operation: self.operation,
            communicator: self.label.as_ref().map(|label| label.communicator.clone()),
            rank: self.label.as_ref().map(|label| label.rank),
            sequence: self.sequence,
        }
    }
}

/// What the issue lock guards: the right to enqueue, and the memory of the last operations.
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

pub(super) enum Completion {
    Counted(Progress),
    Events(Marks),
}

/// See the [module](self).
pub(crate) struct Lane {
    stream: StreamHandle,
    /// Whether the handle is ours to destroy.
    owned: bool,
    pub(super) timeline: Timeline,
    issuing: Brief<Issuing>,
    pub(super) completion: Completion,
    pub(super) faults: Faults,
    /// How many failures of the progress line have been looked at, and up to which ticket.
    examined: Mutex<(u64, u64)>,
    failed_seen: AtomicU64,
    /// One bit for each of the last numbers: its `Work` was dropped before it was seen complete.
    detached: AtomicU64,
    /// The last number while its `Work` is alive; only where events tell.
    watched: AtomicU64,
    device: Device,
}

impl Lane {
    pub(crate) fn new(device: Device, stream: StreamHandle, owned: bool) -> Self {
        let completion = match device.table().progress(&stream) {
            Some(progress) => Completion::Counted(progress),
            None => Completion::Events(Marks::default()),
        };
        // A foreign stream has a past that is not ours.
        let (failed, entered) = match &completion {
            Completion::Counted(progress) => (progress.failed(), progress.submitted()),
            Completion::Events(_) => (0, 0),
        };
        Self {
            stream,
            owned,
            timeline: Timeline::new(),
            issuing: Brief::new(Issuing {
                records: (0..WINDOW).map(|_| Record::default()).collect(),
            }),
            completion,
            faults: Faults::default(),
            examined: Mutex::new((failed, entered)),
            failed_seen: AtomicU64::new(failed),
            detached: AtomicU64::new(0),
            watched: AtomicU64::new(0),
            device,
        }
    }

    #[inline]
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.device.table()
    }

    #[inline]
    pub(crate) fn handle(&self) -> &StreamHandle {
        &self.stream
    }

    /// The right to enqueue.
    pub(super) fn issuing(&self) -> Guard<'_, Issuing> {
        self.issuing.lock()
    }

    pub(crate) fn try_issuing(&self) -> Option<Guard<'_, Issuing>> {
        self.issuing.try_lock()
    }

    /// The ticket the stream stands at; 0 where the backend does not count.
    #[inline]
    pub(super) fn ticket(&self) -> u64 {
        match &self.completion {
            Completion::Counted(progress) => progress.submitted(),
            Completion::Events(_) => 0,
        }
    }

    /// Just before the next operation is enqueued, with the issue lock held: the last one may need a mark of its own.
    #[inline]
    pub(super) fn before_enqueue(&self, number: u64) {
        if let Completion::Events(marks) = &self.completion
            && number > 1
            && self.watched.load(Acquire) + 1 == number
        {
            marks.record_behind(self, number - 1);
        }
    }

    #[inline]
    pub(super) fn watch(&self, number: u64) {
        if let Completion::Events(_) = &self.completion {
            self.watched.store(number, Release);
        }
    }

    /// Whether the number is complete, as far as can be told without a call.
    #[inline]
    pub(crate) fn is_known_complete(&self, number: u64) -> bool {
        match &self.completion {
            Completion::Counted(progress) => {
                self.timeline.ticket(number).is_some_and(|ticket| progress.completed() >= ticket)
            }
            Completion::Events(_) => self.timeline.is_told_complete(number),
        }
    }

    /// Whether the number is complete. May ask the backend; never blocks.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        if self.is_known_complete(number) {
            return true;
        }
        match &self.completion {
            Completion::Counted(_) => false,
            Completion::Events(marks) => {
                // Without a context of its own the thread could not ask; then the answer is "not yet".
                self.device.bind().is_ok_and(|_bound| marks.poll(self, number))
            }
        }
    }

    /// As [`is_complete`](Self::is_complete) for a `Work`, which knows its own ticket.
    #[inline]
    pub(crate) fn is_work_complete(&self, number: u64, ticket: u64) -> bool {
        match &self.completion {
            Completion::Counted(progress) => progress.completed() >= ticket,
            Completion::Events(_) => self.is_complete(number),
        }
    }

    /// An unfinished operation up to `number` whose communicator has been aborted. `None` when it cannot be told, because an
    /// operation is just being enqueued.
    pub(super) fn aborted(&self, number: u64) -> Option<Option<OpContext>> {
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

    /// The operation with this number, as far as it is remembered.
    pub(crate) fn describe(&self, number: u64) -> OpContext {
        // The lock may be held by an enqueue that waits for peers; a message is not worth waiting for it.
        if let Some(issuing) = self.try_issuing() {
            let record = &issuing.records[(number % WINDOW) as usize];
            if record.number == number {
                return record.context();
            }
        }
        OpContext::new("operation", number)
    }

    /// Looks at failures that the backend counted and nobody has looked at.
    ///
    /// A task that fails can be asked for before it is counted, and is counted before it counts as complete. So the count is
    /// that of the failures up to `completed` when the task behind is not known to have failed; what is missing among
    /// those that can be asked for has been forgotten by the backend.
    #[cold]
    fn examine(&self) {
        let Completion::Counted(progress) = &self.completion else { return };
        if progress.failed() == self.failed_seen.load(Relaxed) {
            return;
        }
        let mut examined = lock(&self.examined);
        let (met, before) = *examined;
        let failure = |ticket| self.table().stream_failure(self.handle(), ticket);
        let mut looks = 0;
        let (failed, completed, found, steady) = loop {
            let failed = progress.failed();
            let completed = progress.completed();
            // A task between failing and being complete is so for a moment.
            let between = failure(completed + 1).is_some() && progress.completed() == completed;
            // The backend remembers the last failures only, so there is no point in going back further than this.
            let first = (before + 1).max(completed.saturating_sub(4096));
            let found: Vec<_> = (first..=completed)
                .filter_map(|ticket| failure(ticket).map(|failure| (ticket, failure)))
                .collect();
            let steady = !between && progress.failed() == failed;
            if steady || looks == MOST_LOOKS {
                break (failed, completed, found, steady);
            }
            pause(looks);
            looks += 1;
        };
        let all = met + found.len() as u64;
        if all < failed || !steady {
            // The backend forgets the oldest first.
            let last = match found.first() {
                Some((ticket, _)) if steady => ticket - 1,
                None if steady && self.table().functions().ascendExtStreamFailure.is_some() => {
                    completed
                }
                _ => completed + 1,
            };
            let (from, to) = (before + 1, last.max(before + 1));
            let number = |ticket| self.timeline.number_of(ticket).unwrap_or(0);
            self.faults.add_forgotten((number(from), number(to).max(number(from))), (from, to));
        }
        for (ticket, (code, message)) in found {
            let number = self.timeline.number_of(ticket);
            let context = match number {
                Some(number) => self.describe(number),
                None => OpContext::unknown(),
            };
            let error = Error::Failed { context: Box::new(context), code, message };
            let number = number.unwrap_or(0);
            self.faults.add(number..=number, Some(ticket), error);
        }
        *examined = (if steady { failed } else { all }, completed);
        if steady {
            self.failed_seen.store(failed, Relaxed);
        }
    }

    /// How a complete operation ended.
    #[inline]
    pub(crate) fn outcome(&self, number: u64, tickets: (u64, u64)) -> Result<()> {
        if self.has_news() {
            self.examine();
        }
        if !self.faults.any() {
            return Ok(());
        }
        self.faults.of(number, tickets).map_or(Ok(()), Err)
    }

    #[inline]
    fn has_news(&self) -> bool {
        match &self.completion {
            Completion::Counted(progress) => progress.failed() != self.failed_seen.load(Relaxed),
            Completion::Events(_) => false,
        }
    }

    /// A failure whose `Work` nobody has any more.
    #[inline]
    pub(super) fn take_detached_failure(&self) -> Result<()> {
        if !self.has_news() && !self.faults.any_untold() {
            return Ok(());
        }
        self.examine();
        let detached = self.detached.load(Acquire);
        let submitted = self.timeline.submitted();
        let is_detached =
            |number: u64| number + WINDOW <= submitted || detached & (1 << (number % WINDOW)) != 0;
        self.faults
            .take_untold(|numbers| numbers.clone().rev().take(64).all(is_detached))
            .map_or(Ok(()), Err)
    }

    /// Any failure that nobody has been told.
    pub(super) fn take_failure(&self) -> Result<()> {
        self.examine();
        self.faults.take_untold(|_| true).map_or(Ok(()), Err)
    }

    /// The `Work` of this number is gone and nobody has seen how it ended.
    #[inline]
    pub(crate) fn detach(&self, number: u64, ticket: u64) {
        match &self.completion {
            Completion::Counted(progress) => {
                // Complete and nothing new failed: there is nothing to tell.
                if progress.completed() >= ticket && !self.has_news() && !self.faults.any_untold() {
                    return;
                }
            }
            Completion::Events(_) => self.unwatch(number),
        }
        if number + WINDOW > self.timeline.submitted() {
            self.detached.fetch_or(1 << (number % WINDOW), AcqRel);
        }
    }

    /// The `Work` of this number is gone, after it was seen complete.
    #[inline]
    pub(crate) fn unwatch(&self, number: u64) {
        if let Completion::Events(_) = &self.completion {
            let _ = self.watched.compare_exchange(number, 0, AcqRel, Relaxed);
        }
    }

    /// The number gets a `Work`.
    #[inline]
    pub(super) fn attach(&self, number: u64) {
        let bit = 1 << (number % WINDOW);
        if self.detached.load(Relaxed) & bit != 0 {
            self.detached.fetch_and(!bit, AcqRel);
        }
    }
}

impl Issuer for Lane {
    type Issuing = Issuing;
    #[inline]
    fn issue_lock(&self) -> &Brief<Issuing> {
        &self.issuing
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Err(error) = self.take_failure() {
            tracing::warn!("nobody asked for the error of an operation: {error}");
        }
        if self.owned {
            self.device.bury_stream(self.stream.take());
        }
        if let Completion::Events(marks) = &mut self.completion {
            marks.recycle_all(&self.device);
        }
    }
}
