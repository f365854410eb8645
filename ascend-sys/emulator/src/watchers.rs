//! The threads that poll a stream repeatedly, so that others need not.
//!
//! A thread that makes an event happen for which the stream may wait looks for watchers afterwards.
//! It need not wake the stream if there are some. A thread that stops watching polls once more
//! afterwards. So no event is missed: either the first thread sees that the watch is over, or the
//! last poll sees the event.

use ascend_sync::{AtomicU32, Ordering, fence};

/// See the [module](self).
pub(crate) struct Watchers(AtomicU32);

impl Watchers {
    pub(crate) fn new() -> Watchers {
        Watchers(AtomicU32::new(0))
    }

    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// The calling thread polls once more after this.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether there are any, now.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Whether a watcher will see the event that the calling thread has made happen before.
    pub(crate) fn will_see(&self) -> bool {
        fence(Ordering::SeqCst);
        self.any()
    }

    #[cfg(all(test, loom))]
    pub(crate) fn watch(&self, poll: impl FnOnce()) {
        self.enter();
        poll();
        self.leave();
    }
}
