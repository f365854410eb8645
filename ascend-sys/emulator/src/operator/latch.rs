//! One latched bit. A stream sets the bit. Another stream waits for it and clears it.
//!
//! The bit shares one word with the generation of its owner and with the stream that waits for it.
//! So one step is enough for a record to detect that the owner has ended, or to find the waiter
//! that it must wake. No lock is needed.
//!
//! The marks of the owner are in another word. A waiter registers itself, then checks the marks. A
//! marker sets its mark, then checks for waiters. A fence between the two steps on each side
//! ensures that at least one of the two sees the other.
//!
//! Only one stream can be registered as the waiter. If two streams wait, the record wakes the
//! second one, and the housekeeper polls the first one. Two waits for one notify are an error of
//! the program anyway.

use crate::check;
use crate::stream::{STREAMS, Stream};
use ascend_sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::array;
use std::sync::OnceLock;

const SET: u64 = 1;
/// The lowest bit of the slot number of the waiting stream; slot numbers count from 1.
const WAITER: u32 = 1;
const WAITER_BITS: u64 = (1 << 31) - 1;
const GENERATION: u32 = 32;

/// A word with one latched bit: see the [module](self).
pub(crate) struct Latch(AtomicU64);

/// The waiter at the time when the bit was set.
pub(super) enum LatchWaiter {
    Nobody,
    Stream(&'static Stream),
    /// A thread of the host.
    Host,
}

/// The slot number that stands for a waiting thread of the host.
const HOST: u64 = WAITER_BITS;

/// The result of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// The bit was set, and the wait has cleared it.
    Taken,
    /// The bit was not set. The waiter is registered, and is woken when the bit is set.
    Waits,
    /// The owner has ended.
    Stale,
}

fn waiter_of(word: u64) -> u64 {
    word >> WAITER & WAITER_BITS
}

fn stream_of(waiter: u64) -> Option<&'static Stream> {
    STREAMS.at(waiter.checked_sub(1)? as u32)
}

fn is_of(word: u64, generation: u32) -> bool {
    word >> GENERATION == u64::from(generation)
}

impl Latch {
    pub(super) fn new() -> Latch {
        Latch(AtomicU64::new(0))
    }

    /// Resets the latch for an owner of this generation. Returns the stream that waited under the
    /// old owner, if there was one.
    pub(super) fn begin(&self, generation: u32) -> Option<&'static Stream> {
        stream_of(waiter_of(self.0.swap(u64::from(generation) << GENERATION, Ordering::AcqRel)))
    }

    /// Sets the bit. Returns the waiter; `None` if the owner has ended.
    #[inline]
    pub(super) fn set(&self, generation: u32) -> Option<LatchWaiter> {
        self.set_word(generation).map(|waiter| match (waiter, stream_of(waiter)) {
            (HOST, _) => LatchWaiter::Host,
            (_, Some(stream)) => LatchWaiter::Stream(stream),
            (_, None) => LatchWaiter::Nobody,
        })
    }

    #[inline]
    fn set_word(&self, generation: u32) -> Option<u64> {
        let new = u64::from(generation) << GENERATION | SET;
        let step = |word| is_of(word, generation).then_some(new);
        let before = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
        before.ok().map(waiter_of)
    }

    /// Clears the bit if it is set. Otherwise registers the stream as the waiter.
    #[inline]
    pub(super) fn take(&self, generation: u32, stream: &Stream) -> WaitOutcome {
        self.take_as(generation, u64::from(stream.index()) + 1)
    }

    /// Clears the bit if it is set. Otherwise registers a thread of the host as the waiter.
    pub(super) fn take_by_host(&self, generation: u32) -> WaitOutcome {
        self.take_as(generation, HOST)
    }

    #[inline]
    fn take_as(&self, generation: u32, waiter: u64) -> WaitOutcome {
        let bare = u64::from(generation) << GENERATION;
        let waits = bare | waiter << WAITER;
        // A wait that is polled repeatedly only reads the word.
        if self.0.load(Ordering::Acquire) == waits {
            return WaitOutcome::Waits;
        }
        let step = |word| match word {
            word if !is_of(word, generation) => None,
            word if word & SET != 0 => Some(bare),
            _ => Some(waits),
        };
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step) {
            Ok(word) if word & SET != 0 => WaitOutcome::Taken,
            Ok(_) => {
                // Orders the registration before the check of the marks; pairs with the fence in
                // `mark`.
                fence(Ordering::SeqCst);
                WaitOutcome::Waits
            }
            Err(_) => WaitOutcome::Stale,
        }
    }

    /// Returns whether a wait would end now: the bit is set, or the owner has ended.
    pub(super) fn is_due(&self, generation: u32) -> bool {
        let word = self.0.load(Ordering::Acquire);
        word & SET != 0 || !is_of(word, generation)
    }

    /// Returns the waiting stream, if there is one.
    pub(super) fn waiter(&self) -> Option<&'static Stream> {
        stream_of(waiter_of(self.0.load(Ordering::Acquire)))
    }

    /// Returns a number that is different for every latch of the process. Checked mode uses it.
    pub(super) fn number(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }
}

/// Ends all latches of an owner with this generation. Returns the streams that wait for one of
/// them.
pub(super) fn end_all<'a>(
    device: u32,
    latches: impl Iterator<Item = &'a Latch>,
    generation: u32,
) -> Vec<&'static Stream> {
    let end = |latch: &Latch| {
        check::signal_ended(device, latch.number());
        latch.begin(generation.wrapping_add(1))
    };
    latches.filter_map(end).collect()
}

/// Sets a mark of the owner of latches. A task that waits for one of them either sees the mark, or
/// is registered as a waiter when this returns.
pub(super) fn mark(marks: &AtomicU32, mark: u32) {
    marks.fetch_or(mark, Ordering::AcqRel);
    // Orders the mark before the check for waiters; pairs with the fence in `take_as`.
    fence(Ordering::SeqCst);
}

/// A growing list of latches that never move.
pub(super) struct Latches {
    first: [Latch; FIRST],
    /// The further parts. Each has as many latches as all parts before it together.
    more: [OnceLock<Box<[Latch]>>; 12],
}

const FIRST: usize = 16;

impl Latches {
    pub(super) fn new() -> Latches {
        Latches { first: array::from_fn(|_| Latch::new()), more: [const { OnceLock::new() }; 12] }
    }

    /// Returns the latch with this index; `None` if it was never made.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Latch> {
        match self.first.get(index) {
            Some(latch) => Some(latch),
            None => {
                let (part, at) = place(index);
                self.more.get(part)?.get()?.get(at)
            }
        }
    }

    /// Makes the latches with indices in `from..to`, and resets them for an owner of this
    /// generation.
    pub(super) fn grow(&self, from: usize, to: usize, generation: u32) {
        for index in from..to {
            if let Some(part) = index.checked_sub(FIRST).map(|_| place(index).0)
                && let Some(place) = self.more.get(part)
            {
                place.get_or_init(|| (0..FIRST << part).map(|_| Latch::new()).collect());
            }
            if let Some(latch) = self.get(index) {
                latch.begin(generation);
            }
        }
    }
}

/// Returns the part in `more` of a latch with this index, and its index in that part. `index` is at
/// least `FIRST`.
fn place(index: usize) -> (usize, usize) {
    let part = (index / FIRST).ilog2() as usize;
    (part, index - (FIRST << part))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_latch_keeps_one_bit_and_knows_its_owner() {
        let latch = Latch::new();
        latch.begin(7);
        assert!(latch.set(8).is_none() && !latch.is_due(7));
        assert!(matches!(latch.set(7), Some(LatchWaiter::Nobody)) && latch.is_due(7));
        // The second of two records is lost.
        assert!(latch.set(7).is_some());
        assert_eq!(latch.take_by_host(7), WaitOutcome::Taken);
        assert_eq!(latch.take_by_host(7), WaitOutcome::Waits);
        assert!(matches!(latch.set(7), Some(LatchWaiter::Host)));
        latch.begin(9);
        assert!(latch.set(7).is_none());
        assert!(latch.is_due(7), "who waits for an owner that has ended is to look");
    }

    #[test]
    fn latches_keep_their_places_when_they_become_more() {
        // Miri is slow, because it checks every access.
        let most: usize = if cfg!(miri) { 600 } else { 65_535 };
        let latches = Latches::new();
        latches.grow(0, 3, 1);
        let second = std::ptr::from_ref(latches.get(1).unwrap());
        assert!(latches.get(16).is_none());
        latches.grow(3, most, 1);
        assert!(std::ptr::eq(second, latches.get(1).unwrap()));
        let mut numbers: Vec<u64> =
            (0..most).map(|index| latches.get(index).unwrap().number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), most);
        assert!(latches.get(most - 1).unwrap().set(1).is_some());
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::watchers::Watchers;
    use loom::sync::Arc;
    use loom::thread;

    const OWNER: u32 = 7;
    /// The slot number of an arbitrary stream.
    const WAITER: u64 = 3;

    fn latch() -> Latch {
        let latch = Latch::new();
        latch.0.store(u64::from(OWNER) << GENERATION, Ordering::Release);
        latch
    }

    /// A thread polls a stream and then stops polling it. Meanwhile, another thread records the
    /// notify that the stream waits for. Either the wait ends, or the stream is woken.
    #[test]
    fn loom_a_record_reaches_a_stream_whose_watcher_leaves() {
        loom::model(|| {
            let all = Arc::new((latch(), Watchers::new()));
            let watcher = {
                let all = Arc::clone(&all);
                thread::spawn(move || {
                    let (latch, watchers) = &*all;
                    let mut found = WaitOutcome::Waits;
                    watchers.watch(|| found = latch.take_as(OWNER, WAITER));
                    if found == WaitOutcome::Waits {
                        found = latch.take_as(OWNER, WAITER);
                    }
                    found
                })
            };
            let (latch, watchers) = &*all;
            let waiter = latch.set_word(OWNER);
            let woken = waiter == Some(WAITER) && !watchers.will_see();
            let found = watcher.join().unwrap();
            assert!(found == WaitOutcome::Taken || woken, "nobody takes the bit");
        });
    }

    /// An owner is marked while a wait begins. The waiter sees the mark, or the marker sees the
    /// waiter.
    #[test]
    fn loom_a_mark_reaches_who_begins_to_wait() {
        loom::model(|| {
            let all = Arc::new((latch(), AtomicU32::new(0)));
            let marker = {
                let all = Arc::clone(&all);
                thread::spawn(move || {
                    mark(&all.1, 1);
                    waiter_of(all.0.0.load(Ordering::Acquire)) == WAITER
                })
            };
            let (latch, marks) = &*all;
            assert_eq!(latch.take_as(OWNER, WAITER), WaitOutcome::Waits);
            let seen = marks.load(Ordering::Acquire) != 0;
            assert!(marker.join().unwrap() || seen, "nobody tells who waits");
        });
    }

    /// Two streams wait for one notify, which is recorded once. The record ends at most one of the
    /// waits, and the bit stays set if it ended none.
    #[test]
    fn loom_a_bit_is_taken_once() {
        loom::model(|| {
            let latch = Arc::new(latch());
            let takers = [1, 2].map(|stream| {
                let latch = Arc::clone(&latch);
                thread::spawn(move || latch.take_as(OWNER, stream) == WaitOutcome::Taken)
            });
            latch.set_word(OWNER);
            let taken = takers.map(|taker| taker.join().unwrap());
            assert!(taken != [true, true], "one record ended two waits");
            let left = latch.is_due(OWNER);
            assert!(left != (taken[0] || taken[1]), "the bit is lost, or there twice");
        });
    }
}
