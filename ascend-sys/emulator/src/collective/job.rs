//! The division of the work of a large operation among threads: chunks that belong to homes and are
//! claimed by compare-and-swap.
//!
//! Every home owns the runs of some ranks (see `plan`). A home has the same runs in every call, so
//! that a core finds its data of the last call in its caches. A rank that has finished its own
//! chunks claims chunks of other homes. The caller computes the number of chunks in the runs of
//! given ranks; all ranks must get the same numbers. Each word carries the number of its operation,
//! so nothing needs resetting between operations.
//!
//! [`CollectiveJob::start`] and [`CollectiveJob::close`] decide whether an operation runs. After a
//! close, no thread works on the chunks of the operation. Once the operation runs, it cannot be
//! closed. So a rank can give up, and no thread touches its memory afterwards. A rank that starts
//! claims a chunk, then checks whether any rank is closing. A rank that closes announces this, then
//! checks whether any chunk is claimed. So at least one of the two sees the other. That rank uses
//! the decision word, in which one compare-and-swap decides. As long as no rank gives up, only a
//! rank that finds no chunk to claim uses that word.

use std::ops::Range;

use super::sync::{AtomicU64, Ordering, announce, fence_for_loom};
use crate::processes::region::{Ground, Placed, SharedWords};

/// The largest number of homes, for any number of ranks. It is small because every waiter reads all
/// homes.
const MOST_HOMES: usize = 32;

/// The chunk words of one communicator.
pub(crate) struct CollectiveJob {
    ranks: usize,
    homes: Placed<ChunkHome>,
    decision: Placed<Decision>,
    /// For each rank, the number of the operation in which the rank may hold a chunk; 0 if there is
    /// none. It is used only if the ranks are in several processes.
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
    /// The latest decided operation and its decision: `number << 1 | closed`.
    phase: PaddedWord,
    rare: RareWords,
}

/// Words that change only when a rank gives up or a process is gone.
#[repr(C, align(128))]
struct RareWords {
    /// Not 0 if a rank has tried to close an operation.
    closing: AtomicU64,
    /// The number of the latest abandoned operation. Its chunks, and those of earlier operations,
    /// are not claimed any more, because a process that may hold a chunk is gone.
    abandoned: AtomicU64,
}

// SAFETY: atomic words: zeros are valid, and they hold no address.
unsafe impl SharedWords for ChunkHome {}
// SAFETY: atomic words: zeros are valid, and they hold no address.
unsafe impl SharedWords for Decision {}

/// The words of a home. In each, the high half is the low half of the operation number, and the low
/// half is a count of chunks.
///
/// Half a number is enough: while any rank works on operation n, no rank can begin operation n + 1.
///
/// All ranks read `finished`. They read `claimed` of another home only when they claim chunks
/// there, so a rank that works on its own chunk finds the word in its cache.
#[repr(C)]
struct ChunkHome {
    claimed: PaddedWord,
    finished: PaddedWord,
}

/// The homes from which a rank claims chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Homes {
    Own,
    All,
}

/// The decision about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Threads work on the chunks of the operation, and it runs to its end.
    Running,
    /// A rank gave up before the operation began. No thread touches any buffer.
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
        // A later operation is decided only after some rank has completed this one. So this one has
        // run, even if a late rank did not see it.
        if now == number << 1 | 1 { Phase::Closed } else { Phase::Running }
    }

    /// Starts an operation at which all ranks have arrived. It runs unless it was closed. Also
    /// claims a chunk for this rank if one is left, like [`CollectiveJob::claim`]. If the operation
    /// was closed, the caller must not work on that chunk.
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

    /// Closes an operation that a rank gives up, unless the operation already runs.
    #[cold]
    pub(crate) fn close(&self, number: u64) -> Phase {
        announce(&self.rare().closing, 1);
        let claimed = |home: &ChunkHome| is_of(home.claimed.0.load(Ordering::SeqCst), number);
        self.decide(number, !self.homes.iter().any(claimed))
    }

    /// Notes that the rank is about to claim a chunk. Returns false if the rank must not claim a
    /// chunk, because the operation was abandoned. A thread that abandons an operation marks it
    /// abandoned, then checks which ranks hold a chunk. This method marks the rank as a holder,
    /// then checks whether the operation is abandoned. So at least one of the two sees the other.
    #[inline]
    pub(crate) fn hold(&self, number: u64, rank: usize) -> bool {
        announce(&self.holding[rank].0, number);
        let goes_on = self.rare().abandoned.load(Ordering::SeqCst) < number;
        if !goes_on {
            self.let_go(rank);
        }
        goes_on
    }

    /// Notes that the rank no longer holds a chunk.
    #[inline]
    pub(crate) fn let_go(&self, rank: usize) {
        self.holding[rank].0.store(0, Ordering::SeqCst);
    }

    /// Forbids all ranks to claim a chunk of an operation. Once no living rank
    /// [holds](Self::is_held_by) a chunk, no thread touches the memory of the operation.
    #[cold]
    pub(crate) fn abandon(&self, number: u64) {
        self.rare().abandoned.fetch_max(number, Ordering::SeqCst);
        fence_for_loom();
    }

    /// Returns whether an operation was abandoned.
    pub(crate) fn is_abandoned(&self, number: u64) -> bool {
        self.rare().abandoned.load(Ordering::SeqCst) >= number
    }

    /// Returns whether a rank may hold a chunk of the operation `number`, which was abandoned.
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

    /// Returns the home that owns the run of a rank.
    #[inline]
    fn home_of(&self, rank: usize) -> usize {
        let homes = self.homes.len();
        if homes == self.ranks { rank } else { ((rank + 1) * homes - 1) / self.ranks }
    }

    /// Claims a chunk of a running operation; chunks of the rank's home come first. `chunks`
    /// returns the number of chunks in the runs of the given ranks. The caller works on the chunk
    /// and then calls [`CollectiveJob::finish`] with it. Returns `None` if no chunk is left in the
    /// homes `from`.
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

    /// Notes that the chunk is done and that the caller no longer touches its memory. Returns
    /// whether this was the last chunk of the operation.
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

    /// Returns whether all chunks are done.
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
    /// The ranks whose runs contain the chunk.
    pub(crate) of: Range<usize>,
    /// The index of the chunk within these runs, from 0.
    pub(crate) index: u32,
}

/// Returns whether a tagged count belongs to an operation.
#[inline]
fn is_of(word: u64, number: u64) -> bool {
    word >> 32 == number & 0xffff_ffff
}

#[inline]
fn tagged(number: u64, count: u32) -> u64 {
    number << 32 | u64::from(count)
}

/// Adds one to a tagged count, unless the count has reached `limit`. The count starts at zero with
/// every operation. Returns the count before the addition, or `None` at the limit.
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
            // Rank 0 does all the work, then gives up the next operation.
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
