//! How the work of a large operation is shared out: chunks with a home, taken by compare-and-swap.
//!
//! The chunks of an operation are numbered; every home owns an equal run of them, the same in every call, so that a core
//! finds in its caches what it touched last time. Who has finished its own takes others'. Each word carries the number of the operation it
//! speaks of, so nothing needs resetting between operations.
//!
//! [`Job::start`] and [`Job::close`] decide by one compare-and-swap whether an operation runs: after a close no chunk of it can be
//! claimed any more, and once it runs it cannot be closed. This is what lets a rank give up without anybody
//! touching its memory afterwards.

use std::ops::Range;

use super::sync::{AtomicU64, Ordering, fence_for_loom};

/// No more homes than this, however many ranks: everyone who waits reads all of them.
const MOST_HOMES: usize = 32;

/// The chunk words of one communicator.
pub(crate) struct Job {
    /// The operation decided last, and how: `number << 1 | closed`.
    phase: AtomicU64,
    homes: Box<[Home]>,
}

/// Two words: the low half of the operation number above, a count of chunks below.
///
/// Half a number is enough: while anybody works on operation n, none can begin n + 1.
#[repr(align(128))]
struct Home {
    claimed: AtomicU64,
    finished: AtomicU64,
}

/// How an operation was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Chunks are being worked on; it runs to its end.
    Running,
    /// A rank has given up before it began; nobody touches anything.
    Closed,
}

impl Job {
    pub(crate) fn new(ranks: usize) -> Self {
        let home = |_| Home { claimed: AtomicU64::new(0), finished: AtomicU64::new(0) };
        Self {
            phase: AtomicU64::new(0),
            homes: (0..ranks.clamp(1, MOST_HOMES)).map(home).collect(),
        }
    }

    fn decide(&self, number: u64, closed: bool) -> Phase {
        let mut now = self.phase.load(Ordering::Acquire);
        while now >> 1 < number {
            let next = number << 1 | u64::from(closed);
            match self.phase.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => now = next,
                Err(other) => now = other,
            }
        }
        if now & 1 == 0 { Phase::Running } else { Phase::Closed }
    }

    /// All ranks are there: the operation runs, unless it was closed.
    #[inline]
    pub(crate) fn start(&self, number: u64) -> Phase {
        self.decide(number, false)
    }

    /// A rank wants to give up: the operation is closed, unless it runs.
    #[cold]
    pub(crate) fn close(&self, number: u64) -> Phase {
        self.decide(number, true)
    }

    fn of_home(&self, home: usize, chunks: u32) -> Range<u32> {
        let homes = self.homes.len() as u64;
        let bound = |h: u64| (u64::from(chunks) * h / homes) as u32;
        bound(home as u64)..bound(home as u64 + 1)
    }

    /// Takes a chunk of a running operation of `chunks` chunks, those of the rank's home first. The caller works on it and
    /// then calls [`Job::finish`] with what this returns.
    #[inline]
    pub(crate) fn claim(&self, number: u64, rank: usize, chunks: u32) -> Option<Chunk> {
        let homes = self.homes.len();
        let first = rank % homes;
        for home in (first..homes).chain(0..first) {
            let range = self.of_home(home, chunks);
            let taken = count_up(&self.homes[home].claimed, number, range.len() as u32);
            if let Some(taken) = taken {
                return Some(Chunk { home, index: range.start + taken });
            }
        }
        None
    }

    /// The chunk is done and its memory no longer touched. Returns whether it was the last of all.
    #[inline]
    pub(crate) fn finish(&self, number: u64, chunk: Chunk, chunks: u32) -> bool {
        let share = self.of_home(chunk.home, chunks).len() as u32;
        let before = count_up(&self.homes[chunk.home].finished, number, share);
        fence_for_loom();
        before.is_some_and(|before| before + 1 == share) && self.complete(number, chunks)
    }

    /// Whether all chunks are done.
    #[inline]
    pub(crate) fn complete(&self, number: u64, chunks: u32) -> bool {
        self.homes.iter().enumerate().all(|(home, words)| {
            let share = self.of_home(home, chunks).len() as u32;
            share == 0 || words.finished.load(Ordering::SeqCst) == tagged(number, share)
        })
    }
}

/// A piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    home: usize,
    /// From 0, in the order of the data.
    pub(crate) index: u32,
}

#[inline]
fn tagged(number: u64, count: u32) -> u64 {
    number << 32 | u64::from(count)
}

/// Adds one to a tagged count, which starts at zero with every operation, unless it has reached `limit`. Returns the count before.
#[inline]
fn count_up(word: &AtomicU64, number: u64, limit: u32) -> Option<u32> {
    let mut now = word.load(Ordering::Acquire);
    loop {
        let count = if now >> 32 == number & 0xffff_ffff { now as u32 } else { 0 };
        if count >= limit {
            return None;
        }
        let next = tagged(number, count + 1);
        match word.compare_exchange_weak(now, next, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => return Some(count),
            Err(other) => now = other,
        }
    }
}
