//! `HcclBatchSendRecv`: a list of messages as one task. `HcclSend` and `HcclRecv` are such a list of one message.
//!
//! When it reaches the head of its stream it posts all its messages at once, so the order in which ranks list them can never make
//! them wait for one another. The task is complete when all its messages are copied. Giving up takes back what has no counterpart yet; what has
//! one is copied to its end first.

mod exchange;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use crate::collective::meeting::{Breakage, Cause, Origin};
use crate::collective::pending::Sleeper;
use crate::collective::plan::store_for;
use crate::copy::copy;
use crate::deadlock::Helpers;
use crate::fabric::Member;
use crate::lent::Lent;
use crate::message::Failure;
use crate::stream::Stream;
use crate::task::{Reason, Step};

use exchange::{BatchParty, Message};
pub(crate) use exchange::{Content, Exchange};

/// One item of a call, checked and resolved.
#[derive(Clone)]
pub(crate) struct Item {
    /// Otherwise it receives.
    pub(crate) send: bool,
    pub(crate) peer: usize,
    pub(crate) content: Content,
    /// Of the rank.
    pub(crate) data: *mut u8,
    /// Where the data comes from, if the peer is the rank itself; such an item counts as a receive.
    pub(crate) from: *mut u8,
    /// Where the caller's list has it.
    pub(crate) index: u32,
}

impl Item {
    /// Source and destination, for an item of `rank`.
    fn way(&self, rank: usize) -> (usize, usize) {
        if self.send { (rank, self.peer) } else { (self.peer, rank) }
    }
}

// SAFETY: the pointers were resolved at issue and their pages stay until the batch is complete; they are touched by the copy kernels only.
unsafe impl Send for Item {}

/// The lists of a batch. Their memory serves one batch after the other.
#[derive(Default)]
pub(crate) struct Books {
    /// To the rank itself first, then what it receives, then what it sends.
    pub(crate) items: Vec<Item>,
    /// One for each item when the batch is posted; before that, what an earlier batch has left.
    messages: Vec<Arc<Message>>,
}

/// One rank's batch.
pub(crate) struct Pending {
    member: Lent<Member>,
    number: u64,
    books: Books,
    posted: bool,
    /// Why it fails, once all that is under way is finished.
    failure: Option<Failure>,
    /// The messages below have no chunk left to take.
    cursor: usize,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let books = std::mem::take(&mut self.books);
        self.member.comm.exchange.put_back(self.member.rank, books);
    }
}

impl Pending {
    /// The items of batch `number` of the rank, at least one.
    ///
    /// # Safety
    ///
    /// As for [`Lent::new`].
    #[inline]
    pub(crate) unsafe fn new(member: &Arc<Member>, number: u64, books: Books) -> Self {
        // SAFETY: the caller's promise.
        let member = unsafe { Lent::new(member) };
        Self { member, number, books, posted: false, failure: None, cursor: 0 }
    }

    /// See [`Lent::keep`].
    #[inline]
    pub(crate) fn keep(&mut self) {
        self.member.keep();
    }

    fn party(&self) -> &BatchParty {
        self.member.comm.exchange.party(self.member.rank)
    }

    /// Makes progress: copies at most one chunk.
    #[inline]
    pub(crate) fn poll(&mut self) -> Step {
        if !self.posted {
            self.post();
        }
        let copied = self.copy_something();
        if self.party().is_done() {
            return self.complete();
        }
        if copied {
            return Step::Again;
        }
        if self.failure.is_none()
            && let Some(breakage) = self.what_is_wrong()
        {
            self.withdraw(breakage);
            if self.party().is_done() {
                return self.complete();
            }
        }
        Step::Park
    }

    fn complete(&mut self) -> Step {
        Step::Done(self.failure.take().map_or(Ok(()), Err))
    }

    fn post(&mut self) {
        self.posted = true;
        if let Err(text) = self.member.comm.exchange.post(self.member.rank, &mut self.books) {
            self.break_with(Cause::Message, text);
        }
    }

    /// The items with their messages, none before they are posted.
    fn messages(&self) -> impl Iterator<Item = (&Item, &Arc<Message>)> {
        let posted = if self.posted { &*self.books.messages } else { &[] };
        self.books.items.iter().zip(posted)
    }

    fn copy_something(&mut self) -> bool {
        let mut cursor = self.cursor;
        let mut copied = false;
        for (index, (item, message)) in self.messages().enumerate().skip(cursor) {
            copied = message.copy_chunk(&self.member.comm.exchange, item.send);
            if copied {
                break;
            }
            if cursor == index && message.is_matched() && message.transfer.is_taken() {
                cursor += 1;
            }
        }
        self.cursor = cursor;
        copied
    }

    /// Whether the rest of the batch can still come.
    fn what_is_wrong(&self) -> Option<Arc<Breakage>> {
        let comm = &self.member.comm;
        if let Some(breakage) = comm.meeting.breakage() {
            return Some(breakage);
        }
        let gone = self.unmatched().find(|(item, _)| comm.exchange.is_gone(item.peer));
        // Asked after the look at the peer: what it posted before it left is matched by now.
        let gone = gone.filter(|(_, message)| !message.is_matched())?.0.peer;
        let why = comm.board.why_gone(gone);
        let text = format!(
            "rank {gone} is gone ({why})\n  rank {} was exchanging messages with it",
            self.member.rank
        );
        Some(comm.fail(Breakage { origin: Origin::Batch, cause: Cause::Gone, text }))
    }

    fn unmatched(&self) -> impl Iterator<Item = (&Item, &Arc<Message>)> {
        self.messages().filter(|(_, message)| !message.is_matched())
    }

    #[cold]
    fn break_with(&mut self, cause: Cause, text: String) {
        let breakage = Breakage { origin: Origin::Batch, cause, text };
        let breakage = self.member.comm.fail(breakage);
        self.withdraw(breakage);
    }

    #[cold]
    fn withdraw(&mut self, breakage: Arc<Breakage>) {
        let comm = &self.member.comm;
        let task = format!(
            "{} #{} of communicator \"{}\", rank {}",
            self.function(),
            self.number,
            comm.name,
            self.member.rank
        );
        let text = breakage.told(breakage.cause.report_code(), Origin::Batch);
        self.failure = Some(Failure::new(breakage.cause.acl_error(), text).of_task(task));
        let withdrawn = comm.exchange.withdraw(self.member.rank, self.messages());
        (0..withdrawn).for_each(|_| self.party().finish_one());
    }

    /// A thread is about to sleep on the parked task. True if polling helps already.
    pub(crate) fn arm(&mut self, stream: &'static Stream) -> bool {
        self.party().arm(Sleeper(stream));
        let work = |message: &Message| message.is_matched() && !message.transfer.is_taken();
        self.party().is_done()
            || self.messages().any(|(_, message)| work(message))
            || (self.failure.is_none() && self.what_is_wrong().is_some())
    }

    /// Gives up what has no counterpart yet.
    pub(crate) fn expire(&mut self, why: &Reason) -> Step {
        if !self.posted {
            self.post();
        }
        if self.failure.is_none() && self.unmatched().next().is_some() {
            let (rank, waits) = (self.member.rank, self.waits_for());
            let (cause, text) = match why {
                Reason::Timeout(limit) => {
                    let seconds = limit.as_secs_f64();
                    let headline = format!("messages found no counterpart within {seconds:.1} s");
                    (Cause::Timeout, format!("{headline}\n  rank {rank} was {waits}"))
                }
                Reason::Deadlock(_) => (Cause::Timeout, why.text().to_string()),
                why => (Cause::Gone, format!("rank {rank} gave up, {waits}: {}", why.text())),
            };
            self.break_with(cause, text);
            if let Some(failure) = &mut self.failure {
                failure.code = why.code();
            }
        }
        self.poll()
    }

    /// Who could help the parked batch: see `deadlock`.
    pub(crate) fn helpers(&self) -> Helpers {
        match self.failure {
            None => Helpers::Threads(
                self.unmatched().map(|(item, _)| self.member.comm.user(item.peer)).collect(),
            ),
            Some(_) => Helpers::Anybody,
        }
    }

    /// How long it may wait for its counterparts.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.member.exec_timeout
    }

    fn name(&self) -> String {
        format!("{} #{} of rank {}", self.function(), self.number, self.member.rank)
    }

    fn function(&self) -> &'static str {
        match self.books.items.first() {
            Some(Item { content: Content { alone: true, .. }, send, .. }) => {
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
            .map(|(Item { send, peer, content, .. }, _)| match send {
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

    /// For messages: what it is and what it waits for.
    pub(crate) fn describe(&self) -> String {
        let name = &self.member.comm.name;
        format!("{} of communicator \"{name}\", {}", self.name(), self.waits_for())
    }
}

/// Copies a piece of a message of `total` bytes.
///
/// # Safety
///
/// Both ranges are mapped; the destination is writable.
unsafe fn copy_piece(to: *mut u8, from: *const u8, bytes: usize, total: usize) {
    let store = store_for(total.saturating_mul(2));
    // SAFETY: the caller's promise.
    unsafe { copy(to, from, bytes, store) };
}
