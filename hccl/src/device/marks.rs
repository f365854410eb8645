//! Completion by events, for a backend that does not count.
//!
//! A mark is a pooled event recorded behind some operation: when the event is complete, so is every number up to the mark's.
//! Marks are recorded only when somebody asks (a poll, a wait, a stamp), and behind the last operation just before the next
//! one is enqueued while its `Work` is alive; so a lone operation costs no call, and a `Work` never completes later than its
//! own operation.
//!
//! Lock order: the issue lock, then the list of marks. A poll holds the list and only *tries* the issue lock.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Device;
use super::queue::Queue;
use crate::api::handles::{EventHandle, Waited};
use crate::error::{Error, Result};
use crate::sync::{lock, try_lock};

/// The marks of one stream, oldest first.
#[derive(Default)]
pub(super) struct Marks {
    list: Mutex<VecDeque<(u64, Arc<EventHandle>)>>,
}

impl Marks {
    /// Records a mark behind `number`, unless there is one. Only with the issue lock held, when `number` is the last one.
    pub(super) fn record_behind(&self, queue: &Queue, number: u64) {
        let mut list = lock(&self.list);
        if list.back().is_none_or(|&(last, _)| last < number) {
            record(queue, number, &mut list);
        }
    }

    /// Takes note of marks that are complete; whether `number` is. Records a mark for it when there is none.
    pub(super) fn poll(&self, queue: &Queue, number: u64) -> bool {
        let Some(mut list) = try_lock(&self.list) else {
            return queue.lane.timeline.is_told_complete(number);
        };
        if list.back().is_none_or(|&(last, _)| last < number)
            && !queue.lane.timeline.is_told_complete(number)
            && let Some(_issuing) = queue.lane.try_issuing()
        {
            record(queue, queue.lane.timeline.submitted(), &mut list);
        }
        while let Some((last, event)) = list.front() {
            let last = *last;
            if !queue.lane.timeline.is_told_complete(last) {
                match queue.table().query_event(event) {
                    Ok(true) if self.settle(queue, last, event) => {}
                    _ => break,
                }
            }
            if let Some((_, event)) = list.pop_front() {
                queue.device().recycle_event(event);
            }
        }
        queue.lane.timeline.is_told_complete(number)
    }

    /// The event is complete: everything up to `last` is, and a synchronise, which returns at once, says how it ended. Whether
    /// it did: where it takes its time the next poll asks again. What cannot be asked how it ended counts as failed.
    fn settle(&self, queue: &Queue, last: u64, event: &EventHandle) -> bool {
        match queue.table().synchronize_event(event, Duration::from_secs(1)) {
            Ok(Waited::Over(Ok(()))) => queue.lane.timeline.complete(last),
            Ok(Waited::Over(Err(error))) | Err(error) => self.failed(queue, last, error),
            Ok(Waited::TimedOut) => return false,
        }
        true
    }

    /// Everything up to `number` is complete and `error` is about something that was not known to be.
    fn failed(&self, queue: &Queue, number: u64, error: Error) {
        let first = queue.lane.timeline.told_complete() + 1;
        if first <= number {
            let error = match error {
                Error::Call { code, message, .. } => {
                    Error::Failed { context: Box::new(queue.lane.describe(number)), code, message }
                }
                other => other,
            };
            queue.lane.faults.add(first..=number, None, error);
        }
        queue.lane.timeline.complete(number);
    }

    /// Blocks for at most `limit`, until `number` is complete. Whether it took all of that.
    pub(super) fn wait(&self, queue: &Queue, number: u64, limit: Duration) -> Result<bool> {
        if number == queue.lane.timeline.submitted() {
            self.wait_for_stream(queue, number, limit)
        } else {
            self.wait_for_mark(queue, number, limit)
        }
    }

    /// The last number needs no mark.
    fn wait_for_stream(&self, queue: &Queue, number: u64, limit: Duration) -> Result<bool> {
        match queue.table().synchronize_stream(queue.handle(), limit)? {
            Waited::TimedOut => Ok(true),
            Waited::Over(Ok(())) => {
                queue.lane.timeline.complete(number);
                Ok(false)
            }
            // Only the state of the stream says whether memory is still in use. The failure may be of what another thread
            // has issued meanwhile.
            Waited::Over(Err(error)) => {
                let submitted = queue.lane.timeline.submitted();
                if queue.table().query_stream(queue.handle())? {
                    self.failed(queue, submitted, error);
                    Ok(false)
                } else {
                    Err(error)
                }
            }
        }
    }

    fn wait_for_mark(&self, queue: &Queue, number: u64, limit: Duration) -> Result<bool> {
        if self.poll(queue, number) {
            return Ok(false);
        }
        // The event is shared, not taken: a pooled event is recorded again only when nobody else holds it.
        let mark = lock(&self.list)
            .iter()
            .find(|(last, _)| *last >= number)
            .map(|(_, event)| event.clone());
        match mark {
            Some(event) => {
                match queue.table().synchronize_event(&event, limit)? {
                    // An error that this call returned is not returned again by the next one.
                    Waited::Over(Err(error)) if queue.table().query_event(&event)? => {
                        let covered = lock(&self.list)
                            .iter()
                            .find(|(_, other)| Arc::ptr_eq(other, &event))
                            .map(|(last, _)| *last);
                        self.failed(queue, covered.unwrap_or(number), error);
                        Ok(false)
                    }
                    Waited::Over(result) => result.map(|()| false),
                    Waited::TimedOut => Ok(true),
                }
            }
            // The issue lock is taken: another operation is just being enqueued.
            None => {
                std::thread::sleep(Duration::from_micros(50).min(limit));
                Ok(false)
            }
        }
    }

    pub(super) fn recycle_all(&mut self, device: &Device) {
        let list = self.list.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (_, event) in list.drain(..) {
            device.recycle_event(event);
        }
    }
}

/// Without an event the mark is missing and the next poll tries again.
fn record(queue: &Queue, number: u64, list: &mut VecDeque<(u64, Arc<EventHandle>)>) {
    let recorded = queue.device().take_event().and_then(|event| {
        queue.table().record_event(&event, queue.handle())?;
        Ok(event)
    });
    match recorded {
        Ok(event) => list.push_back((number, event)),
        Err(error) => tracing::debug!("no mark behind operation {number}: {error}"),
    }
}
