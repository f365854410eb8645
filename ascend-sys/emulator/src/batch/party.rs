//! Who sleeps in the batch of a rank.

use std::sync::PoisonError;

use crate::collective::meeting::Wake;
use crate::collective::sync::{AtomicU32, Mutex, Ordering, announce_or};

/// Serves all batches of a rank in turn: a wake-up that was meant for the last one is only a poll
/// too many for the next.
///
/// That somebody sleeps, all ranks can see; who it is, only the process of the rank.
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

    /// Says who is to be woken where the rank sleeps.
    pub(crate) fn set_waker(&self, waker: W) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
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
