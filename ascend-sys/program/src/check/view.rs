//! The view that the rules have of one core at one step.

use super::area::Area;
use super::buffer::Use;
use super::clock::{Unit, Units};
use super::core_name::CoreName;
use super::finding::{Report, Said, Severity};
use super::space::{Space, Spaces};
use super::witness::{Late, Witness};
use super::{Product, Setting};
use crate::declared::*;
use crate::flow::{Fault, Launch, Unknown, Walk};
use crate::program::Program;
use crate::show::Words;
use crate::step::{Base, Local, Source};

/// The parts of a launch that all cores share.
pub(super) struct Ground<'a> {
    pub program: &'a Program,
    pub launch: &'a Launch,
    pub setting: &'a Setting,
    pub words: Words<'a>,
    pub spaces: Spaces,
}

/// The view of one core at one step.
pub(super) struct View<'v, 'a> {
    pub ground: &'v Ground<'a>,
    pub walk: &'v Walk<'a>,
    pub core: CoreName,
    pub source: Source,
    pub report: &'v mut Report,
    /// The clocks of the core's units.
    pub units: &'v mut Units,
    /// The accesses of the step to global memory.
    pub areas: Vec<Area>,
    /// The global memory that the step writes at unknown places.
    pub unknown: Vec<Base>,
}

impl<'a> View<'_, 'a> {
    pub(super) fn product(&self) -> Product {
        self.ground.setting.product
    }

    pub(super) fn strict(&self) -> bool {
        !self.ground.setting.tolerant
    }

    pub(super) fn words(&self) -> &Words<'a> {
        &self.ground.words
    }

    /// Reports an error: the kernel must not be launched.
    pub(super) fn error(&mut self, rule: &'static str, message: String, help: impl Into<String>) {
        self.report
            .add(Severity::Error, rule, self.source, Some(self.core), || (message, help.into()));
    }

    /// Reports a note: the kernel may still be launched.
    pub(super) fn note(&mut self, rule: &'static str, message: String, help: impl Into<String>) {
        self.report
            .add(Severity::Note, rule, self.source, Some(self.core), || (message, help.into()));
    }

    /// Reports a feature that the product does not have.
    pub(super) fn lacks(&mut self, what: &str, instead: &str) {
        let product = self.product().name();
        self.error("product", format!("{product} has no {what}"), instead);
    }

    /// Returns the piece of memory that a base stands for here, and the offset in it, in bytes.
    /// Returns `None` if that depends on data.
    pub(super) fn space(&self, base: Base) -> Option<(Space, u128)> {
        self.ground.spaces.of(base, self.walk)
    }

    /// Computes a number of elements, turns or ranks. If that fails, reports the failure and
    /// returns `None`.
    pub(super) fn count(&mut self, id: ValueId) -> Option<u64> {
        let found = self.walk.count(id);
        self.known(found)
    }

    /// Unwraps the result of a computation. If the computation failed, reports the failure and
    /// returns `None`.
    pub(super) fn known<T>(&mut self, found: Result<T, Unknown>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(Unknown::Data | Unknown::Idle | Unknown::Short(_)) => {
                self.note(
                    "data",
                    "this depends on data that is not available yet, so it is not checked".into(),
                    "nothing to change; checked mode checks it when it runs",
                );
                None
            }
            Err(Unknown::Fault(fault)) => {
                self.fault(&fault);
                None
            }
        }
    }

    pub(super) fn fault(&mut self, fault: &Fault) {
        let text = fault.text.clone();
        self.error("fault", text, "check the numbers in the tiling of this launch");
    }

    /// Reads a number in the tiling struct of this launch. If that fails, reports the failure and
    /// returns `None`.
    pub(super) fn tiling(&mut self, offset: u64, number: crate::layout::Number) -> Option<u64> {
        let found = self.walk.tiling(offset, number).map_err(Unknown::from);
        self.known(found)
    }

    /// Returns the rank and the number of ranks of a client's group. If the launch does not have
    /// the group, reports that and returns `None`.
    pub(super) fn group(&mut self, client: ClientId) -> Option<(u32, u32)> {
        let group = self.ground.program.clients[client.0 as usize].what.group;
        let found = self.ground.launch.groups.get(group as usize).copied();
        if found.is_none() {
            let (name, given) = (self.words().client(client), self.ground.launch.groups.len());
            let message =
                format!("`{name}` is of group {group}, but the launch has {given} contexts");
            self.error("launch", message, "give the launch a communicator for each group");
        }
        found
    }
}

/// Returns a number with its noun: `1 buffer`, `2 buffers`.
pub(super) fn many(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

impl View<'_, '_> {
    /// Reports a use of local memory that is not ordered with an earlier one.
    pub(super) fn unordered(&mut self, local: &Local, earlier: &Use, later: &Use, queue: bool) {
        let declared = &self.ground.program.locals[local.tensor.0 as usize];
        let element = earlier.from.max(later.from) / u128::from(declared.what.size());
        let of =
            format!("element {element} of the buffer of `{}`", self.words().tensor(local.tensor));
        let used = |of: &Use| UnitUse { unit: of.unit, writes: of.writes(), line: of.source.line };
        let said = || unordered(&of, self.core, [used(earlier), used(later)], queue);
        self.report.add(Severity::Error, "units", self.source, Some(self.core), said);
    }

    /// Reports a use of bytes of local memory that no unit has written.
    pub(super) fn unwritten(&mut self, local: &Local, byte: u128) {
        let declared = &self.ground.program.locals[local.tensor.0 as usize];
        let element = byte / u128::from(declared.what.size());
        let name = self.words().tensor(local.tensor);
        let message = format!(
            "this reads element {element} of the buffer of `{name}`, which nobody has written"
        );
        let help = "write it first, or use only written elements";
        self.error("unwritten", message, help);
    }
}

/// The use of memory by a unit in a line.
pub(super) struct UnitUse {
    pub unit: Unit,
    pub writes: bool,
    pub line: u32,
}

/// Returns the finding that two units of a core use the same memory and nothing orders them. If
/// `queue` is set, a queue could order them.
pub(super) fn unordered(
    of: &str,
    core: CoreName,
    [earlier, later]: [UnitUse; 2],
    queue: bool,
) -> Said {
    let verb = |writes: bool| if writes { "writes" } else { "reads" };
    let (one, two, line, here) = (earlier.unit, later.unit, earlier.line, later.line);
    let message = format!(
        "{} {} {of}, which {} {} in line {line}, and nothing makes {} wait",
        two.name(),
        verb(later.writes),
        one.name(),
        verb(earlier.writes),
        if one == two { "the second" } else { two.name() },
    );
    let end = match (earlier.writes, later.writes) {
        (true, false) => format!("line {here} reads what was there before"),
        (false, true) => format!("line {line} reads what line {here} has written"),
        _ => format!("line {line} overwrites what line {here} has written"),
    };
    let goes_on = if one == two { " and".to_owned() } else { format!("; {}", two.name()) };
    let text =
        format!("{} is late with line {line}{goes_on} goes on with line {here}: {end}", one.name());
    let wait = match one == two {
        true => format!("`k.pipe_barrier({})`", one.pipe()),
        false => format!("`k.wait_for({}, {})`", two.pipe(), one.pipe()),
    };
    let help = match queue {
        true => format!("pass it through its queue, or call {wait} in between"),
        false => format!("call {wait} in between"),
    };
    let witness = Witness { text, late: Late::line(core, line) };
    Said::from((message, help, witness))
}
