//! The algorithms of the field, each written with the public items of this crate: to use, to
//! compare one's own with, and to copy as a start.
//!
//! An algorithm is a module, a collective a function in it, which [`Operator`](super::Operator)
//! takes:
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
//! | | steps, of p ranks | collectives |
//! | --- | --- | --- |
//! | [`mesh`] | 1 or 2 | all: everybody talks to everybody at once |
//! | [`star`] | 1 | those with a root, which talks to everybody at once |
//! | [`ring`] | p-1 or twice as many | all but all-to-all |
//! | [`halving_doubling`] | log2 p or twice as many | all-reduce, reduce-scatter, all-gather, reduce, broadcast |
//! | [`nhr`], [`nb`] | log2 p or twice as many | all-reduce, reduce-scatter, all-gather, broadcast, scatter |
//! | [`pairwise`] | p-1 | all-to-all |
//! | [`pipeline`] | the number of servers, or twice as many | all-reduce, reduce-scatter, all-gather |
//! | [`hierarchical`] | those within and between groups | all but gather |
//!
//! The algorithms take any number of ranks and of elements, also fewer elements than ranks. Data
//! that is larger than the communication buffer goes through it in
//! [rounds](super::Recorder::rounds). All algorithms read: a rank puts its elements into its
//! communication buffer, and its peers take them from there.
//!
//! The order of floating-point sums depends on nothing but the rank: every run gives the same bits,
//! and an all-reduce the same ones on every rank. All-reduce, all-gather, all-to-all (of blocks of
//! one length), broadcast and reduce also work in place.

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

/// Ranks that do something together, as *members* that count from 0.
struct Team<'o, 'r> {
    op: &'o Recorder<'r>,
    /// The ranks of the members; `None`: all ranks.
    ranks: Option<&'o [u32]>,
    /// The number of this rank among the members.
    member: u32,
}

impl<'o, 'r> Team<'o, 'r> {
    fn all(op: &'o Recorder<'r>) -> Self {
        Team { op, ranks: None, member: op.rank() }
    }

    /// This rank must be among them.
    fn of(op: &'o Recorder<'r>, ranks: &'o [u32]) -> Self {
        let member = ranks.iter().position(|rank| *rank == op.rank());
        Team { op, ranks: Some(ranks), member: member.unwrap_or_default() as u32 }
    }

    fn size(&self) -> u32 {
        self.ranks.map_or(self.op.ranks(), |ranks| ranks.len() as u32)
    }

    /// The member `distance` places behind this one, around the ring.
    fn member(&self, distance: i64) -> u32 {
        (i64::from(self.member) + distance).rem_euclid(self.size().into()) as u32
    }

    /// The number of places of this member before another one, around the ring.
    fn before(&self, other: u32) -> u32 {
        (other % self.size() + self.size() - self.member) % self.size()
    }

    #[track_caller]
    fn channel(&self, distance: i64) -> Channel<'r> {
        let member = self.member(distance);
        self.op.channel(self.ranks.map_or(member, |ranks| ranks[member as usize]))
    }
}

/// 1, 2, 4, and so on, while it is less than the count.
fn doublings(count: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..count.next_power_of_two().ilog2()).map(|exponent| 1 << exponent)
}

/// Copies the block for each rank in a round from the input to that rank's part.
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

/// Copies the part of each rank to the block of the output that comes from that rank in a round.
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

/// The part of a block for a round; the block may end before the round.
fn some<'r>(block: LocalBuffer<'r>, round: &Range<usize>) -> LocalBuffer<'r> {
    block.slice(round.start.min(block.len())..round.end.min(block.len()))
}
