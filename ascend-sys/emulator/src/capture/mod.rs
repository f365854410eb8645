//! Captured streams: operations that are issued between `aclmdlRICaptureBegin` and
//! `aclmdlRICaptureEnd` do not run. They become a [graph](graph::Graph), which runs whenever it is
//! executed.
//!
//! A graph is a list of *nodes* in the order in which they were issued. Every execution issues the
//! nodes again. A node is a task as it would have entered the stream, or a call that makes a new
//! task each time. Operations of a communicator are calls, because each of their tasks has to take
//! a number. Each node belongs to a *branch*: branch 0 is the stream that was captured, and the
//! others are streams that joined by waiting for an event. Events inside a capture are not actually
//! recorded; their records and waits are nodes that order branches. At an execution, branch 0 runs
//! on the stream of the call, and the others run on streams of the graph's own.
//!
//! A captured stream has the handle of the graph in [`Stream::diverted`]. [`submit`] checks this,
//! and puts a task into the graph or into the queue. In the other files, [`recording`] adds nodes.
//! [`build`] lets a program bind streams itself. [`graph`] executes the nodes. [`group`] exchanges
//! some of them. [`tasks`] lets a program inspect and edit them.

pub(crate) mod build;
pub(crate) mod graph;
pub(crate) mod group;
pub(crate) mod recording;
pub(crate) mod tasks;

pub(crate) use graph::destroy_all;
pub(crate) use recording::{abandon, record_call, record_event, wait_event};

use crate::context;
use crate::event::Event;
use crate::executor;
use crate::machine;
use crate::message::{Failure, fail};
use crate::queue::Fresh;
use crate::stream::Stream;
use crate::task::TaskBody;
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
    ACL_ERROR_RT_EVENT_CAPTURED, ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_STREAM_CAPTURED,
};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ThreadId;

/// Submits a task to a stream: to its graph if it is captured, and to its queue otherwise. A small
/// task of an idle stream has run when this returns. Returns the ticket of the task, or, if the
/// stream is captured, the newest ticket of the tasks that the stream itself runs.
///
/// Inlined, so that the task runs where it was made.
#[inline(always)]
pub(crate) fn submit(stream: &'static Stream, task: impl TaskBody<Stream>) -> Result<u64, Failure> {
    let mut task = Some(task);
    if stream.is_diverted()
        && let Some(task) = task.take()
    {
        return recording::divert(stream, task.into_job());
    }
    executor::put(stream, &mut task)
}

/// The strictness of a capture: how much it forbids, from strict to lax.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Calls that take effect at once are refused in every thread of the context.
    Global,
    /// These calls are refused in the thread that captures.
    ThreadLocal,
    /// No calls are refused.
    Relaxed,
}

impl Mode {
    pub(crate) fn of(value: u32) -> Result<Mode, Failure> {
        match value {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "mode is {value}; pass 0 (GLOBAL), 1 (THREAD_LOCAL) or 2 (RELAXED)"
            ),
        }
    }
}

thread_local! {
    static THREAD_MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Sets the mode of the calling thread, and returns the earlier mode. The laxer of this mode and
/// the mode of a capture applies.
pub(crate) fn exchange_mode(mode: Mode) -> Mode {
    THREAD_MODE.replace(mode)
}

/// A capture that goes on: the data about it that calls of other threads need.
#[derive(Clone, Copy)]
struct Active {
    graph: u64,
    context: u64,
    device: u32,
    mode: Mode,
    thread: ThreadId,
}

static ACTIVE: Mutex<Vec<Active>> = Mutex::new(Vec::new());
/// The number of captures. It is usually 0, and then no thread takes the lock.
static ACTIVE_COUNT: AtomicUsize = AtomicUsize::new(0);

fn find_active(which: impl Fn(&Active) -> bool) -> Option<Active> {
    if ACTIVE_COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    lock(&ACTIVE).iter().copied().find(which)
}

fn add_active(active: Active) {
    let mut all = lock(&ACTIVE);
    all.push(active);
    ACTIVE_COUNT.store(all.len(), Ordering::Release);
}

fn remove_active(graph: u64) {
    let mut all = lock(&ACTIVE);
    all.retain(|active| active.graph != graph);
    ACTIVE_COUNT.store(all.len(), Ordering::Release);
}

/// Returns the capture that does not permit the calling thread to make calls that take effect at
/// once; `None` if there is no such capture.
#[inline]
fn forbidding() -> Option<Active> {
    if ACTIVE_COUNT.load(Ordering::Acquire) == 0 { None } else { forbidding_slowly() }
}

#[cold]
fn forbidding_slowly() -> Option<Active> {
    let (me, own) = (std::thread::current().id(), THREAD_MODE.get());
    let context = context::current().ok()?.context;
    find_active(|active| match active.mode.max(own) {
        Mode::Global => active.context == context,
        Mode::ThreadLocal => active.thread == me,
        Mode::Relaxed => false,
    })
}

/// Returns an error for a copy or fill outside of streams, if a capture forbids it.
#[inline]
pub(crate) fn may_act_at_once() -> Result<(), Failure> {
    match forbidding() {
        None => Ok(()),
        Some(active) => fail!(
            ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
            "a stream is being captured in mode {:?}, and this call would take effect at once; use \
             the asynchronous call on the captured stream, or \
             aclmdlRICaptureThreadExchangeMode with RELAXED",
            active.mode
        ),
    }
}

/// Returns an error for an asynchronous copy of pageable memory on a captured stream, or if another
/// capture forbids it. A copy of pageable memory is not recorded, and takes effect at once.
pub(crate) fn may_copy_pageable(stream: &Stream) -> Result<(), Failure> {
    if stream.is_diverted() {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "{} is being captured, and pageable host memory need not live until the graph runs; \
             use memory of aclrtMallocHost",
            stream.describe()
        );
    }
    match forbidding() {
        None => Ok(()),
        Some(active) => fail!(
            ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
            "another stream is being captured in mode {:?}, and a copy of pageable host memory \
             takes effect at once; use memory of aclrtMallocHost",
            active.mode
        ),
    }
}

/// Returns an error for a wait, a query or a destroy of a stream that is captured.
#[inline]
pub(crate) fn is_not_captured(stream: &'static Stream) -> Result<(), Failure> {
    if stream.is_diverted() { recording::refuse_captured(stream) } else { Ok(()) }
}

/// Returns an error if a stream of a device is being captured, or if a graph is being built on it.
/// Then no call may wait for the device.
pub(crate) fn nothing_captured_on(device: u32) -> Result<(), Failure> {
    match find_active(|active| active.device == device) {
        None => Ok(()),
        Some(_) => fail!(
            ACL_ERROR_RT_STREAM_CAPTURED,
            "a stream of device {device} is being captured, or a graph is being built on it; call \
             aclmdlRICaptureEnd or aclmdlRIBuildEnd first",
            device = machine::named(device)
        ),
    }
}

/// Returns an error for a wait, a query or a timing of an event while the capture that recorded it
/// goes on.
#[inline]
pub(crate) fn is_real(event: &Event) -> Result<(), Failure> {
    match event.captured() {
        Some((graph, _)) if find_active(|active| active.graph == graph).is_some() => fail!(
            ACL_ERROR_RT_EVENT_CAPTURED,
            "the event was recorded in a stream that is being captured: it marks a place in the \
             graph, and nothing has run; call aclmdlRICaptureEnd first"
        ),
        _ => Ok(()),
    }
}
