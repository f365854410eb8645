//! The order of units, cores and servers that a seed chooses. It is for tests, because a kernel
//! must work in every order that a chip may choose.
//!
//! Without a seed, the units of a core do each instruction at once, in the order of the kernel.
//! With a seed, an instruction becomes *pending* when it is given to its unit. It is done at any
//! time after the instructions that it waits for. The same holds, with or without a seed, if the
//! settings make a line of the kernel or the server late.
//!
//! # Rules
//!
//! The rules are those of the checker (`ascend_program::check`):
//!
//! 1. An instruction waits for everything that its unit was made to wait for. The scalar unit
//!    itself waits before it gives out the next instruction.
//! 2. Vector operations are in order among themselves, and so are results of products and writes of
//!    the scalar unit. Copies are not.
//! 3. The scalar unit reads at once, after its own writes.
//! 4. A queue orders the unit that fills a buffer before the unit that uses it, and the unit that
//!    uses it before the next fill of the freed buffer.
//! 5. A flag between cores is an instruction of its unit, after all instructions that the unit was
//!    given before. A barrier of cores waits for all units.
//!
//! Local memory has no defined content before it is written. So a buffer is overwritten with NaNs
//! when it is allocated, and so is the padding of a copied piece.

use super::local::LocalMemory;
use super::world::World;
use crate::machine::Device;
use ascend_program::Core;
use ascend_program::check::Late;
use ascend_program::step::{Pipe, Source};

/// A unit of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// The writes of the scalar unit.
    Scalar,
    Vector,
    In,
    Out,
    Fix,
    /// A unit that hardware does not have. It overwrites a buffer when the buffer is allocated.
    /// This is done as early as possible, so that an instruction that waits for the buffer finds it
    /// overwritten.
    Decay,
}

const UNITS: usize = 6;

/// The units that can be late.
const LATE: [Unit; 5] = [Unit::In, Unit::Vector, Unit::Out, Unit::Fix, Unit::Scalar];

impl Unit {
    /// Returns the unit of a pipe; `None` means all units.
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

/// For each unit, the number of instructions that must be done, counted from the unit's first one.
pub(super) type Counts = [u32; UNITS];

fn join(a: &mut Counts, b: &Counts) {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = (*a).max(*b));
}

/// The effect of an instruction, which is applied when the instruction is done.
pub(super) type Effect = Box<dyn FnOnce(&mut LocalMemory, &mut World) -> Result<(), String> + Send>;

struct Pending {
    unit: Unit,
    /// The number of the instruction in its unit, from 1.
    number: u32,
    needs: Counts,
    source: Source,
    effect: Effect,
}

/// A generator of random numbers: SplitMix64. It is implemented here so that a seed gives the same
/// order of a kernel in every release of every crate.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `count`.
    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }
}

/// The random choices of a seed, and the units, the line or the server that the seed or the
/// settings make late.
#[derive(Clone, Debug)]
pub(super) struct Order {
    random: Random,
    /// The unit whose instructions are done only if nothing else can continue.
    late: Option<Unit>,
    /// Whether as many instructions as possible are given out before any is done.
    eager: bool,
    /// Whether the server lets the kernel run far ahead.
    is_server_late: bool,
    /// The line of the kernel, or the server, that the settings make late.
    asked: Option<Late>,
}

impl Order {
    /// Returns the order for a device; `None` if the settings have neither a seed nor a late line
    /// or server.
    pub(super) fn of(device: &Device) -> Option<Order> {
        let settings = device.settings()?;
        if settings.kernel_seed == 0 && settings.kernel_late.is_none() {
            return None;
        }
        Some(Order::new(settings.kernel_seed, settings.kernel_late, device.id - settings.first))
    }

    /// Makes the order for a seed. The seed modulo 8 selects one of eight kinds: no preference, one
    /// of five units late, all units late, or the server late.
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

    /// Makes the order for one core.
    pub(super) fn fork(&mut self) -> Order {
        let random = Random(self.random.next());
        Order { random, ..self.clone() }
    }

    /// Returns whether a pending instruction of the core is late.
    fn is_late(&self, (kind, index): (Core, u32), pending: &Pending) -> bool {
        let asked = Late::Line { kind, index, line: pending.source.line };
        self.late == Some(pending.unit) || self.asked == Some(asked)
    }

    /// Returns whether the server lets the kernel continue first. This is random: it happens in
    /// half of the calls, or in 31 of 32 calls if the server is late.
    pub(super) fn server_hesitates(&mut self) -> bool {
        self.below(if self.is_server_late { 32 } else { 2 }) != 0
    }

    /// Returns whether the server is late, so that the kernel continues before each turn.
    pub(super) fn is_server_late(&self) -> bool {
        self.is_server_late
    }

    /// Returns true once in `once_in` calls, on average.
    pub(super) fn happens(&mut self, once_in: u32) -> bool {
        self.below(once_in as usize) == 0
    }

    pub(super) fn below(&mut self, count: usize) -> usize {
        self.random.below(count.max(1))
    }
}

/// The instructions of a core that are not done yet, and the instructions for which each unit
/// waits.
pub(super) struct PendingUnits {
    order: Order,
    /// The core of the instructions: its kind, and its index among the cores of that kind.
    core: (Core, u32),
    given: Counts,
    needs: [Counts; UNITS],
    pending: Vec<Pending>,
    /// For each queue, the instructions that must be done before each enqueued buffer may be used,
    /// the oldest buffer first, and before each freed buffer may be filled.
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

    /// Gives an instruction that waits for everything that its unit was given so far. Without a
    /// unit, the instruction and the later instructions of all units wait for everything that any
    /// unit was given so far.
    pub(super) fn give_last(&mut self, unit: Option<Unit>, source: Source, effect: Effect) {
        let Some(unit) = unit else {
            let all = self.given;
            self.push(Unit::Fix, all, source, effect);
            return self.needs.iter_mut().for_each(|needs| join(needs, &all));
        };
        let needs = self.all_of(unit);
        self.push(unit, needs, source, effect);
    }

    /// Returns the counts of everything that a unit was given so far.
    pub(super) fn all_of(&self, unit: Unit) -> Counts {
        let mut all = self.needs[unit as usize];
        all[unit as usize] = self.given[unit as usize];
        all
    }

    /// Returns the counts of everything that all units were given so far.
    pub(super) fn all(&self) -> Counts {
        self.given
    }

    /// Makes a unit wait for the instructions of these counts. This is not used for the scalar
    /// unit, which stops itself.
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

    /// Notes that a buffer is allocated. If the buffer was in use before, the unit `fills` waits
    /// until that use has ended. `decay` overwrites the content of the buffer.
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

    /// Returns whether all instructions of these counts are done.
    pub(super) fn are_done(&self, counts: &Counts) -> bool {
        self.pending.iter().all(|pending| pending.number > counts[pending.unit as usize])
    }

    fn ready(&self) -> Vec<usize> {
        let is_ready = |at: &usize| self.are_done(&self.pending[*at].needs);
        (0..self.pending.len()).filter(is_ready).collect()
    }

    /// Takes an instruction that may be done now. If `forced`, takes a late instruction if no other
    /// may be done now. Otherwise takes none that is late, and only overwrites of buffers if all
    /// units are late.
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

    /// Takes an overwrite of a buffer that may be done now, or else the next write of the scalar
    /// unit. Returns `None` if that write must still wait, or if there is none.
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

    /// Returns whether a pending instruction is done before the next one is given out.
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
