//! The exchange between groups. If the parts of two groups do not coincide, a rank exchanges with
//! every rank of the other group whose part overlaps its own.

use std::ops::Range;

use super::doublings;
use crate::operator::{Channel, LocalBuffer, MainThread, Recorder, RemoteBuffer, Thread};

/// The data that a rank needs for the exchange with other groups.
pub(super) struct Between<'o, 'r> {
    op: &'o Recorder<'r>,
    groups: &'o [Vec<u32>],
    /// The index of this rank's group.
    group: usize,
    shared: LocalBuffer<'r>,
    /// The range of elements that is this rank's part.
    own: Range<usize>,
    /// The part of this rank, divided into stretches. In every group, each stretch lies within the
    /// part of one rank.
    stretches: Vec<Range<usize>>,
}

impl<'o, 'r> Between<'o, 'r> {
    pub(super) fn of(
        op: &'o Recorder<'r>,
        groups: &'o [Vec<u32>],
        group: usize,
        shared: LocalBuffer<'r>,
    ) -> Self {
        let parts = |group: &'o Vec<u32>| parts_of(shared.len(), group);
        let own = parts(&groups[group]).find(|(rank, _)| *rank == op.rank());
        let own = own.map(|(_, part)| part).unwrap_or_default();
        let starts = groups.iter().flat_map(parts).map(|(_, part)| part.start);
        let mut cuts: Vec<usize> = starts.filter(|cut| own.contains(cut)).collect();
        cuts.push(own.end);
        cuts.sort_unstable();
        cuts.dedup();
        let stretches = cuts.windows(2).map(|ends| ends[0]..ends[1]).collect();
        Between { op, groups, group, shared, own, stretches }
    }

    /// Sums up the stretches of all groups, so that every group has the sum of its own slice of
    /// each stretch. The steps are those of [`nb`](super::nb), but between groups.
    pub(super) fn reduce_slices(&self, main: &mut MainThread<'_>) {
        let groups = self.groups.len();
        for distance in self.distances() {
            self.step(main, Some(distance), Some(groups - distance), |thread, theirs, stretch| {
                for ahead in (0..groups - distance).step_by(2 * distance) {
                    let slice = stretch.part(self.ahead(ahead) as u32, groups as u32);
                    thread.read_reduce(theirs.at(slice), slice);
                }
            });
        }
    }

    /// Copies the slices of each stretch between the groups, so that every group has all slices.
    pub(super) fn gather_slices(&self, main: &mut MainThread<'_>) {
        let groups = self.groups.len();
        for distance in self.distances().rev() {
            self.step(main, Some(groups - distance), Some(distance), |thread, theirs, stretch| {
                for ahead in (distance..groups).step_by(2 * distance) {
                    let slice = stretch.part(self.ahead(ahead) as u32, groups as u32);
                    thread.read(theirs.at(slice), slice);
                }
            });
        }
    }

    /// Copies the stretches of group `from` to all groups. After each step twice as many groups
    /// have them.
    pub(super) fn spread(&self, main: &mut MainThread<'_>, from: usize) {
        let groups = self.groups.len();
        let behind = (self.group + groups - from) % groups;
        for have in self.distances() {
            let to = (behind < have && behind + have < groups).then_some(have);
            let from = (have..2 * have).contains(&behind).then_some(groups - have);
            self.step(main, to, from, |thread, theirs, stretch| {
                thread.read(theirs.at(stretch), stretch);
            });
        }
    }

    /// Sums up the stretches of all groups, and leaves the sums in group `to`. After each step half
    /// as many groups still have sums to pass on.
    pub(super) fn concentrate(&self, main: &mut MainThread<'_>, to: usize) {
        let groups = self.groups.len();
        let behind = (self.group + groups - to) % groups;
        for have in self.distances().rev() {
            let to = (have..2 * have).contains(&behind).then_some(groups - have);
            let from = (behind < have && behind + have < groups).then_some(have);
            self.step(main, to, from, |thread, theirs, stretch| {
                thread.read_reduce(theirs.at(stretch), stretch);
            });
        }
    }

    fn distances(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        doublings(self.groups.len() as u32).map(|distance| distance as usize)
    }

    /// Returns the index of the group `distance` places ahead in the ring of groups.
    fn ahead(&self, distance: usize) -> usize {
        (self.group + distance) % self.groups.len()
    }

    /// Lends the buffer to the group `to` places ahead, and visits the group `from` places ahead.
    /// Calls `body` with each stretch that this rank has in common with the visited rank. Each rank
    /// whose part overlaps the part of this rank is visited on a separate thread.
    fn step(
        &self,
        main: &mut MainThread<'_>,
        to: Option<usize>,
        from: Option<usize>,
        body: impl Fn(&Thread<'_>, &RemoteBuffer<'_>, LocalBuffer<'_>),
    ) {
        let [to, from] = [to, from].map(|group| self.neighbours(group));
        main.fork(to.len().max(from.len()) as u32, |threads| {
            for (at, thread) in threads.iter().enumerate() {
                let (to, from) = (to.get(at).map(|(channel, _)| *channel), from.get(at));
                thread.exchange(to, from.map(|(channel, _)| *channel), |theirs| {
                    let common = from.into_iter().flat_map(|(_, part)| {
                        self.stretches.iter().filter(|stretch| part.contains(&stretch.start))
                    });
                    common.for_each(|stretch| {
                        body(&thread, &theirs, self.shared.slice(stretch.clone()));
                    });
                });
            }
        });
    }

    /// Returns the ranks of the group `ahead` places ahead whose parts overlap the part of this
    /// rank: the channel to each rank, and its part.
    fn neighbours(&self, ahead: Option<usize>) -> Vec<(Channel<'r>, Range<usize>)> {
        let Some(ahead) = ahead else { return Vec::new() };
        let group = &self.groups[self.ahead(ahead)];
        parts_of(self.shared.len(), group)
            .filter(|(_, part)| part.start.max(self.own.start) < part.end.min(self.own.end))
            .map(|(rank, part)| (self.op.channel(rank), part))
            .collect()
    }
}

/// Returns the ranks of a group, each with its part of `elements` elements.
fn parts_of(elements: usize, group: &[u32]) -> impl Iterator<Item = (u32, Range<usize>)> {
    let cut = move |place: usize| (elements as u128 * place as u128 / group.len() as u128) as usize;
    group.iter().enumerate().map(move |(place, rank)| (*rank, cut(place)..cut(place + 1)))
}
