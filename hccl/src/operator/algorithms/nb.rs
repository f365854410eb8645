//! NB, the nonuniform Bruck algorithm. For p ranks it takes log2 p steps, rounded up. It moves as
//! many bytes as [NHR](super::nhr), but in the other direction around the ring.
//!
//! Its steps are written for a *team*, which is all ranks or some of them, because the
//! [hierarchical](super::hierarchical) algorithms use them for each group.

use super::{Team, doublings, load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder};

/// Records an AllReduce in 2 log2 p steps.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        let part = |member| [shared.part(member, op.ranks())];
        main.copy(op.input().slice(round.clone()), shared);
        reduce_parts(&Team::all(op), main, part);
        gather_parts(&Team::all(op), main, part);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a ReduceScatter in log2 p steps.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        let part = |member| [shared.part(member, op.ranks())];
        load_blocks(op, main, &round, shared);
        reduce_parts(&Team::all(op), main, part);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// Records an AllGather in log2 p steps.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        let part = |member| [shared.part(member, op.ranks())];
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), op.ranks()));
        gather_parts(&Team::all(op), main, part);
        store_blocks(op, main, shared, &round);
    }
}

/// Records a Scatter in log2 p steps.
pub fn scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        let part = |member| [shared.part(member, op.ranks())];
        if op.rank() == op.root() {
            load_blocks(op, main, &round, shared);
        }
        scatter_parts(&Team::all(op), main, op.root(), part);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// Records a Broadcast in 2 log2 p steps: the root scatters parts, and all ranks gather them.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        let part = |member| [shared.part(member, op.ranks())];
        if op.rank() == op.root() {
            main.copy(op.input().slice(round.clone()), shared);
        }
        scatter_parts(&Team::all(op), main, op.root(), part);
        gather_parts(&Team::all(op), main, part);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records steps after which part i of member i is the sum of part i of all members. Half of the
/// data moves in the first step, to the nearest member.
pub(super) fn reduce_parts<'r, P: IntoIterator<Item = LocalBuffer<'r>>>(
    team: &Team<'_, 'r>,
    main: &MainThread<'_>,
    part: impl Fn(u32) -> P,
) {
    for distance in doublings(team.size()) {
        let away = i64::from(distance);
        main.exchange(team.channel(away), team.channel(-away), |theirs| {
            for ahead in (distance..team.size()).step_by(2 * distance as usize) {
                for part in part(team.member(i64::from(ahead) - away)) {
                    main.read_reduce(theirs.at(part), part);
                }
            }
        });
    }
}

/// Records steps after which all members have part i of each member i. Half of the data moves in
/// the last step, to the nearest member.
pub(super) fn gather_parts<'r, P: IntoIterator<Item = LocalBuffer<'r>>>(
    team: &Team<'_, 'r>,
    main: &MainThread<'_>,
    part: impl Fn(u32) -> P,
) {
    for distance in doublings(team.size()).rev() {
        let away = i64::from(distance);
        main.exchange(team.channel(-away), team.channel(away), |theirs| {
            for ahead in (distance..team.size()).step_by(2 * distance as usize) {
                for part in part(team.member(ahead.into())) {
                    main.read(theirs.at(part), part);
                }
            }
        });
    }
}

/// Records steps after which member i has part i of the root's elements. A member that has the
/// parts of 2d members gives half of them to the member d places back.
pub(super) fn scatter_parts<'r, P: IntoIterator<Item = LocalBuffer<'r>>>(
    team: &Team<'_, 'r>,
    main: &MainThread<'_>,
    root: u32,
    part: impl Fn(u32) -> P,
) {
    let size = team.size();
    let before_the_root = team.before(root);
    for distance in doublings(size).rev() {
        if before_the_root % (2 * distance) == distance {
            main.visit(team.channel(distance.into()), |theirs| {
                for back in 0..distance.min(size - before_the_root) {
                    for part in part(team.member(-i64::from(back))) {
                        main.read(theirs.at(part), part);
                    }
                }
            });
        } else if before_the_root.is_multiple_of(2 * distance) && before_the_root + distance < size
        {
            main.lend(team.channel(-i64::from(distance)));
        }
    }
}

/// Records steps after which the root has part i of each member i. The steps are those of
/// [`scatter_parts`] in reverse.
pub(super) fn collect_parts<'r, P: IntoIterator<Item = LocalBuffer<'r>>>(
    team: &Team<'_, 'r>,
    main: &MainThread<'_>,
    root: u32,
    part: impl Fn(u32) -> P,
) {
    let size = team.size();
    let before_the_root = team.before(root);
    for distance in doublings(size) {
        if before_the_root % (2 * distance) == distance {
            main.lend(team.channel(distance.into()));
        } else if before_the_root.is_multiple_of(2 * distance) && before_the_root + distance < size
        {
            main.visit(team.channel(-i64::from(distance)), |theirs| {
                for back in distance..(2 * distance).min(size - before_the_root) {
                    for part in part(team.member(-i64::from(back))) {
                        main.read(theirs.at(part), part);
                    }
                }
            });
        }
    }
}
