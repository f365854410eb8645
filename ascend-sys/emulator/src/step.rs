//! The questions to a task and its answers: how far a poll came, why the task must give up, and who
//! could help it.

use crate::message::{Failure, PANICKED};
use crate::queue;
use ascend_sys::{
    ACL_ERROR_INTERNAL_ERROR, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, ACL_ERROR_RT_DEVICE_TASK_ABORT,
    ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_TASK_ABORT_STOP, ACL_ERROR_RT_TASK_TIMEOUT, aclError,
};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes that one poll copies or fills. Miri takes milliseconds for a word.
pub(crate) const PIECE: usize = if cfg!(miri) { 1 << 10 } else { 64 << 10 };

pub(crate) type Step = queue::JobStep<Failure>;

/// Why a task is told to give up.
#[derive(Debug, Clone)]
pub(crate) enum Reason {
    /// It was parked at the head of its stream for longer than its limit.
    Timeout(Duration),
    /// Nothing in the process, or in several, can run any more: the text says who waits for whom.
    Deadlock(Arc<str>),
    /// `aclrtStreamAbort`, or the stream was destroyed by force.
    Aborted,
    /// `aclrtDeviceTaskAbort`.
    DeviceAborted,
    /// Another task of the context failed, and its stream stops all on failure.
    Stopped(Arc<str>),
    /// The device was reset, or its block was destroyed.
    Gone,
    /// The communicator that the thread belongs to was destroyed, or the thread was freed.
    Ended,
    /// It panicked itself.
    Panicked,
}

impl Reason {
    pub(crate) fn code(&self) -> aclError {
        match self {
            Reason::Timeout(_) | Reason::Deadlock(_) => ACL_ERROR_RT_TASK_TIMEOUT,
            Reason::Aborted => ACL_ERROR_RT_STREAM_ABORT,
            Reason::DeviceAborted => ACL_ERROR_RT_DEVICE_TASK_ABORT,
            Reason::Stopped(_) => ACL_ERROR_RT_TASK_ABORT_STOP,
            Reason::Gone | Reason::Ended => ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
            Reason::Panicked => ACL_ERROR_INTERNAL_ERROR,
        }
    }

    pub(crate) fn text(&self) -> Arc<str> {
        match self {
            Reason::Timeout(limit) => format!("gave up after {:.1} s", limit.as_secs_f64()).into(),
            Reason::Deadlock(text) => format!("deadlock: {text}").into(),
            Reason::Aborted => "the stream was aborted".into(),
            Reason::DeviceAborted => "the tasks of the device were aborted".into(),
            Reason::Stopped(text) => {
                format!("stopped, because a task of the context failed: {text}").into()
            }
            Reason::Gone => "its device was reset or its block of devices is gone".into(),
            Reason::Ended => "its thread has ended, with its communicator or by itself".into(),
            Reason::Panicked => PANICKED.into(),
        }
    }
}

/// A task about a word of memory, as a program names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordTask {
    pub(crate) address: usize,
    pub(crate) value: u64,
    /// How a wait compares.
    pub(crate) flag: Option<u32>,
}

/// The streams, threads or processes that could help a parked task.
pub(crate) enum Helpers {
    /// The point of another stream that it names as its upstream, and nothing else.
    Point,
    /// Other streams, which are looked at themselves.
    Streams,
    /// The tasks and calls that provide these needs: it takes all of them.
    Queued(Vec<Need>),
    /// It may go on by itself.
    Anybody,
    /// Anything that writes a word of memory, which may come from anywhere and tells nobody.
    Writers,
}

/// How many needs a task names at most: one of them can be enough to show that it is stuck.
pub(crate) const NEEDS: usize = 8;

/// Something that a task waits for, and that a task of another stream may provide.
pub(crate) enum Need {
    /// The record of this signal.
    Signal(u64),
    /// The part of a rank in a collective of a communicator.
    Collective { comm: u64, rank: usize, number: u64 },
    /// The other side of a message: what `rank` sends to, or receives from, `peer`.
    Message { comm: u64, rank: usize, peer: usize, sends: bool },
    /// A call of some thread.
    Call,
    /// Something that other processes do, of these [names](crate::processes::peer::Home::name).
    Abroad(Vec<u64>),
}
