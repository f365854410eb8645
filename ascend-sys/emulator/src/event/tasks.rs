//! The tasks of events: a wait, a reset, and a record that sets a flag or stores the time.

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
    /// The flag of an event of the older kind.
    Flag {
        event: &'static Event,
        handle: u64,
        /// The latest record before the wait.
        latest: Option<Mark>,
    },
}

impl Target {
    /// Returns the point to wait for now. Returns `None` if the wait is for the flag.
    fn point(&self) -> Option<Mark> {
        match self {
            Target::Mark(mark) => Some(*mark),
            Target::Flag { latest, .. } => latest.filter(|latest| !latest.is_complete()),
        }
    }
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
        if let Target::Flag { event, handle, latest } = self.target {
            if self.target.point().is_some() {
                return Step::Park;
            }
            if EVENTS.get(handle).is_none() {
                // The event was destroyed. The wait still comes after the record before it.
                if let Some(latest) = latest {
                    self.target = Target::Mark(latest);
                }
                return Step::Done(Ok(()));
            }
            if !event.flag.is_set() {
                return Step::Park;
            }
            self.target = Target::Mark(Mark::from_bits(event.setter.load(Ordering::Relaxed)));
        }
        match self.target {
            Target::Mark(mark) if mark.is_complete() => Step::Done(Ok(())),
            _ => Step::Park,
        }
    }

    /// Registers a wait for a flag. The executor itself registers a wait for a stream, and arms
    /// that stream.
    fn arm(&mut self, stream: &'static Stream) -> bool {
        match self.target {
            Target::Flag { event, .. } if self.target.point().is_none() => event.flag.arm(stream),
            _ => false,
        }
    }

    /// Returns the helpers that could end the wait.
    fn helpers(&self) -> Helpers {
        match self.target {
            Target::Flag { handle, .. } if self.target.point().is_none() => {
                Helpers::Queued(vec![Need::Signal(handle)])
            }
            _ => Helpers::Point,
        }
    }

    fn upstream(&self) -> Option<(&'static Stream, u64)> {
        self.target.point().and_then(Mark::point)
    }

    fn passed(&self, _: &Result<(), Failure>) -> Option<Passed<Stream>> {
        self.upstream().map(|(stream, ticket)| Passed::Ticket(stream, ticket))
    }

    fn describe(&self) -> String {
        let (at, of_flag) = match self.target {
            Target::Flag { event, .. } => (self.target.point().or_else(|| event.mark()), true),
            Target::Mark(mark) => (Some(mark), false),
        };
        match at.map(|mark| (mark, mark.stream())) {
            None => "wait for an event that nobody has recorded yet".into(),
            Some((mark, _)) if of_flag && mark.is_complete() => {
                "wait for an event whose record was dropped or reset".into()
            }
            Some((mark, Some(stream))) => {
                format!("wait for task {} of {}", mark.ticket(), stream.describe())
            }
            Some((_, None)) => "wait for an event".into(),
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
            self.event.flag.clear();
            let state = self.event.state.load(Ordering::Acquire);
            // A record that is not reached yet comes after this reset, so the reset does not clear
            // it.
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

/// A task that sets the flag of an event, and stores the time at which the event was reached.
pub(crate) struct RecordEvent {
    pub(super) event: &'static Event,
    pub(super) handle: u64,
}

impl TaskBody<Stream> for RecordEvent {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        if EVENTS.get(self.handle).is_none() {
            return Step::Done(Ok(()));
        }
        let event = self.event;
        if event.keeps_time() {
            event.time.store(nanoseconds(), Ordering::Release);
        }
        if event.is_flag() {
            let own = Mark::new(stream, stream.queue.completed() + 1);
            event.setter.store(own.to_bits(), Ordering::Relaxed);
            event.flag.set();
        }
        Step::Done(Ok(()))
    }

    fn provides(&self, need: &Need) -> bool {
        matches!(need, Need::Signal(number) if *number == self.handle)
    }

    fn describe(&self) -> String {
        "record of an event".into()
    }
}
