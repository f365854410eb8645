//! The request of a rank that calls a collective, with its buffers.

use super::claim::Claim;
use super::request::{CollectiveRequest, Operation};
use super::table::{Extent, Table};

/// The arguments of a rank's collective, checked and resolved.
pub(crate) struct CollectiveCall {
    pub(crate) request: CollectiveRequest,
    /// The send buffer; null if the operation has none. The same holds for `recv`.
    pub(crate) send: *const u8,
    pub(crate) recv: *mut u8,
    /// The table of counts and displacements, for an operation that has one.
    pub(crate) table: Option<Box<Table>>,
    /// The number of the capture of the communicator that the call belongs to; 0 if there is none.
    pub(crate) capture: u8,
}

// SAFETY: the pointers were resolved at issue, and their pages stay mapped until the task is
// complete. Only the copy and reduction kernels access them.
unsafe impl Send for CollectiveCall {}

impl CollectiveCall {
    /// Makes a call of an operation that needs no table.
    pub(crate) fn new(request: CollectiveRequest, send: *const u8, recv: *mut u8) -> Self {
        Self { request, send, recv, table: None, capture: 0 }
    }

    /// Returns the same call as part of a capture, to be issued at every execution. If the call has
    /// a table, it is copied into a table that `empty` makes.
    pub(crate) fn again(&self, capture: u8, empty: impl FnOnce() -> Box<Table>) -> Self {
        let table = self.table.as_ref().map(|table| {
            let mut copy = empty();
            copy.copy_from(table);
            copy
        });
        Self { table, capture, ..*self }
    }

    #[inline]
    pub(crate) fn claim(&self) -> Claim {
        self.request.claim().of_capture(self.capture)
    }

    /// Returns the extents in bytes of the send buffer and of the receive buffer of a rank.
    #[inline]
    pub(crate) fn extents(&self, rank: usize, ranks: usize) -> [Extent; 2] {
        match &self.table {
            Some(table) => table.extents,
            None => {
                let (send, recv) = self.request.sizes(rank, ranks);
                [Extent::dense(send), Extent::dense(recv)]
            }
        }
    }

    /// Returns the send buffer and the receive buffer, each with a number of bytes. The operation
    /// touches no byte beyond that number.
    pub(crate) fn touched(&self, rank: usize, ranks: usize) -> [(*const u8, usize); 2] {
        let [sends, receives] = self.extents(rank, ranks);
        [(self.send, sends.end), (self.recv.cast_const(), receives.end)]
    }

    /// Returns whether the send buffer and the receive buffer share bytes. `sends` and `receives`
    /// are their extents.
    #[inline]
    pub(crate) fn overlaps(&self, [sends, receives]: [Extent; 2]) -> bool {
        let (send, recv) = (self.send as usize, self.recv as usize);
        // Empty ranges overlap nothing.
        send < recv + receives.end && recv < send + sends.end
    }

    /// Returns whether the buffers overlap in the way that the operation accepts as in place.
    #[cold]
    pub(crate) fn is_in_place(&self, rank: usize) -> bool {
        let own = rank * self.request.bytes();
        let (send, recv) = (self.send as usize, self.recv as usize);
        match self.request.operation {
            Operation::AllReduce(_) | Operation::Reduce(..) => send == recv,
            Operation::AllGather => send == recv + own,
            Operation::ReduceScatter(_) | Operation::Scatter(_) => recv == send + own,
            Operation::Broadcast(_)
            | Operation::AlltoAllV
            | Operation::AlltoAllVC
            | Operation::AlltoAll
            | Operation::AllGatherV
            | Operation::ReduceScatterV(_)
            | Operation::Barrier => false,
        }
    }

    /// Returns the number of bytes that a large operation touches in this rank's buffers.
    #[inline]
    pub(crate) fn moved(&self, extents: [Extent; 2]) -> usize {
        let [sends, receives] = extents;
        let twice = if self.overlaps(extents) { self.request.bytes() } else { 0 };
        sends.bytes.saturating_add(receives.bytes) - twice
    }
}
