//! Sums that have the same bits at any number of ranks.
//!
//! Floating-point addition depends on the order. So a batch is cut into a fixed number of *logical
//! shards*. Each rank computes its shards one by one. They are added in one binary tree, which
//! depends on the number of shards and not on ranks.

use hccl::prelude::*;

use crate::error::{Error, Result, check_length};
use crate::gradient::Gradient;
use crate::parts::Parts;

/// A sum over a fixed number of logical shards.
///
/// It costs memory and bytes: each rank sends the gradients of each of its shards, not their sum.
/// With `n` ranks and `L` shards an all-reduce moves `2(n-1)/n` times the gradients over each link;
/// this moves `(L/n + 1)(n-1)/n` times as many.
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
    /// Makes a sum over `shards` logical shards: a multiple of every number of ranks that is to
    /// give the same bits.
    pub fn new(shards: usize) -> Self {
        Self { shards }
    }

    /// The number of logical shards.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The shards that a rank computes.
    pub fn shards_of(&self, comm: &Communicator) -> Result<std::ops::Range<usize>> {
        let (rank, ranks) = (comm.rank() as usize, comm.world_size() as usize);
        if self.shards == 0 || !self.shards.is_multiple_of(ranks) {
            let count = self.shards;
            return Err(Error::NotDivisible { what: "logical shards", count, ranks });
        }
        let each = self.shards / ranks;
        Ok(rank * each..(rank + 1) * each)
    }

    /// Returns the sum over all shards, on every rank. `own` has the gradient of each shard of this
    /// rank, in their order, all of one length. Waits for the result.
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
        if length == 0 {
            return Ok(Vec::new());
        }
        let ranks = comm.world_size() as usize;
        let parts = Parts::new(length, ranks);
        let share = parts.share;
        // To each rank the same elements of every shard.
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
}

/// Adds slices of one length: the sum of the first half and that of the second. The first half is
/// the largest power of two that leaves something for the second.
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
        // Sums that show their order: a large number swallows a small one.
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
