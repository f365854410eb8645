//! Checks waits between cores: flags and barriers.
//!
//! A flag is a counter of each core. Several cores together raise the flag for a core. When each of
//! them has raised it once more, the counter goes up by one. A core that awaits the flag takes one
//! off the counter, and waits while it is zero. A counter has four bits.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use super::Product;
use super::clock::{Clock, Ticks, Unit};
use super::core_name::CoreName;
use super::view::{View, many};
use crate::declared::Core;
use crate::program::Mix;
use crate::step::{Mode, Pipe, Source, Sync};

/// The greatest number of raises of a flag that fit into its counter.
const MOST_RAISED: usize = 15;

/// All flags of a launch.
pub(super) struct Flags {
    mix: Mix,
    blocks: u32,
    /// The raises of flags for which some cores of the team are still missing, by team and flag.
    halves: BTreeMap<(Team, u16), Half>,
    /// The flags that can be awaited, by core and flag.
    raised: BTreeMap<(usize, u16), VecDeque<Raised>>,
    /// Whether a raise of a flag was rejected. A wait for a flag that never ends is then not
    /// reported separately.
    refused: bool,
}

/// Each raise of a flag by each core: the clock at that time, and the source.
type Half = BTreeMap<usize, VecDeque<(Clock, Source)>>;

struct Raised {
    mode: Mode,
    knows: Rc<[Ticks]>,
    source: Source,
}

/// The cores that raise a flag together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Team {
    /// All cores of a kind raise the flag for one another: true for vector cores.
    Kind(bool),
    /// The vector cores of a block raise the flag for one another.
    Pair(u32),
    /// The vector cores of a block raise the flag for its cube core (true), or the cube core raises
    /// it for them (false).
    Block(u32, bool),
}

impl Team {
    fn mode(self) -> Mode {
        match self {
            Team::Kind(_) => Mode::Kind,
            Team::Pair(_) => Mode::Pair,
            Team::Block(..) => Mode::Block,
        }
    }
}

impl Flags {
    pub(super) fn new(mix: Mix, blocks: u32) -> Self {
        Flags { mix, blocks, halves: BTreeMap::new(), raised: BTreeMap::new(), refused: false }
    }

    /// Returns the index of a core among all cores. Cube cores come first.
    pub(super) fn position(&self, core: CoreName) -> usize {
        let first = match core.kind {
            Core::Aic => 0,
            Core::Aiv => self.blocks * self.mix.ratio(Core::Aic),
        };
        (first + core.index) as usize
    }

    fn cores(&self, kind: Core, block: Option<u32>) -> Vec<usize> {
        let ratio = self.mix.ratio(kind);
        let (from, to) = match block {
            None => (0, ratio * self.blocks),
            Some(block) => (ratio * block, ratio * (block + 1)),
        };
        (from..to).map(|index| self.position(CoreName { kind, index })).collect()
    }

    /// Checks a `CrossCoreSetFlag`.
    pub(super) fn raise(&mut self, view: &mut View<'_, '_>, mode: Mode, pipe: Pipe, flag: u16) {
        if !self.look(view, mode, pipe, flag) {
            self.refused = true;
            return;
        }
        if mode == Mode::Kind {
            all_run(view, view.core.kind);
        }
        let CoreName { kind, index } = view.core;
        let vector = kind == Core::Aiv;
        let block = index / self.mix.ratio(kind).max(1);
        let team = match mode {
            Mode::Kind => Team::Kind(vector),
            Mode::Pair => Team::Pair(block),
            Mode::Block => Team::Block(block, vector),
        };
        let (members, receivers) = match team {
            Team::Kind(_) => (self.cores(kind, None), self.cores(kind, None)),
            Team::Pair(_) => (self.cores(kind, Some(block)), self.cores(kind, Some(block))),
            Team::Block(..) => {
                let other = if vector { Core::Aic } else { Core::Aiv };
                (self.cores(kind, Some(block)), self.cores(other, Some(block)))
            }
        };
        let here = self.position(view.core);
        let other_mode = receivers.iter().chain([&here]).any(|core| {
            let waiting = self.raised.get(&(*core, flag)).and_then(|waiting| waiting.front());
            waiting.is_some_and(|waiting| waiting.mode != mode)
        });
        let half = self.halves.keys().any(|(other, of)| *of == flag && other.mode() != mode);
        if other_mode || half {
            let message = format!(
                "flag {flag} is raised in another mode before every earlier raise was awaited"
            );
            view.error("flag-mode", message, "use another flag for the other mode");
        }
        let raisers = self.halves.entry((team, flag)).or_default();
        let mine = raisers.entry(here).or_default();
        let clock = match Unit::of(pipe) {
            Some(unit) => view.units.release(unit),
            None => view.units.meet(),
        };
        mine.push_back((clock, view.source));
        if mine.len() > MOST_RAISED {
            too_many(view, flag, mine.len());
        }
        if members.iter().any(|core| raisers.get(core).is_none_or(VecDeque::is_empty)) {
            return;
        }
        let mut clocks = Vec::with_capacity(members.len());
        for raised in raisers.values_mut() {
            clocks.extend(raised.pop_front().map(|(clock, _)| clock));
        }
        if raisers.values().all(VecDeque::is_empty) {
            self.halves.remove(&(team, flag));
        }
        let Some(knows) = Clock::join(&clocks) else { return };
        for core in receivers {
            let waiting = self.raised.entry((core, flag)).or_default();
            waiting.push_back(Raised { mode, knows: Rc::clone(&knows), source: view.source });
            if waiting.len() > MOST_RAISED {
                too_many(view, flag, waiting.len());
            }
        }
    }

    /// Checks that this flag can be raised here. Returns false if the cores cannot synchronise, or
    /// if the kernel lacks the cores for this mode. Reports these and all other mistakes.
    fn look(&self, view: &mut View<'_, '_>, mode: Mode, pipe: Pipe, flag: u16) -> bool {
        if !synchronises(view, "flags between cores") {
            return false;
        }
        usual(view, flag);
        let vectors = self.mix.ratio(Core::Aiv);
        if mode == Mode::Pair && (vectors != 2 || view.core.kind != Core::Aiv) {
            let message = format!(
                "a flag of mode 1 is between two vector cores of a block, but this is {} core of {}",
                if view.core.kind == Core::Aiv { "a vector" } else { "a cube" },
                self.mix.ascend_c()
            );
            let help = "use `#[kernel(mix = \"aic_1_2\")]` and raise it on vector cores, or use another mode";
            view.error("flag", message, help);
            return false;
        }
        if mode == Mode::Block && (vectors == 0 || self.mix.ratio(Core::Aic) == 0) {
            let message = format!(
                "a flag of mode 2 is between cube and vector cores, but {} has one kind only",
                self.mix.ascend_c()
            );
            view.error("flag", message, "use mode 0, or record the kernel for both kinds");
            return false;
        }
        let impossible = match (view.core.kind, pipe) {
            (_, Pipe::Scalar | Pipe::All) => {
                Some("a flag cannot be raised after the scalar unit or after all units")
            }
            (Core::Aiv, Pipe::Fix) => Some("a vector core has no FIX unit"),
            (Core::Aic, Pipe::Vector) => Some("a cube core has no vector unit"),
            (Core::Aic, Pipe::Out) if view.strict() || view.product() == Product::Ascend950 => {
                Some(
                    "a cube core raises flags after FIX: on Ascend 950 it has no MTE3 and the flag is lost",
                )
            }
            _ => None,
        };
        if let Some(why) = impossible {
            let unit = if view.core.kind == Core::Aiv { "Out" } else { "Fix" };
            view.error("flag", why.to_owned(), format!("raise it after `Pipe::{unit}`"));
        }
        true
    }

    /// Takes a flag for a `CrossCoreWaitFlag`, if it has been raised for this core. Returns the
    /// clock that the core gets.
    pub(super) fn take(&mut self, core: usize, flag: u16) -> Option<Rc<[Ticks]>> {
        let waiting = self.raised.get_mut(&(core, flag))?;
        let taken = waiting.pop_front();
        if waiting.is_empty() {
            self.raised.remove(&(core, flag));
        }
        taken.map(|raised| raised.knows)
    }

    /// Returns the flags that no core took: the flag, the source of its raise, the core, and the
    /// number of raises that are left.
    pub(super) fn left(&self) -> Vec<(u16, Source, usize, usize)> {
        let raised = self.raised.iter().filter_map(|((core, flag), left)| {
            left.front().map(|first| (*flag, first.source, *core, left.len()))
        });
        let half = self.halves.iter().flat_map(|((_, flag), raisers)| {
            raisers.iter().filter_map(|(core, left)| {
                left.front().map(|(_, source)| (*flag, *source, *core, left.len()))
            })
        });
        raised.chain(half).collect()
    }

    /// Returns whether a raise of a flag was rejected.
    pub(super) fn refused(&self) -> bool {
        self.refused
    }

    /// Returns the cores that have not raised a flag which this core awaits, and the number of all
    /// cores that raise it. Returns `None` if no core has raised it.
    pub(super) fn missing(&self, core: CoreName, flag: u16) -> Option<(Vec<usize>, usize)> {
        let block = core.index / self.mix.ratio(core.kind).max(1);
        let vector = core.kind == Core::Aiv;
        self.halves.iter().find_map(|((team, of), raisers)| {
            let members = match *team {
                Team::Kind(kind) if kind == vector => self.cores(core.kind, None),
                Team::Pair(of) if vector && of == block => self.cores(Core::Aiv, Some(block)),
                Team::Block(of, true) if !vector && of == block => {
                    self.cores(Core::Aiv, Some(block))
                }
                Team::Block(of, false) if vector && of == block => {
                    self.cores(Core::Aic, Some(block))
                }
                _ => return None,
            };
            let all = members.len();
            let empty = |core: &usize| raisers.get(core).is_none_or(VecDeque::is_empty);
            (*of == flag).then(|| (members.into_iter().filter(empty).collect(), all))
        })
    }
}

fn too_many(view: &mut View<'_, '_>, flag: u16, count: usize) {
    let message = format!(
        "flag {flag} is raised {} ahead of the core that awaits it, but a flag counts to {MOST_RAISED}",
        many(count as u64, "time")
    );
    view.error("flag-count", message, "await it as often as it is raised");
}

/// Checks that a flag is 8, 9 or 10. Those are free for programs.
fn usual(view: &mut View<'_, '_>, flag: u16) {
    match flag {
        8..=10 => {}
        11..=14 => {
            let message = format!("flag {flag} is used by SyncAll");
            view.error("flag", message, "use flag 8, 9 or 10");
        }
        _ => {
            let message = format!("flag {flag} may be used by matrix products");
            view.note("flag", message, "use flag 8, 9 or 10, which are free in every kernel");
        }
    }
}

/// Returns whether the cores of this kernel can synchronise with each other, and reports if they
/// cannot.
pub(super) fn synchronises(view: &mut View<'_, '_>, what: &str) -> bool {
    let mix = view.ground.program.mix;
    if !mix.synchronises() {
        let message = format!("{what} do not work in a kernel of type {}", mix.ascend_c());
        let help = match mix {
            Mix::AivOnly => "use `#[kernel(mix = \"aiv_1_0\")]`",
            _ => "use `#[kernel(mix = \"aic_1_0\")]`",
        };
        view.error("mix", message, help);
    }
    mix.synchronises()
}

/// Reports a launch in which not all cores of a kind that must meet can run at the same time.
fn all_run(view: &mut View<'_, '_>, kind: Core) {
    let product = view.product();
    let (has, name) = match kind {
        Core::Aic => (product.cube_cores(), "cube"),
        Core::Aiv => (product.vector_cores(), "vector"),
    };
    let blocks = view.ground.launch.blocks;
    let cores = view.ground.program.mix.ratio(kind).saturating_mul(blocks);
    if cores > has {
        let message = format!(
            "{cores} {name} cores of {blocks} blocks must meet, but {} has {has}: the other cores begin when these have ended",
            product.name()
        );
        view.error(
            "cores",
            message,
            "launch as many blocks as the device has cores, and loop in the kernel",
        );
    }
}

/// Returns whether this core may call `SyncAll` in this form, and reports if it may not.
pub(super) fn barrier(view: &mut View<'_, '_>, vector: bool) -> bool {
    if !synchronises(view, "barriers of all cores") {
        return false;
    }
    all_run(view, Core::Aiv);
    if !vector {
        all_run(view, Core::Aic);
    }
    let mix = view.ground.program.mix;
    let wrong = match (vector, view.core.kind) {
        (true, Core::Aic) => Some((
            "a cube core calls a barrier of vector cores",
            "move it to vector cores, or use a barrier of all cores",
        )),
        (false, _) if mix.ratio(Core::Aic) == 0 => Some((
            "a barrier of all cores in a kernel of vector cores only hangs",
            "use a barrier of vector cores",
        )),
        (false, _) if mix.ratio(Core::Aiv) == 0 => Some((
            "a barrier of all cores in a kernel of cube cores only hangs",
            "raise a flag for all cores of the kind, and await it",
        )),
        _ => None,
    };
    if let Some((message, help)) = wrong {
        view.error("mix", message.to_owned(), help);
    }
    wrong.is_none()
}

/// Checks synchronisation within a core: the core must have the units.
pub(super) fn units(view: &mut View<'_, '_>, sync: &Sync) {
    let lacking = |kind: Core, pipe: Pipe| match (kind, pipe) {
        (Core::Aiv, Pipe::Fix) => Some("a vector core has no FIX unit"),
        (Core::Aic, Pipe::Vector) => Some("a cube core has no vector unit"),
        _ => None,
    };
    let kind = view.core.kind;
    let (wrong, help) = match *sync {
        Sync::Pipe(Pipe::Scalar) => {
            (Some("there is no barrier of the scalar unit"), "use a barrier of all units")
        }
        Sync::Pipe(pipe) => (lacking(kind, pipe), "name a unit that the core has"),
        Sync::Units(first, second)
            if first == second || first == Pipe::All || second == Pipe::All =>
        {
            (Some("a wait needs two different units"), "use a barrier of the unit")
        }
        Sync::Units(first, second) => {
            (lacking(kind, first).or(lacking(kind, second)), "name a unit that the core has")
        }
        _ => (None, ""),
    };
    if let Some(wrong) = wrong {
        view.error("core", wrong.to_owned(), help);
    }
    match *sync {
        Sync::Pipe(pipe) => match Unit::of(pipe) {
            Some(unit) => {
                let all = view.units.release(unit);
                view.units.acquire(unit, &all);
            }
            None => drop(view.units.meet()),
        },
        Sync::Units(first, second) => {
            if let (Some(first), Some(second)) = (Unit::of(first), Unit::of(second)) {
                let released = view.units.release(first);
                view.units.acquire(second, &released);
            }
        }
        _ => {}
    }
}
