//! One message on its way, and the two batches that it belongs to.
//!
//! The message is copied in chunks. Both sides' waiters take them: the receiver from the front, the sender from the back, so that
//! for messages of the same size each finds in its caches what it touched last time. When the last chunk is done the message is finished for
//! both; a batch is complete when all its messages are.

use std::sync::PoisonError;

use crate::collective::meeting::Wake;
use crate::collective::sync::{AtomicU32, AtomicU64, Mutex, Ordering, announce_or, fence_for_loom};

/// The chunks of one message.
pub(crate) struct Transfer {
    chunks: u32,
    /// Taken from the back in the upper half, from the front in the lower.
    taken: AtomicU64,
    finished: AtomicU32,
}

impl Transfer {
    pub(crate) fn new(chunks: u32) -> Self {
        Self { chunks, taken: AtomicU64::new(0), finished: AtomicU32::new(0) }
    }

    /// Takes a chunk.
    #[inline]
    pub(crate) fn claim(&self, from_the_back: bool) -> Option<u32> {
        let mut now = self.taken.load(Ordering::Acquire);
        loop {
            let (back, front) = ((now >> 32) as u32, now as u32);
            if back + front >= self.chunks {
                return None;
            }
            let step = if from_the_back { 1 << 32 } else { 1 };
            match self.taken.compare_exchange_weak(
                now,
                now + step,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) if from_the_back => return Some(self.chunks - 1 - back),
                Ok(_) => return Some(front),
                Err(other) => now = other,
            }
        }
    }

    /// A claimed chunk is done. True for the last.
    #[inline]
    pub(crate) fn finish(&self) -> bool {
        self.finished.fetch_add(1, Ordering::AcqRel) + 1 == self.chunks
    }

    /// Whether all chunks are taken.
    pub(crate) fn is_taken(&self) -> bool {
        let now = self.taken.load(Ordering::Acquire);
        (now >> 32) as u32 + now as u32 >= self.chunks
    }
}

/// The batch of a rank that is under way, as its messages see it. One serves all batches of the rank in turn: a wake-up that was
/// meant for the last one is only a poll too many for the next.
pub(crate) struct Party<W> {
    /// Messages that are not finished.
    remaining: AtomicU64,
    armed: AtomicU32,
    waker: Mutex<Option<W>>,
}

impl<W: Wake> Default for Party<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Wake> Party<W> {
    pub(crate) fn new() -> Self {
        Self { remaining: AtomicU64::new(0), armed: AtomicU32::new(0), waker: Mutex::new(None) }
    }

    /// A batch of so many messages begins. The one before is complete, and none of the new messages can be seen yet: who
    /// sees one has taken the lock of its inbox after this.
    pub(crate) fn begin(&self, messages: u64) {
        self.armed.store(0, Ordering::Relaxed);
        self.remaining.store(messages, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.remaining.load(Ordering::SeqCst) == 0
    }

    /// A message is finished, or was withdrawn before anybody touched it.
    #[inline]
    pub(crate) fn finish_one(&self) {
        let before = self.remaining.fetch_sub(1, Ordering::SeqCst);
        fence_for_loom();
        if before == 1 {
            self.wake();
        }
    }

    /// Says that its stream is about to sleep. The caller looks again after this.
    pub(crate) fn arm(&self, waker: W) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker);
        announce_or(&self.armed, 1);
    }

    /// Wakes the stream, if it sleeps: something has changed before this call.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.armed.load(Ordering::SeqCst) != 0 {
            let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::{Arc, Notify};
    use loom::thread;

    use super::*;
    use crate::collective::sync::UnsafeCell;

    #[derive(Clone)]
    struct Bell(std::sync::Arc<Notify>);

    impl Wake for Bell {
        fn wake(&self) {
            self.0.notify();
        }
    }

    #[test]
    fn loom_both_sides_copy_and_both_learn_of_the_end() {
        const CHUNKS: u32 = 3;
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(|| {
            let transfer = Arc::new(Transfer::new(CHUNKS));
            let parties = Arc::new([Party::<Bell>::new(), Party::new()]);
            parties.iter().for_each(|party| party.begin(1));
            let data: Arc<Vec<_>> = Arc::new((0..CHUNKS).map(|_| UnsafeCell::new(0)).collect());
            let side = |transfer: Arc<Transfer>,
                        parties: Arc<[Party<Bell>; 2]>,
                        data: Arc<Vec<UnsafeCell<u32>>>,
                        me: usize| {
                while let Some(chunk) = transfer.claim(me == 0) {
                    // SAFETY: claimed by this thread alone, which loom checks.
                    data[chunk as usize].with_mut(|p| unsafe { *p += 1 });
                    if transfer.finish() {
                        parties.iter().for_each(Party::finish_one);
                    }
                }
                let bell = Bell(std::sync::Arc::new(Notify::new()));
                while !parties[me].is_done() {
                    parties[me].arm(bell.clone());
                    if !parties[me].is_done() {
                        bell.0.wait();
                    }
                }
                for cell in data.iter() {
                    // SAFETY: finished: nobody writes any more, which loom checks.
                    assert_eq!(cell.with(|p| unsafe { *p }), 1);
                }
                // The next batch; whoever finished the last one may still be about to ring its bell.
                parties[me].begin(1);
                assert!(!parties[me].is_done());
                parties[me].finish_one();
                assert!(parties[me].is_done());
            };
            let (t, p, d) = (Arc::clone(&transfer), Arc::clone(&parties), Arc::clone(&data));
            let thread = thread::spawn(move || side(t, p, d, 1));
            side(transfer, parties, data, 0);
            thread.join().unwrap();
        });
    }
}
