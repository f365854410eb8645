//! Hierarchical: within each group first, then between groups, then within each group again.
//!
//! For ranks whose links differ: fast ones within a server, slower ones between servers. What crosses between groups is only what a rank is left with after its
//! group has summed up. Groups may be of any sizes (AHC, asymmetric hierarchical concatenation): where the parts of two groups do not coincide,
//! each talks to all in the other group whose parts overlap its own.

use std::ops::Range;

use super::{Team, doublings, nb};
use crate::operator::{Channel, LocalBuffer, MainThread, Recorder, RemoteBuffer, Thread};

/// A division of all ranks into groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(Vec<Vec<u32>>);

impl Groups {
    /// These ranks form groups. Every rank of the operator must be in one of them.
    pub fn new(groups: impl IntoIterator<Item = Vec<u32>>) -> Self {
        Groups(groups.into_iter().filter(|group| !group.is_empty()).collect())
    }

    /// So many consecutive ranks each, as the cards of servers are; the last group has what is left.
    pub fn of_size(ranks: u32, size: u32) -> Self {
        let starts = (0..ranks).step_by(size.max(1) as usize);
        Groups::new(
            starts.map(|start| (start..ranks.min(start.saturating_add(size.max(1)))).collect()),
        )
    }

    /// The groups.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// Whether each of so many ranks is in one group, once.
    fn divide(&self, ranks: u32) -> bool {
        let mut all: Vec<u32> = self.0.iter().flatten().copied().collect();
        all.sort_unstable();
        all.into_iter().eq(0..ranks)
    }
}

/// AllReduce. Groups of m ranks, of which there are g, take 2(log2 m + log2 g) steps.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>, groups: &Groups) {
    if !groups.divide(op.ranks()) {
        return op.refuse(format!(
            "the groups are not a division of {} ranks: {:?}; put each rank into one of them",
            op.ranks(),
            groups.0
        ));
    }
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        let between = Between::of(op, &groups.0, shared);
        let group = Team::of(op, &groups.0[between.group]);
        main.copy(op.input().slice(round.clone()), shared);
        nb::reduce_parts(&group, main, shared);
        between.reduce_parts(main);
        between.gather_parts(main);
        nb::gather_parts(&group, main, shared);
        main.copy(shared, op.output().slice(round));
    }
}

/// What a rank has to do with other groups.
struct Between<'o, 'r> {
    op: &'o Recorder<'r>,
    groups: &'o [Vec<u32>],
    /// The group of this rank.
    group: usize,
    shared: LocalBuffer<'r>,
    /// The part of this rank.
    own: Range<usize>,
    /// The elements of it that no group cuts.
    stretches: Vec<Range<usize>>,
}

impl<'o, 'r> Between<'o, 'r> {
    fn of(op: &'o Recorder<'r>, groups: &'o [Vec<u32>], shared: LocalBuffer<'r>) -> Self {
        let all = || {
            let parts = groups.iter().enumerate();
            parts.flat_map(|(group, ranks)| {
                let parts = parts_of(shared.len(), ranks);
                parts.map(move |(rank, part)| (group, rank, part))
            })
        };
        let own = all().find(|(_, rank, _)| *rank == op.rank());
        let (group, _, own) = own.unwrap_or_default();
        let within = |cut: &usize| own.contains(cut);
        let mut cuts: Vec<usize> = all().map(|(_, _, part)| part.start).filter(within).collect();
        cuts.push(own.end);
        cuts.sort_unstable();
        cuts.dedup();
        let stretches = cuts.windows(2).map(|ends| ends[0]..ends[1]).collect();
        Between { op, groups, group, shared, own, stretches }
    }

    /// Of each stretch every group sums up a slice.
    fn reduce_parts(&self, main: &mut MainThread<'_>) {
        let groups = self.groups.len();
        for distance in doublings(groups as u32).map(|distance| distance as usize) {
            let slices = (0..groups - distance).step_by(2 * distance);
            self.step(main, distance, groups - distance, slices, |thread, theirs, slice| {
                thread.read_reduce(theirs, slice);
            });
        }
    }

    /// Of each stretch every group gets the slices of the others.
    fn gather_parts(&self, main: &mut MainThread<'_>) {
        let groups = self.groups.len();
        for distance in doublings(groups as u32).rev().map(|distance| distance as usize) {
            let slices = (distance..groups).step_by(2 * distance);
            self.step(main, groups - distance, distance, slices, |thread, theirs, slice| {
                thread.read(theirs, slice);
            });
        }
    }

    /// A step of [`nb`], among groups: lends to the group so many places ahead, visits the one so many places ahead, and does something with some slices. It takes a
    /// thread for each rank of a group whose part overlaps the own one.
    fn step(
        &self,
        main: &mut MainThread<'_>,
        to: usize,
        from: usize,
        slices: impl Iterator<Item = usize> + Clone,
        body: impl Fn(&Thread<'_>, RemoteBuffer<'_>, LocalBuffer<'_>),
    ) {
        let groups = self.groups.len();
        let (to, from) = (self.neighbours(to), self.neighbours(from));
        main.fork(to.len().max(from.len()) as u32, |threads| {
            for (at, thread) in threads.iter().enumerate() {
                let (to, from) = (to.get(at).map(|(channel, _)| *channel), from.get(at));
                thread.exchange(to, from.map(|(channel, _)| *channel), |theirs| {
                    let common = from.into_iter().flat_map(|(_, part)| {
                        self.stretches.iter().filter(|stretch| part.contains(&stretch.start))
                    });
                    for stretch in common {
                        for ahead in slices.clone() {
                            let index = ((self.group + ahead) % groups) as u32;
                            let stretch = self.shared.slice(stretch.clone());
                            let slice = stretch.part(index, groups as u32);
                            body(&thread, theirs.at(slice), slice);
                        }
                    }
                });
            }
        });
    }

    /// The ranks of the group so many places ahead whose parts overlap the own one, and these parts.
    fn neighbours(&self, ahead: usize) -> Vec<(Channel<'r>, Range<usize>)> {
        let group = &self.groups[(self.group + ahead) % self.groups.len()];
        parts_of(self.shared.len(), group)
            .filter(|(_, part)| part.start.max(self.own.start) < part.end.min(self.own.end))
            .map(|(rank, part)| (self.op.channel(rank), part))
            .collect()
    }
}

/// The ranks of a group, and which of so many elements are the part of each.
fn parts_of(elements: usize, group: &[u32]) -> impl Iterator<Item = (u32, Range<usize>)> {
    let cut = move |place: usize| (elements as u128 * place as u128 / group.len() as u128) as usize;
    group.iter().enumerate().map(move |(place, rank)| (*rank, cut(place)..cut(place + 1)))
}
