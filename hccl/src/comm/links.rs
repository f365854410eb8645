//! Which links of a communicator are made: between which ranks a call does not wait any more.
//!
//! The first collective makes the links of all ranks, the first message that of its two. CANN may make more
//! when it chooses another algorithm; nobody outside can know, and such a call waits for its peers.

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use smallvec::SmallVec;

use crate::order::label::Takes;

/// What a rank has links to.
pub(crate) struct Links {
    rank: u32,
    collectives: AtomicBool,
    /// A bit for each rank.
    peers: Box<[AtomicU64]>,
}

/// The links that an operation needs.
#[derive(Clone, Debug)]
pub(crate) enum Needs {
    All,
    Peers(SmallVec<[u32; 2]>),
}

impl Links {
    pub(crate) fn new(rank: u32, world_size: u32) -> Self {
        let words = world_size.div_ceil(u64::BITS) as usize;
        let peers = (0..words).map(|_| AtomicU64::new(0)).collect();
        // A rank alone waits for nobody.
        Links { rank, collectives: AtomicBool::new(world_size == 1), peers }
    }

    /// Whether an operation that takes such a number finds its links made.
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

    /// From now on these are made.
    pub(crate) fn made(&self, needs: &Needs) {
        match needs {
            Needs::All => self.collectives.store(true, Release),
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

impl From<Takes<'_>> for Needs {
    fn from(takes: Takes<'_>) -> Self {
        match takes {
            Takes::Collective => Needs::All,
            Takes::Message(_, peer) => Needs::Peers(SmallVec::from_slice(&[peer])),
            Takes::Batch(items) => Needs::Peers(items.iter().map(|item| item.peer()).collect()),
            Takes::Nothing => Needs::Peers(SmallVec::new()),
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
        let made: Vec<u32> = (0..140).filter(|peer| links.are_made(to(*peer))).collect();
        assert_eq!(made, [3, 129]);
        links.made(&Takes::Collective.into());
        assert!(links.are_made(Takes::Collective) && !links.are_made(to(0)));
        assert!(Links::new(0, 1).are_made(Takes::Collective), "a rank alone");
    }
}
