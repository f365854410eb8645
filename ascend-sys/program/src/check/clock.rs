//! Vector clocks: the knowledge that the units of a core have of each other and of other cores.
//!
//! # Terms
//!
//! * A *unit* executes its instructions at the same time as the other units of its core ([`Unit`]).
//!   The scalar unit issues the instructions in the order of the kernel.
//! * A *tick* of a unit counts its releases: the work between two releases has the number of the
//!   later release.
//! * A *clock* is the knowledge of a unit or a core. For each unit of each core, it has the tick up
//!   to which the work of that unit is done. For each server, it has the number of turns that are
//!   done.
//!
//! # Rules
//!
//! 1. An instruction has the knowledge of its unit, and the knowledge that the scalar unit had when
//!    it issued the instruction.
//! 2. A read of the scalar unit itself is known to be done. A write of it is not: like the work of
//!    any other unit, it is known to be done only after a wait.
//! 3. A vector operation comes after the vector operation before it: the printed source has a
//!    barrier between two that touch the same memory. The work of the scalar unit is ordered too. A
//!    copy does not wait for the copy before it.
//! 4. A unit that waits for a release gets the knowledge of the releasing unit, including the
//!    released work.
//!
//! Units share the ticks of other cores until a unit has something to add to them.

use std::rc::Rc;

use crate::step::Pipe;

/// A unit of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// The scalar unit as it issues instructions, reads single elements, calls the client, and
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

/// The tick of each unit of a core up to which its work is known to be done.
pub(super) type Ticks = [u32; UNITS.len()];

impl Unit {
    /// Returns the unit of a pipe, or `None` if the pipe stands for all units.
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

    /// Returns whether the work of the unit comes after its earlier work (rule 3).
    pub(super) fn in_order(self) -> bool {
        !matches!(self, Unit::In | Unit::Out)
    }

    /// Returns whether this is the scalar unit, whose reads and writes come one after the other.
    pub(super) fn is_scalar(self) -> bool {
        matches!(self, Unit::Control | Unit::Scalar)
    }

    /// Returns the name of the unit in Ascend C.
    pub(super) fn name(self) -> &'static str {
        match self {
            Unit::Control | Unit::Scalar => "S",
            Unit::Vector => "V",
            Unit::In => "MTE2",
            Unit::Out => "MTE3",
            Unit::Fix => "FIX",
        }
    }

    /// Returns the name of the unit in a Rust kernel.
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
    /// Returns the tick up to which this clock has knowledge of the work of a unit.
    pub(super) fn of(&self, core: usize, unit: Unit) -> u32 {
        let ticks = if core == self.core { &self.own } else { &self.others[core] };
        ticks[unit as usize]
    }

    /// Returns the core whose unit has this clock.
    pub(super) fn core(&self) -> usize {
        self.core
    }

    /// Returns the number of turns that a server is known to have finished.
    pub(super) fn turns(&self, server: usize) -> u32 {
        self.others[server][0]
    }

    /// Adds the knowledge that a server has finished `turns` turns.
    pub(super) fn hear(&mut self, server: usize, turns: u32) {
        if self.turns(server) < turns {
            let mut others = self.others.to_vec();
            others[server][0] = turns;
            self.others = others.into();
        }
    }

    /// Joins clocks. The result has the knowledge of all of them.
    pub(super) fn join(clocks: &[Clock]) -> Option<Rc<[Ticks]>> {
        let mut different: Vec<&Rc<[Ticks]>> = Vec::new();
        for clock in clocks {
            // After a barrier all clocks share one list, so this list is short.
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

    /// Adds the knowledge of a joined clock.
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

    /// Adds the knowledge of a unit of the same core.
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
    /// The clock of each unit. The reads and writes of the scalar unit both use the clock of
    /// `Control`.
    clocks: [Clock; UNITS.len()],
}

impl Units {
    /// Returns the clocks at the start of a kernel. `start` has the ticks of all its cores and
    /// servers.
    pub(super) fn new(core: usize, start: &Rc<[Ticks]>) -> Self {
        let clock = Clock { core, own: Ticks::default(), others: Rc::clone(start) };
        Units { ticks: Ticks::default(), clocks: std::array::from_fn(|_| clock.clone()) }
    }

    /// Gives an instruction to a unit. Returns the knowledge of the instruction, and the tick of
    /// its work.
    pub(super) fn give(&mut self, unit: Unit) -> (&Clock, u32) {
        let control = &self.clocks[Unit::Control as usize];
        let (mut known, passed) = (control.clone(), self.ticks[Unit::Control as usize]);
        known.own[Unit::Control as usize] = passed;
        let clock = &mut self.clocks[unit as usize];
        clock.follow(&known);
        (clock, self.ticks[unit as usize] + 1)
    }

    /// Releases all work that a unit has been given so far. Returns the clock that a waiter gets.
    pub(super) fn release(&mut self, unit: Unit) -> Clock {
        self.give(unit);
        self.ticks[unit as usize] += 1;
        let mut clock = self.clocks[unit as usize].clone();
        clock.own[unit as usize] = self.ticks[unit as usize];
        clock
    }

    /// Makes a unit wait for a release on the same core.
    pub(super) fn acquire(&mut self, unit: Unit, released: &Clock) {
        // The scalar unit waits before it issues any other instruction.
        let unit = if unit == Unit::Scalar { Unit::Control } else { unit };
        self.clocks[unit as usize].follow(released);
    }

    /// Makes all units wait for all units (`PipeBarrier<PIPE_ALL>`). Returns the clock afterwards.
    pub(super) fn meet(&mut self) -> Clock {
        let all = UNITS.map(|unit| self.release(unit));
        let mut known = all[0].clone();
        all.iter().for_each(|clock| known.follow(clock));
        self.clocks.iter_mut().for_each(|clock| clock.follow(&known));
        known
    }

    /// Begins a call of the client. Returns the clock of the scalar unit, including its own work,
    /// and its tick.
    pub(super) fn call(&mut self) -> (Clock, u32) {
        self.ticks[Unit::Scalar as usize] += 1;
        let mut clock = self.release(Unit::Control);
        clock.own[Unit::Scalar as usize] = self.ticks[Unit::Scalar as usize];
        (clock, self.ticks[Unit::Control as usize])
    }

    /// Returns whether all later instructions of every unit come after this work.
    pub(super) fn all_know(&self, unit: Unit, tick: u32) -> bool {
        let core = self.clocks[0].core;
        let control = self.clocks[Unit::Control as usize].of(core, unit) >= tick;
        control
            || UNITS[1..].iter().all(|other| self.clocks[*other as usize].of(core, unit) >= tick)
    }

    /// Returns the core that the clocks belong to.
    pub(super) fn core(&self) -> usize {
        self.clocks[0].core
    }

    /// Returns the clock of the scalar unit, so that a caller can add knowledge to it.
    pub(super) fn control(&mut self) -> &mut Clock {
        &mut self.clocks[Unit::Control as usize]
    }
}
