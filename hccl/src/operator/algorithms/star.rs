//! Star: the root exchanges with all other ranks at once, and the other ranks exchange only with
//! the root.
//!
//! A collective that has a root takes one step. All data passes through the links of the root. Use
//! a star for small data, and for ranks that are connected only with the root.

use super::load_blocks;
use crate::operator::{MainThread, Recorder, RemoteBuffer, Thread};

/// Records a Broadcast in one step.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let (shared, output) = (op.buffer().slice(..round.len()), op.output().slice(round.clone()));
        if op.rank() == op.root() {
            main.copy(op.input().slice(round), shared);
            main.copy(shared, output);
        }
        from_the_root(op, main, |main, theirs| main.read(theirs.at(shared), output));
    }
}

/// Records a Scatter in one step.
pub fn scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let (shared, output) = (op.buffer().slice(..ranks * round.len()), op.output());
        let (block, output) = (shared.part(op.rank(), op.ranks()), output.slice(round.clone()));
        if op.rank() == op.root() {
            load_blocks(op, main, &round, shared);
            main.copy(block, output);
        }
        from_the_root(op, main, |main, theirs| main.read(theirs.at(block), output));
    }
}

/// Records a Gather in one step.
pub fn gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        to_the_root(op, main, |root, leaf, theirs| {
            root.read(theirs.at(shared), op.output_from(leaf).slice(round.clone()));
        });
        if op.rank() == op.root() {
            main.copy(shared, op.output_from(op.rank()).slice(round));
        }
    }
}

/// Records a Reduce in one step. The root sums up the elements in the order of the ranks.
pub fn reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len() / op.ranks() as usize) {
        let slot = |rank| op.buffer().block(rank, round.len());
        main.copy(op.input().slice(round.clone()), slot(op.rank()));
        to_the_root(op, main, |root, leaf, theirs| {
            root.read(theirs.block(leaf, round.len()), slot(leaf));
        });
        if op.rank() == op.root() {
            let sum = op.output().slice(round.clone());
            main.copy(slot(0), sum);
            (1..op.ranks()).for_each(|rank| main.reduce(slot(rank), sum));
        }
    }
}

/// Calls `body` on every leaf, which is a rank other than the root, with the buffer of the root.
/// The root lends its buffer to each leaf on a separate thread.
fn from_the_root(
    op: &Recorder<'_>,
    main: &mut MainThread<'_>,
    body: impl FnOnce(&Thread<'_>, RemoteBuffer<'_>),
) {
    if op.rank() != op.root() {
        return main.visit(op.channel(op.root()), |theirs| body(main, theirs));
    }
    main.fork(op.ranks() - 1, |threads| {
        for (thread, leaf) in threads.iter().zip(op.others()) {
            thread.lend(op.channel(leaf));
        }
    });
}

/// Calls `body` on the root with the buffer of every leaf, each on a separate thread. The leaves
/// lend their buffers.
fn to_the_root(
    op: &Recorder<'_>,
    main: &mut MainThread<'_>,
    body: impl Fn(&Thread<'_>, u32, RemoteBuffer<'_>),
) {
    if op.rank() != op.root() {
        return main.lend(op.channel(op.root()));
    }
    main.fork(op.ranks() - 1, |threads| {
        for (thread, leaf) in threads.iter().zip(op.others()) {
            thread.visit(op.channel(leaf), |theirs| body(&thread, leaf, theirs));
        }
    });
}
