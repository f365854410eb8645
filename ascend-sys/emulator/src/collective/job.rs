//! The division of the work of a large operation: chunks with a home, taken by compare-and-swap.
//!
//! Every home owns the runs of some ranks (see `plan`), the same in every call, so that a core
//! finds its data of the last call in its caches. A rank that has finished its own chunks takes
//! those of others. The caller gives the number of chunks in the runs of ranks: the same on all
//! ranks. Each word carries the number of its operation, so nothing needs resetting between
//! operations.
//!
//! [`CollectiveJob::start`] and [`CollectiveJob::close`] decide whether an operation runs: after a
//! close no chunk of it is worked on any more, and once it runs it cannot be closed. So a rank can
//! give up, and nobody touches its memory afterwards. A rank that starts claims a chunk, then
//! checks whether any rank is closing. A rank that closes announces it, then checks whether any
//! chunk is claimed. So at least one sees the other, and goes to the word in which one
//! compare-and-swap decides. As long as no rank gives up, only a rank that finds no chunk to claim
//! goes to that word.

use std::ops::Range;

use super::sync::{AtomicU64, Ordering, announce, fence_for_loom};
use crate::processes::region::{Ground, Placed, SharedWords};

/// The most homes, however many ranks: every waiter reads all of them.
const MOST_HOMES: usize = 32;

/// The chunk words of one communicator.
pub(crate) struct CollectiveJob {
    ranks: usize,
    homes: Placed<ChunkHome>,
    decision: Placed<Decision>,
    /// The operation in which each rank may hold a chunk, where the ranks are in several processes.
    holding: Placed<PaddedWord>,
}

/// A word with cache lines of its own. A thread that changes the word takes the lines from the
/// threads that read it.
#[repr(C, align(128))]
struct PaddedWord(AtomicU64);

impl PaddedWord {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }
}

// SAFETY: an atomic word: zeros are valid, and it holds no address.
unsafe impl SharedWords for PaddedWord {}

#[repr(C)]
struct Decision {
    /// The newest decided operation, and the decision: `number << 1 | closed`.
    phase: PaddedWord,
    rare: RareWords,
}

/// Words that change only when something is wrong.
#[repr(C, align(128))]
struct RareWords {
    /// Not 0: a rank has tried to close an operation.
    closing: AtomicU64,
    /// No chunk of this operation, or of an earlier one, is taken any more, because a process is
    /// gone that may hold one.
    abandoned: AtomicU64,
}

// SAFETY: atomic words: zeros are valid, and they hold no address.
unsafe impl SharedWords for ChunkHome {}
// SAFETY: atomic words: zeros are valid, and they hold no address.
unsafe impl SharedWords for Decision {}

/// Two words: the low half of the operation number above, a count of chunks below.
///
/// Half a number is enough: while any rank works on operation n, none can begin n + 1.
///
/// All ranks look at `finished`. At `claimed` of another home they look only when they take chunks
/// there, so a rank that does its own chunk finds the word in its cache.
#[repr(C)]
struct ChunkHome {
    claimed: PaddedWord,
    finished: PaddedWord,
}

/// The homes that a rank takes chunks from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Homes {
    Own,
    All,
}

/// How an operation was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Chunks are being worked on; it runs to its end.
    Running,
    /// A rank has given up before it began; nobody touches anything.
    Closed,
}

impl CollectiveJob {
    pub(crate) fn new(ranks: usize, ground: &Ground) -> Self {
        let home = |_| ChunkHome { claimed: PaddedWord::new(), finished: PaddedWord::new() };
        let decision = |_| Decision {
            phase: PaddedWord::new(),
            rare: RareWords { closing: AtomicU64::new(0), abandoned: AtomicU64::new(0) },
        };
        Self {
            ranks,
            homes: ground.place(ranks.clamp(1, MOST_HOMES), home),
            decision: ground.place(1, decision),
            holding: ground.place(ranks, |_| PaddedWord::new()),
        }
    }

    #[inline]
    fn rare(&self) -> &RareWords {
        &self.decision[0].rare
    }

    fn decide(&self, number: u64, closed: bool) -> Phase {
        let phase = &self.decision[0].phase.0;
        let mut now = phase.load(Ordering::Acquire);
        while now >> 1 < number {
            let next = number << 1 | u64::from(closed);
            match phase.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => now = next,
                Err(other) => now = other,
            }
        }
        // A later operation is decided only where some rank has completed this one. So this one has
        // run, even if a late rank did not see it.
        if now == number << 1 | 1 { Phase::Closed } else { Phase::Running }
    }

    /// All ranks are there: the operation runs, unless it was closed. Returns a chunk for this rank
    /// too, if there is one left, as by [`CollectiveJob::claim`]. The chunk of an operation that
    /// was closed must not be worked on.
    #[inline]
    pub(crate) fn start(
        &self,
        number: u64,
        rank: usize,
        from: Homes,
        chunks: impl Fn(Range<usize>) -> u32,
    ) -> (Phase, Option<WorkChunk>) {
        let chunk = self.claim(number, rank, from, chunks);
        fence_for_loom();
        let alone = chunk.is_some() && self.rare().closing.load(Ordering::SeqCst) == 0;
        (if alone { Phase::Running } else { self.decide(number, false) }, chunk)
    }

    /// Closes an operation that a rank gives up, unless it runs.
    #[cold]
    pub(crate) fn close(&self, number: u64) -> Phase {
        announce(&self.rare().closing, 1);
        let claimed = |home: &ChunkHome| is_of(home.claimed.0.load(Ordering::SeqCst), number);
        self.decide(number, !self.homes.iter().any(claimed))
    }

    /// The rank is about to take a chunk. False when it must not: the operation was abandoned. A
    /// thread that abandons an operation says so, then checks which ranks hold a chunk. Here it is
    /// the other way round, so at least one sees the other.
    #[inline]
    pub(crate) fn hold(&self, number: u64, rank: usize) -> bool {
        announce(&self.holding[rank].0, number);
        let goes_on = self.rare().abandoned.load(Ordering::SeqCst) < number;
        if !goes_on {
            self.let_go(rank);
        }
        goes_on
    }

    /// The rank no longer holds a chunk.
    #[inline]
    pub(crate) fn let_go(&self, rank: usize) {
        self.holding[rank].0.store(0, Ordering::SeqCst);
    }

    /// Forbids all ranks to take a chunk of an operation. When no living [holder](Self::is_held_by)
    /// is left, nobody touches its memory.
    #[cold]
    pub(crate) fn abandon(&self, number: u64) {
        self.rare().abandoned.fetch_max(number, Ordering::SeqCst);
        fence_for_loom();
    }

    /// Whether an operation was abandoned.
    pub(crate) fn is_abandoned(&self, number: u64) -> bool {
        self.rare().abandoned.load(Ordering::SeqCst) >= number
    }

    /// Whether a rank may hold a chunk of an operation that was abandoned.
    pub(crate) fn is_held_by(&self, rank: usize, number: u64) -> bool {
        self.holding[rank].0.load(Ordering::SeqCst) == number
    }

    /// Returns the ranks whose runs a home owns.
    #[inline]
    fn of_home(&self, home: usize) -> Range<usize> {
        let homes = self.homes.len();
        if homes == self.ranks {
            return home..home + 1;
        }
        self.ranks * home / homes..self.ranks * (home + 1) / homes
    }

    /// The home that owns the run of a rank.
    #[inline]
    fn home_of(&self, rank: usize) -> usize {
        let homes = self.homes.len();
        if homes == self.ranks { rank } else { ((rank + 1) * homes - 1) / self.ranks }
    }

    /// Takes a chunk of a running operation; chunks of the rank's home come first. `chunks` returns
    /// the number of chunks in the runs of some ranks. The caller works on the chunk and then calls
    /// [`CollectiveJob::finish`] with it.
    #[inline]
    pub(crate) fn claim(
        &self,
        number: u64,
        rank: usize,
        from: Homes,
        chunks: impl Fn(Range<usize>) -> u32,
    ) -> Option<WorkChunk> {
        let first = self.home_of(rank);
        let others = (first + 1..self.homes.len()).chain(0..first);
        let others = others.take(if from == Homes::All { self.homes.len() } else { 0 });
        for home in std::iter::once(first).chain(others) {
            let of = self.of_home(home);
            let taken = count_up(&self.homes[home].claimed.0, number, chunks(of.clone()));
            if let Some(index) = taken {
                return Some(WorkChunk { home, of, index });
            }
        }
        None
    }

    /// Notes that the chunk is done and its memory no longer touched. Returns whether it was the
    /// last of all.
    #[inline]
    pub(crate) fn finish(
        &self,
        number: u64,
        chunk: WorkChunk,
        chunks: impl Fn(Range<usize>) -> u32,
    ) -> bool {
        let share = chunks(chunk.of);
        let before = count_up(&self.homes[chunk.home].finished.0, number, share);
        fence_for_loom();
        before.is_some_and(|before| before + 1 == share) && self.complete(number, chunks)
    }

    /// Whether all chunks are done.
    #[inline]
    pub(crate) fn complete(&self, number: u64, chunks: impl Fn(Range<usize>) -> u32) -> bool {
        self.homes.iter().enumerate().all(|(home, words)| {
            let share = chunks(self.of_home(home));
            share == 0 || words.finished.0.load(Ordering::SeqCst) == tagged(number, share)
        })
    }
}

/// A chunk of a collective that a rank has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkChunk {
    home: usize,
    /// The ranks among whose runs the chunk is counted.
    pub(crate) of: Range<usize>,
    /// The number of the chunk there, from 0.
    pub(crate) index: u32,
}

/// Whether a tagged count belongs to an operation.
#[inline]
fn is_of(word: u64, number: u64) -> bool {
    word >> 32 == number & 0xffff_ffff
}

#[inline]
fn tagged(number: u64, count: u32) -> u64 {
    number << 32 | u64::from(count)
}

/// Adds one to a tagged count, which starts at zero with every operation, unless it has reached
/// `limit`. Returns the count before.
#[inline]
fn count_up(word: &AtomicU64, number: u64, limit: u32) -> Option<u32> {
    let mut now = word.load(Ordering::Acquire);
    loop {
        let count = if is_of(now, number) { now as u32 } else { 0 };
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_has_run_is_not_closed_with_the_next() {
        for share in [0, 1] {
            let job = CollectiveJob::new(2, &Ground::Heap);
            let chunks = |of: Range<usize>| share * of.len() as u32;
            // Rank 0 does all the work, goes on, and gives up.
            let (phase, mut next) = job.start(1, 0, Homes::All, chunks);
            assert_eq!(phase, Phase::Running);
            while let Some(chunk) = next {
                job.finish(1, chunk, chunks);
                next = job.claim(1, 0, Homes::All, chunks);
            }
            assert!(job.complete(1, chunks));
            assert_eq!(job.close(2), Phase::Closed);
            assert_eq!(job.start(1, 1, Homes::All, chunks), (Phase::Running, None));
            assert_eq!(job.close(1), Phase::Running);
            assert!(job.complete(1, chunks));
        }
    }

    #[test]
    fn every_rank_has_one_home_that_owns_its_run() {
        for ranks in [1, 2, 3, 31, 32, 33, 63, 64, 100, 1000] {
            let job = CollectiveJob::new(ranks, &Ground::Heap);
            let mut next = 0;
            for home in 0..job.homes.len() {
                let of = job.of_home(home);
                assert_eq!(of.start, next);
                assert!(of.clone().all(|rank| job.home_of(rank) == home), "{ranks} ranks");
                next = of.end;
            }
            assert_eq!(next, ranks);
        }
    }
}
