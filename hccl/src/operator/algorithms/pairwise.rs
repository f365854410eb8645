//! Pairwise exchange: in step k every rank reads from the rank k places before it, while the rank k
//! places after it reads from this rank.
//!
//! For p ranks it takes p-1 steps on one thread. In each step a rank reads from one peer, and one
//! peer reads from it. Use it for blocks so large that one block fills the link, and for networks
//! that slow down when many ranks send to one rank.

use super::{load_blocks, some};
use crate::operator::{MainThread, Recorder};

/// Records an AlltoAll or an AlltoAllV in p-1 steps.
pub fn all_to_all(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        load_blocks(op, main, &round, shared);
        for k in 1..i64::from(op.ranks()) {
            let (to, from) = (op.channel(op.peer(k)), op.channel(op.peer(-k)));
            let block = some(op.output_from(from.peer()), &round);
            main.exchange(to, from, |theirs| {
                main.read(theirs.block(op.rank(), round.len()).slice(..block.len()), block);
            });
        }
        let own = some(op.output_from(op.rank()), &round);
        main.copy(shared.block(op.rank(), round.len()).slice(..own.len()), own);
    }
}
