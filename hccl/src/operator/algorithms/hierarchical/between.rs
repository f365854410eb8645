//! Between groups: where the parts of two groups do not coincide, ranks talk to all whose parts
//! overlap their own.

use std::ops::Range;

use super::doublings;
use crate::operator::{Channel, LocalBuffer, MainThread, Recorder, RemoteBuffer, Thread};

/// The part of a rank in the exchange with other groups.
pub(super) struct Between<'o, 'r> {
    op: &'o Recorder<'r>,
    groups: &'o [Vec<u32>],
    /// The group of this rank.
    group: usize,
    shared: LocalBuffer<'r>,
    /// The part of this rank.
    own: Range<usize>,
    /// The elements of the part, divided into stretches that no group cuts.
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

    /// Every group sums up a slice of each stretch: the steps of [`nb`](super::nb), among groups.
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

    /// Every group gets the other groups' slices of each stretch.
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

    /// All groups get the stretches of one of them: twice as many have them after each step.
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

    /// One group gets the sums of the stretches of all: half as many have something to give after
    /// each step.
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

    /// The group `distance` places ahead.
    fn ahead(&self, distance: usize) -> usize {
        (self.group + distance) % self.groups.len()
    }

    /// Lends to the group `to` places ahead, visits the one `from` places ahead, and does something
    /// with each stretch that is common to both. It takes a thread for each rank of a group whose
    /// part overlaps the own one.
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

    /// The ranks of the group `ahead` places ahead whose parts overlap the own one, and these
    /// parts.
    fn neighbours(&self, ahead: Option<usize>) -> Vec<(Channel<'r>, Range<usize>)> {
        let Some(ahead) = ahead else { return Vec::new() };
        let group = &self.groups[self.ahead(ahead)];
        parts_of(self.shared.len(), group)
            .filter(|(_, part)| part.start.max(self.own.start) < part.end.min(self.own.end))
            .map(|(rank, part)| (self.op.channel(rank), part))
            .collect()
    }
}

/// The ranks of a group, and the part of each in `elements` elements.
fn parts_of(elements: usize, group: &[u32]) -> impl Iterator<Item = (u32, Range<usize>)> {
    let cut = move |place: usize| (elements as u128 * place as u128 / group.len() as u128) as usize;
    group.iter().enumerate().map(move |(place, rank)| (*rank, cut(place)..cut(place + 1)))
}
