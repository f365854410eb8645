//! The stamps of an allocation: which operations still use which of its bytes.
//!
//! A stamp says: the operation with this number on this stream reads (or writes) these bytes. An
//! operation puts its stamps *before* it is enqueued, so a stamp names every byte that a device may
//! touch. A stamp counts until its number is complete ([`crate::order::timeline`]). After that it
//! may be removed at any time.
//!
//! A stream runs its operations in order, so a later stamp of the same stream replaces an earlier
//! one over the same bytes. An operation must wait for conflicting stamps of other streams (same
//! bytes, and one of the two writes).
//!
//! A stream that uses the allocation again and again has its stamp outside the list
//! ([`super::regular`]) and needs no lock, as long as borrows order all conflicts. A graph borrows
//! nothing, so its memory is [shared](Stamps::share): from then on all stamps are in the list.
//!
//! The list is short, and its memory is reused. When it is full, complete stamps are removed first.
//! If that is not enough, stamps of the same stream and the same access are merged into one stamp
//! over all their bytes. A merged stamp may name too many bytes and too late a number, but never
//! too few bytes or too early a number.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use super::regular::AccessKind;
use super::regular::Regular;
use super::stream_slot::StreamSlot;
use crate::sync::name;
use ascend_sync::SpinLock;

struct Stamp {
    slot: &'static StreamSlot,
    number: u64,
    range: Range<usize>,
    access: AccessKind,
}

/// The length of the list at which stamps are merged.
const FULL: usize = 16;

/// The stamps of one allocation.
pub(crate) struct Stamps {
    regular: Regular,
    list: SpinLock<List>,
}

struct List {
    /// The slot whose numbers are in the field `regular` of [`Stamps`].
    regular: Option<&'static StreamSlot>,
    stamps: Vec<Stamp>,
    /// Whether a graph uses the allocation, so that borrows do not order all conflicts.
    shared: bool,
}

/// The operations that an operation has to wait for: the highest number of each other stream. Up to
/// four streams need no allocation.
#[derive(Clone, Default)]
pub(crate) struct Conflicts(SmallVec<[(&'static StreamSlot, u64); 4]>);

impl Conflicts {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, slot: &'static StreamSlot, number: u64) {
        match self.0.iter_mut().find(|(other, _)| ptr::eq(*other, slot)) {
            Some((_, highest)) => *highest = number.max(*highest),
            None => self.0.push((slot, number)),
        }
    }

    pub(crate) fn first(&self) -> Option<(&'static StreamSlot, u64)> {
        self.0.first().copied()
    }

    /// Removes the conflicts for which `covered` returns true.
    pub(crate) fn without(mut self, covered: impl Fn(&'static StreamSlot, u64) -> bool) -> Self {
        self.0.retain(|(slot, number)| !covered(slot, *number));
        self
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = (&'static StreamSlot, u64)> {
        self.0.into_iter()
    }
}

impl Stamps {
    /// Returns stamps with room for a few, so that the first stamps allocate nothing.
    pub(crate) fn new() -> Self {
        let list = List { regular: None, stamps: Vec::with_capacity(4), shared: false };
        Self { regular: Regular::default(), list: SpinLock::new(list) }
    }

    /// Stamps `range` for operation `number` of `slot`. Adds to `conflicts` the operations that it
    /// has to wait for, and those that wrote these bytes and may have a failure that the program
    /// has not seen. The caller holds the issue lock of the slot.
    ///
    /// Unless the stamps are shared, the caller must order conflicting operations, as a borrow
    /// does.
    #[inline]
    pub(crate) fn stamp(
        &self,
        slot: &'static StreamSlot,
        number: u64,
        range: &Range<usize>,
        access: AccessKind,
        conflicts: &mut Conflicts,
    ) {
        if !self.regular.stamp(name(slot), number, range, access) {
            self.stamp_in_list(slot, number, range, access, conflicts);
        }
    }

    #[inline(never)]
    fn stamp_in_list(
        &self,
        slot: &'static StreamSlot,
        number: u64,
        range: &Range<usize>,
        access: AccessKind,
        conflicts: &mut Conflicts,
    ) {
        let mut list = self.list.lock();
        let List { regular, stamps, shared } = &mut *list;
        let placed = self.stamp_as_regular(regular, slot, number, range, access, conflicts);
        // A stamp of the same stream over the same bytes is reused in place, so that the steady
        // state moves no memory.
        let mut reuse = None;
        let mut at = 0;
        while let Some(old) = stamps.get(at) {
            let mut keep = true;
            if ptr::eq(old.slot, slot)
                && range.start <= old.range.start
                && old.range.end <= range.end
                && (access == AccessKind::Write || old.access == AccessKind::Read)
            {
                if !placed && reuse.is_none() {
                    reuse = Some(at);
                } else {
                    keep = false;
                }
            } else {
                keep = !old.slot.is_known_complete(old.number);
                let concerns = match old.access {
                    AccessKind::Write => keep || old.slot.may_have_unseen(),
                    AccessKind::Read => keep && access == AccessKind::Write,
                };
                if concerns && !ptr::eq(old.slot, slot) && overlap(&old.range, range) {
                    conflicts.add(old.slot, old.number);
                }
            }
            if keep {
                at += 1;
            } else {
                // The last stamp moves here. Its index is higher than `reuse`, so `reuse` stays
                // valid.
                stamps.swap_remove(at);
            }
        }
        self.regular.open((placed && stamps.is_empty() && !*shared).then(|| name(slot)));
        if placed {
            return;
        }
        if let Some(stamp) = reuse.and_then(|at| stamps.get_mut(at)) {
            stamp.number = number;
            stamp.access = access;
            stamp.range.clone_from(range);
            return;
        }
        if stamps.len() >= FULL {
            make_room(stamps);
        }
        stamps.push(Stamp { slot, number, range: range.clone(), access });
    }

    /// Closes the short way for good. Called when a graph begins to use the allocation, because no
    /// borrow orders replays of the graph with other operations.
    pub(crate) fn share(&self) {
        let mut list = self.list.lock();
        list.shared = true;
        self.regular.open(None);
    }

    /// Stamps as the regular stream if `slot` is the regular stream or can become it. Returns
    /// whether it did. If another stream was regular, adds the conflicts with that stream to
    /// `conflicts`.
    fn stamp_as_regular(
        &self,
        regular: &mut Option<&'static StreamSlot>,
        slot: &'static StreamSlot,
        number: u64,
        range: &Range<usize>,
        access: AccessKind,
        conflicts: &mut Conflicts,
    ) -> bool {
        match regular {
            Some(old) if ptr::eq(*old, slot) => {
                let keep = self.regular.is_range(range);
                if !keep && !old.is_known_complete(self.regular.last(true)) {
                    return false;
                }
                self.regular.restart(number, range, access, keep);
                return true;
            }
            Some(old) => {
                // While this thread holds the issue lock of the regular stream, that stream cannot
                // take the short way. A try-lock, because this thread holds an issue lock and the
                // list already (rules 5 and 6 of `order`).
                let issuing = old.try_issuing();
                if overlap(&self.regular.range(), range) {
                    let last = self.regular.last(access == AccessKind::Write);
                    let written = self.regular.last(false);
                    if last != 0 && !old.is_known_complete(last) {
                        conflicts.add(old, last);
                    } else if written != 0 && old.may_have_unseen() {
                        conflicts.add(old, written);
                    }
                }
                if issuing.is_none() || !old.is_known_complete(self.regular.last(true)) {
                    return false;
                }
                self.regular.restart(number, range, access, false);
            }
            None => self.regular.restart(number, range, access, false),
        }
        *regular = Some(slot);
        true
    }

    /// Returns whether no operation uses the allocation any more. Removes complete stamps. May
    /// query the backend; never blocks.
    fn are_complete(&mut self) -> bool {
        let mut list = self.list.lock();
        list.stamps.retain(|stamp| !stamp.slot.is_complete(stamp.number));
        // `self` is borrowed mutably, so no thread is taking the short way.
        if list.regular.as_ref().is_some_and(|slot| slot.is_complete(self.regular.last(true))) {
            self.regular.open(None);
            list.regular = None;
        }
        list.stamps.is_empty() && list.regular.is_none()
    }

    /// Returns all operations that use the allocation and are not known to be complete.
    pub(crate) fn all_unfinished(&self) -> Conflicts {
        self.unfinished(&(0..usize::MAX), true)
    }

    /// Returns the operations that have written some of these bytes and may have a failure that
    /// the program has not seen.
    pub(crate) fn unseen(&self, range: &Range<usize>) -> Conflicts {
        self.find(range, false, |slot, _| slot.may_have_unseen())
    }

    /// Returns the operations that a host access has to wait for: unfinished writes, and with
    /// `reads` also unfinished reads.
    pub(crate) fn unfinished(&self, range: &Range<usize>, reads: bool) -> Conflicts {
        self.find(range, reads, |slot, number| !slot.is_known_complete(number))
    }

    /// Returns the operations that have written some of these bytes, if `wanted` returns true for
    /// them. With `reads`, operations that have read some of these bytes count too.
    fn find(
        &self,
        range: &Range<usize>,
        reads: bool,
        wanted: impl Fn(&StreamSlot, u64) -> bool,
    ) -> Conflicts {
        let mut found = Conflicts::default();
        let list = self.list.lock();
        let last = self.regular.last(reads);
        if let Some(slot) = list.regular
            && last != 0
            && overlap(&self.regular.range(), range)
            && wanted(slot, last)
        {
            found.add(slot, last);
        }
        for stamp in &list.stamps {
            if overlap(&stamp.range, range)
                && (reads || stamp.access == AccessKind::Write)
                && wanted(stamp.slot, stamp.number)
            {
                found.add(stamp.slot, stamp.number);
            }
        }
        found
    }
}

/// Returns whether no operation uses the stamped object any more and nothing else shares its
/// stamps, such as a graph. Never blocks.
pub(crate) fn are_complete(stamps: &mut Arc<Stamps>) -> bool {
    Arc::get_mut(stamps).is_some_and(Stamps::are_complete)
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

fn make_room(list: &mut Vec<Stamp>) {
    list.retain(|stamp| !stamp.slot.is_known_complete(stamp.number));
    if list.len() < FULL {
        return;
    }
    let mut merged: Vec<Stamp> = Vec::with_capacity(list.len());
    for stamp in list.drain(..) {
        let same = merged
            .iter_mut()
            .find(|other| ptr::eq(other.slot, stamp.slot) && other.access == stamp.access);
        match same {
            Some(other) => {
                other.number = other.number.max(stamp.number);
                other.range.start = other.range.start.min(stamp.range.start);
                other.range.end = other.range.end.max(stamp.range.end);
            }
            None => merged.push(stamp),
        }
    }
    list.append(&mut merged);
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    const BYTES: Range<usize> = 0..4;

    /// Issues an operation that only stamps. Returns its number and the operations that it has to
    /// wait for.
    fn issue(
        stamps: &Stamps,
        slot: &'static StreamSlot,
        access: AccessKind,
    ) -> (u64, Vec<(u64, u64)>) {
        let _issuing = slot.issuing();
        let number = slot.timeline.next();
        let mut conflicts = Conflicts::default();
        stamps.stamp(slot, number, &BYTES, access, &mut conflicts);
        slot.timeline.publish(number, 0);
        (number, named(conflicts))
    }

    fn named(conflicts: Conflicts) -> Vec<(u64, u64)> {
        conflicts.into_iter().map(|(slot, number)| (name(slot), number)).collect()
    }

    /// Returns stamps and two streams. The short way is open for the first stream, whose only
    /// operation is complete.
    fn begun() -> (Arc<Stamps>, [&'static StreamSlot; 2]) {
        let (stamps, slots) = (Arc::new(Stamps::new()), [(); 2].map(|()| StreamSlot::take(None)));
        let (number, _) = issue(&stamps, slots[0], AccessKind::Read);
        slots[0].timeline.complete(number);
        (stamps, slots)
    }

    fn check(body: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(body);
    }

    /// The first stream reads by the short way while the second one becomes regular.
    #[test]
    fn loom_a_number_is_never_lost_to_another_stream() {
        check(|| {
            let (stamps, [one, two]) = begun();
            let other = {
                let stamps = stamps.clone();
                loom::thread::spawn(move || issue(&stamps, one, AccessKind::Read).0)
            };
            let second = issue(&stamps, two, AccessKind::Read).0;
            let first = other.join().unwrap();
            let mut left = named(stamps.all_unfinished());
            left.sort_unstable();
            let mut all = [(name(one), first), (name(two), second)];
            all.sort_unstable();
            assert_eq!(left, all);
        });
    }

    /// A graph closes the short way of the first stream, which then writes twice while the graph is
    /// replayed on the second stream. For each write, either the write finds the replay or the
    /// replay finds the write.
    #[test]
    fn loom_a_graph_and_the_regular_stream_find_each_other() {
        check(|| {
            let (stamps, [one, two]) = begun();
            // The capture borrows as a write does, so it never runs at the same time as a write.
            // Here it comes before both.
            stamps.share();
            let other = {
                let stamps = stamps.clone();
                loom::thread::spawn(move || {
                    [(); 2].map(|()| issue(&stamps, one, AccessKind::Write))
                })
            };
            let (replayed, found) = issue(&stamps, two, AccessKind::Write);
            for (written, was_found) in other.join().unwrap() {
                let waits = |(slot, number): &(u64, u64)| *slot == name(one) && *number >= written;
                let graph_waits = found.iter().any(waits);
                let stream_waits = was_found.contains(&(name(two), replayed));
                assert!(graph_waits || stream_waits, "neither waits");
            }
        });
    }

    /// The first stream reads by the short way while a graph captures a read of the same memory,
    /// which does not conflict. A write that is captured later finds the read when it is replayed.
    #[test]
    fn loom_what_is_read_during_a_capture_is_found_later() {
        check(|| {
            let (stamps, [one, two]) = begun();
            let other = {
                let stamps = stamps.clone();
                loom::thread::spawn(move || issue(&stamps, one, AccessKind::Read).0)
            };
            stamps.share();
            // To capture a write, the graph needs the only borrow, so the read has been issued.
            let read = other.join().unwrap();
            let (_, found) = issue(&stamps, two, AccessKind::Write);
            assert!(found.contains(&(name(one), read)));
        });
    }
}
