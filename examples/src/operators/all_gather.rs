//! A custom all-gather, in a right and in a wrong version.

use hccl::operator::*;

/// Gathers right: the buffer is full before any peer reads it, and stays full until all have left.
pub fn mesh(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let (rank, n) = (op.rank(), op.count());
    // Data may be larger than the communication buffer: then there are several rounds.
    for round in op.rounds(op.buffer().len()) {
        let own = op.input().slice(round.clone());
        let shared = op.buffer().slice(..round.len());
        main.copy(own, shared);
        main.copy(own, op.output().block(rank, n).slice(round.clone()));
        main.fork(op.ranks() - 1, |threads| {
            for (thread, peer) in threads.iter().zip(op.others()) {
                let channel = op.channel(peer);
                let exposed = thread.expose(channel); // the peer may now read our buffer
                let access = thread.enter(channel); // waits until we may read its buffer
                let theirs = access.buffer().slice(..round.len());
                thread.read(theirs, op.output().block(peer, n).slice(round.clone()));
                thread.leave(access);
                thread.reclaim(exposed);
            }
        });
    }
}

/// Gathers wrong: only the first thread fills the buffer, and the others do not wait for that.
pub fn hasty(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let (rank, n) = (op.rank(), op.count());
    for round in op.rounds(op.buffer().len()) {
        let own = op.input().slice(round.clone());
        let shared = op.buffer().slice(..round.len());
        main.copy(own, op.output().block(rank, n).slice(round.clone()));
        main.fork(op.ranks() - 1, |threads| {
            threads.get(0).copy(own, shared);
            for (thread, peer) in threads.iter().zip(op.others()) {
                let channel = op.channel(peer);
                let exposed = thread.expose(channel);
                let access = thread.enter(channel);
                let theirs = access.buffer().slice(..round.len());
                thread.read(theirs, op.output().block(peer, n).slice(round.clone()));
                thread.leave(access);
                thread.reclaim(exposed);
            }
        });
    }
}
