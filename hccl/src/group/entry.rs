//! The operations that a group has recorded for one communicator.

use crate::collective::CollectiveOp;
use crate::comm::Member;
use crate::device::Stream;
use crate::order::issue::Touch;
use crate::order::label::Takes;
use crate::order::together::Part;

/// The name of a group as an operation, in errors and spans.
pub(super) const GROUP: &str = "group";

/// The operations of one communicator.
pub(super) struct Entry<'env> {
    pub(super) member: &'env mut Member,
    pub(super) stream: &'env Stream,
    pub(super) operations: Vec<GroupOperation<'env>>,
}

/// An operation of a group, with its number.
pub(super) struct GroupOperation<'env> {
    /// The number of the operation. Messages are counted by peer and direction, and collectives by
    /// communicator.
    pub(super) sequence: u64,
    pub(super) operation: CollectiveOp<'env>,
}

impl Entry<'_> {
    /// Returns the number of the first operation.
    pub(super) fn sequence(&self) -> u64 {
        self.operations.first().map_or(0, |operation| operation.sequence)
    }

    /// Returns the operations, each together with this entry.
    pub(super) fn each(&self) -> impl Iterator<Item = (&Self, &GroupOperation<'_>)> {
        self.operations.iter().map(move |operation| (self, operation))
    }

    pub(super) fn bytes(&self) -> usize {
        let buffers = self.operations.iter().flat_map(|recorded| recorded.operation.buffers());
        buffers.map(|(buffer, _)| buffer.bytes()).sum()
    }

    /// Returns the part of the group that is issued on the stream of this entry.
    pub(super) fn part(&self) -> Part<'_> {
        let name = match &*self.operations {
            [alone] => alone.operation.name(),
            _ => GROUP,
        };
        // Takes nothing, because the operations are counted after all of them are issued.
        let operation = self.member.operation(name, self.sequence(), Takes::Nothing);
        let buffers = self.operations.iter().flat_map(|recorded| recorded.operation.buffers());
        let touches = buffers.map(|(buffer, written)| match written {
            false => buffer.read("the source of an operation"),
            true => buffer.write("the destination of an operation"),
        });
        let touches: Vec<Touch<'_>> = touches.chain([self.member.touch()]).collect();
        Part { stream: self.stream, operation, touches }
    }
}
