//! Barriers of the vector unit.
//!
//! A vector operation may begin before an earlier one has written its result, unless the compiler is told to look after that. Between
//! two that touch the same memory the source therefore has `PipeBarrier<PIPE_V>()`. What passes through a queue needs none: the queue
//! sees to it.

use std::collections::{BTreeMap, BTreeSet};

use super::uses::{blocks_of, locals_of};
use crate::declared::*;
use crate::program::Program;
use crate::step::*;

/// Local memory as far as two tensors may share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LocalBlock {
    Tensor(LocalId),
    Scratch(ScratchId),
}

/// What the vector unit may still be busy with.
#[derive(Debug, Default)]
pub(super) struct Barriers {
    scratches: BTreeMap<LocalId, ScratchId>,
    written: BTreeSet<LocalBlock>,
    read: BTreeSet<LocalBlock>,
}

impl Barriers {
    fn memory(&self, local: &Local) -> LocalBlock {
        match self.scratches.get(&local.tensor) {
            Some(scratch) => LocalBlock::Scratch(*scratch),
            None => LocalBlock::Tensor(local.tensor),
        }
    }

    /// Whether a step has to wait for the vector unit; takes note of it.
    pub(super) fn before(&mut self, step: &Step) -> bool {
        match step {
            Step::Sync(Sync::Pipe(Pipe::Vector | Pipe::All)) => self.clear(),
            Step::Buffer(Buffer::Get(scratch, local)) => {
                self.scratches.insert(*local, *scratch);
            }
            Step::Buffer(Buffer::Alloc(_, local) | Buffer::Dequeue(_, local)) => {
                self.scratches.remove(local);
                self.written.remove(&LocalBlock::Tensor(*local));
                self.read.remove(&LocalBlock::Tensor(*local));
            }
            Step::Vector(vector) => {
                let (writes, reads) = self.touched(vector);
                let waits = reads.iter().chain(&writes).any(|memory| self.written.contains(memory))
                    || writes.iter().any(|memory| self.read.contains(memory));
                if waits {
                    self.clear();
                }
                self.written.extend(writes);
                self.read.extend(reads);
                return waits;
            }
            _ => {}
        }
        false
    }

    fn touched(&self, vector: &Vector) -> (Vec<LocalBlock>, Vec<LocalBlock>) {
        let all = locals_of(vector);
        // The result comes first; a reduction also writes its memory for intermediate results.
        let written = |at: usize| at == 0 || (at == 2 && matches!(vector, Vector::Reduce { .. }));
        let pick = |wanted: bool| {
            let chosen = all.iter().enumerate().filter(|(at, _)| written(*at) == wanted);
            chosen.map(|(_, local)| self.memory(local)).collect()
        };
        (pick(true), pick(false))
    }

    fn clear(&mut self) {
        self.written.clear();
        self.read.clear();
    }

    /// An iteration of a loop comes behind the one before it.
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
