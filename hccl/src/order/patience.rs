//! One wait: when it began, how long it may last, and which watch may end it early.
//!
//! A [`Patience`] is one wait of a thread that blocks or of a task that awaits. A thread may
//! register a [`Watch`] that can end its waits. For example, a thread of a run has a watch for its
//! rank, because an operation may never complete after another rank has failed. A thread that makes
//! a watch fail raises an [`alarm`] afterwards, so that waiting tasks check their watches again.

#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::registry::{Key, Registry};
use crate::error::Error;
use crate::sync::{contain, lock};

/// An object that may end the waits of a thread early.
pub(crate) trait Watch: Send + Sync {
    /// Returns the error with which the waits end, or `None` while they may go on.
    fn failure(&self) -> Option<Error>;
}

thread_local! {
    /// The watch that may end the waits of this thread.
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
}

/// Registers `watch` for the calling thread. From now on `watch` may end the waits of this thread.
pub(crate) fn watch_waits(watch: Arc<dyn Watch>) {
    WATCH.set(Some(watch));
}

/// Returns the watch of the calling thread. The watch may end the waits of this thread, and waits
/// for the objects that this thread begins to make.
pub(crate) fn watch_of_this_thread() -> Option<Arc<dyn Watch>> {
    // `try_with`, because a thread that ends may still wait in the drop of another thread local.
    WATCH.try_with(|watch| watch.borrow().clone()).ok().flatten()
}

/// The time after which a wait logs a warning that says what it waits for.
#[cfg(not(test))]
pub(super) const WARN_AFTER: Duration = Duration::from_secs(10);
#[cfg(test)]
pub(crate) const WARN_AFTER: Duration = Duration::from_millis(200);

static ALARMS: AtomicU64 = AtomicU64::new(0);

/// The wakers of tasks that await something other than an operation. The reactor keeps the wakers
/// of tasks that await an operation.
static LISTENING: LazyLock<Mutex<Registry<Arc<Waker>>>> = LazyLock::new(Mutex::default);

/// Raises an alarm, so that every waiter checks its [`Patience`]. Wakes the tasks that
/// [listen](Listening). The reactor sees the alarm within 100 ms and wakes the tasks that await an
/// operation. Called after something has happened that may end waits.
pub(crate) fn alarm() {
    ALARMS.fetch_add(1, SeqCst);
    let wakers: Vec<Arc<Waker>> = lock(&LISTENING).values().cloned().collect();
    for waker in wakers {
        // The lock is released by now, because a waker runs code from outside this crate.
        contain(move || waker.wake_by_ref());
    }
}

/// The registration of a task for alarms. Dropping the value ends the registration.
pub(crate) struct Listening(Key);

impl Listening {
    pub(crate) fn new(waker: &Waker) -> Self {
        let waker = Arc::new(waker.clone());
        Listening(lock(&LISTENING).insert(waker))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let waker = lock(&LISTENING).remove(self.0);
        // Dropped after the lock was released, because the drop of a waker may run code from
        // outside this crate.
        drop(waker);
    }
}

/// Returns the number of alarms so far.
pub(crate) fn alarms() -> u64 {
    ALARMS.load(SeqCst)
}

/// One wait: when it began, how long it may last, and which watch may end it early.
pub(crate) struct Patience {
    since: Instant,
    limit: Duration,
    /// Whether this wait has logged its warning.
    pub(super) warned: bool,
    watch: Option<Arc<dyn Watch>>,
    /// The time at which this wait noted the state of the other ranks, and the newest collective of
    /// each rank at that time.
    pub(super) looked: Option<(Instant, Box<[u64]>)>,
}

impl Patience {
    /// Returns a wait of the calling thread that begins now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self::since(Duration::ZERO, limit)
    }

    /// Returns a wait that begins now. If the calling thread has no watch of its own, `watch` may
    /// end the wait early.
    pub(crate) fn watched(limit: Duration, watch: Option<Arc<dyn Watch>>) -> Self {
        let own = Self::new(limit);
        Self { watch: own.watch.or(watch), ..own }
    }

    /// Returns a wait of the calling thread that began `ago` before now.
    pub(super) fn since(ago: Duration, limit: Duration) -> Self {
        let now = Instant::now();
        let since = now.checked_sub(ago).unwrap_or(now);
        Self { since, limit, warned: false, watch: watch_of_this_thread(), looked: None }
    }

    /// Returns whether the wait has lasted so long that the caller should log the warning. Returns
    /// true only once.
    pub(crate) fn is_long(&mut self) -> bool {
        let is_long = !self.warned && self.elapsed() >= WARN_AFTER;
        self.warned |= is_long;
        is_long
    }

    /// Returns how long the wait has lasted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns how long the wait may last in all. The backend gets this limit too: when it looks
    /// for a deadlock, it counts only threads whose wait may last half a minute or more.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns how much longer the wait may last.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.elapsed())
    }

    /// Returns the error with which the watch ends the wait, or `None` while the wait may go on.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.watch.as_ref()?.failure()
    }

    /// Ends the wait and drops its watch.
    pub(super) fn end(&mut self) {
        self.watch = None;
    }
}
