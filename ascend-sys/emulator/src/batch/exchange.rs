//! Where the messages of batches wait for their counterparts: one queue for each (source, destination), matched in order.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::transfer::{Party, Transfer};
use crate::collective::pending::Sleeper;
use crate::collective::validate::name_of;
use crate::reduce::DataType;

/// Most bytes of a chunk.
pub(super) const CHUNK: usize = 64 * 1024;

pub(super) type BatchParty = Party<Sleeper>;

/// What one side says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) dtype: DataType,
    /// Elements.
    pub(crate) count: u64,
}

impl Content {
    pub(crate) fn bytes(&self) -> usize {
        self.count as usize * self.dtype.size()
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
    /// The batches that it belongs to; a message of a rank to itself belongs to one.
    first: Arc<BatchParty>,
    second: OnceLock<Arc<BatchParty>>,
}

impl Message {
    fn new(content: Content, from: *mut u8, to: *mut u8, first: &Arc<BatchParty>) -> Self {
        Self {
            content,
            from: AtomicPtr::new(from),
            to: AtomicPtr::new(to),
            matched: AtomicBool::new(false),
            // At most 2^23 chunks: a count has 35 bits, an element 16 bytes.
            transfer: Transfer::new(content.bytes().div_ceil(CHUNK) as u32),
            first: Arc::clone(first),
            second: OnceLock::new(),
        }
    }

    /// A message of a rank to itself.
    pub(super) fn local(
        content: Content,
        from: *mut u8,
        to: *mut u8,
        party: &Arc<BatchParty>,
    ) -> Self {
        let message = Self::new(content, from, to, party);
        message.match_now();
        message
    }

    /// Both addresses are set; `party` is the batch that set the second.
    fn match_by(&self, party: &Arc<BatchParty>) {
        if self.second.get().is_some_and(|second| Arc::ptr_eq(second, party)) {
            self.match_now();
        }
    }

    fn match_now(&self) {
        self.matched.store(true, Ordering::SeqCst);
        if self.content.count == 0 {
            self.finish();
        } else {
            // Its stream may be asleep, and could help.
            self.first.wake();
        }
    }

    fn finish(&self) {
        self.first.finish_one();
        if let Some(second) = self.second.get() {
            second.finish_one();
        }
    }

    pub(super) fn is_matched(&self) -> bool {
        self.matched.load(Ordering::SeqCst)
    }

    /// Copies one chunk, if one is left.
    pub(super) fn copy_chunk(&self, from_the_back: bool) -> bool {
        if !self.is_matched() {
            return false;
        }
        let Some(chunk) = self.transfer.claim(from_the_back) else { return false };
        let start = chunk as usize * CHUNK;
        let bytes = self.content.bytes();
        let piece = CHUNK.min(bytes - start);
        let from = self.from.load(Ordering::Relaxed).wrapping_add(start);
        let to = self.to.load(Ordering::Relaxed).wrapping_add(start);
        // SAFETY: both buffers were checked to hold the content, and stay until their batches are complete, which they are only
        // after this chunk.
        unsafe { super::copy_piece(to, from, piece, bytes) };
        if self.transfer.finish() {
            self.finish();
        }
        true
    }
}

/// The messages of a communicator.
pub(crate) struct Exchange {
    state: Mutex<State>,
    ranks: Box<[Rank]>,
    /// Somebody has left.
    departures: AtomicBool,
}

struct State {
    pairs: HashMap<(usize, usize), Pair>,
    /// Batches whose streams are asleep, by rank.
    asleep: Vec<Vec<Arc<BatchParty>>>,
}

#[derive(Default)]
struct Pair {
    /// At most one of the two has messages.
    sends: VecDeque<Arc<Message>>,
    receives: VecDeque<Arc<Message>>,
    /// Matched so far.
    matched: u64,
}

/// Counts the batches of a rank.
#[derive(Default)]
#[repr(align(64))]
struct Rank {
    issued: AtomicU64,
    posted: AtomicU64,
    left: AtomicBool,
}

/// One item of a batch, on its way into the exchange.
pub(super) struct Posting {
    pub(super) send: bool,
    pub(super) peer: usize,
    pub(super) content: Content,
    pub(super) data: *mut u8,
}

impl Exchange {
    pub(crate) fn new(ranks: usize) -> Self {
        let state = State { pairs: HashMap::new(), asleep: vec![Vec::new(); ranks] };
        Self {
            state: Mutex::new(state),
            ranks: (0..ranks).map(|_| Rank::default()).collect(),
            departures: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers the next batch of a rank. One thread at a time issues for a rank.
    pub(crate) fn issue(&self, rank: usize) -> u64 {
        self.ranks[rank].issued.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// A batch that was numbered last was not enqueued after all.
    pub(crate) fn take_back(&self, rank: usize) {
        self.ranks[rank].issued.fetch_sub(1, Ordering::AcqRel);
    }

    /// Posts the items of a batch, in one step, and matches those whose counterparts are there. The messages come in the
    /// order of the items. The error is a text that shows both sides of the first that differs.
    pub(super) fn post(
        &self,
        rank: usize,
        postings: impl Iterator<Item = Posting>,
        party: &Arc<BatchParty>,
        messages: &mut Vec<Arc<Message>>,
    ) -> Result<(), String> {
        let first = messages.len();
        let mut result = Ok(());
        {
            let mut state = self.lock();
            for posting in postings {
                let (message, posted) = state.post(rank, &posting, party);
                messages.push(message);
                result = result.and(posted);
            }
        }
        // Without the lock, because this may finish messages and wake streams.
        messages[first..].iter().for_each(|message| message.match_by(party));
        let rank = &self.ranks[rank];
        rank.posted.fetch_add(1, Ordering::SeqCst);
        if rank.left.load(Ordering::SeqCst) {
            self.wake_all();
        }
        result
    }

    /// The stream of a batch is about to sleep: [`Exchange::wake_all`] reaches it from now on.
    pub(super) fn note_asleep(&self, rank: usize, party: &Arc<BatchParty>) {
        self.lock().asleep[rank].push(Arc::clone(party));
    }

    /// A batch that was asleep is complete.
    pub(super) fn note_complete(&self, rank: usize, party: &Arc<BatchParty>) {
        self.lock().asleep[rank].retain(|other| !Arc::ptr_eq(other, party));
    }

    /// Takes back what nobody has matched: after this the memory of these messages is not touched. Returns how many.
    pub(super) fn withdraw<'a>(&self, messages: impl Iterator<Item = &'a Arc<Message>>) -> usize {
        let mut state = self.lock();
        let mut withdrawn = 0;
        for message in
            messages.filter(|message| !message.is_matched() && message.second.get().is_none())
        {
            for pair in state.pairs.values_mut() {
                pair.sends.retain(|other| !Arc::ptr_eq(other, message));
                pair.receives.retain(|other| !Arc::ptr_eq(other, message));
            }
            withdrawn += 1;
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

    /// Wakes every batch that sleeps.
    pub(crate) fn wake_all(&self) {
        let asleep: Vec<_> = self.lock().asleep.iter().flatten().cloned().collect();
        asleep.iter().for_each(|party| party.wake());
    }
}

impl State {
    fn post(
        &mut self,
        rank: usize,
        posting: &Posting,
        party: &Arc<BatchParty>,
    ) -> (Arc<Message>, Result<(), String>) {
        let Posting { send, peer, content, data } = *posting;
        let null = std::ptr::null_mut();
        let (from, to) = if send { (data, null) } else { (null, data) };
        let key = if send { (rank, peer) } else { (peer, rank) };
        let pair = self.pairs.entry(key).or_default();
        let others = if send { &mut pair.receives } else { &mut pair.sends };
        let Some(other) = others.pop_front() else {
            let message = Arc::new(Message::new(content, from, to, party));
            let own = if send { &mut pair.sends } else { &mut pair.receives };
            own.push_back(Arc::clone(&message));
            return (message, Ok(()));
        };
        pair.matched += 1;
        if other.content != content {
            let (sent, expected) =
                if send { (content, other.content) } else { (other.content, content) };
            let text = format!(
                "message #{} from rank {} to rank {} does not match: rank {} sends {sent}, rank {} receives {expected}",
                pair.matched, key.0, key.1, key.0, key.1
            );
            return (Arc::new(Message::new(content, from, to, party)), Err(text));
        }
        if send { &other.from } else { &other.to }.store(data, Ordering::Relaxed);
        // Set once: whoever takes a message out of its queue is the only one to do so.
        let _ = other.second.set(Arc::clone(party));
        (other, Ok(()))
    }
}
