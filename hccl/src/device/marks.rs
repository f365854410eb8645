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
use super::lane::Lane;
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
    pub(super) fn record_behind(&self, lane: &Lane, number: u64) {
        let mut list = lock(&self.list);
        if list.back().is_none_or(|&(last, _)| last < number) {
            record(lane, number, &mut list);
        }
    }

    /// Takes note of marks that are complete; whether `number` is. Records a mark for it when there is none.
    pub(super) fn poll(&self, lane: &Lane, number: u64) -> bool {
        let Some(mut list) = try_lock(&self.list) else {
            return lane.timeline.is_told_complete(number);
        };
        if list.back().is_none_or(|&(last, _)| last < number)
            && !lane.timeline.is_told_complete(number)
            && let Some(_issuing) = lane.try_issuing()
        {
            record(lane, lane.timeline.submitted(), &mut list);
        }
        while let Some((last, event)) = list.front() {
            let last = *last;
            if !lane.timeline.is_told_complete(last) {
                match lane.table().query_event(event) {
                    Ok(true) if self.settle(lane, last, event) => {}
                    _ => break,
                }
            }
            if let Some((_, event)) = list.pop_front() {
                lane.device().recycle_event(event);
            }
        }
        lane.timeline.is_told_complete(number)
    }

    /// The event is complete: everything up to `last` is, and a synchronise, which returns at once, says how it ended. Whether
    /// it did: where it takes its time the next poll asks again. What cannot be asked how it ended counts as failed.
    fn settle(&self, lane: &Lane, last: u64, event: &EventHandle) -> bool {
        match lane.table().synchronize_event(event, Duration::from_secs(1)) {
            Ok(Waited::Over(Ok(()))) => lane.timeline.complete(last),
            Ok(Waited::Over(Err(error))) | Err(error) => self.failed(lane, last, error),
            Ok(Waited::TimedOut) => return false,
        }
        true
    }

    /// Everything up to `number` is complete and `error` is about something that was not known to be.
    fn failed(&self, lane: &Lane, number: u64, error: Error) {
        let first = lane.timeline.told_complete() + 1;
        if first <= number {
            let error = match error {
                Error::Call { code, message, .. } => {
                    Error::Failed { context: Box::new(lane.describe(number)), code, message }
                }
                other => other,
            };
            lane.faults.add(first..=number, None, error);
        }
        lane.timeline.complete(number);
    }

    /// Blocks for at most `limit`, until `number` is complete. Whether it took all of that.
    pub(super) fn wait(&self, lane: &Lane, number: u64, limit: Duration) -> Result<bool> {
        if number == lane.timeline.submitted() {
            self.wait_for_stream(lane, number, limit)
        } else {
            self.wait_for_mark(lane, number, limit)
        }
    }

    /// The last number needs no mark.
    fn wait_for_stream(&self, lane: &Lane, number: u64, limit: Duration) -> Result<bool> {
        match lane.table().synchronize_stream(lane.handle(), limit)? {
            Waited::TimedOut => Ok(true),
            Waited::Over(Ok(())) => {
                lane.timeline.complete(number);
                Ok(false)
            }
            // Only the state of the stream says whether memory is still in use. The failure may be of what another thread
            // has issued meanwhile.
            Waited::Over(Err(error)) => {
                let submitted = lane.timeline.submitted();
                if lane.table().query_stream(lane.handle())? {
                    self.failed(lane, submitted, error);
                    Ok(false)
                } else {
                    Err(error)
                }
            }
        }
    }

    fn wait_for_mark(&self, lane: &Lane, number: u64, limit: Duration) -> Result<bool> {
        if self.poll(lane, number) {
            return Ok(false);
        }
        // The event is shared, not taken: a pooled event is recorded again only when nobody else holds it.
        let mark = lock(&self.list)
            .iter()
            .find(|(last, _)| *last >= number)
            .map(|(_, event)| event.clone());
        match mark {
            Some(event) => {
                match lane.table().synchronize_event(&event, limit)? {
                    // An error that this call returned is not returned again by the next one.
                    Waited::Over(Err(error)) if lane.table().query_event(&event)? => {
                        let covered = lock(&self.list)
                            .iter()
                            .find(|(_, other)| Arc::ptr_eq(other, &event))
                            .map(|(last, _)| *last);
                        self.failed(lane, covered.unwrap_or(number), error);
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
fn record(lane: &Lane, number: u64, list: &mut VecDeque<(u64, Arc<EventHandle>)>) {
    let recorded = lane.device().take_event().and_then(|event| {
        lane.table().record_event(&event, lane.handle())?;
        Ok(event)
    });
    match recorded {
        Ok(event) => list.push_back((number, event)),
        Err(error) => tracing::debug!("no mark behind operation {number}: {error}"),
    }
}
