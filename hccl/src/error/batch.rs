//! The mistakes in a list of messages.

use std::fmt;

use crate::dtype::DType;

/// The direction of an item of a batch.
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
    /// From this rank to the peer.
    Send,
    /// From the peer to this rank.
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
/// Items count from 0 in the order in which they were added.
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
    /// The communicator has no such rank.
    #[error(
        "item {item} is a {direction} rank {peer}, but the communicator has {world_size} ranks (0 to {})",
        world_size - 1
    )]
    PeerOutOfRange {
        /// Position in the batch.
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
        "items {first} and {second} are both a {direction} rank {peer}; a batch takes one per peer and direction: \
         join the messages in one buffer, or submit a second batch"
    )]
    DuplicatePeer {
        /// Position of the first of the two.
        first: usize,
        /// Position of the second.
        second: usize,
        /// The direction of both items.
        direction: Direction,
        /// The peer of both.
        peer: u32,
    },
    /// A message to or from oneself without its other half.
    #[error(
        "item {item} is a {direction} this rank itself, but its other half is missing: add the other half to \
         the same batch, or leave both out and use `DeviceBuffer::copy_from`"
    )]
    UnpairedSelf {
        /// Position in the batch.
        item: usize,
        /// The direction of the item.
        direction: Direction,
        /// This rank.
        rank: u32,
    },
    /// The two halves of a message to oneself differ.
    #[error(
        "this rank sends itself {sent} x {sent_type} (item {send}), and receives {received} x {received_type} from itself \
         (item {receive}): make them equal"
    )]
    SelfMismatch {
        /// This rank.
        rank: u32,
        /// Position of the send.
        send: usize,
        /// Elements sent.
        sent: usize,
        /// The type of the elements sent.
        sent_type: DType,
        /// Position of the receive.
        receive: usize,
        /// Elements received.
        received: usize,
        /// The type of the elements received.
        received_type: DType,
    },
    /// A buffer that one item writes is also used by another one.
    #[error(
        "items {first} and {second} share device memory, and at least one of them writes it: their order in a batch \
         or a group is not defined, so give each its own range"
    )]
    Overlap {
        /// Position of the one that starts at the lower address.
        first: usize,
        /// Position of the other.
        second: usize,
    },
}
