//! The record of the links that a communicator has made. A call whose links are made does not wait
//! for other ranks.
//!
//! The first collective makes the links between all ranks, and the first message makes the link
//! between its two ranks. The first kernel makes the links and the context of its server, once for
//! each way in which kernels communicate. CANN may make more links when it chooses another
//! algorithm. `hccl` cannot predict this, so that call waits for its peers.

#![forbid(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use smallvec::SmallVec;

use crate::order::label::Takes;
use crate::sync::lock;

/// The links of a rank.
pub(crate) struct Links {
    rank: u32,
    /// Whether this is the only rank, so that no call waits for another rank.
    is_alone: bool,
    collectives: AtomicBool,
    /// The ways of communicating for which kernels have made their links.
    kernels: Mutex<SmallVec<[u64; 2]>>,
    /// One bit for each rank, set if the link for messages to and from that rank is made.
    peers: Box<[AtomicU64]>,
}

/// The links that an operation needs.
#[derive(Clone, Debug)]
pub(crate) enum Needs {
    All,
    Peers(SmallVec<[u32; 2]>),
    /// The links of a kernel that communicates in this way.
    Kernel(u64),
}

impl Links {
    pub(crate) fn new(rank: u32, world_size: u32) -> Self {
        let words = world_size.div_ceil(u64::BITS) as usize;
        let peers = (0..words).map(|_| AtomicU64::new(0)).collect();
        let is_alone = world_size == 1;
        let collectives = AtomicBool::new(is_alone);
        Links { rank, is_alone, collectives, kernels: Mutex::default(), peers }
    }

    /// Returns whether the links of a kernel that communicates in this way are made.
    pub(crate) fn are_made_for_kernel(&self, way: u64) -> bool {
        self.is_alone || lock(&self.kernels).contains(&way)
    }

    /// Returns whether the links of an operation that takes these numbers are made.
    #[inline]
    pub(crate) fn are_made(&self, takes: Takes<'_>) -> bool {
        match takes {
            Takes::Collective => self.collectives.load(Acquire),
            Takes::Message(_, peer) => self.has(peer),
            Takes::Batch(items) => items.iter().all(|item| self.has(item.peer())),
            Takes::Nothing => true,
        }
    }

    #[inline]
    fn has(&self, peer: u32) -> bool {
        let word = self.peers.get((peer / u64::BITS) as usize);
        peer == self.rank
            || word.is_some_and(|word| word.load(Acquire) >> (peer % u64::BITS) & 1 != 0)
    }

    /// Returns the ranks to which the messages of `needs` have no link yet. The list is empty
    /// for collectives and kernels.
    pub(crate) fn lacking(&self, needs: &Needs) -> Vec<u32> {
        match needs {
            Needs::Peers(peers) => peers.iter().copied().filter(|peer| !self.has(*peer)).collect(),
            Needs::All | Needs::Kernel(_) => Vec::new(),
        }
    }

    /// Records that these links are made.
    pub(crate) fn made(&self, needs: &Needs) {
        match needs {
            Needs::All => self.collectives.store(true, Release),
            Needs::Kernel(way) => {
                let mut kernels = lock(&self.kernels);
                if !kernels.contains(way) {
                    kernels.push(*way);
                }
            }
            Needs::Peers(peers) => {
                for peer in peers {
                    if let Some(word) = self.peers.get((peer / u64::BITS) as usize) {
                        word.fetch_or(1 << (peer % u64::BITS), Release);
                    }
                }
            }
        }
    }
}

impl Needs {
    /// Returns the needs of an operation that makes no links.
    pub(crate) fn none() -> Self {
        Needs::Peers(SmallVec::new())
    }
}

impl From<Takes<'_>> for Needs {
    fn from(takes: Takes<'_>) -> Self {
        match takes {
            Takes::Collective => Needs::All,
            Takes::Message(_, peer) => Needs::Peers(SmallVec::from_slice(&[peer])),
            Takes::Batch(items) => Needs::Peers(items.iter().map(|item| item.peer()).collect()),
            Takes::Nothing => Needs::none(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::error::batch::Direction;

    #[test]
    fn links_are_those_that_were_made() {
        let links = Links::new(3, 130);
        let to = |peer| Takes::Message(Direction::Send, peer);
        assert!(!links.are_made(Takes::Collective) && links.are_made(to(3)));
        links.made(&to(129).into());
        assert_eq!(links.lacking(&Needs::Peers([3, 128, 129].into_iter().collect())), [128]);
        let made: Vec<u32> = (0..140).filter(|peer| links.are_made(to(*peer))).collect();
        assert_eq!(made, [3, 129]);
        links.made(&Takes::Collective.into());
        assert!(links.are_made(Takes::Collective) && !links.are_made(to(0)));
        assert!(!links.are_made_for_kernel(7));
        links.made(&Needs::Kernel(7));
        assert!(links.are_made_for_kernel(7) && !links.are_made_for_kernel(8));
        let alone = Links::new(0, 1);
        assert!(alone.are_made(Takes::Collective) && alone.are_made_for_kernel(8));
    }
}
