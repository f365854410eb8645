//! Recording: each method checks an operation and puts it down.

use super::{Entry, GroupOperation};
use crate::batch::{Direction, Item, Used};
use crate::collective::{CheckedReduction, CollectiveCall, CountMatrix, Partition};
use crate::dtype::{DType, Element, Reduce, ReduceOp};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::traits::{Lend, LendMut};
use crate::memory::{Destination, Source};
use crate::order::issue::Touch;

/// Puts down operations of one communicator; see [`mod@crate::group`].
///
/// Each method is the one of the same name of [`Communicator`](crate::Communicator), where shapes and errors are described. The first
/// mistake comes back from [`group`](super::group()). Buffers are borrowed until the group has ended, so a destination is a `&mut DeviceBuffer` or a
/// [`DeviceSliceMut`](crate::DeviceSliceMut).
pub struct Recorder<'group, 'env> {
    pub(super) entry: &'group mut Entry<'env>,
    pub(super) mistake: &'group mut Option<Error>,
}

/// What an operation does with a buffer.
enum BufferUse<'env> {
    Read(Region<'env>),
    Write(Region<'env>),
}

impl<'env> Recorder<'_, 'env> {
    /// [`Communicator::all_reduce`](crate::Communicator::all_reduce).
    pub fn all_reduce<T: Reduce<Op>, Op: ReduceOp>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        op: Op,
    ) -> Self {
        let _ = op;
        let (from, to) = (send.lend(), recv.lend());
        let call = self.entry.member.all_reduce(CheckedReduction::of::<T, Op>(&from), &from, &to);
        self.collective("all_reduce", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

    /// [`Communicator::all_reduce_in_place`](crate::Communicator::all_reduce_in_place).
    pub fn all_reduce_in_place<T: Reduce<Op>, Op: ReduceOp>(
        self,
        buffer: impl Destination<T> + LendMut<'env>,
        op: Op,
    ) -> Self {
        let _ = op;
        let buffer = buffer.lend();
        let call =
            self.entry.member.all_reduce_in_place(CheckedReduction::of::<T, Op>(&buffer), &buffer);
        self.collective("all_reduce", call, [BufferUse::Write(buffer)])
    }

    /// [`Communicator::reduce_scatter`](crate::Communicator::reduce_scatter).
    pub fn reduce_scatter<T: Reduce<Op>, Op: ReduceOp>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        op: Op,
    ) -> Self {
        let _ = op;
        let (from, to) = (send.lend(), recv.lend());
        let call = self.entry.member.reduce_scatter(CheckedReduction::of::<T, Op>(&to), &from, &to);
        self.collective("reduce_scatter", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

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
        let what = CheckedReduction::of::<T, Op>(&to);
        let call = self.entry.member.reduce_scatter_v(what, &from, &to, parts);
        self.collective("reduce_scatter_v", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

    /// [`Communicator::broadcast`](crate::Communicator::broadcast).
    pub fn broadcast<T: Element>(
        self,
        buffer: impl Destination<T> + LendMut<'env>,
        root: u32,
    ) -> Self {
        let buffer = buffer.lend();
        let call = self.entry.member.broadcast(T::DTYPE, &buffer, root);
        let is_root = root == self.entry.member.label.rank;
        let uses = if is_root { BufferUse::Read(buffer) } else { BufferUse::Write(buffer) };
        self.collective("broadcast", call, [uses])
    }

    /// [`Communicator::all_gather`](crate::Communicator::all_gather).
    pub fn all_gather<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let call = self.entry.member.all_gather(T::DTYPE, &from, &to);
        self.collective("all_gather", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

    /// [`Communicator::all_gather_v`](crate::Communicator::all_gather_v).
    pub fn all_gather_v<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        parts: &'env Partition,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let call = self.entry.member.all_gather_v(T::DTYPE, &from, &to, false, parts);
        self.collective("all_gather_v", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

    /// [`Communicator::scatter`](crate::Communicator::scatter).
    pub fn scatter<T: Element>(
        self,
        send: Option<impl Source<T> + Lend<'env>>,
        recv: impl Destination<T> + LendMut<'env>,
        root: u32,
    ) -> Self {
        let (from, to) = (send.map(Lend::lend), recv.lend());
        let call = self.entry.member.scatter(T::DTYPE, from.as_ref(), &to, root);
        self.collective(
            "scatter",
            call,
            [BufferUse::Write(to)].into_iter().chain(from.map(BufferUse::Read)),
        )
    }

    /// [`Communicator::all_to_all`](crate::Communicator::all_to_all).
    pub fn all_to_all<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let call = self.entry.member.all_to_all(T::DTYPE, &from, &to);
        self.collective("all_to_all", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

    /// [`Communicator::all_to_all_v`](crate::Communicator::all_to_all_v).
    pub fn all_to_all_v<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        send_parts: &'env Partition,
        recv: impl Destination<T> + LendMut<'env>,
        recv_parts: &'env Partition,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let member = &self.entry.member;
        let call = member.all_to_all_v(T::DTYPE, (&from, send_parts), (&to, recv_parts), false);
        self.collective("all_to_all_v", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

    /// [`Communicator::all_to_all_vc`](crate::Communicator::all_to_all_vc).
    pub fn all_to_all_vc<T: Element>(
        self,
        send: impl Source<T> + Lend<'env>,
        recv: impl Destination<T> + LendMut<'env>,
        counts: &'env CountMatrix,
    ) -> Self {
        let (from, to) = (send.lend(), recv.lend());
        let call = self.entry.member.all_to_all_vc(T::DTYPE, &from, &to, counts);
        self.collective("all_to_all_vc", call, [BufferUse::Read(from), BufferUse::Write(to)])
    }

    /// [`Communicator::send`](crate::Communicator::send), without its order: within a group messages do not wait for one another.
    pub fn send<T: Element>(self, source: impl Source<T> + Lend<'env>, to: u32) -> Self {
        self.message("send", Direction::Send, T::DTYPE, source.lend(), to)
    }

    /// [`Communicator::recv`](crate::Communicator::recv), without its order: within a group messages do not wait for one another.
    pub fn recv<T: Element>(
        self,
        destination: impl Destination<T> + LendMut<'env>,
        from: u32,
    ) -> Self {
        self.message("recv", Direction::Receive, T::DTYPE, destination.lend(), from)
    }

    fn collective(
        self,
        name: &'static str,
        call: Result<CollectiveCall<'env>>,
        uses: impl IntoIterator<Item = BufferUse<'env>>,
    ) -> Self {
        let Entry { member, operations, .. } = &*self.entry;
        let earlier = operations.iter().filter(|operation| operation.message.is_none()).count();
        let sequence = member.label.next() + earlier as u64;
        self.put(name, sequence, None, call, uses)
    }

    fn message(
        self,
        name: &'static str,
        direction: Direction,
        dtype: DType,
        region: Region<'env>,
        peer: u32,
    ) -> Self {
        let Entry { member, operations, items, .. } = &mut *self.entry;
        let call = member.message(direction, dtype, &region, peer);
        if call.is_ok() {
            let count = dtype.elements(region.bytes());
            items.push(Item::new(direction, peer, region.pointer(), count, dtype));
        }
        let message = Some((direction, peer));
        let earlier = operations.iter().filter(|operation| operation.message == message).count();
        let sequence = member.messages(direction, peer) + 1 + earlier as u64;
        let uses = match direction {
            Direction::Send => BufferUse::Read(region),
            Direction::Receive => BufferUse::Write(region),
        };
        self.put(name, sequence, message, call, [uses])
    }

    fn put(
        self,
        name: &'static str,
        sequence: u64,
        message: Option<(Direction, u32)>,
        call: Result<CollectiveCall<'env>>,
        uses: impl IntoIterator<Item = BufferUse<'env>>,
    ) -> Self {
        let Entry { member, operations, touches, ranges, .. } = &mut *self.entry;
        match call {
            Ok(call) => {
                for buffer in uses {
                    let (region, written, touch) = match buffer {
                        BufferUse::Read(region) => {
                            let touch: Touch<'env> = region.read("the source of an operation");
                            (region, false, touch)
                        }
                        BufferUse::Write(region) => {
                            let touch = region.write("the destination of an operation");
                            (region, true, touch)
                        }
                    };
                    let start = region.pointer().addr();
                    let end = start.saturating_add(region.bytes());
                    ranges.push(Used { start, end, written, at: operations.len() });
                    touches.push(touch);
                }
                operations.push(GroupOperation { name, sequence, call, message });
            }
            Err(error) => {
                let error = member.explain(name, sequence, error);
                self.mistake.get_or_insert(error);
            }
        }
        self
    }
}
