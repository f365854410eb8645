//! The description of a collective or a message, shared by all ways of issuing it.
//!
//! The checks turn the arguments of a call into a [`CollectiveOp`]. A communicator, a group, a
//! batch and a captured stream issue this value as it is, and do not repeat the checks.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use ascend_sys::{HcclComm, HcclDataType, HcclReduceOp, aclrtStream};
use tracing::span::EnteredSpan;

use super::Partition;
use crate::api::item::Item;
use crate::api::{Table, call};
use crate::comm::Member;
use crate::dtype::DType;
use crate::error::Result;
use crate::error::batch::Direction;
use crate::memory::allocation::Region;
use crate::order::label::{Label, Takes};
use crate::record::operation::RecordedName;

/// One operation of one rank, and the outcome of its checks.
pub(crate) struct CollectiveOp<'a> {
    name: &'static OpName,
    kind: CollectiveKind<'a>,
    dtype: DType,
    /// The number of elements that this rank gives. For a reduce-scatter, a scatter and a receive,
    /// the number of elements that it gets. For a broadcast, the length of its buffer.
    count: usize,
    /// The pointers that CANN gets. A pointer is null if this rank has no buffer for it.
    send: *mut c_void,
    recv: *mut c_void,
    /// The memory that the operation reads, and the memory that it writes. The buffer of an
    /// in-place operation is in `writes`, unless this rank only reads it.
    pub(super) reads: Option<Region<'a>>,
    pub(super) writes: Option<Region<'a>>,
    /// Whether the caller has given one buffer as both source and destination.
    pub(super) in_place: bool,
    /// The outcome of the checks. An operation whose checks fail is not issued.
    pub(crate) checked: Result<()>,
}

/// The kind of an operation, with its arguments other than buffers, a count and a type.
#[derive(Clone, Copy)]
pub(super) enum CollectiveKind<'a> {
    AllReduce(HcclReduceOp),
    Reduce(HcclReduceOp, u32),
    ReduceScatter(HcclReduceOp),
    ReduceScatterV(HcclReduceOp, &'a Partition),
    /// A broadcast of the receive buffer from this root.
    Broadcast(u32),
    AllGather,
    AllGatherV(&'a Partition),
    Scatter(u32),
    /// An all-to-all, with the number of elements from each rank to each rank.
    AllToAll(u64),
    AllToAllV(&'a Partition, &'a Partition),
    AllToAllVC(&'a [u64]),
    Message(Direction, u32),
    Barrier,
}

/// The name of an operation, made by [`op_name!`].
pub(super) struct OpName {
    text: &'static str,
    span: SpanOf,
}

/// A function that enters the span of an operation with this sequence number, count and number of
/// bytes. The name of a span is a constant, so each operation has a function of its own.
pub(super) type SpanOf = fn(&Member, u64, usize, usize) -> EnteredSpan;

impl OpName {
    pub(super) const fn new(text: &'static str, span: SpanOf) -> Self {
        OpName { text, span }
    }
}

/// The name of an operation, in errors and in spans: `op_name!("all_reduce")`.
macro_rules! op_name {
    ($text:literal) => {{
        use crate::{collective::op::OpName, comm::Member, trace};
        #[inline(always)]
        fn span(
            member: &Member,
            sequence: u64,
            count: usize,
            bytes: usize,
        ) -> tracing::span::EnteredSpan {
            trace::span!(concat!("hccl.", $text), $text, member, sequence, count, bytes)
        }
        const { &OpName::new($text, span) }
    }};
}
pub(super) use op_name;

/// The methods with which the functions that check arguments build an operation.
impl<'a> CollectiveOp<'a> {
    /// Returns an operation without buffers.
    #[inline]
    pub(super) fn new(
        name: &'static OpName,
        kind: CollectiveKind<'a>,
        dtype: DType,
        count: usize,
    ) -> Self {
        let (send, recv) = (ptr::null_mut(), ptr::null_mut());
        let (reads, writes, in_place) = (None, None, false);
        CollectiveOp {
            name,
            kind,
            dtype,
            count,
            send,
            recv,
            reads,
            writes,
            in_place,
            checked: Ok(()),
        }
    }

    /// Sets the buffer from which the operation sends.
    #[inline]
    pub(super) fn reads(mut self, buffer: &Region<'a>) -> Self {
        self.reads = Some(buffer.clone());
        self.sends(buffer)
    }

    /// Sets the buffer into which the operation receives.
    #[inline]
    pub(super) fn writes(mut self, buffer: &Region<'a>) -> Self {
        self.writes = Some(buffer.clone());
        self.receives(buffer)
    }

    /// Sets one buffer from which the operation sends and into which it receives.
    #[inline]
    pub(super) fn in_place(mut self, buffer: &Region<'a>) -> Self {
        self.in_place = true;
        self.writes(buffer).sends(buffer)
    }

    /// Marks the buffer of an in-place operation as only read on this rank, if `is_such` is true.
    #[inline]
    pub(super) fn only_reads(mut self, is_such: bool) -> Self {
        if is_such {
            self.reads = self.writes.take();
        }
        self
    }

    /// Sets the part of a buffer that CANN gets as the source.
    #[inline]
    pub(super) fn sends(mut self, part: &Region<'_>) -> Self {
        self.send = part.pointer();
        self
    }

    /// Sets the part of a buffer that CANN gets as the destination.
    #[inline]
    pub(super) fn receives(mut self, part: &Region<'_>) -> Self {
        self.recv = part.pointer();
        self
    }

    /// Makes the two pointers differ, for an operation that CANN does not support in place. CANN
    /// rejects equal pointers, but an empty buffer may begin at the same address as the other
    /// buffer. The pointer of the empty buffer is then moved by one element. CANN does not access
    /// memory through it.
    #[inline]
    pub(super) fn not_in_place(mut self) -> Self {
        if self.send == self.recv {
            let sends_none = self.reads.as_ref().is_none_or(|from| from.bytes() == 0);
            let empty = if sends_none { &mut self.send } else { &mut self.recv };
            *empty = empty.wrapping_byte_add(self.dtype.size());
        }
        self
    }

    /// Runs `checks` with the name of the operation. An error of `checks` replaces the error of
    /// earlier checks.
    #[inline]
    pub(super) fn check(mut self, checks: impl FnOnce(&'static str) -> Result<()>) -> Self {
        self.checked = checks(self.name.text).and(self.checked);
        self
    }
}

/// The methods with which an operation is issued and recorded.
impl<'a> CollectiveOp<'a> {
    #[inline]
    pub(crate) fn name(&self) -> &'static str {
        self.name.text
    }

    /// Returns the direction and the peer of a message, or `None` for a collective.
    #[inline]
    pub(crate) fn message(&self) -> Option<(Direction, u32)> {
        match self.kind {
            CollectiveKind::Message(direction, peer) => Some((direction, peer)),
            _ => None,
        }
    }

    /// Returns the kind of number that the operation takes.
    #[inline]
    pub(crate) fn takes(&self) -> Takes<'static> {
        match self.message() {
            Some((direction, peer)) => Takes::Message(direction, peer),
            None => Takes::Collective,
        }
    }

    /// Returns a message as an item of a batch, or `None` for a collective.
    #[inline]
    pub(crate) fn item(&self) -> Option<Item> {
        let (direction, peer) = self.message()?;
        let buffer = match direction {
            Direction::Send => self.send,
            Direction::Receive => self.recv,
        };
        Some(Item::new(direction, peer, buffer, self.count, self.dtype))
    }

    /// Returns the buffers of the operation, and for each one whether the operation writes it.
    #[inline]
    pub(crate) fn buffers(&self) -> impl Iterator<Item = (&Region<'a>, bool)> {
        let reads = self.reads.iter().map(|buffer| (buffer, false));
        reads.chain(self.writes.iter().map(|buffer| (buffer, true)))
    }

    /// Returns the name and the number under which a record lists the operation.
    #[cold]
    pub(crate) fn recorded_as<'l>(&self, label: &'l Arc<Label>, sequence: u64) -> RecordedName<'l> {
        let name = self.name();
        let operation = match self.message() {
            None => name.to_owned(),
            Some((Direction::Send, to)) => format!("{name} to {to}"),
            Some((Direction::Receive, from)) => format!("{name} from {from}"),
        };
        RecordedName { label, operation, sequence, takes: self.takes(), dtype: self.dtype }
    }

    /// Returns this rank's memory on which the outcome of the operation depends, for a record.
    #[cold]
    pub(crate) fn given(&self) -> Option<Region<'a>> {
        if self.reads.is_some() || !self.in_place {
            return self.reads.clone();
        }
        let buffer = self.writes.as_ref()?;
        match self.kind {
            // The contents of this buffer matter only on the root.
            CollectiveKind::Broadcast(_) => None,
            CollectiveKind::AllGather => self.part_at(buffer, self.send),
            _ => Some(buffer.clone()),
        }
    }

    /// Returns this rank's memory that contains the outcome of the operation, for a record.
    #[cold]
    pub(crate) fn got(&self, rank: u32) -> Option<Region<'a>> {
        let buffer = self.writes.as_ref()?;
        match self.kind {
            CollectiveKind::Reduce(_, root) if root != rank => None,
            CollectiveKind::ReduceScatter(_) if self.in_place => self.part_at(buffer, self.recv),
            _ => Some(buffer.clone()),
        }
    }

    /// Returns the part of `buffer` that begins at `pointer` and has `count` elements.
    fn part_at(&self, buffer: &Region<'a>, pointer: *mut c_void) -> Option<Region<'a>> {
        let start = pointer.addr().checked_sub(buffer.pointer().addr())?;
        let end = start.checked_add(self.count.checked_mul(self.dtype.size())?)?;
        (end <= buffer.bytes()).then(|| buffer.part(start..end))
    }

    /// Enters the span of the operation and returns its guard.
    #[inline(always)]
    pub(super) fn span(&self, member: &Member, sequence: u64) -> EnteredSpan {
        let bytes = self.count.saturating_mul(self.dtype.size());
        (self.name.span)(member, sequence, self.count, bytes)
    }

    /// Returns a copy of the operation for a call that is made later. The copy owns its tables.
    #[cold]
    pub(super) fn detach(&self) -> DetachedOp {
        let kind = match self.kind {
            CollectiveKind::AllReduce(op) => DetachedKind::Plain(CollectiveKind::AllReduce(op)),
            CollectiveKind::Reduce(op, root) => {
                DetachedKind::Plain(CollectiveKind::Reduce(op, root))
            }
            CollectiveKind::ReduceScatter(op) => {
                DetachedKind::Plain(CollectiveKind::ReduceScatter(op))
            }
            CollectiveKind::Broadcast(root) => DetachedKind::Plain(CollectiveKind::Broadcast(root)),
            CollectiveKind::AllGather => DetachedKind::Plain(CollectiveKind::AllGather),
            CollectiveKind::Scatter(root) => DetachedKind::Plain(CollectiveKind::Scatter(root)),
            CollectiveKind::AllToAll(count) => DetachedKind::Plain(CollectiveKind::AllToAll(count)),
            CollectiveKind::Message(direction, peer) => {
                DetachedKind::Plain(CollectiveKind::Message(direction, peer))
            }
            CollectiveKind::Barrier => DetachedKind::Plain(CollectiveKind::Barrier),
            CollectiveKind::ReduceScatterV(op, parts) => {
                DetachedKind::ReduceScatterV(op, parts.clone())
            }
            CollectiveKind::AllGatherV(parts) => DetachedKind::AllGatherV(parts.clone()),
            CollectiveKind::AllToAllV(from, to) => {
                DetachedKind::AllToAllV(from.clone(), to.clone())
            }
            CollectiveKind::AllToAllVC(matrix) => DetachedKind::AllToAllVC(matrix.into()),
        };
        let CollectiveOp { name, dtype, count, send, recv, .. } = *self;
        DetachedOp { name, kind, dtype, count, send, recv }
    }

    /// Makes the call of CANN that enqueues the operation.
    ///
    /// # Safety
    ///
    /// The checks have found no error. The handles are live. Until the operation is complete on
    /// this rank, the buffers stay allocated and no other operation uses them. In a group, tables
    /// stay allocated until the group has ended.
    #[inline]
    pub(crate) unsafe fn enqueue(
        &self,
        table: &Table,
        comm: HcclComm,
        stream: aclrtStream,
    ) -> Result<()> {
        let CollectiveOp { kind, send, recv, .. } = *self;
        let (dtype, count) = (HcclDataType(self.dtype.code()), self.count as u64);
        // SAFETY: the caller's promise. By the checks, the buffers are as long as the operation
        // needs, and tables have an entry for each rank.
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
                CollectiveKind::AllToAll(count) => {
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
                CollectiveKind::Message(Direction::Send, to) => {
                    call!(table, HcclSend, send, count, dtype, to, comm, stream)
                }
                CollectiveKind::Message(Direction::Receive, from) => {
                    call!(table, HcclRecv, recv, count, dtype, from, comm, stream)
                }
                CollectiveKind::Barrier => call!(table, HcclBarrier, comm, stream),
            }
        }
    }
}

/// A checked operation that borrows nothing, for a call that is made later.
pub(super) struct DetachedOp {
    name: &'static OpName,
    kind: DetachedKind,
    dtype: DType,
    count: usize,
    send: *mut c_void,
    recv: *mut c_void,
}

// SAFETY: the pointers refer to device memory, and the host does not dereference them.
unsafe impl Send for DetachedOp {}

enum DetachedKind {
    /// An operation that has no tables.
    Plain(CollectiveKind<'static>),
    ReduceScatterV(HcclReduceOp, Partition),
    AllGatherV(Partition),
    AllToAllV(Partition, Partition),
    AllToAllVC(Box<[u64]>),
}

impl DetachedOp {
    /// Makes the call of CANN that enqueues the operation.
    ///
    /// # Safety
    ///
    /// The conditions of [`CollectiveOp::enqueue`] hold.
    pub(super) unsafe fn enqueue(
        &self,
        table: &Table,
        comm: HcclComm,
        stream: aclrtStream,
    ) -> Result<()> {
        let kind = match &self.kind {
            DetachedKind::Plain(kind) => *kind,
            DetachedKind::ReduceScatterV(op, parts) => CollectiveKind::ReduceScatterV(*op, parts),
            DetachedKind::AllGatherV(parts) => CollectiveKind::AllGatherV(parts),
            DetachedKind::AllToAllV(from, to) => CollectiveKind::AllToAllV(from, to),
            DetachedKind::AllToAllVC(matrix) => CollectiveKind::AllToAllVC(matrix),
        };
        let mut operation = CollectiveOp::new(self.name, kind, self.dtype, self.count);
        (operation.send, operation.recv) = (self.send, self.recv);
        // SAFETY: the caller's promise.
        unsafe { operation.enqueue(table, comm, stream) }
    }
}
