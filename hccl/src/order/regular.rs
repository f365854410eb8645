//! The stream that uses an allocation over and over, without a lock.
//!
//! Nearly always one stream touches the same bytes of an allocation again and again. The stamp of that stream is here and not
//! in the list: its next operation only stores a new number, one load and one store where the list needs its lock.
//!
//! # Why no lock is needed
//!
//! *The numbers are written by whoever holds the issue lock of the regular stream*, and the stream that is regular changes
//! only under the lock of the list **and** the issue lock of the one that was regular. So no number is ever stored to a place
//! that has just been given to another stream.
//!
//! The short way is *open* while no other stream has a stamp in the list. It may be closed by another stream while the
//! regular one takes it. Neither sees the other then, and need not: two operations that conflict are ordered by their
//! borrows (one of them has `&mut`), so what the earlier one stored here is seen by the later one. What is not ordered does
//! not conflict. A reader of the numbers may see a later one than it has to wait for, never an earlier one.
//!
//! Where borrows do not order everything, for what a graph uses, the way is closed for good before the graph can be replayed,
//! and whoever is on it has come to its end: that takes the issue lock of the regular stream once.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::sync::AtomicU64;

/// What an operation does with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessKind {
    Read,
    Write,
}

/// See the [module](self). All orders are relaxed: the locks and the borrows order what must be ordered.
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
    /// The short way, with the issue lock of `stream` held. `false` when it is not open for it, or for other bytes.
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

    /// The long way: with the lock of the list, and the issue locks of `stream` and of the one that was regular before.
    /// What was stamped before goes, and the short way is closed, unless with `keep` it is about the same bytes.
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

    /// With the lock of the list.
    pub(crate) fn open(&self, stream: Option<u64>) {
        self.open.store(stream.unwrap_or(0), Relaxed);
    }

    /// The last operation that wrote, or with `reads` that wrote or read.
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

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use ascend_sync::SpinLock;
    use loom::sync::Arc;

    /// The short way is open for stream 1, whose operation 1 has read.
    fn open_for_stream_1() -> Arc<Regular> {
        let regular = Arc::new(Regular::default());
        regular.restart(1, &(0..4), AccessKind::Read, false);
        regular.open(Some(1));
        regular
    }

    /// Stream 1 reads by the short way while stream 2 becomes regular, as in `Stamps::stamp`.
    #[test]
    fn loom_a_number_is_never_lost_to_another_stream() {
        loom::model(|| {
            let regular = open_for_stream_1();
            // Who is regular, and the stamps in the list.
            let list = Arc::new(SpinLock::new((1_u64, Vec::new())));
            let issuing = Arc::new(SpinLock::new(()));
            let first = {
                let (regular, list, issuing) = (regular.clone(), list.clone(), issuing.clone());
                loom::thread::spawn(move || {
                    let _issuing = issuing.lock();
                    if !regular.stamp(1, 2, &(0..4), AccessKind::Read) {
                        let mut list = list.lock();
                        if list.0 == 1 {
                            regular.restart(2, &(0..4), AccessKind::Read, true);
                        } else {
                            list.1.push((1, 2));
                        }
                    }
                })
            };
            {
                let mut list = list.lock();
                // Operation 1 is complete and 2 is not.
                let free = issuing.try_lock().filter(|_| regular.last(true) <= 1);
                if free.is_some() {
                    regular.restart(7, &(0..4), AccessKind::Read, false);
                    drop(free);
                    list.0 = 2;
                    regular.open(Some(2));
                } else {
                    list.1.push((2, 7));
                    regular.open(None);
                }
            }
            first.join().unwrap();
            let mut stamps = list.lock().1.clone();
            stamps.push((list.lock().0, regular.last(true)));
            stamps.sort();
            assert_eq!(stamps, [(1, 2), (2, 7)]);
        });
    }

    /// Stream 1 goes the short way while a graph is made of the memory and replayed on stream 2, as in `Stamps::share` and
    /// `Stamps::stamp`: one of the two finds the other.
    #[test]
    fn loom_a_graph_and_the_regular_stream_find_each_other() {
        loom::model(|| {
            let regular = open_for_stream_1();
            // The stamps in the list.
            let list = Arc::new(SpinLock::new(Vec::new()));
            let issuing = Arc::new(SpinLock::new(()));
            let first = {
                let (regular, list, issuing) = (regular.clone(), list.clone(), issuing.clone());
                loom::thread::spawn(move || {
                    let _issuing = issuing.lock();
                    if regular.stamp(1, 2, &(0..4), AccessKind::Read) {
                        return false;
                    }
                    let list = list.lock();
                    regular.restart(2, &(0..4), AccessKind::Read, true);
                    list.contains(&(2, 7))
                })
            };
            {
                let closing = list.lock();
                regular.open(None);
                drop(closing);
                drop(issuing.lock());
            }
            let found = {
                let mut list = list.lock();
                list.push((2, 7));
                regular.last(true) == 2
            };
            let was_found = first.join().unwrap();
            assert!(found || was_found);
        });
    }
}
