//! Collectives for elements whose type is known only at run time.

use super::{CountMatrix, Partition};
use crate::comm::Communicator;
use crate::device::{Stream, StreamState};
use crate::dtype::ReduceKind;
use crate::error::Result;
use crate::memory::{DynSlice, DynSliceMut};

#[cfg(doc)]
use crate::error::Error;

/// The collectives of a communicator, for [`DynBuffer`](crate::DynBuffer)s and parts of them. Made
/// by [`Communicator::dynamic`].
///
/// Each method issues the same operation as the method of [`Communicator`] with the same name. But
/// the types are checked when the operation is issued, instead of by the compiler. The cause of the
/// error is [`Error::WrongType`] if source and destination hold elements of different types. It is
/// [`Error::NotReduced`] if no product reduces the type with this reduction. Source and destination
/// may also be a [`DeviceBuffer`](crate::DeviceBuffer) or a slice of one. [Batches](crate::batch)
/// have [`send_dynamic`](crate::batch::Batch::send_dynamic) and
/// [`recv_dynamic`](crate::batch::Batch::recv_dynamic), and groups have
/// [`Recorder::dynamic`](crate::group::Recorder::dynamic).
///
/// ```
/// use hccl::dtype::{DType, ReduceKind};
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// let dtype = DType::from_name("bf16").expect("the name comes from a file");
/// runtime.run_ranks(2, |rank| {
///     let stream = rank.device().stream()?;
///     let mut gradient = rank.device().dynamic_zeros(dtype, 8, &stream)?;
///     let mut comm = rank.communicator()?;
///     comm.dynamic().all_reduce_in_place(&mut gradient, ReduceKind::Sum, &stream)?.wait()
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct DynCollectives<'c> {
    comm: &'c mut Communicator,
}

impl Communicator {
    /// Returns the collectives for elements whose type is known only at run time.
    ///
    /// ```
    /// use hccl::dtype::{DType, ReduceKind};
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let sums = runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     // The type and the bytes could come from a file or a message.
    ///     let (dtype, bytes) = (DType::I16, [1, 0, 2, 0]);
    ///     let mut x = rank.device().dynamic_zeros(dtype, 2, &stream)?;
    ///     x.bytes_mut().upload(&bytes, &stream)?;
    ///     comm.dynamic().all_reduce_in_place(&mut x, ReduceKind::Sum, &stream)?;
    ///     x.bytes().to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(sums, [[2, 0, 4, 0]; 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn dynamic(&mut self) -> DynCollectives<'_> {
        DynCollectives { comm: self }
    }
}

impl DynCollectives<'_> {
    /// Issues the operation of [`Communicator::all_reduce`]. Does not block.
    pub fn all_reduce<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        op: ReduceKind,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_reduce(&send, &recv, op);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::all_reduce_in_place`]. Does not block.
    pub fn all_reduce_in_place<'a, S: StreamState>(
        &mut self,
        buffer: impl Into<DynSliceMut<'a>>,
        op: ReduceKind,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let buffer = buffer.into();
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_reduce_in_place(&buffer, op);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::reduce`]. Does not block.
    pub fn reduce<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: Option<DynSliceMut<'a>>,
        op: ReduceKind,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let send = send.into();
        let member = &mut self.comm.member;
        let mut scratch = std::mem::take(&mut member.scratch);
        let operation = member.dynamic().reduce(&send, recv.as_ref(), op, root, &mut scratch);
        let outcome = member.issue(operation, stream);
        member.scratch = scratch;
        outcome
    }

    /// Issues the operation of [`Communicator::reduce_in_place`]. Does not block.
    pub fn reduce_in_place<'a, S: StreamState>(
        &mut self,
        buffer: impl Into<DynSliceMut<'a>>,
        op: ReduceKind,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let buffer = buffer.into();
        let member = &mut self.comm.member;
        let mut scratch = std::mem::take(&mut member.scratch);
        let operation = member.dynamic().reduce_in_place(&buffer, op, root, &mut scratch);
        let outcome = member.issue(operation, stream);
        member.scratch = scratch;
        outcome
    }

    /// Issues the operation of [`Communicator::reduce_scatter`]. Does not block.
    pub fn reduce_scatter<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        op: ReduceKind,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().reduce_scatter(&send, &recv, op);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::reduce_scatter_in_place`]. Does not block.
    pub fn reduce_scatter_in_place<'a, S: StreamState>(
        &mut self,
        buffer: impl Into<DynSliceMut<'a>>,
        op: ReduceKind,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let buffer = buffer.into();
        let member = &mut self.comm.member;
        let operation = member.dynamic().reduce_scatter_in_place(&buffer, op);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::reduce_scatter_v`]. Does not block.
    pub fn reduce_scatter_v<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        op: ReduceKind,
        parts: &Partition,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().reduce_scatter_v(&send, &recv, op, parts);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::broadcast`]. Does not block.
    pub fn broadcast<'a, S: StreamState>(
        &mut self,
        buffer: impl Into<DynSliceMut<'a>>,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let buffer = buffer.into();
        let member = &mut self.comm.member;
        let operation = member.dynamic().broadcast(&buffer, root);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::all_gather`]. Does not block.
    pub fn all_gather<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_gather(&send, &recv);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::all_gather_in_place`]. Does not block.
    pub fn all_gather_in_place<'a, S: StreamState>(
        &mut self,
        buffer: impl Into<DynSliceMut<'a>>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let buffer = buffer.into();
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_gather_in_place(&buffer);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::all_gather_v`]. Does not block.
    pub fn all_gather_v<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        parts: &Partition,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_gather_v(&send, &recv, parts);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::scatter`]. Does not block.
    pub fn scatter<'a, S: StreamState>(
        &mut self,
        send: Option<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let recv = recv.into();
        let member = &mut self.comm.member;
        let operation = member.dynamic().scatter(send.as_ref(), &recv, root);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::all_to_all`]. Does not block.
    pub fn all_to_all<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_to_all(&send, &recv);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::all_to_all_v`]. Does not block.
    pub fn all_to_all_v<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        send_parts: &Partition,
        recv_parts: &Partition,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_to_all_v((&send, send_parts), (&recv, recv_parts));
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::all_to_all_vc`]. Does not block.
    pub fn all_to_all_vc<'a, S: StreamState>(
        &mut self,
        send: impl Into<DynSlice<'a>>,
        recv: impl Into<DynSliceMut<'a>>,
        counts: &CountMatrix,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let (send, recv) = (send.into(), recv.into());
        let member = &mut self.comm.member;
        let operation = member.dynamic().all_to_all_vc(&send, &recv, counts);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::send`]. Does not block.
    pub fn send<'a, S: StreamState>(
        &mut self,
        source: impl Into<DynSlice<'a>>,
        to: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let source = source.into();
        let member = &mut self.comm.member;
        let operation = member.dynamic().send(&source, to);
        member.issue(operation, stream)
    }

    /// Issues the operation of [`Communicator::recv`]. Does not block.
    pub fn recv<'a, S: StreamState>(
        &mut self,
        destination: impl Into<DynSliceMut<'a>>,
        from: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let destination = destination.into();
        let member = &mut self.comm.member;
        let operation = member.dynamic().recv(&destination, from);
        member.issue(operation, stream)
    }
}
