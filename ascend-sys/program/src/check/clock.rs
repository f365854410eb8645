//! What a core knows of the others: a vector clock that cores share for as long as they have nothing of their own to add.

use std::rc::Rc;

/// For each core, up to which of its steps what it did is known to be done; and for each server, how many turns.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    core: usize,
    own: u32,
    others: Rc<[u32]>,
}

impl Clock {
    /// At the start of a kernel with so many cores and servers.
    pub(super) fn new(core: usize, start: &Rc<[u32]>) -> Self {
        Clock { core, own: 0, others: Rc::clone(start) }
    }

    /// The core does something that others may have to wait for; its number.
    pub(super) fn tick(&mut self) -> u32 {
        self.own += 1;
        self.own
    }

    /// Learns that a server has finished so many turns.
    pub(super) fn hear(&mut self, server: usize, turns: u32) {
        if self.others[server] < turns {
            let mut others = self.others.to_vec();
            others[server] = turns;
            self.others = others.into();
        }
    }

    /// Up to which of its steps a core's work is known here.
    pub(super) fn of(&self, core: usize) -> u32 {
        if core == self.core { self.own } else { self.others[core] }
    }

    /// All that any of these knows.
    pub(super) fn join(clocks: &[Clock]) -> Option<Rc<[u32]>> {
        let mut different: Vec<&Rc<[u32]>> = Vec::new();
        for clock in clocks {
            // Barriers leave all with the same, so this list is short.
            if !different.iter().any(|known| Rc::ptr_eq(known, &clock.others)) {
                different.push(&clock.others);
            }
        }
        let mut joined: Vec<u32> = different.first()?.to_vec();
        for known in &different[1..] {
            joined.iter_mut().zip(known.iter()).for_each(|(a, b)| *a = (*a).max(*b));
        }
        for clock in clocks {
            joined[clock.core] = joined[clock.core].max(clock.own);
        }
        Some(joined.into())
    }

    /// Learns what has been joined.
    pub(super) fn learn(&mut self, joined: &Rc<[u32]>) {
        let knows = self.others.iter().zip(joined.iter()).all(|(a, b)| a <= b);
        if knows {
            self.others = Rc::clone(joined);
        } else {
            self.others = self.others.iter().zip(joined.iter()).map(|(a, b)| *a.max(b)).collect();
        }
    }
}
