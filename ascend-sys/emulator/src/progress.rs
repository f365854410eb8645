//! How far a task queue is: its counters, and points in it.

use ascend_sync::{AtomicU64, Ordering};

/// The counters that callers may map (`AscendExtProgress`): one cache line, written with the lock
/// or the queue held.
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

    /// The ticket of the newest job.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// Every job up to this ticket is finished.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }
}

/// A point in a task queue: behind a job. Freed memory waits for these points, and `memory` need
/// not know queues or jobs.
#[derive(Clone, Copy)]
pub(crate) struct QueuePoint {
    progress: &'static Progress,
    ticket: u64,
}

impl QueuePoint {
    /// The point behind the newest job.
    pub(crate) fn now(progress: &'static Progress) -> QueuePoint {
        QueuePoint { progress, ticket: progress.submitted() }
    }

    /// Every job before it is finished.
    pub(crate) fn is_complete(self) -> bool {
        self.progress.completed() >= self.ticket
    }
}

/// Whether they all are complete. Those that are need not be looked at again.
pub(crate) fn are_complete(points: &mut Vec<QueuePoint>) -> bool {
    points.retain(|point| !point.is_complete());
    points.is_empty()
}
