//! What is written down while kernels and operators run.

use ascend_program::Core;
use ascend_sync::lock_std as lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Entries that a recording has room for; what comes later is counted and left out.
const ROOM: u64 = 1 << 18;

/// Where the devices of a block write. Times are nanoseconds since it was made.
pub(crate) struct Log {
    zero: Instant,
    /// The first device of the block.
    pub(super) first: u32,
    open: AtomicBool,
    taken: AtomicU64,
    kept: Mutex<LogEntries>,
}

#[derive(Default)]
pub(super) struct LogEntries {
    pub(super) launches: Vec<Launch>,
    pub(super) turns: Vec<TurnSpan>,
    pub(super) primitives: Vec<PrimitiveSpan>,
}

/// A launch of a kernel on one device, which has ended.
pub(crate) struct Launch {
    pub(crate) device: u32,
    pub(crate) kernel: String,
    pub(crate) blocks: u32,
    /// The rank of the device in each communicator of the kernel.
    pub(crate) ranks: Vec<usize>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Why it failed.
    pub(crate) failure: Option<String>,
    pub(crate) cores: Vec<Block>,
}

/// What one core did of a block.
pub(crate) struct Block {
    pub(crate) kind: Core,
    /// Of the core, counted over all blocks of the launch, and among those that the device runs at a time.
    pub(crate) index: u32,
    pub(crate) core_index: u32,
    pub(crate) block: u32,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// One after the other without a gap.
    pub(crate) parts: Vec<Part>,
    /// Products of matrices, each within a part.
    pub(crate) products: Vec<Part>,
    /// Messages to the server.
    pub(crate) marks: Vec<(u64, String)>,
}

/// Something that lasted.
pub(crate) struct Part {
    pub(crate) what: Doing,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What a core is at.
pub(crate) enum Doing {
    /// It has run from one line of the kernel to another, for so many nanoseconds of the time: for the rest the thread was elsewhere.
    Runs {
        first: String,
        last: String,
        interpreted: u64,
    },
    Waits {
        what: String,
        place: String,
    },
    Multiplies {
        sizes: [u64; 3],
    },
}

/// A turn that a server has done.
pub(crate) struct TurnSpan {
    pub(crate) device: u32,
    /// The communicator of the servers: its number and name.
    pub(crate) servers: u64,
    pub(crate) group: String,
    pub(crate) rank: usize,
    /// The number of the turn among all of the communicator.
    pub(crate) number: u64,
    /// Whether the ranks meet in it.
    pub(crate) meets: bool,
    /// "tiles 2 of 4", and what it is.
    pub(crate) name: String,
    pub(crate) operation: String,
    pub(crate) place: String,
    /// When the rank came to it, and when it was done there.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) moved: Vec<Moved>,
}

/// Bytes that one rank had and the result of another one needs.
pub(crate) struct Moved {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) bytes: u64,
}

/// A primitive that a thread of an operator has done.
#[derive(Clone)]
pub(crate) struct PrimitiveSpan {
    pub(crate) device: u32,
    /// In its communicator, if it has one.
    pub(crate) rank: Option<usize>,
    pub(crate) group: String,
    /// The handle of the thread, and what it is called.
    pub(crate) thread: u64,
    pub(crate) name: String,
    /// The function that issued it.
    pub(crate) call: &'static str,
    pub(crate) work: PrimitiveWork,
    /// When it was next in its thread, and when it was done.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

/// What a primitive does.
#[derive(Clone)]
pub(crate) enum PrimitiveWork {
    /// Bytes go from a device to a device.
    Moves { from: u32, to: u32, bytes: u64, reduces: bool },
    /// A notify is recorded: its number among all of the process, and whose it is.
    Records { notify: u64, whose: String },
    /// A notify is waited for, which another rank records, or this one itself.
    Waits { notify: u64, whose: String, recorder: Option<usize> },
}

impl Log {
    pub(super) fn new(first: u32) -> Log {
        Log {
            zero: Instant::now(),
            first,
            open: AtomicBool::new(true),
            taken: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Room for an entry, if there is any left.
    pub(crate) fn has_room(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) < ROOM
    }

    pub(super) fn close(&self) {
        // Under the lock: who has looked before writes before.
        let _kept = lock(&self.kept);
        self.open.store(false, Ordering::Relaxed);
    }

    pub(crate) fn launched(&self, launch: Launch) {
        self.write(|kept| kept.launches.push(launch));
    }

    pub(crate) fn turned(&self, turn: TurnSpan) {
        if self.has_room() {
            self.write(|kept| kept.turns.push(turn));
        }
    }

    pub(crate) fn did(&self, primitive: PrimitiveSpan) {
        if self.has_room() {
            self.write(|kept| kept.primitives.push(primitive));
        }
    }

    fn write(&self, write: impl FnOnce(&mut LogEntries)) {
        let mut kept = lock(&self.kept);
        if self.open.load(Ordering::Relaxed) {
            write(&mut kept);
        }
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, LogEntries> {
        lock(&self.kept)
    }

    /// Entries that found no room.
    pub(super) fn left_out(&self) -> u64 {
        self.taken.load(Ordering::Relaxed).saturating_sub(ROOM)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::Chart;
    use super::*;

    #[test]
    fn what_has_no_room_is_counted_and_what_comes_after_the_end_is_not_kept() {
        let turn = || TurnSpan {
            device: 7,
            servers: 0,
            group: "world".into(),
            rank: 0,
            number: 1,
            meets: true,
            name: "tiles 1 of 1".into(),
            operation: "AllGather".into(),
            place: String::new(),
            from: 5,
            to: 9,
            moved: Vec::new(),
        };
        let log = Log::new(7);
        log.turned(turn());
        log.taken.store(ROOM, Ordering::Relaxed);
        log.turned(turn());
        log.turned(turn());
        log.close();
        log.taken.store(0, Ordering::Relaxed);
        log.turned(turn());
        log.taken.store(ROOM + 2, Ordering::Relaxed);
        assert_eq!((log.left_out(), log.kept().turns.len()), (2, 1));
        let chart = Chart::of(&log);
        assert_eq!((chart.left_out, chart.length), (2, 4));
        assert_eq!(chart.groups.len(), 1);
        assert_eq!(
            (chart.groups[0].name.as_str(), chart.groups[0].rows[0].spans.len()),
            ("rank 0", 1)
        );
    }
}
