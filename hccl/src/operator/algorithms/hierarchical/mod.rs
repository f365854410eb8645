//! Hierarchical: within groups and between them, one after the other.
//!
//! For ranks whose links differ: fast ones within a server, slower ones between servers. Only the
//! part that a rank is left with after its group has summed up, or the part that its group does not
//! have yet, crosses between groups. In an all-to-all everything crosses, in fewer messages. Groups
//! may be of any sizes (AHC, asymmetric hierarchical concatenation): where the parts of two groups
//! do not coincide, each rank talks to all in the other group whose parts overlap its own.

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
    /// Makes groups of these ranks. Every rank of the operator must be in one of them.
    pub fn new(groups: impl IntoIterator<Item = Vec<u32>>) -> Self {
        Groups(groups.into_iter().filter(|group| !group.is_empty()).collect())
    }

    /// Makes groups of `size` consecutive ranks each, like the cards of servers; the last group has
    /// the ranks that are left.
    pub fn of_size(ranks: u32, size: u32) -> Self {
        let starts = (0..ranks).step_by(size.max(1) as usize);
        Groups::new(
            starts.map(|start| (start..ranks.min(start.saturating_add(size.max(1)))).collect()),
        )
    }

    /// Returns the groups.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Whether each of `ranks` ranks is in one group, once.
    fn divide(&self, ranks: u32) -> bool {
        let mut all: Vec<u32> = self.0.iter().flatten().copied().collect();
        all.sort_unstable();
        all.into_iter().eq(0..ranks)
    }
}

/// AllReduce: within each group, between groups, within each group. G groups of m ranks take 2(log2
/// m + log2 G) steps.
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

/// ReduceScatter: within each group, then between groups. G groups of m ranks take log2 m + G-1
/// steps.
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

/// AllGather: between groups, then within each group. G groups of m ranks take G-1 + log2 m steps.
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

/// Broadcast: the root scatters parts in its group, they double from group to group, and each group
/// gathers them. G groups of m ranks take 2 log2 m + log2 G steps.
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

/// Reduce: within each group, then halving from group to group, then within the group of the root.
/// G groups of m ranks take 2 log2 m + log2 G steps.
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

/// Scatter: the root gives each group's blocks to one member of it, which scatters them there. G
/// groups of m ranks take log2 G + log2 m steps.
pub fn scatter(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let (count, root) = (groups.0.len(), home.place_of(op.root()));
    // The rank that has the place of the root in a group.
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

/// AlltoAll and AlltoAllV: blocks for other groups go to the member that is responsible for the
/// receiver, and the receiver gets them from there. G groups of m ranks take m-1 + G-1 steps, one
/// message from a rank to each other group. Of blocks of n elements in all, a rank sends ((m-1)/m +
/// (G-1)/G) n.
pub fn all_to_all(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    let Some(home) = HomeGroup::of(op, groups) else { return };
    let (ranks, size) = (op.ranks() as usize, home.team.size());
    for round in op.rounds(op.buffer().len() / (2 * ranks)) {
        let shared = op.buffer().slice(..ranks * round.len());
        // For each receiver that is dealt to this rank, the elements that the members have for it.
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
        // The index of this rank among those behind the group that it visits.
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

/// The number of elements of a round that one rank has for another.
fn length(op: &Recorder<'_>, from: u32, to: u32, round: &Range<usize>) -> usize {
    let Goal::AllToAllV { counts } = op.goal() else { return round.len() };
    let count = counts.get(from as usize).and_then(|row| row.get(to as usize));
    let count = count.map_or(0, |count| usize::try_from(*count).unwrap_or(usize::MAX));
    round.end.min(count) - round.start.min(count)
}

/// The group of a rank.
struct HomeGroup<'o, 'r> {
    groups: &'o [Vec<u32>],
    group: usize,
    team: Team<'o, 'r>,
    ranks: u32,
}

impl<'o, 'r> HomeGroup<'o, 'r> {
    /// Returns `None` if the groups are not a division of the ranks.
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

    /// The group and the place in it of a rank.
    fn place_of(&self, rank: u32) -> (usize, u32) {
        let places = self.groups.iter().map(|group| group.iter().position(|other| *other == rank));
        let place = places.enumerate().find_map(|(group, place)| Some((group, place? as u32)));
        place.unwrap_or_default()
    }

    fn place(&self) -> usize {
        self.team.member as usize
    }

    /// The ranks of the group `distance` places behind this one.
    fn group_at(&self, distance: usize) -> &'o [u32] {
        &self.groups[(self.group + distance) % self.groups.len()]
    }

    /// The ranks of another group for which this rank is responsible: the members of a group deal
    /// them out in turn.
    fn shared_out(&self, group: &'o [u32]) -> impl Iterator<Item = u32> + use<'o> {
        group.iter().copied().skip(self.place()).step_by(self.team.size() as usize)
    }

    /// The ranks of other groups to which this rank hands the elements that its group has for them.
    /// The members deal out all of them in turn, the next group first.
    fn dealt(&self) -> impl Iterator<Item = u32> {
        let others = (1..self.groups.len()).flat_map(|distance| self.group_at(distance));
        others.copied().skip(self.place()).step_by(self.team.size() as usize)
    }

    /// The blocks of all ranks for which a member of this group is responsible, itself among them.
    fn share(&self, member: u32, shared: LocalBuffer<'r>) -> impl Iterator<Item = LocalBuffer<'r>> {
        let (size, ranks) = (self.team.size() as usize, self.ranks);
        let all = self.groups.iter();
        let dealt = all.flat_map(move |group| group.iter().skip(member as usize).step_by(size));
        dealt.map(move |rank| shared.part(*rank, ranks))
    }
}
