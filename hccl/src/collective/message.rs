//! Single messages from one rank to another.

use super::call::CollectiveKind;
use super::partition::{DESTINATION, SOURCE};
use super::{CollectiveCall, check_count};
use crate::batch::Direction;
use crate::comm::label::Takes;
use crate::comm::{Communicator, Member};
use crate::device::{Stream, StreamState};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::{Destination, Source};
use crate::order::issue::{Slip, Touch};
use crate::trace::span;
#[cfg(doc)]
use crate::work::Work;

const SEND: &str = "send";
const RECV: &str = "recv";

impl Communicator {
    /// Sends all elements of `source` to rank `to`, which [receives](Self::recv) as many of the same type.
    ///
    /// The [`Work`] is complete, and what follows on the stream begins, when the peer has taken the elements: until then the stream waits.
    /// So two ranks that both send first and receive afterwards, each on one stream, wait for each other for ever; and so does a ring
    /// of them. [`batch`](Self::batch) has no such order: use it when a rank both sends and receives. It is also faster for
    /// several messages. A message to oneself is [`DeviceBuffer::copy_from`](crate::DeviceBuffer::copy_from).
    ///
    /// Messages from one rank to another pair in the order in which they are issued; those of a batch pair with those of a batch.
    /// CANN: `HcclSend`.
    ///
    /// Does not block, except for links. For errors see the [module](crate::collective).
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
        let region = source.region();
        let member = &mut self.member;
        let sequence = member.messages(Direction::Send, to) + 1;
        let count = region.bytes() / size_of::<T>();
        let _span = span!("hccl.send", SEND, member, sequence, count, region.bytes());
        let touch = region.read(SOURCE);
        let call = member.message(Direction::Send, T::DTYPE, &region, to);
        let slip = Slip::default();
        member.issue_message((SEND, Direction::Send, to), call, touch, stream, &slip)?;
        Ok(slip.work(stream, SEND))
    }

    /// Receives from rank `from`, which [sends](Self::send) as many elements of the same type; fills `destination`.
    ///
    /// The [`Work`] is complete, and what follows on the stream begins, when the elements are there. For the order of messages, and why
    /// [`batch`](Self::batch) is better when a rank both sends and receives, see [`send`](Self::send). CANN: `HcclRecv`.
    ///
    /// Does not block, except for links. For errors see the [module](crate::collective).
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
        let member = &mut self.member;
        let sequence = member.messages(Direction::Receive, from) + 1;
        let count = region.bytes() / size_of::<T>();
        let _span = span!("hccl.recv", RECV, member, sequence, count, region.bytes());
        let touch = region.write(DESTINATION);
        let call = member.message(Direction::Receive, T::DTYPE, &region, from);
        let slip = Slip::default();
        let message = (RECV, Direction::Receive, from);
        let issued = member.issue_message(message, call, touch, stream, &slip);
        destination.finish(issued.map(|()| slip.work(stream, RECV)))
    }
}

impl Member {
    /// What CANN is told, after the checks.
    #[inline]
    pub(crate) fn message(
        &self,
        direction: Direction,
        dtype: DType,
        buffer: &Region<'_>,
        peer: u32,
    ) -> Result<CollectiveCall<'static>> {
        self.check_rank("the peer", peer)?;
        if peer == self.label.rank {
            return Err(Error::OwnMessage { rank: peer });
        }
        let count = dtype.elements(buffer.bytes());
        check_count(count)?;
        Ok(match direction {
            Direction::Send => {
                CollectiveCall::new(CollectiveKind::Send(peer), dtype, Some(buffer), None, count)
            }
            Direction::Receive => {
                CollectiveCall::new(CollectiveKind::Recv(peer), dtype, None, Some(buffer), count)
            }
        })
    }

    #[inline(never)]
    fn issue_message<S: StreamState>(
        &mut self,
        (name, direction, peer): (&'static str, Direction, u32),
        call: Result<CollectiveCall<'_>>,
        touch: Touch<'_>,
        stream: &Stream<S>,
        slip: &Slip,
    ) -> Result<()> {
        let sequence = self.messages(direction, peer) + 1;
        let touches = [self.touch(), touch];
        let outcome = match call {
            Ok(call) => {
                let message = (name, sequence, Takes::Message(direction, peer));
                self.issue(message, stream, &touches, |table, comm, stream| {
                    // SAFETY: as for a collective.
                    unsafe { call.enqueue(table, comm, stream) }
                })
            }
            Err(error) => Err(self.explain(name, sequence, error)),
        };
        slip.put(outcome?);
        if S::RUNS {
            self.peers.add(direction, peer);
        }
        Ok(())
    }
}
