//! The goals of waiting threads other than a point of a stream: any completion, or a condition.

use super::help::help;
use super::{Goal, block, housekeeper};
use crate::bell::{CHANGES, COMPLETIONS};
use crate::context;
use crate::machine;
use crate::queue::Readiness;
use crate::sleep::{Enders, Until, WaitingCall};
use crate::stream::STREAMS;
use ascend_sync::Thread;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// Returns a number that changes whenever a task of any stream completes.
fn activity() -> u64 {
    STREAMS.all().fold(0, |sum, stream| sum.wrapping_add(stream.queue.completed()))
}

/// Waits until a task of any stream completes after the number `seen` was read, for at most
/// `limit`. Returns the new number.
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

/// Waits until `done` returns true, and helps with all streams meanwhile. Returns false if `limit`
/// passes first. `done` is called often, and at once after [`announce`]. Once `done` has returned
/// true, it is not called again, so it may consume the result that it waits for.
pub(crate) fn wait_until(limit: Option<Duration>, done: impl Fn() -> bool) -> bool {
    let met = Cell::new(false);
    let done = || {
        met.set(met.get() || done());
        met.get()
    };
    done() || block(&Condition { done, call: None }, limit)
}

/// Waits like [`wait_until`], for a condition that calls of other threads make true. `what`
/// describes the condition, and which callers must act. If it is certain that no thread can make
/// the condition true, returns the description of the deadlock as an error. With
/// [`Enders::Anybody`] this is never certain.
pub(crate) fn await_others(
    limit: Duration,
    ends: Enders,
    what: impl FnOnce() -> String,
    done: impl Fn() -> bool,
) -> Result<bool, Arc<str>> {
    if done() {
        return Ok(true);
    }
    let device = context::current().ok().map(|current| machine::device_slot(current.device));
    let whose = device.and_then(|device| device.block());
    let call = Arc::new(WaitingCall::new(what(), whose, ends, ascend_sync::current_thread()));
    housekeeper::start();
    let met = Cell::new(false);
    // After a verdict, `done` may become true because of it. That does not count.
    let decided = || {
        let is_told = call.verdict().is_some();
        met.set(met.get() || (!is_told && done()));
        met.get() || is_told
    };
    block(&Condition { done: decided, call: Some(&call) }, Some(limit));
    match call.verdict() {
        Some(text) if !met.get() => Err(text),
        _ => Ok(met.get()),
    }
}

struct Condition<'a, F> {
    done: F,
    /// The waiting call, if only other threads can make the condition true.
    call: Option<&'a Arc<WaitingCall>>,
}

impl<F: Fn() -> bool> Goal for Condition<'_, F> {
    fn done(&self) -> bool {
        (self.done)()
    }

    fn until(&self) -> Option<Until> {
        self.call.cloned().map(Until::Call)
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
