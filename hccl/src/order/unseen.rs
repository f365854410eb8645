//! Failures that the program has not seen, and the calls that return them.
//!
//! An operation may fail after its [`Work`](super::work::Work) was dropped. Then a later call
//! returns the failure, because a later operation may have used the data that the failed operation
//! should have written. Operation B is *later* than operation A if B comes after A on the same
//! stream. It is also later if B is on a stream that has waited for A, because of its memory or by
//! an event. A stream keeps the operations that it has waited for, its *feeds*, until they are
//! complete and their failures are known.
//!
//! * The next operation of the stream is refused with the failure. So is an operation of another
//!   stream that uses memory which the failed operation has written.
//! * A wait for an operation, an event or the stream returns the failure.
//! * A read by the host returns the failure even while the `Work` is alive ([`Unseen::Any`]).
//!
//! These calls return a failure only once. The `Work` of the failed operation returns it each time
//! it is queried.

#![forbid(unsafe_code)]

use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Release};

use ascend_sync::pause;
use smallvec::SmallVec;

use super::stream_slot::{Feed, StreamSlot};
use super::timeline::WINDOW;
use crate::error::Result;
use crate::sync::lock;

/// The failures that a call returns besides the failure of its own operation.
#[derive(Clone, Copy)]
pub(crate) enum Unseen {
    /// The failures of operations whose `Work` was dropped.
    Dropped,
    /// All failures that the program has not seen, for a host read of data that the operations have
    /// written. A `Work` that is still alive returns its own failure once more. A failure that the
    /// call of an operation has returned as an error counts as seen.
    Any,
}

/// The number of feeds at which the feeds of one stream are merged.
const MOST_FEEDS: usize = 32;

impl StreamSlot {
    /// Notes that all later operations of this stream wait for operation `number` of the stream
    /// `other`.
    pub(crate) fn feed(&self, other: &'static StreamSlot, number: u64) {
        let mut fed = lock(&self.fed);
        fed.retain(|Feed { slot, number, .. }| {
            let clean = !slot.may_have_unseen() && slot.fed_count.load(Acquire) == 0;
            !(clean && slot.is_known_complete(*number))
        });
        let is_full = fed.len() >= MOST_FEEDS;
        match fed.iter_mut().find(|feed| is_full && ptr::eq(feed.slot, other)) {
            // The merged feed makes operations between the two feeds seem to wait for more than
            // they do, which is safe.
            Some(feed) => feed.number = feed.number.max(number),
            None => fed.push(Feed { own: self.timeline.next(), slot: other, number }),
        }
        self.fed_count.store(fed.len(), Release);
    }

    /// Returns a failure that the program has not seen, and counts it as reported. Searches the
    /// operations up to `number`, then the operations of other streams that these waited for, and
    /// so on. Operation `number` is complete, so all of the other operations are complete too.
    #[inline]
    pub(crate) fn take_unseen(&'static self, number: u64, unseen: Unseen) -> Result<()> {
        if !self.may_have_unseen() && self.fed_count.load(Acquire) == 0 {
            return Ok(());
        }
        self.take_unseen_of_all(number, unseen)
    }

    /// Returns whether there may be a failure that the program has not seen.
    #[inline]
    pub(crate) fn may_have_unseen(&self) -> bool {
        self.has_news() || self.faults.any_untold()
    }

    #[cold]
    fn take_unseen_of_all(&'static self, number: u64, unseen: Unseen) -> Result<()> {
        let mut all: SmallVec<[(&'static StreamSlot, u64); 4]> = SmallVec::new();
        all.push((self, number));
        let mut at = 0;
        while let Some(&(slot, number)) = all.get(at) {
            at += 1;
            slot.learn_outcome(number);
            slot.take_failure_up_to(number, unseen)?;
            for Feed { slot, number, .. } in slot.fed_up_to(number) {
                if !all.iter().any(|(known, upto)| ptr::eq(*known, slot) && *upto >= number) {
                    all.push((slot, number));
                }
            }
        }
        // No operation that these waited for has failed.
        if all.iter().all(|(slot, _)| !slot.may_have_unseen()) {
            let mut fed = lock(&self.fed);
            fed.retain(|feed| feed.own > number || !feed.slot.is_known_complete(feed.number));
            self.fed_count.store(fed.len(), Release);
        }
        Ok(())
    }

    /// Queries the outcome of an operation that is complete on the device. Does nothing if the
    /// backend counts tasks.
    fn learn_outcome(&self, number: u64) {
        /// The number of attempts. Another thread that makes the same query is soon ready.
        const MOST_LOOKS: u32 = 100;
        if self.progress.is_some() {
            return;
        }
        for look in 0..MOST_LOOKS {
            if self.is_complete(number) {
                return;
            }
            pause(look);
        }
    }

    fn fed_up_to(&self, number: u64) -> SmallVec<[Feed; 4]> {
        if self.fed_count.load(Acquire) == 0 {
            return SmallVec::new();
        }
        lock(&self.fed).iter().copied().filter(|feed| feed.own <= number).collect()
    }

    /// Returns an unreported failure of an operation of this stream up to `number`, and counts it
    /// as reported. `unseen` selects which failures may be returned.
    #[inline]
    pub(crate) fn take_failure_up_to(&self, number: u64, unseen: Unseen) -> Result<()> {
        if !self.may_have_unseen() {
            return Ok(());
        }
        if let Some(stream) = self.occupant() {
            stream.examine();
        }
        let is_meant = |numbers: &RangeInclusive<u64>| {
            let mut last = numbers.clone().rev().take(WINDOW as usize);
            *numbers.start() <= number
                && match unseen {
                    Unseen::Dropped => last.all(|one| self.is_detached(one)),
                    Unseen::Any => last.any(|one| !self.is_refused(one)),
                }
        };
        self.faults.take_untold(is_meant).map_or(Ok(()), Err)
    }
}
