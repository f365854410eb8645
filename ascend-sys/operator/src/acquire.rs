//! The resources that a communicator of `hccl` acquires for operators that run one after the other.
//! Later operators use acquired resources again, and nothing can be given back.
//!
//! `hccl` calls this module before it acquires. The checker simulates the same for operators that
//! run one after the other.

use crate::plan::{Plan, Product, limits};
use std::collections::BTreeMap;

/// The smallest number of notifies with which an end of a channel is opened. The end cannot get
/// more later, and the next operator may need more.
const LEAST_OF_CHANNEL: u32 = 8;
/// The smallest number of notifies with which a thread is acquired. On most products the thread
/// cannot get more later.
const LEAST_OF_THREAD: u32 = 4;

/// The arguments with which to acquire threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of threads to acquire.
    pub count: usize,
    /// The number of notifies of each thread.
    pub notifies: u32,
    /// Whether the returned threads include the existing ones. If true, the existing threads keep
    /// their notifies and get those that they lack. If false, all returned threads are new.
    pub again: bool,
}

/// Returns the arguments of the call that provides `count` threads with at least `notifies`
/// notifies each. `there` holds the number of notifies of each thread acquired so far, the largest
/// first. Returns `None` if the acquired threads are enough.
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
    let again = !matches!(product, Some(Product::A2 | Product::A3));
    let count = if again { count.max(all) } else { count - fit };
    Some(Request { count, notifies, again })
}

/// Returns the number of notifies at each end with which to open a channel for an operator that
/// uses `uses` of them.
pub fn channel_notifies(uses: u32) -> u32 {
    match uses {
        ..=limits::CHANNEL_NOTIFIES => uses.next_power_of_two().max(LEAST_OF_CHANNEL),
        _ => uses,
    }
}

/// The resources that one rank has acquired.
#[derive(Default)]
pub(crate) struct Holdings {
    /// The number of notifies of each thread, the largest number first.
    pub(crate) threads: Vec<u32>,
    /// The channel to each peer: the operator that opened it, and the number of its notifies.
    pub(crate) channels: BTreeMap<u32, (usize, u32)>,
}

impl Holdings {
    /// Acquires the resources that the operator `which` needs and does not have yet.
    pub(crate) fn acquire(&mut self, which: usize, plan: &Plan, product: Option<Product>) {
        let (count, notifies) = (plan.threads_to_acquire() as usize, plan.notifies_per_thread());
        if let Some(request) = threads(self.threads.iter().copied(), count, notifies, product) {
            let Request { count, notifies, again } = request;
            let same = if again { self.threads.len() } else { 0 };
            self.threads.iter_mut().take(same).for_each(|has| *has = notifies.max(*has));
            self.threads.extend(std::iter::repeat_n(notifies, count - same));
            self.threads.sort_unstable_by_key(|notifies| std::cmp::Reverse(*notifies));
        }
        for (peer, notifies) in &plan.channels {
            self.channels.entry(*peer).or_insert((which, channel_notifies(*notifies)));
        }
    }
}
