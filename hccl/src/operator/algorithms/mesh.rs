//! Mesh: every rank exchanges with all other ranks at once, with one thread and one channel for
//! each of them.
//!
//! A collective takes one or two steps, whatever the number of ranks. Use a mesh for ranks that are
//! all connected with each other, such as those of one server. Reductions combine elements in the
//! order of the ranks, so the result has the same bits on every rank and in every run.

use super::{load_blocks, some};
use crate::operator::{LocalBuffer, MainThread, Recorder, RemoteBuffer, Thread};

/// Scatter and Gather of a star, which take one step.
pub use super::star::{gather, scatter};

/// Records an AllGather in one step.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        with_each(
            op,
            main,
            |_| (true, true),
            |thread, peer, theirs| {
                thread.read(theirs.at(shared), op.output_from(peer).slice(round.clone()));
            },
        );
        main.copy(shared, op.output_from(op.rank()).slice(round));
    }
}

/// Records a ReduceScatter in one step.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / (2 * ranks)) {
        let (shared, slots) = two(op, ranks * round.len());
        load_blocks(op, main, &round, shared);
        reduce_part(op, main, shared, slots);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// Records an AllReduce in one step: every rank reads the elements of all ranks and sums them up.
/// Use it for small data: with p ranks, each rank sends its elements to p-1 other ranks.
pub fn all_reduce_one_shot(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let slot = |rank| op.buffer().block(rank, round.len());
        main.copy(op.input().slice(round.clone()), slot(op.rank()));
        with_each(
            op,
            main,
            |_| (true, true),
            |thread, peer, theirs| {
                thread.read(theirs.block(peer, round.len()), slot(peer));
            },
        );
        let sum = op.output().slice(round.clone());
        main.copy(slot(0), sum);
        (1..op.ranks()).for_each(|rank| main.reduce(slot(rank), sum));
    }
}

/// Records an AllReduce in two steps: every rank sums up one part, and then reads the parts of the
/// other ranks.
pub fn all_reduce_two_shot(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / (2 * ranks) * ranks) {
        let (shared, slots) = two(op, round.len());
        let output = op.output().slice(round.clone());
        main.copy(op.input().slice(round), shared);
        reduce_part(op, main, shared, slots);
        with_each(
            op,
            main,
            |_| (true, true),
            |thread, peer, theirs| {
                let [part, to] = [shared, output].map(|whole| whole.part(peer, op.ranks()));
                thread.read(theirs.at(part), to);
            },
        );
        let [part, to] = [shared, output].map(|whole| whole.part(op.rank(), op.ranks()));
        main.copy(part, to);
    }
}

/// Records a Broadcast in two steps: the root scatters parts, and all ranks gather them.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let is_root = op.rank() == op.root();
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        let part = |rank| shared.part(rank, op.ranks());
        if is_root {
            main.copy(op.input().slice(round.clone()), shared);
        }
        with_each(
            op,
            main,
            |peer| (is_root, peer == op.root()),
            |thread, _, theirs| {
                thread.read(theirs.at(part(op.rank())), part(op.rank()));
            },
        );
        with_each(
            op,
            main,
            |peer| (peer != op.root(), !is_root),
            |thread, peer, theirs| {
                thread.read(theirs.at(part(peer)), part(peer));
            },
        );
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a Reduce in two steps: every rank sums up one part, and the root gathers the parts.
pub fn reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let (ranks, is_root) = (op.ranks() as usize, op.rank() == op.root());
    for round in op.rounds(op.buffer().len() / (2 * ranks) * ranks) {
        let (shared, slots) = two(op, round.len());
        let part = |rank| shared.part(rank, op.ranks());
        main.copy(op.input().slice(round.clone()), shared);
        reduce_part(op, main, shared, slots);
        with_each(
            op,
            main,
            |peer| (peer == op.root(), is_root),
            |thread, peer, theirs| {
                thread.read(theirs.at(part(peer)), part(peer));
            },
        );
        if is_root {
            main.copy(shared, op.output().slice(round));
        }
    }
}

/// Records an AlltoAll or an AlltoAllV in one step.
pub fn all_to_all(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        load_blocks(op, main, &round, shared);
        with_each(
            op,
            main,
            |_| (true, true),
            |thread, peer, theirs| {
                let block = some(op.output_from(peer), &round);
                thread.read(theirs.block(op.rank(), round.len()).slice(..block.len()), block);
            },
        );
        let own = some(op.output_from(op.rank()), &round);
        main.copy(shared.block(op.rank(), round.len()).slice(..own.len()), own);
    }
}

/// Records one step after which part r of rank r is the sum of part r of all ranks. A rank reads
/// the parts of its peers into `slots` before it sums them up.
fn reduce_part(
    op: &Recorder<'_>,
    main: &mut MainThread<'_>,
    shared: LocalBuffer<'_>,
    slots: LocalBuffer<'_>,
) {
    let part = shared.part(op.rank(), op.ranks());
    let slot = |rank| slots.block(rank, part.len());
    main.copy(part, slot(op.rank()));
    with_each(
        op,
        main,
        |_| (true, true),
        |thread, peer, theirs| {
            thread.read(theirs.at(part), slot(peer));
        },
    );
    main.copy(slot(0), part);
    (1..op.ranks()).for_each(|rank| main.reduce(slot(rank), part));
}

/// Exchanges with each peer on a separate thread: lends this rank's buffer to the peer, and calls
/// `body` with the peer's buffer. `lends_and_visits` returns which of the two happen for a peer.
fn with_each(
    op: &Recorder<'_>,
    main: &mut MainThread<'_>,
    lends_and_visits: impl Fn(u32) -> (bool, bool),
    body: impl Fn(&Thread<'_>, u32, RemoteBuffer<'_>),
) {
    main.fork(op.ranks() - 1, |threads| {
        for (thread, peer) in threads.iter().zip(op.others()) {
            let (channel, (lends, visits)) = (op.channel(peer), lends_and_visits(peer));
            let (to, from) = (lends.then_some(channel), visits.then_some(channel));
            thread.exchange(to, from, |theirs| body(&thread, peer, theirs));
        }
    });
}

/// Returns the first `length` elements of the communication buffer, and the remaining elements.
fn two<'r>(op: &Recorder<'r>, length: usize) -> (LocalBuffer<'r>, LocalBuffer<'r>) {
    (op.buffer().slice(..length), op.buffer().slice(length..))
}
