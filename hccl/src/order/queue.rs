//! The stream's own part: its handle, its device, and how its completion and failures are asked
//! for.
//!
//! A queue is kept by its `Stream`, by its [`StreamSlot`] for holders of a mere number, and, when
//! the stream was dropped with work in flight, by the reactor, which [closes](StreamQueue::close)
//! it when everything is complete. So work in flight keeps its device and its runtime alive, also
//! when the `Stream` was forgotten. The handle lives until the last borrower of the queue, a wait
//! for example, has given it back.

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

/// The most looks at failures while more come.
const MOST_LOOKS: u32 = 1000;

/// See the [module](self).
pub(crate) struct StreamQueue {
    pub(crate) slot: &'static StreamSlot,
    handle: StreamHandle,
    /// Whether the handle is ours to destroy.
    owned: bool,
    pub(crate) marks: Marks,
    /// The number of failures of the progress line that have been looked at, and up to which
    /// ticket.
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

    /// Everything is complete and nothing will be issued any more. From now on the slot has the
    /// failures.
    pub(crate) fn close(&self) {
        self.examine();
        self.slot.set_occupant(None);
        while let Some(error) = self.slot.faults.take_untold(|_| true) {
            tracing::warn!(
                "nobody has asked for the error of an operation whose stream is gone: {error}"
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

    /// Called just before the next operation is enqueued, with the issue lock held: the last one
    /// may need a mark of its own.
    #[inline]
    pub(crate) fn before_enqueue(&self, number: u64) {
        if self.slot.is_watched(number - 1)
            && let Err(error) = self.marks.record_behind(self, number - 1)
        {
            tracing::debug!("no mark behind operation {}: {error}", number - 1);
        }
    }

    /// Makes complete marks ready to be recorded again, also in a program that never asks what is
    /// complete. Called without the issue lock, because a failure that is found needs to know its
    /// operation.
    #[inline]
    pub(crate) fn reuse_marks(&self) {
        if self.slot.progress.is_none() {
            self.marks.poll_if_many(self);
        }
    }

    /// Returns an event behind operation `number`, and the last number that it covers. `None` when
    /// that operation is complete.
    pub(crate) fn event_behind(&self, number: u64) -> Result<Option<(Arc<EventHandle>, u64)>> {
        let _bound = self.device.bind()?;
        let _issuing = self.slot.issuing();
        self.marks.event_behind(self, number)
    }

    /// Records an event behind all that was issued. Waits for the event are waits for that,
    /// whatever is issued later. Returns the last number.
    pub(crate) fn record(&self) -> Result<u64> {
        let _bound = self.device.bind()?;
        self.reuse_marks();
        let _issuing = self.slot.issuing();
        let submitted = self.slot.timeline.submitted();
        self.marks.record_behind(self, submitted)?;
        Ok(submitted)
    }

    /// Whether the number is complete. May ask the backend; never blocks.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        // Without a context of its own the thread cannot ask; then the answer is "not yet".
        self.slot.is_known_complete(number)
            || self.slot.progress.is_none()
                && self.device.bind().is_ok_and(|_bound| self.marks.poll(self, number))
    }

    /// Looks at failures that the backend counted and nobody has looked at.
    ///
    /// A failed task can be asked for before it is counted, and is counted before it counts as
    /// complete. So the count is that of the failures up to `completed` when the task behind is not
    /// known to have failed. The backend has forgotten those that are counted but cannot be asked
    /// for.
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
            // A task is between failing and being complete for a moment only.
            let between = failure(completed + 1).is_some() && progress.completed() == completed;
            // The backend remembers the last failures only, so there is no point in going back
            // further than this.
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

    /// Takes any failure that has not been told.
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
        // Destroys what was dropped while the stream used it.
        device.reap_in_drop();
        if let Ok(_bound) = device.bind() {
            device.runtime().pool().sweep(device.table());
        }
    }
}

impl StreamSlot {
    /// Returns the queue that operation `number` is on. `None` when that is gone: then the
    /// operation is complete.
    pub(crate) fn queue(&self, number: u64) -> Option<Arc<StreamQueue>> {
        queue_of(self.occupant_of(number)?)
    }
}

/// Every occupant of a slot is a queue.
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
