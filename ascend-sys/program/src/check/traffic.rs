//! Checks whether cores and the server use the same memory in a known order.
//!
//! The server owns the memory of a turn from the commit of the turn until a core has waited for it.
//! Data that the turn sends must be written before the commit, by any core. Data that the turn
//! receives must not be used before its end. A commit or an end comes before the later work of a
//! core if the core has executed the commit or the wait itself, or has since met a core for which
//! this holds.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::area::{Area, Way};
use super::clock::{Clock, Unit, Units};
use super::core_name::CoreName;
use super::finding::{Report, Severity};
use super::space::{LINE, Space};
use super::view::Ground;
use super::windows::Windows;
use super::witness::{Late, Witness};
use crate::declared::{ClientId, TaskId};
use crate::step::{Base, Source};

mod cache;
mod defined;
mod look;
mod race;
mod wasted;

/// The number of followed steps of a launch for each access that is remembered.
const STEPS_PER_ACCESS: u64 = 4;

/// The memory that the turns of a task read or write on this rank. The blocks of a turn begin where
/// those of the turn before end.
#[derive(Debug, Clone)]
pub(super) struct Touched {
    pub base: Base,
    /// The memory that the blocks are in, and the offset of the base in it, in bytes.
    pub space: (Space, u128),
    pub write: bool,
    /// The command number of the operation, if the blocks of ranks are a stride apart.
    pub strided: Option<u32>,
    /// The number of bytes of an element.
    pub size: u64,
    /// The beginning of each block of the first turn, and its number of bytes.
    pub blocks: Vec<(u128, u128)>,
}

/// One turn that has been committed.
#[derive(Debug)]
pub(super) struct Sent {
    pub client: ClientId,
    pub task: TaskId,
    /// The index of the turn, from 0.
    pub turn: u64,
    /// The step of a turn, if the turn is divided: its index, the rank that it sends to, and the
    /// rank that it receives from.
    pub step: Option<(u64, [usize; 2])>,
    /// The number of turns that the server has finished when it has finished this turn.
    pub number: u32,
    /// The clock of the core that committed the turn.
    pub clock: Clock,
    pub source: Source,
    pub touched: Rc<[Touched]>,
}

impl Sent {
    /// Returns the blocks that this turn or step touches, each with its beginning and end in the
    /// piece of memory.
    fn blocks<'a>(
        &self,
        touched: &'a Touched,
        start: u128,
    ) -> impl Iterator<Item = (u128, u128)> + use<'a> {
        let (turn, step) = (u128::from(self.turn), self.step);
        let only = step.map(|(_, [to, from])| if touched.write { from } else { to });
        let blocks = touched.blocks.iter().enumerate();
        let blocks = blocks.filter(move |(at, _)| only.is_none_or(|only| only == *at));
        blocks.map(move |(_, (from, bytes))| {
            let from = start + from + turn * bytes;
            (from, from + bytes)
        })
    }

    /// Returns whether the access was known to be done when the core committed the turn.
    fn knew(&self, access: &Access) -> bool {
        access.tick <= self.clock.of(access.core, access.area.unit)
    }

    /// Returns the name of a turn in words, such as "turn 2 of `tiles`".
    fn words(&self, ground: &Ground<'_>) -> String {
        let (turn, task) = (self.turn + 1, ground.words.task(self.task));
        match self.step {
            None => format!("turn {turn} of `{task}`"),
            Some((step, _)) => format!("step {} of turn {turn} of `{task}`", step + 1),
        }
    }
}

/// An access of a core to global memory.
#[derive(Debug)]
struct Access {
    core: usize,
    name: CoreName,
    /// The tick of the unit at which the access is done.
    tick: u32,
    /// The position among all accesses of cores, in the order in which the checker walked them.
    order: u64,
    clock: Clock,
    /// The area, with its offset from the start of its piece of memory.
    area: Area,
    source: Source,
}

impl Access {
    /// Returns whether this access is known to come after another access.
    fn knew(&self, other: &Access) -> bool {
        let (own, unit) = (self.area.unit, other.area.unit);
        let in_line = (own == unit && unit.in_order()) || (own.is_scalar() && unit.is_scalar());
        let follows = self.core == other.core && in_line;
        (follows && other.order < self.order) || other.tick <= self.clock.of(other.core, unit)
    }
}

/// The accesses of all cores to global memory.
#[derive(Debug)]
pub(super) struct Traffic {
    /// The accesses, by piece of memory.
    accesses: BTreeMap<Space, Vec<Access>>,
    /// The cleans, by piece of memory, core and line.
    cleans: BTreeMap<(Space, usize, u128), Vec<Access>>,
    count: usize,
    /// The greatest number of different accesses that are remembered.
    most: usize,
    order: u64,
    /// The memory to which some writes are unknown.
    open: BTreeSet<Space>,
    /// Whether any memory may have unknown writes.
    all_open: bool,
    /// The first access that is not remembered.
    left_out: Option<(CoreName, Source)>,
}

impl Traffic {
    /// Returns the traffic of a launch that is followed for `steps` steps.
    pub(super) fn new(steps: u64) -> Self {
        Traffic {
            accesses: BTreeMap::new(),
            cleans: BTreeMap::new(),
            count: 0,
            most: usize::try_from(steps / STEPS_PER_ACCESS).unwrap_or(usize::MAX),
            order: 0,
            open: BTreeSet::new(),
            all_open: false,
            left_out: None,
        }
    }

    /// Marks that from now on the writes to this memory are unknown. `None` stands for all memory.
    pub(super) fn leave_open(&mut self, space: Option<Space>) {
        match space {
            Some(space) => drop(self.open.insert(space)),
            None => self.all_open = true,
        }
    }

    /// Returns whether all writes to this memory are known.
    fn knows(&self, space: Space) -> bool {
        !self.all_open && !self.open.contains(&space)
    }

    pub(super) fn add(
        &mut self,
        core: usize,
        name: CoreName,
        units: &mut Units,
        source: Source,
        area: Area,
    ) {
        let (space, start) = area.space;
        if area.bytes == 0 || area.count == 0 {
            return;
        }
        if self.count >= self.most {
            self.left_out.get_or_insert((name, source));
            self.all_open = true;
            return;
        }
        let area = Area { from: start.saturating_add(area.from), ..area };
        let (clock, tick) = units.give(area.unit);
        let line = |byte: u128| byte / u128::from(LINE);
        let accesses = match area.way {
            Way::Clean => self.cleans.entry((space, core, line(area.from))).or_default(),
            _ => self.accesses.entry(space).or_default(),
        };
        if let Some(last) = accesses.last_mut() {
            // A read of the scalar unit ended at its own tick, and no other work has come since.
            let at_once =
                last.tick == tick || (area.unit == Unit::Control && last.tick + 1 == tick);
            let alike = at_once
                && (last.core, last.source) == (core, source)
                && (last.area.write, last.area.way, last.area.unit)
                    == (area.write, area.way, area.unit);
            // Accesses through the cache are joined if they are in one line and no other access is
            // between them.
            let together = matches!(area.way, Way::Memory | Way::Add)
                || (last.order == self.order && line(last.area.from) == line(area.from));
            if alike && together && last.area == area {
                return;
            }
            let next = last.area.count == 1 && area.count == 1 && last.area.end() == area.from;
            if alike && together && next {
                last.area.bytes += area.bytes;
                return;
            }
        }
        self.count += 1;
        self.order += 1;
        let (order, clock) = (self.order, clock.clone());
        accesses.push(Access { core, name, tick, order, clock, area, source });
        if area.unit == Unit::Control {
            // The scalar unit continues only when its read is over.
            units.release(Unit::Control);
        }
    }
}

/// Returns the length of the longest access.
fn longest_of<'a>(accesses: impl IntoIterator<Item = &'a Access>) -> u128 {
    let lengths = accesses.into_iter().map(|access| access.area.end() - access.area.from);
    lengths.max().unwrap_or(0)
}

/// Returns the entries that may reach into `from..to`. The list must be sorted by beginnings and
/// have no entry longer than `longest`.
fn near<T>(list: &[T], at: impl Fn(&T) -> u128, longest: u128, (from, to): (u128, u128)) -> &[T] {
    let first = list.partition_point(|one| at(one) < from.saturating_sub(longest));
    let end = list.partition_point(|one| at(one) < to);
    list.get(first..end).unwrap_or(&[])
}

/// Returns the size of an element of an access's base. In the workspace and in windows, an element
/// is a byte.
fn element_size(ground: &Ground<'_>, access: &Access) -> u128 {
    match access.area.base {
        Base::Parameter(at) => ground.program.parameters[at as usize].number.size().into(),
        _ => 1,
    }
}

/// Describes an access of a core, such as `aiv 1 reads it in line 7`.
fn does(access: &Access) -> String {
    let verb = if access.area.write { "writes" } else { "reads" };
    format!("{} {verb} it in line {}", access.name, access.source.line)
}

/// Reports that there are too many pairs of uses to compare all of them.
fn not_all(report: &mut Report, source: Source, core: Option<CoreName>) {
    report.add(Severity::Note, "long", source, core, || {
        let message = "not all uses of memory are compared, because too many lie near each other";
        let help = "nothing to change; let each core use memory of its own if you can";
        (message.to_owned(), help.to_owned())
    });
}
