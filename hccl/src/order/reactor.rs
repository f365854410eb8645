//! The thread that wakes the tasks which await an operation.
//!
//! Each runtime has one such thread, which runs only while something is registered. An entry names
//! an operation and the action to run when it is complete: call a waker, or end a stream that was
//! dropped with work in flight. The reactor also calls a waker at the time that was registered with
//! it, and it calls all wakers after an [alarm](super::patience::alarm). The task then checks
//! whether its wait has ended. If the backend has a call that waits for any task
//! (`ascendExtAwaitActivity`), the thread blocks in that call. Otherwise the thread checks every 50
//! µs, after a short spin.
//!
//! # No wake-up is lost
//!
//! A task checks whether its operation is complete, registers, and checks again. The thread reads
//! the activity counter before it checks the entries. Suppose that an operation completes after the
//! second check of the task, so the task was registered before. If the operation completes before
//! the thread checks the entries, the thread sees that. If the operation completes later, the
//! activity counter changes after the thread has read it, so the thread does not block. Wakers are
//! called with no lock held.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::awaiting::PolledHere;
use super::patience::{Patience, alarms};
use super::registry::{Key, Registry};
use super::stream_slot::Occupant;
use crate::error::{Error, Result};
use crate::sync::contain;
use ascend_sync::pause;

/// The time for which the thread stays alive when nothing is registered.
const IDLE: Duration = Duration::from_millis(100);
/// The longest time for which the thread blocks in one call of the backend.
const BLOCK: Duration = Duration::from_millis(100);

/// The action to run when an operation is complete.
enum Then {
    /// Calls the waker, at the latest at this moment, even if the operation is not complete.
    Wake(Waker, Option<Instant>),
    /// Ends the stream, which was dropped.
    EndStream,
}

struct Watched {
    stream: Arc<dyn Occupant>,
    number: u64,
    /// The ticket of the operation, if a `Work` is registered.
    ticket: Option<u64>,
    then: Then,
}

impl Watched {
    fn is_complete(&self) -> bool {
        match self.ticket {
            Some(ticket) => self.stream.slot().is_work_complete(self.number, ticket),
            None => self.stream.slot().is_complete(self.number),
        }
    }

    /// Returns the time until the waker is called even if the operation is not complete.
    fn left(&self, now: Instant) -> Option<Duration> {
        match self.then {
            Then::Wake(_, due) => Some(due?.saturating_duration_since(now)),
            Then::EndStream => None,
        }
    }
}

/// The state of a `Work` while it is awaited.
pub(crate) struct Awaited {
    pub(crate) patience: Patience,
    /// The guard that counts the future as pending for the thread that polled it last.
    polled: PolledHere,
    /// The reactor with which the waker is registered, and the key of the registration.
    registered: Option<(Arc<Reactor>, Key)>,
}

/// The reactor of a runtime; see the [module](self).
pub(crate) struct Reactor {
    state: std::sync::Mutex<ReactorState>,
    changed: std::sync::Condvar,
}

struct ReactorState {
    watched: Registry<Watched>,
    /// Boxes to reuse, so that awaiting allocates nothing in the steady state.
    #[allow(clippy::vec_box, reason = "it is the boxes that are used again")]
    spare: Vec<Box<Awaited>>,
    running: bool,
}

impl Reactor {
    pub(crate) fn new() -> Arc<Self> {
        let state =
            ReactorState { watched: Registry::default(), spare: Vec::new(), running: false };
        Arc::new(Self { state: std::sync::Mutex::new(state), changed: std::sync::Condvar::new() })
    }

    /// Returns the state for a wait that begins now.
    pub(crate) fn awaited(&self, limit: Duration) -> Box<Awaited> {
        let polled = PolledHere::new();
        let awaited = Awaited { patience: Patience::new(limit), polled, registered: None };
        let spare = self.lock().spare.pop();
        match spare {
            Some(mut spare) => {
                *spare = awaited;
                spare
            }
            None => Box::new(awaited),
        }
    }

    /// Registers `waker`, which is called when the operation is complete, when `left` has passed,
    /// or after an alarm. It replaces the waker of an earlier call.
    pub(crate) fn register(
        self: &Arc<Self>,
        awaited: &mut Awaited,
        stream: Arc<dyn Occupant>,
        (number, ticket): (u64, u64),
        left: Duration,
        waker: &Waker,
    ) -> Result<()> {
        let then = Then::Wake(waker.clone(), Instant::now().checked_add(left));
        let mut state = self.lock();
        if let Some((_, key)) = awaited.registered
            && let Some(watched) = state.watched.get_mut(key)
        {
            awaited.polled = PolledHere::new();
            let old = std::mem::replace(&mut watched.then, then);
            drop(state);
            drop(old);
            return Ok(());
        }
        let key = state.watched.insert(Watched { stream, number, ticket: Some(ticket), then });
        if let Err(error) = self.run(&mut state) {
            let watched = state.watched.remove(key);
            drop(state);
            drop(watched);
            return Err(error);
        }
        awaited.registered = Some((self.clone(), key));
        Ok(())
    }

    /// Ends the wait and removes its waker.
    pub(crate) fn unregister(mut awaited: Box<Awaited>) {
        let Some((reactor, key)) = awaited.registered.take() else { return };
        awaited.patience.end();
        awaited.polled.end();
        let mut state = reactor.lock();
        let watched = state.watched.remove(key);
        state.spare.push(awaited);
        drop(state);
        drop(watched);
    }

    /// Registers a stream that was dropped with work in flight. The stream is ended when everything
    /// up to operation `number` is complete.
    pub(crate) fn end_stream_after(self: &Arc<Self>, stream: Arc<dyn Occupant>, number: u64) {
        let mut state = self.lock();
        state.watched.insert(Watched { stream, number, ticket: None, then: Then::EndStream });
        let started = self.run(&mut state);
        drop(state);
        // If no thread can be started, the stream stays registered and alive until one can be.
        if let Err(error) = started {
            tracing::warn!("a stream that was dropped stays alive for now: {error}");
        }
    }

    /// Starts the thread if it does not run. Otherwise wakes it.
    fn run(self: &Arc<Self>, state: &mut ReactorState) -> Result<()> {
        if state.running {
            self.changed.notify_one();
            return Ok(());
        }
        let reactor = self.clone();
        // Read here, so that the thread also handles alarms that are raised before it runs.
        let mut heard = alarms();
        let serve = move || {
            // Code from outside this crate, such as a subscriber of `tracing`, may panic while the
            // lock is held. Tasks must still be woken.
            while catch_unwind(AssertUnwindSafe(|| reactor.serve(&mut heard))).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        std::thread::Builder::new().name("hccl-reactor".into()).spawn(serve).map_err(|error| {
            Error::Invalid {
                operation: "await",
                problem: format!("cannot start a thread to wake tasks: {error}; use `wait()`")
                    .into(),
            }
        })?;
        state.running = true;
        Ok(())
    }

    /// Calls wakers and ends streams until nothing has been registered for [`IDLE`]. `heard` is the
    /// number of alarms that have been handled so far.
    fn serve(&self, heard: &mut u64) {
        let mut activity = 0;
        let mut pauses = 0u32;
        let mut ready = Vec::new();
        loop {
            let (waiting, block) = {
                let mut state = self.lock();
                let now = Instant::now();
                let is_over = |watched: &Watched, alarm| match watched.then {
                    Then::Wake(_, due) => alarm || due.is_some_and(|due| due <= now),
                    Then::EndStream => false,
                };
                let is_ready =
                    |watched: &Watched, alarm| watched.is_complete() || is_over(watched, alarm);
                state.watched.take_due(heard, alarms(), is_ready, &mut ready);
                if ready.is_empty() && state.watched.is_empty() {
                    let waited = self.changed.wait_timeout(state, IDLE);
                    let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() && state.watched.is_empty() {
                        state.running = false;
                        return;
                    }
                    pauses = 0;
                    continue;
                }
                let block = state.watched.values().filter_map(|watched| watched.left(now)).min();
                let stream = state.watched.values().next().map(|watched| watched.stream.clone());
                (stream, block.unwrap_or(BLOCK).min(BLOCK))
            };
            if !ready.is_empty() {
                pauses = 0;
                for watched in ready.drain(..) {
                    contain(|| finish(watched));
                }
                continue;
            }
            if let Some(stream) = waiting
                && !stream.await_activity(&mut activity, block)
            {
                pause(pauses);
                pauses = pauses.saturating_add(1);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ReactorState> {
        crate::sync::lock(&self.state)
    }
}

/// Runs the action, with no lock held.
fn finish(watched: Watched) {
    match watched.then {
        Then::Wake(waker, _) => waker.wake(),
        Then::EndStream => watched.stream.end(),
    }
}
