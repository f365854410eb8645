//! A barrier for tests.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::ranks::slow;

/// A barrier like [`std::sync::Barrier`], but a thread that waits too long panics. So if an
/// assertion of another thread fails, the test fails instead of never ending.
pub struct Barrier {
    threads: usize,
    limit: Duration,
    state: Mutex<State>,
    complete: Condvar,
}

#[derive(Default)]
struct State {
    here: usize,
    rounds: usize,
    given_up: bool,
}

impl Barrier {
    pub fn new(threads: usize) -> Self {
        Self::with_limit(threads, Duration::from_secs(if slow() { 300 } else { 60 }))
    }

    fn with_limit(threads: usize, limit: Duration) -> Self {
        Self { threads, limit, state: Mutex::default(), complete: Condvar::new() }
    }

    /// Waits until all threads have called this.
    ///
    /// # Panics
    ///
    /// Panics if the other threads do not come in time. Then all later calls panic too.
    pub fn wait(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!state.given_up, "somebody has waited too long for the others");
        state.here += 1;
        if state.here == self.threads {
            state.here = 0;
            state.rounds += 1;
            self.complete.notify_all();
            return;
        }
        let round = state.rounds;
        let waited = self.complete.wait_timeout_while(state, self.limit, |state| {
            state.rounds == round && !state.given_up
        });
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.rounds == round {
            state.given_up = true;
            self.complete.notify_all();
            let (here, threads) = (state.here, self.threads);
            drop(state);
            panic!("{here} of {threads} threads came within {:?}", self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_come_go_on_together_round_after_round() {
        let barrier = Barrier::new(3);
        let rounds = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for round in 0..100 {
                        let seen = rounds.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(seen / 3, round);
                        barrier.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_for_a_thread_that_does_not_come_panics() {
        let barrier = Barrier::with_limit(3, Duration::from_millis(20));
        std::thread::scope(|scope| {
            let waits: Vec<_> = (0..2).map(|_| scope.spawn(|| barrier.wait())).collect();
            assert!(waits.into_iter().all(|wait| wait.join().is_err()));
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| barrier.wait())).is_err());
    }
}
