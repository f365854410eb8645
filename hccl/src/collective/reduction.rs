//! Reductions, which combine the elements of all ranks position by position.

use super::CheckedReduction;
use super::check::{check_apart, check_count, check_length};
use super::op::{CollectiveKind, CollectiveOp, op_name};
use super::partition::{BUFFER, DESTINATION, SOURCE};
use crate::comm::scratch::ScratchBlock;
use crate::comm::{Communicator, Member};
use crate::device::{Stream, StreamState};
use crate::dtype::{Reduce, ReduceOp};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::{Destination, Source};
#[cfg(doc)]
use crate::order::work::Work;

impl Communicator {
    /// Combines the elements of all ranks, position by position; every rank gets the result.
    ///
    /// `recv[i] = op(send[i] of rank 0, send[i] of rank 1, ...)`. `send` and `recv` have the same
    /// length, which is the same on all ranks. `recv` is a `&mut DeviceBuffer`, a
    /// [`DeviceSliceMut`](crate::DeviceSliceMut), or a
    /// [`DeviceBuffer<T, Uninit>`](crate::DeviceBuffer) by value. A buffer that is passed by value
    /// is returned: on success initialised and together with the [`Work`], otherwise in the error.
    ///
    /// ```text
    ///         send          recv
    /// rank 0  a0 a1         a0+b0+c0+d0 a1+b1+c1+d1
    /// rank 1  b0 b1    ->   a0+b0+c0+d0 a1+b1+c1+d1
    /// rank 2  c0 c1         a0+b0+c0+d0 a1+b1+c1+d1
    /// rank 3  d0 d1         a0+b0+c0+d0 a1+b1+c1+d1
    /// ```
    ///
    /// The emulator combines the elements in the order of the ranks, and integers wrap around.
    /// CANN: `HcclAllReduce`.
    ///
    /// Does not block (see [`comm`](crate::comm)). For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let maxima = runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let x = rank.device().upload(&[rank.index() as f32, 5.0], &stream)?;
    ///     let (max, work) = comm.all_reduce(&x, rank.device().alloc(2)?, Max, &stream)?;
    ///     work.wait()?;
    ///     max.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(maxima, [[1.0, 5.0], [1.0, 5.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_reduce<T, Op, D, S>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        op: Op,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
        S: StreamState,
        D: Destination<T, S>,
    {
        let _ = op;
        let (from, to) = (send.region(), recv.region());
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.member.all_reduce(what, &from, &to);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }

    /// Does the same as [`all_reduce`](Self::all_reduce), and replaces the input with the result.
    ///
    /// CANN: `HcclAllReduce` with equal pointers. Does not block. For errors see the
    /// [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(3)?;
    /// let counts = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let mut x = rank.device().upload(&[1i64; 4], &stream)?;
    ///     comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(counts[2], [3, 3, 3, 3]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_reduce_in_place<T, Op, S>(
        &mut self,
        buffer: impl Destination<T, S, Output = S::Work, Error = Error>,
        op: Op,
        stream: &Stream<S>,
    ) -> Result<S::Work>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
        S: StreamState,
    {
        let _ = op;
        let region = buffer.region();
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.member.all_reduce_in_place(what, &region);
        self.member.issue(operation, stream)
    }

    /// Combines the elements of all ranks, position by position; the root gets the result.
    ///
    /// ```text
    ///         send          recv, with root 2
    /// rank 0  a0 a1         None
    /// rank 1  b0 b1    ->   None
    /// rank 2  c0 c1         Some: a0+b0+c0+d0 a1+b1+c1+d1
    /// rank 3  d0 d1         None
    /// ```
    ///
    /// `send` has the same length on all ranks. `recv` is `Some` on the root, with that length, and
    /// `None` on the other ranks. Anything else is an error, and then CANN is not called. A
    /// destination that is passed by value is returned as `Some` on the root. If the compiler
    /// cannot infer the type of a literal `None`, write `None::<&mut DeviceBuffer<f32>>`.
    ///
    /// CANN: `HcclReduce`, which requires a receive buffer on every rank. On ranks other than the
    /// root, the communicator provides a block of device memory. It keeps this block, which is as
    /// long as the longest `send` so far.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(4)?;
    /// let sums = runtime.run_ranks(4, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let x = rank.device().upload(&[comm.rank() as i32, 1], &stream)?;
    ///     let mut sum = rank.device().zeros(2, &stream)?;
    ///     let recv = (comm.rank() == 2).then_some(&mut sum);
    ///     comm.reduce(&x, recv, Sum, 2, &stream)?.wait()?;
    ///     sum.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(sums, [[0, 0], [0, 0], [6, 4], [0, 0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn reduce<T, Op, D, S>(
        &mut self,
        send: impl Source<T>,
        recv: Option<D>,
        op: Op,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Optional, <D as Destination<T, S>>::Error>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
        S: StreamState,
        D: Destination<T, S>,
    {
        let _ = op;
        let (from, to) = (send.region(), recv.as_ref().map(|recv| recv.region()));
        let what = CheckedReduction::of::<T, Op>();
        let mut scratch = std::mem::take(&mut self.member.scratch);
        let operation = self.member.reduce(what, &from, to.as_ref(), root, &mut scratch);
        let outcome = self.member.issue(operation, stream);
        self.member.scratch = scratch;
        D::finish_optional(recv, outcome)
    }

    /// Does the same as [`reduce`](Self::reduce), and replaces the root's input with the result.
    /// The buffers of the other ranks are only read.
    ///
    /// CANN: `HcclReduce`, on the root with equal pointers. Does not block. For errors see the
    /// [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(3)?;
    /// let maxima = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let mut x = rank.device().upload(&[comm.rank() as i32], &stream)?;
    ///     comm.reduce_in_place(&mut x, Max, 0, &stream)?.wait()?;
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(maxima, [[2], [1], [2]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn reduce_in_place<T, Op, S>(
        &mut self,
        buffer: impl Destination<T, S, Output = S::Work, Error = Error>,
        op: Op,
        root: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
        S: StreamState,
    {
        let _ = op;
        let region = buffer.region();
        let what = CheckedReduction::of::<T, Op>();
        let mut scratch = std::mem::take(&mut self.member.scratch);
        let operation = self.member.reduce_in_place(what, &region, root, &mut scratch);
        let outcome = self.member.issue(operation, stream);
        self.member.scratch = scratch;
        outcome
    }

    /// Combines the elements of all ranks, position by position; each rank gets its part of the
    /// result.
    ///
    /// ```text
    ///         send          recv
    /// rank 0  a0 a1 a2 a3   a0+b0+c0+d0
    /// rank 1  b0 b1 b2 b3   a1+b1+c1+d1
    /// rank 2  c0 c1 c2 c3   a2+b2+c2+d2
    /// rank 3  d0 d1 d2 d3   a3+b3+c3+d3
    /// ```
    ///
    /// `recv` has the same length on all ranks. `send` has that length times the number of ranks:
    /// part `r` of `send` is for rank `r`. For parts that differ in length see
    /// [`reduce_scatter_v`](Self::reduce_scatter_v). CANN: `HcclReduceScatter`.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let parts = runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let x = rank.device().upload(&[1, 2, 30, 40], &stream)?;
    ///     let (part, _) = comm.reduce_scatter(&x, rank.device().alloc(2)?, Sum, &stream)?;
    ///     part.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(parts, [[2, 4], [60, 80]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn reduce_scatter<T, Op, D, S>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        op: Op,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
        S: StreamState,
        D: Destination<T, S>,
    {
        let _ = op;
        let (from, to) = (send.region(), recv.region());
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.member.reduce_scatter(what, &from, &to);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }

    /// Does the same as [`reduce_scatter`](Self::reduce_scatter), and replaces this rank's own part
    /// of the input with the result. Afterwards, the contents of the other parts are unspecified.
    ///
    /// The length of `buffer` is a multiple of the number of ranks. CANN: `HcclReduceScatter` with
    /// a receive pointer into the send buffer.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let parts = runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let mut x = rank.device().upload(&[1, 2, 30, 40], &stream)?;
    ///     drop(comm.reduce_scatter_in_place(&mut x, Sum, &stream)?);
    ///     let part = Partition::even(4, 2).of(comm.rank());
    ///     x.slice(part)?.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(parts, [[2, 4], [60, 80]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn reduce_scatter_in_place<T, Op, S>(
        &mut self,
        buffer: impl Destination<T, S, Output = S::Work, Error = Error>,
        op: Op,
        stream: &Stream<S>,
    ) -> Result<S::Work>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
        S: StreamState,
    {
        let _ = op;
        let region = buffer.region();
        let what = CheckedReduction::of::<T, Op>();
        let operation = self.member.reduce_scatter_in_place(what, &region);
        self.member.issue(operation, stream)
    }
}

/// Functions that check the arguments of an operation and make its [`CollectiveOp`].
impl Member {
    #[inline]
    pub(crate) fn all_reduce<'a>(
        &self,
        what: CheckedReduction,
        from: &Region<'a>,
        to: &Region<'a>,
    ) -> CollectiveOp<'a> {
        let count = what.dtype.elements(from.bytes());
        let kind = CollectiveKind::AllReduce(what.code());
        CollectiveOp::new(op_name!("all_reduce"), kind, what.dtype, count)
            .reads(from)
            .writes(to)
            .check(|name| {
                check_length(name, DESTINATION, from.bytes(), to.bytes(), what.dtype)?;
                check_apart(name, from, to)?;
                check_count(count)?;
                what.check(self.product)
            })
    }

    #[inline]
    pub(crate) fn all_reduce_in_place<'a>(
        &self,
        what: CheckedReduction,
        buffer: &Region<'a>,
    ) -> CollectiveOp<'a> {
        let count = what.dtype.elements(buffer.bytes());
        let kind = CollectiveKind::AllReduce(what.code());
        CollectiveOp::new(op_name!("all_reduce"), kind, what.dtype, count).in_place(buffer).check(
            |_| {
                check_count(count)?;
                what.check(self.product)
            },
        )
    }

    /// Describes a reduce. CANN requires a receive buffer on every rank, so a rank without a
    /// destination receives into `scratch`.
    #[inline]
    pub(super) fn reduce<'a>(
        &self,
        what: CheckedReduction,
        from: &Region<'a>,
        to: Option<&Region<'a>>,
        root: u32,
        scratch: &'a mut ScratchBlock,
    ) -> CollectiveOp<'a> {
        let mut ready = self.check_root(DESTINATION, root, to.is_some());
        if ready.is_ok() && to.is_none() {
            ready = scratch.hold(&self.device, from.bytes());
        }
        // If neither exists, `ready` has an error and the operation is not issued.
        let into = to.cloned().or_else(|| scratch.region()).unwrap_or_else(|| from.clone());
        let count = what.dtype.elements(from.bytes());
        let kind = CollectiveKind::Reduce(what.code(), root);
        CollectiveOp::new(op_name!("reduce"), kind, what.dtype, count)
            .reads(from)
            .writes(&into)
            .check(|name| {
                ready?;
                if let Some(to) = to {
                    check_length(name, DESTINATION, from.bytes(), to.bytes(), what.dtype)?;
                    check_apart(name, from, to)?;
                }
                check_count(count)?;
                what.check(self.product)
            })
    }

    #[inline]
    pub(super) fn reduce_in_place<'a>(
        &self,
        what: CheckedReduction,
        buffer: &Region<'a>,
        root: u32,
        scratch: &'a mut ScratchBlock,
    ) -> CollectiveOp<'a> {
        let is_root = root == self.label.rank;
        let mut ready = self.check_rank("the root", root);
        if ready.is_ok() && !is_root {
            ready = scratch.hold(&self.device, buffer.bytes());
        }
        let count = what.dtype.elements(buffer.bytes());
        let kind = CollectiveKind::Reduce(what.code(), root);
        let operation = CollectiveOp::new(op_name!("reduce"), kind, what.dtype, count)
            .in_place(buffer)
            .only_reads(!is_root);
        let operation = match scratch.region() {
            Some(into) if !is_root => operation.writes(&into),
            _ => operation,
        };
        operation.check(|_| {
            ready?;
            check_count(count)?;
            what.check(self.product)
        })
    }

    #[inline]
    pub(crate) fn reduce_scatter<'a>(
        &self,
        what: CheckedReduction,
        from: &Region<'a>,
        to: &Region<'a>,
    ) -> CollectiveOp<'a> {
        let count = what.dtype.elements(to.bytes());
        let kind = CollectiveKind::ReduceScatter(what.code());
        CollectiveOp::new(op_name!("reduce_scatter"), kind, what.dtype, count)
            .reads(from)
            .writes(to)
            .check(|name| {
                self.check_whole(SOURCE, from, to, name, what.dtype)?;
                check_apart(name, from, to)?;
                check_count(count)?;
                what.check(self.product)
            })
    }

    #[inline]
    pub(crate) fn reduce_scatter_in_place<'a>(
        &self,
        what: CheckedReduction,
        buffer: &Region<'a>,
    ) -> CollectiveOp<'a> {
        let count = self.share(buffer, what.dtype);
        let kind = CollectiveKind::ReduceScatter(what.code());
        CollectiveOp::new(op_name!("reduce_scatter"), kind, what.dtype, count)
            .in_place(buffer)
            .receives(&self.own_part(buffer, what.dtype))
            .check(|_| {
                self.check_even(BUFFER, buffer, what.dtype)?;
                check_count(count)?;
                what.check(self.product)
            })
    }
}
