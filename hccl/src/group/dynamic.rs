//! Recording operations on elements whose type is known only at run time.

use super::record::Recorder;
use crate::collective::{CountMatrix, Partition};
use crate::dtype::ReduceKind;
use crate::memory::{DynSlice, DynSliceMut};

/// A recorder of operations of one communicator, for elements whose type is known only at run time.
/// [`Recorder::dynamic`] returns this recorder.
///
/// Each method records the operation of the method of
/// [`DynCollectives`](crate::collective::DynCollectives) with the same name. The types of source
/// and destination are checked when the operation is recorded, instead of by the compiler.
/// [`group`](super::group()) returns the first mistake, and then issues nothing.
///
/// ```
/// use hccl::dtype::{DType, ReduceKind};
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// # let devices = [runtime.device(0)?, runtime.device(1)?];
/// # let streams = [devices[0].stream()?, devices[1].stream()?];
/// # let mut comms = Communicator::init_all(&devices).wait()?;
/// let dtype = DType::from_name("bf16").expect("the name comes from a file");
/// let mut gradients = Vec::new();
/// for (device, stream) in devices.iter().zip(&streams) {
///     gradients.push(device.dynamic_zeros(dtype, 8, stream)?);
/// }
/// let work = hccl::group(|group| {
///     for ((comm, stream), gradient) in comms.iter_mut().zip(&streams).zip(&mut gradients) {
///         group.on(comm, stream).dynamic().all_reduce_in_place(gradient, ReduceKind::Sum);
///     }
///     Ok(())
/// })?;
/// work.wait()?;
/// # Ok::<(), hccl::Error>(())
/// ```
///
/// Buffers are borrowed until the group has ended, so no operation can read what another operation
/// writes:
///
/// ```compile_fail,E0502
/// # use hccl::DynBuffer;
/// # use hccl::dtype::ReduceKind;
/// # use hccl::prelude::*;
/// # fn f(comm: &mut Communicator, stream: &Stream, x: &DynBuffer, y: &mut DynBuffer, z: &mut DynBuffer) -> hccl::Result<()> {
/// hccl::group(|group| {
///     let rank = group.on(comm, stream).dynamic();
///     let rank = rank.all_reduce(x, &mut *y, ReduceKind::Sum);
///     rank.all_reduce(&*y, z, ReduceKind::Sum); // `y` is borrowed
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub struct DynRecorder<'group, 'env>(Recorder<'group, 'env>);

impl<'group, 'env> Recorder<'group, 'env> {
    /// Returns a recorder for elements whose type is known only at run time. [`DynRecorder::typed`]
    /// turns it back into this recorder.
    pub fn dynamic(self) -> DynRecorder<'group, 'env> {
        DynRecorder(self)
    }
}

impl<'group, 'env> DynRecorder<'group, 'env> {
    /// Returns the recorder for elements of known types.
    pub fn typed(self) -> Recorder<'group, 'env> {
        self.0
    }

    /// Records the operation of [`Communicator::all_reduce`](crate::Communicator::all_reduce).
    pub fn all_reduce(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
        op: ReduceKind,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation = self.0.entry.member.dynamic().all_reduce(&send, &recv, op);
        Self(self.0.put(operation))
    }

    /// Records the operation of
    /// [`Communicator::all_reduce_in_place`](crate::Communicator::all_reduce_in_place).
    pub fn all_reduce_in_place(self, buffer: impl Into<DynSliceMut<'env>>, op: ReduceKind) -> Self {
        let buffer = buffer.into();
        let operation = self.0.entry.member.dynamic().all_reduce_in_place(&buffer, op);
        Self(self.0.put(operation))
    }

    /// Records the operation of
    /// [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter).
    pub fn reduce_scatter(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
        op: ReduceKind,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation = self.0.entry.member.dynamic().reduce_scatter(&send, &recv, op);
        Self(self.0.put(operation))
    }

    /// Records the operation of
    /// [`Communicator::reduce_scatter_v`](crate::Communicator::reduce_scatter_v).
    pub fn reduce_scatter_v(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
        op: ReduceKind,
        parts: &'env Partition,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation = self.0.entry.member.dynamic().reduce_scatter_v(&send, &recv, op, parts);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::broadcast`](crate::Communicator::broadcast).
    pub fn broadcast(self, buffer: impl Into<DynSliceMut<'env>>, root: u32) -> Self {
        let buffer = buffer.into();
        let operation = self.0.entry.member.dynamic().broadcast(&buffer, root);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::all_gather`](crate::Communicator::all_gather).
    pub fn all_gather(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation = self.0.entry.member.dynamic().all_gather(&send, &recv);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::all_gather_v`](crate::Communicator::all_gather_v).
    pub fn all_gather_v(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
        parts: &'env Partition,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation = self.0.entry.member.dynamic().all_gather_v(&send, &recv, parts);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::scatter`](crate::Communicator::scatter).
    pub fn scatter(
        self,
        send: Option<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
        root: u32,
    ) -> Self {
        let recv = recv.into();
        let operation = self.0.entry.member.dynamic().scatter(send.as_ref(), &recv, root);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::all_to_all`](crate::Communicator::all_to_all).
    pub fn all_to_all(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation = self.0.entry.member.dynamic().all_to_all(&send, &recv);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::all_to_all_v`](crate::Communicator::all_to_all_v).
    pub fn all_to_all_v(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
        send_parts: &'env Partition,
        recv_parts: &'env Partition,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation =
            self.0.entry.member.dynamic().all_to_all_v((&send, send_parts), (&recv, recv_parts));
        Self(self.0.put(operation))
    }

    /// Records the operation of
    /// [`Communicator::all_to_all_vc`](crate::Communicator::all_to_all_vc).
    pub fn all_to_all_vc(
        self,
        send: impl Into<DynSlice<'env>>,
        recv: impl Into<DynSliceMut<'env>>,
        counts: &'env CountMatrix,
    ) -> Self {
        let (send, recv) = (send.into(), recv.into());
        let operation = self.0.entry.member.dynamic().all_to_all_vc(&send, &recv, counts);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::send`](crate::Communicator::send). But the messages
    /// of a group do not wait for one another.
    pub fn send(self, source: impl Into<DynSlice<'env>>, to: u32) -> Self {
        let source = source.into();
        let operation = self.0.entry.member.dynamic().send(&source, to);
        Self(self.0.put(operation))
    }

    /// Records the operation of [`Communicator::recv`](crate::Communicator::recv). But the messages
    /// of a group do not wait for one another.
    pub fn recv(self, destination: impl Into<DynSliceMut<'env>>, from: u32) -> Self {
        let destination = destination.into();
        let operation = self.0.entry.member.dynamic().recv(&destination, from);
        Self(self.0.put(operation))
    }
}
