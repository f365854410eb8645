//! Collective algorithms that are right, for tests.

#![allow(dead_code, reason = "each test takes what it needs")]

use crate::recorder::*;
use ascend_operator::{Goal, Operator};

/// The peers of a rank, beginning behind itself.
fn peers(rank: u32, ranks: u32) -> impl Iterator<Item = u32> {
    (1..ranks).map(move |step| (rank + step) % ranks)
}

/// The part that a rank has of so many elements for all of them.
fn block(rank: u32, n: u64) -> std::ops::Range<u64> {
    u64::from(rank) * n..(u64::from(rank) + 1) * n
}

/// A channel between each two ranks that are one step apart.
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

/// Everybody reads from everybody at once, a thread for each peer.
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

/// Each rank passes on what it has got last, with a thread for either neighbour.
pub fn ring_all_gather(ranks: u32, n: u64) -> Operator {
    let all = u64::from(ranks) * n;
    let mut r = Recorder::new(Goal::AllGather, ranks, n, all);
    ring(&mut r, ranks, 2);
    for rank in 0..ranks {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        r.copy(rank, 0, input(rank, 0..n), buffer(rank, block(rank, n)));
        if ranks > 1 {
            for step in 0..ranks - 1 {
                // The sub-thread sends, the main thread receives.
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
