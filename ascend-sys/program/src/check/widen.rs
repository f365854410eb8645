//! Steps that depend on data are not followed, and neither is the end of a loop with very many
//! turns. The checker goes on behind them, and knows less.
//!
//! Whether a branch is taken, or how often a loop runs, may depend on data in memory; and a loop
//! may be too long to follow. Behind it, variables that it may have set have no number. Local
//! memory that it may have written counts as written, and its units count as waited for. So every
//! finding behind it is certain. Things that cores and servers have to know of each other cannot be
//! left open: there the core is not followed any further.

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
    /// The global memory that they may write.
    pub bases: Vec<Base>,
    /// The balance of tensors taken from a queue and given back, and of those enqueued and
    /// dequeued.
    queues: BTreeMap<QueueId, (i64, i64)>,
    /// Whether they do something that other cores or servers must know of.
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

    /// Whether a core can be followed after these blocks.
    pub(super) fn can_be_skipped(&self) -> bool {
        !self.is_heard && self.queues.values().all(|open| *open == (0, 0))
    }

    /// Forgets the state of a core that the blocks leave open.
    pub(super) fn widen(&self, memory: &mut LocalMemory, mut forget: impl FnMut(VariableId)) {
        self.locals.iter().for_each(|local| memory.widen(local));
        self.variables.iter().for_each(|variable| forget(*variable));
    }
}
