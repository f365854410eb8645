//! The links of a communicator that are made: the ranks between which a call does not wait any
//! more.
//!
//! The first collective makes the links of all ranks, the first message that of its two, and the
//! first kernel those of its server, with its context, for each way in which kernels communicate.
//! CANN may make more when it chooses another algorithm; nobody outside can know, and such a call
//! waits for its peers.

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
    /// It is the only rank, so no call waits for another one.
    is_alone: bool,
    collectives: AtomicBool,
    /// The ways in which kernels communicate and whose links are made.
    kernels: Mutex<SmallVec<[u64; 2]>>,
    /// A bit for each rank.
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

    /// Whether the launch of a kernel that communicates in this way finds its links made.
    pub(crate) fn are_made_for_kernel(&self, way: u64) -> bool {
        self.is_alone || lock(&self.kernels).contains(&way)
    }

    /// Whether an operation that takes these numbers finds its links made.
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

    /// Returns the ranks to which messages need links that are not made.
    pub(crate) fn lacking(&self, needs: &Needs) -> Vec<u32> {
        match needs {
            Needs::Peers(peers) => peers.iter().copied().filter(|peer| !self.has(*peer)).collect(),
            Needs::All | Needs::Kernel(_) => Vec::new(),
        }
    }

    /// Notes that these links are made.
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
    /// The needs of an operation that makes no links.
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
