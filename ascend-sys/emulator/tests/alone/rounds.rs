//! Repeats a round on two ranks, and counts the allocations of the round that makes the fewest.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use ascend_emulator_testing::barrier::Barrier;

const ROUNDS: usize = 10_000;

/// See the [module](self). Both ranks share it.
pub struct Rounds {
    turn: Barrier,
    is_quiet: AtomicBool,
}

impl Rounds {
    pub fn new() -> Rounds {
        Rounds { turn: Barrier::new(2), is_quiet: AtomicBool::new(false) }
    }

    /// Returns the fewest allocations of a round, on all threads together. Ends with the first
    /// round that has none. A thread that loses its core puts the other to sleep, which may
    /// allocate; on a busy machine few rounds go undisturbed.
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
            // Both ranks read the same: the next change is behind the next turn but one.
            if self.is_quiet.load(Relaxed) {
                break;
            }
        }
        least
    }
}
