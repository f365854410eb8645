//! Checks results: every byte that is read must have been written, and every output must have the
//! contents that the goal requires.
//!
//! The checker executes the tasks in one order, with [symbols](super::origin) instead of data. If
//! there are no races, every order gives the same result.

use super::expected::{self, Expected, Giver};
use super::finding::{Notes, Severity};
use super::ground::{Bytes, Ground};
use super::origin::{Origin, Sets, Value, Values};
use crate::lanes::NONE;
use crate::task::{Goal, Memory, Operator, ReduceOp, Task};
use crate::words;
use std::ops::Range;

pub(super) fn look(ground: &Ground<'_>, notes: &mut Notes) {
    let mut run = ResultRun {
        ground,
        sets: Sets::new(ground.ranks),
        memories: Vec::new(),
        from: Vec::new(),
        to: Vec::new(),
        notes,
    };
    run.memories.resize_with(ground.memories(), Values::default);
    run.inputs();
    for task in ground.sequence() {
        if let Some((from, to)) = ground.moved(task) {
            match *ground.task(task) {
                Task::Copy { .. } => run.copy(task, &from, &to),
                Task::Reduce { op, .. } => run.reduce(task, &from, &to, op),
                Task::Record(_) | Task::Wait(_) => {}
            }
        }
    }
    run.outputs();
}

/// Runs of bytes, their contents, and the tasks that wrote them.
type Runs = Vec<(Range<usize>, Value, u32)>;

struct ResultRun<'a, 'b> {
    ground: &'a Ground<'b>,
    sets: Sets,
    /// The contents of the memories, indexed by their numbers.
    memories: Vec<Values>,
    /// `from` holds the bytes that the current task reads, and `to` the old bytes where it writes.
    /// Both are kept so that their memory is reused.
    from: Runs,
    to: Runs,
    notes: &'a mut Notes,
}

impl ResultRun<'_, '_> {
    /// Fills in the contents that the inputs have before the first task.
    fn inputs(&mut self) {
        for (at, operator) in (0..).zip(self.ground.operators) {
            for (rank, tasks) in (0..).zip(&operator.ranks) {
                let piece = crate::task::Piece {
                    rank,
                    memory: Memory::Input,
                    start: 0,
                    bytes: tasks.input,
                };
                let Some(bytes) = self.ground.bytes(at, &piece).filter(|it| !it.range.is_empty())
                else {
                    continue;
                };
                let ranks = self.sets.one(rank as usize);
                let origin = Origin { operator: at, ranks, op: None, shift: 0 };
                let value = Value::From(origin).moved(0, bytes.range.start);
                self.memories[bytes.memory].put(bytes.range, value, NONE);
            }
        }
    }

    fn copy(&mut self, task: u32, from: &Bytes, to: &Bytes) {
        let mut runs = std::mem::take(&mut self.from);
        self.memories[from.memory].get(from.range.clone(), &mut runs);
        for (range, mut value, _) in runs.drain(..) {
            if value == Value::Nothing {
                self.unwritten(task, from.memory, range.clone(), "reads");
                value = Value::Reported;
            }
            let there = |at: usize| at - from.range.start + to.range.start;
            let value = value.moved(range.start, there(range.start));
            self.memories[to.memory].put(there(range.start)..there(range.end), value, task);
        }
        self.from = runs;
    }

    fn reduce(&mut self, task: u32, from: &Bytes, to: &Bytes, op: ReduceOp) {
        let (mut runs, mut into) = (std::mem::take(&mut self.from), std::mem::take(&mut self.to));
        self.memories[from.memory].get(from.range.clone(), &mut runs);
        for (range, value, _) in runs.drain(..) {
            let there = |at: usize| at - from.range.start + to.range.start;
            let here = |at: usize| at - to.range.start + from.range.start;
            self.memories[to.memory].get(there(range.start)..there(range.end), &mut into);
            for (place, before, _) in into.drain(..) {
                let value = value.moved(range.start, there(range.start));
                let combined = match (before, value) {
                    (_, Value::Nothing) => {
                        let read = here(place.start)..here(place.end);
                        self.unwritten(task, from.memory, read, "reads");
                        Value::Reported
                    }
                    (Value::Nothing, _) => {
                        self.unwritten(task, to.memory, place.clone(), "reduces into");
                        Value::Reported
                    }
                    (Value::From(before), Value::From(value)) => {
                        self.combine(task, &place, before, value, op)
                    }
                    (Value::Reported, _) | (_, Value::Reported) => Value::Reported,
                };
                self.memories[to.memory].put(place, combined, task);
            }
        }
        (self.from, self.to) = (runs, into);
    }

    fn combine(
        &mut self,
        task: u32,
        place: &Range<usize>,
        a: Origin,
        b: Origin,
        op: ReduceOp,
    ) -> Value {
        let wrong_op = [a.op, b.op].into_iter().flatten().find(|other| *other != op);
        let common = self.sets.common(a.ranks, b.ranks);
        let (kind, message, help) = if a.operator != b.operator || a.shift != b.shift {
            let (a, b) = (self.words(a, place), self.words(b, place));
            let message = format!("this reduces {b} into {a}");
            (
                "offset",
                message,
                "reduce each element with the same element of the other ranks: check the offsets",
            )
        } else if let Some(other) = wrong_op {
            let message = format!("this takes the {} of a {}", op.name(), other.name());
            ("op", message, "use one operation for the whole reduction")
        } else if !common.is_empty() && matches!(op, ReduceOp::Sum | ReduceOp::Prod) {
            let message = format!(
                "this reduces {} into {}: the {} has {} twice",
                self.words(b, place),
                self.words(a, place),
                op.name(),
                words::ranks(&common)
            );
            (
                "twice",
                message,
                "leave one of the two reductions out, or begin a new one with a copy",
            )
        } else {
            let ranks = self.sets.union(a.ranks, b.ranks);
            // The maximum or minimum of two equal values is that value, so the operation stays as
            // it was.
            let op = if a.ranks == b.ranks { a.op } else { Some(op) };
            return Value::From(Origin { ranks, op, ..a });
        };
        let operator = self.ground.operator(task) as usize;
        if matches!(self.ground.operators[operator].goal, Goal::Other { .. }) {
            // The use of the value is unknown, so nothing is reported.
            return Value::Reported;
        }
        let places = vec![self.ground.place(task)];
        self.notes.add("result", kind, places, || (message, help.to_owned()));
        Value::Reported
    }

    /// Reports a read of bytes that no task has written.
    fn unwritten(&mut self, task: u32, memory: usize, range: Range<usize>, verb: &'static str) {
        let places = vec![self.ground.place(task)];
        self.notes.add("result", verb, places, || {
            let bytes = self.ground.words(&Bytes { memory, range });
            let message = format!("this {verb} {bytes}, which nobody has written before");
            let help = "write them first, ordered by a notify, or move fewer bytes";
            (message, help.into())
        });
    }

    /// Checks the contents after the last task against the goal.
    fn outputs(&mut self) {
        for (at, operator) in (0..).zip(self.ground.operators) {
            for rank in 0..operator.ranks.len() as u32 {
                let memory = self.ground.memory(at, rank, Memory::Output);
                for Expected { range, giver, source } in expected::of_rank(operator, rank) {
                    let wanted = self.wanted(at, giver);
                    let wanted = Value::From(wanted).moved(source, range.start);
                    let mut runs = std::mem::take(&mut self.to);
                    self.memories[memory].get(range, &mut runs);
                    for (range, value, by) in runs.drain(..) {
                        if value != wanted && value != Value::Reported {
                            self.wrong(operator, &Bytes { memory, range }, (value, by), wanted);
                        }
                    }
                    self.to = runs;
                }
            }
        }
    }

    fn wanted(&mut self, operator: u32, giver: Giver) -> Origin {
        let (ranks, op) = match giver {
            Giver::One(rank) => (self.sets.one(rank as usize), None),
            Giver::All(op) => (self.sets.all(), (self.ground.ranks > 1).then_some(op)),
        };
        Origin { operator, ranks, op, shift: 0 }
    }

    fn wrong(
        &mut self,
        operator: &Operator,
        bytes: &Bytes,
        (value, by): (Value, u32),
        wanted: Value,
    ) {
        let Value::From(wanted) = wanted else { return };
        let (range, source) = (&bytes.range, operator.source);
        let (place, needed) = (self.ground.words(bytes), self.words(wanted, range));
        let Value::From(found) = value else {
            self.notes.about("result", "missing", source, || {
                let message = format!("{place} must be {needed}, and nobody writes them");
                (message, "let a task write them, and check the offsets and lengths".into())
            });
            return;
        };
        let last = (by != NONE).then(|| self.ground.place(by));
        let (has, must) = (self.sets.ranks(found.ranks), self.sets.ranks(wanted.ranks));
        let missing: Vec<usize> =
            must.into_iter().filter(|rank| has.binary_search(rank).is_err()).collect();
        let same = (found.operator, found.shift) == (wanted.operator, wanted.shift);
        let incomplete = same && wanted.op.is_some() && !missing.is_empty();
        let kind = if incomplete { "incomplete" } else { "wrong" };
        if self.notes.again("result", kind, last.as_slice()) {
            return;
        }
        let ways = match by {
            NONE => Vec::new(),
            by => self.ways(by, (bytes.memory, range.start)),
        };
        let (more, help) = match &ways[..] {
            [] => ("", "no task writes them: add a task that does"),
            [_] => ("", "check what this task reads and where it writes"),
            _ => (
                "; these tasks moved them there, the last one first",
                "check what each task reads and where it writes",
            ),
        };
        let help = match incomplete {
            true => format!("reduce the bytes of {} too", words::ranks(&missing)),
            false => help.to_owned(),
        };
        let message =
            format!("{place} must be {needed}, and are {}{more}", self.words(found, range));
        let places = ways.into_iter().map(|task| self.ground.place(task)).collect();
        self.notes.push(Severity::Error, "result", places, source, (message, help));
    }

    /// Returns the tasks that gave a byte its contents, from the task that wrote it last back to
    /// the tasks that read inputs.
    fn ways(&self, last: u32, byte: (usize, usize)) -> Vec<u32> {
        let sequence: Vec<u32> = self.ground.sequence().collect();
        let (mut bytes, mut ways) = (vec![byte], Vec::new());
        for &task in sequence.iter().rev().skip_while(|task| **task != last) {
            let Some((from, to)) = self.ground.moved(task) else { continue };
            let written =
                |(memory, at): &(usize, usize)| *memory == to.memory && to.range.contains(at);
            let source =
                |(_, at): &(usize, usize)| (from.memory, at - to.range.start + from.range.start);
            let sources: Vec<_> = bytes.iter().filter(|byte| written(byte)).map(source).collect();
            if sources.is_empty() {
                continue;
            }
            // A reduction keeps the earlier contents of a byte in its result, so only a copy ends
            // the trace there.
            if matches!(self.ground.task(task), Task::Copy { .. }) {
                bytes.retain(|byte| !written(byte));
            }
            for source in sources {
                if !bytes.contains(&source) {
                    bytes.push(source);
                }
            }
            ways.push(task);
        }
        ways
    }

    /// Describes the bytes of inputs that are at this range now.
    fn words(&self, origin: Origin, range: &Range<usize>) -> String {
        let Origin { operator, ranks, op, shift } = origin;
        let (start, end) = (range.start.wrapping_add(shift), range.end.wrapping_add(shift));
        let ranks = self.sets.ranks(ranks);
        let input = if ranks.len() == 1 { "the input" } else { "the inputs" };
        let mut words = format!("bytes {start}..{end} of {input} of {}", words::ranks(&ranks));
        if let Some(op) = op {
            words = format!("the {} of {words}", op.name());
        }
        if self.ground.operators.len() > 1 {
            words = format!("{words} in operator {operator}");
        }
        words
    }
}
