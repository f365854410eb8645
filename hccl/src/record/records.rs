//! The state that all communicators of a recorded run share: its directory, and the records that
//! are not written yet.

#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// The state that all communicators of a recorded run share.
#[derive(Debug)]
pub(crate) struct Records {
    pub(super) directory: PathBuf,
    /// The operation whose bytes are recorded too, if there is one.
    pub(super) whole: Option<String>,
    /// The number of the next operation of this process.
    next: AtomicU64,
    /// The number of communicators that have had a title on a device, by title and device.
    titles: Mutex<HashMap<(String, usize), usize>>,
    state: Mutex<RecordState>,
    written: Condvar,
}

#[derive(Debug, Default)]
struct RecordState {
    is_finished: bool,
    /// The number of operations that are not in a file yet.
    pending: usize,
    /// The first problem of the record.
    problem: Option<String>,
}

impl Records {
    pub(super) fn new(directory: PathBuf, whole: Option<String>) -> Records {
        Records {
            directory,
            whole,
            next: AtomicU64::new(0),
            titles: Mutex::default(),
            state: Mutex::default(),
            written: Condvar::new(),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        lock(&self.state).is_finished
    }

    /// Returns the number of the next operation, and counts it.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Counts a communicator with this title on this device. Returns the number of these
    /// communicators, including this one.
    pub(super) fn count(&self, title: &str, device: usize) -> usize {
        let mut titles = lock(&self.titles);
        let count = titles.entry((title.to_owned(), device)).or_default();
        *count += 1;
        *count
    }

    /// Counts an operation that will be written.
    pub(super) fn begin(&self) {
        lock(&self.state).pending += 1;
    }

    /// Removes an operation from the count, because it has been written or cannot be written.
    pub(super) fn end(&self) {
        lock(&self.state).pending -= 1;
        self.written.notify_all();
    }

    /// Ends the record, and waits until everything is written. Returns the first problem, if there
    /// was one. The outer `None` means that `limit` passed first.
    pub(super) fn finish(&self, limit: Duration) -> Option<Option<String>> {
        let begin = Instant::now();
        let mut state = lock(&self.state);
        state.is_finished = true;
        while state.pending > 0 {
            let left = limit.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return None;
            }
            let waited = self.written.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(state.problem.take())
    }

    pub(super) fn note_problem(&self, problem: String) {
        lock(&self.state).problem.get_or_insert(problem);
    }
}
