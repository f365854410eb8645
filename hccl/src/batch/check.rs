//! The rules of `HcclBatchSendRecv`, checked before the call.
//!
//! CANN accepts more than it documents. If a batch has several sends to one peer, one product
//! matches them with receives by size, and another product by position. So a list that works on one
//! product can deliver a wrong message on another. Here a batch has at most one send to and one
//! receive from each peer, which is correct on every product.

use crate::api::item::Item;
use crate::error::batch::{BatchError, Direction};

/// The state that a communicator keeps for each of its peers: the number of messages in each
/// direction, and the last batch that named the peer.
pub(crate) struct Peers {
    rank: u32,
    batch: u64,
    peers: Box<[PeerTraffic]>,
    /// The ranges of the batch that is being checked, kept to reuse the allocation.
    ranges: Vec<Used>,
}

#[derive(Clone, Default)]
struct PeerTraffic {
    directions: [PeerMessages; 2],
}

/// The messages between this rank and one peer in one direction.
#[derive(Clone, Default)]
struct PeerMessages {
    issued: u64,
    batch: u64,
    item: usize,
}

impl Peers {
    pub fn new(rank: u32, world_size: u32) -> Self {
        let peers = vec![PeerTraffic::default(); world_size as usize].into_boxed_slice();
        Peers { rank, batch: 0, peers, ranges: Vec::new() }
    }

    /// Checks a batch, except for [overlapping memory](Self::check_overlap).
    pub fn check(&mut self, items: &[Item]) -> Result<(), BatchError> {
        self.batch += 1;
        let batch = self.batch;
        let world_size = self.peers.len() as u32;
        for (item, message) in items.iter().enumerate() {
            let (direction, peer) = (message.direction(), message.peer());
            let Some(known) = self.peers.get_mut(peer as usize) else {
                return Err(BatchError::PeerOutOfRange { item, direction, peer, world_size });
            };
            let messages = &mut known.directions[direction as usize];
            if messages.batch == batch {
                return Err(BatchError::DuplicatePeer {
                    first: messages.item,
                    second: item,
                    direction,
                    peer,
                });
            }
            messages.batch = batch;
            messages.item = item;
        }
        self.check_self(items)
    }

    /// Counts the messages of a batch that was issued.
    pub fn count(&mut self, items: &[Item]) {
        for item in items {
            self.add(item.direction(), item.peer());
        }
    }

    /// Counts a message that was issued without a batch.
    pub fn add(&mut self, direction: Direction, peer: u32) {
        if let Some(peer) = self.peers.get_mut(peer as usize) {
            peer.directions[direction as usize].issued += 1;
        }
    }

    /// Returns the number of messages that were issued to or from a peer, or 0 for a peer that is
    /// out of range.
    pub fn issued(&self, direction: Direction, peer: u32) -> u64 {
        self.peers.get(peer as usize).map_or(0, |peer| peer.directions[direction as usize].issued)
    }

    fn check_self(&self, items: &[Item]) -> Result<(), BatchError> {
        let rank = self.rank;
        let Some(own) = self.peers.get(rank as usize) else { return Ok(()) };
        let half = |direction: Direction| {
            let messages = &own.directions[direction as usize];
            (messages.batch == self.batch).then_some(messages.item)
        };
        match (half(Direction::Send), half(Direction::Receive)) {
            (None, None) => Ok(()),
            (Some(item), None) => {
                Err(BatchError::UnpairedSelf { item, direction: Direction::Send, rank })
            }
            (None, Some(item)) => {
                Err(BatchError::UnpairedSelf { item, direction: Direction::Receive, rank })
            }
            (Some(send), Some(receive)) => {
                let (from, to) = (&items[send], &items[receive]);
                if (from.count(), from.dtype()) == (to.count(), to.dtype()) {
                    return Ok(());
                }
                Err(BatchError::SelfMismatch {
                    rank,
                    send,
                    sent: from.count(),
                    sent_type: from.dtype(),
                    receive,
                    received: to.count(),
                    received_type: to.dtype(),
                })
            }
        }
    }

    /// Checks that no item uses memory that another item writes. Only a batch with foreign memory
    /// needs this check, because the borrow checker does not see that memory. Allocates only if
    /// the batch is larger than all earlier batches.
    pub fn check_overlap(&mut self, items: &[Item]) -> Result<(), BatchError> {
        self.ranges.clear();
        self.ranges.extend(items.iter().enumerate().map(|(at, item)| {
            let (start, written) = (item.address(), item.direction() == Direction::Receive);
            Used { start, end: start.saturating_add(item.bytes()), written, at }
        }));
        check_overlap(&mut self.ranges)
    }
}

/// Memory that an item uses.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) written: bool,
    /// The position of the item.
    pub(crate) at: usize,
}

/// Checks that no item uses memory that another item writes. The borrow checker ensures this for
/// buffers that `hccl` owns, but foreign memory (`from_raw`) can overlap.
pub(crate) fn check_overlap(ranges: &mut [Used]) -> Result<(), BatchError> {
    ranges.sort_unstable_by_key(|range| range.start);
    // The furthest end so far: of all ranges, and of the ranges that are written.
    let mut any = (0, 0);
    let mut all_written = (0, 0);
    // Empty ranges overlap no range.
    for &Used { start, end, written, at } in ranges.iter().filter(|range| range.start < range.end) {
        let reached = if written { any } else { all_written };
        if start < reached.0 {
            return Err(BatchError::Overlap { first: reached.1, second: at });
        }
        any = any.max((end, at));
        if written {
            all_written = all_written.max((end, at));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Direction::{Receive, Send};
    use super::*;
    use crate::dtype::DType;

    fn message(direction: Direction, peer: u32, address: usize, count: usize) -> Item {
        Item::new(direction, peer, std::ptr::without_provenance_mut(address), count, DType::F32)
    }

    fn check(items: &[Item]) -> Result<(), BatchError> {
        let mut peers = Peers::new(1, 4);
        peers.check(items)?;
        peers.check_overlap(items)
    }

    #[test]
    fn a_ring_is_fine_and_so_is_nothing() {
        assert_eq!(check(&[message(Send, 2, 0, 8), message(Receive, 0, 32, 8)]), Ok(()));
        assert_eq!(check(&[]), Ok(()));
    }

    #[test]
    fn peers_are_in_range() {
        let error = check(&[message(Send, 2, 0, 8), message(Receive, 4, 32, 8)]).unwrap_err();
        let expected =
            BatchError::PeerOutOfRange { item: 1, direction: Receive, peer: 4, world_size: 4 };
        assert_eq!(error, expected);
        assert_eq!(
            error.to_string(),
            "item 1 is a receive from rank 4, but the communicator has 4 ranks (0 to 3): name one \
             of its ranks"
        );
    }

    #[test]
    fn one_item_per_peer_and_direction() {
        assert_eq!(check(&[message(Send, 2, 0, 8), message(Receive, 2, 32, 8)]), Ok(()));
        let twice = [message(Send, 2, 0, 8), message(Send, 3, 0, 8), message(Send, 2, 0, 8)];
        let expected = BatchError::DuplicatePeer { first: 0, second: 2, direction: Send, peer: 2 };
        assert_eq!(check(&twice), Err(expected));
    }

    #[test]
    fn a_later_batch_may_name_the_same_peer() {
        let mut peers = Peers::new(1, 4);
        for round in 0..3 {
            let messages = [message(Send, 2, 0, 8)];
            assert_eq!(peers.check(&messages), Ok(()));
            assert_eq!(peers.issued(Send, 2), round);
            peers.count(&messages);
        }
        assert_eq!(peers.issued(Receive, 2), 0);
    }

    #[test]
    fn messages_to_oneself_come_in_pairs() {
        let send = message(Send, 1, 0, 8);
        let receive = message(Receive, 1, 64, 8);
        assert_eq!(check(&[receive, send]), Ok(()));
        let unpaired = |item, direction| Err(BatchError::UnpairedSelf { item, direction, rank: 1 });
        assert_eq!(check(&[message(Send, 0, 0, 8), send]), unpaired(1, Send));
        assert_eq!(check(&[receive]), unpaired(0, Receive));
        let longer = message(Receive, 1, 64, 9);
        assert!(matches!(
            check(&[send, longer]),
            Err(BatchError::SelfMismatch { sent: 8, received: 9, .. })
        ));
        let other = Item::new(Receive, 1, std::ptr::without_provenance_mut(64), 8, DType::I32);
        assert!(matches!(check(&[send, other]), Err(BatchError::SelfMismatch { .. })));
    }

    #[test]
    fn received_memory_is_used_once() {
        let overlap = |first, second| Err(BatchError::Overlap { first, second });
        // Sends may read the same memory.
        assert_eq!(check(&[message(Send, 0, 0, 8), message(Send, 2, 0, 8)]), Ok(()));
        let into = |peer, address| message(Receive, peer, address, 8);
        assert_eq!(check(&[into(0, 0), into(2, 32)]), Ok(()));
        assert_eq!(check(&[into(0, 0), into(2, 31)]), overlap(0, 1));
        assert_eq!(check(&[into(0, 31), message(Send, 2, 0, 8)]), overlap(1, 0));
        // The first and the third range overlap, although a short range begins between them.
        let hidden = [message(Send, 0, 0, 100), message(Send, 2, 8, 1), into(3, 200)];
        assert_eq!(check(&hidden), overlap(0, 2));
        // Empty ranges overlap no range.
        assert_eq!(check(&[message(Send, 0, 0, 8), message(Receive, 0, 0, 0)]), Ok(()));
    }
}
