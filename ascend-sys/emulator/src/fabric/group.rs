//! `HcclGroupStart` to `HcclGroupEnd`: calls of a thread that are kept back, and then go out together.
//!
//! A group is what lets one thread speak for several ranks. Alone, each of their calls would wait for the others: a rank that joins
//! a communicator waits for all ranks, and so does its first operation. The end of a group first says everything that
//! others wait for, for all its calls, and only then waits.
//!
//! A call is checked when it is made, and refused there. What goes wrong later, at the end, CANN keeps to itself: on A2 and A3
//! `HcclGroupEnd` returns success in any case. So it does here; what became of each call is kept for `ascendExtGroupResult`, and
//! a failure is also a recent error text.
//!
//! A group serves one of three purposes. Making and ending communicators: those that end go first. Collectives: they
//! need not depend on each other, because A2 and A3 issue the larger ones first; the end waits until they are complete. Ascend
//! 950 has neither of these two.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use super::comm::{Comm, Member};
use super::registry::{self, Desk, with_desk};
use super::root::{self, Applicant, ROOT_INFO};
use crate::callback::may_block;
use crate::collective::meeting::Origin;
use crate::collective::request::Request;
use crate::collective::validate::{Refusal, refuse};
use crate::message::Failure;
use crate::profile::Product;
use crate::stream::{Mark, Stream};
use crate::{executor, memory};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// Address and length of the buffers of the call that is being made.
    static BUFFERS: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
    static RESULTS: RefCell<Vec<Result<(), Refusal>>> = const { RefCell::new(Vec::new()) };
}

/// A call that is kept back.
struct Call {
    function: &'static str,
    /// What it does at the end of the group.
    what: What,
}

enum What {
    Join(Box<Join>),
    /// The communicator behind this handle.
    Destroy(u64),
    Collective(Box<Collective>),
}

struct Join {
    info: [u8; ROOT_INFO],
    applicant: Applicant,
    finish: Finish,
}

/// Hands the communicator to the caller.
type Finish = Box<dyn FnOnce(Arc<Comm>) -> Result<(), Refusal>>;
/// Puts the operation into the stream.
type Issue = Box<dyn FnOnce(&mut Desk, &'static Stream) -> Result<(), Refusal>>;

struct Collective {
    handle: u64,
    member: Arc<Member>,
    request: Request,
    stream: u64,
    buffers: Vec<(usize, usize)>,
    issue: Issue,
}

impl What {
    fn purpose(&self) -> &'static str {
        match self {
            Self::Join(_) | Self::Destroy(_) => "the making and ending of communicators",
            Self::Collective(_) => "collectives",
        }
    }
}

/// Whether the calling thread is between start and end.
#[inline]
pub(crate) fn is_open() -> bool {
    DEPTH.get() > 0
}

pub(crate) fn start() {
    DEPTH.set(DEPTH.get() + 1);
}

/// Keeps a call back that makes a communicator. `finish` gets it when all ranks have come.
pub(crate) fn join(
    function: &'static str,
    info: [u8; ROOT_INFO],
    applicant: Applicant,
    finish: Finish,
) -> Result<(), Refusal> {
    let product = applicant.settings.product;
    add(product, function, What::Join(Box::new(Join { info, applicant, finish })))
}

/// Keeps back the end of a communicator.
pub(crate) fn destroy(function: &'static str, handle: u64) -> Result<(), Refusal> {
    let product = registry::member(handle)?.comm.product;
    add(product, function, What::Destroy(handle))
}

/// Keeps a collective back that is checked and could be issued.
#[cold]
pub(crate) fn collective(
    desk: &Desk,
    stream: &'static Stream,
    request: Request,
    issue: impl FnOnce(&mut Desk, &'static Stream) -> Result<(), Refusal> + 'static,
) -> Result<(), Refusal> {
    let member = Arc::clone(&desk.member);
    let product = member.comm.product;
    let (handle, stream, issue) = (desk.handle, stream.handle(), Box::new(issue));
    let buffers = BUFFERS.take();
    let call = Collective { handle, member, request, stream, buffers, issue };
    add(product, request.function(), What::Collective(Box::new(call)))
}

fn add(product: Product, function: &'static str, what: What) -> Result<(), Refusal> {
    if product == Product::Ascend950 {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} groups sends and receives only, not {}",
            what.purpose()
        );
    }
    CALLS.with_borrow_mut(|calls| {
        if let Some(other) = calls.first().filter(|other| other.what.purpose() != what.purpose()) {
            return refuse!(
                HCCL_E_NOT_SUPPORT,
                "a group serves one purpose: this one has begun with {}, and {function} is not of them; end it first",
                other.what.purpose()
            );
        }
        calls.push(Call { function, what });
        Ok(())
    })
}

/// A new call begins to look at its arguments.
pub(crate) fn begin_call() {
    BUFFERS.with_borrow_mut(Vec::clear);
}

/// A buffer of the call that is being made, which must still be there at the end.
#[cold]
pub(crate) fn note_buffer(address: usize, bytes: usize) {
    BUFFERS.with_borrow_mut(|buffers| buffers.push((address, bytes)));
}

/// Ends the group; the outermost end lets the calls go and gives a text for each that failed.
pub(crate) fn end() -> Result<Vec<String>, Refusal> {
    match DEPTH.get() {
        0 => return refuse!(HCCL_E_NOT_SUPPORT, "no group was started on this thread"),
        1 => {}
        depth => {
            DEPTH.set(depth - 1);
            return Ok(Vec::new());
        }
    }
    may_block().map_err(runtime)?;
    // Closed before anything runs: what it runs are calls like any other.
    DEPTH.set(0);
    let calls = CALLS.take();
    let functions: Vec<_> = calls.iter().map(|call| call.function).collect();
    let mut results = vec![Ok(()); calls.len()];
    let (mut collectives, mut others) = (Vec::new(), Vec::new());
    for (index, Call { what, .. }) in calls.into_iter().enumerate() {
        match what {
            What::Collective(collective) => collectives.push((index, *collective)),
            other => others.push((index, other)),
        }
    }
    make_and_end(others, &mut results);
    issue(collectives, &mut results);
    let failed = functions.iter().zip(&results).enumerate();
    let texts = failed.filter_map(|(index, (function, result))| {
        let refusal = result.as_ref().err()?;
        Some(format!("{} [{function}, call {index} of the group]", refusal.text))
    });
    let texts = texts.collect();
    RESULTS.set(results);
    Ok(texts)
}

/// What became of a call of the last group that the thread has ended.
pub(crate) fn result(index: u32) -> Result<Option<Refusal>, Refusal> {
    RESULTS.with_borrow(|results| match results.get(index as usize) {
        Some(result) => Ok(result.clone().err()),
        None => refuse!(
            HCCL_E_NOT_FOUND,
            "the last group of this thread had {} calls, so there is none with the index {index}",
            results.len()
        ),
    })
}

fn runtime(failure: Failure) -> Refusal {
    let text = format!("EI9999: {} [the runtime returned {}]", failure.text, failure.code);
    Refusal::new(ascend_sys::HcclResult::HCCL_E_RUNTIME, text)
}

/// Ends communicators, then brings all ranks to their root infos, then waits for the others.
fn make_and_end(calls: Vec<(usize, What)>, results: &mut [Result<(), Refusal>]) {
    let mut entered = Vec::new();
    let mut joins = Vec::new();
    for (index, what) in calls {
        match what {
            What::Destroy(handle) => results[index] = registry::destroy(handle),
            What::Join(join) => joins.push((index, join)),
            What::Collective(_) => {}
        }
    }
    for (index, join) in joins {
        match root::enter(&join.info, &join.applicant) {
            Ok(entry) => entered.push((index, entry, join.finish)),
            Err(refusal) => results[index] = Err(refusal),
        }
    }
    for (index, entry, finish) in entered {
        results[index] = entry.wait().and_then(finish);
    }
}

/// Makes all first contacts, then issues, then waits.
fn issue(mut calls: Vec<(usize, Collective)>, results: &mut [Result<(), Refusal>]) {
    calls.sort_by_key(|(_, call)| Reverse(call.request.bytes()));
    let calls_of = |handle| calls.iter().filter(move |(_, call)| call.handle == handle);
    let mut contacts = Vec::new();
    let mut met: Vec<u64> = Vec::new();
    for (_, Collective { handle, .. }) in &calls {
        if !met.contains(handle) {
            met.push(*handle);
            contacts.extend(post(*handle, calls_of(*handle).map(|(_, call)| call)));
        }
    }
    let began = Instant::now();
    for (handle, member, number, request) in contacts {
        // Who fails here has ended the communicator, which its operations find out.
        if let Ok(true) = member.comm.await_all(member.rank, number, request, began) {
            let _ = with_desk(handle, |desk| {
                desk.linked = true;
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

/// Says to the other ranks of a communicator what this one calls first, unless it has met them before. A count of zero meets nobody,
/// so the next one is said too.
fn post<'a>(
    handle: u64,
    calls: impl Iterator<Item = &'a Collective>,
) -> Vec<(u64, Arc<Member>, u64, Request)> {
    let Ok((false, newest)) = with_desk(handle, |desk| Ok((desk.linked, desk.newest.number)))
    else {
        return Vec::new();
    };
    let mut posted = Vec::new();
    for (call, number) in calls.zip(newest + 1..) {
        let Collective { member, request, .. } = call;
        member.comm.post(member.rank, number, *request);
        posted.push((handle, Arc::clone(member), number, *request));
        if !request.is_void() {
            break;
        }
    }
    posted
}

/// Issues a collective, whose rank has met the others; what was checked when it was called may not hold any more.
fn put(call: Collective) -> Result<Option<Mark>, Refusal> {
    let Collective { handle, stream, buffers, issue, .. } = call;
    with_desk(handle, |desk| {
        desk.member.comm.check(Origin::Call)?;
        let stream = Stream::named(stream).map_err(runtime)?;
        for (address, bytes) in buffers {
            if let Err(text) = memory::resolve(address, bytes) {
                return refuse!(
                    HCCL_E_PARA,
                    "EI0003: a buffer must stay until the end of the group: {text}"
                );
            }
        }
        issue(desk, stream)?;
        Ok(desk.mark)
    })
}
