//! Inserts the waits between the units of a core for a kernel that leaves them to its recorder.
//!
//! Before each step, its unit must wait for every other unit that may have used the same memory
//! before, if one of the two uses is a write. No wait is inserted if the unit is known to have
//! waited for that use already: by a wait or a barrier of the kernel, by a queue, or by an inserted
//! wait.
//!
//! This module does not have the numbers of a launch. So it assumes:
//!
//! - a tensor is one memory with all of its buffer;
//! - an argument is one memory with all of its elements, and two arguments are two memories;
//! - an iteration of a loop comes after the iteration before it;
//! - copies of one unit to an argument go to different places.
//!
//! The [checker](crate::check) has the numbers, and finds the mistakes of this approximation.

use std::collections::{BTreeMap, BTreeSet};

use crate::declared::*;
use crate::program::Program;
use crate::step::uses::{StepUse, UsedMemory};
use crate::step::*;

/// A piece of memory. Two uses may share memory only if their pieces are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Memory {
    /// The tensor of a queue, under one of its names.
    Tensor(LocalId),
    Scratch(ScratchId),
    /// The tensors in a queue. `Freed` stands for those that were given back to it.
    Enqueued(QueueId),
    Freed(QueueId),
    Parameter(u32),
    Workspace,
    Windows,
}

impl Memory {
    fn is_local(self) -> bool {
        !matches!(self, Memory::Parameter(_) | Memory::Workspace | Memory::Windows)
    }
}

/// The units, in the order of their bits.
const UNITS: [Pipe; 5] = [Pipe::Scalar, Pipe::Vector, Pipe::In, Pipe::Out, Pipe::Fix];
/// The bits if all units have waited.
const EVERYBODY: u8 = (1 << UNITS.len()) - 1;
/// The bit of a tensor in a queue that means: the unit that takes the tensor out has also waited.
const HANDED_ON: u8 = 1 << UNITS.len();

fn bit(unit: Pipe) -> u8 {
    UNITS.iter().position(|other| *other == unit).map_or(EVERYBODY, |at| 1 << at)
}

/// The use that a step makes of memory.
#[derive(Debug, Clone, Copy)]
struct MemoryUse {
    memory: Memory,
    unit: Pipe,
    writes: bool,
    tensor: Option<LocalId>,
}

/// The uses by a core so far, with the units that have waited for each.
#[derive(Debug, Clone, Default, PartialEq)]
struct Done {
    uses: BTreeMap<(Memory, usize, bool), u8>,
    buffers: BTreeMap<LocalId, BTreeSet<Memory>>,
}

/// Inserts the waits that a program needs. Each has a comment that says why it was inserted.
pub fn insert(program: &mut Program) {
    let mut inserter = Inserter { program, found: BTreeMap::new(), settling: 0, within: None };
    let kinds: Vec<Core> = [Core::Aic, Core::Aiv]
        .into_iter()
        .filter(|core| inserter.program.mix.ratio(*core) > 0)
        .collect();
    for core in &kinds {
        inserter.block(BlockId(0), *core, &mut Done::default());
    }
    // The steps are inserted from the end, so that the places before them stay valid.
    for ((block, at, ..), found) in inserter.found.into_iter().rev() {
        let MissingWait { sync, why, cores, everybody } = found;
        let source = program.blocks[block][at].source;
        let node = |step| Node { step, source };
        let mut steps =
            vec![node(Step::Comment(format!("inserted: {why}"))), node(Step::Sync(sync))];
        // If both kinds of cores reach the step and only one kind lacks a wait, the wait is only
        // for that kind.
        if let ([core], true, 2) = (&cores[..], everybody, kinds.len()) {
            program.blocks.push(steps);
            let inner = BlockId(program.blocks.len() as u32 - 1);
            steps = vec![node(Step::On(*core, inner))];
        }
        program.blocks[block].splice(at..at, steps);
    }
}

/// A wait that is missing before a step.
struct MissingWait {
    sync: Sync,
    why: String,
    /// The kinds of cores that lack the wait.
    cores: Vec<Core>,
    /// Whether both kinds of cores reach the step.
    everybody: bool,
}

struct Inserter<'p> {
    program: &'p Program,
    /// The waits that are missing before each step, by the block, the step and the two units. A
    /// wait that both kinds of cores lack is in it once.
    found: BTreeMap<(usize, usize, u8, u8), MissingWait>,
    /// The number of enclosing loops whose bodies are walked only to learn the state at their ends.
    settling: usize,
    /// The only kind of cores that reaches the current steps. `None` if both kinds may.
    within: Option<Core>,
}

impl Inserter<'_> {
    fn block(&mut self, block: BlockId, core: Core, done: &mut Done) {
        for at in 0..self.program.blocks[block.0 as usize].len() {
            let program = self.program;
            let step = &program.blocks[block.0 as usize][at].step;
            match step {
                Step::Loop { body, .. } => {
                    // An iteration comes before the next one, so the state at the end of the body
                    // is also one at its start.
                    self.settling += 1;
                    loop {
                        let mut behind = done.clone();
                        self.block(*body, core, &mut behind);
                        behind.join(done);
                        if behind == *done {
                            break;
                        }
                        *done = behind;
                    }
                    self.settling -= 1;
                    let mut behind = done.clone();
                    self.block(*body, core, &mut behind);
                    done.join(&behind);
                }
                Step::If { then, otherwise, .. } => {
                    let mut other = done.clone();
                    self.block(*then, core, done);
                    if let Some(otherwise) = otherwise {
                        self.block(*otherwise, core, &mut other);
                    }
                    done.join(&other);
                }
                Step::On(of, inner) if *of == core => {
                    let around = self.within.replace(core);
                    self.block(*inner, core, done);
                    self.within = around;
                }
                Step::On(..) => {}
                step => self.step(step, (block.0 as usize, at), core, done),
            }
        }
    }

    fn step(&mut self, step: &Step, (block, at): (usize, usize), core: Core, done: &mut Done) {
        let uses = done.uses_of(self.program, step);
        for of in &uses {
            while let Some((sync, earlier, wrote)) = done.missing(of) {
                if self.settling == 0 {
                    let key = (block, at, bit(earlier), bit(of.unit));
                    let why = self.why(of, earlier, wrote);
                    let everybody = self.within.is_none();
                    let new = || MissingWait { sync, why, cores: Vec::new(), everybody };
                    let found = self.found.entry(key).or_insert_with(new);
                    if !found.cores.contains(&core) {
                        found.cores.push(core);
                    }
                }
                done.synchronise(sync);
            }
        }
        // The scalar unit waits for turns by calls of the client, so these uses are not recorded.
        for of in uses.into_iter().filter(|_| !matches!(step, Step::Hccl(_))) {
            let number = UNITS.iter().position(|unit| *unit == of.unit).unwrap_or_default();
            // A read by the scalar unit is done at once.
            let waited = if of.unit == Pipe::Scalar && !of.writes { EVERYBODY } else { 0 };
            done.uses.insert((of.memory, number, of.writes), waited);
        }
        match step {
            Step::Sync(sync) => done.synchronise(*sync),
            Step::Buffer(buffer) => done.buffer(self.program, buffer),
            _ => {}
        }
    }

    /// Returns a reason such as "MTE3 reads `b`, which V has written".
    fn why(&self, of: &MemoryUse, earlier: Pipe, wrote: bool) -> String {
        let memory = match (of.tensor, of.memory) {
            (Some(tensor), _) => format!("`{}`", self.program.locals[tensor.0 as usize].name),
            (None, Memory::Parameter(at)) => {
                format!("`{}`", self.program.parameters[at as usize].name)
            }
            (None, Memory::Windows) => "the window".to_owned(),
            (None, _) => "the workspace".to_owned(),
        };
        let (now, before) = (of.unit.name(), earlier.name());
        if of.unit == earlier {
            return format!("{now} has written {memory} before");
        }
        let (does, did) =
            (if of.writes { "writes" } else { "reads" }, if wrote { "written" } else { "read" });
        format!("{now} {does} {memory}, which {before} has {did}")
    }
}

impl Done {
    /// Joins the uses on two paths: the result has the uses of either path, with the waits of both.
    fn join(&mut self, other: &Done) {
        for (of, waited) in &other.uses {
            let own = self.uses.entry(*of).or_insert(*waited);
            *own &= waited;
        }
        for (tensor, memories) in &other.buffers {
            self.buffers.entry(*tensor).or_default().extend(memories);
        }
    }

    /// Returns the wait that is missing before a use: the sync, the unit that it waits for, and
    /// whether that unit has written.
    fn missing(&self, of: &MemoryUse) -> Option<(Sync, Pipe, bool)> {
        self.uses.iter().find_map(|((memory, number, wrote), waited)| {
            let earlier = UNITS[*number];
            let conflicts =
                *memory == of.memory && (of.writes || *wrote) && waited & bit(of.unit) == 0;
            if !conflicts {
                return None;
            }
            if earlier != of.unit {
                return Some((Sync::Units(earlier, of.unit), earlier, *wrote));
            }
            // The vector unit and the scalar unit work in order. Copies to an argument go to
            // different places.
            let twice = matches!(earlier, Pipe::In | Pipe::Out) && *wrote && of.writes;
            (twice && memory.is_local()).then_some((Sync::Pipe(earlier), earlier, true))
        })
    }

    fn synchronise(&mut self, sync: Sync) {
        match sync {
            Sync::Pipe(Pipe::All) | Sync::All { .. } => self.uses.clear(),
            Sync::Pipe(unit) => self.waited(unit, bit(unit)),
            // The scalar unit waits before it gives any unit another instruction, so all units have
            // waited.
            Sync::Units(first, Pipe::Scalar | Pipe::All) => self.waited(first, EVERYBODY),
            Sync::Units(first, second) => self.waited(first, bit(second)),
            Sync::Raise { .. } | Sync::Await { .. } => {}
        }
    }

    /// Marks units as having waited for all work that a unit was given, and so for all work that
    /// this unit had waited for.
    fn waited(&mut self, first: Pipe, by: u8) {
        for ((_, number, _), waited) in &mut self.uses {
            if UNITS[*number] == first || first == Pipe::All || *waited & bit(first) != 0 {
                *waited |= by;
            }
        }
    }

    /// Updates the name and the memory of a tensor.
    fn buffer(&mut self, program: &Program, buffer: &Buffer) {
        // Returns the unit that fills a queue, and the unit that empties it.
        let ends = |queue: QueueId| match program.queues[queue.0 as usize].what.position {
            Position::VecIn => (Pipe::In, Pipe::Vector),
            Position::VecOut => (Pipe::Vector, Pipe::Out),
        };
        match *buffer {
            Buffer::InitQueue(_) | Buffer::InitScratch(_) => {}
            Buffer::Get(scratch, local) => {
                self.buffers.insert(local, BTreeSet::from([Memory::Scratch(scratch)]));
            }
            // The unit that takes a tensor waits for all work that the unit which gave it had done
            // or had waited for by then.
            Buffer::Enqueue(queue, local) => {
                self.given(local, Memory::Enqueued(queue), ends(queue).0);
            }
            Buffer::Dequeue(queue, local) => {
                self.taken(local, Memory::Enqueued(queue), ends(queue).1);
            }
            Buffer::Free(queue, local) => self.given(local, Memory::Freed(queue), ends(queue).1),
            Buffer::Alloc(queue, local) => self.taken(local, Memory::Freed(queue), ends(queue).0),
        }
    }

    fn given(&mut self, local: LocalId, to: Memory, by: Pipe) {
        for memory in self.buffers.get(&local).cloned().unwrap_or_default() {
            for (number, wrote) in (0..UNITS.len()).flat_map(|at| [(at, false), (at, true)]) {
                if let Some(waited) = self.uses.remove(&(memory, number, wrote)) {
                    let knows = UNITS[number] == by || waited & bit(by) != 0;
                    let waited = if knows { waited | HANDED_ON } else { waited };
                    *self.uses.entry((to, number, wrote)).or_insert(waited) &= waited;
                }
            }
        }
    }

    fn taken(&mut self, local: LocalId, from: Memory, by: Pipe) {
        let memory = Memory::Tensor(local);
        self.buffers.insert(local, BTreeSet::from([memory]));
        for (number, wrote) in (0..UNITS.len()).flat_map(|at| [(at, false), (at, true)]) {
            self.uses.remove(&(memory, number, wrote));
            if let Some(waited) = self.uses.get(&(from, number, wrote)) {
                let knows = if waited & HANDED_ON != 0 { bit(by) } else { 0 };
                self.uses.insert((memory, number, wrote), (waited & EVERYBODY) | knows);
            }
        }
    }

    fn uses_of(&self, program: &Program, step: &Step) -> Vec<MemoryUse> {
        match step {
            Step::Hccl(Hccl::Prepare { operation, commit: true, .. }) => committed(operation),
            Step::Hccl(Hccl::Commit(task)) => {
                let prepared = program.blocks.iter().flatten();
                let prepared = prepared.filter_map(|node| match &node.step {
                    Step::Hccl(Hccl::Prepare { task: of, operation, .. }) if of == task => {
                        Some(operation)
                    }
                    _ => None,
                });
                prepared.flat_map(committed).collect()
            }
            step => step.uses().into_iter().flat_map(|of| self.used(of)).collect(),
        }
    }

    /// Returns the memory of a use. A tensor may be in one of several places, depending on the path
    /// to this step.
    fn used(&self, StepUse { unit, memory, writes }: StepUse) -> Vec<MemoryUse> {
        match memory {
            UsedMemory::Global(place) => vec![global(unit, &place, writes)],
            UsedMemory::Local(of) => {
                let memories = self.buffers.get(&of.tensor).into_iter().flatten();
                let tensor = Some(of.tensor);
                memories.map(|memory| MemoryUse { memory: *memory, unit, writes, tensor }).collect()
            }
        }
    }
}

fn global(unit: Pipe, place: &Place, writes: bool) -> MemoryUse {
    let memory = match place.base {
        Base::Parameter(at) => Memory::Parameter(at),
        Base::Workspace => Memory::Workspace,
        Base::WindowIn(..) | Base::WindowOut(..) => Memory::Windows,
    };
    MemoryUse { memory, unit, writes, tensor: None }
}

/// Returns the memory that a turn sends and receives. The scalar unit commits the turn.
fn committed(operation: &Operation) -> Vec<MemoryUse> {
    let sends = operation.sends().into_iter().map(|place| global(Pipe::Scalar, &place, false));
    let receives = operation.receives();
    sends.chain(receives.map(|place| global(Pipe::Scalar, &place, true))).collect()
}
