//! The reasons why a kernel synchronises. Each call that makes units or cores wait gets its reason
//! as a comment.
//!
//! The reason is the first step after the call that needs the call: it uses the same memory as a
//! step before the call, and one of the two writes. If the kernel has a comment right before the
//! call, that comment is the reason, and nothing is added.

use super::names::Thing;
use super::printer::Printer;
use super::uses::blocks_of;
use crate::declared::*;
use crate::program::Program;
use crate::step::uses::{StepUse, UsedMemory};
use crate::step::*;

/// The number of steps on each side of a call that are searched.
const FARTHEST: usize = 4096;

/// A piece of memory. Reasons do not distinguish smaller parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReasonPlace {
    Parameter(u32),
    Workspace,
    Window,
    Tensor(LocalId),
    Scratch(ScratchId),
    Queue(QueueId),
}

impl ReasonPlace {
    fn of(place: &Place) -> Self {
        match place.base {
            Base::Parameter(at) => ReasonPlace::Parameter(at),
            Base::Workspace => ReasonPlace::Workspace,
            Base::WindowIn(..) | Base::WindowOut(..) => ReasonPlace::Window,
        }
    }

    fn is_global(self) -> bool {
        matches!(self, ReasonPlace::Parameter(_) | ReasonPlace::Workspace | ReasonPlace::Window)
    }
}

/// A use of memory by a step.
#[derive(Debug, Clone, Copy)]
struct UnitAccess {
    unit: Pipe,
    memory: ReasonPlace,
    tensor: Option<LocalId>,
    writes: bool,
}

/// The steps around a call.
struct Around<'p> {
    program: &'p Program,
    /// The steps before the call, the last one first.
    before: Vec<&'p Step>,
    after: Vec<&'p Step>,
}

impl<'p> Around<'p> {
    fn new(program: &'p Program, (block, at): (usize, usize)) -> Self {
        let mut around = Around { program, before: Vec::new(), after: Vec::new() };
        let (mut block, mut at) = (block, at);
        loop {
            let nodes = &program.blocks[block];
            let outer = parent(program, block);
            let loops = matches!(outer, Some((_, _, Step::Loop { .. })));
            around.add_before(nodes[..at].iter().rev());
            around.add_after(nodes[at + 1..].iter());
            if loops {
                // In a loop, the steps of the iteration before and of the next iteration count too.
                around.add_before(nodes[at + 1..].iter().rev());
                around.add_after(nodes[..at].iter());
            }
            match outer {
                Some((outer, of, _)) => (block, at) = (outer, of),
                None => return around,
            }
        }
    }

    fn add_before(&mut self, nodes: impl Iterator<Item = &'p Node>) {
        for node in nodes {
            for inner in blocks_of(&node.step).collect::<Vec<_>>() {
                self.add_before(self.program.blocks[inner.0 as usize].iter().rev());
            }
            if self.before.len() < FARTHEST {
                self.before.push(&node.step);
            }
        }
    }

    fn add_after(&mut self, nodes: impl Iterator<Item = &'p Node>) {
        for node in nodes {
            if self.after.len() < FARTHEST {
                self.after.push(&node.step);
            }
            for inner in blocks_of(&node.step).collect::<Vec<_>>() {
                self.add_after(self.program.blocks[inner.0 as usize].iter());
            }
        }
    }

    /// Returns the first use after the call that must wait for a use before the call. The use
    /// before the call comes first in the result.
    fn conflict(
        &self,
        first: impl Fn(&UnitAccess) -> bool,
        second: impl Fn(&UnitAccess) -> bool,
        stop: impl Fn(&Step) -> bool,
    ) -> Option<(UnitAccess, UnitAccess)> {
        let of = |step: &&Step| uses(self.program, step);
        let before: Vec<_> = (self.before.iter().take_while(|step| !stop(step)).flat_map(of))
            .filter(|used| first(used))
            .collect();
        self.after.iter().flat_map(of).filter(|used| second(used)).find_map(|second| {
            let meets =
                |used: &&UnitAccess| used.memory == second.memory && (used.writes || second.writes);
            before.iter().find(meets).map(|first| (*first, second))
        })
    }
}

/// Returns the step that a block belongs to, and its place.
fn parent(program: &Program, block: usize) -> Option<(usize, usize, &Step)> {
    // The step is always in an earlier block.
    program.blocks[..block].iter().enumerate().find_map(|(outer, nodes)| {
        let inside = |node: &Node| blocks_of(&node.step).any(|inner| inner.0 as usize == block);
        nodes.iter().position(inside).map(|at| (outer, at, &nodes[at].step))
    })
}

fn uses(program: &Program, step: &Step) -> Vec<UnitAccess> {
    if matches!(step, Step::Copy(Copy::Clean(_))) {
        return Vec::new();
    }
    let access = |StepUse { unit, memory, writes }| {
        let (memory, tensor) = match memory {
            UsedMemory::Global(place) => (ReasonPlace::of(&place), None),
            UsedMemory::Local(of) => (buffer(program, of.tensor), Some(of.tensor)),
        };
        UnitAccess { unit, memory, tensor, writes }
    };
    step.uses().into_iter().map(access).collect()
}

/// Returns the memory of a tensor. All tensors of one buffer share it.
fn buffer(program: &Program, tensor: LocalId) -> ReasonPlace {
    let of = program.blocks.iter().flatten().find_map(|node| match node.step {
        Step::Buffer(Buffer::Get(scratch, local)) if local == tensor => {
            Some(ReasonPlace::Scratch(scratch))
        }
        Step::Buffer(Buffer::Alloc(queue, local) | Buffer::Dequeue(queue, local))
            if local == tensor =>
        {
            Some(ReasonPlace::Queue(queue))
        }
        _ => None,
    });
    of.unwrap_or(ReasonPlace::Tensor(tensor))
}

/// Returns whether all cores of a kind wait for each other here.
fn meets(step: &Step) -> bool {
    let flag = matches!(step, Step::Sync(Sync::Raise { mode: Mode::Kind, .. }));
    flag || matches!(step, Step::Sync(Sync::All { .. }))
}

/// Returns the memory that a task sends or receives.
fn task_memory(program: &Program, task: TaskId, received: bool) -> Option<ReasonPlace> {
    let prepared = program.blocks.iter().flatten().find_map(|node| match &node.step {
        Step::Hccl(Hccl::Prepare { task: of, operation, .. }) if *of == task => Some(operation),
        _ => None,
    })?;
    let recv = prepared.receives()?;
    let send = *prepared.sends().first()?;
    Some(ReasonPlace::of(if received { &recv } else { &send }))
}

impl Printer<'_> {
    /// Prints a call that makes units or cores wait, with its reason.
    pub(super) fn reasoned(&mut self, call: &str, sync: &Sync) {
        match self.reason(sync) {
            Some(reason) => self.text.noted(call, &reason),
            None => self.text.line(call),
        }
    }

    fn reason(&self, sync: &Sync) -> Option<String> {
        let (block, at) = self.place;
        let nodes = &self.program.blocks[block];
        let told = |node: &Node| matches!(node.step, Step::Comment(_));
        let last = at.checked_sub(1).map(|last| &nodes[last]);
        if last.is_some_and(told) {
            return None;
        }
        let next = nodes.get(at + 1).map(|node| &node.step);
        let around = Around::new(self.program, self.place);
        Some(match *sync {
            Sync::Units(first, second) => self.of_units(&around, first, second),
            Sync::Pipe(of) => self.of_units(&around, of, of),
            Sync::All { .. } => self.of_cores(&around),
            Sync::Raise { mode: Mode::Kind, flag, .. }
                if next == Some(&Step::Sync(Sync::Await { flag })) =>
            {
                self.of_cores(&around)
            }
            Sync::Raise { pipe, .. } => self.of_raising(&around, pipe),
            // A wait right after its flag is raised belongs to that call, so it has no reason of
            // its own.
            Sync::Await { flag } => match last.map(|node| &node.step) {
                Some(Step::Sync(Sync::Raise { mode: Mode::Kind, flag: raised, .. }))
                    if *raised == flag =>
                {
                    return None;
                }
                _ => self.of_waiting(&around, flag),
            },
        })
    }

    fn of_units(&self, around: &Around<'_>, first: Pipe, second: Pipe) -> String {
        let is = |unit: Pipe| move |used: &UnitAccess| unit == Pipe::All || used.unit == unit;
        let none = |_: &Step| false;
        if let Some((one, other)) = around.conflict(is(first), is(second), none) {
            let memory = self.called(&other);
            let (a, b) = (one.unit.name(), other.unit.name());
            return match (one.writes, other.writes) {
                _ if a == b => format!("{b} has used {memory} before"),
                (true, false) => format!("{b} reads {memory}, which {a} has written"),
                (true, true) => format!("{b} writes {memory}, which {a} has written"),
                (false, _) => format!("{b} writes {memory}, which {a} has read"),
            };
        }
        let commit = around.after.iter().find_map(|step| match step {
            Step::Hccl(Hccl::Commit(task)) => Some(self.name(Thing::Task(*task))),
            _ => None,
        });
        match (first, second, commit) {
            (_, Pipe::Scalar, Some(task)) => {
                format!("{task} is committed when {} is done", first.name())
            }
            (Pipe::All, ..) => "all units are done with what comes before".to_owned(),
            (a, b, _) if a == b => format!("{} is done with what comes before", a.name()),
            (a, b, _) => format!("{} goes on when {} is done", b.name(), a.name()),
        }
    }

    fn of_cores(&self, around: &Around<'_>) -> String {
        let of_all = |used: &UnitAccess| used.memory.is_global();
        let before = || around.before.iter().take_while(|step| !meets(step));
        let sent = |task| task_memory(self.program, task, false);
        let has_written = |memory: Option<ReasonPlace>| {
            let all = before().flat_map(|step| uses(self.program, step));
            let mut written = all.filter(|used| used.writes && of_all(used));
            written.any(|used| memory.is_none_or(|memory| memory == used.memory))
        };
        for (at, step) in around.after.iter().enumerate() {
            match step {
                Step::Hccl(Hccl::Finalize(..)) => {
                    return "no core waits any longer when the counters are cleared".to_owned();
                }
                Step::Hccl(Hccl::Commit(task)) if has_written(sent(*task)) => {
                    let name = self.name(Thing::Task(*task));
                    let to = sent(*task).map(|memory| format!(" to {}", self.memory(memory)));
                    let to = to.unwrap_or_default();
                    return format!("{name} sends what all cores have written{to}");
                }
                Step::Hccl(Hccl::Prepare { task, commit: true, .. })
                    if has_written(sent(*task)) =>
                {
                    return "the server reads what all cores have written".to_owned();
                }
                _ => {}
            }
            for used in uses(self.program, step).into_iter().filter(of_all) {
                let received = before().find_map(|step| match step {
                    Step::Hccl(Hccl::Wait(task))
                        if task_memory(self.program, *task, true) == Some(used.memory) =>
                    {
                        Some(self.name(Thing::Task(*task)))
                    }
                    _ => None,
                });
                let memory = self.memory(used.memory);
                if let Some(task) = received.filter(|name| !name.is_empty()) {
                    return format!("{memory} is used, which {task} has received");
                }
                let one = Around {
                    program: self.program,
                    before: before().copied().collect(),
                    after: vec![around.after[at]],
                };
                let this = |other: &UnitAccess| other.memory == used.memory;
                if let Some((first, second)) = one.conflict(of_all, this, |_| false) {
                    return match (first.writes, second.writes) {
                        (true, false) => format!("{memory} is read, which all cores have written"),
                        (true, true) => format!("{memory} is written, as all cores have before"),
                        (false, _) => format!("{memory} is written, which all cores have read"),
                    };
                }
            }
        }
        "all cores have come here".to_owned()
    }

    fn of_raising(&self, around: &Around<'_>, pipe: Pipe) -> String {
        let uses = |step: &&Step| uses(self.program, step);
        let mut used = around.before.iter().flat_map(uses).filter(|used| used.unit == pipe);
        match used.find(|used| used.writes && used.memory.is_global()) {
            Some(used) => format!("{} is there when {} is done", self.called(&used), pipe.name()),
            None => format!("raised when {} is done", pipe.name()),
        }
    }

    fn of_waiting(&self, around: &Around<'_>, flag: u16) -> String {
        // Searches for the steps before the flag is raised, wherever that is.
        let raising = self.program.blocks.iter().enumerate().find_map(|(block, nodes)| {
            let raises = |node: &Node| match node.step {
                Step::Sync(Sync::Raise { flag: raised, pipe, .. }) if raised == flag => Some(pipe),
                _ => None,
            };
            nodes.iter().enumerate().find_map(|(at, node)| Some((block, at, raises(node)?)))
        });
        let Some((block, at, pipe)) = raising else { return "until it is raised".to_owned() };
        let written = Around {
            program: self.program,
            before: Around::new(self.program, (block, at)).before,
            after: around.after.clone(),
        };
        let first = |used: &UnitAccess| used.unit == pipe && used.memory.is_global();
        match written.conflict(first, |_| true, |_| false) {
            Some((UnitAccess { writes: true, .. }, used)) => {
                format!("{} is used, which other cores have written", self.called(&used))
            }
            Some((_, used)) => {
                format!("{} is written, which other cores have read", self.called(&used))
            }
            None => format!("until {} of the other cores is done", pipe.name()),
        }
    }

    fn called(&self, used: &UnitAccess) -> String {
        match used.tensor {
            Some(tensor) => self.tensor(tensor),
            None => self.memory(used.memory),
        }
    }

    /// Returns the name of a tensor here, or the name that it will get.
    fn tensor(&self, tensor: LocalId) -> String {
        let name = &self.program.locals[tensor.0 as usize].name;
        match self.names.get(Thing::Local(tensor)) {
            Some(name) => name.to_owned(),
            None => self.names.wanted(name),
        }
    }

    fn memory(&self, memory: ReasonPlace) -> String {
        match memory {
            ReasonPlace::Parameter(at) => self.name(Thing::Parameter(at)),
            ReasonPlace::Workspace => "the workspace".to_owned(),
            ReasonPlace::Window => "the window".to_owned(),
            ReasonPlace::Tensor(tensor) => self.tensor(tensor),
            ReasonPlace::Scratch(scratch) => self.name(Thing::Scratch(scratch)),
            ReasonPlace::Queue(queue) => self.name(Thing::Queue(queue)),
        }
    }
}
