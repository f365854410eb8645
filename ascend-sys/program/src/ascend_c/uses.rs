//! Finds the uses of each named part of a program (a `Thing`), so that it is declared where all its
//! uses can see it.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Thing;
use crate::declared::*;
use crate::program::Program;
use crate::step::*;

/// The place where a named part must be declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Home {
    /// The innermost block around all uses.
    pub(super) block: usize,
    /// The first step of the block that has a use.
    pub(super) step: usize,
    /// The last step of the block that has a use.
    pub(super) last: usize,
}

/// All uses in a program.
#[derive(Debug, Default)]
pub(super) struct Uses {
    homes: BTreeMap<Thing, Home>,
    /// The named parts whose first use is in a step, by the block and the index of the step. `ends`
    /// has the named parts whose last use is in a step.
    starts: BTreeMap<(usize, usize), Vec<Thing>>,
    ends: BTreeMap<(usize, usize), Vec<Thing>>,
    /// The number of steps that give a named part a value.
    writes: BTreeMap<Thing, u32>,
    /// The block and the step that each block belongs to. It is `None` for the first block.
    parents: Vec<Option<(usize, usize)>>,
    /// The variables that get a value in each block, or in a block within it.
    assigned: Vec<BTreeSet<VariableId>>,
}

impl Uses {
    pub(super) fn of(program: &Program) -> Self {
        let count = program.blocks.len();
        let mut uses = Uses {
            parents: vec![None; count],
            assigned: vec![BTreeSet::new(); count],
            ..Uses::default()
        };
        uses.block(program, 0);
        uses.lift_products(program);
        for (thing, home) in &uses.homes {
            uses.starts.entry((home.block, home.step)).or_default().push(*thing);
            uses.ends.entry((home.block, home.last)).or_default().push(*thing);
        }
        // A block comes after the block that it belongs to.
        for block in (0..count).rev() {
            if let Some((parent, _)) = uses.parents[block] {
                let inner = uses.assigned[block].clone();
                uses.assigned[parent].extend(inner);
            }
        }
        uses
    }

    /// Returns the place where a named part must be declared, or `None` if it is not used.
    pub(super) fn home(&self, thing: Thing) -> Option<Home> {
        self.homes.get(&thing).copied()
    }

    /// Returns the named parts to be declared before this step.
    pub(super) fn declared_at(&self, block: usize, step: usize) -> &[Thing] {
        self.starts.get(&(block, step)).map_or(&[], Vec::as_slice)
    }

    /// Returns the named parts whose last use is in this step.
    pub(super) fn ended_at(&self, block: usize, step: usize) -> &[Thing] {
        self.ends.get(&(block, step)).map_or(&[], Vec::as_slice)
    }

    /// Returns the step of an outer block that contains an inner block.
    pub(super) fn step_around(&self, inner: usize, outer: usize) -> Option<usize> {
        let mut block = inner;
        loop {
            let (parent, step) = self.parents[block]?;
            if parent == outer {
                return Some(step);
            }
            block = parent;
        }
    }

    /// Returns the number of steps that give a named part a value.
    pub(super) fn writes(&self, thing: Thing) -> u32 {
        self.writes.get(&thing).copied().unwrap_or(0)
    }

    /// Returns the variables that get a value in a block, or in a block within it.
    pub(super) fn assigned(&self, block: BlockId) -> &BTreeSet<VariableId> {
        &self.assigned[block.0 as usize]
    }

    fn block(&mut self, program: &Program, block: usize) {
        for (at, node) in program.blocks[block].iter().enumerate() {
            let mut seen = Seen { program, values: BTreeSet::new(), things: BTreeSet::new() };
            seen.step(&node.step);
            for thing in seen.things {
                self.use_of(thing, block, at);
            }
            for thing in written(&node.step) {
                *self.writes.entry(thing).or_default() += 1;
                if let Thing::Variable(variable) = thing {
                    self.assigned[block].insert(variable);
                }
            }
            for inner in blocks_of(&node.step) {
                self.parents[inner.0 as usize] = Some((block, at));
                self.block(program, inner.0 as usize);
            }
        }
    }

    /// Moves the declarations of products out of loops: a product keeps its buffers from one
    /// iteration of a loop to the next.
    fn lift_products(&mut self, program: &Program) {
        for (thing, home) in &mut self.homes {
            if !matches!(thing, Thing::Matmul(_)) {
                continue;
            }
            let mut block = home.block;
            while let Some((around, step)) = self.parents[block] {
                match program.blocks[around][step].step {
                    Step::Loop { .. } => *home = Home { block: around, step, last: step },
                    // Only the cores of this kind have the unit.
                    Step::On(..) => break,
                    _ => {}
                }
                block = around;
            }
        }
    }

    fn use_of(&mut self, thing: Thing, block: usize, step: usize) {
        let new = Home { block, step, last: step };
        let merged = match self.homes.get(&thing) {
            None => new,
            Some(&old) => self.around(old, new),
        };
        self.homes.insert(thing, merged);
    }

    /// Returns the innermost block around two homes. `old` was found earlier.
    fn around(&self, mut old: Home, new: Home) -> Home {
        loop {
            let (mut block, mut step) = (new.block, new.step);
            loop {
                if block == old.block {
                    return Home { block, step: old.step, last: old.last.max(step) };
                }
                match self.parents[block] {
                    Some(parent) => (block, step) = parent,
                    None => break,
                }
            }
            match self.parents[old.block] {
                Some((block, step)) => old = Home { block, step, last: step },
                None => return old,
            }
        }
    }
}

/// Returns the blocks that belong to a step.
pub(super) fn blocks_of(step: &Step) -> impl Iterator<Item = BlockId> {
    let (first, second) = match step {
        Step::Loop { body, .. } => (Some(*body), None),
        Step::If { then, otherwise, .. } => (Some(*then), *otherwise),
        Step::On(_, block) => (Some(*block), None),
        _ => (None, None),
    };
    first.into_iter().chain(second)
}

/// Returns the named parts to which a step gives a value.
pub(super) fn written(step: &Step) -> Vec<Thing> {
    match step {
        Step::Set(variable, _) | Step::Read(variable, _) | Step::Loop { variable, .. } => {
            vec![Thing::Variable(*variable)]
        }
        Step::Buffer(
            Buffer::Alloc(_, local) | Buffer::Dequeue(_, local) | Buffer::Get(_, local),
        ) => {
            vec![Thing::Local(*local)]
        }
        Step::Hccl(Hccl::Prepare { task, .. }) => vec![Thing::Task(*task)],
        _ => Vec::new(),
    }
}

/// A collector of the values and named parts that a step uses.
struct Seen<'a> {
    program: &'a Program,
    values: BTreeSet<ValueId>,
    things: BTreeSet<Thing>,
}

impl Seen<'_> {
    fn step(&mut self, step: &Step) {
        self.things.extend(written(step));
        let mut values = Vec::new();
        values_of(self.program, step, &mut values);
        for value in values {
            self.value(value);
        }
        for place in places_of(step) {
            if let Base::WindowIn(client, _) | Base::WindowOut(client, _) = place.base {
                self.things.insert(Thing::Client(client));
            }
        }
        match step {
            Step::Read(_, read) => match read {
                Read::Local(local) => self.local(local),
                Read::Finished(task) | Read::Slice(task, _) => self.task(*task),
                Read::Queues(client) => {
                    self.things.insert(Thing::Client(*client));
                }
                Read::Global(_) => {}
            },
            Step::Buffer(buffer) => match *buffer {
                Buffer::InitQueue(queue) => {
                    self.things.insert(Thing::Queue(queue));
                }
                Buffer::InitScratch(scratch) => {
                    self.things.insert(Thing::Scratch(scratch));
                }
                Buffer::Alloc(queue, local)
                | Buffer::Enqueue(queue, local)
                | Buffer::Dequeue(queue, local)
                | Buffer::Free(queue, local) => {
                    self.things.extend([Thing::Queue(queue), Thing::Local(local)]);
                }
                Buffer::Get(scratch, local) => {
                    self.things.extend([Thing::Scratch(scratch), Thing::Local(local)]);
                }
            },
            Step::Copy(copy) => match copy {
                Copy::In { to: local, .. }
                | Copy::Out { from: local, .. }
                | Copy::SetLocal { to: local, .. } => self.local(local),
                Copy::Set { .. } | Copy::Clean(_) => {}
            },
            Step::Vector(vector) => {
                for local in vector.locals() {
                    self.local(&local);
                }
            }
            Step::Matmul(multiply) => {
                self.things.insert(Thing::Matmul(multiply.matmul));
            }
            Step::Hccl(call) => match call {
                Hccl::Init(client, _)
                | Hccl::Configure(client, ..)
                | Hccl::Barrier(client, _)
                | Hccl::Finalize(client, _) => {
                    self.things.insert(Thing::Client(*client));
                }
                Hccl::Prepare { task, .. } | Hccl::Commit(task) | Hccl::Wait(task) => {
                    self.task(*task);
                }
                Hccl::After(client, task) => {
                    // The call needs only the handle of the other client.
                    self.things.extend([Thing::Client(*client), Thing::Task(*task)]);
                }
            },
            _ => {}
        }
    }

    fn local(&mut self, local: &Local) {
        self.things.insert(Thing::Local(local.tensor));
    }

    fn task(&mut self, task: TaskId) {
        let client = self.program.tasks[task.0 as usize].what;
        self.things.extend([Thing::Task(task), Thing::Client(client)]);
    }

    fn value(&mut self, value: ValueId) {
        if !self.values.insert(value) {
            return;
        }
        let of = &self.program.values[value.0 as usize].of;
        match of {
            Of::Variable(variable) => {
                self.things.insert(Thing::Variable(*variable));
            }
            Of::Rank(client) | Of::Ranks(client) => {
                self.things.insert(Thing::Client(*client));
            }
            _ => {}
        }
        for operand in operands(of) {
            self.value(operand);
        }
    }
}

/// Returns the values that a value is made of.
pub(super) fn operands(of: &Of) -> Vec<ValueId> {
    match of {
        Of::Tiling { element: Some((index, _)), .. } => vec![*index],
        Of::Unary(_, a) | Of::Cast(a) => vec![*a],
        Of::Binary(_, a, b) => vec![*a, *b],
        Of::Select(condition, a, b) => vec![*condition, *a, *b],
        _ => Vec::new(),
    }
}

/// Returns these values and all values that they are made of. The parts of the values in `whole`
/// are left out.
pub(super) fn made_of(
    program: &Program,
    mut open: Vec<ValueId>,
    whole: &BTreeSet<ValueId>,
) -> BTreeSet<ValueId> {
    let mut all = BTreeSet::new();
    while let Some(value) = open.pop() {
        if all.insert(value) && !whole.contains(&value) {
            open.extend(operands(&program.values[value.0 as usize].of));
        }
    }
    all
}

/// Adds the values that a step itself names to `values`.
pub(super) fn values_of(program: &Program, step: &Step, values: &mut Vec<ValueId>) {
    for place in places_of(step) {
        values.push(place.offset);
        if let Base::WindowIn(_, rank) | Base::WindowOut(_, rank) = place.base {
            values.push(rank);
        }
    }
    let pieces = |pieces: &Pieces, values: &mut Vec<ValueId>| {
        values.push(pieces.length);
        values.extend(pieces.count);
        values.extend(pieces.gap);
    };
    match step {
        Step::Name(value) | Step::Set(_, value) => values.push(*value),
        Step::Read(_, Read::Local(local)) => values.extend(local.offset),
        Step::Loop { from, to, step, .. } => values.extend([*from, *to, *step]),
        Step::If { condition, .. } => values.push(*condition),
        Step::Buffer(Buffer::InitQueue(queue)) => {
            values.push(program.queues[queue.0 as usize].what.length);
        }
        Step::Buffer(Buffer::InitScratch(scratch)) => {
            values.push(program.scratches[scratch.0 as usize].what.length);
        }
        Step::Copy(copy) => match copy {
            Copy::In { to: local, pieces: of, .. } | Copy::Out { from: local, pieces: of, .. } => {
                values.extend(local.offset);
                pieces(of, values);
            }
            Copy::Set { value, .. } => values.push(*value),
            Copy::SetLocal { to, value } => {
                values.extend(to.offset);
                values.push(*value);
            }
            Copy::Clean(_) => {}
        },
        Step::Vector(vector) => {
            values.extend(vector.locals().iter().filter_map(|local| local.offset));
            match vector {
                Vector::Fill { value, count, .. } | Vector::Scalar { scalar: value, count, .. } => {
                    values.extend([*value, *count]);
                }
                Vector::Binary { count, .. }
                | Vector::Unary { count, .. }
                | Vector::Cast { count, .. }
                | Vector::Reduce { count, .. } => values.push(*count),
            }
        }
        Step::Matmul(multiply) => {
            values.extend([multiply.rows, multiply.columns, multiply.depth]);
            values.extend(multiply.pitches);
        }
        Step::Hccl(Hccl::Barrier(_, queue)) => values.push(*queue),
        Step::Hccl(Hccl::Prepare { operation, repeat, .. }) => {
            values.push(*repeat);
            match operation {
                Operation::AllReduce(of, _) => values.push(of.count),
                Operation::AllGather(of, stride)
                | Operation::ReduceScatter(of, _, stride)
                | Operation::AlltoAll(of, stride) => values.extend([of.count, *stride]),
                Operation::AlltoAllV {
                    send_counts, send_displs, recv_counts, recv_displs, ..
                } => {
                    for list in [send_counts, send_displs, recv_counts, recv_displs] {
                        if let PerRank::Values(list) = list {
                            values.extend(list);
                        }
                    }
                }
                Operation::BatchWrite { count, queue, .. } => values.extend([*count, *queue]),
                Operation::AlltoAllvWrite { window, local, .. } => values.extend([*window, *local]),
            }
        }
        _ => {}
    }
}

/// Returns the places in global memory that a step names.
pub(super) fn places_of(step: &Step) -> Vec<Place> {
    match step {
        Step::Read(_, Read::Global(place)) => vec![*place],
        Step::Copy(
            Copy::In { from: place, .. }
            | Copy::Out { to: place, .. }
            | Copy::Set { to: place, .. }
            | Copy::Clean(place),
        ) => vec![*place],
        Step::Matmul(of) => [of.a, of.b, of.c].into_iter().chain(of.bias).collect(),
        Step::Hccl(Hccl::Prepare { operation, .. }) => {
            operation.sends().into_iter().chain(operation.receives()).collect()
        }
        _ => Vec::new(),
    }
}
