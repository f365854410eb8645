//! The tasks that a stream holds. A task is small, lies in the queue itself, and is polled by any
//! thread that runs the stream.
//!
//! Every kind of task implements [`TaskBody`] in its own module; the queue holds a [`ErasedTask`],
//! which has forgotten its kind. There are three families. *Leaf work* (copies, fills, reductions)
//! is done in pieces of at most [`PIECE`](crate::step::PIECE) bytes. *Waits* never hold a thread:
//! they park, and arrange to be woken when a thread is about to sleep. *User code* runs on threads
//! of its own.
//!
//! To add a kind: write a struct that owns what the task needs, implement [`TaskBody`] for it, and
//! submit it to a stream. A kind that is larger than a [`ErasedTask`] does not compile; then
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
    /// The communicator of the operator that the task is part of. Without ranks the task waits for
    /// another thread of that communicator.
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

    /// Takes hold of everything that the submitting call only lends to the task. Called at most
    /// once, when the first poll has not completed the task.
    fn keep(&mut self) {}

    /// The task is parked and a thread is about to sleep: arranges that the stream is woken when a
    /// poll may help. True when that has already happened.
    fn arm(&mut self, _: &'static O) -> bool {
        false
    }

    /// Gives up, if nothing of the task touches memory any more; parks otherwise.
    fn expire(&mut self, _: &'static O, why: &Reason) -> Step {
        gave_up(self.describe(), why)
    }

    /// Returns how long the task may stay parked at the head of its stream. `None`: for ever.
    fn limit(&self) -> Option<Duration> {
        None
    }

    /// Returns a number that changes when a task with several waits makes progress: the limit holds
    /// for each wait.
    fn progress(&self) -> u64 {
        0
    }

    /// The point of another stream that the task waits for: the stream and a ticket. A thread that
    /// is about to sleep registers there.
    fn upstream(&self) -> Option<(&'static O, u64)> {
        None
    }

    /// Returns what could help the parked task: see `deadlock`.
    fn helpers(&self) -> Helpers {
        Helpers::Anybody
    }

    /// Returns the ranks and threads that the parked task waits for.
    fn awaits(&self) -> Awaited {
        Awaited::default()
    }

    /// Whether another task waits for this one.
    fn provides(&self, _: &Need) -> bool {
        false
    }

    /// Returns the same task once more, for another place in a stream. `None` for tasks that make
    /// sense only once: those cannot be captured.
    fn again(&self) -> Option<ErasedTask<O>> {
        None
    }

    /// The kind of the task, for tasks that can be captured: tasks of one kind can take each
    /// other's place in a graph.
    fn kind(&self) -> &'static str {
        "task of another kind"
    }

    /// For a task that writes a word or waits for one: the request of the program.
    fn word(&self) -> Option<WordTask> {
        None
    }

    /// Returns the bytes that the task touches, if they are known when it is submitted.
    fn touched(&self) -> [(*const u8, usize); 2] {
        [(std::ptr::null(), 0); 2]
    }

    /// Returns the effects that checked mode is told when the task is submitted.
    fn effects(&self) -> Effects {
        Effects::None
    }

    /// Returns what checked mode is told when a poll has ended the task.
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
