//! The task of `HcclBatchSendRecv`: a list of messages. `HcclSend` and `HcclRecv` are lists of one
//! message.
//!
//! When the task reaches the head of its stream, it posts all its messages at once. So the order in
//! which ranks list their messages can never cause a deadlock. If there are many messages with one
//! peer, the task posts as many as there are free places, and the rest when places become free. The
//! task is complete when all its messages are copied. A batch that fails withdraws its messages
//! without a counterpart. Its other messages are first copied completely.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::channel::Found;
use crate::batch::exchange::mismatch;
use crate::batch::item::{BatchItem, ItemState, MessageShape};
use crate::collective::account::Account;
use crate::collective::caches::store_for;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::sleeper::Sleeper;
use crate::fabric::{Joint, Member};
use crate::lent::Lent;
use crate::message::Failure;
use crate::step::{Helpers, NEEDS, Need, PIECE, Reason, Step};
use crate::stream::Stream;
use crate::task::{Awaited, TaskBody};
use ascend_reduce::copy::copy;

/// A rank's batch.
pub(crate) struct PendingBatch {
    member: Lent<Member>,
    number: u64,
    items: Vec<BatchItem>,
    /// Whether all items are posted or withdrawn.
    posted: bool,
    /// The failure with which the batch ends when all of its running copies are finished.
    failure: Option<Failure>,
    /// The number of items at the start of the list that are in the state `Over`.
    over: usize,
}

impl Drop for PendingBatch {
    fn drop(&mut self) {
        let items = std::mem::take(&mut self.items);
        self.member.comm.exchange.put_back(self.member.rank, items);
    }
}

impl PendingBatch {
    /// Makes the batch `number` of the rank. It has at least one item, and the items are in the
    /// order of [`arrange`](crate::batch::item::arrange).
    ///
    /// # Safety
    ///
    /// As for [`Lent::new`].
    #[inline]
    pub(crate) unsafe fn new(member: &Arc<Member>, number: u64, items: Vec<BatchItem>) -> Self {
        // SAFETY: the caller's promise.
        let member = unsafe { Lent::new(member) };
        Self { member, number, items, posted: false, failure: None, over: 0 }
    }

    /// Makes progress: copies about one piece at most.
    #[inline]
    pub(crate) fn poll(&mut self) -> Step {
        if !self.posted {
            self.post();
        }
        let copied = self.copy();
        if self.is_over() {
            return self.complete();
        }
        if copied {
            return Step::Again;
        }
        // A batch that has failed waits until the chunks that other ranks hold are done, or until
        // those ranks are gone.
        let has_lost = self.member.comm.joint.as_ref().is_some_and(Joint::has_lost);
        if (self.failure.is_none() || has_lost)
            && let Some(error) = self.what_is_wrong()
        {
            self.withdraw(error);
            if self.is_over() {
                return self.complete();
            }
        }
        Step::Park
    }

    /// Returns whether nothing touches the memory of the batch any more.
    fn is_over(&mut self) -> bool {
        let rest = &self.items[self.over..];
        self.over += rest.iter().take_while(|item| item.state == ItemState::Over).count();
        self.over == self.items.len()
    }

    fn complete(&mut self) -> Step {
        self.member.comm.exchange.party(self.member.rank).rest();
        Step::Done(self.failure.take().map_or(Ok(()), Err))
    }

    /// Posts all items for which a place is free.
    fn post(&mut self) {
        let Member { comm, rank, .. } = &*self.member;
        let (exchange, rank) = (&comm.exchange, *rank);
        // The items of a pair are adjacent, and must be posted in order.
        let (mut full, mut posted) = (None, false);
        for item in &mut self.items[self.over..] {
            let way = (item.send, item.peer);
            if item.peer == rank || item.state != ItemState::New || full == Some(way) {
                continue;
            }
            match exchange.channel_of(rank, item).post(item.send, item.data, item.content) {
                Some(number) => {
                    item.state = ItemState::Posted(number);
                    posted = true;
                }
                None => full = Some(way),
            }
        }
        self.posted = full.is_none();
        if posted || self.posted {
            exchange.posted(rank, self.items.iter().map(|item| item.peer), self.posted);
        }
    }

    /// Copies about one piece of the available data. Returns whether any data was available.
    fn copy(&mut self) -> bool {
        let Member { comm, rank, .. } = &*self.member;
        let (exchange, rank) = (&comm.exchange, *rank);
        let mut copied = None;
        let (mut differs, mut astray) = (None, None);
        for item in &mut self.items[self.over..] {
            if copied.is_some_and(|bytes| bytes >= PIECE) {
                break;
            }
            let bytes = match item.state {
                ItemState::Over => continue,
                ItemState::New | ItemState::Copied(_) if item.peer == rank => item.copy_own(),
                ItemState::New | ItemState::Copied(_) => continue,
                ItemState::Posted(number) => {
                    let BatchItem { send, peer, content, .. } = *item;
                    let channel = exchange.channel_of(rank, item);
                    let find = |data: *mut u8, bytes| match &comm.joint {
                        None => Some(data),
                        Some(_) if bytes == 0 => Some(data),
                        Some(joint) => joint.find(peer, data.addr(), bytes),
                    };
                    match channel.look(number, send, content, find) {
                        Found::Nothing => continue,
                        Found::Differs(theirs) => {
                            differs = differs.or(Some((number, *item, theirs)));
                            continue;
                        }
                        Found::Astray => {
                            channel.finish(number);
                            astray = Some(peer);
                            0
                        }
                        Found::Done => {
                            item.state = ItemState::Over;
                            0
                        }
                        Found::Chunk(chunk) => {
                            // SAFETY: both buffers were checked to hold the content. They stay
                            // until their batches are complete, which is not before this chunk is
                            // done.
                            unsafe { copy_piece(chunk.to, chunk.from, chunk.bytes, content) };
                            if channel.finish(number) {
                                item.state = ItemState::Over;
                                exchange.party(peer).wake();
                            }
                            chunk.bytes
                        }
                    }
                }
            };
            copied = Some(copied.unwrap_or(0) + bytes);
        }
        if let Some((number, item, theirs)) = differs
            && self.failure.is_none()
        {
            let (sent, expected) =
                if item.send { (item.content, theirs) } else { (theirs, item.content) };
            let account = mismatch(number, item.way(rank), sent, expected);
            self.break_with(Cause::Message, account);
        }
        if let Some(peer) = astray
            && self.failure.is_none()
        {
            let text = format!(
                "rank {peer} has brought memory that its device does not have; check its process \
                 for writes to wrong addresses"
            );
            self.break_with(Cause::Gone, text);
        }
        copied.is_some()
    }

    /// Returns the error that prevents the rest of the batch, if there is one.
    fn what_is_wrong(&self) -> Option<Arc<CommError>> {
        let comm = &self.member.comm;
        if let Some(error) = comm.meeting.error() {
            return Some(error);
        }
        if let Some((ranks, why)) = comm.joint.as_ref().and_then(Joint::lost) {
            let waits =
                |item: &BatchItem| item.state != ItemState::Over && ranks.contains(&item.peer);
            if self.items.iter().any(waits) {
                return Some(comm.end_for(&ranks, why));
            }
        }
        let gone = self.unmatched().find(|item| comm.exchange.is_gone(item.peer))?;
        // This is checked after the departure, so everything that the peer posted before it left is
        // visible now.
        if comm.exchange.is_matched(self.member.rank, gone) {
            return None;
        }
        let gone = gone.peer;
        // If there is no reason yet, the shared word was set before the message with the reason has
        // arrived.
        let why = comm.board.departure(gone)?;
        let text = format!(
            "rank {gone} is gone ({why})\n  rank {} was exchanging messages with it",
            self.member.rank
        );
        Some(comm.fail(CommError::new(Origin::Batch, Cause::Gone, text)))
    }

    fn unmatched(&self) -> impl Iterator<Item = &BatchItem> {
        let (rank, exchange) = (self.member.rank, &self.member.comm.exchange);
        self.items.iter().filter(move |item| !exchange.is_matched(rank, item))
    }

    /// Returns the ranks that have not posted their sides of messages, each once.
    fn absent(&self) -> Vec<usize> {
        let ranks: BTreeSet<usize> = self.unmatched().map(|item| item.peer).collect();
        ranks.into_iter().collect()
    }

    #[cold]
    fn break_with(&mut self, cause: Cause, account: impl Into<Account>) {
        let error = CommError::new(Origin::Batch, cause, account).without(self.absent());
        let error = self.member.comm.fail(error);
        self.withdraw(error);
    }

    #[cold]
    fn withdraw(&mut self, error: Arc<CommError>) {
        let comm = &self.member.comm;
        let task = format!(
            "{} #{} of communicator \"{}\", rank {}",
            self.function(),
            self.number,
            comm.title(),
            self.member.rank
        );
        let text = error.told(error.cause.report_code(), Origin::Batch);
        self.failure
            .get_or_insert_with(|| Failure::new(error.cause.acl_error(), text).of_task(task));
        let (exchange, rank) = (&comm.exchange, self.member.rank);
        for item in &mut self.items {
            let BatchItem { send, content, peer, .. } = *item;
            // Neither this rank nor the lost rank holds a chunk now.
            let is_lost = comm.joint.as_ref().is_some_and(|joint| joint.is_lost(peer));
            let over = match item.state {
                ItemState::New => item.peer != rank,
                ItemState::Posted(number) => {
                    is_lost || exchange.channel_of(rank, item).withdraw(number, send, content)
                }
                ItemState::Copied(_) | ItemState::Over => false,
            };
            if over {
                item.state = ItemState::Over;
            }
        }
        if !self.posted {
            self.posted = true;
            exchange.posted(rank, std::iter::empty(), true);
        }
    }

    /// Registers the stream for a wake-up before a thread sleeps on the parked task. Returns true
    /// if the task must be polled instead.
    pub(crate) fn arm(&mut self, stream: &'static Stream) -> bool {
        let Member { comm, rank, .. } = &*self.member;
        let (exchange, rank) = (&comm.exchange, *rank);
        exchange.party(rank).arm(Sleeper::Stream(stream));
        let helps = |item: &BatchItem| match item.state {
            ItemState::New => {
                item.peer == rank || exchange.channel_of(rank, item).next(item.send).is_some()
            }
            ItemState::Posted(number) => {
                !exchange.channel_of(rank, item).is_quiet(number, item.send, item.content)
            }
            ItemState::Copied(_) => true,
            ItemState::Over => false,
        };
        self.items[self.over..].iter().any(helps)
            || (self.failure.is_none() && self.what_is_wrong().is_some())
    }

    /// Fails the batch: withdraws the messages without a counterpart.
    pub(crate) fn expire(&mut self, why: &Reason) -> Step {
        let is_new =
            |item: &BatchItem| item.state == ItemState::New && item.peer != self.member.rank;
        let has_waited = matches!(why, Reason::Timeout(_) | Reason::Deadlock(_));
        // The stream failed before it reached these messages, so the tasks that should have
        // produced their data failed too.
        let is_unbegun = !has_waited && self.items.iter().any(is_new);
        if has_waited && !self.posted {
            self.post();
        }
        if self.failure.is_none() && (is_unbegun || self.unmatched().next().is_some()) {
            let (rank, waits) = (self.member.rank, self.waits_for());
            let (cause, text) = match why {
                Reason::Timeout(limit) => {
                    let seconds = limit.as_secs_f64();
                    let headline = format!("messages found no counterpart within {seconds:.1} s");
                    (Cause::Timeout, format!("{headline}\n  rank {rank} was {waits}"))
                }
                Reason::Deadlock(_) => (Cause::Deadlock, why.text().to_string()),
                why if is_unbegun => {
                    let text = why.text();
                    (Cause::Gone, format!("rank {rank} gave up before its messages began: {text}"))
                }
                why => (Cause::Gone, format!("rank {rank} gave up, {waits}: {}", why.text())),
            };
            self.break_with(cause, text);
            self.failure = self.failure.take().map(|failure| failure.with_code(why.code()));
        }
        self.poll()
    }

    /// Returns the tasks and calls that could let the parked batch go on: see `deadlock`.
    pub(crate) fn helpers(&self) -> Helpers {
        let Member { comm, rank, .. } = &*self.member;
        let unmatched: Vec<&BatchItem> = self.unmatched().collect();
        // If no message is unmatched, another process is copying the rest.
        if self.failure.is_some() || (comm.is_joint() && unmatched.is_empty()) {
            return Helpers::Anybody;
        }
        let is_own = |rank| comm.joint.as_ref().is_none_or(|joint| joint.is_own(rank));
        let own = unmatched.iter().filter(|item| is_own(item.peer)).take(NEEDS);
        let other_side = |item: &&BatchItem| Need::Message {
            comm: comm.id,
            rank: item.peer,
            peer: *rank,
            sends: !item.send,
        };
        Helpers::Queued(own.map(other_side).chain(comm.abroad()).collect())
    }

    /// Returns whether the batch posts the message that another task needs.
    fn provides(&self, need: &Need) -> bool {
        let Need::Message { comm, rank, peer, sends } = need else { return false };
        let Member { comm: own, rank: me, .. } = &*self.member;
        (own.id, *me) == (*comm, *rank)
            && self.items.iter().any(|item| item.peer == *peer && item.send == *sends)
    }

    fn name(&self) -> String {
        format!("{} #{} of rank {}", self.function(), self.number, self.member.rank)
    }

    fn function(&self) -> &'static str {
        match self.items.first() {
            Some(BatchItem { content: MessageShape { alone: true, .. }, send, .. }) => {
                if *send {
                    "HcclSend"
                } else {
                    "HcclRecv"
                }
            }
            _ => "HcclBatchSendRecv",
        }
    }

    fn waits_for(&self) -> String {
        const MENTIONED: usize = 8;
        let waits: Vec<_> = self
            .unmatched()
            .map(|BatchItem { send, peer, content, .. }| match send {
                true => format!("rank {peer} to receive {content}"),
                false => format!("rank {peer} to send {content}"),
            })
            .take(MENTIONED)
            .collect();
        if waits.is_empty() {
            return "not waiting for any rank".into();
        }
        format!("waiting for {}", waits.join(", "))
    }

    /// Describes the batch and the ranks that it waits for, for error texts.
    pub(crate) fn describe(&self) -> String {
        let name = &self.member.comm.title();
        format!("{} of communicator \"{name}\", {}", self.name(), self.waits_for())
    }
}

impl TaskBody<Stream> for PendingBatch {
    #[inline]
    fn poll(&mut self, _: &'static Stream) -> Step {
        self.poll()
    }

    #[inline]
    fn keep(&mut self) {
        self.member.keep();
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        self.arm(stream)
    }

    fn expire(&mut self, _: &'static Stream, why: &Reason) -> Step {
        self.expire(why)
    }

    /// Returns the time limit for the wait for other ranks.
    fn limit(&self) -> Option<Duration> {
        self.member.exec_timeout
    }

    fn helpers(&self) -> Helpers {
        self.helpers()
    }

    fn awaits(&self) -> Awaited {
        if self.failure.is_none() { self.absent().into() } else { Awaited::default() }
    }

    fn provides(&self, need: &Need) -> bool {
        self.provides(need)
    }

    fn describe(&self) -> String {
        self.describe()
    }
}

impl BatchItem {
    /// Copies the next piece of a message of the rank to itself. Returns the number of bytes.
    fn copy_own(&mut self) -> usize {
        let done = if let ItemState::Copied(done) = self.state { done } else { 0 };
        let bytes = (self.content.bytes() - done).min(PIECE);
        let (to, from) = (self.data.wrapping_add(done), self.from.wrapping_add(done));
        // SAFETY: both buffers were checked to hold the content, and stay until the batch is
        // complete.
        unsafe { copy_piece(to, from, bytes, self.content) };
        let done = done + bytes;
        self.state =
            if done == self.content.bytes() { ItemState::Over } else { ItemState::Copied(done) };
        bytes
    }
}

/// Copies a piece of a message.
///
/// # Safety
///
/// Both ranges are mapped for `bytes` bytes, and the destination is writable.
unsafe fn copy_piece(to: *mut u8, from: *const u8, bytes: usize, message: MessageShape) {
    let store = store_for(message.bytes().saturating_mul(2));
    // SAFETY: the caller's promise.
    unsafe { copy(to, from, bytes, store) };
}
