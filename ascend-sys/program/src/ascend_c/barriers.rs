//! Barriers of the vector unit.
//!
//! A vector operation may begin before an earlier one has written its result, unless the compiler
//! inserts waits. So the source has `PipeBarrier<PIPE_V>()` between two operations that touch the
//! same memory.
//!
//! A queue makes some barriers unnecessary. A copy into a buffer waits for the vector operations
//! that used the buffer, and vector operations wait for that copy. So a tensor dequeued from copies
//! needs no barrier. A tensor allocated for results needs no barrier either: vector operations wait
//! for the copy of the last results, and that copy has waited for the earlier vector operations.

use std::collections::{BTreeMap, BTreeSet};

use super::uses::blocks_of;
use crate::declared::*;
use crate::program::Program;
use crate::step::*;

/// A block of local memory. Two tensors of one block may share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LocalBlock {
    Tensor(LocalId),
    Scratch(ScratchId),
}

/// The memory that the vector unit may still be using.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    scratches: BTreeMap<LocalId, ScratchId>,
    written: BTreeSet<LocalBlock>,
    read: BTreeSet<LocalBlock>,
    /// Queues for results that hold memory the vector unit may still be writing.
    enqueued: BTreeSet<QueueId>,
}

impl Barriers {
    fn block(&self, tensor: LocalId) -> LocalBlock {
        match self.scratches.get(&tensor) {
            Some(scratch) => LocalBlock::Scratch(*scratch),
            None => LocalBlock::Tensor(tensor),
        }
    }

    /// Records the step. Returns the memory of an earlier vector operation for which the step must
    /// wait.
    pub(super) fn before(&mut self, program: &Program, step: &Step) -> Option<LocalBlock> {
        let position = |queue: QueueId| program.queues[queue.0 as usize].what.position;
        match step {
            Step::Sync(Sync::Pipe(Pipe::Vector | Pipe::All)) => self.clear(),
            Step::Buffer(Buffer::Get(scratch, local)) => {
                self.scratches.insert(*local, *scratch);
            }
            Step::Buffer(Buffer::Enqueue(queue, local))
                if position(*queue) == Position::VecOut
                    && self.written.contains(&self.block(*local)) =>
            {
                self.enqueued.insert(*queue);
            }
            Step::Buffer(Buffer::Alloc(queue, local) | Buffer::Dequeue(queue, local)) => {
                self.scratches.remove(local);
                let tensor = LocalBlock::Tensor(*local);
                let orders = match step {
                    Step::Buffer(Buffer::Alloc(..)) => Position::VecOut,
                    _ => Position::VecIn,
                };
                if position(*queue) == orders {
                    self.written.remove(&tensor);
                    self.read.remove(&tensor);
                } else if self.enqueued.contains(queue) {
                    self.written.insert(tensor);
                }
            }
            Step::Vector(vector) => {
                let (writes, reads) = self.touched(vector);
                let used = |memory: &&LocalBlock| self.written.contains(*memory);
                let read = |memory: &&LocalBlock| self.read.contains(*memory);
                let waits = reads.iter().chain(&writes).find(used);
                let waits = waits.or_else(|| writes.iter().find(read)).copied();
                if waits.is_some() {
                    self.clear();
                }
                self.written.extend(writes);
                self.read.extend(reads);
                return waits;
            }
            _ => {}
        }
        None
    }

    fn touched(&self, vector: &Vector) -> (Vec<LocalBlock>, Vec<LocalBlock>) {
        let all = vector.locals();
        // The result comes first. A reduction also writes its memory for intermediate results.
        let written = |at: usize| at == 0 || (at == 2 && matches!(vector, Vector::Reduce { .. }));
        let pick = |wanted: bool| {
            let chosen = all.iter().enumerate().filter(|(at, _)| written(*at) == wanted);
            chosen.map(|(_, local)| self.block(local.tensor)).collect()
        };
        (pick(true), pick(false))
    }

    fn clear(&mut self) {
        self.written.clear();
        self.read.clear();
        self.enqueued.clear();
    }

    /// Enters a loop. An iteration must wait for the iteration before it.
    pub(super) fn enter_loop(&mut self, program: &Program, body: BlockId) {
        let mut open = vec![body];
        while let Some(block) = open.pop() {
            for node in &program.blocks[block.0 as usize] {
                match &node.step {
                    Step::Buffer(Buffer::Get(scratch, local)) => {
                        self.scratches.insert(*local, *scratch);
                    }
                    Step::Vector(vector) => {
                        let (written, read) = self.touched(vector);
                        self.written.extend(written);
                        self.read.extend(read);
                    }
                    step => open.extend(blocks_of(step)),
                }
            }
        }
    }
}
