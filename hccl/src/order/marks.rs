//! The events of a stream, each recorded after some operation.
//!
//! A mark is a pooled event that is recorded after an operation. When the event is complete, so is
//! every number up to the number of the mark. On every backend, other streams wait for marks: each
//! waits for the first mark after the operation that it needs. Such a mark exists if the program
//! has [recorded](crate::Stream::record) an event there, or if the next operation waits for links.
//! Otherwise a mark is recorded after all operations issued so far.
//!
//! # Completion by events
//!
//! If the backend does not count tasks, marks show which operations are complete. A mark is
//! recorded when a caller checks for completion (a poll or a wait). A mark is also recorded after
//! an operation whose `Work` is alive, just before the next operation is enqueued. So a single
//! operation costs no call, and a `Work` never completes later than its own operation.
//!
//! A backend may report a failure only once. So the result of each call must be recorded before the
//! result of another call is used. A poll makes its call with the lock held. A call that blocks is
//! listed until its result is recorded. A success is believed only if the target of every listed
//! call is incomplete, because that call cannot have received a failure yet.
//!
//! Lock order: the issue lock, then the marks. A poll holds the marks and only try-locks the issue
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

/// The number of marks up to which [`Marks::poll_if_many`] does nothing.
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
    /// The number of marks above which [`Marks::poll_if_many`] polls: twice the number that its
    /// last poll left.
    most: usize,
    /// The calls that are blocking at the moment, each with a number.
    asking: Vec<(u64, Target)>,
    asked: u64,
}

/// The target of a call that blocks.
enum Target {
    Mark(Arc<EventHandle>),
    /// The end of the stream, which was this operation when the call began.
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

    /// Recycles complete marks, but only if the backend counts tasks. Otherwise the outcome of a
    /// mark must be queried first, which a poll does.
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
    /// Records a mark after operation `number`, unless there is one already or the operation is
    /// complete. The caller holds the issue lock, and `number` is the last operation submitted.
    pub(crate) fn record_behind(&self, queue: &StreamQueue, number: u64) -> Result<()> {
        let mut state = lock(&self.state);
        state.forget_complete(queue);
        let is_marked = state.list.back().is_some_and(|&(last, _)| last >= number);
        if is_marked || queue.slot.is_known_complete(number) {
            return Ok(());
        }
        record(queue, number, &mut state.list)
    }

    /// Returns the event of the first mark after operation `number`, and the number of that mark.
    /// Records a mark if there is none. Returns `None` if `number` is complete. The caller holds
    /// the issue lock.
    ///
    /// A stream waits for an event as it was last recorded when the wait is enqueued. The event is
    /// not recorded again as long as the caller keeps it.
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

    /// Polls if there are many marks. The caller does not hold the issue lock.
    pub(crate) fn poll_if_many(&self, queue: &StreamQueue) {
        if try_lock(&self.state).is_some_and(|state| state.list.len() > state.most.max(FEW)) {
            self.poll(queue, 0);
            let mut state = lock(&self.state);
            state.most = 2 * state.list.len();
        }
    }

    /// Notes which marks are complete, and returns whether operation `number` is complete. If there
    /// is no mark for the operation, tries to record one, which needs the issue lock. If another
    /// thread holds the marks, only returns what is known already.
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
            tracing::debug!("cannot record an event after operation {number}: {error}");
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

    /// Blocks for at most `limit`, until `number` is complete. Returns whether the whole limit
    /// passed. May return early although `number` is not complete yet.
    pub(crate) fn wait(&self, queue: &StreamQueue, number: u64, limit: Duration) -> Result<bool> {
        if number == queue.slot.timeline.submitted() {
            self.wait_for_stream(queue, number, limit)
        } else {
            self.wait_for_mark(queue, number, limit)
        }
    }

    /// Waits for the last number. This needs no mark, because it synchronises the stream.
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
                        // Another thread is about to record its result, so wait for that.
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
            // Only the state of the stream shows whether memory is still in use, because the
            // failure may belong to an operation that another thread has issued meanwhile.
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
        // The clone keeps the event in use: a pooled event is recorded again only when nobody else
        // holds it.
        let mark = state.list.iter().find(|(last, _)| *last >= number).cloned();
        let Some((last, event)) = mark else {
            // The poll could not record a mark, because another thread holds one of the locks,
            // usually to enqueue an operation.
            drop(state);
            std::thread::sleep(Duration::from_micros(50).min(limit));
            return Ok(false);
        };
        if queue.table().query_event(&event)? {
            // The next poll queries the outcome with the lock held.
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
            // A later call does not return this error again, so it is recorded here.
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

/// Notes that everything up to `last` is complete, because `event` is complete. Synchronising the
/// event gives the outcome and should return at once. Returns false if the call timed out or its
/// success cannot be believed yet; then the next poll tries again. An event whose outcome cannot be
/// queried counts as failed.
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

/// Returns whether a success can be believed. It can if no target of a blocking call is complete,
/// because then no blocking call can have received a failure. If a query returns an error, this
/// function returns the error, because no other call receives it.
fn is_believed(queue: &StreamQueue, state: &MarksState) -> Result<bool> {
    for (_, target) in &state.asking {
        let is_open = match target {
            Target::Mark(event) => !queue.table().query_event(event)?,
            Target::End(number) => match state.list.iter().find(|(last, _)| last == number) {
                Some((_, event)) => !queue.table().query_event(event)?,
                // Operations issued since then may keep the stream busy although the target is
                // complete. So the target counts as open only if it is still the last operation.
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

/// Records `error` as the failure of one of the operations up to `number`, without those that were
/// known to be complete. Does nothing if all of them were.
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
