//! Making links before the first operation needs them.

use super::Communicator;
use crate::device::Stream;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::order::work::Work;
use crate::pending::Pending;

const CONNECT: &str = "connect";
const CONNECT_TO: &str = "connect_to";

impl Communicator {
    /// Makes the links that collectives need. All ranks must call it. It issues a
    /// [`barrier`](Self::barrier) on a new stream, so it takes the number of a collective.
    ///
    /// Calling it is optional, because the first collective makes the links on a helper thread. But
    /// a stream that [captures](crate::Graph) accepts collectives only if the links are made, and a
    /// first operation is faster if they are.
    ///
    /// Returns a future at once: see [`Pending`]. CANN: `HcclBarrier`.
    ///
    /// # Errors
    ///
    /// The errors of a barrier. If some ranks do not call it, the error is [`Error::Call`] with
    /// `HCCL_E_TIMEOUT`, after the connection time-out.
    ///
    /// ```
    /// use hccl::prelude::*;
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = Runtime::emulator(2)?;
    /// runtime.run_ranks(2, |rank| {
    ///     let mut comm = rank.communicator()?;
    ///     comm.connect().wait()?;
    ///     let stream = rank.device().stream()?;
    ///     let mut x = rank.device().upload(&[1], &stream)?;
    ///     let capture = rank.device().begin_capture()?;
    ///     comm.all_reduce_in_place(&mut x, Sum, &capture)?;
    ///     capture.end()?.replay(&stream)?.wait()
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect(&mut self) -> Pending<()> {
        Pending::behind(CONNECT, self.begin_connect(), ())
    }

    fn begin_connect(&mut self) -> Result<(Stream, Work)> {
        let stream = self.device().stream()?;
        let work = self.barrier(&stream)?;
        Ok((stream, work))
    }

    /// Makes the links that messages to and from `peers` need. Each of the peers must call it too,
    /// and name this rank. It issues a [batch](Self::batch) with one message of one byte to and
    /// from each peer, so it takes the numbers of the batch and of these messages. Does nothing if
    /// `peers` is empty.
    ///
    /// Returns a future at once: see [`Pending`]. CANN: `HcclBatchSendRecv`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] for a rank that cannot be a peer. Its cause is [`Error::NoSuchRank`] or
    /// [`Error::OwnMessage`]. Otherwise the errors of a batch.
    pub fn connect_to(&mut self, peers: &[u32]) -> Pending<()> {
        if peers.is_empty() {
            return Pending::ready(Ok(()));
        }
        Pending::behind(CONNECT_TO, self.begin_connect_to(peers), ())
    }

    fn begin_connect_to(&mut self, peers: &[u32]) -> Result<(Stream, Work)> {
        (peers.iter().try_for_each(|peer| self.member.check_peer(*peer)))
            .map_err(|error| self.member.explain(CONNECT_TO, 0, error))?;
        let stream = self.device().stream()?;
        let sent = self.device().zeros::<u8>(peers.len(), &stream)?;
        let mut received = self.device().zeros::<u8>(peers.len(), &stream)?;
        let mut batch = self.batch();
        let parts = received.slice_mut(..)?.chunks_mut(1)?;
        for ((at, &peer), part) in peers.iter().enumerate().zip(parts) {
            batch = batch.send(sent.slice(at..at + 1)?, peer).recv(part, peer);
        }
        let work = batch.submit(&stream)?;
        Ok((stream, work))
    }
}
