//! The collectives: operations in which every rank of a communicator takes part.
//!
//! They return at once. What they return, a [`Work`], is a future that watches: dropping it neither cancels nor blocks, and
//! awaiting it is needed only to learn when the operation is complete on this rank, and how it ended. Everything that uses the same
//! buffers later, on whatever stream, is ordered behind it without waiting on the host.
//!
//! All ranks must issue the same collectives, in the same order, with the same number of elements, the same type, reduction and root;
//! what a rank does differently is an error that names both sides where the backend compares (the emulator always
//! does; CANN when links are built), and otherwise a wait until a deadline. A length of zero is an operation like any
//! other and moves nothing.
//!
//! # Errors
//!
//! A collective is checked before CANN is called, and a refused one takes no number and leaves the buffers alone; all of these come as
//! [`Error::Refused`] with the operation, the communicator, the rank and the number the operation would have had:
//!
//! * [`Error::WrongDevice`] and [`Error::WrongRuntime`] when a buffer or the communicator is not where the stream is;
//! * [`Error::WrongLength`] when two lengths differ that must be equal;
//! * [`Error::Overlap`] when source and destination share memory, which only foreign memory can;
//! * [`Error::NoSuchRank`] when the root is not a rank of the communicator;
//! * [`Error::NotSupported`] when the product does not reduce the type (see [`dtype`](crate::dtype));
//! * [`Error::TooManyElements`] beyond 34,359,738,367 elements;
//! * [`Error::Aborted`] after [`AbortHandle::abort`](crate::comm::AbortHandle::abort).
//!
//! [`Error::Call`] is what CANN itself says, among others that a peer did not come while links were being built, and [`Error::Failed`]
//! is about an earlier operation of the stream whose [`Work`] was dropped. What goes wrong later is for the [`Work`] to tell.

use ascend_sys::{HcclComm, HcclDataType, HcclReduceOp, aclrtStream};

use crate::api::{Table, call};
use crate::comm::{Communicator, Member};
use crate::device::Stream;
use crate::device::issue::{Issued, Operation, Place, Touch, issue_number};
use crate::dtype::{DType, Element, Reduce, ReduceKind, ReduceOp};
use crate::error::{Error, OpContext, Result};
use crate::memory::allocation::Region;
use crate::memory::stamps::Access;
use crate::memory::{Destination, Source};
use crate::runtime::Product;
use crate::trace::span;
use crate::work::Work;

/// The largest number of elements that HCCL takes.
pub const MOST_ELEMENTS: usize = 0x7_ffff_ffff;

impl Communicator {
    /// Combines the elements of all ranks, position by position; every rank gets the result.
    ///
    /// `recv[i] = op(send[i] of rank 0, send[i] of rank 1, ...)`. Both have the same length, on all ranks. `recv` is a `&mut DeviceBuffer`, a
    /// [`DeviceSliceMut`](crate::DeviceSliceMut), or a [`DeviceBuffer<T, Uninit>`](crate::DeviceBuffer) by value, which comes back
    /// initialised beside the [`Work`], or in the error.
    ///
    /// The emulator combines in the order of the ranks; integers wrap around. CANN: `HcclAllReduce`.
    ///
    /// Does not block, except for links (see [`comm`](crate::comm)). For errors see the [module](self).
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
        let outcome = match check_pair(&from, &to, size_of::<T>()) {
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
    /// CANN: `HcclAllReduce` with equal pointers. Does not block, except for links. For errors see the [module](self).
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

    /// Copies the root's elements to all ranks.
    ///
    /// `buffer` has the same length on all ranks; the root's is read, the others' are overwritten. CANN: `HcclBroadcast`.
    ///
    /// Does not block, except for links. For errors see the [module](self).
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
    pub fn broadcast<T: Element>(
        &mut self,
        buffer: impl Destination<T, Output = Work, Error = Error>,
        root: u32,
        stream: &Stream,
    ) -> Result<Work> {
        let region = buffer.region();
        // The root only reads its buffer; two operations that read it need not wait for one another.
        let touch = if root == self.member.label.rank {
            region.read("the buffer")
        } else {
            region.write("the buffer")
        };
        let touches = [self.member.touch(), touch];
        let outcome = self.member.broadcast(T::DTYPE, root, &region, &touches, stream);
        self.member.counted(outcome, BROADCAST, stream)
    }

    /// Waits, on the device, until all ranks have come to this point of their streams.
    ///
    /// The [`Work`] is complete, and what follows on the stream begins, when every rank's stream has reached its barrier. The host does not
    /// block, except for links. CANN: `HcclBarrier`. For errors see the [module](self).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// runtime.run_ranks(2, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     rank.communicator()?.barrier(&stream)?.wait()
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn barrier(&mut self, stream: &Stream) -> Result<Work> {
        let member = &self.member;
        let sequence = member.collectives + 1;
        let _span = span!("hccl.barrier", BARRIER, member, sequence, 0, 0);
        let touches = [member.touch()];
        let outcome = member.issue(BARRIER, sequence, stream, &touches, |table, comm, stream| {
            // SAFETY: live handles; the operation touches nothing but what the communicator owns.
            unsafe { call!(table, HcclBarrier, comm, stream) }
        });
        self.member.counted(outcome, BARRIER, stream)
    }
}

const ALL_REDUCE: &str = "all_reduce";
const BROADCAST: &str = "broadcast";
const BARRIER: &str = "barrier";

/// What is reduced, and how.
#[derive(Clone, Copy)]
struct Reduction {
    dtype: DType,
    kind: ReduceKind,
    count: usize,
}

/// The calls, and what every operation of a communicator has in common.
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

    fn broadcast(
        &self,
        dtype: DType,
        root: u32,
        buffer: &Region<'_>,
        touches: &[Touch<'_>],
        stream: &Stream,
    ) -> Result<Issued> {
        let sequence = self.collectives + 1;
        let count = buffer.bytes() / dtype.size();
        let _span = span!("hccl.broadcast", BROADCAST, self, sequence, count, count * dtype.size());
        if root >= self.world_size {
            let world_size = self.world_size;
            let error = Error::NoSuchRank { what: "the root", rank: root, world_size };
            return Err(self.refuse(BROADCAST, error));
        }
        if let Err(error) = check_count(count) {
            return Err(self.refuse(BROADCAST, error));
        }
        let (buffer, count) = (buffer.pointer(), count as u64);
        let dtype = HcclDataType(dtype.code());
        self.issue(BROADCAST, sequence, stream, touches, |table, comm, stream| {
            // SAFETY: as for an all-reduce.
            unsafe { call!(table, HcclBroadcast, buffer, count, dtype, root, comm, stream) }
        })
    }

    /// A collective that was issued has taken its number.
    #[inline]
    fn counted(
        &mut self,
        outcome: Result<Issued>,
        name: &'static str,
        stream: &Stream,
    ) -> Result<Work> {
        let issued = outcome?;
        self.collectives += 1;
        Ok(Work::new(stream.lane().clone(), issued, name))
    }

    /// What every operation writes: the communicator itself.
    #[inline]
    pub(crate) fn touch(&self) -> Touch<'_> {
        Touch {
            stamps: &self.stamps,
            range: 0..1,
            access: Access::Write,
            place: Place::Device(&self.device),
            what: "the communicator",
        }
    }

    /// Issues an operation, in its turn on the device.
    #[inline]
    pub(crate) fn issue(
        &self,
        name: &'static str,
        sequence: u64,
        stream: &Stream,
        touches: &[Touch<'_>],
        enqueue: impl FnOnce(&Table, HcclComm, aclrtStream) -> Result<()>,
    ) -> Result<Issued> {
        let operation = Operation { name, communicator: Some((&self.label, sequence)) };
        let lane = stream.lane();
        issue_number(stream, operation, touches, |stream| {
            let device = &self.device;
            device.turn().take(lane);
            let Some(raw) = self.handle.calling() else {
                return Err(Error::Aborted { context: None });
            };
            enqueue(device.table(), raw, stream)
        })
        .map_err(|error| self.explain(name, sequence, error))
    }

    /// The error of a collective that was not issued.
    #[cold]
    fn refuse(&self, operation: &'static str, error: Error) -> Error {
        self.explain(operation, self.collectives + 1, error)
    }

    /// Says which operation an error is about, unless it says so itself.
    #[cold]
    pub(crate) fn explain(&self, operation: &'static str, sequence: u64, error: Error) -> Error {
        if error.context().is_some() {
            return error;
        }
        let context = OpContext {
            operation,
            communicator: Some(self.label.communicator.clone()),
            rank: Some(self.label.rank),
            sequence,
        };
        Error::Refused { context: Box::new(context), cause: Box::new(error) }
    }
}

impl Reduction {
    #[inline]
    fn of<T: Reduce<Op>, Op: ReduceOp>(region: &Region<'_>) -> Self {
        Reduction { dtype: T::DTYPE, kind: Op::KIND, count: region.bytes() / size_of::<T>() }
    }

    /// What the product can do.
    #[inline]
    fn check(self, product: Option<Product>) -> Result<()> {
        check_count(self.count)?;
        // All that compiles is reduced by the 950; the others leave out these two.
        let wide = matches!(self.dtype, DType::U64 | DType::F64);
        if let Some(product) = product
            && wide
            && product != Product::Ascend950
        {
            return Err(Error::NotSupported {
                dtype: self.dtype,
                kind: self.kind,
                product,
                instead: if self.dtype == DType::U64 { DType::I64 } else { DType::F32 },
            });
        }
        Ok(())
    }
}

/// A source and a destination of an all-reduce: equal lengths, and no byte in common.
///
/// Borrowing rules the second out for buffers that hccl owns; foreign memory (`from_raw`) can overlap all the same. HCCL takes equal
/// pointers, which is what `all_reduce_in_place` is for, and makes no promise for a part in common.
#[inline]
fn check_pair(from: &Region<'_>, to: &Region<'_>, element: usize) -> Result<()> {
    let operation = ALL_REDUCE;
    if from.bytes() != to.bytes() {
        let (expected, found) = (from.bytes() / element, to.bytes() / element);
        let what = "the destination";
        return Err(Error::WrongLength { operation, what, expected, found });
    }
    match from.overlap(to) {
        0 => Ok(()),
        bytes => Err(Error::Overlap { operation, bytes }),
    }
}

#[inline]
pub(crate) fn check_count(count: usize) -> Result<()> {
    if count > MOST_ELEMENTS { Err(Error::TooManyElements { count }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_reduce_what_their_tables_say() {
        let check = |dtype, product| {
            Reduction { dtype, kind: ReduceKind::Sum, count: 1 }.check(Some(product)).is_ok()
        };
        for product in [Product::A2, Product::A3, Product::Ascend950] {
            for dtype in [DType::I8, DType::I16, DType::I64, DType::F16, DType::BF16, DType::F32] {
                assert!(check(dtype, product), "{dtype} on {product:?}");
            }
            for dtype in [DType::U64, DType::F64] {
                assert_eq!(check(dtype, product), product == Product::Ascend950);
            }
        }
    }

    #[test]
    fn counts_have_a_limit() {
        assert!(check_count(MOST_ELEMENTS).is_ok());
        assert!(matches!(check_count(MOST_ELEMENTS + 1), Err(Error::TooManyElements { .. })));
    }
}
