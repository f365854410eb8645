//! What threads wait for besides a point of a stream: the record of an event, any completion, a condition.

use super::{Goal, block, help, wait};
use crate::event::{Event, NotRecorded};
use crate::queue::Readiness;
use crate::stream::STREAMS;
use crate::sync::{Thread, lock_std as lock};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::time::{Duration, Instant};

/// Waits until an event is complete, and before that recorded. False when `limit` passed first.
pub(crate) fn wait_event(event: &'static Event, limit: Option<Duration>) -> bool {
    match event.pending() {
        Ok(None) => true,
        Ok(Some(mark)) => mark.stream().is_none_or(|stream| wait(stream, mark.ticket(), limit)),
        Err(NotRecorded) => {
            let began = Instant::now();
            if !block(&RecordGoal { event }, limit) {
                return false;
            }
            let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
            event
                .mark()
                .and_then(|mark| Some((mark, mark.stream()?)))
                .is_none_or(|(m, s)| wait(s, m.ticket(), left))
        }
    }
}

struct RecordGoal {
    event: &'static Event,
}

impl Goal for RecordGoal {
    fn done(&self) -> bool {
        self.event.pending() != Err(NotRecorded)
    }

    fn work(&self) {}

    fn prepare(&self, me: &Thread) -> Readiness {
        if self.event.await_record_by(me) { Readiness::Done } else { Readiness::Sleep }
    }

    fn forget(&self, me: &Thread) {
        self.event.forget_thread(me);
    }
}

/// A number that changes whenever a task of any stream completes.
fn activity() -> u64 {
    STREAMS.all().fold(0, |sum, stream| sum.wrapping_add(stream.queue.completed()))
}

/// Waits until a task of any stream completes after the number `seen` was read. Returns the new number.
pub(crate) fn await_activity(seen: u64, limit: Duration) -> u64 {
    block(&Activity { seen }, Some(limit));
    activity()
}

/// The thread that sleeps until something completes.
static WATCHERS: Mutex<Vec<Thread>> = Mutex::new(Vec::new());
/// Cleared by the first completion, which wakes them all.
static WATCHED: AtomicBool = AtomicBool::new(false);

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
        lock(&WATCHERS).push(me.clone());
        WATCHED.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.done() { Readiness::Done } else { Readiness::Sleep }
    }

    fn forget(&self, me: &Thread) {
        lock(&WATCHERS).retain(|watcher| watcher.id() != me.id());
    }
}

/// A task has completed: wakes who waits for any.
#[inline]
pub(crate) fn completed() {
    // The number of the completed task must be visible before the look. On x86 what lies between the two sees to that.
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::SeqCst);
    }
    if WATCHED.load(Ordering::Relaxed) {
        wake_watchers();
    }
}

#[cold]
fn wake_watchers() {
    if WATCHED.swap(false, Ordering::SeqCst) {
        lock(&WATCHERS).iter().for_each(Thread::unpark);
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

/// Threads that sleep in [`wait_until`].
static SLEEPERS: Mutex<Vec<Thread>> = Mutex::new(Vec::new());
static SLEEPER_COUNT: AtomicUsize = AtomicUsize::new(0);

struct Condition<F> {
    done: F,
}

impl<F: Fn() -> bool> Goal for Condition<F> {
    fn done(&self) -> bool {
        (self.done)()
    }

    fn work(&self) {}

    fn prepare(&self, me: &Thread) -> Readiness {
        {
            let mut sleepers = lock(&SLEEPERS);
            sleepers.push(me.clone());
            SLEEPER_COUNT.store(sleepers.len(), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        if (self.done)() { Readiness::Done } else { Readiness::Sleep }
    }

    fn forget(&self, me: &Thread) {
        let mut sleepers = lock(&SLEEPERS);
        sleepers.retain(|sleeper| sleeper.id() != me.id());
        SLEEPER_COUNT.store(sleepers.len(), Ordering::SeqCst);
    }
}

/// Something changed that a thread in [`wait_until`] may be waiting for. Call it after the change.
pub(crate) fn announce() {
    fence(Ordering::SeqCst);
    if SLEEPER_COUNT.load(Ordering::Relaxed) != 0 {
        lock(&SLEEPERS).iter().for_each(Thread::unpark);
    }
}
