//! The tasks of events: a wait, a reset, and a record that keeps time.

use super::{AWAITED, EVENTS, Event, RECORDED, nanoseconds};
use crate::message::Failure;
use crate::step::{Helpers, Need, Step};
use crate::stream::{Mark, Stream};
use crate::task::{Passed, TaskBody};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Clone, Copy)]
pub(super) enum Target {
    Mark(Mark),
    /// An event that may not be recorded yet.
    Record {
        event: &'static Event,
        handle: u64,
    },
}

/// A task that makes later work of the stream wait for an event.
pub(crate) struct WaitEvent {
    pub(super) event: &'static Event,
    pub(super) target: Target,
    pub(super) limit: Option<Duration>,
}

impl Drop for WaitEvent {
    fn drop(&mut self) {
        self.event.waits.fetch_sub(1, Ordering::Release);
    }
}

impl TaskBody<Stream> for WaitEvent {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if let Target::Record { event, handle } = self.target {
            if EVENTS.get(handle).is_none() {
                return Step::Done(Ok(()));
            }
            match event.mark() {
                // The first record that the wait sees counts.
                Some(mark) => self.target = Target::Mark(mark),
                None => return Step::Park,
            }
        }
        match self.target {
            Target::Mark(mark) if mark.is_complete() => Step::Done(Ok(())),
            _ => Step::Park,
        }
    }

    /// Waits for a record are registered here. Waits for a stream are registered by the executor,
    /// which arms that stream too.
    fn arm(&mut self, stream: &'static Stream) -> bool {
        match self.target {
            Target::Record { event, .. } => event.await_record(|sleepers| {
                if !sleepers.iter().any(|s| std::ptr::eq(*s, stream)) {
                    sleepers.push(stream);
                }
            }),
            Target::Mark(_) => false,
        }
    }

    /// Returns what could end the wait.
    fn helpers(&self) -> Helpers {
        match self.target {
            Target::Mark(_) => Helpers::Point,
            Target::Record { .. } => Helpers::Queued(vec![Need::Call]),
        }
    }

    fn upstream(&self) -> Option<(&'static Stream, u64)> {
        match self.target {
            Target::Mark(mark) => mark.point(),
            Target::Record { .. } => None,
        }
    }

    fn passed(&self, _: &Result<(), Failure>) -> Option<Passed<Stream>> {
        self.upstream().map(|(stream, ticket)| Passed::Ticket(stream, ticket))
    }

    fn describe(&self) -> String {
        match self.target {
            Target::Record { .. } => "wait for an event that nobody has recorded yet".into(),
            Target::Mark(mark) => match mark.stream() {
                Some(stream) => format!("wait for task {} of {}", mark.ticket(), stream.describe()),
                None => "wait for an event".into(),
            },
        }
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }
}

/// A task that clears an event in stream order.
pub(crate) struct ResetEvent {
    pub(super) event: &'static Event,
    pub(super) handle: u64,
}

impl TaskBody<Stream> for ResetEvent {
    fn poll(&mut self, _: &'static Stream) -> Step {
        if EVENTS.get(self.handle).is_some() {
            let state = self.event.state.load(Ordering::Acquire);
            // A record that is not reached yet comes after this reset.
            if state & RECORDED != 0 && Mark::from_bits(state & !(RECORDED | AWAITED)).is_complete()
            {
                let _ = self.event.state.compare_exchange(
                    state,
                    0,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            }
        }
        Step::Done(Ok(()))
    }

    fn describe(&self) -> String {
        "reset of an event".into()
    }
}

/// A task that notes when an event was reached.
pub(crate) struct RecordTime {
    pub(super) event: &'static Event,
}

impl TaskBody<Stream> for RecordTime {
    fn poll(&mut self, _: &'static Stream) -> Step {
        self.event.time.store(nanoseconds(), Ordering::Release);
        Step::Done(Ok(()))
    }

    fn describe(&self) -> String {
        "record of an event with its time".into()
    }
}
