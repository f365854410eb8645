//! Collectives in which the parts of the ranks differ in length.
//!
//! A [`Partition`] or a [`CountMatrix`] gives the lengths. A program makes it once and uses it for
//! many calls. Each call checks it against the buffers.

use super::check::{check_apart, check_count};
use super::op::{CollectiveKind, CollectiveOp, op_name};
use super::partition::{DESTINATION, SOURCE};
use super::{CheckedReduction, CountMatrix, CountsError, Partition};
use crate::comm::{Communicator, Member};
use crate::device::{Stream, StreamState};
use crate::dtype::{DType, Element, Reduce, ReduceOp};
use crate::error::Result;
use crate::memory::allocation::Region;
use crate::memory::traits::sealed;
use crate::memory::{Destination, Source};

impl Communicator {
    /// Gives every rank the elements of all ranks. Each rank may give a different number of
    /// elements, and they may be placed anywhere in `recv`.
    ///
    /// ```text
    ///         send          recv, with Partition::packed([2, 1, 0, 3])
    /// rank 0  a0 a1         a0 a1 b0 d0 d1 d2
    /// rank 1  b0       ->   a0 a1 b0 d0 d1 d2
    /// rank 2                a0 a1 b0 d0 d1 d2
    /// rank 3  d0 d1 d2      a0 a1 b0 d0 d1 d2
    /// ```
    ///
    /// The counts of `parts` are the same on all ranks. `send` is as long as this rank's part, and
    /// `recv` is long enough for the last part. Elements between parts are not changed, but a
    /// destination that is passed by value must have no gaps. There is no in-place variant, because
    /// HCCL forbids it.
    ///
    /// CANN: `HcclAllGatherV`. The A3 supports it within one server, and the A2 on servers with
    /// equal numbers of devices.
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
    ///     let parts = Partition::packed([0, 1, 2])?;
    ///     let own = vec![comm.rank(); parts.count(comm.rank())];
    ///     let x = rank.device().upload(&own, &stream)?;
    ///     let all = rank.device().alloc(parts.extent())?;
    ///     let (all, _) = comm.all_gather_v(&x, all, &parts, &stream)?;
    ///     all.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(all, [[1, 2, 2]; 3]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_gather_v<T: Element, D: Destination<T, S>, S: StreamState>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        parts: &Partition,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error> {
        let (from, to) = (send.region(), recv.region());
        let fresh = <D as sealed::Destination<S>>::FRESH;
        let operation = self.member.all_gather_v(T::DTYPE, &from, &to, fresh, parts);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }

    /// Combines the elements of all ranks, position by position; each rank gets its part of the
    /// result. The parts may differ in length.
    ///
    /// ```text
    ///         send          recv, with Partition::packed([2, 1, 0, 0])
    /// rank 0  a0 a1 a2      a0+b0+c0+d0 a1+b1+c1+d1
    /// rank 1  b0 b1 b2  ->  a2+b2+c2+d2
    /// rank 2  c0 c1 c2
    /// rank 3  d0 d1 d2
    /// ```
    ///
    /// The counts of `parts` are the same on all ranks. `parts` gives the position of each part in
    /// `send`, and the parts may overlap. `recv` is as long as this rank's part. There is no
    /// in-place variant, because HCCL forbids it.
    ///
    /// CANN: `HcclReduceScatterV`. It supports fewer types and reductions than `HcclReduceScatter`:
    /// no `u64` or `f64` on any product, no `i64` on the A2, and products (`Prod`) only on the
    /// Ascend 950. The A3 supports it within one server, and the A2 on servers with equal numbers
    /// of devices.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let sums = runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let parts = Partition::even(3, 2);
    ///     let x = rank.device().upload(&[1.0_f32, 2.0, 3.0], &stream)?;
    ///     let sum = rank.device().alloc(parts.count(comm.rank()))?;
    ///     let (sum, _) = comm.reduce_scatter_v(&x, sum, Sum, &parts, &stream)?;
    ///     sum.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(sums, [vec![2.0, 4.0], vec![6.0]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn reduce_scatter_v<T, Op, D, S>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        op: Op,
        parts: &Partition,
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
        let operation = self.member.reduce_scatter_v(what, &from, &to, parts);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }

    /// Exchanges parts: every rank sends one part to each rank, and receives one part from each
    /// rank. The parts may have any length and any position.
    ///
    /// ```text
    ///         send                  recv
    /// rank 0  for 0: a0             a0 b0
    /// rank 1  for 0: b0  1: b1 ->   b1 d0 d1
    /// rank 2  nothing               nothing
    /// rank 3  for 1: d0 d1          nothing
    /// ```
    ///
    /// Part `r` of `send_parts` goes to rank `r`, and part `r` of `recv_parts` comes from rank `r`.
    /// The sender and the receiver of a part must give the same count for it. Parts of `send` may
    /// overlap, but parts of `recv` may not. Elements between parts of `recv` are not changed, but
    /// a destination that is passed by value must have no gaps.
    ///
    /// When every rank knows all counts, [`all_to_all_vc`](Self::all_to_all_vc) is simpler. CANN:
    /// `HcclAlltoAllV`.
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
    ///     // Rank 0 keeps one element and sends two; rank 1 sends three.
    ///     let (x, send, recv) = match comm.rank() {
    ///         0 => (vec![1, 2, 3], Partition::packed([1, 2])?, Partition::packed([1, 3])?),
    ///         _ => (vec![4, 5, 6], Partition::packed([3, 0])?, Partition::packed([2, 0])?),
    ///     };
    ///     let x = rank.device().upload(&x, &stream)?;
    ///     let y = rank.device().alloc(recv.extent())?;
    ///     let (y, _) = comm.all_to_all_v(&x, y, &send, &recv, &stream)?;
    ///     y.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(got, [vec![1, 4, 5, 6], vec![2, 3]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_to_all_v<T: Element, D: Destination<T, S>, S: StreamState>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        send_parts: &Partition,
        recv_parts: &Partition,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error> {
        let (from, to) = (send.region(), recv.region());
        let fresh = <D as sealed::Destination<S>>::FRESH;
        let (sent, received) = ((&from, send_parts), (&to, recv_parts));
        let operation = self.member.all_to_all_v(T::DTYPE, sent, received, fresh);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }

    /// Exchanges parts as [`all_to_all_v`](Self::all_to_all_v) does, if the parts have no gaps
    /// between them and every rank has the counts of all ranks.
    ///
    /// ```text
    ///         send          recv, with rows [1,2] and [3,0]
    /// rank 0  a0 a1 a2      a0 b0 b1 b2
    /// rank 1  b0 b1 b2  ->  a1 a2
    /// ```
    ///
    /// `counts` is the same on all ranks. The length of `send` is the sum of this rank's row, and
    /// the length of `recv` is the sum of its column.
    ///
    /// CANN: `HcclAlltoAllVC`. Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// let got = runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let counts = CountMatrix::new(2, vec![1, 2, 3, 0])?;
    ///     let x = if comm.rank() == 0 { [1, 2, 3] } else { [4, 5, 6] };
    ///     let x = rank.device().upload(&x, &stream)?;
    ///     let y = rank.device().alloc(counts.received_by(comm.rank()))?;
    ///     let (y, _) = comm.all_to_all_vc(&x, y, &counts, &stream)?;
    ///     y.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(got, [vec![1, 4, 5, 6], vec![2, 3]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn all_to_all_vc<T: Element, D: Destination<T, S>, S: StreamState>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        counts: &CountMatrix,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error> {
        let (from, to) = (send.region(), recv.region());
        let operation = self.member.all_to_all_vc(T::DTYPE, &from, &to, counts);
        let outcome = self.member.issue(operation, stream);
        recv.finish(outcome)
    }
}

/// Functions that check the arguments of an operation and make its [`CollectiveOp`].
impl Member {
    #[inline]
    pub(crate) fn all_gather_v<'a>(
        &self,
        dtype: DType,
        from: &Region<'a>,
        to: &Region<'a>,
        fresh: bool,
        parts: &'a Partition,
    ) -> CollectiveOp<'a> {
        let (count, length) = (dtype.elements(from.bytes()), dtype.elements(to.bytes()));
        CollectiveOp::new(op_name!("all_gather_v"), CollectiveKind::AllGatherV(parts), dtype, count)
            .reads(from)
            .writes(to)
            .not_in_place()
            .check(|name| {
                parts.fits(DESTINATION, self.world_size, length)?;
                parts.fills(length, fresh)?;
                self.check_own(SOURCE, "the part", count, parts.count(self.label.rank))?;
                check_apart(name, from, to)
            })
    }

    #[inline]
    pub(crate) fn reduce_scatter_v<'a>(
        &self,
        what: CheckedReduction,
        from: &Region<'a>,
        to: &Region<'a>,
        parts: &'a Partition,
    ) -> CollectiveOp<'a> {
        let count = what.dtype.elements(to.bytes());
        let kind = CollectiveKind::ReduceScatterV(what.code(), parts);
        CollectiveOp::new(op_name!("reduce_scatter_v"), kind, what.dtype, count)
            .reads(from)
            .writes(to)
            .not_in_place()
            .check(|name| {
                parts.fits(SOURCE, self.world_size, what.dtype.elements(from.bytes()))?;
                self.check_own(DESTINATION, "the part", count, parts.count(self.label.rank))?;
                check_apart(name, from, to)?;
                check_count(count)?;
                what.check_variable(self.product)
            })
    }

    #[inline]
    pub(crate) fn all_to_all_v<'a>(
        &self,
        dtype: DType,
        (from, sent): (&Region<'a>, &'a Partition),
        (to, received): (&Region<'a>, &'a Partition),
        fresh: bool,
    ) -> CollectiveOp<'a> {
        let kind = CollectiveKind::AllToAllV(sent, received);
        CollectiveOp::new(op_name!("all_to_all_v"), kind, dtype, sent.total())
            .reads(from)
            .writes(to)
            .not_in_place()
            .check(|name| {
                let length = dtype.elements(to.bytes());
                sent.fits(SOURCE, self.world_size, dtype.elements(from.bytes()))?;
                received.fits(DESTINATION, self.world_size, length)?;
                received.fills(length, fresh)?;
                let rank = self.label.rank;
                let (sent, received) = (sent.count(rank), received.count(rank));
                if sent != received {
                    return Err(CountsError::Own { rank, sent, received }.into());
                }
                check_apart(name, from, to)
            })
    }

    #[inline]
    pub(crate) fn all_to_all_vc<'a>(
        &self,
        dtype: DType,
        from: &Region<'a>,
        to: &Region<'a>,
        counts: &'a CountMatrix,
    ) -> CollectiveOp<'a> {
        let (count, received) = (dtype.elements(from.bytes()), dtype.elements(to.bytes()));
        let kind = CollectiveKind::AllToAllVC(counts.table());
        CollectiveOp::new(op_name!("all_to_all_vc"), kind, dtype, count)
            .reads(from)
            .writes(to)
            .not_in_place()
            .check(|name| {
                let (rank, world_size) = (self.label.rank, self.world_size);
                if counts.ranks() != world_size {
                    let found = counts.ranks() as usize;
                    return Err(CountsError::Ranks { what: "the matrix", found, world_size }.into());
                }
                self.check_own(SOURCE, "the row", count, counts.sent_by(rank))?;
                self.check_own(DESTINATION, "the column", received, counts.received_by(rank))?;
                check_apart(name, from, to)
            })
    }

    /// Checks that a buffer that holds only this rank's part is as long as the part.
    fn check_own(
        &self,
        what: &'static str,
        of: &'static str,
        found: usize,
        expected: usize,
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let rank = self.label.rank;
        Err(CountsError::OwnLength { what, of, rank, expected, found }.into())
    }
}
