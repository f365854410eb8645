//! The word by which a stream and the thread that runs its host function agree.

use std::sync::atomic::{AtomicU64, Ordering};

/// The state of the host function at the head of a stream's queue, if there is one.
///
/// The word holds a state in its low bits, and the number of the call above them. A stream can give
/// up a running call and begin another call. The number distinguishes the two, so that the return
/// of the first call is not taken for a return of the second.
///
/// [`begin`](Self::begin) moves the word from `IDLE`. [`end`](Self::end) and
/// [`end_unless_running`](Self::end_unless_running) move it back. Each of them is called with the
/// queue of the stream locked. The thread that runs the function moves the word from `HANDED_OVER`
/// to `RUNNING`, and then to `RETURNED`, each time only if the word still has its number.
pub(crate) struct HostCallState(pub(crate) AtomicU64);

pub(crate) const IDLE: u64 = 0;
/// A thread has the function and has not called it yet.
pub(crate) const HANDED_OVER: u64 = 1;
pub(crate) const RUNNING: u64 = 2;
pub(crate) const RETURNED: u64 = 3;
/// The mask of the state bits.
const STATE: u64 = 3;

impl HostCallState {
    pub(crate) const fn new() -> HostCallState {
        HostCallState(AtomicU64::new(IDLE))
    }

    pub(crate) fn state(&self) -> u64 {
        self.0.load(Ordering::Acquire) & STATE
    }

    /// Begins a call, and returns its number.
    pub(crate) fn begin(&self) -> u64 {
        let number = self.0.load(Ordering::Relaxed) + STATE + 1;
        self.0.store(number | HANDED_OVER, Ordering::Release);
        number
    }

    /// Moves the call with this number to another state. Returns false if the stream has given the
    /// call up.
    pub(crate) fn advance(&self, number: u64, from: u64, to: u64) -> bool {
        // Release: the effects of the function are visible to the poll that sees `RETURNED`.
        let moved = self.0.compare_exchange(
            number | from,
            number | to,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        moved.is_ok()
    }

    /// Ends a call, or gives it up. Returns the state that the call had.
    pub(crate) fn end(&self) -> u64 {
        self.0.fetch_and(!STATE, Ordering::AcqRel) & STATE
    }

    /// Ensures that a call that has not begun never begins. Returns false if the call is running.
    pub(crate) fn end_unless_running(&self) -> bool {
        let update = |word: u64| match word & STATE {
            HANDED_OVER => Some(word & !STATE),
            _ => None,
        };
        // A call that began before is seen here. A call that tries to begin later finds the state
        // changed.
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, update) {
            Ok(_) => true,
            Err(word) => word & STATE != RUNNING,
        }
    }
}
