//! A task that a client has prepared, and whether its turns are still to be committed.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use ascend_program::TaskId;

use super::record::NamedKind;
use super::tensor::rename;
use super::value::{Recordable, Value};

/// A task whose turns are to be committed, one by one.
#[derive(Debug)]
pub enum Open {}

/// A task all of whose turns were committed when it was prepared.
#[derive(Debug)]
pub enum Committed {}

/// A task that a client has prepared (`HcclHandle`), by
/// [`prepare`](super::prepare::Prepare::prepare) or
/// [`commit_all`](super::prepare::Prepare::commit_all). [`Hccl::commit`](super::Hccl::commit)
/// commits its turns, and [`Hccl::wait`](super::Hccl::wait) waits for them.
pub struct Prepared<Q> {
    pub(super) recording: u64,
    pub(super) task: TaskId,
    pub(super) turns: Value<u64>,
    of: PhantomData<fn() -> Q>,
}

impl<Q> Prepared<Q> {
    pub(super) fn new(recording: u64, task: TaskId, turns: Value<u64>) -> Self {
        Prepared { recording, task, turns, of: PhantomData }
    }

    /// Returns the number of its turns.
    pub fn turns(&self) -> Value<u64> {
        self.turns
    }
}

impl<Q> fmt::Debug for Prepared<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Prepared({})", self.task.0)
    }
}

impl<Q> Recordable for Prepared<Q> {
    #[track_caller]
    fn name(&self, name: &str) {
        rename(self.recording, Location::caller(), NamedKind::Task, self.task.0, name);
    }
}
