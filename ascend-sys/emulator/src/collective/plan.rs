//! The division of a large operation into chunks.
//!
//! Every rank has a *run*: a contiguous range of bytes that is cut into chunks. The rank works on
//! its own run first. In an operation on one block (`HcclAllReduce`, `HcclReduce`,
//! `HcclBroadcast`), the run is a part of the block. In `HcclAllGather` and `HcclAllGatherV`, it is
//! the data that the rank gives. In all other operations, it is the data that the rank receives.
//! The run of a rank has the same place in every call, so that a core finds its data of the last
//! call in its caches.
//!
//! All ranks compute the same division, because it depends only on the request, the number of ranks
//! and the tables.

use std::ops::Range;

use super::participants::Participants;
use super::request::{CollectiveRequest, Operation};

/// The largest number of bytes that a chunk reads, or writes if it writes more, over all ranks.
/// This is about 20 microseconds of work even on slow memory. A chunk has at least [`LEAST_BYTES`]
/// in each buffer, so with many ranks it may exceed this number.
const CHUNK_BYTES: usize = 64 * 1024;
/// The smallest size of a chunk in bytes. Claiming a smaller chunk would cost too much compared
/// with the work in it.
const LEAST_BYTES: usize = 4 * 1024;
/// The size of a cache line in bytes. Chunks are cut at cache lines, so that no two threads write
/// to the same line.
const LINE: usize = 64;

/// The division of a large operation into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    runs: Runs,
    /// The bytes of a chunk in each buffer; the last chunk of a run may have fewer.
    bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// The number of chunks of all runs together, which share them in equal parts.
    Shared(u32),
    /// The number of chunks in each run.
    Each(u32),
    /// The tables give the number of bytes of each run.
    Tables,
}

impl Plan {
    pub(crate) fn new(request: &CollectiveRequest, ranks: usize) -> Self {
        use Operation::*;
        // The number of buffers that a chunk reads from, or writes to if that number is larger.
        let buffers = match request.operation {
            AllReduce(_) | Reduce(..) | ReduceScatter(_) | ReduceScatterV(_) => ranks,
            Broadcast(_) | AllGather | AllGatherV => ranks,
            Scatter(_) | AlltoAll | AlltoAllV | AlltoAllVC | Barrier => 1,
        };
        let most = (CHUNK_BYTES / buffers).max(LEAST_BYTES);
        let block = request.bytes();
        let cut = |run: usize| run.clamp(LEAST_BYTES, most).next_multiple_of(LINE);
        // No overflow: the largest count of the largest elements makes 2^27 chunks of the smallest
        // size.
        let chunks = |run: usize, bytes: usize| run.div_ceil(bytes) as u32;
        let (runs, bytes) = match request.operation {
            AllReduce(_) | Reduce(..) | Broadcast(_) | Barrier => {
                let bytes = cut(block.div_ceil(ranks));
                (Runs::Shared(chunks(block, bytes)), bytes)
            }
            AllGather | ReduceScatter(_) | Scatter(_) => {
                let bytes = cut(block);
                (Runs::Each(chunks(block, bytes)), bytes)
            }
            AlltoAll => {
                let bytes = cut(block * ranks);
                (Runs::Each(chunks(block * ranks, bytes)), bytes)
            }
            AllGatherV | ReduceScatterV(_) | AlltoAllV | AlltoAllVC => (Runs::Tables, cut(most)),
        };
        Self { runs, bytes: bytes as u32 }
    }

    /// Returns the number of bytes of a chunk.
    fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the number of chunks in the runs of these ranks.
    #[inline]
    pub(crate) fn chunks(&self, of: Range<usize>, participants: &impl Participants) -> u32 {
        match self.runs {
            Runs::Shared(chunks) => {
                let bound = |rank| part(chunks, rank, participants.ranks());
                bound(of.end) - bound(of.start)
            }
            Runs::Each(chunks) => chunks * of.len() as u32,
            Runs::Tables => of.map(|rank| self.of_table(rank, participants)).sum(),
        }
    }

    /// Returns whether the request alone shows that each rank has at most one chunk of its own.
    #[inline]
    pub(crate) fn has_single_chunks(&self, ranks: usize) -> bool {
        match self.runs {
            Runs::Shared(chunks) => chunks as usize <= ranks,
            Runs::Each(chunks) => chunks <= 1,
            Runs::Tables => false,
        }
    }

    fn of_table(&self, rank: usize, participants: &impl Participants) -> u32 {
        participants.contribution(rank).table.run.div_ceil(self.bytes()) as u32
    }

    /// Finds the chunk with this number among the chunks of the ranks `of`. Returns the rank whose
    /// run contains the chunk, and the byte range of the chunk in that run. For an operation on one
    /// block, the rank is the first of `of`, and the range is a range of that block.
    #[inline]
    pub(crate) fn find(
        &self,
        request: &CollectiveRequest,
        of: Range<usize>,
        mut chunk: u32,
        participants: &impl Participants,
    ) -> (usize, Range<usize>) {
        let bytes = self.bytes();
        let ranks = participants.ranks();
        let (rank, run) = match self.runs {
            Runs::Shared(chunks) => {
                chunk += part(chunks, of.start, ranks);
                (of.start, request.bytes())
            }
            Runs::Each(chunks) => {
                let rank = of.start + (chunk / chunks) as usize;
                chunk %= chunks;
                let all = request.operation == Operation::AlltoAll;
                (rank, request.bytes() * if all { ranks } else { 1 })
            }
            Runs::Tables => {
                let mut rank = of.start;
                while chunk >= self.of_table(rank, participants) && rank + 1 < of.end {
                    chunk -= self.of_table(rank, participants);
                    rank += 1;
                }
                (rank, participants.contribution(rank).table.run)
            }
        };
        let start = (chunk as usize * bytes).min(run);
        (rank, start..(start + bytes).min(run))
    }
}

/// Returns the first chunk of a rank, if all ranks share `chunks` chunks in equal parts.
#[inline]
fn part(chunks: u32, rank: usize, ranks: usize) -> u32 {
    (u64::from(chunks) * rank as u64 / ranks as u64) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::collective::participants::Contribution;
    use crate::collective::table::{BlockTable, Summary};
    use ascend_reduce::{DataType, ReduceOp};

    /// Ranks whose tables give the lengths of their runs.
    struct Ranks(Vec<usize>);

    impl Participants for Ranks {
        fn ranks(&self) -> usize {
            self.0.len()
        }

        fn contribution(&self, rank: usize) -> Contribution {
            let table = Summary { run: self.0[rank], ..Summary::NONE };
            Contribution { send: std::ptr::null(), recv: std::ptr::null_mut(), touched: 0, table }
        }

        fn blocks(&self, _: usize) -> BlockTable<'_> {
            BlockTable { ranks: self.0.len(), words: &[] }
        }
    }

    /// Returns the bytes of the run of each rank; `None` if the runs are parts of one block.
    fn runs(request: &CollectiveRequest, ranks: &Ranks) -> Option<Vec<usize>> {
        use Operation::*;
        match request.operation {
            AllReduce(_) | Reduce(..) | Broadcast(_) | Barrier => None,
            AllGather | ReduceScatter(_) | Scatter(_) => Some(vec![request.bytes(); ranks.ranks()]),
            AlltoAll => Some(vec![request.bytes() * ranks.ranks(); ranks.ranks()]),
            AllGatherV | ReduceScatterV(_) | AlltoAllV | AlltoAllVC => Some(ranks.0.clone()),
        }
    }

    #[test]
    fn chunks_cover_every_byte_of_every_run_once() {
        use Operation::*;
        let sum = ReduceOp::Sum;
        let operations = [
            AllReduce(sum),
            Reduce(sum, 0),
            Broadcast(0),
            AllGather,
            ReduceScatter(sum),
            Scatter(0),
            AlltoAll,
            AllGatherV,
            ReduceScatterV(sum),
            AlltoAllV,
            AlltoAllVC,
        ];
        // Miri takes a thousand times as long, so it gets a few ranks and one size of each kind.
        let (few, many): (&[usize], &[usize]) = (&[1, 3], &[1, 2, 3, 8, 33, 500]);
        let types: &[_] = &[DataType::Int8, DataType::Fp32, DataType::Int128];
        let one = &types[1..2];
        let (small, all): (&[u64], &[u64]) = (&[63, 65_537], &[1, 63, 4096, 65_537, 300_003]);
        for operation in operations {
            for &p in if cfg!(miri) { few } else { many } {
                for &count in if cfg!(miri) { small } else { all } {
                    for &dtype in if cfg!(miri) { one } else { types } {
                        let request = CollectiveRequest { operation, dtype, count };
                        let own = |rank| rank % 3 * count as usize * dtype.size();
                        let ranks = Ranks((0..p).map(own).collect());
                        let plan = Plan::new(&request, p);
                        assert!(plan.bytes().is_multiple_of(LINE.max(dtype.size())));
                        // With homes of one rank, and of several.
                        for several in [1, 4] {
                            let homes = (0..p).step_by(several).map(|r| r..(r + several).min(p));
                            let mut next = vec![0; p];
                            for of in homes {
                                for chunk in 0..plan.chunks(of.clone(), &ranks) {
                                    let (rank, part) =
                                        plan.find(&request, of.clone(), chunk, &ranks);
                                    let shared = runs(&request, &ranks).is_none();
                                    let next = &mut next[if shared { 0 } else { rank }];
                                    assert!(shared || of.contains(&rank));
                                    assert_eq!(part.start, *next, "{request}, {p} ranks");
                                    assert!(part.len() <= CHUNK_BYTES && !part.is_empty());
                                    *next = part.end;
                                }
                            }
                            match runs(&request, &ranks) {
                                Some(runs) => assert_eq!(next, runs, "{request}, {p} ranks"),
                                None => assert_eq!(next[0], request.bytes()),
                            }
                        }
                    }
                }
            }
        }
    }
}
