//! What a communicator of `hccl` acquires for operators that run one after the other: what is there is used again, and nothing can be given back.
//!
//! `hccl` asks here before it acquires, and the checker plays the same through for operators in a row.

use crate::check::Product;
use crate::plan::{Plan, limits};
use std::collections::BTreeMap;

/// How many notifies an end of a channel is opened with at least: it cannot get more later, and the next operator may use more.
const LEAST_OF_CHANNEL: u32 = 8;
/// The same for threads, which on most products cannot get more either.
const LEAST_OF_THREAD: u32 = 4;

/// What to acquire threads with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many of the threads that are there stay as they are, besides those that are acquired.
    pub kept: usize,
    /// How many threads to ask for.
    pub count: usize,
    /// Notifies of each of them.
    pub notifies: u32,
}

/// What to ask for, to have so many threads with so many notifies each. `there` are the notifies of those that were acquired, the most
/// first. None: there are enough.
pub fn threads(
    there: impl ExactSizeIterator<Item = u32>,
    count: usize,
    notifies: u32,
    product: Option<Product>,
) -> Option<Request> {
    let all = there.len();
    let fit = there.take_while(|has| *has >= notifies).count();
    if fit >= count {
        return None;
    }
    let notifies = match notifies {
        ..=64 => notifies.next_power_of_two().max(LEAST_OF_THREAD),
        _ => notifies,
    };
    // The 950 gives the same threads again, with the notifies that they lacked; the others give new ones.
    let (kept, count) = match product {
        Some(Product::A2 | Product::A3) => (all, count - fit),
        Some(Product::Ascend950) | None => (0, count.max(all)),
    };
    Some(Request { kept, count, notifies })
}

/// With how many notifies at each end to open a channel, for an operator that uses so many.
pub fn channel_notifies(uses: u32) -> u32 {
    match uses {
        ..=limits::CHANNEL_NOTIFIES => uses.next_power_of_two().max(LEAST_OF_CHANNEL),
        _ => uses,
    }
}

/// What one rank has acquired.
#[derive(Default)]
pub(crate) struct Holdings {
    /// Notifies of each thread, the most first.
    pub(crate) threads: Vec<u32>,
    /// Which operator opened the channel to a peer, and its notifies.
    pub(crate) channels: BTreeMap<u32, (usize, u32)>,
}

impl Holdings {
    /// Acquires what the operator `which` lacks.
    pub(crate) fn acquire(&mut self, which: usize, plan: &Plan, product: Option<Product>) {
        let (count, notifies) = (plan.threads_to_acquire() as usize, plan.notifies_per_thread());
        if let Some(request) = threads(self.threads.iter().copied(), count, notifies, product) {
            self.threads.truncate(request.kept);
            self.threads.extend(std::iter::repeat_n(request.notifies, request.count));
            self.threads.sort_unstable_by_key(|notifies| std::cmp::Reverse(*notifies));
        }
        for (peer, notifies) in &plan.channels {
            self.channels.entry(*peer).or_insert((which, channel_notifies(*notifies)));
        }
    }
}
