//! The party of a rank: the sleeping stream of its batch.

use std::sync::PoisonError;

use crate::collective::meeting::Wake;
use crate::collective::sync::{AtomicU32, Mutex, Ordering, announce_or};

/// The sleeper of a rank. All batches of the rank use the same party, one after another. A wake-up
/// that comes too late for one batch only causes a needless poll of the next.
///
/// All ranks can see whether there is a sleeper, but only the process of the rank has the stream.
pub(crate) struct Party<'a, W> {
    pub(crate) armed: &'a AtomicU32,
    pub(crate) waker: &'a Mutex<Option<W>>,
}

impl<W: Wake> Party<'_, W> {
    /// Registers the stream as a sleeper. The caller then checks its messages again before the
    /// stream sleeps.
    pub(crate) fn arm(&self, waker: W) {
        self.set_waker(waker);
        announce_or(self.armed, 1);
    }

    /// Sets the waker of a rank that sleeps.
    pub(crate) fn set_waker(&self, waker: W) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
    }

    /// Notes that the stream no longer sleeps, because the batch is complete.
    #[inline]
    pub(crate) fn rest(&self) {
        if self.armed.load(Ordering::Relaxed) != 0 {
            self.armed.store(0, Ordering::Relaxed);
        }
    }

    /// Wakes the stream if it sleeps. The caller has made a change before this call.
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
