//! A bit that streams set, clear and wait for.
//!
//! A waiter adds its stream, then sets [`AWAITED`] and reads the bit in one step. The setter sets
//! the bit and reads [`AWAITED`] in one step, then wakes the streams. So at least one of the two
//! sees the other. Setting publishes all that was written before.

use crate::sleeping_streams::SleepingStreams;
use crate::stream::Stream;
use std::sync::atomic::{AtomicU32, Ordering};

/// The bit of the word that is set if the latched bit is set.
const SET: u32 = 1;
/// The bit of the word that is set if streams must be woken when the latched bit is set.
const AWAITED: u32 = 2;

/// A bit that streams set, clear and wait for; see the [module](self).
#[derive(Default)]
pub(crate) struct LatchedBit {
    word: AtomicU32,
    sleepers: SleepingStreams,
}

impl LatchedBit {
    /// Resets the word, for a new object in the same place.
    pub(crate) fn renew(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set(&self) {
        if self.word.swap(SET, Ordering::AcqRel) & AWAITED != 0 {
            self.sleepers.wake();
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.word.load(Ordering::Acquire) & SET != 0
    }

    /// Clears the bit. Returns whether it was set.
    pub(crate) fn clear(&self) -> bool {
        self.word.fetch_and(!SET, Ordering::AcqRel) & SET != 0
    }

    /// Registers a stream that is woken when the bit is set. Returns true if the bit is already
    /// set.
    pub(crate) fn arm(&self, stream: &'static Stream) -> bool {
        self.sleepers.add(stream);
        self.word.fetch_or(AWAITED, Ordering::AcqRel) & SET != 0
    }

    /// Wakes the streams without setting the bit. Streams that still wait arm it again.
    pub(crate) fn wake(&self) {
        self.sleepers.wake();
    }

    #[cfg(all(test, not(loom), not(miri)))]
    pub(crate) fn is_awaited(&self) -> bool {
        !self.sleepers.is_empty()
    }
}
