//! Looks for leaks. The same work is done in several rounds, and the heap, the descriptors and the
//! threads of the process are counted after each round. Things that are kept for reuse exist after
//! a few rounds, and do not grow any more.

use std::fmt;
use std::time::{Duration, Instant};

/// The number of rounds.
const ROUNDS: usize = 9;
/// The number of rounds that fill the things that are kept for reuse.
const FIRST: usize = 3;
/// The longest wait for things that end after a round.
const PATIENCE: Duration = Duration::from_secs(2);

/// The resources that a process holds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    bytes: usize,
    descriptors: usize,
    threads: usize,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { bytes, descriptors, threads } = self;
        write!(f, "{bytes} bytes, {descriptors} descriptors, {threads} threads")
    }
}

impl Held {
    fn now() -> Held {
        // SAFETY: it reads counters of the allocator.
        let heap = unsafe { libc::mallinfo2() };
        let entries = |path: &str| std::fs::read_dir(path).map_or(0, Iterator::count);
        Held {
            bytes: heap.uordblks + heap.hblkhd,
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
        }
    }

    /// Returns the counts as soon as two in a row are the same, or when [`PATIENCE`] is over.
    /// Threads of the emulator end things later.
    fn at_rest() -> Held {
        let began = Instant::now();
        let mut last = Held::now();
        loop {
            std::thread::sleep(Duration::from_millis(4));
            let now = Held::now();
            if now == last || began.elapsed() > PATIENCE {
                return now;
            }
            last = now;
        }
    }
}

/// Runs the rounds, and compares the counts after them.
///
/// # Errors
///
/// The counts after each round, if one of them grows in every round after the first ones.
pub fn look(mut round: impl FnMut()) -> Result<(), String> {
    let mut all = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        round();
        all.push(Held::at_rest());
    }
    let grows = |of: fn(&Held) -> usize| {
        all[FIRST - 1..].windows(2).all(|pair| of(&pair[0]) < of(&pair[1]))
    };
    if grows(|held| held.bytes) || grows(|held| held.descriptors) || grows(|held| held.threads) {
        let list: Vec<String> = all.iter().map(Held::to_string).collect();
        return Err(format!("something stays behind in each round:\n{}", list.join("\n")));
    }
    Ok(())
}
