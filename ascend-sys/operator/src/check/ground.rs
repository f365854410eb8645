//! The common input of the rules: the tasks with their order, and the memory in which each piece
//! lies.

use super::finding::Place;
use crate::lanes::Lanes;
use crate::order::Order;
use crate::task::{Memory, Operator, Piece, Step, Task};
use std::ops::Range;

/// The number of steps of a search after which a rule stops if it has found something. Searches
/// take the longest between tasks without an order.
pub(super) const PATIENCE: u64 = 200_000_000;

pub(super) struct Ground<'a> {
    pub(super) operators: &'a [Operator],
    pub(super) order: &'a Order,
    /// The steps, indexed by the number of the task.
    pub(super) steps: Vec<&'a Step>,
    /// The largest number of ranks of any operator.
    pub(super) ranks: usize,
}

/// Bytes of one memory. An input in place counts as bytes of the output. The communication buffer
/// of a rank is one memory for all operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes {
    /// The number of the memory.
    pub(super) memory: usize,
    pub(super) range: Range<usize>,
}

impl<'a> Ground<'a> {
    /// Makes the ground of operators. The order must be of these operators.
    pub(super) fn new(operators: &'a [Operator], order: &'a Order) -> Ground<'a> {
        let (_, steps) = Lanes::of(operators);
        let ranks = operators.iter().map(|operator| operator.ranks.len()).max().unwrap_or(0);
        Ground { operators, order, steps, ranks }
    }

    pub(super) fn task(&self, number: u32) -> &'a Task {
        &self.steps[number as usize].task
    }

    /// Returns the number of the operator that a task belongs to.
    pub(super) fn operator(&self, number: u32) -> u32 {
        self.order.lanes().part(number).0
    }

    pub(super) fn place(&self, number: u32) -> Place {
        let lanes = self.order.lanes();
        let (lane, (operator, position)) = (lanes.lane(number), lanes.part(number));
        let Step { task, source } = *self.steps[number as usize];
        let operator = (self.operators.len() > 1).then_some(operator);
        Place { operator, rank: lane.rank, thread: lane.thread, position, source, task }
    }

    /// Returns the tasks that ran, in an order in which they may run one by one.
    pub(super) fn sequence(&self) -> impl Iterator<Item = u32> {
        self.order.sequence().iter().filter_map(|id| self.order.number(*id))
    }

    /// Returns the number of memories.
    pub(super) fn memories(&self) -> usize {
        self.ranks * (1 + 2 * self.operators.len())
    }

    /// Returns the number of a memory of a rank.
    pub(super) fn memory(&self, operator: u32, rank: u32, memory: Memory) -> usize {
        let of_rank = match memory {
            Memory::Buffer => 0,
            Memory::Input => 1 + 2 * operator as usize,
            Memory::Output => 2 + 2 * operator as usize,
        };
        rank as usize * (1 + 2 * self.operators.len()) + of_rank
    }

    /// Returns the number of bytes of a memory.
    pub(super) fn size(&self, memory: usize) -> usize {
        let of_one = 1 + 2 * self.operators.len();
        let (rank, which) = (memory / of_one, memory % of_one);
        let bytes = if which == 0 {
            let of_rank = self.operators.iter().filter_map(|operator| operator.ranks.get(rank));
            of_rank.map(|rank| rank.buffer).max()
        } else {
            let operator = self.operators.get((which - 1) / 2);
            operator
                .and_then(|operator| operator.ranks.get(rank))
                .map(|rank| if which % 2 == 1 { rank.input } else { rank.output })
        };
        bytes.map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Returns the bytes of a piece that a task of this operator uses, or `None` if the memory does
    /// not exist.
    pub(super) fn bytes(&self, operator: u32, piece: &Piece) -> Option<Bytes> {
        let of_rank = self.operators.get(operator as usize)?.ranks.get(piece.rank as usize)?;
        let (memory, offset) = match (piece.memory, of_rank.in_place) {
            (Memory::Input, Some(offset)) => (Memory::Output, offset),
            (memory, _) => (memory, 0),
        };
        let start = usize::try_from(piece.start.checked_add(offset)?).ok()?;
        let end = start.checked_add(usize::try_from(piece.bytes).ok()?)?;
        Some(Bytes { memory: self.memory(operator, piece.rank, memory), range: start..end })
    }

    /// Returns the bytes that a task reads and the bytes that it writes. Returns `None` if the task
    /// moves nothing or if its memory does not exist. A copy of bytes onto themselves moves
    /// nothing.
    pub(super) fn moved(&self, number: u32) -> Option<(Bytes, Bytes)> {
        let (from, to) = self.task(number).pieces()?;
        let operator = self.operator(number);
        let (from, to) = (self.bytes(operator, from)?, self.bytes(operator, to)?);
        let nothing = from.range.is_empty()
            || to.range.is_empty()
            || (from == to && matches!(self.task(number), Task::Copy { .. }));
        (!nothing).then_some((from, to))
    }

    /// Describes bytes of a memory in words.
    pub(super) fn words(&self, bytes: &Bytes) -> String {
        let of_one = 1 + 2 * self.operators.len();
        let (rank, which) = (bytes.memory / of_one, bytes.memory % of_one);
        let memory = match (which, which % 2) {
            (0, _) => Memory::Buffer,
            (_, 1) => Memory::Input,
            _ => Memory::Output,
        };
        let Range { start, end } = bytes.range;
        let of_operator = match (which.checked_sub(1), self.operators.len() > 1) {
            (Some(which), true) => format!(" in operator {}", which / 2),
            _ => String::new(),
        };
        format!("bytes {start}..{end} of the {memory} of rank {rank}{of_operator}")
    }
}
