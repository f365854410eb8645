//! The data that a task and its stream exchange: the progress of a poll, the reason why the task
//! must give up, and the streams, threads or processes that could help it.

use crate::message::{Failure, PANICKED};
use crate::queue;
use ascend_sys::{
    ACL_ERROR_INTERNAL_ERROR, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, ACL_ERROR_RT_DEVICE_TASK_ABORT,
    ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_TASK_ABORT_STOP, ACL_ERROR_RT_TASK_TIMEOUT, aclError,
};
use std::sync::Arc;
use std::time::Duration;

/// The largest number of bytes that one poll copies or fills. It is small for Miri, which takes
/// milliseconds for a word.
pub(crate) const PIECE: usize = if cfg!(miri) { 1 << 10 } else { 64 << 10 };

pub(crate) type Step = queue::JobStep<Failure>;

/// The reason why a task must give up.
#[derive(Debug, Clone)]
pub(crate) enum Reason {
    /// It was parked at the head of its stream for longer than its limit.
    Timeout(Duration),
    /// It is in a cycle of tasks that wait for each other, or nothing in the process, or in several
    /// processes, can run any more. The text lists the waits.
    Deadlock(Arc<str>),
    /// `aclrtStreamAbort`, or the stream was destroyed by force.
    Aborted,
    /// `aclrtDeviceTaskAbort`.
    DeviceAborted,
    /// Another task of the context failed, and its stream stops all streams on failure.
    Stopped(Arc<str>),
    /// The device was reset, or its block was destroyed.
    Gone,
    /// The communicator that the thread belongs to was destroyed, or the thread was freed.
    Ended,
    /// The task panicked.
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
            Reason::Timeout(limit) => format!(
                "gave up after {:.1} s; find out why it does not end, or set a longer limit",
                limit.as_secs_f64()
            )
            .into(),
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

/// A task that writes a word of memory or waits for one, as a program describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WordTask {
    pub(crate) address: usize,
    pub(crate) value: u64,
    /// The comparison of a wait; `None` for a write.
    pub(crate) flag: Option<u32>,
}

/// The streams, threads or processes that could help a parked task.
pub(crate) enum Helpers {
    /// Only the point of another stream that the task returns as its upstream.
    Point,
    /// Other streams, which are examined themselves.
    Streams,
    /// The tasks and calls that meet these needs. All of the needs must be met.
    Queued(Vec<Need>),
    /// Any thread or process. The task may also go on by itself.
    Anybody,
    /// Any code that writes a word of memory. A write may come from anywhere, and no stream is
    /// notified of it.
    Writers,
}

/// The largest number of needs that a task returns. One of them can be enough to show that the task
/// is stuck.
pub(crate) const NEEDS: usize = 8;

/// An event that a task waits for, and that a task of another stream, a call or another process may
/// bring about.
pub(crate) enum Need {
    /// The record of this signal.
    Signal(u64),
    /// The arrival of a rank at a collective of a communicator.
    Collective { comm: u64, rank: usize, number: u64 },
    /// The other side of a message, which `rank` sends to `peer`, or receives from it.
    Message { comm: u64, rank: usize, peer: usize, sends: bool },
    /// A call of some thread.
    Call,
    /// An action of one of the other processes with these
    /// [names](crate::processes::peer::Home::name).
    Abroad(Vec<u64>),
}
