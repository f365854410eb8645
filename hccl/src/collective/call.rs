//! The operations as CANN takes them.

use std::ffi::c_void;

use ascend_sys::{HcclComm, HcclDataType, HcclReduceOp, aclrtStream};

use super::Partition;
use super::check::Reduction;
use crate::api::{Table, call};
use crate::dtype::DType;
use crate::error::Result;
use crate::memory::allocation::Region;

/// One operation of one rank, checked. Counts are elements.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) dtype: HcclDataType,
    pub(super) send: *mut c_void,
    pub(super) recv: *mut c_void,
    pub(super) count: u64,
}

/// Which operation, and what it takes besides buffers, a count and a type.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
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

impl<'a> Call<'a> {
    /// From one region to another. A region of which there is none is null.
    #[inline]
    pub(super) fn new(
        kind: Kind<'a>,
        dtype: DType,
        send: Option<&Region<'_>>,
        recv: Option<&Region<'_>>,
        count: usize,
    ) -> Self {
        let pointer = |region: Option<&Region<'_>>| {
            region.map_or(std::ptr::null_mut(), |region| region.pointer())
        };
        let (send, recv, count) = (pointer(send), pointer(recv), count as u64);
        Call { kind, dtype: HcclDataType(dtype.code()), send, recv, count }
    }

    /// A reduction from one region to another.
    #[inline]
    pub(super) fn reduction(
        kind: impl FnOnce(HcclReduceOp) -> Kind<'a>,
        what: Reduction,
        send: &Region<'_>,
        recv: &Region<'_>,
    ) -> Self {
        let kind = kind(HcclReduceOp(what.kind.code()));
        Call::new(kind, what.dtype, Some(send), Some(recv), what.count)
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
        Call::new(Kind::Barrier, DType::U8, None, None, 0)
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
        let Call { kind, dtype, send, recv, count } = *self;
        // SAFETY: the caller's promise; tables have an entry for each rank, which was checked when the call was made.
        unsafe {
            match kind {
                Kind::AllReduce(op) => {
                    call!(table, HcclAllReduce, send, recv, count, dtype, op, comm, stream)
                }
                Kind::Reduce(op, root) => {
                    call!(table, HcclReduce, send, recv, count, dtype, op, root, comm, stream)
                }
                Kind::ReduceScatter(op) => {
                    call!(table, HcclReduceScatter, send, recv, count, dtype, op, comm, stream)
                }
                Kind::ReduceScatterV(op, parts) => {
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
                Kind::Broadcast(root) => {
                    call!(table, HcclBroadcast, recv, count, dtype, root, comm, stream)
                }
                Kind::AllGather => {
                    call!(table, HcclAllGather, send, recv, count, dtype, comm, stream)
                }
                Kind::AllGatherV(parts) => {
                    let (counts, at) = parts.pointers();
                    call!(table, HcclAllGatherV, send, count, recv, counts, at, dtype, comm, stream)
                }
                Kind::Scatter(root) => {
                    call!(table, HcclScatter, send, recv, count, dtype, root, comm, stream)
                }
                Kind::AllToAll => {
                    call!(table, HcclAlltoAll, send, count, dtype, recv, count, dtype, comm, stream)
                }
                Kind::AllToAllV(from, to) => {
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
                Kind::AllToAllVC(matrix) => {
                    let matrix = matrix.as_ptr().cast();
                    call!(table, HcclAlltoAllVC, send, matrix, dtype, recv, dtype, comm, stream)
                }
                Kind::Send(to) => call!(table, HcclSend, send, count, dtype, to, comm, stream),
                Kind::Recv(from) => call!(table, HcclRecv, recv, count, dtype, from, comm, stream),
                Kind::Barrier => call!(table, HcclBarrier, comm, stream),
            }
        }
    }
}
