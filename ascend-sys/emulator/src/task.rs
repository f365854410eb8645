//! The tasks of a stream. A task is small, is stored in the queue itself, and is polled by any
//! thread that runs the stream.
//!
//! Every kind of task implements [`TaskBody`] in its own module. The queue holds an [`ErasedTask`],
//! whose type is erased. There are three families. *Leaf work* (copies, fills, reductions) is done
//! in pieces of at most [`PIECE`](crate::step::PIECE) bytes. *Waits* never hold a thread: they
//! park, and arrange to be woken when a thread is about to sleep. *User code* runs on threads of
//! its own.
//!
//! To add a kind: write a struct that owns what the task needs, implement [`TaskBody`] for it, and
//! submit it to a stream. If the kind is larger than an [`ErasedTask`], this does not compile; then
//! implement the trait for its `Box`.

mod effects;
mod erased;

pub(crate) use effects::{Effects, Passed, Touch};
pub(crate) use erased::ErasedTask;

use crate::message::Failure;
use crate::step::{Helpers, Need, Reason, Step, WordTask};
use std::time::Duration;

/// The ranks and threads that a parked task waits for.
#[derive(Default)]
pub(crate) struct Awaited {
    /// Other ranks of the communicator.
    pub(crate) ranks: Vec<usize>,
    /// The communicator of the operator that the task is part of. If there are no ranks, the task
    /// waits for another thread of that communicator.
    pub(crate) threads_of: Option<u64>,
}

impl From<Vec<usize>> for Awaited {
    fn from(ranks: Vec<usize>) -> Self {
        Awaited { ranks, threads_of: None }
    }
}

/// A kind of task. `O` is the stream that polls it; leaf work does not depend on it.
pub(crate) trait TaskBody<O: 'static>: Send + 'static {
    /// Makes progress: at most about 64 KiB or 20 microseconds of work, then [`Step::Again`].
    /// Called with the queue of the stream locked.
    fn poll(&mut self, stream: &'static O) -> Step;

    /// Takes hold of all objects that the submitting call only lends to the task. Called at most
    /// once, when the first poll has not completed the task.
    fn keep(&mut self) {}

    /// Arranges that the stream is woken when a poll may help. Called when the task is parked and a
    /// thread is about to sleep. Returns true if a poll may already help.
    fn arm(&mut self, _: &'static O) -> bool {
        false
    }

    /// Gives up, if nothing of the task touches memory any more; parks otherwise.
    fn expire(&mut self, _: &'static O, why: &Reason) -> Step {
        gave_up(self.describe(), why)
    }

    /// Returns the time for which the task may stay parked at the head of its stream; `None` means
    /// no limit.
    fn limit(&self) -> Option<Duration> {
        None
    }

    /// Returns a number that changes when a task with several waits makes progress. The limit
    /// applies to each wait.
    fn progress(&self) -> u64 {
        0
    }

    /// Returns the point of another stream that the task waits for: the stream and a ticket. A
    /// thread that is about to sleep registers there.
    fn upstream(&self) -> Option<(&'static O, u64)> {
        None
    }

    /// Returns the streams, threads or processes that could help the parked task: see `deadlock`.
    fn helpers(&self) -> Helpers {
        Helpers::Anybody
    }

    /// Returns the ranks and threads that the parked task waits for.
    fn awaits(&self) -> Awaited {
        Awaited::default()
    }

    /// Returns whether this task meets a need of another task.
    fn provides(&self, _: &Need) -> bool {
        false
    }

    /// Returns a copy of the task, for another place in a stream. Returns `None` for tasks that can
    /// run only once, which cannot be captured.
    fn again(&self) -> Option<ErasedTask<O>> {
        None
    }

    /// Returns the kind of a task that can be captured. Tasks of one kind can replace each other in
    /// a graph.
    fn kind(&self) -> &'static str {
        "task of another kind"
    }

    /// Returns the request of the program, if the task writes a word or waits for one.
    fn word(&self) -> Option<WordTask> {
        None
    }

    /// Returns the bytes that the task touches, if they are known when it is submitted.
    fn touched(&self) -> [(*const u8, usize); 2] {
        [(std::ptr::null(), 0); 2]
    }

    /// Returns the effects that are reported to checked mode when the task is submitted.
    fn effects(&self) -> Effects {
        Effects::None
    }

    /// Returns the order that is reported to checked mode when a poll has ended the task.
    fn passed(&self, _: &Result<(), Failure>) -> Option<Passed<O>> {
        None
    }

    /// Describes the task and what it waits for, for messages.
    fn describe(&self) -> String;
}

/// Ends a task that gives up.
pub(crate) fn gave_up(task: String, why: &Reason) -> Step {
    Step::Done(Err(Failure::new(why.code(), format!("{task}: {}", why.text()))))
}
