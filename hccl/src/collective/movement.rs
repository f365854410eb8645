//! Data movement: collectives that copy elements between ranks unchanged, in parts of equal length.

use super::check::{check_apart, check_count, check_length};
use super::op::{CollectiveKind, CollectiveOp, op_name};
use super::partition::{BUFFER, DESTINATION, SOURCE};
use crate::comm::{Communicator, Member};
use crate::device::{Stream, StreamState};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::{Destination, Source};
#[cfg(doc)]
use crate::order::work::Work;

impl Communicator {
    /// Copies the root's elements to all ranks.
    ///
    /// `buffer` has the same length on all ranks. The root's buffer is read, and the buffers of the
    /// other ranks are overwritten. CANN: `HcclBroadcast`.
    ///
    /// ```text
    ///         before        after, with root 2
    /// rank 0  .. ..         c0 c1
    /// rank 1  .. ..    ->   c0 c1
    /// rank 2  c0 c1         c0 c1
    /// rank 3  .. ..         c0 c1
    /// ```
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(3)?;
    /// let copies = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let mut x = rank.device().upload(&[comm.rank() * 10], &stream)?;
    ///     comm.broadcast(&mut x, 2, &stream)?.wait()?;
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(copies, [[20], [20], [20]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn broadcast<T: Element, S: StreamState>(
        &mut self,
        buffer: impl Destination<T, S, Output = S::Work, Error = Error>,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let operation = self.member.broadcast(T::DTYPE, &buffer.region(), root);
        self.member.issue(operation, stream)
    }

    /// Gives every rank the elements of all ranks, one rank after another.
    ///
    /// ```text
    ///         send          recv
    /// rank 0  a0 a1         a0 a1 b0 b1 c0 c1 d0 d1
    /// rank 1  b0 b1    ->   a0 a1 b0 b1 c0 c1 d0 d1
    /// rank 2  c0 c1         a0 a1 b0 b1 c0 c1 d0 d1
    /// rank 3  d0 d1         a0 a1 b0 b1 c0 c1 d0 d1
    /// ```
    ///
    /// `send` has the same length on all ranks, and `recv` has that length times the number of
    /// ranks. For parts that differ in length see [`all_gather_v`](Self::all_gather_v). CANN:
    /// `HcclAllGather`.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(3)?;
    /// let all = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let x = rank.device().upload(&[comm.rank(), 9], &stream)?;
    ///     let (all, _) = comm.all_gather(&x, rank.device().alloc(6)?, &stream)?;
    ///     all.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(all[1], [0, 9, 1, 9, 2, 9]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_gather<T: Element, D: Destination<T, S>, S: StreamState>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error> {
        let (from, to) = (send.region(), recv.region());
        let operation = self.member.all_gather(T::DTYPE, &from, &to);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }

    /// Does the same as [`all_gather`](Self::all_gather) in one buffer, in which each rank's
    /// elements are already in their place.
    ///
    /// ```text
    ///         before                    after
    /// rank 0  a0 a1 .. .. .. .. .. ..   a0 a1 b0 b1 c0 c1 d0 d1
    /// rank 1  .. .. b0 b1 .. .. .. ..   a0 a1 b0 b1 c0 c1 d0 d1
    /// rank 2  .. .. .. .. c0 c1 .. ..   a0 a1 b0 b1 c0 c1 d0 d1
    /// rank 3  .. .. .. .. .. .. d0 d1   a0 a1 b0 b1 c0 c1 d0 d1
    /// ```
    ///
    /// The length of `buffer` is a multiple of the number of ranks. If each rank has `n` elements,
    /// those of rank `r` are at `r * n..(r + 1) * n`. CANN: `HcclAllGather` with a send pointer
    /// into the receive buffer.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(3)?;
    /// let all = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let mut x = rank.device().zeros::<u32>(3, &stream)?;
    ///     let own = comm.rank() as usize;
    ///     x.slice_mut(own..=own)?.upload(&[10 + comm.rank()], &stream)?;
    ///     comm.all_gather_in_place(&mut x, &stream)?;
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(all, [[10, 11, 12]; 3]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_gather_in_place<T: Element, S: StreamState>(
        &mut self,
        buffer: impl Destination<T, S, Output = S::Work, Error = Error>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let operation = self.member.all_gather_in_place(T::DTYPE, &buffer.region());
        self.member.issue(operation, stream)
    }

    /// Gives each rank its part of the root's elements.
    ///
    /// ```text
    ///         send, with root 2          recv
    /// rank 0  None                       c0 c1
    /// rank 1  None                  ->   c2 c3
    /// rank 2  c0 c1 c2 c3 c4 c5 c6 c7    c4 c5
    /// rank 3  None                       c6 c7
    /// ```
    ///
    /// `recv` has the same length on all ranks. `send` is `Some` on the root, with that length
    /// times the number of ranks, and `None` on the other ranks. Anything else is an error, and
    /// then CANN is not called. If the compiler cannot infer the type of a literal `None`, write
    /// `None::<&DeviceBuffer<f32>>`. CANN: `HcclScatter`.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(3)?;
    /// let parts = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let x = rank.device().upload(&[1, 2, 3, 4, 5, 6], &stream)?;
    ///     let send = (comm.rank() == 0).then_some(&x);
    ///     let (part, _) = comm.scatter(send, rank.device().alloc(2)?, 0, &stream)?;
    ///     part.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(parts, [[1, 2], [3, 4], [5, 6]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn scatter<T: Element, D: Destination<T, S>, S: StreamState>(
        &mut self,
        send: Option<impl Source<T>>,
        recv: D,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error> {
        let from = send.as_ref().map(|send| send.region());
        let operation = self.member.scatter(T::DTYPE, from.as_ref(), &recv.region(), root);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }

    /// Exchanges parts: every rank sends one part to each rank, and receives one part from each
    /// rank.
    ///
    /// ```text
    ///         send          recv
    /// rank 0  a0 a1 a2 a3   a0 b0 c0 d0
    /// rank 1  b0 b1 b2 b3   a1 b1 c1 d1
    /// rank 2  c0 c1 c2 c3   a2 b2 c2 d2
    /// rank 3  d0 d1 d2 d3   a3 b3 c3 d3
    /// ```
    ///
    /// `send` and `recv` have the same length, which is the same on all ranks and a multiple of the
    /// number of ranks. Part `r` of `send` goes to rank `r`, and part `r` of `recv` comes from rank
    /// `r`. For parts that differ in length see [`all_to_all_v`](Self::all_to_all_v). There is no
    /// in-place variant, because HCCL rejects equal pointers. CANN: `HcclAlltoAll`.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let got = runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let me = 10 * comm.rank();
    ///     let x = rank.device().upload(&[me, me + 1], &stream)?;
    ///     let (y, _) = comm.all_to_all(&x, rank.device().alloc(2)?, &stream)?;
    ///     y.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(got, [[0, 10], [1, 11]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_to_all<T: Element, D: Destination<T, S>, S: StreamState>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error> {
        let (from, to) = (send.region(), recv.region());
        let operation = self.member.all_to_all(T::DTYPE, &from, &to);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }
}

/// Functions that check the arguments of an operation and make its [`CollectiveOp`].
impl Member {
    /// Describes a broadcast. The root only reads its buffer, so two operations that read this
    /// buffer need not wait for one another.
    #[inline]
    pub(crate) fn broadcast<'a>(
        &self,
        dtype: DType,
        buffer: &Region<'a>,
        root: u32,
    ) -> CollectiveOp<'a> {
        let count = dtype.elements(buffer.bytes());
        let kind = CollectiveKind::Broadcast(root);
        CollectiveOp::new(op_name!("broadcast"), kind, dtype, count)
            .in_place(buffer)
            .only_reads(root == self.label.rank)
            .check(|_| {
                self.check_rank("the root", root)?;
                check_count(count)
            })
    }

    #[inline]
    pub(crate) fn all_gather<'a>(
        &self,
        dtype: DType,
        from: &Region<'a>,
        to: &Region<'a>,
    ) -> CollectiveOp<'a> {
        let count = dtype.elements(from.bytes());
        CollectiveOp::new(op_name!("all_gather"), CollectiveKind::AllGather, dtype, count)
            .reads(from)
            .writes(to)
            .check(|name| {
                self.check_whole(DESTINATION, to, from, name, dtype)?;
                check_apart(name, from, to)?;
                check_count(count)
            })
    }

    #[inline]
    pub(crate) fn all_gather_in_place<'a>(
        &self,
        dtype: DType,
        buffer: &Region<'a>,
    ) -> CollectiveOp<'a> {
        let count = self.share(buffer, dtype);
        CollectiveOp::new(op_name!("all_gather"), CollectiveKind::AllGather, dtype, count)
            .in_place(buffer)
            .sends(&self.own_part(buffer, dtype))
            .check(|_| {
                self.check_even(BUFFER, buffer, dtype)?;
                check_count(count)
            })
    }

    #[inline]
    pub(crate) fn scatter<'a>(
        &self,
        dtype: DType,
        from: Option<&Region<'a>>,
        to: &Region<'a>,
        root: u32,
    ) -> CollectiveOp<'a> {
        let count = dtype.elements(to.bytes());
        let kind = CollectiveKind::Scatter(root);
        let operation = CollectiveOp::new(op_name!("scatter"), kind, dtype, count).writes(to);
        let operation = match from {
            Some(from) => operation.reads(from),
            None => operation,
        };
        operation.check(|name| {
            self.check_root(SOURCE, root, from.is_some())?;
            if let Some(from) = from {
                self.check_whole(SOURCE, from, to, name, dtype)?;
                check_apart(name, from, to)?;
            }
            check_count(count)
        })
    }

    #[inline]
    pub(crate) fn all_to_all<'a>(
        &self,
        dtype: DType,
        from: &Region<'a>,
        to: &Region<'a>,
    ) -> CollectiveOp<'a> {
        let (count, share) = (dtype.elements(from.bytes()), self.share(from, dtype));
        let kind = CollectiveKind::AllToAll(share as u64);
        CollectiveOp::new(op_name!("all_to_all"), kind, dtype, count).reads(from).writes(to).check(
            |name| {
                check_length(name, DESTINATION, from.bytes(), to.bytes(), dtype)?;
                check_apart(name, from, to)?;
                self.check_even(SOURCE, from, dtype)?;
                check_count(share)
            },
        )
    }
}
