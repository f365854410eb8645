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
    /// Sends all elements of `source` to rank `to`, which must [receive](Self::recv) the same
    /// number of elements of the same type.
    ///
    /// The stream waits until the peer has received the elements. Only then is the [`Work`]
    /// complete, and only then does the next operation of the stream begin. So if two ranks both
    /// send first and receive afterwards, each on one stream, they wait for each other for ever.
    /// The same happens in a ring of ranks. The messages of a [`batch`](Self::batch) do not wait
    /// for one another, so use a batch when a rank both sends and receives. A batch is also faster
    /// for several messages. To copy elements within a rank, use
    /// [`DeviceBuffer::copy_from`](crate::DeviceBuffer::copy_from).
    ///
    /// Messages from one rank to another are matched in the order in which they are issued.
    /// Messages of a batch are matched only with messages of a batch. CANN: `HcclSend`.
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

    /// Fills `destination` with elements from rank `from`, which must [send](Self::send) the same
    /// number of elements of the same type.
    ///
    /// The [`Work`] is complete when the elements have arrived. Operations that are issued later on
    /// the stream begin only then. See [`send`](Self::send) for the order of messages, and for the
    /// reason to use a [`batch`](Self::batch) when a rank both sends and receives. CANN:
    /// `HcclRecv`.
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

/// Functions that check the arguments of an operation and make its [`CollectiveOp`].
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

    /// Checks that `peer` is another rank of the communicator.
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
    /// Describes a message to or from `peer`. Does not check that the peer exists: the caller must.
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
