//! Puts messages into streams.

use super::batch::PendingBatch;
use super::submit::{keep_order, record_call, waiting_with};
use crate::batch::item::BatchItem;
use crate::callback::may_block;
use crate::capture;
use crate::check::{self, Announced};
use crate::fabric::registry::IssueState;
use crate::faults;
use crate::message::Failure;
use crate::stream::{Mark, Stream};

/// Puts messages into the stream. `items` must have at least one message. The first message of a
/// pair of ranks waits here until the peer makes contact.
pub(crate) fn post(
    issue_state: &mut IssueState,
    stream: &'static Stream,
    mut items: Vec<BatchItem>,
    function: &'static str,
) -> Result<(), Failure> {
    if stream.is_diverted() {
        return record(issue_state, stream, items, function);
    }
    let rank = issue_state.member.rank;
    let new = new_peers(issue_state, &items);
    let peers = |item: &&mut BatchItem| item.peer != rank && item.content.count > 0;
    let first = items.iter_mut().find(peers);
    let operation = faults::FaultTarget { meets: !new.is_empty(), counts: first.is_some() };
    if faults::before(&issue_state.member, stream, operation)?
        && let Some(item) = first
    {
        item.content.count -= 1;
    }
    link(issue_state, new, &items, function)?;
    // The batch is announced to checked mode first, because the order that `keep_order` makes is
    // not one of the program.
    let batch = check::CheckedBatch::of(stream, &issue_state.member, &items, function);
    let announced = batch.map(|batch| batch.announce(stream)).transpose()?;
    if let Err(failure) = keep_order(issue_state, stream) {
        announced.into_iter().for_each(Announced::withdrawn);
        return Err(failure);
    }
    let comm = &issue_state.member.comm;
    let number = comm.exchange.issue(rank);
    // SAFETY: the issue state, and with it the member, is locked until this call is over. By then
    // the task is done, or it is in the queue and keeps the member.
    let task = unsafe { PendingBatch::new(&issue_state.member, number, items) };
    match capture::submit(stream, task) {
        Ok(ticket) => {
            issue_state.mark = Some(Mark::new(stream, ticket));
            announced.map_or(Ok(()), |announced| announced.enqueued(stream))
        }
        Err(failure) => {
            comm.exchange.take_back(rank);
            announced.into_iter().for_each(Announced::withdrawn);
            Err(failure)
        }
    }
}

/// Returns those peers of the messages that the rank has not met yet. A peer may be in the list
/// twice.
fn new_peers(issue_state: &IssueState, items: &[BatchItem]) -> Vec<usize> {
    let rank = issue_state.member.rank;
    let peers = items.iter().map(|item| item.peer).filter(|peer| *peer != rank);
    peers.filter(|peer| !issue_state.peers[*peer]).collect()
}

/// Makes the first contact with these peers, if there are any. Blocks until they make it, too.
#[inline]
fn link(
    issue_state: &mut IssueState,
    new: Vec<usize>,
    items: &[BatchItem],
    function: &'static str,
) -> Result<(), Failure> {
    if new.is_empty() { Ok(()) } else { meet(issue_state, new, items, function) }
}

#[cold]
fn meet(
    issue_state: &mut IssueState,
    mut new: Vec<usize>,
    items: &[BatchItem],
    function: &'static str,
) -> Result<(), Failure> {
    may_block()?;
    new.sort_unstable();
    new.dedup();
    waiting_with(touched(items), || {
        issue_state.member.comm.meet_peers(issue_state.member.rank, &new, function)?;
        new.iter().for_each(|peer| issue_state.peers[*peer] = true);
        Ok(())
    })
}

/// Returns the bytes of all messages, including those of the rank to itself.
fn touched(items: &[BatchItem]) -> impl Iterator<Item = (*const u8, usize)> {
    items.iter().flat_map(|item| {
        let bytes = item.content.bytes();
        let from = if item.from.is_null() { 0 } else { bytes };
        [(item.data.cast_const(), bytes), (item.from.cast_const(), from)]
    })
}

/// Records messages on a captured stream. Every execution of the graph posts them again.
#[cold]
fn record(
    issue_state: &mut IssueState,
    stream: &'static Stream,
    items: Vec<BatchItem>,
    function: &'static str,
) -> Result<(), Failure> {
    link(issue_state, new_peers(issue_state, &items), &items, function)?;
    let touched: Vec<_> = touched(&items).collect();
    let issue = move |issue_state: &mut IssueState, stream| {
        let mut list = issue_state.member.comm.exchange.take_list(issue_state.member.rank);
        list.extend_from_slice(&items);
        post(issue_state, stream, list, function)
    };
    record_call(issue_state, stream, function.to_string(), &touched, issue)
}
