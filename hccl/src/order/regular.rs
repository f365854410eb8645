//! The stamp of the stream that uses an allocation again and again. It needs no lock.
//!
//! In nearly every program one stream touches the same bytes of an allocation again and again. The
//! stamp of that stream is kept here instead of in the list. Its next operation only stores a new
//! number, with a few loads and one store instead of the lock of the list.
//!
//! # Why no lock is needed
//!
//! *Only the thread that holds the issue lock of the regular stream writes the numbers.* The
//! regular stream changes only under two locks: the lock of the list, and the issue lock of the
//! stream that was regular. So no number is ever stored in a stamp that has just been given to
//! another stream.
//!
//! The *short way* is to stamp without the lock of the list. It is *open* while no other stream has
//! a stamp in the list. Another stream may close it while the regular stream is taking it. Then the
//! two operations may not see each other, which does no harm. Two operations that conflict are
//! ordered by their borrows (one of them has `&mut`), so the later one sees the number that the
//! earlier one stored here. Operations that are not ordered do not conflict. A reader of the
//! numbers may see a later number than it has to wait for, but never an earlier one.
//!
//! A replay of a graph borrows none of the memory that the graph uses. So the short way is closed
//! for good for that memory. Recording an operation into a graph borrows as the operation itself
//! does. So an operation that conflicts with the recorded one is issued either before the recording
//! or after it. If it is issued before, the replay sees its number; if it is issued after, it finds
//! the short way closed. So the thread that closes the short way need not wait for any other
//! thread.

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

/// The stamp of the regular stream; see the [module](self). All memory orderings are relaxed,
/// because the locks and the borrows order all accesses that must be ordered.
#[derive(Default)]
pub(crate) struct Regular {
    /// The name of the stream that may take the short way, 0 when it is closed.
    open: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    /// The number of the last operation of the regular stream that read these bytes, or 0.
    /// `written` is the same for operations that wrote them.
    read: AtomicU64,
    written: AtomicU64,
}

impl Regular {
    /// Takes the short way: stores `number` without the lock of the list. The caller holds the
    /// issue lock of `stream`. Returns `false` if the short way is not open for this stream and
    /// these bytes.
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

    /// Stores `number` with the lock of the list held, and the issue locks of the new regular
    /// stream and of the previous one. Removes the earlier stamps and closes the short way, unless
    /// `keep` says that the stream and the bytes are the same as before.
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

    /// Opens the short way for `stream`, or closes it if `stream` is `None`. The caller holds the
    /// lock of the list.
    pub(crate) fn open(&self, stream: Option<u64>) {
        self.open.store(stream.unwrap_or(0), Relaxed);
    }

    /// Returns the number of the last operation that wrote these bytes, or 0 if there is none. With
    /// `reads`, an operation that read them counts too.
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
