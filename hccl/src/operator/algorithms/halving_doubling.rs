//! Recursive halving and doubling. In each step of halving, two ranks divide the elements that they
//! still have in common, and each continues with one half. Doubling is the reverse: in each step
//! two ranks exchange the elements that they have, so that both have twice as many.
//!
//! For p ranks it takes log2 p steps where a [ring](super::ring) takes p-1, and it does not move
//! more data. The number of ranks that halve and double must be a power of two. If p is not a power
//! of two, some ranks first *fold* into a neighbour: the neighbour takes over their elements. This
//! costs one step and moves all of their data.

use super::{doublings, load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder, RemoteBuffer};

/// Records an AllReduce in 2 log2 p steps, with log2 p rounded down. It takes two more steps if p
/// is not a power of two.
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

/// Records a ReduceScatter in log2 p steps, rounded down, and two more if p is not a power of two.
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

/// Records an AllGather in log2 p steps, rounded down, and two more if p is not a power of two.
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

/// Records a Reduce in 2 log2 p steps, with log2 p rounded down. It takes one more step if p is
/// not a power of two. First each rank that halves sums up one part. Then the parts are gathered at
/// the root, twice as many elements in each step.
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

/// Records a Broadcast in log2 p steps, rounded up. In each step the number of ranks that have the
/// elements doubles.
pub fn broadcast(op: &Recorder<'_>, main: &mut MainThread<'_>) {
    let ranks = op.ranks();
    // The number of places from the root forward to this rank in the ring of ranks.
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

/// A division of the ranks into *places*, whose number is a power of two. Each place has one rank
/// or two consecutive ranks, and the places with two ranks are spread evenly.
struct Pairs<'o, 'r> {
    op: &'o Recorder<'r>,
    /// The number of places.
    count: u32,
    /// The place of this rank.
    place: u32,
    /// The rank that must lead its place even if it is not the first rank there, for example a
    /// root.
    first: Option<u32>,
}

impl<'o, 'r> Pairs<'o, 'r> {
    fn of(op: &'o Recorder<'r>, first: Option<u32>) -> Self {
        let count = 1 << op.ranks().ilog2();
        let mut pairs = Pairs { op, count, place: 0, first };
        pairs.place = pairs.place_of(op.rank());
        pairs
    }

    /// Returns the place of a rank.
    fn place_of(&self, rank: u32) -> u32 {
        ((u64::from(rank) + 1) * u64::from(self.count)).div_ceil(u64::from(self.op.ranks())) as u32
            - 1
    }

    /// Returns the first rank of a place.
    fn first(&self, place: u32) -> u32 {
        (u64::from(place) * u64::from(self.op.ranks()) / u64::from(self.count)) as u32
    }

    /// Returns the leader of a place: the rank that halves and doubles for the place.
    fn leader(&self, place: u32) -> u32 {
        match self.first {
            Some(first) if self.place_of(first) == place => first,
            _ => self.first(place),
        }
    }

    fn leads(&self) -> bool {
        self.leader(self.place) == self.op.rank()
    }

    /// Returns the other rank of this rank's place, if there is one.
    fn partner(&self) -> Option<u32> {
        let mut both = self.first(self.place)..self.first(self.place + 1);
        both.find(|rank| *rank != self.op.rank())
    }

    /// Calls `body` on the leader of a place of two ranks, with the other rank and its buffer. The
    /// other rank lends its buffer. Does nothing in a place of one rank.
    fn fold(&self, main: &MainThread<'_>, body: impl FnOnce(u32, RemoteBuffer<'_>)) {
        if let Some(partner) = self.partner() {
            let channel = self.op.channel(partner);
            match self.leads() {
                true => main.visit(channel, |theirs| body(partner, theirs)),
                false => main.lend(channel),
            }
        }
    }

    /// Lets the rank that does not lead its place read its share of the result from the leader.
    /// Does nothing in a place of one rank.
    fn unfold(&self, main: &MainThread<'_>, share: LocalBuffer<'_>) {
        if let Some(partner) = self.partner() {
            let channel = self.op.channel(partner);
            match self.leads() {
                true => main.lend(channel),
                false => main.visit(channel, |theirs| main.read(theirs.at(share), share)),
            }
        }
    }

    /// Halves the elements of the leaders, and sums them up, until each leader has the sum for its
    /// own place. `span` returns the part of the buffer that belongs to a range of places.
    fn halve(&self, main: &MainThread<'_>, span: impl Fn(u32, u32) -> LocalBuffer<'r>) {
        for half in doublings(self.count).rev().filter(|_| self.leads()) {
            let channel = self.op.channel(self.leader(self.place ^ half));
            let start = self.place / half * half;
            let mine = span(start, start + half);
            main.exchange(channel, channel, |theirs| main.read_reduce(theirs.at(mine), mine));
        }
    }

    /// Doubles the elements of the leaders until each leader has all of them: in each step a leader
    /// reads the elements of another leader.
    fn double(&self, main: &MainThread<'_>, span: impl Fn(u32, u32) -> LocalBuffer<'r>) {
        for half in doublings(self.count).filter(|_| self.leads()) {
            let other = self.place ^ half;
            let channel = self.op.channel(self.leader(other));
            let start = other / half * half;
            let others = span(start, start + half);
            main.exchange(channel, channel, |theirs| main.read(theirs.at(others), others));
        }
    }

    /// Gathers the elements of all leaders at the root. The steps are those of
    /// [`double`](Self::double), but elements move only towards the root.
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
