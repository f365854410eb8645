//! Taking turns: the communication operations of a device are issued one at a time, whatever communicator and thread they come from.
//!
//! CANN demands it, and a mutex would do if every call were short. But the first operation of a communicator waits *inside the
//! call* until its peers have made theirs. Suppose two communicators X and Y over the same two devices, each used by a thread of its
//! own: on one device X comes first and waits for the peer's X, which on the other device stands in line behind Y, which waits for
//! the peer's Y, which stands in line behind X. No order of the lines is wrong, and nobody moves until CANN's connection
//! time-out.
//!
//! So a turn is not held against others for ever: who has stood in line for [`PATIENCE`] goes ahead beside the call that is under
//! way. Only a call that waits for its peers takes that long, and standing behind it any longer can only be a dead lock
//! or lost time; CANN's own libraries keep such calls apart by locks per communicator. Two operations on one *stream* still keep
//! their order, since the stream has its own lock; there, different orders on different devices are a
//! mistake in the program that ends with the connection time-out.

use std::time::{Duration, Instant};

use crate::brief::{Brief, Guard};

/// How long an operation stands in line behind another one of its device.
const PATIENCE: Duration = Duration::from_millis(500);

/// The line of one device.
pub(crate) struct Turn {
    line: Brief<()>,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Turn { line: Brief::new(()) }
    }

    /// Waits for the turn of the caller, at most [`PATIENCE`]. Without contention: one atomic step.
    #[inline]
    pub(crate) fn take(&self) -> Option<Guard<'_, ()>> {
        self.line.try_lock().or_else(|| self.stand_in_line())
    }

    #[cold]
    fn stand_in_line(&self) -> Option<Guard<'_, ()>> {
        let since = Instant::now();
        let mut looks = 0u32;
        loop {
            if let Some(turn) = self.line.try_lock() {
                return Some(turn);
            }
            if since.elapsed() > PATIENCE {
                return None;
            }
            looks = looks.saturating_add(1);
            match looks {
                // A call that does not wait for peers takes a microsecond or a few.
                0..64 => std::hint::spin_loop(),
                64..128 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "under Miri threads take longer than the patience of a turn")]
    fn one_at_a_time() {
        let turn = Turn::new();
        let inside = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let _turn = turn.take().expect("nobody stays long");
                        let only_one = inside.try_lock().expect("somebody else has the turn");
                        drop(only_one);
                    }
                });
            }
        });
    }

    #[test]
    fn a_call_that_does_not_return_holds_up_nobody_for_ever() {
        let turn = Turn::new();
        let stuck = turn.take();
        let since = Instant::now();
        assert!(turn.take().is_none());
        assert!(since.elapsed() >= PATIENCE);
        drop(stuck);
        assert!(turn.take().is_some());
    }
}
