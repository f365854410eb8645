//! Threads that poll tasks, and calls that block them.
//!
//! A task that awaits something of ours was polled by some thread last, and in most cases it is this one that polls it
//! next. A call that blocks this thread meanwhile may wait for what the task would do. That is no error, since another
//! thread may take the task over; it is told once a thread, as a warning.

#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

thread_local! {
    /// How many futures were pending when this thread polled them last.
    static PENDING: RefCell<Arc<AtomicUsize>> = RefCell::default();
    static TOLD: Cell<bool> = const { Cell::new(false) };
}

/// A future that was pending when this thread polled it; until this is dropped.
pub(crate) struct PolledHere(Option<Arc<AtomicUsize>>);

impl PolledHere {
    pub(crate) fn new() -> Self {
        let here = PENDING.try_with(|pending| pending.borrow().clone()).ok();
        if let Some(here) = &here {
            here.fetch_add(1, Relaxed);
        }
        PolledHere(here)
    }
}

impl PolledHere {
    /// The future is ready, or gone.
    pub(crate) fn end(&mut self) {
        if let Some(there) = self.0.take() {
            there.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for PolledHere {
    fn drop(&mut self) {
        self.end();
    }
}

/// The calling thread is about to block in `call`. Says so where tasks wait for this thread.
pub(crate) fn blocks(call: &'static str) {
    let tasks = PENDING.try_with(|pending| pending.borrow().load(Relaxed)).unwrap_or(0);
    if tasks != 0 && !TOLD.replace(true) {
        tracing::warn!(
            call,
            tasks,
            "{call} blocks a thread that polls tasks, of which {tasks} wait for what they await: await it instead, or call \
             it on a thread of its own (tokio: spawn_blocking)"
        );
    }
}
