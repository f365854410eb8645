//! Recursive halving and doubling: in every step a rank shares the remaining elements with one
//! other, and each goes on with one half of them.
//!
//! log2 p steps, where a [ring](super::ring) takes p-1, and no more data. It wants a power of two
//! of ranks. With any other number some ranks *fold* into a neighbour first, which costs a step and
//! all of their data.

use super::{doublings, load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder, RemoteBuffer};

/// AllReduce in 2 log2 p steps, and two more when p is no power of two.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let pairs = Pairs::of(op, None);
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        pairs.fold(main, |_, theirs| main.read_reduce(theirs.at(shared), shared));
        pairs.halve(main, |from, to| shared.parts(from..to, pairs.count));
        pairs.double(main, |from, to| shared.parts(from..to, pairs.count));
        pairs.unfold(main, shared);
        main.copy(shared, op.output().slice(round));
    }
}

/// ReduceScatter in log2 p steps, and two more when p is no power of two.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let (pairs, ranks) = (Pairs::of(op, None), op.ranks());
    for round in op.rounds(op.buffer().len() / ranks as usize) {
        let shared = op.buffer().slice(..ranks as usize * round.len());
        load_blocks(op, main, &round, shared);
        pairs.fold(main, |_, theirs| main.read_reduce(theirs.at(shared), shared));
        pairs.halve(main, |from, to| shared.parts(pairs.first(from)..pairs.first(to), ranks));
        let block = shared.part(op.rank(), ranks);
        pairs.unfold(main, block);
        main.copy(block, op.output().slice(round));
    }
}

/// AllGather in log2 p steps, and two more when p is no power of two.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let (pairs, ranks) = (Pairs::of(op, None), op.ranks());
    for round in op.rounds(op.buffer().len() / ranks as usize) {
        let shared = op.buffer().slice(..ranks as usize * round.len());
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), ranks));
        pairs.fold(main, |partner, theirs| {
            let block = shared.part(partner, ranks);
            main.read(theirs.at(block), block);
        });
        pairs.double(main, |from, to| shared.parts(pairs.first(from)..pairs.first(to), ranks));
        pairs.unfold(main, shared);
        store_blocks(op, main, shared, &round);
    }
}

/// Reduce in 2 log2 p steps, and one more when p is no power of two: each sums up a part, and the
/// parts double on their way to the root.
pub fn reduce(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let pairs = Pairs::of(op, Some(op.root()));
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        pairs.fold(main, |_, theirs| main.read_reduce(theirs.at(shared), shared));
        pairs.halve(main, |from, to| shared.parts(from..to, pairs.count));
        pairs.gather(main, op.root(), |from, to| shared.parts(from..to, pairs.count));
        if op.rank() == op.root() {
            main.copy(shared, op.output().slice(round));
        }
    }
}

/// Broadcast in as many steps as it takes to double one rank to all.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks();
    // The distance of this rank behind the root.
    let distance = (op.rank() + ranks - op.root() % ranks) % ranks;
    for round in op.rounds(op.buffer().len()) {
        let shared = op.buffer().slice(..round.len());
        if distance == 0 {
            main.copy(op.input().slice(round.clone()), shared);
        }
        for have in doublings(ranks) {
            if distance < have && distance + have < ranks {
                main.lend(op.channel(op.peer(have.into())));
            } else if (have..2 * have).contains(&distance) {
                let from = op.channel(op.peer(-i64::from(have)));
                main.visit(from, |theirs| main.read(theirs.at(shared), shared));
            }
        }
        main.copy(shared, op.output().slice(round));
    }
}

/// The ranks as a power of two of *places*, each with one rank or two that follow one another, as
/// even as can be.
struct Pairs<'o, 'r> {
    op: &'o Recorder<'r>,
    /// The number of places.
    count: u32,
    /// The place of this rank.
    place: u32,
    /// The rank that leads in its place whatever its number, if any.
    first: Option<u32>,
}

impl<'o, 'r> Pairs<'o, 'r> {
    fn of(op: &'o Recorder<'r>, first: Option<u32>) -> Self {
        let count = 1 << op.ranks().ilog2();
        let mut pairs = Pairs { op, count, place: 0, first };
        pairs.place = pairs.place_of(op.rank());
        pairs
    }

    fn place_of(&self, rank: u32) -> u32 {
        ((u64::from(rank) + 1) * u64::from(self.count)).div_ceil(u64::from(self.op.ranks())) as u32
            - 1
    }

    /// The first rank of a place.
    fn first(&self, place: u32) -> u32 {
        (u64::from(place) * u64::from(self.op.ranks()) / u64::from(self.count)) as u32
    }

    /// The rank that halves and doubles for a place.
    fn leader(&self, place: u32) -> u32 {
        match self.first {
            Some(first) if self.place_of(first) == place => first,
            _ => self.first(place),
        }
    }

    fn leads(&self) -> bool {
        self.leader(self.place) == self.op.rank()
    }

    /// The other rank of the own place.
    fn partner(&self) -> Option<u32> {
        let mut both = self.first(self.place)..self.first(self.place + 1);
        both.find(|rank| *rank != self.op.rank())
    }

    /// Lets the leader of two do something with the buffer of the other one.
    fn fold(&self, main: &MainThread<'_>, body: impl FnOnce(u32, RemoteBuffer<'_>)) {
        if let Some(partner) = self.partner() {
            let channel = self.op.channel(partner);
            match self.leads() {
                true => main.visit(channel, |theirs| body(partner, theirs)),
                false => main.lend(channel),
            }
        }
    }

    /// Gives the other one of two its share of the result.
    fn unfold(&self, main: &MainThread<'_>, share: LocalBuffer<'_>) {
        if let Some(partner) = self.partner() {
            let channel = self.op.channel(partner);
            match self.leads() {
                true => main.lend(channel),
                false => main.visit(channel, |theirs| main.read(theirs.at(share), share)),
            }
        }
    }

    /// Lets leaders sum up halves of halves, until each has the sum of its own place. `span` is the
    /// buffer of a range of places.
    fn halve(&self, main: &MainThread<'_>, span: impl Fn(u32, u32) -> LocalBuffer<'r>) {
        for half in doublings(self.count).rev().filter(|_| self.leads()) {
            let channel = self.op.channel(self.leader(self.place ^ half));
            let start = self.place / half * half;
            let mine = span(start, start + half);
            main.exchange(channel, channel, |theirs| main.read_reduce(theirs.at(mine), mine));
        }
    }

    /// Lets leaders read the elements of the other half, until each has everything.
    fn double(&self, main: &MainThread<'_>, span: impl Fn(u32, u32) -> LocalBuffer<'r>) {
        for half in doublings(self.count).filter(|_| self.leads()) {
            let other = self.place ^ half;
            let channel = self.op.channel(self.leader(other));
            let start = other / half * half;
            let others = span(start, start + half);
            main.exchange(channel, channel, |theirs| main.read(theirs.at(others), others));
        }
    }

    /// As doubling, but only towards the root.
    fn gather(&self, main: &MainThread<'_>, root: u32, span: impl Fn(u32, u32) -> LocalBuffer<'r>) {
        let distance = self.place ^ self.place_of(root);
        for half in doublings(self.count).filter(|_| self.leads()) {
            let other = self.place ^ half;
            let channel = self.op.channel(self.leader(other));
            let start = other / half * half;
            let others = span(start, start + half);
            if distance % (2 * half) == half {
                main.lend(channel);
            } else if distance.is_multiple_of(2 * half) {
                main.visit(channel, |theirs| main.read(theirs.at(others), others));
            }
        }
    }
}
