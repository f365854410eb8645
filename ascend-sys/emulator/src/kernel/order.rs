//! An order of units, cores and servers that a seed chooses, for tests: a kernel must work in every
//! order that a chip may choose.
//!
//! Without a seed the units of a core do their instructions in the order of the kernel, when they
//! are given. With a seed they are *pending* from then on, and an instruction is done at any moment
//! after those that it waits for. The same holds where the settings ask a unit or the server to be
//! late, with or without a seed.
//!
//! # Rules
//!
//! They are those of the checker (`ascend_program::check`):
//!
//! 1. An instruction waits for everything that its unit has been made to wait for. The scalar unit
//!    waits before it gives out anything else.
//! 2. Vector operations, results of products and writes of the scalar unit are in order, each among
//!    themselves. Copies are not.
//! 3. The scalar unit reads at once, behind its own writes.
//! 4. A queue hands over from the unit that fills to the one that uses, and back with the buffer
//!    that is freed.
//! 5. A flag between cores is an instruction of its unit, behind all that the unit was given
//!    before. A barrier of cores waits for all units.
//!
//! Local memory holds nothing of use before it is written: a buffer is overwritten with
//! not-a-numbers when it is allocated, and so is the padding of a copied piece.

use super::local::LocalMemory;
use super::world::World;
use crate::machine::Device;
use ascend_program::Core;
use ascend_program::check::Late;
use ascend_program::step::{Pipe, Source};

/// A unit that does instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// The writes of the scalar unit.
    Scalar,
    Vector,
    In,
    Out,
    Fix,
    /// No unit: the overwriting of a buffer when it is allocated. That happens as soon as it may,
    /// so an instruction that waits for the buffer finds it overwritten.
    Decay,
}

const UNITS: usize = 6;

/// The units that can be late.
const LATE: [Unit; 5] = [Unit::In, Unit::Vector, Unit::Out, Unit::Fix, Unit::Scalar];

impl Unit {
    /// Returns the unit of a pipe; `None` means all of them.
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

    fn in_order(self) -> bool {
        !matches!(self, Unit::In | Unit::Out | Unit::Decay)
    }
}

/// For each unit, the number of its instructions that have to be done.
pub(super) type Counts = [u32; UNITS];

fn join(a: &mut Counts, b: &Counts) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(*b));
}

/// The effect of an instruction, when it is done.
pub(super) type Effect = Box<dyn FnOnce(&mut LocalMemory, &mut World) -> Result<(), String> + Send>;

struct Pending {
    unit: Unit,
    /// The number of the instruction in its unit, from 1.
    number: u32,
    needs: Counts,
    source: Source,
    effect: Effect,
}

/// A generator of random numbers, SplitMix64: the seed decides the order of a kernel, in this and
/// in every later release of any crate.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`.
    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }
}

/// The orders that a seed prefers.
#[derive(Clone, Debug)]
pub(super) struct Order {
    random: Random,
    /// A unit whose instructions are done when nothing else can go on.
    late: Option<Unit>,
    /// Instructions are given out before any is done.
    eager: bool,
    /// The kernel is far ahead of its server.
    is_server_late: bool,
    /// The unit or server that was asked to be late.
    asked: Option<Late>,
}

impl Order {
    /// Returns the order for a device, if a seed chooses there, or if the settings ask for
    /// lateness.
    pub(super) fn of(device: &Device) -> Option<Order> {
        let settings = device.settings()?;
        if settings.kernel_seed == 0 && settings.kernel_late.is_none() {
            return None;
        }
        Some(Order::new(settings.kernel_seed, settings.kernel_late, device.id - settings.first))
    }

    /// Every eighth seed is of one kind: without a preference, with one of five units late, with
    /// all of them late, or with a late server.
    fn new(seed: u64, asked: Option<Late>, device: u32) -> Order {
        let random = Random(seed ^ (u64::from(device) << 40));
        let kind = (seed % 8) as usize;
        Order {
            random,
            late: kind.checked_sub(1).and_then(|at| LATE.get(at).copied()),
            eager: kind == 6,
            is_server_late: kind == 7 || asked == Some(Late::Server),
            asked,
        }
    }

    /// Makes the order of one core.
    pub(super) fn fork(&mut self) -> Order {
        let random = Random(self.random.next());
        Order { random, ..self.clone() }
    }

    /// Whether the core's instruction in this line is late.
    fn is_late(&self, (kind, index): (Core, u32), pending: &Pending) -> bool {
        let asked = Late::Line { kind, index, line: pending.source.line };
        self.late == Some(pending.unit) || self.asked == Some(asked)
    }

    /// Whether a server lets the kernel go on first: for long, if the server is to be late.
    pub(super) fn server_hesitates(&mut self) -> bool {
        self.below(if self.is_server_late { 32 } else { 2 }) != 0
    }

    /// Whether the kernel goes on before each turn.
    pub(super) fn is_server_late(&self) -> bool {
        self.is_server_late
    }

    /// True once in `once_in` times, on average.
    pub(super) fn happens(&mut self, once_in: u32) -> bool {
        self.below(once_in as usize) == 0
    }

    pub(super) fn below(&mut self, count: usize) -> usize {
        self.random.below(count.max(1))
    }
}

/// The instructions of a core that are not done yet, and the waits of each unit.
pub(super) struct PendingUnits {
    order: Order,
    /// The core of the instructions: its kind, and its number among that kind.
    core: (Core, u32),
    given: Counts,
    needs: [Counts; UNITS],
    pending: Vec<Pending>,
    /// By queue: the instructions that each enqueued buffer waits for, the oldest first, and those
    /// that each freed buffer waits for.
    queues: Vec<QueueOrder>,
}

#[derive(Default)]
struct QueueOrder {
    filled: std::collections::VecDeque<Counts>,
    freed: Vec<(usize, Counts)>,
}

impl PendingUnits {
    pub(super) fn new(order: Order, core: (Core, u32), queues: usize) -> PendingUnits {
        PendingUnits {
            order,
            core,
            given: Counts::default(),
            needs: [Counts::default(); UNITS],
            pending: Vec::new(),
            queues: (0..queues).map(|_| QueueOrder::default()).collect(),
        }
    }

    pub(super) fn give(&mut self, unit: Unit, source: Source, effect: Effect) {
        let needs = self.needs[unit as usize];
        self.push(unit, needs, source, effect);
    }

    fn push(&mut self, unit: Unit, needs: Counts, source: Source, effect: Effect) {
        self.given[unit as usize] += 1;
        let number = self.given[unit as usize];
        if unit.in_order() {
            self.needs[unit as usize][unit as usize] = number;
        }
        self.pending.push(Pending { unit, number, needs, source, effect });
    }

    /// As [`give`](Self::give), behind everything that the unit was given so far. Without a unit,
    /// behind everything that any unit was given.
    pub(super) fn give_last(&mut self, unit: Option<Unit>, source: Source, effect: Effect) {
        let Some(unit) = unit else {
            let all = self.given;
            self.push(Unit::Fix, all, source, effect);
            return self.needs.iter_mut().for_each(|needs| join(needs, &all));
        };
        let needs = self.all_of(unit);
        self.push(unit, needs, source, effect);
    }

    /// Returns counts that stand for everything that a unit was given so far.
    pub(super) fn all_of(&self, unit: Unit) -> Counts {
        let mut all = self.needs[unit as usize];
        all[unit as usize] = self.given[unit as usize];
        all
    }

    /// Returns counts that stand for everything that any unit was given.
    pub(super) fn all(&self) -> Counts {
        self.given
    }

    /// Makes a unit wait for these; not the scalar unit, which stops itself.
    pub(super) fn acquire(&mut self, unit: Unit, counts: &Counts) {
        join(&mut self.needs[unit as usize], counts);
    }

    pub(super) fn enqueued(&mut self, queue: usize, fills: Unit) {
        let counts = self.all_of(fills);
        self.queues[queue].filled.push_back(counts);
    }

    pub(super) fn dequeued(&mut self, queue: usize, uses: Unit) {
        if let Some(counts) = self.queues[queue].filled.pop_front() {
            self.acquire(uses, &counts);
        }
    }

    pub(super) fn freed(&mut self, queue: usize, buffer: usize, uses: Unit) {
        let counts = self.all_of(uses);
        self.queues[queue].freed.push((buffer, counts));
    }

    /// A buffer is allocated anew, and its content is lost.
    pub(super) fn allocated(
        &mut self,
        queue: usize,
        buffer: usize,
        fills: Unit,
        source: Source,
        decay: Effect,
    ) {
        let freed = &mut self.queues[queue].freed;
        if let Some(at) = freed.iter().position(|(of, _)| *of == buffer) {
            let (_, counts) = freed.swap_remove(at);
            self.acquire(fills, &counts);
        }
        let needs = self.needs[fills as usize];
        self.push(Unit::Decay, needs, source, decay);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether everything that these counts stand for is done.
    pub(super) fn are_done(&self, counts: &Counts) -> bool {
        self.pending.iter().all(|pending| pending.number > counts[pending.unit as usize])
    }

    fn ready(&self) -> Vec<usize> {
        let is_ready = |at: &usize| self.are_done(&self.pending[*at].needs);
        (0..self.pending.len()).filter(is_ready).collect()
    }

    /// Returns an instruction that may be done now; `forced`: also one that is late.
    pub(super) fn next(&mut self, forced: bool) -> Option<(Source, Effect)> {
        if let Some(decay) = self.next_decay() {
            return Some(decay);
        }
        let mut ready = self.ready();
        let on_time = |at: &usize| !self.order.is_late(self.core, &self.pending[*at]);
        if !forced || ready.iter().any(on_time) {
            ready.retain(on_time);
        }
        if !forced && self.order.eager {
            return None;
        }
        if ready.is_empty() {
            return None;
        }
        let at = ready[self.order.below(ready.len())];
        let Pending { source, effect, .. } = self.pending.remove(at);
        Some((source, effect))
    }

    fn next_decay(&mut self) -> Option<(Source, Effect)> {
        let is_ready = |of: &Pending| of.unit == Unit::Decay && self.are_done(&of.needs);
        let at = self.pending.iter().position(is_ready)?;
        let Pending { source, effect, .. } = self.pending.remove(at);
        Some((source, effect))
    }

    /// The next write of the scalar unit.
    pub(super) fn next_write(&mut self) -> Option<(Source, Effect)> {
        if let Some(decay) = self.next_decay() {
            return Some(decay);
        }
        let at = self.pending.iter().position(|pending| pending.unit == Unit::Scalar)?;
        if !self.are_done(&self.pending[at].needs) {
            return None;
        }
        let Pending { source, effect, .. } = self.pending.remove(at);
        Some((source, effect))
    }

    /// Whether an instruction is done before the next one is given out.
    pub(super) fn prefers_work(&mut self) -> bool {
        !self.order.eager && self.order.happens(2)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_orders_of_a_seed_are_those_of_split_mix() {
        let mut random = Random(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[random.below(5)] += 1);
        assert!(seen.iter().all(|times| (150..250).contains(times)), "{seen:?}");
    }
}
