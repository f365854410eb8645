//! Well-known algorithms, each written with the public items of this crate. Use them, compare other
//! algorithms with them, or copy them as a start.
//!
//! Each algorithm is a module. Each function in the module implements one collective, and is passed
//! to a constructor of [`Operator`](super::Operator):
//!
//! ```
//! use hccl::operator::{Operator, algorithms::*};
//! use hccl::prelude::Sum;
//!
//! let ring = Operator::all_reduce("ring", Sum, ring::all_reduce);
//! let pipeline = Operator::all_gather("pipeline", |op, main| pipeline::all_gather(op, main, 4));
//! # assert!(ring.record::<f32>(5, 17).is_ok() && pipeline.record::<f32>(8, 3).is_ok());
//! ```
//!
//! | | steps for p ranks | collectives |
//! | --- | --- | --- |
//! | [`mesh`] | 1 or 2 | all; every rank exchanges with all others at once |
//! | [`star`] | 1 | those with a root; the root exchanges with all others at once |
//! | [`ring`] | p-1 or twice as many | all but all-to-all |
//! | [`halving_doubling`] | log2 p or twice as many | all-reduce, reduce-scatter, all-gather, reduce, broadcast |
//! | [`nhr`], [`nb`] | log2 p or twice as many | all-reduce, reduce-scatter, all-gather, broadcast, scatter |
//! | [`pairwise`] | p-1 | all-to-all |
//! | [`pipeline`] | the number of servers, or twice as many | all-reduce, reduce-scatter, all-gather |
//! | [`hierarchical`] | the steps within groups and between groups | all but gather |
//!
//! The algorithms take any number of ranks and of elements, even fewer elements than ranks. (A
//! [`pipeline`] needs servers with the same number of ranks.) If the data is larger than the
//! communication buffer, it is moved in [rounds](super::Recorder::rounds). No algorithm writes to a
//! peer: a rank copies its elements into its own communication buffer, and its peers read them from
//! there.
//!
//! The order of floating-point sums depends only on the rank, not on timing. So every run gives the
//! same bits, and an all-reduce gives the same bits on every rank. All-reduce, all-gather,
//! all-to-all (of blocks of one length), broadcast and reduce also work in place.

pub mod halving_doubling;
pub mod hierarchical;
pub mod mesh;
pub mod nb;
pub mod nhr;
pub mod pairwise;
pub mod pipeline;
pub mod ring;
pub mod star;

use std::ops::Range;

use super::{Channel, LocalBuffer, MainThread, Recorder};

/// A group of ranks that work together. Its *members* are numbered from 0.
struct Team<'o, 'r> {
    op: &'o Recorder<'r>,
    /// The ranks of the members. `None` means all ranks.
    ranks: Option<&'o [u32]>,
    /// The number of this rank among the members.
    member: u32,
}

impl<'o, 'r> Team<'o, 'r> {
    /// Returns the team of all ranks.
    fn all(op: &'o Recorder<'r>) -> Self {
        Team { op, ranks: None, member: op.rank() }
    }

    /// Returns the team of these ranks. This rank must be one of them.
    fn of(op: &'o Recorder<'r>, ranks: &'o [u32]) -> Self {
        let member = ranks.iter().position(|rank| *rank == op.rank());
        Team { op, ranks: Some(ranks), member: member.unwrap_or_default() as u32 }
    }

    fn size(&self) -> u32 {
        self.ranks.map_or(self.op.ranks(), |ranks| ranks.len() as u32)
    }

    /// Returns the member that is `distance` places after this member in the ring of members.
    fn member(&self, distance: i64) -> u32 {
        (i64::from(self.member) + distance).rem_euclid(self.size().into()) as u32
    }

    /// Returns the number of places from this member forward to the member `other` in the ring of
    /// members.
    fn before(&self, other: u32) -> u32 {
        (other % self.size() + self.size() - self.member) % self.size()
    }

    #[track_caller]
    fn channel(&self, distance: i64) -> Channel<'r> {
        let member = self.member(distance);
        self.op.channel(self.ranks.map_or(member, |ranks| ranks[member as usize]))
    }
}

/// Returns the powers of two that are less than `count`: 1, 2, 4, and so on.
fn doublings(count: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..count.next_power_of_two().ilog2()).map(|exponent| 1 << exponent)
}

/// Copies the elements of a round from the input to `shared`. Block r of `shared` gets the elements
/// for rank r.
fn load_blocks(
    op: &Recorder<'_>,
    main: &MainThread<'_>,
    round: &Range<usize>,
    shared: LocalBuffer<'_>,
) {
    for rank in 0..op.ranks() {
        let block = some(op.input_for(rank), round);
        main.copy(block, shared.block(rank, round.len()).slice(..block.len()));
    }
}

/// Copies the elements of a round from `shared` to the output. Block r of `shared` has the elements
/// that come from rank r.
fn store_blocks(
    op: &Recorder<'_>,
    main: &MainThread<'_>,
    shared: LocalBuffer<'_>,
    round: &Range<usize>,
) {
    for rank in 0..op.ranks() {
        let block = some(op.output_from(rank), round);
        main.copy(shared.block(rank, round.len()).slice(..block.len()), block);
    }
}

/// Returns the elements of a block that belong to a round. There are fewer, or none, if the block
/// ends before the round does.
fn some<'r>(block: LocalBuffer<'r>, round: &Range<usize>) -> LocalBuffer<'r> {
    block.slice(round.start.min(block.len())..round.end.min(block.len()))
}
