//! Checks that some rank has written the data that is read or sent from windows.
//!
//! The windows of a rank are memory that all ranks of its group can use. They are unwritten when
//! the communicator begins. If no rank of the launch writes bytes that a rank reads there, that
//! rank reads garbage or data of an earlier launch. The order of reads and writes of different
//! ranks is not checked.

use std::collections::BTreeMap;

use super::core_name::CoreName;
use super::finding::{Report, Severity};
use super::ranges::Ranges;
use crate::program::{Program, Warning};
use crate::step::{Hccl, Operation, Source, Step};

/// A window of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Window {
    pub group: u32,
    pub rank: u64,
    pub output: bool,
}

/// The accesses of a rank to windows.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// The bytes that the rank writes, at any time.
    pub written: BTreeMap<Window, Ranges>,
    /// The bytes that the rank reads or sends without having written them before.
    pub reads: Vec<WindowRead>,
    /// Whether the rank writes at unknown places.
    pub open: bool,
}

/// A read or a send of bytes that its rank has not written before.
#[derive(Debug)]
pub(super) struct WindowRead {
    pub window: Window,
    pub source: Source,
    /// The core that reads. `None` if a turn sends the bytes.
    pub core: Option<CoreName>,
    /// The read or send in words: `this reads`, or ``turn 2 of `x` sends``.
    pub what: String,
    pub gaps: Vec<(u128, u128)>,
}

/// The bytes of a window that ranks write.
#[derive(Default)]
struct AllWritten {
    any: Ranges,
    /// The bytes that at least two ranks write.
    several: Ranges,
}

impl AllWritten {
    /// Returns the writes of all ranks, by window.
    fn of(ranks: &[(Report, Windows)]) -> BTreeMap<Window, AllWritten> {
        let mut all: BTreeMap<Window, AllWritten> = BTreeMap::new();
        for (window, written) in ranks.iter().flat_map(|(_, windows)| &windows.written) {
            let of = all.entry(*window).or_default();
            for (from, to) in written.all() {
                of.several.join(&of.any, from, to);
                of.any.add(from, to);
            }
        }
        all
    }

    /// Returns the first byte of a range that no other rank writes. This rank writes `own`.
    fn missing_from_others(&self, own: Option<&Ranges>, (from, to): (u128, u128)) -> Option<u128> {
        let mut others = Ranges::default();
        others.join(&self.any, from, to);
        let mut only_own = Ranges::default();
        if let Some(own) = own {
            only_own.join(own, from, to);
        }
        for (from, to) in only_own.all() {
            self.several.gaps(from, to).into_iter().for_each(|(from, to)| others.remove(from, to));
        }
        others.missing(from, to)
    }
}

/// Reports reads of bytes that no rank writes. If `all` is set, `ranks` has all ranks of the
/// launch.
pub(super) fn settle(program: &Program, ranks: &mut [(Report, Windows)], all: bool) {
    let open = writes_by_data(program) || ranks.iter().any(|(_, windows)| windows.open);
    let all_written = AllWritten::of(ranks);
    for (report, windows) in ranks {
        for read in &windows.reads {
            let (written, own) = (all_written.get(&read.window), windows.written.get(&read.window));
            let missing = read.gaps.iter().find_map(|gap| match written {
                Some(written) => written.missing_from_others(own, *gap),
                None => Some(gap.0),
            });
            let Some(byte) = missing else { continue };
            let Window { rank, output, .. } = read.window;
            let window = if output { "output" } else { "input" };
            let of = format!("{} byte {byte} of the {window} window of rank {rank}", read.what);
            let (severity, message, help) = match (all, open) {
                (true, false) => (
                    Severity::Error,
                    format!("{of}, which no rank writes"),
                    "write it first on some rank; if an earlier launch or the host has written it, allow this with `k.allow(Warning::Windows, reason)`",
                ),
                (true, true) => (
                    Severity::Note,
                    format!(
                        "{of}, and whether a rank writes there depends on data, so it is not checked"
                    ),
                    "nothing to change; checked mode checks it when it runs",
                ),
                (false, _) => (
                    Severity::Note,
                    format!(
                        "{of}, which this rank has not written before; another rank may have written it, but the check of one launch sees only its own rank"
                    ),
                    "nothing to change; `kernel.check(..)` checks all ranks, and checked mode checks it when it runs",
                ),
            };
            let rule = Warning::Windows.rule();
            report.add(severity, rule, read.source, read.core, || (message, help.to_owned()));
        }
    }
}

/// Returns whether the program writes to windows of other ranks at places that only its data
/// determine.
fn writes_by_data(program: &Program) -> bool {
    let by_data = |step: &Step| {
        let Step::Hccl(Hccl::Prepare { operation, .. }) = step else { return false };
        matches!(operation, Operation::BatchWrite { .. } | Operation::AlltoAllvWrite { .. })
    };
    program.blocks.iter().flatten().any(|node| by_data(&node.step))
}
