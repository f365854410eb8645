//! Hierarchical algorithms, which alternate between steps within groups and steps between groups.
//!
//! Use them for ranks whose links differ: fast links within a server, and slower links between
//! servers. Only two kinds of data move between groups. One is the part that a rank has after its
//! group has summed up. The other is the part that its group does not have yet. In an all-to-all
//! all blocks for other groups move between groups, but in fewer messages. Groups may have any
//! sizes (AHC, asymmetric hierarchical concatenation). If the parts of two groups do not coincide,
//! each rank exchanges with all ranks of the other group whose parts overlap its own.

mod between;

use std::ops::Range;

use super::{Team, doublings, load_blocks, nb, some, store_blocks};
use crate::operator::{Goal, LocalBuffer, MainThread, Recorder};
use between::Between;

/// A division of all ranks into groups.
///
/// ```
/// use hccl::operator::Operator;
/// use hccl::operator::algorithms::hierarchical::{self, Groups};
/// use hccl::prelude::*;
///
/// let servers = Groups::of_size(16, 8); // 16 ranks, 8 on each server
/// let sum = Operator::all_reduce("sum", Sum, move |op, main| {
///     hierarchical::all_reduce(op, main, &servers);
/// });
/// assert!(sum.record::<f32>(16, 1000)?.check().is_good());
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(Vec<Vec<u32>>);

impl Groups {
    /// Makes a division from the ranks of each group. Every rank of the operator must be in exactly
    /// one group. Empty groups are left out.
    pub fn new(groups: impl IntoIterator<Item = Vec<u32>>) -> Self {
        Groups(groups.into_iter().filter(|group| !group.is_empty()).collect())
    }

    /// Divides `ranks` ranks into groups of `size` consecutive ranks, such as the cards of one
    /// server. The last group has the remaining ranks.
    pub fn of_size(ranks: u32, size: u32) -> Self {
        let starts = (0..ranks).step_by(size.max(1) as usize);
        Groups::new(
            starts.map(|start| (start..ranks.min(start.saturating_add(size.max(1)))).collect()),
        )
    }

    /// Returns the ranks of each group.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Returns whether each of `ranks` ranks is in exactly one group.
    fn divide(&self, ranks: u32) -> bool {
        let mut all: Vec<u32> = self.0.iter().flatten().copied().collect();
        all.sort_unstable();
        all.into_iter().eq(0..ranks)
    }
}

/// Records an AllReduce: a ReduceScatter within each group, an AllReduce between groups, and an
/// AllGather within each group. G groups of m ranks take 2(log2 m + log2 G) steps.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        let part = |member| [shared.part(member, home.team.size())];
        let between = Between::of(op, &groups.0, home.group, shared);
        main.copy(op.input().slice(round.clone()), shared);
        nb::reduce_parts(&home.team, main, part);
        between.reduce_slices(main);
        between.gather_slices(main);
        nb::gather_parts(&home.team, main, part);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a ReduceScatter: first within each group, then between groups. G groups of m ranks take
/// log2 m + G-1 steps.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        let own = shared.part(op.rank(), op.ranks());
        load_blocks(op, main, &round, shared);
        nb::reduce_parts(&home.team, main, |member| home.share(member, shared));
        for distance in 1..groups.0.len() {
            let from = home.group_at(groups.0.len() - distance);
            let to = home.shared_out(home.group_at(distance));
            let exposed: Vec<_> = to.map(|rank| main.expose(op.channel(rank))).collect();
            main.visit(op.channel(from[home.place() % from.len()]), |theirs| {
                main.read_reduce(theirs.at(own), own);
            });
            exposed.into_iter().for_each(|exposed| main.reclaim(exposed));
        }
        main.copy(own, op.output().slice(round));
    }
}

/// Records an AllGather: first between groups, then within each group. G groups of m ranks take
/// log2 m + G-1 steps.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), op.ranks()));
        for distance in 1..groups.0.len() {
            let to = home.group_at(distance);
            let exposed = main.expose(op.channel(to[home.place() % to.len()]));
            for rank in home.shared_out(home.group_at(groups.0.len() - distance)) {
                let block = shared.part(rank, op.ranks());
                main.visit(op.channel(rank), |theirs| main.read(theirs.at(block), block));
            }
            main.reclaim(exposed);
        }
        nb::gather_parts(&home.team, main, |member| home.share(member, shared));
        store_blocks(op, main, shared, &round);
    }
}

/// Records a Broadcast. The root scatters parts within its group. Then the parts are copied from
/// group to group, to twice as many groups in each step, and each group gathers them. G groups of m
/// ranks take 2 log2 m + log2 G steps.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let root = home.place_of(op.root());
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        let part = |member| [shared.part(member, home.team.size())];
        if op.rank() == op.root() {
            main.copy(op.input().slice(round.clone()), shared);
        }
        if root.0 == home.group {
            nb::scatter_parts(&home.team, main, root.1, part);
        }
        Between::of(op, &groups.0, home.group, shared).spread(main, root.0);
        nb::gather_parts(&home.team, main, part);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a Reduce. Each group sums up parts. Then the sums are added from group to group, by half
/// as many groups in each step. Finally, the group of the root gathers them at the root. G groups
/// of m ranks take 2 log2 m + log2 G steps.
pub fn reduce(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let root = home.place_of(op.root());
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        let part = |member| [shared.part(member, home.team.size())];
        main.copy(op.input().slice(round.clone()), shared);
        nb::reduce_parts(&home.team, main, part);
        Between::of(op, &groups.0, home.group, shared).concentrate(main, root.0);
        if root.0 == home.group {
            nb::collect_parts(&home.team, main, root.1, part);
        }
        if op.rank() == op.root() {
            main.copy(shared, op.output().slice(round));
        }
    }
}

/// Records a Scatter. The blocks of each group go from the root to one member of the group, and
/// this member scatters them within the group. G groups of m ranks take log2 G + log2 m steps.
pub fn scatter(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let (count, root) = (groups.0.len(), home.place_of(op.root()));
    // The rank of a group that has the same place there as the root has in its group.
    let head = |group: &[u32]| group[root.1 as usize % group.len()];
    let behind = (home.group + count - root.0) % count;
    for round in op.rounds(op.buffer().len() / op.ranks() as usize) {
        let shared = op.buffer().slice(..op.ranks() as usize * round.len());
        let block = |rank| shared.part(rank, op.ranks());
        if op.rank() == op.root() {
            load_blocks(op, main, &round, shared);
        }
        for distance in doublings(count as u32).rev().map(|distance| distance as usize) {
            let channel = |ahead| op.channel(head(home.group_at(ahead)));
            if op.rank() != head(home.group_at(0)) {
                break;
            } else if behind % (2 * distance) == distance {
                main.visit(channel(count - distance), |theirs| {
                    let groups = (0..distance.min(count - behind)).map(|on| home.group_at(on));
                    groups
                        .flatten()
                        .for_each(|rank| main.read(theirs.at(block(*rank)), block(*rank)));
                });
            } else if behind.is_multiple_of(2 * distance) && behind + distance < count {
                main.lend(channel(distance));
            }
        }
        let own = home.group_at(0);
        let root = root.1 % own.len() as u32;
        nb::scatter_parts(&home.team, main, root, |member| [block(own[member as usize])]);
        main.copy(block(op.rank()), op.output().slice(round));
    }
}

/// Records an AlltoAll or an AlltoAllV. A block for another group first goes to the member of the
/// sender's group that is responsible for the receiver. The receiver reads it from that member. G
/// groups of m ranks take m-1 + G-1 steps, with one message from a rank to each other group. If the
/// blocks of a rank have n elements in total, the rank sends ((m-1)/m + (G-1)/G) n elements.
pub fn all_to_all(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let (ranks, size) = (op.ranks() as usize, home.team.size());
    for round in op.rounds(op.buffer().len() / (2 * ranks)) {
        let shared = op.buffer().slice(..ranks * round.len());
        // For each receiver for which this rank is responsible, the elements that the members of
        // its group have for that receiver.
        let relayed = op.buffer().slice(ranks * round.len()..);
        load_blocks(op, main, &round, shared);
        for k in 1..i64::from(size) {
            let (to, from) = (home.team.channel(k), home.team.channel(-k));
            main.exchange(to, from, |theirs| {
                let own = some(op.output_from(from.peer()), &round);
                main.read(theirs.block(op.rank(), round.len()).slice(..own.len()), own);
                for (at, receiver) in (0..).zip(home.dealt()) {
                    let length = length(op, from.peer(), receiver, &round);
                    let block = relayed.block(at * size + home.team.member(-k), round.len());
                    let theirs = theirs.block(receiver, round.len());
                    main.read(theirs.slice(..length), block.slice(..length));
                }
            });
        }
        // The index of this rank among all ranks after the visited group, in the order of the ring
        // of groups.
        let mut before = home.place();
        for distance in 1..groups.0.len() {
            let to = home.group_at(distance);
            let to = home.dealt().filter(|receiver| to.contains(receiver));
            let exposed: Vec<_> = to.map(|receiver| main.expose(op.channel(receiver))).collect();
            let from = home.group_at(groups.0.len() - distance);
            let relay = from[before % from.len()];
            main.visit(op.channel(relay), |theirs| {
                for (at, sender) in (before - before % from.len()..).zip(from) {
                    let own = some(op.output_from(*sender), &round);
                    let block = if *sender == relay {
                        shared.block(op.rank(), round.len())
                    } else {
                        relayed.block(at as u32, round.len())
                    };
                    main.read(theirs.at(block.slice(..own.len())), own);
                }
            });
            exposed.into_iter().for_each(|exposed| main.reclaim(exposed));
            before += from.len();
        }
        let own = some(op.output_from(op.rank()), &round);
        main.copy(shared.block(op.rank(), round.len()).slice(..own.len()), own);
    }
}

/// Returns the number of elements of a round that rank `from` has for rank `to`.
fn length(op: &Recorder<'_>, from: u32, to: u32, round: &Range<usize>) -> usize {
    let Goal::AllToAllV { counts } = op.goal() else { return round.len() };
    let count = counts.get(from as usize).and_then(|row| row.get(to as usize));
    let count = count.map_or(0, |count| usize::try_from(*count).unwrap_or(usize::MAX));
    round.end.min(count) - round.start.min(count)
}

/// The group of this rank, and its place among all groups.
struct HomeGroup<'o, 'r> {
    groups: &'o [Vec<u32>],
    group: usize,
    team: Team<'o, 'r>,
    ranks: u32,
}

impl<'o, 'r> HomeGroup<'o, 'r> {
    /// Returns the group of this rank. If the groups are not a division of the ranks, it refuses
    /// the setting and returns `None`.
    #[track_caller]
    fn of(op: &'o Recorder<'r>, groups: &'o Groups) -> Option<Self> {
        if !groups.divide(op.ranks()) {
            op.refuse(format!(
                "the groups are not a division of {} ranks: {:?}; put each rank into one of them",
                op.ranks(),
                groups.0
            ));
            return None;
        }
        let group = groups.0.iter().position(|group| group.contains(&op.rank()))?;
        let team = Team::of(op, &groups.0[group]);
        Some(HomeGroup { groups: &groups.0, group, team, ranks: op.ranks() })
    }

    /// Returns the index of a rank's group, and the place of the rank in the group.
    fn place_of(&self, rank: u32) -> (usize, u32) {
        let places = self.groups.iter().map(|group| group.iter().position(|other| *other == rank));
        let place = places.enumerate().find_map(|(group, place)| Some((group, place? as u32)));
        place.unwrap_or_default()
    }

    fn place(&self) -> usize {
        self.team.member as usize
    }

    /// Returns the ranks of the group that is `distance` places after this rank's group in the ring
    /// of groups.
    fn group_at(&self, distance: usize) -> &'o [u32] {
        &self.groups[(self.group + distance) % self.groups.len()]
    }

    /// Returns the ranks of another group for which this rank is responsible. The members of this
    /// rank's group take the ranks of the other group in turn.
    fn shared_out(&self, group: &'o [u32]) -> impl Iterator<Item = u32> + use<'o> {
        group.iter().copied().skip(self.place()).step_by(self.team.size() as usize)
    }

    /// Returns the receivers in other groups for which this rank is responsible: it collects the
    /// elements that its group has for them. The members of this rank's group take the ranks of all
    /// other groups in turn, beginning with the next group.
    fn dealt(&self) -> impl Iterator<Item = u32> {
        let others = (1..self.groups.len()).flat_map(|distance| self.group_at(distance));
        others.copied().skip(self.place()).step_by(self.team.size() as usize)
    }

    /// Returns the blocks of all ranks for which a member of this group is responsible, including
    /// the member itself.
    fn share(&self, member: u32, shared: LocalBuffer<'r>) -> impl Iterator<Item = LocalBuffer<'r>> {
        let (size, ranks) = (self.team.size() as usize, self.ranks);
        let all = self.groups.iter();
        let dealt = all.flat_map(move |group| group.iter().skip(member as usize).step_by(size));
        dealt.map(move |rank| shared.part(*rank, ranks))
    }
}
