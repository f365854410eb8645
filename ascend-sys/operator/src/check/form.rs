//! Checks each task and each rank by itself: sizes, bounds and channels. These checks need no order
//! of the tasks, and they assume nothing about the operator.

use super::finding::{Notes, Place};
use crate::task::{Memory, Operator, Piece, RankTasks, Signal, Step, Task};
use std::collections::HashMap;
use std::ops::Range;

pub(super) fn look(operators: &[Operator], notes: &mut Notes) {
    if let Some((first, at, other)) = operators.first().and_then(|first| {
        let others = operators.iter().enumerate().skip(1);
        let other = others.into_iter().find(|(_, other)| other.ranks.len() != first.ranks.len());
        other.map(|(at, other)| (first, at, other))
    }) {
        notes.about("form", "ranks differ", other.source, || {
            let (a, b) = (first.ranks.len(), other.ranks.len());
            let message =
                format!("the number of ranks is {a} for operator 0 and {b} for operator {at}");
            (message, "record all operators of a communicator for as many ranks as it has".into())
        });
    }
    let mut kept = Channels::new();
    for (at, operator) in (0..).zip(operators) {
        let which = (operators.len() > 1).then_some(at);
        sizes(operator, notes);
        let channels = channels(operator, &mut kept, notes);
        for (rank, tasks) in (0..).zip(&operator.ranks) {
            for (thread, steps) in (0..).zip(&tasks.threads) {
                for (position, step) in (0..).zip(steps) {
                    let Step { task, source } = *step;
                    let place = Place { operator: which, rank, thread, position, source, task };
                    View { operator, channels: &channels, place, tasks, notes }.look();
                }
            }
        }
    }
}

/// Checks the sizes of the inputs and outputs of each rank against the goal.
fn sizes(operator: &Operator, notes: &mut Notes) {
    let ranks = operator.ranks.len() as u32;
    let mut add = |kind, message: String, help: &str| {
        notes.about("form", kind, operator.source, || (message, help.to_owned()));
    };
    if ranks == 0 {
        let message = format!("operator `{}` has no ranks", operator.name);
        add("no ranks", message, "record the tasks of every rank");
    }
    if let Some(root) = operator.goal.rank_beyond(ranks) {
        let message = format!("the goal names rank {root}, of {ranks}");
        add(
            "rank of goal",
            message,
            "use a rank below that number, because ranks are counted from 0",
        );
        return;
    }
    for (rank, tasks) in (0..).zip(&operator.ranks) {
        let (input, output) = operator.goal.sizes(rank, ranks, operator.count);
        let sides = [("input", tasks.input, input), ("output", tasks.output, output)];
        for (name, has, elements) in sides {
            let needs = elements.saturating_mul(operator.element);
            if has != needs {
                let message = format!(
                    "the {name} of rank {rank} has {has} bytes, and the goal asks for {elements} elements of {} bytes",
                    operator.element
                );
                add("size", message, "give it the size that `Goal::sizes` returns");
            }
        }
        if let Some(offset) = tasks.in_place
            && offset.checked_add(tasks.input).is_none_or(|end| end > tasks.output)
        {
            let RankTasks { input, output, .. } = tasks;
            let message = format!(
                "rank {rank} has its input of {input} bytes at byte {offset} of its output, which has {output}"
            );
            add("in place", message, "let an input in place lie within the output");
        } else if let Some(offset) = tasks.in_place
            && offset.checked_rem(operator.element).is_some_and(|rest| rest != 0)
        {
            let message = format!(
                "rank {rank} has its input at byte {offset} of its output, which has elements of {} bytes",
                operator.element
            );
            add(
                "in place",
                message,
                "begin the input of an operator in place at an element of its output",
            );
        }
    }
}

/// The number of notifies of each end of a channel, by the rank of the end and then its peer.
type Channels = HashMap<(u32, u32), u32>;

/// Returns the channels of an operator, and reports those that do not match. `kept` has the
/// channels that earlier operators have opened at both ends; the operator uses them again. The
/// channels that it opens at both ends are added to `kept`.
fn channels(operator: &Operator, kept: &mut Channels, notes: &mut Notes) -> Channels {
    let ranks = operator.ranks.len() as u32;
    let mut ends = Channels::new();
    for (rank, tasks) in (0..).zip(&operator.ranks) {
        for &(peer, notifies) in &tasks.channels {
            let (kind, message, help) = if peer >= ranks {
                let message = format!("rank {rank} opens a channel to rank {peer}, of {ranks}");
                (
                    "channel beyond",
                    message,
                    "use a rank below that number, because ranks are counted from 0",
                )
            } else if peer == rank {
                let message = format!("rank {rank} opens a channel to itself");
                ("channel to itself", message, "copy within the rank instead")
            } else if ends.insert((rank, peer), notifies).is_some() {
                let message = format!("rank {rank} opens two channels to rank {peer}");
                ("two channels", message, "open one, with as many notifies as both need")
            } else {
                continue;
            };
            let source = operator.source_of_channel(rank, peer);
            notes.about("form", kind, source, || (message, help.to_owned()));
        }
    }
    let mut sorted: Vec<_> = ends.iter().collect();
    sorted.sort_unstable();
    for (&(rank, peer), &notifies) in sorted {
        let other = ends.get(&(peer, rank));
        let most = other.copied().unwrap_or(0).max(notifies);
        if kept.get(&(rank, peer)).is_some_and(|has| most <= *has) {
            continue;
        }
        let (kind, message, help) = match other {
            None => (
                "one end",
                format!("rank {rank} opens a channel to rank {peer}, which opens none to it"),
                "open it on both ranks: opening waits for the peer",
            ),
            Some(&other) if other != notifies && rank < peer => (
                "ends differ",
                format!(
                    "rank {rank} opens its channel with rank {peer} with {notifies} notifies, and rank {peer} with {other}"
                ),
                "open it with the same number of notifies on both ranks",
            ),
            Some(_) => continue,
        };
        let source = operator.source_of_channel(rank, peer);
        notes.about("remote", kind, source, || (message, help.to_owned()));
    }
    for (&(rank, peer), &notifies) in &ends {
        if ends.contains_key(&(peer, rank)) {
            let most = kept.entry((rank, peer)).or_insert(notifies);
            *most = notifies.max(*most);
        }
    }
    ends
}

/// The check of one task.
struct View<'a> {
    operator: &'a Operator,
    channels: &'a Channels,
    place: Place,
    /// The tasks of the rank that the task belongs to.
    tasks: &'a RankTasks,
    notes: &'a mut Notes,
}

impl View<'_> {
    fn add(&mut self, rule: &'static str, kind: &'static str, message: String, help: &str) {
        self.notes.add(rule, kind, vec![self.place], || (message, help.to_owned()));
    }

    fn look(&mut self) {
        match self.place.task {
            Task::Copy { from, to } => self.moved(&from, &to),
            Task::Reduce { from, to, .. } => {
                self.moved(&from, &to);
                let element = self.operator.element;
                let whole = |bytes: u64| bytes.checked_rem(element) == Some(0);
                if !whole(to.bytes) {
                    let message =
                        format!("this reduces {} bytes of elements of {element}", to.bytes);
                    self.add("form", "elements", message, "reduce whole elements");
                } else if !(whole(from.start) && whole(to.start)) {
                    let (from, to) = (from.start, to.start);
                    let message = format!(
                        "this reduces elements of {element} bytes from byte {from} on into those from byte {to} on"
                    );
                    self.add("form", "alignment", message, "begin at the start of an element");
                }
            }
            Task::Record(signal) => self.signal(signal, true),
            Task::Wait(signal) => self.signal(signal, false),
        }
    }

    fn moved(&mut self, from: &Piece, to: &Piece) {
        if from.bytes != to.bytes {
            let message = format!("this reads {} bytes and writes {}", from.bytes, to.bytes);
            self.add("form", "lengths", message, "read and write the same number of bytes");
        }
        let rank = self.place.rank;
        if from.rank != rank && to.rank != rank {
            let message = format!("rank {rank} moves {from}, to {to}");
            let help = "one side must be memory of the rank itself: let one of the two ranks do it";
            self.add("form", "strangers", message, help);
            return;
        }
        let reached = [("read", from), ("write", to)].map(|(verb, piece)| self.reach(verb, piece));
        if to.memory == Memory::Input && to.rank == rank {
            let message = format!("this writes {to}");
            let help = match self.tasks.in_place {
                None => {
                    "the input belongs to the user and must not be written: write the output or the communication buffer"
                }
                Some(_) => {
                    "the input must not be written: write the output, which contains the input in place"
                }
            };
            self.add("input", "", message, help);
        }
        if reached == [true, true] {
            self.overlap(from, to);
        }
    }

    /// Reports an error if a piece does not exist or the task must not reach it. Returns whether
    /// the rank of the piece exists and is this rank or has a channel to it.
    fn reach(&mut self, verb: &str, piece: &Piece) -> bool {
        let ranks = self.operator.ranks.len();
        let Some(owner) = self.operator.ranks.get(piece.rank as usize) else {
            let message = format!("this {verb}s memory of rank {}, of {ranks} ranks", piece.rank);
            self.add(
                "form",
                "rank",
                message,
                "use a rank below that number, because ranks are counted from 0",
            );
            return false;
        };
        let size = owner.size(piece.memory);
        if piece.start.checked_add(piece.bytes).is_none_or(|end| end > size) {
            let message = format!("this {verb}s {piece}, which has {size}");
            self.add("bounds", "", message, "move fewer bytes, or give it a larger memory");
        }
        let Place { rank, .. } = self.place;
        if piece.rank == rank {
            return true;
        }
        if piece.memory != Memory::Buffer {
            let message =
                format!("rank {rank} {verb}s the {} of rank {}", piece.memory, piece.rank);
            let help = "a channel reaches only the peer's communication buffer: let the peer copy from or into its other memory";
            self.add("remote", "memory", message, help);
        }
        self.opened(piece.rank).is_some()
    }

    /// Returns the number of notifies of the channel with a peer. Reports an error if there is no
    /// channel.
    fn opened(&mut self, peer: u32) -> Option<u32> {
        let rank = self.place.rank;
        let end = self.channels.get(&(rank, peer)).copied();
        if end.is_none() {
            let message = format!("rank {rank} has no channel to rank {peer}");
            let help = "open one on both ranks before the first task: resources are acquired when the operator is planned";
            self.add("remote", "channel", message, help);
        }
        end
    }

    fn overlap(&mut self, from: &Piece, to: &Piece) {
        let whole = |piece: &Piece| match (piece.memory, self.tasks.in_place) {
            (Memory::Input, Some(offset)) if piece.rank == self.place.rank => {
                let start = piece.start.saturating_add(offset);
                Piece { memory: Memory::Output, start, ..*piece }
            }
            _ => *piece,
        };
        let (a, b) = (whole(from), whole(to));
        let Range { start, end } = a.start.max(b.start)..a.range().end.min(b.range().end);
        let is_copy = matches!(self.place.task, Task::Copy { .. });
        if (a.rank, a.memory) != (b.rank, b.memory) || start >= end || (is_copy && a == b) {
            return;
        }
        let message = format!(
            "bytes {start}..{end} of the {} of rank {} are both read and written",
            a.memory, a.rank
        );
        let help =
            "copy the overlapping bytes through the communication buffer, or in separate pieces";
        self.add("overlap", "", message, help);
    }

    fn signal(&mut self, signal: Signal, record: bool) {
        let Place { rank: here, thread: on, .. } = self.place;
        match signal {
            Signal::Thread { rank, thread, .. } => {
                if rank != here {
                    let message = format!("rank {here} uses {signal}");
                    let help =
                        "only threads of the same rank use it: use a notify of the channel instead";
                    self.add("form", "other rank", message, help);
                } else if !record && thread != on {
                    let message = format!("thread {on} waits for {signal}");
                    let help = "a thread waits only for its own notifies: record one of these";
                    self.add("form", "other thread", message, help);
                } else if thread as usize >= self.tasks.threads.len() {
                    let threads = self.tasks.threads.len();
                    let message =
                        format!("this uses thread {thread} of rank {rank}, which has {threads}");
                    self.add("form", "thread", message, "count threads from 0, the main thread");
                }
            }
            Signal::Channel { rank, peer, index } => {
                let (owner, other) = if record { (peer, rank) } else { (rank, peer) };
                if owner != here {
                    let verb = if record { "records" } else { "waits for" };
                    let message = format!("rank {here} {verb} {signal}");
                    let help = "let the rank that owns this end wait for it, and let its peer \
                                record it";
                    self.add("form", "other end", message, help);
                    return;
                }
                // Both ends are opened with the same number of notifies. Otherwise that has been
                // reported already.
                if let Some(notifies) = self.opened(other).filter(|notifies| index >= *notifies) {
                    let message = format!("this uses {signal}, which has {notifies}");
                    let help = "open the channel with more notifies, on both ranks";
                    self.add("remote", "index", message, help);
                }
            }
        }
    }
}
