//! Who still uses which bytes of an allocation.
//!
//! A stamp says: the operation with this number on this stream reads (or writes) these bytes. An operation puts its stamps
//! *before* it is enqueued, so there is no moment at which a device may touch bytes that no stamp names. A stamp counts until
//! its number is complete ([`crate::device::timeline`]); then it may be dropped at any time.
//!
//! Streams are first in, first out, so a later stamp of the same stream takes the place of an earlier one over the same
//! bytes. Stamps of other streams that conflict (same bytes, and one of the two writes) are what an operation must wait for.
//!
//! The list is short and its memory is kept. When it is full, complete stamps go first, then stamps of one stream and one
//! kind are merged into one over all their bytes: that may name bytes too many and a number too late, never too few or too
//! early.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use crate::brief::Brief;
use crate::device::lane::Lane;

/// What an operation does with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
}

struct Stamp {
    lane: Arc<Lane>,
    number: u64,
    range: Range<usize>,
    access: Access,
}

/// From here on the list is merged.
const FULL: usize = 16;

/// The stamps of one allocation.
pub(crate) struct Stamps {
    list: Brief<Vec<Stamp>>,
}

/// What an operation has to wait for: for each other stream the highest number.
#[derive(Default)]
pub(crate) struct Conflicts(Vec<(Arc<Lane>, u64)>);

impl Conflicts {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, lane: &Arc<Lane>, number: u64) {
        match self.0.iter_mut().find(|(other, _)| Arc::ptr_eq(other, lane)) {
            Some((_, highest)) => *highest = number.max(*highest),
            None => self.0.push((lane.clone(), number)),
        }
    }

    /// Forgets what `covered` has already been waited for.
    pub(crate) fn without(mut self, covered: impl Fn(&Arc<Lane>, u64) -> bool) -> Self {
        self.0.retain(|(lane, number)| !covered(lane, *number));
        self
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = (Arc<Lane>, u64)> {
        self.0.into_iter()
    }
}

impl Stamps {
    /// Room for stamps, so that the first ones allocate nothing.
    pub(crate) fn new() -> Self {
        Self { list: Brief::new(Vec::with_capacity(4)) }
    }

    /// Stamps `range` for operation `number` of `lane` and collects what it has to wait for.
    pub(crate) fn stamp(
        &self,
        lane: &Arc<Lane>,
        number: u64,
        range: &Range<usize>,
        access: Access,
        conflicts: &mut Conflicts,
    ) {
        let mut list = self.list.lock();
        // A stamp of the same stream over the same bytes is used again, so the steady state moves no memory.
        let mut reuse = None;
        let mut at = 0;
        while let Some(old) = list.get(at) {
            let mut keep = true;
            if Arc::ptr_eq(&old.lane, lane) {
                let replaced = range.start <= old.range.start
                    && old.range.end <= range.end
                    && (access == Access::Write || old.access == Access::Read);
                if replaced && reuse.is_none() {
                    reuse = Some(at);
                } else {
                    keep = !replaced;
                }
            } else if old.lane.is_known_complete(old.number) {
                keep = false;
            } else if overlap(&old.range, range)
                && (access == Access::Write || old.access == Access::Write)
            {
                conflicts.add(&old.lane, old.number);
            }
            if keep {
                at += 1;
            } else {
                // What is moved here comes from behind, so `reuse` stays where it is.
                list.swap_remove(at);
            }
        }
        if let Some(stamp) = reuse.and_then(|at| list.get_mut(at)) {
            stamp.number = number;
            stamp.access = access;
            stamp.range.clone_from(range);
            return;
        }
        if list.len() >= FULL {
            make_room(&mut list);
        }
        list.push(Stamp { lane: lane.clone(), number, range: range.clone(), access });
    }

    /// Whether nothing uses the allocation any more. Never blocks; asks the backend where that helps.
    pub(crate) fn are_complete(&self) -> bool {
        let mut list = self.list.lock();
        list.retain(|stamp| !stamp.lane.is_complete(stamp.number));
        list.is_empty()
    }

    /// What a host access has to wait for: unfinished writes, and with `reads` also unfinished reads.
    pub(crate) fn unfinished(&self, range: &Range<usize>, reads: bool) -> Conflicts {
        let mut conflicts = Conflicts::default();
        for stamp in self.list.lock().iter() {
            if overlap(&stamp.range, range)
                && (reads || stamp.access == Access::Write)
                && !stamp.lane.is_known_complete(stamp.number)
            {
                conflicts.add(&stamp.lane, stamp.number);
            }
        }
        conflicts
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

fn make_room(list: &mut Vec<Stamp>) {
    list.retain(|stamp| !stamp.lane.is_known_complete(stamp.number));
    if list.len() < FULL {
        return;
    }
    let mut merged: Vec<Stamp> = Vec::with_capacity(list.len());
    for stamp in list.drain(..) {
        let same = merged
            .iter_mut()
            .find(|other| Arc::ptr_eq(&other.lane, &stamp.lane) && other.access == stamp.access);
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
