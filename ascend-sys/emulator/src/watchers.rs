//! Counts the threads that poll a stream repeatedly, so that other threads need not wake it.
//!
//! A thread first makes an event happen for which the stream may wait, and then checks for
//! watchers. If there are some, the thread need not wake the stream. A thread that stops watching
//! polls once more afterwards. So no event is missed: either the first thread sees that the watch
//! is over, or the last poll sees the event.

use ascend_sync::{AtomicU32, Ordering, fence};

/// The number of threads that watch a stream; see the [module](self).
pub(crate) struct Watchers(AtomicU32);

impl Watchers {
    pub(crate) fn new() -> Watchers {
        Watchers(AtomicU32::new(0))
    }

    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the watch of the calling thread, which must poll once more after this.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Returns whether any thread is watching now.
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Returns whether a watcher will see the event that the calling thread made happen before this
    /// call.
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
