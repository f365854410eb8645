//! Helping: running streams of others, and the number of threads that are awake to do so.

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

/// Threads that are awake to run streams: those of `WAITING` that do not sleep, the housekeeper and
/// the workers.
pub(super) static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Polls every stream that has unfinished work and no watcher. Returns how many of them have more
/// to run.
pub(super) fn help() -> usize {
    let unwatched =
        STREAMS.all().filter(|stream| !stream.queue.is_idle() && !stream.watchers.any());
    unwatched.filter(|stream| stream.assist(HELP) == Outcome::Runnable).count()
}

/// As [`Stream::wake`], for a stream that another thread may be watching. Then that thread runs it,
/// and the calling thread goes on with its own work, unless there are more threads than cores, so
/// that the other one may not be running.
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

/// Marks that the calling thread is awake to run streams.
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
