//! Manages the addresses of device memory and the ids of devices that belong to no block.
//!
//! The ranges of a block *rest* when the block is gone. So the use of an old pointer or id stays an
//! error as long as possible, because another block does not get it. Resting ranges are used again,
//! the oldest first, in three cases. There are no other ranges, the process already has many shares
//! of the addresses, or more than [`MOST_RESTING`] blocks rest.

use super::shares::Shares;
use crate::memory::pool::MemoryPool;
use std::collections::VecDeque;
use std::ops::Range;

/// The largest number of blocks that rest. Without it, a process could use up all of its addresses.
const MOST_RESTING: usize = 64;
/// The unit in which ids are taken, which is the alignment of the pool. So no two blocks share a
/// unit.
const UNIT: u32 = 64;

pub(super) struct BlockRanges {
    /// The addresses of the shares that the process has.
    addresses: MemoryPool,
    shares: Shares,
    ids: MemoryPool,
    /// The first address and the first id of each block that is gone, the oldest block first.
    resting: VecDeque<(usize, u32)>,
}

impl BlockRanges {
    pub(super) fn new(shares: Shares, ids: Range<u32>) -> BlockRanges {
        let pool = |name: &str, start, length| {
            let pool = MemoryPool::new();
            pool.open(name.into(), start, length, u64::MAX);
            pool
        };
        BlockRanges {
            addresses: pool("the address range", 0, 0),
            shares,
            ids: pool("the device ids", ids.start as usize, ids.len()),
            resting: VecDeque::new(),
        }
    }

    /// Takes addresses for `bytes` bytes. Uses resting addresses only if there are no others, or if
    /// the process already has many shares. Returns `None` if there are not enough addresses.
    pub(super) fn take_addresses(&mut self, bytes: usize, by: &'static str) -> Option<usize> {
        loop {
            if let Ok(start) = self.addresses.allocate(bytes, 0, by) {
                return Some(start);
            }
            if bytes > self.shares.total() {
                return None;
            }
            if self.shares.are_many() && self.reuse_oldest().is_some() {
                continue;
            }
            match self.shares.claim(bytes) {
                Some(more) => self.addresses.extend(more),
                None if self.reuse_oldest().is_some() => {}
                // A single share may follow another one that is partly free, and suffice together
                // with it.
                None => {
                    let more = self.shares.borrow(bytes).or_else(|| self.shares.borrow(1));
                    self.addresses.extend(more?);
                }
            }
        }
    }

    pub(super) fn free_addresses(&self, start: usize, by: &'static str) {
        let _ = self.addresses.free(start, by, Vec::new);
    }

    /// Takes `count` consecutive ids and returns the first. Uses resting ids only if there are no
    /// others. Returns `None` if there are not enough ids.
    pub(super) fn take_ids(&mut self, count: u32, by: &'static str) -> Option<u32> {
        let count = count.next_multiple_of(UNIT) as usize;
        loop {
            match self.ids.allocate(count, 0, by) {
                Ok(first) => return Some(first as u32),
                Err(_) => self.reuse_oldest()?,
            }
        }
    }

    pub(super) fn free_ids(&self, first: u32, by: &'static str) {
        let _ = self.ids.free(first as usize, by, Vec::new);
    }

    /// Makes the addresses and the ids of a block rest, because the block is gone.
    pub(super) fn rest(&mut self, address: usize, first: u32) {
        self.resting.push_back((address, first));
        if self.resting.len() > MOST_RESTING {
            self.reuse_oldest();
        }
    }

    /// Makes the ranges that have rested longest available again. Returns `None` if no ranges rest.
    fn reuse_oldest(&mut self) -> Option<()> {
        let (address, first) = self.resting.pop_front()?;
        self.free_addresses(address, "ascendExtBlockDestroy");
        self.free_ids(first, "ascendExtBlockDestroy");
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4096;

    /// Makes addresses and ids for `blocks` blocks.
    fn ranges(blocks: usize) -> BlockRanges {
        let shares = Shares::new(BYTES..BYTES * (blocks + 1), BYTES, None);
        BlockRanges::new(shares, UNIT..UNIT * (blocks as u32 + 1))
    }

    fn take(ranges: &mut BlockRanges) -> Option<(usize, u32)> {
        let address = ranges.take_addresses(BYTES, "the test")?;
        Some((address, ranges.take_ids(1, "the test")?))
    }

    #[test]
    fn what_a_block_had_is_used_again_when_there_is_no_other_the_oldest_first() {
        let mut ranges = ranges(3);
        let mut had = Vec::new();
        for _ in 0..3 {
            let (address, first) = take(&mut ranges).unwrap();
            assert!(had.iter().all(|(other, ids)| *other != address && *ids != first));
            ranges.rest(address, first);
            had.push((address, first));
        }
        for oldest in had {
            assert_eq!(take(&mut ranges), Some(oldest));
        }
        assert_eq!(take(&mut ranges), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it binds sockets")]
    fn a_process_with_many_shares_uses_what_rests_before_it_claims_more() {
        let name = format!("ascend-emulator-test-{}-ranges", std::process::id());
        let shares = Shares::new(BYTES..9 * BYTES, BYTES, Some(name));
        let mut ranges = BlockRanges::new(shares, UNIT..UNIT * 9);
        let [one, two] = [take(&mut ranges).unwrap(), take(&mut ranges).unwrap()];
        ranges.rest(one.0, one.1);
        ranges.rest(two.0, two.1);
        assert_eq!(take(&mut ranges).map(|taken| taken.0), Some(one.0));
        assert_eq!(ranges.take_addresses(9 * BYTES, "the test"), None);
    }

    #[test]
    fn only_so_many_blocks_rest() {
        let mut ranges = ranges(4 * MOST_RESTING);
        for _ in 0..2 * MOST_RESTING {
            let (address, first) = take(&mut ranges).unwrap();
            ranges.rest(address, first);
        }
        assert_eq!(ranges.resting.len(), MOST_RESTING);
    }
}
