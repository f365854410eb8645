//! Finds work that is lost: outputs that nothing writes, results that are overwritten before
//! anything uses them, and sends of a task whose blocks lie among those of another task.
//!
//! A use counts for a result unless it is known to come before the result, or after the write that
//! overwrites it. So every reported result is lost in every order.

use super::*;
use crate::program::Warning;

/// The greatest number of pairs that are checked.
const MOST_PAIRS: usize = 1 << 22;

/// A block that a turn receives or sends: its beginning, its end, the turn, and the memory that the
/// block is a part of.
type Block<'a> = (u128, u128, &'a Sent, &'a Touched);

/// The blocks that turns touch in a piece of memory, sorted by their beginnings.
#[derive(Default)]
struct TurnBlocks<'a> {
    receives: Vec<Block<'a>>,
    sends: Vec<Block<'a>>,
}

/// Reports lost results. All writes of the kernel must be known.
pub(super) fn look(
    traffic: &Traffic,
    ground: &Ground<'_>,
    report: &mut Report,
    sent: &[Sent],
    server: impl Fn(ClientId) -> usize,
) {
    let mut turns: BTreeMap<Space, TurnBlocks<'_>> = BTreeMap::new();
    for turn in sent {
        for touched in turn.touched.iter() {
            let of = turns.entry(touched.space.0).or_default();
            let list = if touched.write { &mut of.receives } else { &mut of.sends };
            let blocks = turn.blocks(touched, touched.space.1);
            list.extend(blocks.map(|(from, to)| (from, to, turn, touched)));
        }
    }
    never_written(traffic, ground, report, &turns);
    siblings(ground, report, sent);
    let mut looked = 0;
    for (space, of) in &mut turns {
        if matches!(space, Space::Window(..)) || !traffic.knows(*space) {
            continue;
        }
        of.receives.sort_by_key(|block| (block.0, block.2.number));
        of.sends.sort_by_key(|block| block.0);
        let accesses = traffic.accesses.get(space).map_or(&[][..], |all| all);
        let memory =
            ReceivedMemory { of, accesses, longest: longest(of, accesses), server: &server };
        for block in &of.receives {
            memory.look(ground, report, block, &mut looked);
            if looked > MOST_PAIRS {
                let source = block.2.source;
                report.add(Severity::Note, "long", source, None, || {
                    let message = "whether results are used is checked up to here, because there are too many that lie near each other";
                    (message.to_owned(), "nothing to change".to_owned())
                });
                return;
            }
        }
    }
}

/// Reports all outputs that are never written in one finding.
fn never_written(
    traffic: &Traffic,
    ground: &Ground<'_>,
    report: &mut Report,
    turns: &BTreeMap<Space, TurnBlocks<'_>>,
) {
    let mut names = Vec::new();
    for (at, parameter) in ground.program.parameters.iter().enumerate() {
        let (Some(space), length) = (ground.spaces.argument(at), ground.setting.parameters.get(at))
        else {
            continue;
        };
        let is_empty = length.copied().flatten() == Some(0);
        if !parameter.output || is_empty || !traffic.knows(space) {
            continue;
        }
        let accesses = traffic.accesses.get(&space);
        let stored = accesses.is_some_and(|all| all.iter().any(|access| access.area.write));
        let received = turns.get(&space).is_some_and(|of| !of.receives.is_empty());
        if !stored && !received {
            names.push(format!("`{}`", parameter.name));
        }
    }
    if names.is_empty() {
        return;
    }
    let rule = Warning::NeverWritten.rule();
    report.add(Severity::Warning, rule, Source::default(), None, || {
        let message = format!("no core and no turn writes {} in this launch", names.join(" or "));
        let what = match names.len() {
            1 => "write it, or do not declare it as an output",
            _ => "write them, or do not declare them as outputs",
        };
        (message, help(what, "NeverWritten"))
    });
}

fn help(what: &str, warning: &str) -> String {
    format!(
        "{what}; if this is intended, call `k.allow(Warning::{warning}, \"why\")` in the kernel"
    )
}

/// The sends of a task with a stride: its first turn, and the number of turns.
struct Strided<'a> {
    first: &'a Sent,
    touched: &'a Touched,
    turns: u128,
}

impl Strided<'_> {
    /// Returns the distance from a block to the next one, in bytes.
    fn stride(&self) -> u128 {
        match self.touched.blocks[..] {
            [(first, _), (second, _), ..] => second - first,
            _ => 0,
        }
    }

    /// Returns the range that all turns together send to each rank. Each turn begins where the one
    /// before ends.
    fn blocks(&self) -> impl Iterator<Item = (u128, u128)> + use<'_> {
        let start = self.touched.space.1;
        let blocks = self.touched.blocks.iter();
        blocks.map(move |(from, bytes)| (start + from, start + from + bytes * self.turns))
    }
}

/// Reports sends of a task whose blocks lie among those of another task of the same operation with
/// another stride.
fn siblings(ground: &Ground<'_>, report: &mut Report, sent: &[Sent]) {
    let mut tasks: BTreeMap<(ClientId, Space, u32), Vec<Strided<'_>>> = BTreeMap::new();
    for turn in sent {
        for touched in turn.touched.iter().filter(|of| !of.write && of.blocks.len() > 1) {
            let Some(command) = touched.strided else { continue };
            let alike = tasks.entry((turn.client, touched.space.0, command)).or_default();
            match alike.iter_mut().find(|of| Rc::ptr_eq(&of.first.touched, &turn.touched)) {
                Some(known) => known.turns = known.turns.max(u128::from(turn.turn) + 1),
                None => alike.push(Strided { first: turn, touched, turns: 1 }),
            }
        }
    }
    for tasks in tasks.values() {
        for (at, its) in tasks.iter().enumerate() {
            for others in tasks[..at].iter().filter(|others| others.stride() != its.stride()) {
                let met = its.blocks().enumerate().find_map(|(rank, (from, to))| {
                    let mut among = others.blocks().enumerate();
                    let (other, (start, _)) = among.find(|(_, (a, b))| *a < to && from < *b)?;
                    Some((rank, other, from.max(start)))
                });
                let Some((rank, other, byte)) = met else { continue };
                report.add(Severity::Error, "stride", its.first.source, None, || {
                    let [task, sibling] =
                        [its, others].map(|of| ground.words.task(of.first.task));
                    let size = u128::from(its.touched.size.max(1));
                    let to = match rank == other {
                        true => format!(" to rank {rank}"),
                        false => {
                            format!(", `{task}` to rank {rank} and `{sibling}` to rank {other}")
                        }
                    };
                    let message = format!(
                        "`{task}` has a stride of {}, but `{sibling}` has a stride of {}, and their blocks overlap: both send element {} of `{}`{to}",
                        its.stride() / size,
                        others.stride() / size,
                        (byte - its.touched.space.1) / size,
                        ground.words.base(its.touched.base),
                    );
                    let help = format!(
                        "give `{task}` the stride of `{sibling}`: a stride is the distance between the data of two ranks, not the length of a turn"
                    );
                    (message, help)
                });
            }
        }
    }
}

/// A piece of memory, and the accesses to it.
struct ReceivedMemory<'a, F> {
    of: &'a TurnBlocks<'a>,
    accesses: &'a [Access],
    /// The lengths of the longest received block, the longest sent block and the longest access.
    longest: [u128; 3],
    server: &'a F,
}

fn longest(of: &TurnBlocks<'_>, accesses: &[Access]) -> [u128; 3] {
    let blocks =
        |list: &[Block<'_>]| list.iter().map(|(from, to, ..)| to - from).max().unwrap_or(0);
    [blocks(&of.receives), blocks(&of.sends), longest_of(accesses)]
}

/// The access that overwrites a result.
enum Later<'a> {
    Turn(&'a Sent),
    Core(&'a Access),
}

impl<F: Fn(ClientId) -> usize> ReceivedMemory<'_, F> {
    fn look(
        &self,
        ground: &Ground<'_>,
        report: &mut Report,
        (from, to, turn, touched): &Block<'_>,
        looked: &mut usize,
    ) {
        let received = near(&self.of.receives, |of| of.0, self.longest[0], (*from, *to));
        let accessed = near(self.accesses, |of| of.area.from, self.longest[2], (*from, *to));
        *looked += received.len() + accessed.len();
        let behind = |other: &Sent| other.client == turn.client && other.number > turn.number;
        let turns = received.iter().filter(|(a, b, other, _)| behind(other) && a < to && from < b);
        let turns = turns.map(|(a, b, other, _)| ((*a, *b), Later::Turn(other)));
        let knows = |access: &Access| access.clock.turns((self.server)(turn.client)) >= turn.number;
        let writes = accessed
            .iter()
            .filter(|of| of.area.write && of.area.way != Way::Add && of.area.count == 1)
            .filter(|access| knows(access) && access.area.end() > *from)
            .map(|access| ((access.area.from, access.area.end()), Later::Core(access)));
        for ((a, b), later) in turns.chain(writes) {
            let range = ((*from).max(a), (*to).min(b));
            *looked += 1;
            if *looked > MOST_PAIRS || self.used(turn, &later, range, looked) {
                continue;
            }
            let (source, name) = match &later {
                Later::Turn(other) => (other.source, None),
                Later::Core(access) => (access.source, Some(access.name)),
            };
            let rule = Warning::Overwritten.rule();
            return report.add(Severity::Warning, rule, source, name, || {
                let what = match &later {
                    Later::Turn(other) => other.words(ground),
                    Later::Core(_) => "this".to_owned(),
                };
                let element = (range.0 - touched.space.1) / u128::from(touched.size.max(1));
                let message = format!(
                    "{what} overwrites element {element} of `{}` before anything uses it; {}, committed in line {}, receives it",
                    ground.words.base(touched.base),
                    turn.words(ground),
                    turn.source.line
                );
                (message, help("use it first, or leave it out", "Overwritten"))
            });
        }
    }

    /// Returns whether anything may use these bytes between the turn that receives them and the
    /// access that overwrites them.
    fn used(
        &self,
        turn: &Sent,
        later: &Later<'_>,
        (from, to): (u128, u128),
        looked: &mut usize,
    ) -> bool {
        let sends = near(&self.of.sends, |of| of.0, self.longest[1], (from, to));
        let accesses = near(self.accesses, |of| of.area.from, self.longest[2], (from, to));
        *looked += sends.len() + accesses.len();
        let sent = sends.iter().filter(|(a, b, ..)| *a < to && from < *b).any(|(.., other, _)| {
            let before = other.client == turn.client && other.number <= turn.number;
            let behind = match later {
                Later::Turn(last) => other.client == last.client && other.number > last.number,
                Later::Core(write) => other.knew(write),
            };
            !before && !behind
        });
        let reads = |access: &&Access| !access.area.write || access.area.way == Way::Add;
        sent || accesses.iter().filter(reads).any(|access| {
            let behind = match later {
                Later::Turn(last) => access.clock.turns((self.server)(last.client)) >= last.number,
                Later::Core(write) => access.knew(write),
            };
            access.area.meets(from, to).is_some() && !turn.knew(access) && !behind
        })
    }
}
