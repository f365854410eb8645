//! The party of a rank: the sleeper in its batch.

use std::sync::PoisonError;

use crate::collective::meeting::Wake;
use crate::collective::sync::{AtomicU32, Mutex, Ordering, announce_or};

/// Serves all batches of a rank in turn: a wake-up that comes too late for one batch is only a
/// needless poll of the next.
///
/// All ranks can see that there is a sleeper; only the process of the rank knows which stream it
/// is.
pub(crate) struct Party<'a, W> {
    pub(crate) armed: &'a AtomicU32,
    pub(crate) waker: &'a Mutex<Option<W>>,
}

impl<W: Wake> Party<'_, W> {
    /// Says that its stream is about to sleep. The caller looks again after this.
    pub(crate) fn arm(&self, waker: W) {
        self.set_waker(waker);
        announce_or(self.armed, 1);
    }

    /// Sets the waker of a rank that sleeps.
    pub(crate) fn set_waker(&self, waker: W) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// The batch is complete: its stream no longer sleeps.
    #[inline]
    pub(crate) fn rest(&self) {
        if self.armed.load(Ordering::Relaxed) != 0 {
            self.armed.store(0, Ordering::Relaxed);
        }
    }

    /// Wakes the stream, if it sleeps: something has changed before this call.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.armed.load(Ordering::SeqCst) != 0 {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
