//! The events of a stream, each recorded after some operation.
//!
//! A mark is a pooled event recorded behind some operation: when the event is complete, so is every
//! number up to the mark's. Other streams wait for marks, on every backend: for the first one
//! behind the operation that they need. Such a mark exists where the program has
//! [recorded](crate::Stream::record) an event, and before an operation that waits for links.
//! Otherwise one is recorded behind all that was issued.
//!
//! # Completion by events
//!
//! Where the backend does not count, marks tell which operations are complete. They are recorded
//! when somebody asks (a poll, a wait), and after the last operation just before the next one is
//! enqueued while its `Work` is alive. So a lone operation costs no call, and a `Work` never
//! completes later than its own operation.
//!
//! A backend may tell a failure once only. So the answer of a call is written down before the next
//! one counts. A poll asks with the lock held. A call that blocks is listed for as long as its
//! answer is not written down. "All is well" is believed only when none of the listed calls can
//! have been told otherwise, because their targets are not complete.
//!
//! Lock order: the issue lock, then the marks. A poll holds the marks and only *tries* the issue
//! lock.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::queue::StreamQueue;
use crate::api::handles::{EventHandle, Waited};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::sync::{lock, try_lock};

/// The number of marks that are left until somebody asks.
const FEW: usize = 64;

/// The marks of one stream.
#[derive(Default)]
pub(crate) struct Marks {
    state: Mutex<MarksState>,
}

#[derive(Default)]
struct MarksState {
    /// The marks, oldest first.
    list: VecDeque<(u64, Arc<EventHandle>)>,
    /// The number of marks beyond which they are looked at: twice as many as the last look has
    /// left.
    most: usize,
    /// The calls that block, by number.
    asking: Vec<(u64, Target)>,
    asked: u64,
}

/// The target of a call that waits.
enum Target {
    Mark(Arc<EventHandle>),
    /// The end of the stream, which was this operation.
    End(u64),
}

impl MarksState {
    fn begin(&mut self, target: Target) -> u64 {
        self.asked += 1;
        self.asking.push((self.asked, target));
        self.asked
    }

    fn end(&mut self, call: u64) {
        self.asking.retain(|(number, _)| *number != call);
    }

    /// Only where the backend counts. Elsewhere the outcome of a mark must also be asked for, which
    /// a poll does.
    fn forget_complete(&mut self, queue: &StreamQueue) {
        if queue.slot.progress.is_none() {
            return;
        }
        let complete = |(last, _): &(u64, _)| queue.slot.is_known_complete(*last);
        while self.list.front().is_some_and(complete)
            && let Some((_, event)) = self.list.pop_front()
        {
            queue.device().recycle_event(event);
        }
    }
}

impl Marks {
    /// Records a mark behind `number`, unless there is one or it is complete. Only with the issue
    /// lock held, when `number` is the last one.
    pub(crate) fn record_behind(&self, queue: &StreamQueue, number: u64) -> Result<()> {
        let mut state = lock(&self.state);
        state.forget_complete(queue);
        let is_marked = state.list.back().is_some_and(|&(last, _)| last >= number);
        if is_marked || queue.slot.is_known_complete(number) {
            return Ok(());
        }
        record(queue, number, &mut state.list)
    }

    /// Returns the first mark behind `number`, and the number that it is behind; recorded when
    /// there is none. `None` when `number` is complete. Only with the issue lock held. A wait looks
    /// at the event as it is when the wait is enqueued; as long as somebody has it, it is not
    /// recorded again.
    pub(crate) fn event_behind(
        &self,
        queue: &StreamQueue,
        number: u64,
    ) -> Result<Option<(Arc<EventHandle>, u64)>> {
        if queue.slot.is_known_complete(number) {
            return Ok(None);
        }
        let mut state = lock(&self.state);
        state.forget_complete(queue);
        if state.list.back().is_none_or(|&(last, _)| last < number) {
            record(queue, queue.slot.timeline.submitted(), &mut state.list)?;
        }
        let first = state.list.iter().find(|(last, _)| *last >= number);
        Ok(first.map(|(last, event)| (event.clone(), *last)))
    }

    /// Takes note of marks that are complete, when there are many. Not with the issue lock held.
    pub(crate) fn poll_if_many(&self, queue: &StreamQueue) {
        if try_lock(&self.state).is_some_and(|state| state.list.len() > state.most.max(FEW)) {
            self.poll(queue, 0);
            let mut state = lock(&self.state);
            state.most = 2 * state.list.len();
        }
    }

    /// Takes note of marks that are complete, and returns whether `number` is. Records a mark for
    /// it when there is none.
    pub(crate) fn poll(&self, queue: &StreamQueue, number: u64) -> bool {
        let Some(mut state) = try_lock(&self.state) else {
            return queue.slot.timeline.is_told_complete(number);
        };
        if state.list.back().is_none_or(|&(last, _)| last < number)
            && !queue.slot.timeline.is_told_complete(number)
            && let Some(_issuing) = queue.slot.try_issuing()
            && let Err(error) = record(queue, queue.slot.timeline.submitted(), &mut state.list)
        {
            // The next poll tries again.
            tracing::debug!("no mark behind operation {number}: {error}");
        }
        while let Some((last, event)) = state.list.front() {
            let last = *last;
            if !queue.slot.timeline.is_told_complete(last) {
                match queue.table().query_event(event) {
                    Ok(true) if settle(queue, &state, last, event) => {}
                    _ => break,
                }
            }
            if let Some((_, event)) = state.list.pop_front() {
                queue.device().recycle_event(event);
            }
        }
        queue.slot.timeline.is_told_complete(number)
    }

    /// Blocks for at most `limit`, until `number` is complete. Returns whether it took all of that
    /// time.
    pub(crate) fn wait(&self, queue: &StreamQueue, number: u64, limit: Duration) -> Result<bool> {
        if number == queue.slot.timeline.submitted() {
            self.wait_for_stream(queue, number, limit)
        } else {
            self.wait_for_mark(queue, number, limit)
        }
    }

    /// The last number needs no mark.
    fn wait_for_stream(&self, queue: &StreamQueue, number: u64, limit: Duration) -> Result<bool> {
        let call = lock(&self.state).begin(Target::End(number));
        let waited = queue.table().synchronize_stream(queue.handle(), limit);
        let mut state = lock(&self.state);
        state.end(call);
        match waited? {
            Waited::TimedOut => Ok(true),
            Waited::Over(Ok(())) => {
                loop {
                    match is_believed(queue, &state) {
                        Ok(true) => break,
                        // Another thread is about to write down the answer that it got.
                        Ok(false) => drop(state),
                        Err(error) => {
                            note(queue, queue.slot.timeline.submitted(), error);
                            break;
                        }
                    }
                    std::thread::yield_now();
                    state = lock(&self.state);
                }
                queue.slot.timeline.complete(number);
                Ok(false)
            }
            // Only the state of the stream says whether memory is still in use. The failure may be
            // of an operation that another thread has issued meanwhile.
            Waited::Over(Err(error)) => {
                note(queue, queue.slot.timeline.submitted(), error.clone());
                if queue.table().query_stream(queue.handle())? {
                    queue.slot.timeline.complete(number);
                    Ok(false)
                } else {
                    Err(error)
                }
            }
        }
    }

    fn wait_for_mark(&self, queue: &StreamQueue, number: u64, limit: Duration) -> Result<bool> {
        if self.poll(queue, number) {
            return Ok(false);
        }
        let mut state = lock(&self.state);
        // The event is shared, not taken: a pooled event is recorded again only when nobody else
        // holds it.
        let mark = state.list.iter().find(|(last, _)| *last >= number).cloned();
        let Some((last, event)) = mark else {
            // The issue lock is taken: another operation is just being enqueued.
            drop(state);
            std::thread::sleep(Duration::from_micros(50).min(limit));
            return Ok(false);
        };
        if queue.table().query_event(&event)? {
            // The next poll asks for the outcome, with the lock held.
            drop(state);
            std::thread::yield_now();
            return Ok(false);
        }
        let call = state.begin(Target::Mark(event.clone()));
        drop(state);
        let waited = queue.table().synchronize_event(&event, limit);
        let mut state = lock(&self.state);
        state.end(call);
        match waited? {
            // An error that this call returned is not returned again by the next one.
            Waited::Over(Err(error)) => {
                note(queue, last, error.clone());
                if queue.table().query_event(&event)? {
                    queue.slot.timeline.complete(last);
                    Ok(false)
                } else {
                    Err(error)
                }
            }
            Waited::Over(Ok(())) => Ok(false),
            Waited::TimedOut => Ok(true),
        }
    }

    pub(crate) fn recycle_all(&mut self, device: &Device) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (_, event) in state.list.drain(..) {
            device.recycle_event(event);
        }
    }
}

/// Marks everything up to `last` as complete, since the event is. A synchronise, which returns at
/// once, tells the outcome. Returns whether it did: if the synchronise takes its time, or is not to
/// be believed yet, the next poll asks again. An event whose outcome cannot be asked for counts as
/// failed.
fn settle(queue: &StreamQueue, state: &MarksState, last: u64, event: &EventHandle) -> bool {
    match queue.table().synchronize_event(event, Duration::from_secs(1)) {
        Ok(Waited::Over(Ok(()))) => match is_believed(queue, state) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => note(queue, queue.slot.timeline.submitted(), error),
        },
        Ok(Waited::Over(Err(error))) | Err(error) => note(queue, last, error),
        Ok(Waited::TimedOut) => return false,
    }
    queue.slot.timeline.complete(last);
    true
}

/// Whether no blocked call can have been told of a failure, because its target is not complete. The
/// error is one that no other call is told.
fn is_believed(queue: &StreamQueue, state: &MarksState) -> Result<bool> {
    for (_, target) in &state.asking {
        let is_open = match target {
            Target::Mark(event) => !queue.table().query_event(event)?,
            Target::End(number) => match state.list.iter().find(|(last, _)| last == number) {
                Some((_, event)) => !queue.table().query_event(event)?,
                // Operations that were issued since would hide that it is complete.
                None => {
                    !queue.table().query_stream(queue.handle())?
                        && queue.slot.timeline.submitted() == *number
                }
            },
        };
        if !is_open {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Notes that `error` is about an operation up to `number` that was not known to be complete.
fn note(queue: &StreamQueue, number: u64, error: Error) {
    let first = queue.slot.timeline.told_complete() + 1;
    if first <= number {
        let error = match error {
            Error::Call { code, message, .. } => Error::Failed {
                context: Box::new(queue.slot.describe_failed(number)),
                code,
                message,
            },
            other => other,
        };
        queue.slot.faults.add(first..=number, None, error);
    }
}

fn record(
    queue: &StreamQueue,
    number: u64,
    list: &mut VecDeque<(u64, Arc<EventHandle>)>,
) -> Result<()> {
    let event = queue.device().take_event()?;
    match queue.table().record_event(&event, queue.handle()) {
        Ok(()) => list.push_back((number, event)),
        Err(error) => {
            queue.device().recycle_event(event);
            return Err(error);
        }
    }
    Ok(())
}
