//! What threads wait for besides a point of a stream: any completion, a condition.

use super::help::help;
use super::{Goal, block};
use crate::bell::{CHANGES, COMPLETIONS};
use crate::queue::Readiness;
use crate::stream::STREAMS;
use ascend_sync::Thread;
use std::cell::Cell;
use std::time::Duration;

/// A number that changes whenever a task of any stream completes.
fn activity() -> u64 {
    STREAMS.all().fold(0, |sum, stream| sum.wrapping_add(stream.queue.completed()))
}

/// Waits until a task of any stream completes after the number `seen` was read. Returns the new number.
pub(crate) fn await_activity(seen: u64, limit: Duration) -> u64 {
    block(&Activity { seen }, Some(limit));
    activity()
}

struct Activity {
    seen: u64,
}

impl Goal for Activity {
    fn done(&self) -> bool {
        activity() != self.seen
    }

    fn work(&self) {
        help();
    }

    fn prepare(&self, me: &Thread) -> Readiness {
        COMPLETIONS.set(me);
        if self.done() { Readiness::Done } else { Readiness::Sleep }
    }

    fn forget(&self, me: &Thread) {
        COMPLETIONS.forget(me);
    }
}

/// Waits until `done` says so; it is asked often, and at once after [`announce`]. False when `limit` passed first. Helps
/// with all streams meanwhile. Once it has said so it is not asked again, so that it may take what it waits for.
pub(crate) fn wait_until(limit: Option<Duration>, done: impl Fn() -> bool) -> bool {
    let met = Cell::new(false);
    let done = || {
        met.set(met.get() || done());
        met.get()
    };
    done() || block(&Condition { done }, limit)
}

struct Condition<F> {
    done: F,
}

impl<F: Fn() -> bool> Goal for Condition<F> {
    fn done(&self) -> bool {
        (self.done)()
    }

    fn work(&self) {}

    fn prepare(&self, me: &Thread) -> Readiness {
        CHANGES.set(me);
        if (self.done)() { Readiness::Done } else { Readiness::Sleep }
    }

    fn forget(&self, me: &Thread) {
        CHANGES.forget(me);
    }
}
