//! The collectives for elements whose type is known at run time only.

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
/// Each method is the one of [`Communicator`] with the same name; what the compiler checks there is
/// checked when the operation is issued, before anything moves: [`Error::WrongType`] when source
/// and destination hold elements of different types, [`Error::NotReduced`] when no product reduces
/// the type. A [`DeviceBuffer`](crate::DeviceBuffer) and its slices may stand on either side.
/// [Batches](crate::batch) have [`send_dynamic`](crate::batch::Batch::send_dynamic) and
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
    /// The collectives for elements whose type is known at run time only.
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
    ///     // As a file or a message says.
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
    /// As [`Communicator::all_reduce`].
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

    /// As [`Communicator::all_reduce_in_place`].
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

    /// As [`Communicator::reduce`].
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

    /// As [`Communicator::reduce_in_place`].
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

    /// As [`Communicator::reduce_scatter`].
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

    /// As [`Communicator::reduce_scatter_in_place`].
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

    /// As [`Communicator::reduce_scatter_v`].
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

    /// As [`Communicator::broadcast`].
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

    /// As [`Communicator::all_gather`].
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

    /// As [`Communicator::all_gather_in_place`].
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

    /// As [`Communicator::all_gather_v`].
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

    /// As [`Communicator::scatter`].
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

    /// As [`Communicator::all_to_all`].
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

    /// As [`Communicator::all_to_all_v`].
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

    /// As [`Communicator::all_to_all_vc`].
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

    /// As [`Communicator::send`].
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

    /// As [`Communicator::recv`].
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
