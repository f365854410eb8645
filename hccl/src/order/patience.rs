//! One wait: since when, for how long, and which watch may end it before its time.
//!
//! A [`Patience`] is one wait, of a thread that blocks or of a task that awaits. The thread that
//! waits has registered a [`Watch`] that may end the wait, for example that of a rank of a run:
//! when another rank has failed, an operation may never complete. A thread that makes a watch fail
//! gives an [`alarm`] afterwards, so that tasks look again.

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

/// May end the waits of a thread before their time.
pub(crate) trait Watch: Send + Sync {
    /// Returns the error with which the waits end, or `None` while they may go on.
    fn failure(&self) -> Option<Error>;
}

thread_local! {
    /// The watch that may end the waits of this thread.
    static WATCH: RefCell<Option<Arc<dyn Watch>>> = const { RefCell::new(None) };
}

/// From now on `watch` may end the waits of this thread.
pub(crate) fn watch_waits(watch: Arc<dyn Watch>) {
    WATCH.set(Some(watch));
}

/// Returns the watch that may end the waits of the calling thread, and those for what it begins.
pub(crate) fn watch_of_this_thread() -> Option<Arc<dyn Watch>> {
    // A thread that ends may still wait, in the drop of another thread local.
    WATCH.try_with(|watch| watch.borrow().clone()).ok().flatten()
}

/// The time after which a wait says what it waits for.
#[cfg(not(test))]
pub(super) const WARN_AFTER: Duration = Duration::from_secs(10);
#[cfg(test)]
pub(crate) const WARN_AFTER: Duration = Duration::from_millis(200);

static ALARMS: AtomicU64 = AtomicU64::new(0);

/// The wakers of tasks that await something else than an operation; for an operation, the reactor
/// keeps them.
static LISTENING: LazyLock<Mutex<Registry<Arc<Waker>>>> = LazyLock::new(Mutex::default);

/// Wakes every task that awaits, since something has happened that may end waits: each asks its
/// [`Patience`].
pub(crate) fn alarm() {
    ALARMS.fetch_add(1, SeqCst);
    let wakers: Vec<Arc<Waker>> = lock(&LISTENING).values().cloned().collect();
    for waker in wakers {
        // Without the lock: a waker is code of others.
        contain(move || waker.wake_by_ref());
    }
}

/// Registers a task for every alarm, until this is dropped.
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
        // Here, where the lock is free again: a waker may be code of others.
        drop(waker);
    }
}

/// Returns the number of alarms so far.
pub(crate) fn alarms() -> u64 {
    ALARMS.load(SeqCst)
}

/// One wait: since when, for how long, and which watch may end it.
pub(crate) struct Patience {
    since: Instant,
    limit: Duration,
    /// Whether it has said what it waits for.
    pub(super) warned: bool,
    watch: Option<Arc<dyn Watch>>,
    /// The time of its last look at the other ranks, and the newest collective of each.
    pub(super) looked: Option<(Instant, Box<[u64]>)>,
}

impl Patience {
    /// A wait of the calling thread that begins now.
    pub(crate) fn new(limit: Duration) -> Self {
        Self::since(Duration::ZERO, limit)
    }

    /// A wait that begins now, and that `watch` may end if the calling thread has no watch of its
    /// own.
    pub(crate) fn watched(limit: Duration, watch: Option<Arc<dyn Watch>>) -> Self {
        let own = Self::new(limit);
        Self { watch: own.watch.or(watch), ..own }
    }

    /// A wait that began some time ago.
    pub(super) fn since(ago: Duration, limit: Duration) -> Self {
        let now = Instant::now();
        let since = now.checked_sub(ago).unwrap_or(now);
        Self { since, limit, warned: false, watch: watch_of_this_thread(), looked: None }
    }

    /// Whether it has lasted so long that it should say what it waits for. Asked again, it says no.
    pub(crate) fn is_long(&mut self) -> bool {
        let is_long = !self.warned && self.elapsed() >= WARN_AFTER;
        self.warned |= is_long;
        is_long
    }

    /// Returns how long it has lasted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns how long it may last in all. The backend is told this: a wait of half a minute or
    /// more is one whose deadlock is told, to its end.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns how long it may still last.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.elapsed())
    }

    /// Returns the error that ends it before its time.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.watch.as_ref()?.failure()
    }

    /// Ends it: it waits for nobody any more.
    pub(super) fn end(&mut self) {
        self.watch = None;
    }
}
