//! Recording operations in a group: each method checks an operation and adds it.

use super::entry::{Entry, GroupOperation};
use crate::collective::{CheckedReduction, CollectiveOp, CountMatrix, Partition};
use crate::dtype::{Element, Reduce, ReduceOp};
use crate::error::Error;
use crate::error::batch::Direction;
use crate::memory::traits::{Lend, LendMut};
use crate::memory::{Destination, Source};

/// A recorder of operations of one communicator; see [`mod@crate::group`].
///
/// Each method records the operation of the method of [`Communicator`](crate::Communicator) with
/// the same name, whose documentation describes shapes and errors. [`group`](super::group())
/// returns the first mistake. Buffers are borrowed until the group has ended, so a destination is a
/// `&mut DeviceBuffer` or a [`DeviceSliceMut`](crate::DeviceSliceMut). Use
/// [`dynamic`](Self::dynamic) for elements whose type is known only at run time.
///
/// ```
/// use hccl::group::Recorder;
/// use hccl::prelude::*;
///
/// /// The operations of one rank of the group.
/// fn add<'e>(rank: Recorder<'_, 'e>, x: &'e mut DeviceBuffer<f32>, y: &'e mut DeviceBuffer<f32>) {
///     rank.all_reduce_in_place(x, Sum).all_reduce_in_place(y, Max);
/// }
/// # let runtime = Runtime::emulator(1)?;
/// # let devices = [runtime.device(0)?];
/// # let stream = devices[0].stream()?;
/// # let mut comms = Communicator::init_all(&devices).wait()?;
/// # let (mut x, mut y) = (devices[0].zeros(4, &stream)?, devices[0].zeros(4, &stream)?);
///
/// let work = hccl::group(|group| {
///     add(group.on(&mut comms[0], &stream), &mut x, &mut y);
///     Ok(())
/// })?;
/// work.wait()?;
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Recorder<'group, 'env> {
    pub(super) entry: &'group mut Entry<'env>,
    pub(super) mistake: &'group mut Option<Error>,
}

impl<'env> Recorder<'_, 'env> {
    /// Records the operation of [`Communicator::all_reduce`](crate::Communicator::all_reduce).
    pub fn all_reduce<T: Reduce<Op>, Op: ReduceOp>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        op: Op,
    ) -> Self {
        let _ = op;
        let (from, to) = (send.lend(), recv.lend());
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.entry.member.all_reduce(what, &from, &to);
        self.put(operation)
    }

    /// Records the operation of
    /// [`Communicator::all_reduce_in_place`](crate::Communicator::all_reduce_in_place).
    pub fn all_reduce_in_place<T: Reduce<Op>, Op: ReduceOp>(
        self,
        buffer: impl Destination<T> + LendMut<'env>,
        op: Op,
    ) -> Self {
        let _ = op;
        let buffer = buffer.lend();
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.entry.member.all_reduce_in_place(what, &buffer);
        self.put(operation)
    }

    /// Records the operation of
    /// [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter).
    pub fn reduce_scatter<T: Reduce<Op>, Op: ReduceOp>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        op: Op,
    ) -> Self {
        let _ = op;
        let (from, to) = (send.lend(), recv.lend());
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.entry.member.reduce_scatter(what, &from, &to);
        self.put(operation)
    }

    /// Records the operation of
    /// [`Communicator::reduce_scatter_v`](crate::Communicator::reduce_scatter_v).
    pub fn reduce_scatter_v<T: Reduce<Op>, Op: ReduceOp>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        op: Op,
        parts: &'env Partition,
    ) -> Self {
        let _ = op;
        let (from, to) = (send.lend(), recv.lend());
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.entry.member.reduce_scatter_v(what, &from, &to, parts);
        self.put(operation)
    }

    /// Records the operation of [`Communicator::broadcast`](crate::Communicator::broadcast).
    pub fn broadcast<T: Element>(
        self,
        buffer: impl Destination<T> + LendMut<'env>,
        root: u32,
    ) -> Self {
        let operation = self.entry.member.broadcast(T::DTYPE, &buffer.lend(), root);
        self.put(operation)
    }

    /// Records the operation of [`Communicator::all_gather`](crate::Communicator::all_gather).
    pub fn all_gather<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
    ) -> Self {
        let operation = self.entry.member.all_gather(T::DTYPE, &send.lend(), &recv.lend());
        self.put(operation)
    }

    /// Records the operation of [`Communicator::all_gather_v`](crate::Communicator::all_gather_v).
    pub fn all_gather_v<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        parts: &'env Partition,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let operation = self.entry.member.all_gather_v(T::DTYPE, &from, &to, false, parts);
        self.put(operation)
    }

    /// Records the operation of [`Communicator::scatter`](crate::Communicator::scatter).
    pub fn scatter<T: Element>(
        self,
        send: Option<impl Source<T> + Lend<'env>>,
        recv: impl Destination<T> + LendMut<'env>,
        root: u32,
    ) -> Self {
        let from = send.map(Lend::lend);
        let operation = self.entry.member.scatter(T::DTYPE, from.as_ref(), &recv.lend(), root);
        self.put(operation)
    }

    /// Records the operation of [`Communicator::all_to_all`](crate::Communicator::all_to_all).
    pub fn all_to_all<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
    ) -> Self {
        let operation = self.entry.member.all_to_all(T::DTYPE, &send.lend(), &recv.lend());
        self.put(operation)
    }

    /// Records the operation of [`Communicator::all_to_all_v`](crate::Communicator::all_to_all_v).
    pub fn all_to_all_v<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        send_parts: &'env Partition,
        recv_parts: &'env Partition,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let (sent, received) = ((&from, send_parts), (&to, recv_parts));
        let operation = self.entry.member.all_to_all_v(T::DTYPE, sent, received, false);
        self.put(operation)
    }

    /// Records the operation of
    /// [`Communicator::all_to_all_vc`](crate::Communicator::all_to_all_vc).
    pub fn all_to_all_vc<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        counts: &'env CountMatrix,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let operation = self.entry.member.all_to_all_vc(T::DTYPE, &from, &to, counts);
        self.put(operation)
    }

    /// Records the operation of [`Communicator::send`](crate::Communicator::send). But the messages
    /// of a group do not wait for one another.
    pub fn send<T: Element>(self, source: impl Source<T> + Lend<'env>, to: u32) -> Self {
        let member = &self.entry.member;
        let operation = member.message(Direction::Send, T::DTYPE, &source.lend(), to);
        self.put(operation)
    }

    /// Records the operation of [`Communicator::recv`](crate::Communicator::recv). But the messages
    /// of a group do not wait for one another.
    pub fn recv<T: Element>(
        self,
        destination: impl Destination<T> + LendMut<'env>,
        from: u32,
    ) -> Self {
        let member = &self.entry.member;
        let operation = member.message(Direction::Receive, T::DTYPE, &destination.lend(), from);
        self.put(operation)
    }

    pub(super) fn put(self, operation: CollectiveOp<'env>) -> Self {
        let Entry { member, operations, .. } = &mut *self.entry;
        // Collectives are numbered together, messages by peer and direction.
        let numbered_with =
            |earlier: &&GroupOperation<'_>| earlier.operation.message() == operation.message();
        let earlier = operations.iter().filter(numbered_with).count();
        let sequence = member.next(operation.takes()) + earlier as u64;
        match &operation.checked {
            Ok(()) => operations.push(GroupOperation { sequence, operation }),
            Err(error) => {
                let error = member.explain(operation.name(), sequence, error.clone());
                self.mistake.get_or_insert(error);
            }
        }
        self
    }
}
