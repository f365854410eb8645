//! Vector clocks: the knowledge that the units of a core have of each other and of other cores.
//!
//! # Terms
//!
//! * A *unit* works through its instructions beside the other units of its core ([`Unit`]). The
//!   scalar unit gives them out, in the order of the kernel.
//! * A *tick* of a unit counts its releases: the work between two releases has the number of the
//!   later one.
//! * A *clock* is the knowledge of a unit or a core: for each unit of each core, up to which tick
//!   its work is done; for each server, how many turns are.
//!
//! # Rules
//!
//! 1. An instruction has the knowledge of its unit, and that of the scalar unit when it gave the
//!    instruction out.
//! 2. A read of the scalar unit itself is known to be done, but a write of it is not: that takes a
//!    wait, as for any other unit.
//! 3. A vector operation comes after the one before: the printed source has a barrier between those
//!    that touch the same memory. Work of the scalar unit is ordered, too. A copy does not wait for
//!    the copy before it.
//! 4. A unit that waits for a release gets to know it, with all that the releasing unit knew.
//!
//! The numbers of other cores are shared for as long as a unit has nothing to add to them.

use std::rc::Rc;

use crate::step::Pipe;

/// A unit of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// The scalar unit, which gives out instructions, reads single elements, calls the client,
    /// waits for flags and barriers.
    Control,
    /// The writes of single elements by the scalar unit.
    Scalar,
    Vector,
    In,
    Out,
    Fix,
}

pub(super) const UNITS: [Unit; 6] =
    [Unit::Control, Unit::Scalar, Unit::Vector, Unit::In, Unit::Out, Unit::Fix];

/// For each unit of a core, the tick up to which its work is known to be done.
pub(super) type Ticks = [u32; UNITS.len()];

impl Unit {
    /// The unit behind a pipe; none if it is all of them.
    pub(super) fn of(pipe: Pipe) -> Option<Unit> {
        Some(match pipe {
            Pipe::Scalar => Unit::Scalar,
            Pipe::Vector => Unit::Vector,
            Pipe::In => Unit::In,
            Pipe::Out => Unit::Out,
            Pipe::Fix => Unit::Fix,
            Pipe::All => return None,
        })
    }

    /// Whether its work comes after its earlier work (rule 3).
    pub(super) fn in_order(self) -> bool {
        !matches!(self, Unit::In | Unit::Out)
    }

    /// Whether it is the scalar unit, whose reads and writes come one after the other.
    pub(super) fn is_scalar(self) -> bool {
        matches!(self, Unit::Control | Unit::Scalar)
    }

    /// Its name in Ascend C.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Control | Unit::Scalar => "S",
            Unit::Vector => "V",
            Unit::In => "MTE2",
            Unit::Out => "MTE3",
            Unit::Fix => "FIX",
        }
    }

    /// Its name in a Rust kernel.
    pub(super) fn pipe(self) -> &'static str {
        match self {
            Unit::Control | Unit::Scalar => "Pipe::Scalar",
            Unit::Vector => "Pipe::Vector",
            Unit::In => "Pipe::In",
            Unit::Out => "Pipe::Out",
            Unit::Fix => "Pipe::Fix",
        }
    }
}

/// The knowledge of a unit or a core.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    core: usize,
    own: Ticks,
    others: Rc<[Ticks]>,
}

impl Clock {
    /// The tick up to which the work of a unit is known here.
    pub(super) fn of(&self, core: usize, unit: Unit) -> u32 {
        let ticks = if core == self.core { &self.own } else { &self.others[core] };
        ticks[unit as usize]
    }

    /// The core whose unit has this clock.
    pub(super) fn core(&self) -> usize {
        self.core
    }

    /// The number of turns that a server is known to have finished.
    pub(super) fn turns(&self, server: usize) -> u32 {
        self.others[server][0]
    }

    /// Learns that a server has finished `turns` turns.
    pub(super) fn hear(&mut self, server: usize, turns: u32) {
        if self.turns(server) < turns {
            let mut others = self.others.to_vec();
            others[server][0] = turns;
            self.others = others.into();
        }
    }

    /// Joins clocks: the result knows all that any of these knows.
    pub(super) fn join(clocks: &[Clock]) -> Option<Rc<[Ticks]>> {
        let mut different: Vec<&Rc<[Ticks]>> = Vec::new();
        for clock in clocks {
            // After barriers all clocks share one list, so this list is short.
            if !different.iter().any(|known| Rc::ptr_eq(known, &clock.others)) {
                different.push(&clock.others);
            }
        }
        let mut joined: Vec<Ticks> = different.first()?.to_vec();
        for known in &different[1..] {
            joined.iter_mut().zip(known.iter()).for_each(|(a, b)| *a = later(a, b));
        }
        for clock in clocks {
            joined[clock.core] = later(&joined[clock.core], &clock.own);
        }
        Some(joined.into())
    }

    /// Learns a joined clock.
    pub(super) fn learn(&mut self, joined: &Rc<[Ticks]>) {
        self.own = later(&self.own, &joined[self.core]);
        if Rc::ptr_eq(&self.others, joined) {
            return;
        }
        let knows = self.others.iter().zip(joined.iter()).all(|(a, b)| later(a, b) == *b);
        if knows {
            self.others = Rc::clone(joined);
        } else {
            self.others = self.others.iter().zip(joined.iter()).map(|(a, b)| later(a, b)).collect();
        }
    }

    /// Learns the knowledge of a unit of the same core.
    fn follow(&mut self, other: &Clock) {
        self.own = later(&self.own, &other.own);
        if !Rc::ptr_eq(&self.others, &other.others) {
            self.learn(&other.others);
        }
    }
}

fn later(a: &Ticks, b: &Ticks) -> Ticks {
    std::array::from_fn(|unit| a[unit].max(b[unit]))
}

/// The units of one core.
#[derive(Debug)]
pub(super) struct Units {
    ticks: Ticks,
    /// The clock of each unit. That of the scalar unit's reads and writes is the one of `Control`.
    clocks: [Clock; UNITS.len()],
}

impl Units {
    /// The clocks at the start of a kernel, with all its cores and servers.
    pub(super) fn new(core: usize, start: &Rc<[Ticks]>) -> Self {
        let clock = Clock { core, own: Ticks::default(), others: Rc::clone(start) };
        Units { ticks: Ticks::default(), clocks: std::array::from_fn(|_| clock.clone()) }
    }

    /// Gives an instruction to a unit: returns the knowledge of the instruction, and the tick of
    /// its work.
    pub(super) fn give(&mut self, unit: Unit) -> (&Clock, u32) {
        let control = &self.clocks[Unit::Control as usize];
        let (mut known, passed) = (control.clone(), self.ticks[Unit::Control as usize]);
        known.own[Unit::Control as usize] = passed;
        let clock = &mut self.clocks[unit as usize];
        clock.follow(&known);
        (clock, self.ticks[unit as usize] + 1)
    }

    /// Releases all that a unit has been given so far: returns the clock that a waiter gets.
    pub(super) fn release(&mut self, unit: Unit) -> Clock {
        self.give(unit);
        self.ticks[unit as usize] += 1;
        let mut clock = self.clocks[unit as usize].clone();
        clock.own[unit as usize] = self.ticks[unit as usize];
        clock
    }

    /// Lets a unit wait for a release on the same core.
    pub(super) fn acquire(&mut self, unit: Unit, released: &Clock) {
        // The scalar unit waits before it gives out any other instruction.
        let unit = if unit == Unit::Scalar { Unit::Control } else { unit };
        self.clocks[unit as usize].follow(released);
    }

    /// Makes all units wait for all units (`PipeBarrier<PIPE_ALL>`). Returns the clock then.
    pub(super) fn meet(&mut self) -> Clock {
        let all = UNITS.map(|unit| self.release(unit));
        let mut known = all[0].clone();
        all.iter().for_each(|clock| known.follow(clock));
        self.clocks.iter_mut().for_each(|clock| clock.follow(&known));
        known
    }

    /// Begins a call of the client: returns the clock of the scalar unit with its own work, and its
    /// tick.
    pub(super) fn call(&mut self) -> (Clock, u32) {
        self.ticks[Unit::Scalar as usize] += 1;
        let mut clock = self.release(Unit::Control);
        clock.own[Unit::Scalar as usize] = self.ticks[Unit::Scalar as usize];
        (clock, self.ticks[Unit::Control as usize])
    }

    /// Whether all later instructions of any unit come behind this work.
    pub(super) fn all_know(&self, unit: Unit, tick: u32) -> bool {
        let core = self.clocks[0].core;
        let control = self.clocks[Unit::Control as usize].of(core, unit) >= tick;
        control
            || UNITS[1..].iter().all(|other| self.clocks[*other as usize].of(core, unit) >= tick)
    }

    /// The core that the clocks belong to.
    pub(super) fn core(&self) -> usize {
        self.clocks[0].core
    }

    /// The clock of the scalar unit, to add knowledge to it.
    pub(super) fn control(&mut self) -> &mut Clock {
        &mut self.clocks[Unit::Control as usize]
    }
}
