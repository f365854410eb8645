//! The messages of a communicator: a [`MessageChannel`] for each (source, destination), and what each rank has for itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use super::channel::MessageChannel;
use super::item::{BatchItem, ItemState, MessageShape};
use super::party::Party;
use crate::collective::account::Account;
use crate::collective::sides::Sides;
use crate::collective::sleeper::Sleeper;
use crate::collective::validate::name_of;
use ascend_sync::SpinLock;

/// Lists that are kept for the next batches, at most: more than a program has on its way at a time.
const KEPT: usize = 4096;

/// The messages of a communicator.
pub(crate) struct Exchange {
    ranks: Box<[Rank]>,
    /// Somebody has left.
    departures: AtomicBool,
}

/// The batches of a rank.
struct Rank {
    own: Own,
    /// Looked at by others whenever they have done something for it.
    party: Apart<Party<Sleeper>>,
    /// What others send to the rank, made when it is needed: a program mostly uses few of the possible pairs.
    inbox: OnceLock<Box<[OnceLock<Box<MessageChannel>>]>>,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

/// Written by the rank at every batch.
#[repr(align(128))]
struct Own {
    /// How many.
    issued: AtomicU64,
    posted: AtomicU64,
    left: AtomicBool,
    /// For the next ones.
    lists: SpinLock<Vec<Vec<BatchItem>>>,
}

impl Exchange {
    pub(crate) fn new(ranks: usize) -> Self {
        let own = || Own {
            issued: AtomicU64::new(0),
            posted: AtomicU64::new(0),
            left: AtomicBool::new(false),
            lists: SpinLock::new(Vec::new()),
        };
        let rank = |_| Rank { own: own(), party: Apart(Party::default()), inbox: OnceLock::new() };
        Self { ranks: (0..ranks).map(rank).collect(), departures: AtomicBool::new(false) }
    }

    pub(crate) fn party(&self, rank: usize) -> &Party<Sleeper> {
        &self.ranks[rank].party.0
    }

    /// The messages from one rank to another.
    fn channel(&self, source: usize, destination: usize) -> &MessageChannel {
        let row = || (0..self.ranks.len()).map(|_| OnceLock::new()).collect();
        let row = self.ranks[destination].inbox.get_or_init(row);
        row[source].get_or_init(|| Box::new(MessageChannel::new()))
    }

    /// The messages that go the way of an item of `rank`.
    pub(crate) fn channel_of(&self, rank: usize, item: &BatchItem) -> &MessageChannel {
        let (source, destination) = item.way(rank);
        self.channel(source, destination)
    }

    /// Whether the other side of an item of `rank` is there; a message to itself has none.
    pub(crate) fn is_matched(&self, rank: usize, item: &BatchItem) -> bool {
        match item.state {
            ItemState::New => item.peer == rank,
            ItemState::Posted(number) => self.channel_of(rank, item).is_matched(number, item.send),
            ItemState::Copied(_) | ItemState::Over => true,
        }
    }

    /// A list for a new batch; nothing is in it.
    pub(crate) fn take_list(&self, rank: usize) -> Vec<BatchItem> {
        self.ranks[rank].own.lists.lock().pop().unwrap_or_default()
    }

    /// The batch is done with it.
    pub(crate) fn put_back(&self, rank: usize, mut used: Vec<BatchItem>) {
        used.clear();
        let mut lists = self.ranks[rank].own.lists.lock();
        if lists.len() < KEPT {
            lists.push(used);
        }
    }

    /// Numbers the next batch of a rank. One thread at a time issues for a rank.
    pub(crate) fn issue(&self, rank: usize) -> u64 {
        let issued = &self.ranks[rank].own.issued;
        let number = issued.load(Ordering::Relaxed) + 1;
        issued.store(number, Ordering::Release);
        number
    }

    /// A batch that was numbered last was not enqueued after all.
    pub(crate) fn take_back(&self, rank: usize) {
        let issued = &self.ranks[rank].own.issued;
        issued.store(issued.load(Ordering::Relaxed) - 1, Ordering::Release);
    }

    /// Messages of a batch of the rank were posted, to or from these peers. `all`: the last ones.
    pub(crate) fn posted(&self, rank: usize, peers: impl Iterator<Item = usize>, all: bool) {
        let own = &self.ranks[rank].own;
        if all {
            own.posted.store(own.posted.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
        // Before the look who sleeps, and the look whether the rank has left.
        fence(Ordering::SeqCst);
        peers.for_each(|peer| self.party(peer).wake());
        if all && own.left.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    /// Whether a rank will post nothing any more. What it has posted can be seen by now.
    #[inline]
    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        let own = &self.ranks[rank].own;
        self.departures.load(Ordering::SeqCst)
            && own.left.load(Ordering::SeqCst)
            && own.posted.load(Ordering::SeqCst) == own.issued.load(Ordering::SeqCst)
    }

    /// A rank issues nothing any more.
    pub(crate) fn leave(&self, rank: usize) {
        self.ranks[rank].own.left.store(true, Ordering::SeqCst);
        self.departures.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// Wakes every batch that sleeps: something has changed before this call.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        self.ranks.iter().for_each(|rank| rank.party.0.wake());
    }
}

/// The two sides of a message, one below the other.
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
