//! Ring: every rank reads from the one before it, while the next one reads from it.
//!
//! Few links, all of them busy all the time, and p-1 steps where a [mesh](super::mesh) takes one:
//! for large data, and for ranks that are connected in a ring. With more than two ranks each takes
//! two threads, one for either neighbour, and two channels.

use super::{load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder, RemoteBuffer, Thread};

/// AllReduce in 2(p-1) steps: every rank sums up one part, then all parts go round.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        reduce_parts(op, main, shared);
        gather_parts(op, main, shared);
        main.copy(shared, op.output().slice(round));
    }
}

/// ReduceScatter in p-1 steps.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        load_blocks(op, main, &round, shared);
        reduce_parts(op, main, shared);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// AllGather in p-1 steps.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), op.ranks()));
        gather_parts(op, main, shared);
        store_blocks(op, main, shared, &round);
    }
}

/// Scatter in p-1 steps: the blocks that have the longest way go first.
pub fn scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks();
    // The distance of this rank behind the root.
    let distance = (op.rank() + ranks - op.root() % ranks) % ranks;
    for round in op.rounds(op.buffer().len() / ranks as usize) {
        let shared = op.buffer().slice(..ranks as usize * round.len());
        if distance == 0 {
            load_blocks(op, main, &round, shared);
        }
        for k in 0..ranks - 1 {
            let lends = distance <= k && distance + 1 < ranks;
            let visits = distance > 0 && distance <= k + 1;
            // The receiver of the block of step k, among the p-1 blocks that leave the root.
            let goes_to = (op.root() + distance + (ranks - 2 - k)) % ranks;
            let block = shared.part(goes_to, ranks);
            step(op, main, lends, visits, |thread, theirs| thread.read(theirs.at(block), block));
        }
        main.copy(shared.part(op.rank(), ranks), op.output().slice(round));
    }
}

/// Gather in p-1 steps: each rank hands on the blocks that come from behind it.
pub fn gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks();
    // The distance of the root ahead of this rank.
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

/// Broadcast in p-1 steps: all elements go from rank to rank.
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

/// Reduce in p-1 steps: the sum grows from rank to rank, and ends at the root.
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

/// p-1 steps, after which part r of rank r is the sum of the parts r of all.
fn reduce_parts(op: &Recorder<'_>, main: &mut MainThread<'_>, shared: LocalBuffer<'_>) {
    for k in 2..=op.ranks() {
        // The part that the rank before has just summed up.
        let part = shared.part(op.peer(-i64::from(k)), op.ranks());
        step(op, main, true, true, |thread, theirs| thread.read_reduce(theirs.at(part), part));
    }
}

/// p-1 steps, after which all ranks have part r of each rank r.
fn gather_parts(op: &Recorder<'_>, main: &mut MainThread<'_>, shared: LocalBuffer<'_>) {
    for k in 1..op.ranks() {
        let part = shared.part(op.peer(-i64::from(k)), op.ranks());
        step(op, main, true, true, |thread, theirs| thread.read(theirs.at(part), part));
    }
}

/// One step: lends the buffer to the next rank, visits that of the rank before, or both at once.
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
