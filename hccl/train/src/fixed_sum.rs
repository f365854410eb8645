//! Sums that have the same bits for any number of ranks.
//!
//! The result of a floating-point sum depends on the order of the additions. So a batch is cut into
//! a fixed number of *logical shards*. Each rank computes its shards one by one. The shards are
//! added in one binary tree, which depends only on the number of shards, not on the number of
//! ranks.

use hccl::prelude::*;

use crate::error::{Error, Result, check_length};
use crate::gradient::Gradient;
use crate::parts::Parts;

/// A sum over a fixed number of logical shards.
///
/// It costs more memory and moves more bytes than an all-reduce, because each rank sends the
/// gradients of each of its shards instead of their sum. Let `n` be the number of ranks and `L` the
/// number of shards. An all-reduce moves `2(n-1)/n` times the bytes of the gradients over each
/// link. This sum moves `(L/n + 1)(n-1)/n` times those bytes.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::FixedSum;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let sum = FixedSum::new(4); // the same bits with 1, 2 or 4 ranks
///     let own: Vec<[f32; 2]> = sum.shards_of(&comm)?.map(|shard| [shard as f32, 0.1]).collect();
///     let total = sum.sum(&own, &mut comm, &stream)?;
///     assert_eq!(total[0], 6.0);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FixedSum {
    shards: usize,
}

impl FixedSum {
    /// Makes a sum over `shards` logical shards. `shards` must be a multiple of every number of
    /// ranks that is to give the same bits.
    pub fn new(shards: usize) -> Self {
        Self { shards }
    }

    /// Returns the number of logical shards.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Returns the range of shards that this rank computes. Fails with [`Error::NotDivisible`] if
    /// the number of shards is 0 or not a multiple of the number of ranks.
    pub fn shards_of(&self, comm: &Communicator) -> Result<std::ops::Range<usize>> {
        let (rank, ranks) = (comm.rank() as usize, comm.world_size() as usize);
        if self.shards == 0 || !self.shards.is_multiple_of(ranks) {
            let count = self.shards;
            return Err(Error::NotDivisible { what: "logical shards", count, ranks });
        }
        let each = self.shards / ranks;
        Ok(rank * each..(rank + 1) * each)
    }

    /// Returns the sum over all shards, on every rank. `own` has the gradients of this rank's
    /// shards, in the order of the shards. All gradients must have the same length, on all ranks.
    /// Returns [`Error::Length`] if the lengths on this rank differ, and [`Error::RanksDiffer`] on
    /// every rank if two ranks pass different lengths. Blocks until the result is there.
    pub fn sum<T: Gradient>(
        &self,
        own: &[impl AsRef<[T]>],
        comm: &mut Communicator,
        stream: &Stream,
    ) -> Result<Vec<T>> {
        let each = self.shards_of(comm)?.len();
        check_length(|| "the list of shards".into(), own.len(), each)?;
        let length = own[0].as_ref().len();
        for (at, shard) in own.iter().enumerate() {
            check_length(|| format!("shard {at} of this rank"), shard.as_ref().len(), length)?;
        }
        let ranks = comm.world_size() as usize;
        self.check_lengths(length, comm, stream)?;
        if length == 0 {
            return Ok(Vec::new());
        }
        let parts = Parts::new(length, ranks);
        let share = parts.share;
        // Each rank gets the same range of elements from every shard.
        let mut pieces = vec![T::default(); ranks * each * share];
        for (piece, to) in pieces.chunks_mut(share).enumerate() {
            let (rank, shard) = (piece / each, own[piece % each].as_ref());
            let from = &shard[parts.of(rank)];
            to[..from.len()].copy_from_slice(from);
        }
        let device = stream.device();
        let sent = device.upload(&pieces, stream)?;
        let came = device.alloc(pieces.len())?;
        let (came, _) = comm.all_to_all(&sent, came, stream)?;
        let came = came.to_vec(stream).wait()?;
        let shards: Vec<&[T]> = came.chunks(share).collect();
        let own_sum = tree(&shards);
        let part = device.upload(&own_sum, stream)?;
        let all = device.alloc(share * ranks)?;
        let (all, _) = comm.all_gather(&part, all, stream)?;
        let mut sum = all.to_vec(stream).wait()?;
        sum.truncate(length);
        Ok(sum)
    }

    /// Compares the lengths of all ranks. The collectives would not see a difference that the
    /// padding hides.
    fn check_lengths(&self, own: usize, comm: &mut Communicator, stream: &Stream) -> Result<()> {
        let device = stream.device();
        let sent = device.upload(&[own as u64], stream)?;
        let (all, _) = comm.all_gather(&sent, device.alloc(comm.world_size() as usize)?, stream)?;
        let all = all.to_vec(stream).wait()?;
        match (0..).zip(&all).find(|(_, length)| **length != all[0]) {
            None => Ok(()),
            Some((rank, given)) => Err(Error::RanksDiffer {
                what: "the length of a shard's gradients".into(),
                first: all[0],
                rank,
                given: *given,
            }),
        }
    }
}

/// Adds slices of equal length: the sum of the first half plus the sum of the second half. The
/// number of slices in the first half is the largest power of two that leaves at least one slice
/// for the second half.
fn tree<T: Gradient>(shards: &[&[T]]) -> Vec<T> {
    match shards {
        [] => Vec::new(),
        [one] => one.to_vec(),
        more => {
            let half = more.len().next_power_of_two() / 2;
            let (mut first, second) = (tree(&more[..half]), tree(&more[half..]));
            first.iter_mut().zip(second).for_each(|(a, b)| *a = a.plus(b));
            first
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_the_same_however_many_shards_are_missing_from_a_power_of_two() {
        // These sums depend on the order: a small number is lost when it is added to a large one.
        let shards: Vec<[f32; 1]> = vec![[1e8], [1.0], [-1e8], [1.0], [3.0]];
        let sum = |count: usize| {
            let slices: Vec<&[f32]> = shards[..count].iter().map(|s| s.as_slice()).collect();
            tree(&slices)[0]
        };
        assert_eq!(sum(1), 1e8);
        assert_eq!(sum(2), 1e8 + 1.0);
        assert_eq!(sum(3), (1e8 + 1.0) + -1e8);
        assert_eq!(sum(4), (1e8 + 1.0) + (-1e8 + 1.0));
        assert_eq!(sum(5), ((1e8 + 1.0) + (-1e8 + 1.0)) + 3.0);
    }
}
