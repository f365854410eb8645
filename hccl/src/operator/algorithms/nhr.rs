//! NHR, the nonuniform hierarchical ring. It takes as few steps as [halving and
//! doubling](super::halving_doubling), but works for any number of ranks.
//!
//! In a step of distance d, a rank passes every second part that it handles to a rank d places
//! away. So for p ranks it takes log2 p steps, rounded up, and moves each part as often as a
//! [ring](super::ring) does. A rank exchanges only with the ranks that are 1, 2, 4, ... places
//! away.

use super::{doublings, load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder};

/// Records an AllReduce in 2 log2 p steps.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        reduce_parts(op, main, shared);
        gather_parts(op, main, shared);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a ReduceScatter in log2 p steps.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        load_blocks(op, main, &round, shared);
        reduce_parts(op, main, shared);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// Records an AllGather in log2 p steps.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), op.ranks()));
        gather_parts(op, main, shared);
        store_blocks(op, main, shared, &round);
    }
}

/// Records a Scatter in log2 p steps.
pub fn scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        if op.rank() == op.root() {
            load_blocks(op, main, &round, shared);
        }
        scatter_parts(op, main, shared);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// Records a Broadcast in 2 log2 p steps: the root scatters parts, and all ranks gather them.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        if op.rank() == op.root() {
            main.copy(op.input().slice(round.clone()), shared);
        }
        scatter_parts(op, main, shared);
        gather_parts(op, main, shared);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records steps after which part r of rank r is the sum of part r of all ranks. Half of the data
/// moves in the first step, to the nearest rank.
fn reduce_parts(op: &Recorder<'_>, main: &MainThread<'_>, shared: LocalBuffer<'_>) {
    for distance in doublings(op.ranks()) {
        let (to, from) =
            (op.channel(op.peer(-i64::from(distance))), op.channel(op.peer(distance.into())));
        main.exchange(to, from, |theirs| {
            for behind in (distance..op.ranks()).step_by(2 * distance as usize) {
                let part = shared.part(op.peer(-i64::from(behind - distance)), op.ranks());
                main.read_reduce(theirs.at(part), part);
            }
        });
    }
}

/// Records steps after which all ranks have part r of each rank r. Half of the data moves in the
/// last step, to the nearest rank.
fn gather_parts(op: &Recorder<'_>, main: &MainThread<'_>, shared: LocalBuffer<'_>) {
    for distance in doublings(op.ranks()).rev() {
        let (to, from) =
            (op.channel(op.peer(distance.into())), op.channel(op.peer(-i64::from(distance))));
        main.exchange(to, from, |theirs| {
            for behind in (distance..op.ranks()).step_by(2 * distance as usize) {
                let part = shared.part(op.peer(-i64::from(behind)), op.ranks());
                main.read(theirs.at(part), part);
            }
        });
    }
}

/// Records steps after which rank r has part r of the root's elements. A rank that has the parts of
/// 2d ranks gives half of them to the rank d places further.
fn scatter_parts(op: &Recorder<'_>, main: &MainThread<'_>, shared: LocalBuffer<'_>) {
    let ranks = op.ranks();
    let behind_the_root = (op.rank() + ranks - op.root() % ranks) % ranks;
    for distance in doublings(ranks).rev() {
        if behind_the_root % (2 * distance) == distance {
            let from = op.channel(op.peer(-i64::from(distance)));
            main.visit(from, |theirs| {
                for on in 0..distance.min(ranks - behind_the_root) {
                    let part = shared.part(op.peer(on.into()), ranks);
                    main.read(theirs.at(part), part);
                }
            });
        } else if behind_the_root.is_multiple_of(2 * distance) && behind_the_root + distance < ranks
        {
            main.lend(op.channel(op.peer(distance.into())));
        }
    }
}
