//! NB, the nonuniform Bruck algorithm: as many steps and bytes as [NHR](super::nhr), in the other
//! direction around the ring.
//!
//! Its steps are written for a *team*, all ranks or some of them, because a
//! [hierarchy](super::hierarchical) uses them for each of its groups.

use super::{Team, doublings, load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder};

/// AllReduce in 2 log2 p steps.
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

/// ReduceScatter in log2 p steps.
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

/// AllGather in log2 p steps.
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

/// Scatter in log2 p steps.
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

/// Broadcast in 2 log2 p steps: parts are scattered, then gathered by all.
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

/// Part i of member i becomes the sum of the parts i of all. Half of the data goes in the first
/// step, to the nearest.
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

/// All members get part i of each member i. Half of the data goes in the last step, to the nearest.
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

/// Member i gets part i of the root's. A member that has the parts of 2d members gives half of them
/// to the one d places back.
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

/// The root gets part i of each member i: as scattering, backwards.
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
