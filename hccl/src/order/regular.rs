//! The stream that uses an allocation over and over, without a lock.
//!
//! Nearly always one stream touches the same bytes of an allocation again and again. The stamp of
//! that stream is here and not in the list: its next operation only stores a new number, one load
//! and one store where the list needs its lock.
//!
//! # Why no lock is needed
//!
//! *The numbers are written by the thread that holds the issue lock of the regular stream*, and the
//! regular stream changes only under the lock of the list **and** the issue lock of the stream that
//! was regular. So no number is ever stored to a place that has just been given to another stream.
//!
//! The short way is *open* while no other stream has a stamp in the list. Another stream may close
//! it while the regular one takes it. Neither sees the other then, and need not: two operations
//! that conflict are ordered by their borrows (one of them has `&mut`), so the later one sees what
//! the earlier one stored here. Operations that are not ordered do not conflict. A reader of the
//! numbers may see a later one than it has to wait for, never an earlier one.
//!
//! Replays of a graph borrow none of the memory that the graph uses, so for that memory the short
//! way is closed for good. Recording an operation borrows as the operation itself does. So an
//! operation that conflicts with it has been issued before, and its number is seen, or is issued
//! later, and finds the way closed. Nobody has to be waited for.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::sync::AtomicU64;

/// The kind of an operation's access to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

/// The stamp of the regular stream; see the [module](self). All orderings are relaxed: the locks
/// and the borrows order what must be ordered.
#[derive(Default)]
pub(crate) struct Regular {
    /// The name of the stream that may take the short way, 0 when it is closed.
    open: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    /// The last operations of the regular stream that read and that wrote these bytes, 0 for none.
    read: AtomicU64,
    written: AtomicU64,
}

impl Regular {
    /// The short way, with the issue lock of `stream` held. `false` when it is not open for it, or
    /// for other bytes.
    #[inline]
    pub(crate) fn stamp(
        &self,
        stream: u64,
        number: u64,
        range: &Range<usize>,
        access: AccessKind,
    ) -> bool {
        let open = self.open.load(Relaxed) == stream && self.is_range(range);
        if open {
            self.number(access).store(number, Relaxed);
        }
        open
    }

    /// The long way: with the lock of the list, and the issue locks of `stream` and of the one that
    /// was regular before. It removes earlier stamps and closes the short way, unless with `keep`
    /// it is about the same bytes.
    pub(crate) fn restart(
        &self,
        number: u64,
        range: &Range<usize>,
        access: AccessKind,
        keep: bool,
    ) {
        if !keep {
            self.open(None);
            self.start.store(range.start as u64, Relaxed);
            self.end.store(range.end as u64, Relaxed);
            self.read.store(0, Relaxed);
            self.written.store(0, Relaxed);
        }
        self.number(access).store(number, Relaxed);
    }

    /// Opens the short way for a stream, or closes it. With the lock of the list.
    pub(crate) fn open(&self, stream: Option<u64>) {
        self.open.store(stream.unwrap_or(0), Relaxed);
    }

    /// Returns the last operation that wrote, or with `reads` that wrote or read.
    pub(crate) fn last(&self, reads: bool) -> u64 {
        let read = if reads { self.read.load(Relaxed) } else { 0 };
        self.written.load(Relaxed).max(read)
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.start.load(Relaxed) as usize..self.end.load(Relaxed) as usize
    }

    #[inline]
    pub(crate) fn is_range(&self, range: &Range<usize>) -> bool {
        self.start.load(Relaxed) == range.start as u64 && self.end.load(Relaxed) == range.end as u64
    }

    #[inline]
    fn number(&self, access: AccessKind) -> &AtomicU64 {
        match access {
            AccessKind::Read => &self.read,
            AccessKind::Write => &self.written,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_is_for_one_stream_and_its_bytes() {
        let regular = Regular::default();
        assert!(!regular.stamp(1, 1, &(0..4), AccessKind::Write));
        regular.restart(1, &(0..4), AccessKind::Write, false);
        assert!(!regular.stamp(1, 2, &(0..4), AccessKind::Write), "not open yet");
        regular.open(Some(1));
        assert!(regular.stamp(1, 2, &(0..4), AccessKind::Read));
        assert_eq!((regular.last(false), regular.last(true)), (1, 2));
        assert!(
            !regular.stamp(1, 3, &(0..2), AccessKind::Read)
                && !regular.stamp(2, 3, &(0..4), AccessKind::Read)
        );
        regular.open(None);
        assert!(!regular.stamp(1, 3, &(0..4), AccessKind::Read));
        assert_eq!(regular.last(true), 2);
    }
}
