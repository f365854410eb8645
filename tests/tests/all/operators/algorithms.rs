//! Small algorithms, each of a different kind.

use hccl::dtype::ReduceOp;
use hccl::operator::*;

/// Returns the size of a round: as much as fits into the communication buffer, and at most `most`.
fn round(op: &Recorder<'_>, most: usize) -> usize {
    op.buffer().len().min(most)
}

/// Makes an all-gather in which all ranks read from all other ranks, on a thread for each, in
/// rounds.
pub fn mesh_all_gather() -> Operator {
    Operator::all_gather("mesh_all_gather", |op, main| {
        let (n, round) = (op.count(), round(op, usize::MAX));
        let own = op.output().block(op.rank(), n);
        for (at, input) in (0..).step_by(round.max(1)).zip(op.input().chunks(round)) {
            let part = at..at + input.len();
            let shared = ..input.len();
            main.copy(input, op.buffer().slice(shared));
            main.copy(input, own.slice(part.clone()));
            main.fork(op.ranks() - 1, |threads| {
                for (thread, peer) in threads.iter().zip(op.others()) {
                    let channel = op.channel(peer);
                    let exposed = thread.expose(channel);
                    let access = thread.enter(channel);
                    let to = op.output().block(peer, n).slice(part.clone());
                    thread.read(access.buffer().slice(shared), to);
                    thread.leave(access);
                    thread.reclaim(exposed);
                }
            });
        }
    })
}

/// Makes an all-reduce that goes around the ring twice: first with sums, then with results. It
/// works in rounds of at most `most` elements.
pub fn ring_all_reduce(reduction: impl ReduceOp, most: usize) -> Operator {
    Operator::all_reduce("ring_all_reduce", reduction, move |op, main| {
        let (rank, p) = (op.rank(), op.ranks());
        let round = round(op, most);
        for (input, output) in op.input().chunks(round).zip(op.output().chunks(round)) {
            let shared = ..input.len();
            let own = op.buffer().slice(shared);
            main.copy(input, own);
            for step in 0..2 * (p - 1) {
                let (next, previous) = (op.channel(op.peer(1)), op.channel(op.peer(-1)));
                // Sums begin one place after the rank. The first result is one place before it.
                let part = (rank + 2 * p - 1 - step) % p;
                let exposed = main.expose(next);
                let access = main.enter(previous);
                let from = access.buffer().slice(shared).part(part, p);
                match step < p - 1 {
                    true => main.read_reduce(from, own.part(part, p)),
                    false => main.read(from, own.part(part, p)),
                }
                main.leave(access);
                main.reclaim(exposed);
            }
            main.copy(own, output);
        }
    })
}

/// Makes an all-reduce in which every rank reduces into the buffers of all ranks at once.
pub fn mesh_all_reduce(reduction: impl ReduceOp) -> Operator {
    Operator::all_reduce("mesh_all_reduce", reduction, |op, main| {
        let own = op.buffer().slice(..op.count());
        main.copy(op.input(), own);
        main.fork(op.ranks() - 1, |threads| {
            for (thread, peer) in threads.iter().zip(op.others()) {
                let channel = op.channel(peer);
                let exposed = thread.expose(channel);
                let access = thread.enter(channel);
                thread.write_reduce(op.input(), access.buffer().slice(..op.count()));
                thread.leave(access);
                thread.reclaim(exposed);
            }
        });
        main.copy(own, op.output());
    })
}

/// Makes an all-to-all in which every rank writes to every other rank.
pub fn mesh_all_to_all() -> Operator {
    Operator::all_to_all("mesh_all_to_all", |op, main| {
        let n = op.count();
        main.fork(op.ranks(), |threads| {
            threads.get(0).copy(op.input().block(op.rank(), n), op.output().block(op.rank(), n));
            for (thread, peer) in threads.iter().skip(1).zip(op.others()) {
                let channel = op.channel(peer);
                let exposed = thread.expose(channel);
                let access = thread.enter(channel);
                thread.write(op.input().block(peer, n), access.buffer().block(op.rank(), n));
                thread.leave(access);
                thread.reclaim(exposed);
                thread.copy(op.buffer().block(peer, n), op.output().block(peer, n));
            }
        });
    })
}

/// Makes an operator in which rank `from` exposes its elements, and rank `to` reads them.
pub fn hand_over(from: u32, to: u32) -> Operator {
    Operator::send("hand_over", from, to, move |op, main| {
        let shared = ..op.count();
        if op.rank() == from {
            let channel = op.channel(to);
            main.copy(op.input(), op.buffer().slice(shared));
            let exposed = main.expose(channel);
            main.reclaim(exposed);
        } else if op.rank() == to {
            let access = main.enter(op.channel(from));
            main.read(access.buffer().slice(shared), op.output());
            main.leave(access);
        }
    })
}

/// Makes a broadcast in which the elements go from rank to rank. It uses a custom signal, and a
/// notify between two threads.
pub fn chain_broadcast(root: u32) -> Operator {
    Operator::broadcast("chain_broadcast", root, move |op, main| {
        let (place, last) = ((op.rank() + op.ranks() - root) % op.ranks(), op.ranks() - 1);
        let own = op.buffer().slice(..op.count());
        main.fork(2, |threads| {
            let [main, other] = threads.array();
            let arrived = other.notify();
            if place == 0 {
                main.copy(op.input(), own);
            } else {
                let channel = op.channel(op.peer(-1));
                let exposed = main.expose(channel);
                main.await_signal(channel, 0);
                main.reclaim(exposed);
            }
            let arrived = main.record(arrived);
            other.wait(arrived);
            if place < last {
                let channel = op.channel(op.peer(1));
                let access = other.enter(channel);
                other.write(own, access.buffer().slice(..op.count()));
                other.signal(channel, 0);
                other.leave(access);
            }
            main.copy(own, op.output());
        });
    })
}
