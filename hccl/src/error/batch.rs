//! The mistakes in the list of messages of a batch.

use std::fmt;

use super::counted::counted;
use crate::dtype::DType;

/// The direction of a message: of an item of a batch, or of a single message.
///
/// ```
/// use hccl::batch::Direction;
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let mut x = rank.device().zeros::<f32>(4, &stream)?;
///     let direction = match rank.index() {
///         0 => comm.send(&x, 1, &stream).map(|_| Direction::Send),
///         _ => comm.recv(&mut x, 0, &stream).map(|_| Direction::Receive),
///     }?;
///     assert_eq!(comm.messages(direction, 1 - rank.index()), 1);
///     stream.synchronize()
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The message goes from this rank to the peer.
    Send,
    /// The message goes from the peer to this rank.
    Receive,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Send => "send to",
            Direction::Receive => "receive from",
        })
    }
}

/// A list of messages that `HcclBatchSendRecv` would refuse, leave hanging, or deliver wrongly.
///
/// Items are numbered from 0, in the order in which they were added.
///
/// ```
/// use hccl::Error;
/// use hccl::batch::BatchError;
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     let x = rank.device().zeros::<f32>(4, &stream)?;
///     match comm.batch().send(&x, 7).submit(&stream) {
///         Err(Error::Refused { cause, .. }) => {
///             let Error::Batch(error) = *cause else { return Err(*cause) };
///             assert!(matches!(error, BatchError::PeerOutOfRange { item: 0, peer: 7, .. }));
///             Ok(())
///         }
///         other => other.map(drop),
///     }
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The communicator does not have the rank that an item names.
    #[error(
        "item {item} is a {direction} rank {peer}, but the communicator has {} (0 to {}): \
         name one of its ranks",
        counted(*world_size as usize, "rank"),
        world_size - 1
    )]
    PeerOutOfRange {
        /// The position of the item in the batch.
        item: usize,
        /// The direction of the item.
        direction: Direction,
        /// The rank that was named.
        peer: u32,
        /// The number of ranks.
        world_size: u32,
    },
    /// Two items in one direction name the same peer.
    #[error(
        "items {first} and {second} are both a {direction} rank {peer}, \
         but a batch takes one message per peer and direction: join the messages in one buffer, or submit a second batch"
    )]
    DuplicatePeer {
        /// The position of the first of the two items.
        first: usize,
        /// The position of the second item.
        second: usize,
        /// The direction of both items.
        direction: Direction,
        /// The peer of both items.
        peer: u32,
    },
    /// A message from this rank to itself lacks either its send or its receive.
    #[error(
        "item {item} is a {direction} this rank itself, but its counterpart is missing: \
         add the counterpart to the same batch, or leave both out and use `DeviceBuffer::copy_from`"
    )]
    UnpairedSelf {
        /// The position of the item in the batch.
        item: usize,
        /// The direction of the item.
        direction: Direction,
        /// The number of this rank.
        rank: u32,
    },
    /// The send and the receive of a message from this rank to itself differ.
    #[error(
        "this rank sends itself {sent} x {sent_type} (item {send}), and receives {received} x {received_type} from itself \
         (item {receive}): make the counts and the types equal"
    )]
    SelfMismatch {
        /// The number of this rank.
        rank: u32,
        /// The position of the send.
        send: usize,
        /// The number of elements that are sent.
        sent: usize,
        /// The type of the elements that are sent.
        sent_type: DType,
        /// The position of the receive.
        receive: usize,
        /// The number of elements that are received.
        received: usize,
        /// The type of the elements that are received.
        received_type: DType,
    },
    /// One item writes a buffer that another item also uses.
    #[error(
        "items {first} and {second} share device memory, and at least one of them writes it: their order in a batch \
         or a group is not defined, so give each item its own range"
    )]
    Overlap {
        /// The position of the item whose buffer starts at the lower address.
        first: usize,
        /// The position of the other item.
        second: usize,
    },
}
