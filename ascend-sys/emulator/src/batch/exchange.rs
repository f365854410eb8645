//! The messages of a communicator: a [`MessageChannel`] for each pair (source, destination), and
//! the state of each rank.

use std::sync::OnceLock;
use std::sync::atomic::fence;

use super::channel::MessageChannel;
use super::item::{BatchItem, ItemState, MessageShape};
use super::party::Party;
use crate::collective::account::Account;
use crate::collective::sides::Sides;
use crate::collective::sleeper::Sleeper;
use crate::collective::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use crate::collective::validate::name_of;
use crate::processes::region::{Ground, Placed, SharedWords};
use ascend_sync::SpinLock;

/// The largest number of lists that a rank keeps for later batches. It is larger than the number of
/// batches that a program has in flight.
const KEPT: usize = 4096;

/// The messages of a communicator.
pub(crate) struct Exchange {
    /// The counters of each rank, which the rank writes for every batch.
    counts: Placed<BatchCounts>,
    /// Whether each rank sleeps. Other ranks read this after every step that they do for a rank.
    armed: Placed<Armed>,
    ranks: Box<[Rank]>,
    channels: PairChannels,
    /// Set if any rank has left.
    departures: Placed<Departures>,
}

/// The channels between ranks. The index of a channel is `destination * ranks + source`.
enum PairChannels {
    /// Channels on the heap. Each is made when it is needed, because a program usually uses few of
    /// the possible pairs.
    Heap(Box<[OnceLock<ChannelRow>]>),
    /// Channels in shared memory. They all exist, because shared memory that was never touched
    /// takes no room.
    Shared(Placed<MessageChannel>),
}

/// The channels of the messages that other ranks send to one rank.
type ChannelRow = Box<[OnceLock<Box<MessageChannel>>]>;

/// The state of a rank that only its own process needs.
#[repr(align(128))]
struct Rank {
    waker: Mutex<Option<Sleeper>>,
    /// Spare lists for later batches.
    lists: SpinLock<Vec<Vec<BatchItem>>>,
}

/// The counters of a rank's batches.
#[repr(C, align(128))]
struct BatchCounts {
    /// The number of batches that were issued. `posted` is the number of those that have posted all
    /// their messages.
    issued: AtomicU64,
    posted: AtomicU64,
    /// Not 0 if the rank has left.
    left: AtomicU32,
}

#[repr(C, align(128))]
struct Armed(AtomicU32);

#[repr(C, align(128))]
struct Departures(AtomicU32);

// SAFETY: atomic words: zeros are valid, and they hold no address.
unsafe impl SharedWords for BatchCounts {}
// SAFETY: an atomic word: zeros are valid, and it holds no address.
unsafe impl SharedWords for Armed {}
// SAFETY: an atomic word: zeros are valid, and it holds no address.
unsafe impl SharedWords for Departures {}

impl Exchange {
    pub(crate) fn new(ranks: usize, ground: &Ground) -> Self {
        let counts = |_| BatchCounts {
            issued: AtomicU64::new(0),
            posted: AtomicU64::new(0),
            left: AtomicU32::new(0),
        };
        let rank = |_| Rank { waker: Mutex::new(None), lists: SpinLock::new(Vec::new()) };
        let channels = match ground {
            Ground::Heap => PairChannels::Heap((0..ranks).map(|_| OnceLock::new()).collect()),
            _ => PairChannels::Shared(ground.place(ranks * ranks, |_| MessageChannel::new())),
        };
        Self {
            counts: ground.place(ranks, counts),
            armed: ground.place(ranks, |_| Armed(AtomicU32::new(0))),
            ranks: (0..ranks).map(rank).collect(),
            channels,
            departures: ground.place(1, |_| Departures(AtomicU32::new(0))),
        }
    }

    pub(crate) fn party(&self, rank: usize) -> Party<'_, Sleeper> {
        Party { armed: &self.armed[rank].0, waker: &self.ranks[rank].waker }
    }

    /// Returns the channel from one rank to another.
    fn channel(&self, source: usize, destination: usize) -> &MessageChannel {
        let ranks = self.ranks.len();
        match &self.channels {
            PairChannels::Heap(inboxes) => {
                let inbox = || (0..ranks).map(|_| OnceLock::new()).collect();
                let inbox = inboxes[destination].get_or_init(inbox);
                inbox[source].get_or_init(|| Box::new(MessageChannel::new()))
            }
            PairChannels::Shared(channels) => &channels[destination * ranks + source],
        }
    }

    /// Returns the channel of an item of `rank`.
    pub(crate) fn channel_of(&self, rank: usize, item: &BatchItem) -> &MessageChannel {
        let (source, destination) = item.way(rank);
        self.channel(source, destination)
    }

    /// Returns whether the other side has posted its side of an item of `rank`. A message of a rank
    /// to itself has no other side, and counts as matched.
    pub(crate) fn is_matched(&self, rank: usize, item: &BatchItem) -> bool {
        match item.state {
            ItemState::New => item.peer == rank,
            ItemState::Posted(number) => self.channel_of(rank, item).is_matched(number, item.send),
            ItemState::Copied(_) | ItemState::Over => true,
        }
    }

    /// Returns an empty list for a new batch.
    pub(crate) fn take_list(&self, rank: usize) -> Vec<BatchItem> {
        self.ranks[rank].lists.lock().pop().unwrap_or_default()
    }

    /// Takes back the list of a batch for reuse.
    pub(crate) fn put_back(&self, rank: usize, mut used: Vec<BatchItem>) {
        used.clear();
        let mut lists = self.ranks[rank].lists.lock();
        if lists.len() < KEPT {
            lists.push(used);
        }
    }

    /// Returns the number of the next batch of a rank. Only one thread at a time may issue for a
    /// rank.
    pub(crate) fn issue(&self, rank: usize) -> u64 {
        let issued = &self.counts[rank].issued;
        let number = issued.load(Ordering::Relaxed) + 1;
        issued.store(number, Ordering::Release);
        number
    }

    /// Takes back the last number, because its batch was not enqueued.
    pub(crate) fn take_back(&self, rank: usize) {
        let issued = &self.counts[rank].issued;
        issued.store(issued.load(Ordering::Relaxed) - 1, Ordering::Release);
    }

    /// Notes that messages of a batch of the rank, to or from these peers, were posted, and wakes
    /// the peers. `all` is set if these are the last messages of the batch.
    pub(crate) fn posted(&self, rank: usize, peers: impl Iterator<Item = usize>, all: bool) {
        let own = &self.counts[rank];
        if all {
            own.posted.store(own.posted.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        // Orders the post before the checks for sleepers and for a departure. Pairs with the
        // sequentially consistent operations in `Party::arm` and `leave`.
        fence(Ordering::SeqCst);
        peers.for_each(|peer| self.party(peer).wake());
        if all && own.left.load(Ordering::SeqCst) != 0 {
            self.wake_all();
        }
    }

    /// Returns whether a rank will post no more messages. If so, everything that it has posted is
    /// visible.
    #[inline]
    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        let own = &self.counts[rank];
        self.departures[0].0.load(Ordering::SeqCst) != 0
            && own.left.load(Ordering::SeqCst) != 0
            && own.posted.load(Ordering::SeqCst) == own.issued.load(Ordering::SeqCst)
    }

    /// Notes that a rank issues no more batches, and wakes all ranks.
    pub(crate) fn leave(&self, rank: usize) {
        self.counts[rank].left.store(1, Ordering::SeqCst);
        self.departures[0].0.store(1, Ordering::SeqCst);
        self.wake_all();
    }

    /// Wakes every sleeping batch after a change. The fence orders the change before the checks for
    /// sleepers.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        (0..self.ranks.len()).for_each(|rank| self.party(rank).wake());
    }
}

/// Returns a description of two sides of a message that differ.
#[cold]
pub(crate) fn mismatch(
    number: u64,
    (from, to): (usize, usize),
    sent: MessageShape,
    expected: MessageShape,
) -> Account {
    let differences: Vec<_> = [
        (sent.alone != expected.alone, "the functions"),
        (sent.count != expected.count, "the counts"),
        (sent.dtype != expected.dtype, "the data types"),
    ]
    .into_iter()
    .filter_map(|(differs, what)| differs.then_some(what))
    .collect();
    let differ = differences.join(" and ");
    let mut sides = Sides::default();
    let says = |verb: &str, content: MessageShape| {
        let function = match (content.alone, verb) {
            (false, _) => "HcclBatchSendRecv",
            (true, "sends") => "HcclSend",
            (true, _) => "HcclRecv",
        };
        let mut columns = vec![verb.into(), format!("count {}", content.count)];
        columns.push(name_of(content.dtype).into());
        if sent.alone != expected.alone {
            columns.push(format!("by {function}"));
        }
        columns
    };
    sides.says(from, says("sends", sent));
    sides.says(to, says("receives", expected));
    sides.under(&format!("{differ} of message #{number} from rank {from} to rank {to} differ"))
}
