//! The contents that the goal requires in the outputs.

use crate::task::{Goal, Operator, ReduceOp};
use std::ops::Range;

/// The ranks whose inputs give some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Giver {
    One(u32),
    /// All ranks: the bytes are the reduction of their inputs.
    All(ReduceOp),
}

/// The required contents of some bytes of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// The bytes of the output.
    pub(super) range: Range<usize>,
    pub(super) giver: Giver,
    /// The offset at which the bytes begin in the input of the giver.
    pub(super) source: usize,
}

/// Returns the required contents of the output of a rank.
pub(super) fn of_rank(operator: &Operator, rank: u32) -> Vec<Expected> {
    let element = operator.element;
    let bytes =
        |elements: u64| usize::try_from(elements.saturating_mul(element)).unwrap_or(usize::MAX);
    let n = operator.count;
    let mut all = Vec::new();
    let mut add = |start: u64, elements: u64, giver, source: u64| {
        let range = bytes(start)..bytes(start.saturating_add(elements));
        all.push(Expected { range, giver, source: bytes(source) });
    };
    let part = |rank: u32| n.saturating_mul(rank.into());
    let ranks = operator.ranks.len() as u32;
    match &operator.goal {
        Goal::AllGather => (0..ranks).for_each(|from| add(part(from), n, Giver::One(from), 0)),
        Goal::AllReduce(op) => add(0, n, Giver::All(*op), 0),
        Goal::ReduceScatter(op) => add(0, n, Giver::All(*op), part(rank)),
        Goal::Broadcast { root } => add(0, n, Giver::One(*root), 0),
        Goal::Reduce { op, root } if rank == *root => add(0, n, Giver::All(*op), 0),
        Goal::Scatter { root } => add(0, n, Giver::One(*root), part(rank)),
        Goal::Gather { root } if rank == *root => {
            (0..ranks).for_each(|from| add(part(from), n, Giver::One(from), 0));
        }
        Goal::AllToAll => {
            (0..ranks).for_each(|from| add(part(from), n, Giver::One(from), part(rank)));
        }
        Goal::AllToAllV { counts } => {
            let of = |from: usize, to: u32| {
                counts.get(from).and_then(|row| row.get(to as usize)).copied().unwrap_or(0)
            };
            let mut start = 0u64;
            for from in 0..ranks {
                let row = from as usize;
                let before = (0..rank).map(|to| of(row, to)).fold(0, u64::saturating_add);
                add(start, of(row, rank), Giver::One(from), before);
                start = start.saturating_add(of(row, rank));
            }
        }
        Goal::Send { from, to } if rank == *to => add(0, n, Giver::One(*from), 0),
        Goal::Reduce { .. } | Goal::Gather { .. } | Goal::Send { .. } | Goal::Other { .. } => {}
    }
    all
}
