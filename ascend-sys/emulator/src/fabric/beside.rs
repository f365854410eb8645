//! A second communicator of the same ranks, beside a first one. A module uses the second
//! communicator for meetings that are separate from the program's own operations.
//!
//! If the ranks are in several processes, the words of the second communicator follow those of the
//! first in shared memory. So no process has to request them. The key of the second communicator is
//! derived from the key of the first.

use std::cell::Cell;
use std::sync::Arc;

use super::comm::Comm;
use super::joint::Joint;
use super::news::CommNews;
use super::part_news::{ChannelNews, PartNews};
use crate::processes::region::Ground;

/// The value that turns the key of a communicator into the key of the communicator beside it, by
/// exclusive or. Keys are random numbers that cannot be guessed.
const BESIDE: u64 = 0x6265_7369_6465;

impl Comm {
    /// Makes another communicator of the same ranks. Each process calls this once. Ranks that have
    /// left this communicator have also left the new one.
    pub(crate) fn new_beside(&self) -> Arc<Self> {
        let rest = self.joint.as_ref().and_then(|joint| joint.rest.as_ref());
        let ground = match rest {
            None => Ground::Heap,
            Some((memory, used)) => Ground::Shared(Arc::clone(memory), Cell::new(*used)),
        };
        let (name, limit) = (self.name.clone(), self.connect_timeout);
        let mut beside = Self::new_on(&ground, name, self.product, limit, self.ranks());
        if let Some(joint) = &self.joint {
            beside.joint = Some(Joint::new(joint.key ^ BESIDE, joint.ranks().to_vec(), None));
        }
        beside.set_title(self.title());
        let beside = Arc::new(beside);
        beside.publish();
        // Requests the news that the other processes sent before this side existed.
        beside.tell(|| CommNews::Asks);
        for rank in 0..self.ranks() {
            if let Some(why) = self.board.departure(rank) {
                beside.leave(rank, why);
            }
        }
        beside
    }

    /// Sends news about a rank to the parts of this communicator in the other processes, if the
    /// communicator has ranks there.
    pub(crate) fn tell_parts(&self, rank: usize, news: impl FnOnce() -> PartNews) {
        self.tell(|| CommNews::Part { rank, news: news() });
    }

    /// Sends news about channels from a rank of this process to a rank of another process.
    pub(crate) fn tell_channel_of(&self, rank: usize, to: usize, news: ChannelNews) {
        self.tell_part_of(rank, to, PartNews::Channel { to, news });
    }

    /// Sends news from a rank of this process to the parts of the process of another rank.
    pub(crate) fn tell_part_of(&self, rank: usize, to: usize, news: PartNews) {
        if let Some(abroad) = self.joint.as_ref().and_then(|joint| joint.abroad(to)) {
            self.tell_one(&abroad.peer, CommNews::Part { rank, news }, None);
        }
    }
}
