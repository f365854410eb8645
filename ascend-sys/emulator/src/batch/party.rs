//! Who sleeps in the batch of a rank.

use std::sync::PoisonError;

use crate::collective::meeting::Wake;
use crate::collective::sync::{AtomicU32, Mutex, Ordering, announce_or};

/// Serves all batches of a rank in turn: a wake-up that was meant for the last one is only a poll too many for the next.
pub(crate) struct Party<W> {
    armed: AtomicU32,
    waker: Mutex<Option<W>>,
}

impl<W: Wake> Default for Party<W> {
    fn default() -> Self {
        Self { armed: AtomicU32::new(0), waker: Mutex::new(None) }
    }
}

impl<W: Wake> Party<W> {
    /// Says that its stream is about to sleep. The caller looks again after this.
    pub(crate) fn arm(&self, waker: W) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
        announce_or(&self.armed, 1);
    }

    /// The batch is complete: nobody sleeps.
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
