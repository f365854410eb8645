//! Reductions: what the ranks hold is combined, position by position.

use ascend_sys::{HcclDataType, HcclReduceOp};

use super::check::{Reduction, check_pair};
use crate::api::call;
use crate::comm::{Communicator, Member};
use crate::device::Stream;
use crate::device::issue::{Issued, Touch};
use crate::dtype::{Reduce, ReduceOp};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::{Destination, Source};
use crate::trace::span;
use crate::work::Work;

const ALL_REDUCE: &str = "all_reduce";

impl Communicator {
    /// Combines the elements of all ranks, position by position; every rank gets the result.
    ///
    /// `recv[i] = op(send[i] of rank 0, send[i] of rank 1, ...)`. Both have the same length, on all ranks. `recv` is a `&mut DeviceBuffer`, a
    /// [`DeviceSliceMut`](crate::DeviceSliceMut), or a [`DeviceBuffer<T, Uninit>`](crate::DeviceBuffer) by value, which comes back
    /// initialised beside the [`Work`], or in the error.
    ///
    /// The emulator combines in the order of the ranks; integers wrap around. CANN: `HcclAllReduce`.
    ///
    /// Does not block, except for links (see [`comm`](crate::comm)). For errors see the [module](crate::collective).
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
    pub fn all_reduce<T, Op, D>(
        &mut self,
        send: impl Source<T>,
        recv: D,
        op: Op,
        stream: &Stream,
    ) -> Result<<D as Destination<T>>::Output, <D as Destination<T>>::Error>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
        D: Destination<T>,
    {
        let _ = op;
        let (from, to) = (send.region(), recv.region());
        let what = Reduction::of::<T, Op>(&from);
        let outcome = match check_pair(ALL_REDUCE, &from, &to, size_of::<T>()) {
            Ok(()) => {
                let touches =
                    [self.member.touch(), from.read("the source"), to.write("the destination")];
                self.member.all_reduce(what, &from, &to, &touches, stream)
            }
            Err(error) => Err(self.member.refuse(ALL_REDUCE, error)),
        };
        recv.finish(self.member.counted(outcome, ALL_REDUCE, stream))
    }

    /// As [`all_reduce`](Self::all_reduce), with the result in place of the input.
    ///
    /// CANN: `HcclAllReduce` with equal pointers. Does not block, except for links. For errors see the [module](crate::collective).
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
    pub fn all_reduce_in_place<T, Op>(
        &mut self,
        buffer: impl Destination<T, Output = Work, Error = Error>,
        op: Op,
        stream: &Stream,
    ) -> Result<Work>
    where
        T: Reduce<Op>,
        Op: ReduceOp,
    {
        let _ = op;
        let region = buffer.region();
        let what = Reduction::of::<T, Op>(&region);
        let touches = [self.member.touch(), region.write("the buffer")];
        let outcome = self.member.all_reduce(what, &region, &region, &touches, stream);
        self.member.counted(outcome, ALL_REDUCE, stream)
    }
}

/// The calls.
impl Member {
    fn all_reduce(
        &self,
        what: Reduction,
        send: &Region<'_>,
        recv: &Region<'_>,
        touches: &[Touch<'_>],
        stream: &Stream,
    ) -> Result<Issued> {
        let Reduction { dtype, kind, count } = what;
        let sequence = self.collectives + 1;
        let _span =
            span!("hccl.all_reduce", ALL_REDUCE, self, sequence, count, count * dtype.size());
        if let Err(error) = what.check(self.product) {
            return Err(self.refuse(ALL_REDUCE, error));
        }
        let (send, recv) = (send.pointer(), recv.pointer());
        let (count, dtype) = (count as u64, HcclDataType(dtype.code()));
        let op = HcclReduceOp(kind.code());
        self.issue(ALL_REDUCE, sequence, stream, touches, |table, comm, stream| {
            // SAFETY: live handles; both buffers hold `count` elements, are named in `touches`, and so stay allocated
            // and untouched until the operation is complete.
            unsafe { call!(table, HcclAllReduce, send, recv, count, dtype, op, comm, stream) }
        })
    }
}
