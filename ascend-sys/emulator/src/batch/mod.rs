//! `HcclBatchSendRecv`: a list of messages as one task.
//!
//! When it reaches the head of its stream it posts all its messages at once, so the order in which ranks list them can never make
//! them wait for one another. The task is complete when all its messages are copied. Giving up takes back what has no counterpart yet; what has
//! one is copied to its end first.

mod exchange;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use crate::collective::meeting::{Breakage, Cause};
use crate::collective::pending::Sleeper;
use crate::collective::plan::store_for;
use crate::copy::copy;
use crate::deadlock::Helpers;
use crate::fabric::Member;
use crate::message::Failure;
use crate::stream::Stream;
use crate::task::{Reason, Step};

use exchange::{BatchParty, Message, Posting};
pub(crate) use exchange::{Content, Exchange};

/// One item of a call, checked and resolved.
pub(crate) enum Item {
    /// From the rank to itself.
    Local {
        content: Content,
        from: *mut u8,
        to: *mut u8,
    },
    Remote {
        send: bool,
        peer: usize,
        content: Content,
        data: *mut u8,
    },
}

/// One rank's batch.
pub(crate) struct Pending {
    member: Arc<Member>,
    number: u64,
    party: Arc<BatchParty>,
    items: Vec<Item>,
    messages: Vec<Arc<Message>>,
    /// Why it fails, once all that is under way is finished.
    failure: Option<Failure>,
    /// The messages below have no chunk left to take.
    cursor: usize,
    /// The exchange knows that its stream sleeps.
    slept: bool,
}

// SAFETY: the pointers were resolved at issue and their pages stay until this task is complete; they are touched by the copy kernels only.
unsafe impl Send for Pending {}

impl Pending {
    /// The items of batch `number` of the rank, at least one: to itself first, then what it receives, then what it sends.
    pub(crate) fn new(member: Arc<Member>, number: u64, items: Vec<Item>) -> Self {
        let party = Arc::new(BatchParty::new(items.len() as u64));
        let messages = Vec::with_capacity(items.len());
        Self { member, number, party, items, messages, failure: None, cursor: 0, slept: false }
    }

    /// Makes progress: copies at most one chunk.
    pub(crate) fn poll(&mut self) -> Step {
        if self.messages.is_empty() {
            self.post();
        }
        let copied = self.copy_something();
        if self.party.is_done() {
            return self.complete();
        }
        if copied {
            return Step::Again;
        }
        if self.failure.is_none()
            && let Some(breakage) = self.what_is_wrong()
        {
            self.withdraw(breakage);
            if self.party.is_done() {
                return self.complete();
            }
        }
        Step::Park
    }

    fn complete(&mut self) -> Step {
        if self.slept {
            self.member.comm.exchange.note_complete(self.member.rank, &self.party);
        }
        Step::Done(self.failure.take().map_or(Ok(()), Err))
    }

    fn post(&mut self) {
        let Self { member, party, items, messages, .. } = self;
        for item in &*items {
            if let Item::Local { content, from, to } = *item {
                messages.push(Arc::new(Message::local(content, from, to, party)));
            }
        }
        let remote = items.iter().filter_map(|item| match *item {
            Item::Remote { send, peer, content, data } => {
                Some(Posting { send, peer, content, data })
            }
            Item::Local { .. } => None,
        });
        let posted = member.comm.exchange.post(member.rank, remote, party, messages);
        if let Err(text) = posted {
            self.break_with(Cause::Mismatch, text);
        }
    }

    fn copy_something(&mut self) -> bool {
        let work = self.items.iter().zip(&self.messages).skip(self.cursor);
        for (item, message) in work {
            if message.copy_chunk(matches!(item, Item::Remote { send: true, .. })) {
                return true;
            }
            let taken = message.is_matched() && message.transfer.is_taken();
            if taken && std::ptr::eq(message, &self.messages[self.cursor]) {
                self.cursor += 1;
            }
        }
        false
    }

    /// Whether the rest of the batch can still come.
    fn what_is_wrong(&self) -> Option<Arc<Breakage>> {
        let comm = &self.member.comm;
        if let Some(breakage) = comm.meeting.breakage() {
            return Some(breakage);
        }
        let gone = self.unmatched().find(|(peer, _)| comm.exchange.is_gone(*peer));
        // Asked after the look at the peer: what it posted before it left is matched by now.
        let gone = gone.filter(|(_, message)| !message.is_matched())?.0;
        let text = format!(
            "HcclBatchSendRecv of rank {} with rank {gone}: rank {gone} is gone ({})",
            self.member.rank,
            comm.board.why_gone(gone)
        );
        Some(comm.fail(Breakage { number: self.number, cause: Cause::Gone, text }))
    }

    fn unmatched(&self) -> impl Iterator<Item = (usize, &Arc<Message>)> {
        self.items.iter().zip(&self.messages).filter_map(|(item, message)| match item {
            Item::Remote { peer, .. } if !message.is_matched() => Some((*peer, message)),
            _ => None,
        })
    }

    #[cold]
    fn break_with(&mut self, cause: Cause, text: String) {
        let breakage = Breakage { number: self.number, cause, text };
        let breakage = self.member.comm.fail(breakage);
        self.withdraw(breakage);
    }

    #[cold]
    fn withdraw(&mut self, breakage: Arc<Breakage>) {
        let comm = &self.member.comm;
        let text = format!(
            "{}: HcclBatchSendRecv #{} of communicator \"{}\" failed on rank {}. {}. {}",
            breakage.cause.report_code(),
            self.number,
            comm.name,
            self.member.rank,
            breakage.text,
            breakage.cause.remedy()
        );
        self.failure = Some(Failure::new(breakage.cause.acl_error(), text));
        let withdrawn = comm.exchange.withdraw(self.messages.iter());
        (0..withdrawn).for_each(|_| self.party.finish_one());
    }

    /// A thread is about to sleep on the parked task. True if polling helps already.
    pub(crate) fn arm(&mut self, stream: &'static Stream) -> bool {
        if !self.slept {
            self.slept = true;
            self.member.comm.exchange.note_asleep(self.member.rank, &self.party);
        }
        self.party.arm(Sleeper(stream));
        let work = |message: &Arc<Message>| message.is_matched() && !message.transfer.is_taken();
        self.party.is_done()
            || self.messages.iter().any(work)
            || (self.failure.is_none() && self.what_is_wrong().is_some())
    }

    /// Gives up what has no counterpart yet.
    pub(crate) fn expire(&mut self, why: &Reason) -> Step {
        if self.messages.is_empty() {
            self.post();
        }
        if self.failure.is_none() && self.unmatched().next().is_some() {
            let text = format!("{} {}; {}", self.name(), why.text(), self.waits_for());
            let cause = match why {
                Reason::Timeout(_) | Reason::Deadlock(_) => Cause::Timeout,
                _ => Cause::Gone,
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
                self.unmatched().map(|(peer, _)| self.member.comm.user(peer)).collect(),
            ),
            Some(_) => Helpers::Anybody,
        }
    }

    /// How long it may wait for its counterparts.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.member.exec_timeout
    }

    fn name(&self) -> String {
        format!("HcclBatchSendRecv #{} of rank {}", self.number, self.member.rank)
    }

    fn waits_for(&self) -> String {
        const MENTIONED: usize = 8;
        let waits: Vec<_> = self
            .items
            .iter()
            .zip(&self.messages)
            .filter(|(_, message)| !message.is_matched())
            .filter_map(|(item, _)| match item {
                Item::Remote { send: true, peer, content, .. } => {
                    Some(format!("rank {peer} to receive {content}"))
                }
                Item::Remote { peer, content, .. } => {
                    Some(format!("rank {peer} to send {content}"))
                }
                Item::Local { .. } => None,
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
