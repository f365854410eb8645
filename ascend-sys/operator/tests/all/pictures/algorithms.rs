//! Algorithms for pictures, one of each kind.

use crate::recorder::{Recorder, buffer, input, of_channel, of_thread, output};
use ascend_operator::{Goal, Operator, ReduceOp};

/// Notifies at both ends of a channel: the data of the other rank is ready, and the other rank has
/// left our buffer.
const READY: u32 = 0;
const LEFT: u32 = 1;

fn recorder(name: &str, goal: Goal, ranks: u32, count: u64, buffer: u64) -> Recorder {
    let mut recorder = Recorder::new(goal, ranks, count, buffer);
    recorder.operator.name = format!("{name} of {ranks}");
    recorder
}

/// Returns a ring all-gather. Each rank reads from its left neighbour the block that the neighbour
/// read in the step before, or the neighbour's own block in the first step. In each step, the main
/// thread exposes the buffer and thread 1 reads.
pub fn ring(ranks: u32, n: u64) -> Operator {
    let mut r = recorder("ring all-gather", Goal::AllGather, ranks, n, n * u64::from(ranks));
    let block = |number: u32| u64::from(number) * n..u64::from(number + 1) * n;
    for me in 0..ranks {
        let right = (me + 1) % ranks;
        if me < right || ranks > 2 {
            r.channel(me, right, 2);
        }
        r.copy(me, 0, input(me, 0..n), buffer(me, block(me)));
        r.copy(me, 0, input(me, 0..n), output(me, block(me)));
    }
    for step in 0..ranks - 1 {
        for me in 0..ranks {
            let (left, right) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
            let taken = (me + ranks - 1 - step) % ranks;
            r.record(me, 0, of_channel(right, me, READY));
            r.start(me, 1);
            r.wait(me, 1, of_channel(me, left, READY));
            r.copy(me, 1, buffer(left, block(taken)), buffer(me, block(taken)));
            r.record(me, 1, of_channel(left, me, LEFT));
            r.copy(me, 1, buffer(me, block(taken)), output(me, block(taken)));
            r.wait(me, 0, of_channel(me, right, LEFT));
            // The next step gives the block that this step has taken.
            r.end(me, 1);
        }
    }
    r.operator
}

/// Returns a mesh all-gather, in which each thread of a rank reads from another peer.
pub fn mesh(ranks: u32, n: u64) -> Operator {
    let mut r = recorder("mesh all-gather", Goal::AllGather, ranks, n, n);
    r.all_channels(2);
    let block = |number: u32| u64::from(number) * n..u64::from(number + 1) * n;
    for me in 0..ranks {
        r.copy(me, 0, input(me, 0..n), buffer(me, 0..n));
        r.copy(me, 0, input(me, 0..n), output(me, block(me)));
        (1..ranks - 1).for_each(|thread| {
            r.record(me, 0, of_thread(me, thread, 0)).wait(me, thread, of_thread(me, thread, 0));
        });
        for thread in 0..ranks - 1 {
            let peer = (me + 1 + thread) % ranks;
            r.record(me, thread, of_channel(peer, me, READY));
            r.wait(me, thread, of_channel(me, peer, READY));
            r.copy(me, thread, buffer(peer, 0..n), output(me, block(peer)));
            r.record(me, thread, of_channel(peer, me, LEFT));
            r.wait(me, thread, of_channel(me, peer, LEFT));
        }
        for thread in 1..ranks - 1 {
            r.end(me, thread);
        }
    }
    r.operator
}

/// Returns an all-to-all on one thread: in step k, a rank reads from the rank k places to its left.
pub fn pairwise(ranks: u32, n: u64) -> Operator {
    let all = n * u64::from(ranks);
    let mut r = recorder("pairwise all-to-all", Goal::AllToAll, ranks, n, all);
    r.all_channels(2);
    let block = |number: u32| u64::from(number) * n..u64::from(number + 1) * n;
    for me in 0..ranks {
        r.copy(me, 0, input(me, 0..all), buffer(me, 0..all));
        r.copy(me, 0, input(me, block(me)), output(me, block(me)));
        for step in 1..ranks {
            let (from, to) = ((me + ranks - step) % ranks, (me + step) % ranks);
            r.record(me, 0, of_channel(to, me, READY));
            r.wait(me, 0, of_channel(me, from, READY));
            r.copy(me, 0, buffer(from, block(me)), output(me, block(from)));
            r.record(me, 0, of_channel(from, me, LEFT));
            r.wait(me, 0, of_channel(me, to, LEFT));
        }
    }
    r.operator
}

/// Returns an all-reduce on servers of two ranks; the number of servers is a power of two. It
/// reduces within each server, then between servers, and then gathers within each server.
pub fn hierarchical(ranks: u32, n: u64) -> Operator {
    let (half, servers) = (n / 2, ranks / 2);
    let rounds = servers.ilog2();
    let size = n + half * u64::from(rounds + 1);
    let mut r = recorder("hierarchical all-reduce", Goal::AllReduce(ReduceOp::Sum), ranks, n, size);
    r.all_channels(2);
    for me in 0..ranks {
        let mine = u64::from(me % 2) * half..u64::from(me % 2 + 1) * half;
        let other = u64::from(1 - me % 2) * half..u64::from(2 - me % 2) * half;
        let slot = |round: u32| n + half * u64::from(round)..n + half * u64::from(round + 1);
        let meet = |r: &mut Recorder, peer: u32, index: u32| {
            r.record(me, 0, of_channel(peer, me, index)).wait(me, 0, of_channel(me, peer, index));
        };
        r.copy(me, 0, input(me, 0..n), buffer(me, 0..n));
        r.copy(me, 0, input(me, mine.clone()), output(me, mine.clone()));
        meet(&mut r, me ^ 1, READY);
        r.sum(me, 0, buffer(me ^ 1, mine.clone()), output(me, mine.clone()));
        meet(&mut r, me ^ 1, LEFT);
        for round in 0..rounds {
            let peer = me ^ (2 << round);
            r.copy(me, 0, output(me, mine.clone()), buffer(me, slot(round)));
            meet(&mut r, peer, READY);
            r.sum(me, 0, buffer(peer, slot(round)), output(me, mine.clone()));
            meet(&mut r, peer, LEFT);
        }
        r.copy(me, 0, output(me, mine), buffer(me, slot(rounds)));
        meet(&mut r, me ^ 1, READY);
        r.copy(me, 0, buffer(me ^ 1, slot(rounds)), output(me, other));
        meet(&mut r, me ^ 1, LEFT);
    }
    r.operator
}

/// Returns an operator that hangs. Two ranks wait for each other before either records a notify. A
/// third rank waits for a notify that no task records.
pub fn hangs() -> Operator {
    let mut r = recorder("exchange that hangs", Goal::Other { input: 4, output: 4 }, 3, 4, 4);
    r.all_channels(2);
    for (me, peer) in [(0, 1), (1, 0)] {
        r.copy(me, 0, input(me, 0..4), buffer(me, 0..4));
        r.wait(me, 0, of_channel(me, peer, READY));
        r.record(me, 0, of_channel(peer, me, READY));
        r.copy(me, 0, buffer(peer, 0..4), output(me, 0..4));
    }
    r.copy(2, 0, input(2, 0..4), buffer(2, 0..4));
    r.wait(2, 0, of_channel(2, 0, READY));
    r.copy(2, 0, buffer(0, 0..4), output(2, 0..4));
    r.operator
}
