//! An all-reduce for ranks in a line: each rank is wired to its two neighbours, and to no other
//! rank.

use hccl::operator::*;

/// Moves sums to the middle of the line and the result back to the ends, in `slices` slices.
///
/// The ranks form a tree: the neighbour towards the middle is the parent, any other one a child.
/// One thread moves sums up and another one moves results down, slice after slice. Each slice has
/// its own place in the communication buffer, so slices do not wait for each other.
pub fn line_all_reduce(slices: u32) -> impl Fn(&Recorder<'_>, &mut MainThread<'_>) {
    move |op, main| {
        let (rank, middle) = (op.rank(), op.ranks() / 2);
        let neighbours = [rank.checked_sub(1), Some(rank + 1).filter(|next| *next < op.ranks())];
        let (children, parent): (Vec<u32>, Vec<u32>) = (neighbours.into_iter().flatten())
            .partition(|peer| peer.abs_diff(middle) > rank.abs_diff(middle));
        // Both ends must open a channel even if there is no data, so this is not in the loop.
        let parent = parent.first().map(|parent| op.channel(*parent));
        let children: Vec<_> = children.into_iter().map(|child| op.channel(child)).collect();

        for round in op.rounds(op.buffer().len()) {
            let (input, output) = (op.input().slice(round.clone()), op.output().slice(round));
            let shared = op.buffer().slice(..input.len());
            main.fork(2, |threads| {
                let [up, down] = threads.array();
                for slice in 0..slices {
                    let sum = shared.part(slice, slices);
                    up.copy(input.part(slice, slices), sum);
                    for child in &children {
                        up.visit(*child, |theirs| up.read_reduce(theirs.at(sum), sum));
                    }
                    match parent {
                        Some(parent) => {
                            up.lend(parent);
                            down.visit(parent, |theirs| down.read(theirs.at(sum), sum));
                        }
                        // The middle has the whole sum. Each slice has its own notify, because one
                        // for all slices would be recorded again too early.
                        None => _ = down.wait(up.record(down.notify())),
                    }
                    for child in &children {
                        down.lend(*child);
                    }
                    down.copy(sum, output.part(slice, slices));
                }
            });
        }
    }
}
