//! Repeats a round on two ranks, and counts the allocations of the round that makes the fewest.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use ascend_emulator_testing::barrier::Barrier;

const ROUNDS: usize = 10_000;

/// A sequence of rounds that two ranks share. See the [module](self).
pub struct Rounds {
    turn: Barrier,
    is_quiet: AtomicBool,
}

impl Rounds {
    pub fn new() -> Rounds {
        Rounds { turn: Barrier::new(2), is_quiet: AtomicBool::new(false) }
    }

    /// Returns the fewest allocations of a round, counted on all threads together, and ends with
    /// the first round that has none. If a thread loses its core, the other thread sleeps, which
    /// may allocate; so on a busy machine only few rounds are undisturbed.
    pub fn least_allocations(&self, mut round: impl FnMut()) -> u64 {
        let mut least = u64::MAX;
        for _ in 0..ROUNDS {
            self.turn.wait();
            let before = counting_allocator::in_process();
            round();
            // The next round does not begin before this one is counted.
            self.turn.wait();
            least = least.min(counting_allocator::in_process() - before);
            self.is_quiet.fetch_or(least == 0, Relaxed);
            self.turn.wait();
            // Both ranks read the same value here, because it can change only after the next turn.
            if self.is_quiet.load(Relaxed) {
                break;
            }
        }
        least
    }
}
