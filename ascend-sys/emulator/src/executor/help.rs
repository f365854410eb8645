//! Runs streams that other threads wait for, and counts the threads that are awake to run streams.

use super::cores::cores;
use crate::poll::HELP;
use crate::queue::Outcome;
use crate::stream::{STREAMS, Stream};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    /// Whether this thread counts in `RUNNING`.
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads that are awake to run streams: those of `WAITING` that do not sleep, the
/// housekeeper and the workers.
pub(super) static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Polls every stream that has unfinished work and no watcher. Returns the number of these streams
/// that have more to run.
pub(super) fn help() -> usize {
    let unwatched =
        STREAMS.all().filter(|stream| !stream.queue.is_idle() && !stream.watchers.any());
    unwatched.filter(|stream| stream.assist(HELP) == Outcome::Runnable).count()
}

/// Wakes a stream as [`Stream::wake`] does, unless another thread is watching it. A watching thread
/// runs the stream, and the calling thread goes on with its own work. But if there are more threads
/// than cores, the watching thread may not be running, so the stream is woken all the same.
pub(crate) fn nudge(stream: &'static Stream) {
    let others = RUNNING.load(Ordering::Relaxed).saturating_sub(IS_RUNNING.get().into());
    if others >= cores() || !stream.watchers.will_see() {
        stream.wake();
    }
}

pub(super) struct Counted<'a> {
    counter: &'a AtomicUsize,
    pub(super) value: usize,
}

impl<'a> Counted<'a> {
    pub(super) fn add(counter: &'a AtomicUsize) -> Counted<'a> {
        Counted { counter, value: counter.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts the calling thread as awake to run streams, until the value is dropped.
pub(super) struct RunningThread {
    _counted: Counted<'static>,
}

impl RunningThread {
    pub(super) fn start() -> RunningThread {
        IS_RUNNING.set(true);
        RunningThread { _counted: Counted::add(&RUNNING) }
    }
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        IS_RUNNING.set(false);
    }
}
