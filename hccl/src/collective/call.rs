//! The operations as CANN takes them.

use std::ffi::c_void;

use ascend_sys::{HcclComm, HcclDataType, HcclReduceOp, aclrtStream};

use super::Partition;
use super::check::CheckedReduction;
use crate::api::{Table, call};
use crate::dtype::DType;
use crate::error::Result;
use crate::memory::allocation::Region;

/// One operation of one rank, checked. Counts are elements.
#[derive(Clone, Copy)]
pub(crate) struct CollectiveCall<'a> {
    pub(super) kind: CollectiveKind<'a>,
    pub(super) dtype: HcclDataType,
    pub(super) send: *mut c_void,
    pub(super) recv: *mut c_void,
    pub(super) count: u64,
}

/// Which operation, and what it takes besides buffers, a count and a type.
#[derive(Clone, Copy)]
pub(super) enum CollectiveKind<'a> {
    AllReduce(HcclReduceOp),
    Reduce(HcclReduceOp, u32),
    ReduceScatter(HcclReduceOp),
    ReduceScatterV(HcclReduceOp, &'a Partition),
    /// Of the receive buffer.
    Broadcast(u32),
    AllGather,
    AllGatherV(&'a Partition),
    Scatter(u32),
    AllToAll,
    AllToAllV(&'a Partition, &'a Partition),
    AllToAllVC(&'a [u64]),
    Send(u32),
    Recv(u32),
    Barrier,
}

impl<'a> CollectiveCall<'a> {
    /// From one region to another. A region of which there is none is null.
    #[inline]
    pub(super) fn new(
        kind: CollectiveKind<'a>,
        dtype: DType,
        send: Option<&Region<'_>>,
        recv: Option<&Region<'_>>,
        count: usize,
    ) -> Self {
        let pointer = |region: Option<&Region<'_>>| {
            region.map_or(std::ptr::null_mut(), |region| region.pointer())
        };
        let (send, recv, count) = (pointer(send), pointer(recv), count as u64);
        CollectiveCall { kind, dtype: HcclDataType(dtype.code()), send, recv, count }
    }

    /// A reduction from one region to another.
    #[inline]
    pub(super) fn reduction(
        kind: impl FnOnce(HcclReduceOp) -> CollectiveKind<'a>,
        what: CheckedReduction,
        send: &Region<'_>,
        recv: &Region<'_>,
    ) -> Self {
        let kind = kind(HcclReduceOp(what.kind.code()));
        CollectiveCall::new(kind, what.dtype, Some(send), Some(recv), what.count)
    }

    /// For an operation that CANN refuses in place, which it tells by equal pointers. A buffer of no elements may begin where the
    /// other one does: then it is said to be one element further on, where nobody looks.
    pub(super) fn not_in_place(mut self, from: &Region<'_>, dtype: DType) -> Self {
        if self.send == self.recv {
            let empty = if from.bytes() == 0 { &mut self.send } else { &mut self.recv };
            *empty = empty.wrapping_byte_add(dtype.size());
        }
        self
    }

    pub(super) fn barrier() -> Self {
        CollectiveCall::new(CollectiveKind::Barrier, DType::U8, None, None, 0)
    }

    /// Hands it to CANN.
    ///
    /// # Safety
    ///
    /// The handles are live. The buffers are as long as the operation needs, and stay allocated and unused by others until it is
    /// complete on this rank. In a group, tables stay until the group has ended.
    #[inline]
    pub(crate) unsafe fn enqueue(
        &self,
        table: &Table,
        comm: HcclComm,
        stream: aclrtStream,
    ) -> Result<()> {
        let CollectiveCall { kind, dtype, send, recv, count } = *self;
        // SAFETY: the caller's promise; tables have an entry for each rank, which was checked when the call was made.
        unsafe {
            match kind {
                CollectiveKind::AllReduce(op) => {
                    call!(table, HcclAllReduce, send, recv, count, dtype, op, comm, stream)
                }
                CollectiveKind::Reduce(op, root) => {
                    call!(table, HcclReduce, send, recv, count, dtype, op, root, comm, stream)
                }
                CollectiveKind::ReduceScatter(op) => {
                    call!(table, HcclReduceScatter, send, recv, count, dtype, op, comm, stream)
                }
                CollectiveKind::ReduceScatterV(op, parts) => {
                    let (counts, at) = parts.pointers();
                    call!(
                        table,
                        HcclReduceScatterV,
                        send,
                        counts,
                        at,
                        recv,
                        count,
                        dtype,
                        op,
                        comm,
                        stream
                    )
                }
                CollectiveKind::Broadcast(root) => {
                    call!(table, HcclBroadcast, recv, count, dtype, root, comm, stream)
                }
                CollectiveKind::AllGather => {
                    call!(table, HcclAllGather, send, recv, count, dtype, comm, stream)
                }
                CollectiveKind::AllGatherV(parts) => {
                    let (counts, at) = parts.pointers();
                    call!(table, HcclAllGatherV, send, count, recv, counts, at, dtype, comm, stream)
                }
                CollectiveKind::Scatter(root) => {
                    call!(table, HcclScatter, send, recv, count, dtype, root, comm, stream)
                }
                CollectiveKind::AllToAll => {
                    call!(table, HcclAlltoAll, send, count, dtype, recv, count, dtype, comm, stream)
                }
                CollectiveKind::AllToAllV(from, to) => {
                    let (sent, from) = from.pointers();
                    let (received, to) = to.pointers();
                    call!(
                        table,
                        HcclAlltoAllV,
                        send,
                        sent,
                        from,
                        dtype,
                        recv,
                        received,
                        to,
                        dtype,
                        comm,
                        stream
                    )
                }
                CollectiveKind::AllToAllVC(matrix) => {
                    let matrix = matrix.as_ptr().cast();
                    call!(table, HcclAlltoAllVC, send, matrix, dtype, recv, dtype, comm, stream)
                }
                CollectiveKind::Send(to) => {
                    call!(table, HcclSend, send, count, dtype, to, comm, stream)
                }
                CollectiveKind::Recv(from) => {
                    call!(table, HcclRecv, recv, count, dtype, from, comm, stream)
                }
                CollectiveKind::Barrier => call!(table, HcclBarrier, comm, stream),
            }
        }
    }
}
