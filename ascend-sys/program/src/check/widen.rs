//! Finds the possible effects of steps that the checker skips. It skips branches and loops that
//! depend on data, and the rest of a loop with very many iterations. After them, it continues with
//! less knowledge.
//!
//! Data in memory may decide whether a branch is taken or how often a loop runs, and a loop may be
//! too long to follow. After such a step, a variable that the step may have set has no known
//! number. Local memory that the step may have written counts as written, and the units of the core
//! count as waited for. So every later finding is still certain. If other cores or servers depend
//! on what the step does, it cannot be left open, and the core is not followed any further.

use std::collections::BTreeMap;

use super::local::LocalMemory;
use crate::declared::{BlockId, QueueId, VariableId};
use crate::program::Program;
use crate::step::*;

/// The effects that blocks may have.
#[derive(Debug, Default)]
pub(super) struct MayDo {
    variables: Vec<VariableId>,
    locals: Vec<Local>,
    /// The global memory that the blocks may write.
    pub bases: Vec<Base>,
    /// For each queue, the number of tensors taken minus those given back, and the number of
    /// tensors enqueued minus those dequeued.
    queues: BTreeMap<QueueId, (i64, i64)>,
    /// Whether other cores or servers depend on the blocks.
    is_heard: bool,
}

impl MayDo {
    pub(super) fn of(program: &Program, blocks: &[BlockId]) -> MayDo {
        let mut found = MayDo::default();
        let mut open = blocks.to_vec();
        while let Some(block) = open.pop() {
            for node in &program.blocks[block.0 as usize] {
                found.step(&node.step, &mut open);
            }
        }
        found
    }

    fn step(&mut self, step: &Step, open: &mut Vec<BlockId>) {
        match step {
            Step::Comment(_) | Step::Name(_) | Step::Sync(Sync::Pipe(_) | Sync::Units(..)) => {}
            Step::Set(variable, _) => self.variables.push(*variable),
            Step::Read(variable, read) => {
                self.variables.push(*variable);
                self.is_heard |= matches!(read, Read::Slice(..));
            }
            Step::Loop { variable, body, .. } => {
                self.variables.push(*variable);
                open.push(*body);
            }
            Step::If { then, otherwise, .. } => open.extend([*then].into_iter().chain(*otherwise)),
            Step::On(_, block) => open.push(*block),
            Step::Buffer(buffer) => match buffer {
                Buffer::Alloc(queue, _) => self.queues.entry(*queue).or_default().0 += 1,
                Buffer::Free(queue, _) => self.queues.entry(*queue).or_default().0 -= 1,
                Buffer::Enqueue(queue, _) => self.queues.entry(*queue).or_default().1 += 1,
                Buffer::Dequeue(queue, _) => self.queues.entry(*queue).or_default().1 -= 1,
                Buffer::Get(..) => {}
                Buffer::InitQueue(_) | Buffer::InitScratch(_) => self.is_heard = true,
            },
            Step::Copy(copy) => match copy {
                Copy::In { to, .. } | Copy::SetLocal { to, .. } => self.locals.push(*to),
                Copy::Out { to, .. } | Copy::Set { to, .. } => self.bases.push(to.base),
                Copy::Clean(_) => {}
            },
            Step::Vector(vector) => match vector {
                Vector::Fill { to, .. }
                | Vector::Binary { to, .. }
                | Vector::Scalar { to, .. }
                | Vector::Unary { to, .. }
                | Vector::Cast { to, .. } => self.locals.push(*to),
                Vector::Reduce { to, work, .. } => self.locals.extend([*to, *work]),
            },
            Step::Matmul(multiply) => self.bases.push(multiply.c.base),
            Step::Sync(Sync::Raise { .. } | Sync::Await { .. } | Sync::All { .. })
            | Step::Hccl(_) => self.is_heard = true,
        }
    }

    /// Returns whether a core can be followed after these blocks.
    pub(super) fn can_be_skipped(&self) -> bool {
        !self.is_heard && self.queues.values().all(|open| *open == (0, 0))
    }

    /// Forgets the state of a core that the blocks leave open.
    pub(super) fn widen(&self, memory: &mut LocalMemory, mut forget: impl FnMut(VariableId)) {
        self.locals.iter().for_each(|local| memory.widen(local));
        self.variables.iter().for_each(|variable| forget(*variable));
    }
}
