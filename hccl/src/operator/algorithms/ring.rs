//! Ring: every rank reads from the previous rank, while the next rank reads from this rank.
//!
//! A ring uses few links and keeps all of them busy. For p ranks it takes p-1 steps where a
//! [mesh](super::mesh) takes one. Use it for large data, and for ranks that are connected in a
//! ring. With more than two ranks, each rank uses two channels, one for each neighbour. In a step
//! in which it exchanges with both neighbours, it also uses a thread for each of them.

use super::{load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder, RemoteBuffer, Thread};

/// Records an AllReduce in 2(p-1) steps: every rank sums up one part, and then all parts move
/// around the ring.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        reduce_parts(op, main, shared);
        gather_parts(op, main, shared);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a ReduceScatter in p-1 steps.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        load_blocks(op, main, &round, shared);
        reduce_parts(op, main, shared);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// Records an AllGather in p-1 steps.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), op.ranks()));
        gather_parts(op, main, shared);
        store_blocks(op, main, shared, &round);
    }
}

/// Records a Scatter in p-1 steps. The root first sends the blocks for the ranks that are farthest
/// away.
pub fn scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks();
    // The number of places from the root forward to this rank in the ring.
    let distance = (op.rank() + ranks - op.root() % ranks) % ranks;
    for round in op.rounds(op.buffer().len() / ranks as usize) {
        let shared = op.buffer().slice(..ranks as usize * round.len());
        if distance == 0 {
            load_blocks(op, main, &round, shared);
        }
        for k in 0..ranks - 1 {
            let lends = distance <= k && distance + 1 < ranks;
            let visits = distance > 0 && distance <= k + 1;
            // The rank that finally gets the block that this rank reads in step k.
            let goes_to = (op.root() + distance + (ranks - 2 - k)) % ranks;
            let block = shared.part(goes_to, ranks);
            step(op, main, lends, visits, |thread, theirs| thread.read(theirs.at(block), block));
        }
        main.copy(shared.part(op.rank(), ranks), op.output().slice(round));
    }
}

/// Records a Gather in p-1 steps: each rank passes on the blocks that it reads from the previous
/// rank.
pub fn gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks();
    // The number of places from this rank forward to the root in the ring.
    let distance = (op.root() % ranks + ranks - op.rank()) % ranks;
    for round in op.rounds(op.buffer().len() / ranks as usize) {
        let shared = op.buffer().slice(..ranks as usize * round.len());
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), ranks));
        for k in 1..ranks {
            let lends = distance > 0 && distance + k <= ranks;
            let visits = distance + k < ranks;
            let block = shared.part(op.peer(-i64::from(k)), ranks);
            step(op, main, lends, visits, |thread, theirs| thread.read(theirs.at(block), block));
        }
        if distance == 0 {
            store_blocks(op, main, shared, &round);
        }
    }
}

/// Records a Broadcast in p-1 steps: all elements move from rank to rank.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        if op.rank() == op.root() {
            main.copy(op.input().slice(round.clone()), shared);
        } else {
            step(op, main, false, true, |main, theirs| main.read(theirs.at(shared), shared));
        }
        if op.peer(1) != op.root() {
            step(op, main, true, false, |_, _| {});
        }
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a Reduce in p-1 steps: each rank adds its elements to the sum of the previous rank, and
/// the root is the last rank.
pub fn reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        if op.peer(-1) != op.root() {
            let sum = |main: &Thread<'_>, theirs: RemoteBuffer<'_>| {
                main.read_reduce(theirs.at(shared), shared);
            };
            step(op, main, false, true, sum);
        }
        if op.rank() == op.root() {
            main.copy(shared, op.output().slice(round));
        } else {
            step(op, main, true, false, |_, _| {});
        }
    }
}

/// Records p-1 steps after which part r of rank r is the sum of part r of all ranks.
fn reduce_parts(op: &Recorder<'_>, main: &mut MainThread<'_>, shared: LocalBuffer<'_>) {
    for k in 2..=op.ranks() {
        // The part to which the previous rank has just added its elements.
        let part = shared.part(op.peer(-i64::from(k)), op.ranks());
        step(op, main, true, true, |thread, theirs| thread.read_reduce(theirs.at(part), part));
    }
}

/// Records p-1 steps after which all ranks have part r of each rank r.
fn gather_parts(op: &Recorder<'_>, main: &mut MainThread<'_>, shared: LocalBuffer<'_>) {
    for k in 1..op.ranks() {
        let part = shared.part(op.peer(-i64::from(k)), op.ranks());
        step(op, main, true, true, |thread, theirs| thread.read(theirs.at(part), part));
    }
}

/// Records one step: lends the buffer to the next rank, visits the buffer of the previous rank, or
/// does both at once.
fn step(
    op: &Recorder<'_>,
    main: &mut MainThread<'_>,
    lends: bool,
    visits: bool,
    body: impl FnOnce(&Thread<'_>, RemoteBuffer<'_>),
) {
    let (next, before) = (op.channel(op.peer(1)), op.channel(op.peer(-1)));
    let (to, from) = (lends.then_some(next), visits.then_some(before));
    if op.ranks() == 2 || !(lends && visits) {
        return main.exchange(to, from, |theirs| body(main, theirs));
    }
    main.fork(2, |threads| {
        let [left, right] = threads.array();
        right.lend(next);
        left.visit(before, |theirs| body(&left, theirs));
    });
}
