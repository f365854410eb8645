//! The messages of a call: their contents, and the order in which a rank posts and copies them.

use std::cmp::Reverse;

use crate::collective::validate::name_of;
use ascend_reduce::DataType;

/// One side's description of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageShape {
    pub(crate) dtype: DataType,
    /// The number of elements.
    pub(crate) count: u64,
    /// Whether the message is a separate call (`HcclSend`, `HcclRecv`) and not an item of a batch.
    /// Both sides of a message must be of the same kind.
    pub(crate) alone: bool,
}

impl MessageShape {
    pub(crate) fn bytes(&self) -> usize {
        self.count as usize * self.dtype.size()
    }
}

impl std::fmt::Display for MessageShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.count, name_of(self.dtype))
    }
}

/// An item of a call, checked and resolved.
#[derive(Clone, Copy)]
pub(crate) struct BatchItem {
    /// Whether the rank sends the message; otherwise it receives it.
    pub(crate) send: bool,
    pub(crate) peer: usize,
    pub(crate) content: MessageShape,
    /// The buffer of the rank.
    pub(crate) data: *mut u8,
    /// The source buffer, if the peer is the rank itself; else null. A message of a rank to itself
    /// is stored as a receive.
    pub(crate) from: *mut u8,
    /// The index in the caller's list.
    pub(crate) index: u32,
    pub(crate) state: ItemState,
}

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemState {
    /// The item waits for a free place, or, if the peer is the rank itself, for its copy.
    New,
    /// The item is posted. Holds the number of its message in the channel.
    Posted(u64),
    /// The number of bytes that are copied, for a message of the rank to itself.
    Copied(usize),
    /// The item is done or withdrawn, and no thread touches its memory any more.
    Over,
}

impl BatchItem {
    /// Returns the source and the destination of an item of `rank`.
    pub(crate) fn way(&self, rank: usize) -> (usize, usize) {
        if self.send { (rank, self.peer) } else { (self.peer, rank) }
    }
}

/// Sorts a rank's items into the order in which they are posted and copied: messages to itself
/// first, then receives, then sends. Receives and sends each begin with the next higher rank, so
/// that not all ranks begin with the same peer. The messages of a pair stay in the order of their
/// indices, or, with `by_size`, those with more elements come first.
pub(crate) fn arrange(rank: usize, ranks: usize, by_size: bool, items: &mut [BatchItem]) {
    // The index keeps the order of the list. A stable sort would do that too, but it allocates.
    items.sort_unstable_by_key(|BatchItem { send, peer, content, index, .. }| {
        let size = if by_size { (content.count, content.dtype as u32) } else { (0, 0) };
        let distance = (peer + ranks - rank) % ranks;
        (distance != 0, *send, distance, Reverse(size), *index)
    });
}

// SAFETY: the pointers were resolved at issue, and their pages stay mapped until the batch is
// complete. Only the copy kernels access them.
unsafe impl Send for BatchItem {}
