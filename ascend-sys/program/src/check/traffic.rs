//! Whether cores and the server use the same memory in a known order.
//!
//! A turn is in the server's hands from its commit until somebody has waited for it. What it sends must have been written before,
//! by whichever core; what it receives must not be looked at before its end. A core knows of a commit or of an end if it has done
//! it itself or has met, since then, somebody who has.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::clock::Clock;
use super::finding::{CoreName, Report, Severity};
use super::view::Ground;
use crate::program::{ClientId, TaskId};
use crate::step::{Base, Source};

/// So many different accesses are remembered.
const MOST_ACCESSES: usize = 1 << 16;

/// Pieces of global memory that a core uses in one step, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub base: Base,
    pub from: u128,
    /// Of each piece.
    pub bytes: u128,
    /// From one piece to the next; above 0.
    pub pitch: u128,
    pub count: u128,
    pub write: bool,
}

impl Area {
    fn end(&self) -> u128 {
        let last = self.pitch.saturating_mul(self.count - 1);
        self.from.saturating_add(last).saturating_add(self.bytes)
    }

    /// The first byte that both have.
    fn meets(&self, from: u128, to: u128) -> Option<u128> {
        if self.bytes == 0 || self.count == 0 || from >= to {
            return None;
        }
        // The first piece that ends behind `from`.
        let piece = match from.checked_sub(self.from + self.bytes - 1) {
            None | Some(0) => 0,
            Some(beyond) => beyond.div_ceil(self.pitch),
        };
        let start = self.from.checked_add(piece.checked_mul(self.pitch)?)?;
        (piece < self.count && start < to).then_some(start.max(from))
    }
}

/// What each turn of a task reads or writes on this rank: blocks that begin where those of the turn before end.
#[derive(Debug, Clone)]
pub(super) struct Touched {
    pub base: Base,
    pub write: bool,
    /// Of an element.
    pub size: u64,
    /// Where each block of the first turn begins, and its bytes.
    pub blocks: Vec<(u128, u128)>,
}

/// One turn that has been committed.
#[derive(Debug)]
pub(super) struct Sent {
    pub client: ClientId,
    pub task: TaskId,
    /// From 0.
    pub turn: u64,
    /// Turns that its server has finished with it.
    pub number: u32,
    /// What the core that committed it knew.
    pub clock: Clock,
    pub source: Source,
    pub touched: Rc<[Touched]>,
}

/// What a core did.
#[derive(Debug)]
struct Access {
    core: usize,
    name: CoreName,
    /// The tick of the core that it is done with.
    tick: u32,
    clock: Clock,
    area: Area,
    source: Source,
}

/// What all cores did.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// By parameter; the workspace is none.
    accesses: BTreeMap<Option<u32>, Vec<Access>>,
    count: usize,
}

fn key(base: Base) -> Option<Option<u32>> {
    match base {
        Base::Parameter(at) => Some(Some(at)),
        Base::Workspace => Some(None),
        // Who uses a window when, other ranks know.
        Base::WindowIn(..) | Base::WindowOut(..) => None,
    }
}

impl Traffic {
    pub(super) fn add(
        &mut self,
        core: usize,
        name: CoreName,
        clock: &Clock,
        source: Source,
        area: Area,
    ) {
        let Some(key) = key(area.base) else { return };
        if self.count >= MOST_ACCESSES || area.bytes == 0 || area.count == 0 {
            return;
        }
        let accesses = self.accesses.entry(key).or_default();
        let tick = clock.of(core) + 1;
        if let Some(last) = accesses.last_mut() {
            let alike = (last.core, last.tick, last.source) == (core, tick, source)
                && last.area.write == area.write;
            if alike && last.area == area {
                return;
            }
            if alike && last.area.count == 1 && area.count == 1 && last.area.end() == area.from {
                last.area.bytes += area.bytes;
                return;
            }
        }
        self.count += 1;
        accesses.push(Access { core, name, tick, clock: clock.clone(), area, source });
    }

    /// Reports what is not ordered. `server` is where a client's server stands among the cores of a clock.
    pub(super) fn look(
        mut self,
        ground: &Ground<'_>,
        report: &mut Report,
        sent: &[Sent],
        server: impl Fn(ClientId) -> usize,
    ) {
        // By where they begin; none is longer than the longest, so few can meet a block.
        let mut longest = BTreeMap::new();
        for (key, accesses) in &mut self.accesses {
            accesses.sort_by_key(|access| access.area.from);
            let length = accesses.iter().map(|access| access.area.end() - access.area.from).max();
            longest.insert(*key, length.unwrap_or(0));
        }
        for turn in sent {
            for touched in turn.touched.iter() {
                let Some(key) = key(touched.base) else { continue };
                let Some(accesses) = self.accesses.get(&key) else { continue };
                for (start, bytes) in &touched.blocks {
                    let from = start + u128::from(turn.turn) * bytes;
                    let to = from + bytes;
                    let first = from.saturating_sub(longest[&key]);
                    let begin = accesses.partition_point(|access| access.area.from < first);
                    let near = accesses[begin..].iter().take_while(|access| access.area.from < to);
                    for access in near.filter(|access| access.area.write || touched.write) {
                        let before = access.tick <= turn.clock.of(access.core);
                        let after = access.clock.of(server(turn.client)) >= turn.number;
                        if !before
                            && !after
                            && let Some(byte) = access.area.meets(from, to)
                        {
                            say(ground, report, turn, touched, access, byte);
                        }
                    }
                }
            }
        }
    }
}

fn say(
    ground: &Ground<'_>,
    report: &mut Report,
    turn: &Sent,
    touched: &Touched,
    access: &Access,
    byte: u128,
) {
    let rule = if touched.write { "arrived" } else { "ready" };
    report.add(Severity::Error, rule, access.source, Some(access.name), || {
        let words = &ground.words;
        let message = format!(
            "this {} element {} of `{}`, which turn {} of `{}` {}, and nothing orders it with that turn, committed in line {}",
            if access.area.write { "writes" } else { "reads" },
            byte / u128::from(touched.size.max(1)),
            words.base(touched.base),
            turn.turn + 1,
            words.task(turn.task),
            if touched.write { "receives" } else { "sends" },
            turn.source.line
        );
        let help = match touched.write {
            true => "wait for the turn before, on this core or on one that it has met since",
            false => "let all cores that write meet before the commit, and wait before writing anew",
        };
        (message, help.to_owned())
    });
}
