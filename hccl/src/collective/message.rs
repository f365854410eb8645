//! Single messages from one rank to another.

use super::check::check_count;
use super::op::{CollectiveKind, CollectiveOp, op_name};
use crate::comm::{Communicator, Member};
use crate::device::{Stream, StreamState};
use crate::dtype::{DType, Element};
use crate::error::batch::Direction;
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::{Destination, Source};
#[cfg(doc)]
use crate::order::work::Work;

impl Communicator {
    /// Sends all elements of `source` to rank `to`, which [receives](Self::recv) as many of the
    /// same type.
    ///
    /// The [`Work`] is complete, and the next operation of the stream begins, when the peer has
    /// taken the elements: until then the stream waits. So two ranks that both send first and
    /// receive afterwards, each on one stream, wait for each other for ever; and so does a ring of
    /// them. [`batch`](Self::batch) has no such order: use it when a rank both sends and receives.
    /// It is also faster for several messages. A message to oneself is
    /// [`DeviceBuffer::copy_from`](crate::DeviceBuffer::copy_from).
    ///
    /// Messages from one rank to another pair in the order in which they are issued; those of a
    /// batch pair with those of a batch. CANN: `HcclSend`.
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
    ///     let mut x = rank.device().upload(&[comm.rank(), 7], &stream)?;
    ///     if comm.rank() == 0 {
    ///         comm.send(&x, 1, &stream)?;
    ///     } else {
    ///         comm.recv(&mut x, 0, &stream)?;
    ///     }
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(got, [[0, 7], [0, 7]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn send<T: Element, S: StreamState>(
        &mut self,
        source: impl Source<T>,
        to: u32,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        let operation = self.member.message(Direction::Send, T::DTYPE, &source.region(), to);
        self.member.issue(operation, stream)
    }

    /// Receives from rank `from`, which [sends](Self::send) as many elements of the same type;
    /// fills `destination`.
    ///
    /// The [`Work`] is complete, and what follows on the stream begins, when the elements are
    /// there. For the order of messages, and why [`batch`](Self::batch) is better when a rank both
    /// sends and receives, see [`send`](Self::send). CANN: `HcclRecv`.
    ///
    /// Does not block. For errors see the [module](crate::collective).
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// // A chain: each rank adds one and passes it on.
    /// let runtime = Runtime::emulator(3)?;
    /// let got = runtime.run_ranks(3, |rank| {
    ///     let stream = rank.device().stream()?;
    ///     let mut comm = rank.communicator()?;
    ///     let mut x = rank.device().upload(&[1], &stream)?;
    ///     if comm.rank() > 0 {
    ///         comm.recv(&mut x, comm.rank() - 1, &stream)?;
    ///         let y = x.to_vec(&stream).wait()?[0] + 1;
    ///         x.upload(&[y], &stream)?;
    ///     }
    ///     if comm.rank() < 2 {
    ///         comm.send(&x, comm.rank() + 1, &stream)?;
    ///     }
    ///     x.to_vec(&stream).wait()
    /// })?;
    /// assert_eq!(got, [[1], [2], [3]]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn recv<T: Element, S: StreamState, D: Destination<T, S>>(
        &mut self,
        destination: D,
        from: u32,
        stream: &Stream<S>,
    ) -> Result<<D as Destination<T, S>>::Output, <D as Destination<T, S>>::Error> {
        let region = destination.region();
        let operation = self.member.message(Direction::Receive, T::DTYPE, &region, from);
        let outcome = self.member.issue(operation, stream);
        destination.finish(outcome)
    }
}

/// The checks, and what they make.
impl Member {
    #[inline]
    pub(crate) fn message<'a>(
        &self,
        direction: Direction,
        dtype: DType,
        buffer: &Region<'a>,
        peer: u32,
    ) -> CollectiveOp<'a> {
        CollectiveOp::of_message(direction, dtype, buffer, peer).check(|_| self.check_peer(peer))
    }

    /// It is another rank of the communicator.
    #[inline]
    pub(crate) fn check_peer(&self, peer: u32) -> Result<()> {
        self.check_rank("the peer", peer)?;
        if peer == self.label.rank {
            return Err(Error::OwnMessage { rank: peer });
        }
        Ok(())
    }
}

impl<'a> CollectiveOp<'a> {
    /// A message to or from any peer: another check makes sure that the peer exists.
    #[inline]
    pub(crate) fn of_message(
        direction: Direction,
        dtype: DType,
        buffer: &Region<'a>,
        peer: u32,
    ) -> Self {
        let count = dtype.elements(buffer.bytes());
        let kind = CollectiveKind::Message(direction, peer);
        let operation = match direction {
            Direction::Send => {
                CollectiveOp::new(op_name!("send"), kind, dtype, count).reads(buffer)
            }
            Direction::Receive => {
                CollectiveOp::new(op_name!("recv"), kind, dtype, count).writes(buffer)
            }
        };
        operation.check(|_| check_count(count))
    }
}
