//! Where the messages of batches wait for their counterparts: one queue for each (source, destination), matched in order.
//!
//! A queue lies with its destination, under a lock that is held for a few dozen instructions at a time. Nothing here is allocated twice: messages and lists go back when a batch is done, and every rank has one [`Party`], because
//! its batches come strictly one after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use super::transfer::{Party, Transfer};
use super::{Books, Item};
use crate::collective::pending::Sleeper;
use crate::collective::sides::Sides;
use crate::collective::validate::name_of;
use crate::reduce::DataType;
use crate::sync::Short;

/// Most and least bytes of a chunk.
const CHUNKS: std::ops::RangeInclusive<usize> = 16 * 1024..=64 * 1024;

pub(super) type BatchParty = Party<Sleeper>;

/// Messages and lists that are kept for the next batches, at most: more than a program has on its way at a time.
const KEPT: usize = 4096;

/// In the place of a rank.
const NOBODY: u32 = u32::MAX;

/// What one side says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) dtype: DataType,
    /// Elements.
    pub(crate) count: u64,
    /// It is a call of its own (`HcclSend`, `HcclRecv`), not an item of a batch. The two do not go together.
    pub(crate) alone: bool,
}

impl Content {
    pub(crate) fn bytes(&self) -> usize {
        self.count as usize * self.dtype.size()
    }

    /// Bytes of a chunk. A message of its own is cut so that both of its sides can copy; in a batch each side mostly has
    /// messages enough, and sharing one costs more than it brings.
    fn chunk(&self) -> usize {
        let bytes = if self.alone { self.bytes() / 2 } else { usize::MAX / 2 };
        bytes.clamp(*CHUNKS.start(), *CHUNKS.end()).next_multiple_of(64)
    }
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {}", self.count, name_of(self.dtype))
    }
}

/// A message: posted by one side, then matched by the other.
pub(super) struct Message {
    pub(super) content: Content,
    from: AtomicPtr<u8>,
    to: AtomicPtr<u8>,
    /// Both addresses are there: chunks can be taken.
    matched: AtomicBool,
    pub(super) transfer: Transfer,
    /// The ranks whose batches it belongs to: who posted it, and who matched it. A message of a rank to itself has the second
    /// only.
    first: u32,
    second: AtomicU32,
}

impl Message {
    fn new(content: Content, from: *mut u8, to: *mut u8, first: u32) -> Self {
        Self {
            content,
            from: AtomicPtr::new(from),
            to: AtomicPtr::new(to),
            matched: AtomicBool::new(false),
            // At most 2^23 chunks: a count has 35 bits, an element 16 bytes.
            transfer: Transfer::new(content.bytes().div_ceil(content.chunk()) as u32),
            first,
            second: AtomicU32::new(NOBODY),
        }
    }

    /// Lets the copy begin, if `rank` is the one that completed the message.
    fn match_by(&self, rank: u32, exchange: &Exchange) {
        if self.second.load(Ordering::Relaxed) != rank {
            return;
        }
        self.matched.store(true, Ordering::SeqCst);
        if self.content.count == 0 {
            self.finish(exchange);
        } else if let Some(first) = exchange.ranks.get(self.first as usize) {
            // Its stream may be asleep, and could help.
            first.party.wake();
        }
    }

    /// The message belongs to nobody once both have heard of it.
    fn finish(&self, exchange: &Exchange) {
        for rank in [self.first, self.second.load(Ordering::Relaxed)] {
            if let Some(rank) = exchange.ranks.get(rank as usize) {
                rank.party.finish_one();
            }
        }
    }

    pub(super) fn is_matched(&self) -> bool {
        self.matched.load(Ordering::SeqCst)
    }

    /// Copies one chunk, if one is left.
    pub(super) fn copy_chunk(&self, exchange: &Exchange, from_the_back: bool) -> bool {
        if !self.is_matched() {
            return false;
        }
        let Some(chunk) = self.transfer.claim(from_the_back) else { return false };
        let start = chunk as usize * self.content.chunk();
        let bytes = self.content.bytes();
        let piece = self.content.chunk().min(bytes - start);
        let from = self.from.load(Ordering::Relaxed).wrapping_add(start);
        let to = self.to.load(Ordering::Relaxed).wrapping_add(start);
        // SAFETY: both buffers were checked to hold the content, and stay until their batches are complete, which they are only
        // after this chunk.
        unsafe { super::copy_piece(to, from, piece, bytes) };
        if self.transfer.finish() {
            self.finish(exchange);
        }
        true
    }
}

/// The messages of a communicator.
pub(crate) struct Exchange {
    ranks: Box<[Rank]>,
    /// Somebody has left.
    departures: AtomicBool,
}

/// The messages from one rank to another.
struct Pair {
    source: usize,
    /// At most one of the two has messages.
    sends: VecDeque<Arc<Message>>,
    receives: VecDeque<Arc<Message>>,
    /// Matched so far.
    matched: u64,
}

/// The batches of a rank.
#[repr(align(64))]
struct Rank {
    /// How many.
    issued: AtomicU64,
    posted: AtomicU64,
    left: AtomicBool,
    /// The one under way.
    party: BatchParty,
    /// For the next ones.
    books: Short<Vec<Books>>,
    /// What others send to the rank, for those that ever did, in the order of their ranks: a program mostly uses few of the
    /// possible pairs, and finds one of two by one comparison, one of a thousand by ten.
    inbox: Short<Vec<Pair>>,
    /// Messages that the rank posted first, and that no batch has any more.
    free: Short<Vec<Arc<Message>>>,
}

impl Exchange {
    pub(crate) fn new(ranks: usize) -> Self {
        let rank = |_| Rank {
            issued: AtomicU64::new(0),
            posted: AtomicU64::new(0),
            left: AtomicBool::new(false),
            party: BatchParty::default(),
            books: Short::new(Vec::new()),
            inbox: Short::new(Vec::new()),
            free: Short::new(Vec::new()),
        };
        Self { ranks: (0..ranks).map(rank).collect(), departures: AtomicBool::new(false) }
    }

    pub(super) fn party(&self, rank: usize) -> &BatchParty {
        &self.ranks[rank].party
    }

    /// Lists for a new batch; no items in them.
    pub(crate) fn take_books(&self, rank: usize) -> Books {
        self.ranks[rank].books.lock().pop().unwrap_or_default()
    }

    /// The batch is done with them.
    pub(super) fn put_back(&self, rank: usize, mut used: Books) {
        used.items.clear();
        let mut books = self.ranks[rank].books.lock();
        if books.len() < KEPT {
            books.push(used);
        }
    }

    /// Numbers the next batch of a rank. One thread at a time issues for a rank.
    pub(crate) fn issue(&self, rank: usize) -> u64 {
        let issued = &self.ranks[rank].issued;
        let number = issued.load(Ordering::Relaxed) + 1;
        issued.store(number, Ordering::Release);
        number
    }

    /// A batch that was numbered last was not enqueued after all.
    pub(crate) fn take_back(&self, rank: usize) {
        let issued = &self.ranks[rank].issued;
        issued.store(issued.load(Ordering::Relaxed) - 1, Ordering::Release);
    }

    /// Posts the items of a batch and matches those whose counterparts are there. The messages come in the order of the
    /// items, and instead of those that an earlier batch has left. The error is a text that shows both sides of the first
    /// that differs.
    pub(super) fn post(&self, rank: usize, books: &mut Books) -> Result<(), String> {
        let Books { items, messages } = books;
        self.ranks[rank].party.begin(items.len() as u64);
        messages.drain(..).for_each(|message| self.give_back(rank, message));
        let mut result = Ok(());
        for item in &*items {
            let (message, posted) = self.post_one(rank, item);
            messages.push(message);
            result = result.and(posted);
        }
        // When all are posted, because this may finish messages and wake streams.
        messages.iter().for_each(|message| message.match_by(rank as u32, self));
        let rank = &self.ranks[rank];
        rank.posted.fetch_add(1, Ordering::SeqCst);
        if rank.left.load(Ordering::SeqCst) {
            self.wake_all();
        }
        result
    }

    fn post_one(&self, rank: usize, item: &Item) -> (Arc<Message>, Result<(), String>) {
        let Item { send, peer, content, data, .. } = *item;
        if peer == rank {
            let message = self.message(rank, Message::new(content, item.from, data, NOBODY));
            message.second.store(rank as u32, Ordering::Relaxed);
            return (message, Ok(()));
        }
        let null = std::ptr::null_mut();
        let (from, to) = if send { (data, null) } else { (null, data) };
        let new = Message::new(content, from, to, rank as u32);
        let (source, destination) = item.way(rank);
        let mut inbox = self.ranks[destination].inbox.lock();
        let pair = pair(&mut inbox, source);
        let others = if send { &mut pair.receives } else { &mut pair.sends };
        let Some(other) = others.pop_front() else {
            let message = self.message(rank, new);
            let own = if send { &mut pair.sends } else { &mut pair.receives };
            own.push_back(Arc::clone(&message));
            return (message, Ok(()));
        };
        pair.matched += 1;
        if other.content != content {
            let (sent, expected) =
                if send { (content, other.content) } else { (other.content, content) };
            let text = mismatch(pair.matched, (source, destination), sent, expected);
            return (self.message(rank, new), Err(text));
        }
        if send { &other.from } else { &other.to }.store(data, Ordering::Relaxed);
        other.second.store(rank as u32, Ordering::Relaxed);
        (other, Ok(()))
    }

    /// A message of a rank, in the place of an old one if there is any.
    fn message(&self, rank: usize, new: Message) -> Arc<Message> {
        let old = self.ranks[rank].free.lock().pop();
        if let Some(mut place) = old
            && let Some(message) = Arc::get_mut(&mut place)
        {
            *message = new;
            return place;
        }
        Arc::new(new)
    }

    /// A batch of the rank has ended and leaves a message. The second of the two that had it makes it free: both come here, and
    /// only one at a time looks whether it is the last.
    fn give_back(&self, rank: usize, mut message: Arc<Message>) {
        let owner = self.ranks.get(message.first as usize).unwrap_or(&self.ranks[rank]);
        let mut free = owner.free.lock();
        if Arc::get_mut(&mut message).is_some() && free.len() < KEPT {
            free.push(message);
        } else {
            drop(message);
        }
    }

    /// Takes back what nobody has matched: after this the memory of these messages is not touched. Returns how many.
    pub(super) fn withdraw<'a>(
        &self,
        rank: usize,
        messages: impl Iterator<Item = (&'a Item, &'a Arc<Message>)>,
    ) -> usize {
        let mut withdrawn = 0;
        for (item, message) in messages {
            let (source, destination) = item.way(rank);
            let mut inbox = self.ranks[destination].inbox.lock();
            if message.second.load(Ordering::Relaxed) == NOBODY {
                let Pair { sends, receives, .. } = pair(&mut inbox, source);
                sends.retain(|other| !Arc::ptr_eq(other, message));
                receives.retain(|other| !Arc::ptr_eq(other, message));
                withdrawn += 1;
            }
        }
        withdrawn
    }

    /// Whether a rank will post nothing any more. What it has posted is matched, if it ever will be.
    #[inline]
    pub(super) fn is_gone(&self, rank: usize) -> bool {
        let rank = &self.ranks[rank];
        self.departures.load(Ordering::SeqCst)
            && rank.left.load(Ordering::SeqCst)
            && rank.posted.load(Ordering::SeqCst) == rank.issued.load(Ordering::SeqCst)
    }

    /// A rank issues nothing any more.
    pub(crate) fn leave(&self, rank: usize) {
        self.ranks[rank].left.store(true, Ordering::SeqCst);
        self.departures.store(true, Ordering::SeqCst);
        self.wake_all();
    }

    /// Wakes every batch that sleeps: something has changed before this call.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        self.ranks.iter().for_each(|rank| rank.party.wake());
    }
}

/// The queue of messages from a source, in the inbox of their destination.
fn pair(inbox: &mut Vec<Pair>, source: usize) -> &mut Pair {
    let at = inbox.binary_search_by_key(&source, |pair| pair.source).unwrap_or_else(|at| {
        let (sends, receives) = (VecDeque::new(), VecDeque::new());
        inbox.insert(at, Pair { source, sends, receives, matched: 0 });
        at
    });
    &mut inbox[at]
}

/// The two sides of a message, one below the other.
#[cold]
fn mismatch(number: u64, (from, to): (usize, usize), sent: Content, expected: Content) -> String {
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
    let says = |verb: &str, content: Content| {
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
