//! Pipeline: blocks move around a ring of servers, while the blocks of the previous step are passed
//! on within each server.
//!
//! The links between servers and the links within servers are busy at the same time. With q servers
//! it takes q steps. All servers have the same number of cards, and `cards` consecutive ranks are
//! one server. Cards of the same number form a ring over the servers, and the cards of one server
//! form a mesh. The slower of the two kinds of links decides the time.

use super::{load_blocks, store_blocks};
use crate::operator::{LocalBuffer, MainThread, Recorder, RemoteBuffer, Thread};

/// Records an AllReduce in 2q steps.
pub fn all_reduce(op: &Recorder<'_>, main: &mut MainThread<'_>, cards: u32) {
    let Some(grid) = Grid::of(op, cards) else { return };
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / (2 * ranks) * ranks) {
        let shared = op.buffer().slice(..round.len());
        main.copy(op.input().slice(round.clone()), shared);
        grid.reduce_parts(main, shared);
        grid.gather_parts(main, shared);
        main.copy(shared, op.output().slice(round));
    }
}

/// Records a ReduceScatter in q steps.
pub fn reduce_scatter(op: &Recorder<'_>, main: &mut MainThread<'_>, cards: u32) {
    let Some(grid) = Grid::of(op, cards) else { return };
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / (2 * ranks)) {
        let shared = op.buffer().slice(..ranks * round.len());
        load_blocks(op, main, &round, shared);
        grid.reduce_parts(main, shared);
        main.copy(shared.part(op.rank(), op.ranks()), op.output().slice(round));
    }
}

/// Records an AllGather in q steps.
pub fn all_gather(op: &Recorder<'_>, main: &mut MainThread<'_>, cards: u32) {
    let Some(grid) = Grid::of(op, cards) else { return };
    let ranks = op.ranks() as usize;
    for round in op.rounds(op.buffer().len() / ranks) {
        let shared = op.buffer().slice(..ranks * round.len());
        main.copy(op.input().slice(round.clone()), shared.part(op.rank(), op.ranks()));
        grid.gather_parts(main, shared);
        store_blocks(op, main, shared, &round);
    }
}

/// The ranks as servers, each with the same number of cards, and the position of this rank.
struct Grid<'o, 'r> {
    op: &'o Recorder<'r>,
    cards: u32,
    servers: u32,
    card: u32,
    server: u32,
}

impl<'o, 'r> Grid<'o, 'r> {
    /// Returns the grid. If the ranks do not fill the servers, it refuses the setting and returns
    /// `None`.
    #[track_caller]
    fn of(op: &'o Recorder<'r>, cards: u32) -> Option<Self> {
        let (rank, ranks) = (op.rank(), op.ranks());
        if cards == 0 || !ranks.is_multiple_of(cards) {
            op.refuse(format!(
                "{ranks} ranks do not fill servers of {cards} cards: give a number that divides {ranks}"
            ));
            return None;
        }
        Some(Grid { op, cards, servers: ranks / cards, card: rank % cards, server: rank / cards })
    }

    /// Returns the rank of a card of the server that is `servers_before` places before this server.
    fn rank(&self, card: u32, servers_before: u32) -> u32 {
        let server = (self.server + self.servers - servers_before % self.servers) % self.servers;
        server * self.cards + card
    }

    /// Records q steps after which part r of rank r is the sum of part r of all ranks. In each step
    /// a rank sums up the parts that its server has for one rank, whose card has the same number as
    /// its own. Then it adds the sum of the previous servers. In the last step that rank is the
    /// rank itself.
    fn reduce_parts(&self, main: &mut MainThread<'_>, shared: LocalBuffer<'_>) {
        let ranks = self.op.ranks();
        for k in 0..self.servers {
            let part = shared.part(self.rank(self.card, k + 1), ranks);
            let slots = self.op.buffer().slice(shared.len()..);
            // There is a slot for each card. The slot of the own card gets the sum of the previous
            // servers.
            let slot = |card| slots.block(card, part.len());
            self.step(main, k > 0, true, |thread, peer, theirs| {
                thread.read(theirs.at(part), slot(peer % self.cards));
            });
            let came = (0..self.cards).filter(|card| k > 0 || *card != self.card);
            came.for_each(|card| main.reduce(slot(card), part));
        }
    }

    /// Records q steps after which all ranks have part r of each rank r. In step k the ranks of a
    /// server share the parts that they got in the previous step.
    fn gather_parts(&self, main: &mut MainThread<'_>, shared: LocalBuffer<'_>) {
        for k in 0..self.servers {
            self.step(main, k + 1 < self.servers, self.cards > 1, |thread, peer, theirs| {
                let card = peer % self.cards;
                let behind = if card == self.card { k + 1 } else { k };
                let part = shared.part(self.rank(card, behind), self.op.ranks());
                thread.read(theirs.at(part), part);
            });
        }
    }

    /// Visits the card of the same number in the previous server (`between`), and all other cards
    /// of this server (`within`). Each visit has its own thread, which also lends the buffer of
    /// this rank.
    fn step(
        &self,
        main: &mut MainThread<'_>,
        between: bool,
        within: bool,
        body: impl Fn(&Thread<'_>, u32, RemoteBuffer<'_>),
    ) {
        let op = self.op;
        main.fork(self.cards, |threads| {
            let mates = (1..self.cards).filter(|_| within);
            for (thread, distance) in threads.iter().skip(1).zip(mates) {
                let mate = op.channel(self.rank((self.card + distance) % self.cards, 0));
                thread.exchange(mate, mate, |theirs| body(&thread, mate.peer(), theirs));
            }
            if between {
                let main = threads.get(0);
                let next = op.channel(self.rank(self.card, self.servers - 1));
                let before = op.channel(self.rank(self.card, 1));
                main.exchange(next, before, |theirs| body(&main, before.peer(), theirs));
            }
        });
    }
}
