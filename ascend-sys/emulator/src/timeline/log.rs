//! The log of a recording, to which threads add entries.

use crate::closed::monotonic;
use ascend_sync::lock_std as lock;
use ascend_timeline::{Launch, PrimitiveSpan, Record, Source, TurnSpan};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The largest number of entries of a recording. Later entries are counted and left out.
const ROOM: u64 = 1 << 18;

/// A moment of a log.
#[derive(Clone, Copy, Default)]
pub(super) struct LogMark {
    pub(super) at: u64,
    /// The number of entries that were left out before this moment.
    pub(super) left_out: u64,
}

/// The log of a block. Times are nanoseconds since its start.
pub(crate) struct Log {
    /// The start, in nanoseconds of the monotonic clock.
    zero: u64,
    open: AtomicBool,
    taken: AtomicU64,
    kept: Mutex<Record>,
}

impl Log {
    pub(super) fn new(block: u32) -> Log {
        let zero = monotonic();
        let source = Source { process: std::process::id(), block, began: zero };
        Log {
            zero,
            open: AtomicBool::new(true),
            taken: AtomicU64::new(0),
            kept: Mutex::new(Record::new(source)),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        monotonic().saturating_sub(self.zero)
    }

    /// Reserves room for an entry. Returns false if no room is left.
    pub(crate) fn has_room(&self) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed) < ROOM
    }

    pub(super) fn close(&self) {
        // The lock is held, so that a thread that found the log open also writes before it closes.
        let _kept = lock(&self.kept);
        self.open.store(false, Ordering::Relaxed);
    }

    pub(crate) fn launched(&self, launch: Launch) {
        if self.has_room() {
            self.write(|kept| kept.launches.push(launch));
        }
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

    fn write(&self, write: impl FnOnce(&mut Record)) {
        let mut kept = lock(&self.kept);
        if self.open.load(Ordering::Relaxed) {
            write(&mut kept);
        }
    }

    /// Returns true if the log is closed and has no entry, not even one that was left out.
    pub(super) fn is_closed_and_empty(&self) -> bool {
        !self.open.load(Ordering::Relaxed) && lock(&self.kept).is_empty() && self.left_out() == 0
    }

    fn left_out(&self) -> u64 {
        self.taken.load(Ordering::Relaxed).saturating_sub(ROOM)
    }

    /// Returns the state of the log at this moment.
    pub(super) fn mark(&self) -> LogMark {
        LogMark { at: self.now(), left_out: self.left_out() }
    }

    /// Returns a copy of all entries.
    pub(super) fn record(&self) -> Record {
        let left_out = self.left_out();
        Record { left_out, ..lock(&self.kept).clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ascend_timeline::ServersKey;

    #[test]
    fn what_has_no_room_is_counted_and_what_comes_after_the_end_is_not_kept() {
        let turn = || TurnSpan {
            device: 0,
            servers: ServersKey::Job(0),
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
        let record = log.record();
        assert_eq!((record.left_out, record.turns.len()), (2, 1));
    }
}
