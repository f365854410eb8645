//! The queue of a stream: its handle, its device, and the queries for completion and failures.
//!
//! Several owners keep a queue alive:
//!
//! * its `Stream`;
//! * its [`StreamSlot`], for callers that have only a number;
//! * the reactor, if the `Stream` was dropped with work in flight. The reactor
//!   [closes](StreamQueue::close) the queue when everything is complete.
//!
//! So work in flight keeps its device and its runtime alive, even if the `Stream` was leaked with
//! `mem::forget`. The handle lives until the last user of the queue, for example a wait, has
//! dropped its reference.

#![forbid(unsafe_code)]

use std::any::Any;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::marks::Marks;
use super::stream_slot::{Occupant, StreamSlot};
use crate::api::Table;
use crate::api::entries::Progress;
use crate::api::handles::{EventHandle, StreamHandle};
use crate::device::Device;
use crate::error::{Error, OpContext, Result};
use crate::sync::lock;
use ascend_sync::pause;

/// The largest number of times that failures are collected again because new ones arrive.
const MOST_LOOKS: u32 = 1000;

/// The queue of one stream; see the [module](self).
pub(crate) struct StreamQueue {
    pub(crate) slot: &'static StreamSlot,
    handle: StreamHandle,
    /// Whether the handle belongs to this crate, which then destroys it.
    owned: bool,
    pub(crate) marks: Marks,
    /// The number of failures of the progress line that have been collected, and the last ticket
    /// up to which they were collected.
    examined: Mutex<(u64, u64)>,
    device: Device,
}

impl StreamQueue {
    pub(crate) fn open(device: Device, handle: StreamHandle, owned: bool) -> Arc<Self> {
        let progress = device.table().progress(&handle);
        let slot = StreamSlot::take(progress);
        let failed = slot.failed_seen.load(Acquire);
        let examined = Mutex::new((failed, progress.map_or(0, Progress::submitted)));
        let queue =
            Arc::new(Self { slot, handle, owned, marks: Marks::default(), examined, device });
        slot.set_occupant(Some(queue.clone()));
        queue
    }

    /// Moves the last failures into the slot and gives the slot up. Logs failures that were never
    /// reported. Called when everything is complete and nothing will be issued any more.
    pub(crate) fn close(&self) {
        self.examine();
        self.slot.set_occupant(None);
        while let Some(error) = self.slot.faults.take_untold(|_| true) {
            tracing::warn!(
                "an operation failed, and its stream was dropped before the program had seen the \
                 error; synchronise the stream before you drop it: {error}"
            );
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
        &self.handle
    }

    /// Records a mark after the previous operation if its `Work` needs one. Called just before
    /// operation `number` is enqueued, with the issue lock held.
    #[inline]
    pub(crate) fn before_enqueue(&self, number: u64) {
        if self.slot.is_watched(number - 1)
            && let Err(error) = self.marks.record_behind(self, number - 1)
        {
            tracing::debug!("cannot record an event after operation {}: {error}", number - 1);
        }
    }

    /// Recycles the events of complete marks, so that they do not pile up in a program that never
    /// checks for completion. Called without the issue lock: the description of a failure that is
    /// found here needs that lock.
    #[inline]
    pub(crate) fn reuse_marks(&self) {
        if self.slot.progress.is_none() {
            self.marks.poll_if_many(self);
        }
    }

    /// Returns an event recorded after operation `number`, and the last number that the event
    /// covers. Returns `None` if the operation is complete.
    pub(crate) fn event_behind(&self, number: u64) -> Result<Option<(Arc<EventHandle>, u64)>> {
        let _bound = self.device.bind()?;
        let _issuing = self.slot.issuing();
        self.marks.event_behind(self, number)
    }

    /// Records an event after all operations issued so far, and returns the number of the last
    /// operation. A wait for the event does not wait for operations that are issued later.
    pub(crate) fn record(&self) -> Result<u64> {
        let _bound = self.device.bind()?;
        self.reuse_marks();
        let _issuing = self.slot.issuing();
        let submitted = self.slot.timeline.submitted();
        self.marks.record_behind(self, submitted)?;
        Ok(submitted)
    }

    /// Returns whether the number is complete. May query the backend; never blocks.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        // A thread that cannot make the device's context current cannot query the backend. Then the
        // answer is "not yet".
        self.slot.is_known_complete(number)
            || self.slot.progress.is_none()
                && self.device.bind().is_ok_and(|_bound| self.marks.poll(self, number))
    }

    /// Collects the failures that the backend has counted since the last call, and stores them in
    /// the slot.
    ///
    /// When a task fails, the backend first makes its failure available to queries, then counts the
    /// failure, and then counts the task as complete. So if the task after `completed` has not
    /// failed, the count is the number of failures up to `completed`. If a failure is counted but
    /// a query does not find it, the backend has forgotten it.
    #[cold]
    pub(crate) fn examine(&self) {
        let slot = self.slot;
        slot.settle();
        let Some(progress) = slot.progress else { return };
        if progress.failed() == slot.failed_seen.load(Acquire) {
            return;
        }
        let mut examined = lock(&self.examined);
        let (met, before) = *examined;
        let failure = |ticket| self.table().stream_failure(self.handle(), ticket);
        let mut looks = 0;
        let (failed, completed, found, steady) = loop {
            let failed = progress.failed();
            let completed = progress.completed();
            // True if the next task has failed but is not complete yet, which lasts only a moment.
            let between = failure(completed + 1).is_some() && progress.completed() == completed;
            // The backend remembers only the last failures, so queries of older tickets would find
            // nothing.
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
            // The backend forgets the oldest failures first, so the forgotten ones come before the
            // first failure that was found.
            let last = match found.first() {
                Some((ticket, _)) if steady => ticket - 1,
                None if steady && self.table().functions().ascendExtStreamFailure.is_some() => {
                    completed
                }
                _ => completed + 1,
            };
            let (from, to) = (before + 1, last.max(before + 1));
            let number = |ticket| slot.timeline.number_of(ticket).unwrap_or(0);
            slot.faults.add_forgotten((number(from), number(to).max(number(from))), (from, to));
        }
        for (ticket, (code, message)) in found {
            let number = slot.timeline.number_of(ticket);
            let context = match number {
                Some(number) => slot.describe_failed(number),
                None => OpContext::unknown(),
            };
            let error = Error::Failed { context: Box::new(context), code, message };
            let number = number.unwrap_or(0);
            slot.faults.add(number..=number, Some(ticket), error);
        }
        *examined = (if steady { failed } else { all }, completed);
        if steady {
            slot.failed_seen.store(failed, Release);
        }
    }

    /// Returns any failure that has not been reported yet, and counts it as reported.
    pub(crate) fn take_failure(&self) -> Result<()> {
        self.examine();
        self.slot.faults.take_untold(|_| true).map_or(Ok(()), Err)
    }
}

impl Occupant for StreamQueue {
    fn slot(&self) -> &'static StreamSlot {
        self.slot
    }

    fn is_complete(&self, number: u64) -> bool {
        StreamQueue::is_complete(self, number)
    }

    fn examine(&self) {
        StreamQueue::examine(self);
    }

    fn await_activity(&self, seen: &mut u64, limit: Duration) -> bool {
        let table = self.table();
        table.has_await_activity() && table.await_activity(seen, limit).is_ok()
    }

    fn end(self: Arc<Self>) {
        let device = self.device.clone();
        self.close();
        drop(self);
        // Destroys the objects that were dropped while the stream used them.
        device.reap_in_drop();
        if let Ok(_bound) = device.bind() {
            device.runtime().pool().sweep(device.table());
        }
    }
}

impl StreamSlot {
    /// Returns the queue of the stream on which operation `number` was issued. Returns `None` if
    /// that stream is gone, in which case the operation is complete.
    pub(crate) fn queue(&self, number: u64) -> Option<Arc<StreamQueue>> {
        queue_of(self.occupant_of(number)?)
    }
}

/// Returns the occupant of a slot as a queue. Every occupant is a queue, so the result is never
/// `None`.
fn queue_of(occupant: Arc<dyn Occupant>) -> Option<Arc<StreamQueue>> {
    let occupant: Arc<dyn Any + Send + Sync> = occupant;
    occupant.downcast().ok()
}

impl Drop for StreamQueue {
    fn drop(&mut self) {
        if self.owned {
            self.device.retire_stream(self.handle.take());
        }
        self.marks.recycle_all(&self.device);
        self.device.issue_order().give_back(self.slot);
        self.slot.give_back();
    }
}
