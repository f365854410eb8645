//! Correct collective algorithms, for tests.

#![allow(dead_code, reason = "each test takes what it needs")]

use crate::recorder::*;
use ascend_operator::{Goal, Operator, ReduceOp, Task};

/// Returns the peers of a rank, beginning with the rank after it.
fn peers(rank: u32, ranks: u32) -> impl Iterator<Item = u32> {
    (1..ranks).map(move |step| (rank + step) % ranks)
}

/// Returns the part of a rank among the parts of all ranks. Each part has `n` elements.
fn block(rank: u32, n: u64) -> std::ops::Range<u64> {
    u64::from(rank) * n..(u64::from(rank) + 1) * n
}

/// Opens a channel between every two ranks that are one step apart in the ring.
fn ring(r: &mut Recorder, ranks: u32, notifies: u32) {
    match ranks {
        1 => {}
        2 => {
            r.channel(0, 1, notifies);
        }
        _ => (0..ranks).for_each(|rank| {
            r.channel(rank, (rank + 1) % ranks, notifies);
        }),
    }
}

/// Returns an all-gather in which every rank reads from every other rank at once, with a thread for
/// each peer.
pub fn mesh_all_gather(ranks: u32, n: u64) -> Operator {
    let mut r = Recorder::new(Goal::AllGather, ranks, n, n);
    r.all_channels(2);
    for rank in 0..ranks {
        r.copy(rank, 0, input(rank, 0..n), buffer(rank, 0..n));
        r.copy(rank, 0, input(rank, 0..n), output(rank, block(rank, n)));
        for thread in 1..ranks.saturating_sub(1) {
            r.start(rank, thread);
        }
        for (thread, peer) in (0..).zip(peers(rank, ranks)) {
            r.record(rank, thread, of_channel(peer, rank, 0));
            r.wait(rank, thread, of_channel(rank, peer, 0));
            r.copy(rank, thread, buffer(peer, 0..n), output(rank, block(peer, n)));
            r.record(rank, thread, of_channel(peer, rank, 1));
            r.wait(rank, thread, of_channel(rank, peer, 1));
        }
        for thread in 1..ranks.saturating_sub(1) {
            r.end(rank, thread);
        }
    }
    r.operator
}

/// Returns an all-gather in which each rank passes on the part that it got last, with a thread for
/// each neighbour.
pub fn ring_all_gather(ranks: u32, n: u64) -> Operator {
    let all = u64::from(ranks) * n;
    let mut r = Recorder::new(Goal::AllGather, ranks, n, all);
    ring(&mut r, ranks, 2);
    for rank in 0..ranks {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        r.copy(rank, 0, input(rank, 0..n), buffer(rank, block(rank, n)));
        if ranks > 1 {
            for step in 0..ranks - 1 {
                // The sub-thread sends, and the main thread receives.
                r.start(rank, 1);
                let sent = (rank + ranks - step) % ranks;
                r.wait(rank, 1, of_channel(rank, next, 0));
                r.copy(rank, 1, buffer(rank, block(sent, n)), buffer(next, block(sent, n)));
                r.record(rank, 1, of_channel(next, rank, 1));
                r.record(rank, 0, of_channel(last, rank, 0));
                r.wait(rank, 0, of_channel(rank, last, 1));
                r.end(rank, 1);
            }
        }
        r.copy(rank, 0, buffer(rank, 0..all), output(rank, 0..all));
    }
    r.operator
}

/// Returns an all-reduce in which each rank reduces its elements into the buffers of all other
/// ranks at once, in any order of arrival.
pub fn mesh_all_reduce(ranks: u32, n: u64, op: ReduceOp) -> Operator {
    let mut r = Recorder::new(Goal::AllReduce(op), ranks, n, n);
    r.all_channels(2);
    for rank in 0..ranks {
        r.copy(rank, 0, input(rank, 0..n), buffer(rank, 0..n));
        for (thread, _) in (1..).zip(peers(rank, ranks)) {
            r.start(rank, thread);
        }
        for (thread, peer) in (1..).zip(peers(rank, ranks)) {
            r.record(rank, thread, of_channel(peer, rank, 0));
            r.wait(rank, thread, of_channel(rank, peer, 0));
            let (from, to) = (input(rank, 0..n), buffer(peer, 0..n));
            r.task(rank, thread, Task::Reduce { from, to, op });
            r.record(rank, thread, of_channel(peer, rank, 1));
            r.wait(rank, thread, of_channel(rank, peer, 1));
        }
        for (thread, _) in (1..).zip(peers(rank, ranks)) {
            r.end(rank, thread);
        }
        r.copy(rank, 0, buffer(rank, 0..n), output(rank, 0..n));
    }
    r.operator
}

/// Returns an all-reduce round a ring. In each step, a rank reads a part of its neighbour and
/// reduces it into its own part. Then the reduced parts go round the ring once more. A part has n
/// elements.
pub fn ring_all_reduce(ranks: u32, n: u64, op: ReduceOp) -> Operator {
    let all = u64::from(ranks) * n;
    let mut r = Recorder::new(Goal::AllReduce(op), ranks, all, all);
    ring(&mut r, ranks, 2);
    for rank in 0..ranks {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        r.copy(rank, 0, input(rank, 0..all), buffer(rank, 0..all));
        for step in 0..2 * (ranks - 1) {
            // The result of the last step is ready, and the next rank is notified.
            r.record(rank, 0, of_channel(next, rank, 0));
            r.wait(rank, 0, of_channel(rank, last, 0));
            let part = block((last + 2 * ranks - step) % ranks, n);
            let (from, to) = (buffer(last, part.clone()), buffer(rank, part));
            if step < ranks - 1 {
                r.task(rank, 0, Task::Reduce { from, to, op });
            } else {
                r.copy(rank, 0, from, to);
            }
            r.record(rank, 0, of_channel(last, rank, 1));
            r.wait(rank, 0, of_channel(rank, next, 1));
        }
        r.copy(rank, 0, buffer(rank, 0..all), output(rank, 0..all));
    }
    r.operator
}

/// Returns an all-to-all in whose step k a rank reads its own part from the rank k places before
/// it.
pub fn pairwise_all_to_all(ranks: u32, n: u64) -> Operator {
    all_to_all(Goal::AllToAll, ranks, n, |_, _| n)
}

/// Returns the all-to-all of [`pairwise_all_to_all`] with parts of different lengths. Some of them
/// are empty.
pub fn pairwise_all_to_all_v(ranks: u32) -> Operator {
    let of = |from: u32, to: u32| u64::from((3 * from + 5 * to) % 4);
    let counts = (0..ranks).map(|from| (0..ranks).map(|to| of(from, to)).collect()).collect();
    all_to_all(Goal::AllToAllV { counts }, ranks, 0, of)
}

fn all_to_all(goal: Goal, ranks: u32, n: u64, of: impl Fn(u32, u32) -> u64) -> Operator {
    let size = |rank| (0..ranks).map(|to| of(rank, to)).sum::<u64>();
    let buffers = (0..ranks).map(size).max().unwrap_or(0);
    let mut r = Recorder::new(goal, ranks, n, buffers);
    r.all_channels(2);
    // The offset of the part from one rank to another, in the sent data and in the received data.
    let sent = |from: u32, to: u32| (0..to).map(|to| of(from, to)).sum::<u64>();
    let received = |from: u32, to: u32| (0..from).map(|from| of(from, to)).sum::<u64>();
    for rank in 0..ranks {
        r.copy(rank, 0, input(rank, 0..size(rank)), buffer(rank, 0..size(rank)));
        for step in 0..ranks {
            let (from, to) = ((rank + ranks - step) % ranks, (rank + step) % ranks);
            let (start, end) = (sent(from, rank), received(from, rank));
            let length = of(from, rank);
            let (part, place) = (start..start + length, end..end + length);
            if step == 0 {
                r.copy(rank, 0, input(rank, part), output(rank, place));
                continue;
            }
            r.record(rank, 0, of_channel(to, rank, 0));
            r.wait(rank, 0, of_channel(rank, from, 0));
            r.copy(rank, 0, buffer(from, part), output(rank, place));
            r.record(rank, 0, of_channel(from, rank, 1));
            r.wait(rank, 0, of_channel(rank, to, 1));
        }
    }
    r.operator
}

/// Returns a broadcast along a binomial tree: in each step, a rank that has the elements writes
/// them to one more rank.
pub fn tree_broadcast(ranks: u32, n: u64, root: u32) -> Operator {
    let mut r = Recorder::new(Goal::Broadcast { root }, ranks, n, n);
    r.all_channels(2);
    // Places are counted from the root.
    let rank_of = |place: u32| (place + root) % ranks;
    for place in 0..ranks {
        let rank = rank_of(place);
        if place == 0 {
            r.copy(rank, 0, input(rank, 0..n), buffer(rank, 0..n));
        } else {
            let from = rank_of(place - (1 << place.ilog2()));
            r.record(rank, 0, of_channel(from, rank, 0));
            r.wait(rank, 0, of_channel(rank, from, 1));
        }
        let first = if place == 0 { 0 } else { place.ilog2() + 1 };
        for child in (first..32).map_while(|bit| place.checked_add(1u32.checked_shl(bit)?)) {
            if child < ranks {
                let to = rank_of(child);
                r.wait(rank, 0, of_channel(rank, to, 0));
                r.copy(rank, 0, buffer(rank, 0..n), buffer(to, 0..n));
                r.record(rank, 0, of_channel(to, rank, 1));
            }
        }
        r.copy(rank, 0, buffer(rank, 0..n), output(rank, 0..n));
    }
    r.operator
}

/// Returns a reduce-scatter in which each rank reduces its part for each other rank into the buffer
/// of that rank.
pub fn mesh_reduce_scatter(ranks: u32, n: u64, op: ReduceOp) -> Operator {
    let mut r = Recorder::new(Goal::ReduceScatter(op), ranks, n, n);
    r.all_channels(2);
    for rank in 0..ranks {
        r.copy(rank, 0, input(rank, block(rank, n)), buffer(rank, 0..n));
        for peer in peers(rank, ranks) {
            r.record(rank, 0, of_channel(peer, rank, 0));
        }
        for peer in peers(rank, ranks) {
            r.wait(rank, 0, of_channel(rank, peer, 0));
            let (from, to) = (input(rank, block(peer, n)), buffer(peer, 0..n));
            r.task(rank, 0, Task::Reduce { from, to, op });
            r.record(rank, 0, of_channel(peer, rank, 1));
        }
        for peer in peers(rank, ranks) {
            r.wait(rank, 0, of_channel(rank, peer, 1));
        }
        r.copy(rank, 0, buffer(rank, 0..n), output(rank, 0..n));
    }
    r.operator
}

/// Returns a star: the root writes to all other ranks, or all other ranks write to the root, each
/// into its own part of the root's buffer.
pub fn star(goal: Goal, ranks: u32, n: u64) -> Operator {
    let (root, out, op) = match goal {
        Goal::Scatter { root } => (root, true, None),
        Goal::Gather { root } => (root, false, None),
        Goal::Reduce { root, op } => (root, false, Some(op)),
        _ => (0, true, None),
    };
    let mut r = Recorder::new(goal, ranks, n, n * u64::from(ranks));
    for peer in peers(root, ranks) {
        r.channel(root, peer, 2);
    }
    let own = if out { input(root, block(root, n)) } else { input(root, 0..n) };
    let place = if out || op.is_some() { 0..n } else { block(root, n) };
    r.copy(root, 0, own, output(root, place));
    for peer in peers(root, ranks) {
        r.record(peer, 0, of_channel(root, peer, 0)).wait(root, 0, of_channel(root, peer, 0));
        if out {
            r.copy(root, 0, input(root, block(peer, n)), buffer(peer, 0..n));
            r.tell((root, 0), (peer, 0), 1);
            r.copy(peer, 0, buffer(peer, 0..n), output(peer, 0..n));
        } else {
            r.tell((root, 0), (peer, 0), 1);
            r.copy(peer, 0, input(peer, 0..n), buffer(root, block(peer, n)));
            r.tell((peer, 0), (root, 0), 1);
            let (from, to) = (buffer(root, block(peer, n)), output(root, 0..n));
            match op {
                Some(op) => r.task(root, 0, Task::Reduce { from, to, op }),
                None => r.copy(root, 0, from, output(root, block(peer, n))),
            };
        }
    }
    r.operator
}

/// Returns an operator in which one rank sends to another rank, and the receiver reads the data.
pub fn send(from: u32, to: u32, ranks: u32, n: u64) -> Operator {
    let mut r = Recorder::new(Goal::Send { from, to }, ranks, n, n);
    r.channel(from, to, 2);
    r.copy(from, 0, input(from, 0..n), buffer(from, 0..n)).tell((from, 0), (to, 0), 0);
    r.copy(to, 0, buffer(from, 0..n), output(to, 0..n)).tell((to, 0), (from, 0), 1);
    r.operator
}

/// Makes the input of each rank a part of its output. `start` returns the element of the output at
/// which the input of a rank begins.
pub fn in_place(mut operator: Operator, start: impl Fn(u64) -> u64) -> Operator {
    for (rank, tasks) in (0..).zip(&mut operator.ranks) {
        tasks.in_place = Some(start(rank) * ELEMENT);
    }
    operator
}
