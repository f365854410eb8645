//! Groups (`HcclGroupStart` to `HcclGroupEnd`): calls of a thread that are kept, and then issued
//! together.
//!
//! A group lets one thread make the calls of several ranks. Without a group, each call could wait
//! for the others. A rank that joins a communicator waits for all ranks, and so does its first
//! operation. The end of a group first posts everything that other ranks wait for, for all its
//! calls. Only then does it wait.
//!
//! A call is checked when it is made, and may return an error then. CANN does not report errors
//! that occur later, at the end: on A2 and A3 `HcclGroupEnd` returns success in any case. The
//! emulator does the same. The result of each call is kept for `ascendExtGroupResult`, and a
//! failure also becomes a recent error text.
//!
//! A group has one of three purposes. Ascend 950 supports only sends and receives.
//! - Making and ending communicators. Communicators are ended before others are made.
//! - Collectives. They must not depend on each other, because A2 and A3 issue the larger
//!   collectives first. The end of the group waits until they are complete.
//! - Sends and receives. Those of a communicator become one batch in the stream of the first call.
//!   They are matched with messages of other batches.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use ascend_sys::HcclResult;

use crate::after::After;
use crate::batch::item::{self, BatchItem};
use crate::callback::may_block;
use crate::capture;
use crate::collective::comm_error::Origin;
use crate::collective::request::CollectiveRequest;
use crate::collective::validate::freed_before;
use crate::executor;
use crate::fabric::gathering::{Applicant, Entered};
use crate::fabric::registry::{self, IssueState, with_issue_state};
use crate::fabric::{Comm, Member, hooks};
use crate::faults;
use crate::memory::held::{HeldMemory, hold};
use crate::message::{Failure, refuse};
use crate::profile::Product;
use crate::stream::{Mark, Stream};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static CALLS: RefCell<Vec<GroupedCall>> = const { RefCell::new(Vec::new()) };
    /// The buffers of the call that is being made.
    static BUFFERS: RefCell<Vec<HeldMemory>> = const { RefCell::new(Vec::new()) };
    static RESULTS: RefCell<Vec<Result<(), Failure>>> = const { RefCell::new(Vec::new()) };
}

/// A kept call.
struct GroupedCall {
    function: &'static str,
    /// The action at the end of the group.
    what: GroupedAction,
}

enum GroupedAction {
    Join(Box<Join>),
    /// The end of the communicator with this handle.
    Destroy(u64),
    Collective(Box<Collective>),
    Message(Box<GroupedMessage>),
}

struct Join {
    enter: Enter,
    applicant: Applicant,
    finish: Finish,
}

/// The function that lets a rank enter the gathering of a new communicator.
pub(crate) type Enter = Box<dyn FnOnce(&Applicant) -> Result<Entered, Failure>>;

/// The function that returns the communicator to the caller.
type Finish = Box<dyn FnOnce(Arc<Comm>) -> Result<(), Failure>>;
/// The function that puts the operation into the stream.
type GroupedIssue = Box<dyn FnOnce(&mut IssueState, &'static Stream) -> Result<(), Failure>>;

struct Collective {
    handle: u64,
    member: Arc<Member>,
    request: CollectiveRequest,
    stream: u64,
    buffers: Vec<HeldMemory>,
    issue: GroupedIssue,
}

struct GroupedMessage {
    handle: u64,
    member: Arc<Member>,
    stream: u64,
    buffers: Vec<HeldMemory>,
    item: BatchItem,
    post: Post,
}

/// The function that puts messages into a stream.
type Post =
    fn(&mut IssueState, &'static Stream, Vec<BatchItem>, &'static str) -> Result<(), Failure>;

/// The largest number of messages that Ascend 950 accepts in a group.
const MOST_MESSAGES: usize = 2048;
/// The name of a batch that a group has made.
const BATCH: &str = "HcclSend and HcclRecv in a group";

impl GroupedAction {
    fn purpose(&self) -> &'static str {
        match self {
            Self::Join(_) | Self::Destroy(_) => "the making and ending of communicators",
            Self::Collective(_) => "collectives",
            Self::Message(_) => "sends and receives",
        }
    }
}

/// Returns whether the calling thread has an open group.
#[inline]
pub(crate) fn is_open() -> bool {
    DEPTH.get() > 0
}

pub(crate) fn start() {
    DEPTH.set(DEPTH.get() + 1);
}

/// Keeps a call that makes a communicator. `finish` receives the communicator when all ranks have
/// joined.
pub(crate) fn join(
    function: &'static str,
    enter: Enter,
    applicant: Applicant,
    finish: Finish,
) -> Result<(), Failure> {
    let product = applicant.settings.product;
    add(product, function, GroupedAction::Join(Box::new(Join { enter, applicant, finish })))
}

/// Keeps a call that ends a communicator.
pub(crate) fn destroy(function: &'static str, handle: u64) -> Result<(), Failure> {
    let product = registry::member(handle)?.comm.product;
    add(product, function, GroupedAction::Destroy(handle))
}

/// Keeps a collective that was checked and could be issued.
#[cold]
pub(crate) fn collective(
    issue_state: &IssueState,
    stream: &'static Stream,
    request: CollectiveRequest,
    issue: impl FnOnce(&mut IssueState, &'static Stream) -> Result<(), Failure> + 'static,
) -> Result<(), Failure> {
    let member = Arc::clone(&issue_state.member);
    let product = member.comm.product;
    let (handle, stream, issue) = (issue_state.handle, stream.handle(), Box::new(issue));
    let buffers = BUFFERS.take();
    let call = Collective { handle, member, request, stream, buffers, issue };
    add(product, request.function(), GroupedAction::Collective(Box::new(call)))
}

/// Keeps a message that was checked and could be posted.
#[cold]
pub(crate) fn message(
    issue_state: &IssueState,
    stream: &'static Stream,
    function: &'static str,
    item: BatchItem,
    post: Post,
) -> Result<(), Failure> {
    let member = Arc::clone(&issue_state.member);
    let product = member.comm.product;
    let (handle, stream, buffers) = (issue_state.handle, stream.handle(), BUFFERS.take());
    let message = GroupedMessage { handle, member, stream, buffers, item, post };
    add(product, function, GroupedAction::Message(Box::new(message)))
}

fn add(product: Product, function: &'static str, what: GroupedAction) -> Result<(), Failure> {
    if product == Product::Ascend950 && !matches!(what, GroupedAction::Message(_)) {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} groups sends and receives only, not {}; make this call outside of the group",
            what.purpose()
        );
    }
    CALLS.with_borrow_mut(|calls| {
        if let Some(other) = calls.first().filter(|other| other.what.purpose() != what.purpose()) {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "a group has one purpose: this one has begun with {}, but {function} is not one of them; end the group first",
                other.what.purpose()
            );
        }
        if product == Product::Ascend950 && calls.len() == MOST_MESSAGES {
            return refuse!(
                HCCL_E_INTERNAL,
                "the group has {MOST_MESSAGES} sends and receives already, which is the limit of \
                 {product}; end it, and put the rest into another group"
            );
        }
        calls.push(GroupedCall { function, what });
        Ok(())
    })
}

/// Notes that a new call begins to check its arguments.
#[inline]
pub(crate) fn begin_call() {
    if is_open() {
        BUFFERS.with_borrow_mut(Vec::clear);
    }
}

/// Notes a buffer of the current call. If a group is open, the buffer must still exist at the end
/// of the group.
#[inline]
pub(crate) fn note_buffer(data: *const u8, bytes: usize) -> Result<(), Failure> {
    if is_open() { hold_buffer(data, bytes) } else { Ok(()) }
}

#[cold]
fn hold_buffer(data: *const u8, bytes: usize) -> Result<(), Failure> {
    let held = hold([(data, bytes)]).map_err(gone)?;
    BUFFERS.with_borrow_mut(|buffers| buffers.extend(held));
    Ok(())
}

/// Ends the group. The outermost end issues the calls, waits for the other ranks, and returns a
/// text for each call that failed. On Ascend 950, returns these texts as an error.
pub(crate) fn end() -> Result<Vec<String>, Failure> {
    match DEPTH.get() {
        0 => return refuse!(HCCL_E_NOT_SUPPORT, "this thread has no group; call HcclGroupStart"),
        1 => {}
        depth => {
            DEPTH.set(depth - 1);
            return Ok(Vec::new());
        }
    }
    may_block()?;
    // The group is closed before its calls are issued, because they must not be kept again.
    DEPTH.set(0);
    let calls = CALLS.take();
    let on_950 = calls.iter().any(|call| match &call.what {
        GroupedAction::Message(message) => message.member.comm.product == Product::Ascend950,
        _ => false,
    });
    let functions: Vec<_> = calls.iter().map(|call| call.function).collect();
    let mut results = vec![Ok(()); calls.len()];
    let (mut joins, mut ends) = (Vec::new(), Vec::new());
    let (mut collectives, mut messages) = (Vec::new(), Vec::new());
    for (index, GroupedCall { what, .. }) in calls.into_iter().enumerate() {
        match what {
            GroupedAction::Join(join) => joins.push((index, *join)),
            GroupedAction::Destroy(handle) => ends.push((index, handle)),
            GroupedAction::Collective(collective) => collectives.push((index, *collective)),
            GroupedAction::Message(message) => messages.push((index, *message)),
        }
    }
    make_and_end(joins, ends, &mut results);
    issue(collectives, &mut results);
    exchange(messages, &mut results);
    let failed = functions.iter().zip(&results).enumerate();
    let texts = failed.filter_map(|(index, (function, result))| {
        let failure = result.as_ref().err()?;
        Some(format!("{} [{function}, call {index} of the group]", failure.in_hccl().1))
    });
    let texts: Vec<_> = texts.collect();
    RESULTS.set(results);
    // Ascend 950 groups only messages. There, the end of the group reports failures.
    if on_950 && !texts.is_empty() {
        return Err(Failure::new(HcclResult::HCCL_E_INTERNAL, texts.join("\n")));
    }
    Ok(texts)
}

/// Returns the result of a call of the last group that the thread has ended.
pub(crate) fn result(index: u32) -> Result<Option<Failure>, Failure> {
    RESULTS.with_borrow(|results| match results.get(index as usize) {
        Some(result) => Ok(result.clone().err()),
        None => refuse!(
            HCCL_E_NOT_FOUND,
            "the number of calls of the last group of this thread is {}, so there is none with \
             the index {index}; pass an index below the number",
            results.len()
        ),
    })
}

/// Ends communicators, then lets all ranks enter their gatherings, then waits for the other ranks.
fn make_and_end(
    joins: Vec<(usize, Join)>,
    ends: Vec<(usize, u64)>,
    results: &mut [Result<(), Failure>],
) {
    for (index, handle) in ends {
        results[index] = hooks::around_end(handle);
    }
    let mut entered = Vec::new();
    for (index, join) in joins {
        match (join.enter)(&join.applicant) {
            Ok(entry) => entered.push((index, entry, join.finish)),
            Err(failure) => results[index] = Err(failure),
        }
    }
    for (index, entry, finish) in entered {
        results[index] = entry.wait().and_then(finish);
    }
}

/// Makes all first contacts, then issues the collectives, then waits for them.
fn issue(mut calls: Vec<(usize, Collective)>, results: &mut [Result<(), Failure>]) {
    calls.sort_by_key(|(_, call)| Reverse(call.request.bytes()));
    let mut contacts = Vec::new();
    let mut met: Vec<u64> = Vec::new();
    for (at, (_, Collective { handle, member, request, .. })) in calls.iter().enumerate() {
        if !met.contains(handle) {
            met.push(*handle);
            let of_device = |call: &&(_, Collective)| call.1.member.device == member.device;
            let before = calls[..at].iter().filter(of_device).count();
            let Some(newest) = unlinked(*handle) else { continue };
            if faults::before_contact(member, before).is_err() {
                // The communicator has ended, so its operations fail later.
                continue;
            }
            let number = newest + 1;
            member.comm.post(member.rank, number, *request);
            contacts.push((*handle, Arc::clone(member), number, *request));
        }
    }
    let began = Instant::now();
    for (handle, member, number, request) in contacts {
        // A call that fails here has ended the communicator, so its operations fail later.
        if member.comm.await_all(member.rank, number, request, began).is_ok() {
            let _ = with_issue_state(handle, |issue_state| {
                issue_state.linked = true;
                Ok(())
            });
        }
    }
    let mut marks: Vec<Mark> = Vec::new();
    for (index, call) in calls {
        results[index] = put(call).map(|mark| marks.extend(mark));
    }
    for mark in marks {
        if let Some(stream) = mark.stream() {
            executor::wait(stream, mark.ticket(), None);
        }
    }
}

/// Returns the number of a communicator's latest collective, if its rank exists and has not met the
/// other ranks.
fn unlinked(handle: u64) -> Option<u64> {
    let newest = with_issue_state(handle, |issue_state| {
        Ok((!issue_state.linked).then_some(issue_state.newest.number))
    });
    newest.ok().flatten()
}

/// Issues a collective whose rank has met the other ranks. The checks are repeated, because those
/// of the call may not hold any more.
fn put(call: Collective) -> Result<Option<Mark>, Failure> {
    let Collective { handle, stream, mut buffers, issue, .. } = call;
    with_issue_state(handle, |issue_state| {
        issue_state.member.comm.check(Origin::Call)?;
        let stream = Stream::named(stream)?;
        are_there(&mut buffers)?;
        issue(issue_state, stream)?;
        Ok(issue_state.mark)
    })
}

fn are_there(buffers: &mut [HeldMemory]) -> Result<(), Failure> {
    buffers.iter_mut().try_for_each(HeldMemory::check).map_err(gone)
}

fn gone(text: String) -> Failure {
    freed_before("the end of the group", text)
}

/// The messages of one communicator.
struct GroupBatch {
    handle: u64,
    member: Arc<Member>,
    /// The streams of the calls. The batch is queued in the first stream, and the other streams
    /// wait for it.
    streams: Vec<u64>,
    /// The indices of the calls in the group.
    indices: Vec<usize>,
    items: Vec<BatchItem>,
    post: Post,
    /// The peers that the rank meets for the first time.
    new: Vec<usize>,
}

/// Makes a batch for each communicator, posts first contacts to all new peers, waits for these
/// peers, and posts the messages.
fn exchange(messages: Vec<(usize, GroupedMessage)>, results: &mut [Result<(), Failure>]) {
    let mut batches: Vec<GroupBatch> = Vec::new();
    for (index, message) in messages {
        let GroupedMessage { handle, member, stream, mut buffers, item, post } = message;
        if let Err(failure) = are_there(&mut buffers) {
            results[index] = Err(failure);
            continue;
        }
        let at = batches.iter().position(|batch| batch.handle == handle).unwrap_or_else(|| {
            let (streams, indices, items, new) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            batches.push(GroupBatch { handle, member, streams, indices, items, post, new });
            batches.len() - 1
        });
        let batch = &mut batches[at];
        batch.indices.push(index);
        batch.items.push(BatchItem { index: batch.items.len() as u32, ..item });
        if !batch.streams.contains(&stream) {
            batch.streams.push(stream);
        }
    }
    for GroupBatch { handle, member, items, new, .. } in &mut batches {
        item::arrange(member.rank, member.comm.ranks(), false, items);
        let known = with_issue_state(*handle, |issue_state| Ok(issue_state.peers.clone()))
            .unwrap_or_default();
        let peers = items.iter().map(|item| item.peer);
        new.extend(peers.filter(|peer| known.get(*peer) == Some(&false)));
        new.sort_unstable();
        new.dedup();
        member.comm.post_peers(member.rank, new, BATCH);
    }
    let began = Instant::now();
    for GroupBatch { handle, member, new, .. } in &batches {
        // A call that fails here has ended the communicator, so its batch fails later.
        if !new.is_empty() && member.comm.await_peers(member.rank, new, BATCH, began).is_ok() {
            let _ = with_issue_state(*handle, |issue_state| {
                new.iter().for_each(|peer| issue_state.peers[*peer] = true);
                Ok(())
            });
        }
    }
    for batch in batches {
        let indices = batch.indices.clone();
        if let Err(failure) = batch.put() {
            indices.into_iter().for_each(|index| results[index] = Err(failure.clone()));
        }
    }
}

impl GroupBatch {
    fn put(self) -> Result<(), Failure> {
        let Self { handle, streams, items, post, .. } = self;
        with_issue_state(handle, |issue_state| {
            let Member { comm, rank, .. } = &*issue_state.member;
            comm.check(Origin::Call)?;
            let streams: Result<Vec<_>, _> = streams.into_iter().map(Stream::named).collect();
            let streams = streams?;
            let mut list = comm.exchange.take_list(*rank);
            list.extend(items);
            let Some((first, others)) = streams.split_first() else { return Ok(()) };
            post(issue_state, first, list, BATCH)?;
            // Each of these streams waits for the batch, so that a wait for any of them includes
            // the messages.
            let after = |mark| {
                others.iter().try_for_each(|other| capture::submit(other, After(mark)).map(drop))
            };
            issue_state.mark.map_or(Ok(()), after)
        })
    }
}
