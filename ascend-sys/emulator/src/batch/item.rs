//! The messages of a call: their contents, and the order in which a rank posts and looks after
//! them.

use std::cmp::Reverse;

use crate::collective::validate::name_of;
use ascend_reduce::DataType;

/// One side's description of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageShape {
    pub(crate) dtype: DataType,
    /// The number of elements.
    pub(crate) count: u64,
    /// Whether it is a call of its own (`HcclSend`, `HcclRecv`), not an item of a batch. Both sides
    /// of a message must be of the same kind.
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
    /// Whether the rank sends; otherwise it receives.
    pub(crate) send: bool,
    pub(crate) peer: usize,
    pub(crate) content: MessageShape,
    /// The buffer of the rank.
    pub(crate) data: *mut u8,
    /// The source, if the peer is the rank itself; an item to itself counts as a receive.
    pub(crate) from: *mut u8,
    /// The index in the caller's list.
    pub(crate) index: u32,
    pub(crate) state: ItemState,
}

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemState {
    /// The item waits for a place, or for its copy if it is to the rank itself.
    New,
    /// It is posted as the message of its channel with this number.
    Posted(u64),
    /// To the rank itself: this many bytes are copied.
    Copied(usize),
    /// Nothing touches its memory any more.
    Over,
}

impl BatchItem {
    /// Source and destination, for an item of `rank`.
    pub(crate) fn way(&self, rank: usize) -> (usize, usize) {
        if self.send { (rank, self.peer) } else { (self.peer, rank) }
    }
}

/// Puts a rank's items in the order in which they are posted and looked after: messages to itself
/// first, then receives, then sends. Receives and sends each begin with the next rank, so that not
/// all ranks begin with the same one. The messages of a pair stay in the order of their indices;
/// `by_size`: the larger first.
pub(crate) fn arrange(rank: usize, ranks: usize, by_size: bool, items: &mut [BatchItem]) {
    // The index keeps the order of the list, as a stable sort would, which allocates.
    items.sort_unstable_by_key(|BatchItem { send, peer, content, index, .. }| {
        let size = if by_size { (content.count, content.dtype as u32) } else { (0, 0) };
        let distance = (peer + ranks - rank) % ranks;
        (distance != 0, *send, distance, Reverse(size), *index)
    });
}

// SAFETY: the pointers were resolved at issue and their pages stay until the batch is complete;
// they are touched by the copy kernels only.
unsafe impl Send for BatchItem {}
