//! The progress of a task queue: its counters, and points in it.

use ascend_sync::{AtomicU64, Ordering};

/// The counters that callers may map (`AscendExtProgress`). They are one cache line, which is
/// written while the lock or the queue is held.
#[repr(C, align(64))]
pub(crate) struct Progress {
    pub(crate) submitted: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    reserved: [u64; 5],
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            reserved: [0; 5],
        }
    }

    /// Returns the ticket of the newest job.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Returns the ticket up to which every job is finished.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }
}

/// A point in a task queue, after a job. Freed memory is reused once the points that are recorded
/// for it are complete. The type hides the queue, so that `memory` does not depend on queues or
/// jobs.
#[derive(Clone, Copy)]
pub(crate) struct QueuePoint {
    progress: &'static Progress,
    ticket: u64,
}

impl QueuePoint {
    /// Returns the point after the newest job.
    pub(crate) fn now(progress: &'static Progress) -> QueuePoint {
        QueuePoint { progress, ticket: progress.submitted() }
    }

    /// Returns whether every job before the point is finished.
    pub(crate) fn is_complete(self) -> bool {
        self.progress.completed() >= self.ticket
    }
}

/// Returns whether all points are complete. Removes those that are, so that they are not checked
/// again.
pub(crate) fn are_complete(points: &mut Vec<QueuePoint>) -> bool {
    points.retain(|point| !point.is_complete());
    points.is_empty()
}
