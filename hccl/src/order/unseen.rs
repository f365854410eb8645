//! Failures that nobody has seen, and who is told of them.
//!
//! An operation may fail while nobody looks at its [`Work`](super::work::Work). Then whoever comes
//! behind it is told, since what came behind may have used what it should have written. *Behind* is
//! the order of the streams: later on the same stream, or on a stream that has waited for it, for
//! its memory or by an event. A stream keeps what it has waited for, its *feeds*, until all of that
//! is complete and has been looked at.
//!
//! * The next operation of the stream is refused with the failure, and so is one of another stream
//!   that uses what the failed one has written.
//! * A wait for an operation, an event or the stream returns it.
//! * A read by the host returns it also while the `Work` is there ([`Unseen::Any`]).
//!
//! A failure is told once in this way. Its own `Work` tells it whenever it is asked.

#![forbid(unsafe_code)]

use std::ops::RangeInclusive;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Release};

use ascend_sync::pause;
use smallvec::SmallVec;

use super::stream_slot::StreamSlot;
use super::timeline::WINDOW;
use crate::error::Result;
use crate::sync::lock;

/// The failures that a wait tells besides that of its own operation.
#[derive(Clone, Copy)]
pub(crate) enum Unseen {
    /// Those whose `Work` nobody has any more.
    Dropped,
    /// All that nobody has seen: the host reads what the operations have written. A `Work` that is
    /// left tells its own failure once more. If the call itself has returned an error, that was
    /// seen.
    Any,
}

/// From this number of feeds on, those of one stream are merged.
const MOST_FEEDS: usize = 32;

/// Operations from `own` on wait for operation `number` of another stream.
#[derive(Clone, Copy)]
pub(super) struct Feed {
    own: u64,
    slot: &'static StreamSlot,
    number: u64,
}

impl StreamSlot {
    /// Notes that operations from now on wait for operation `number` of another stream.
    pub(crate) fn feed(&self, other: &'static StreamSlot, number: u64) {
        let mut fed = lock(&self.fed);
        fed.retain(|Feed { slot, number, .. }| {
            let clean = !slot.may_have_unseen() && slot.fed_count.load(Acquire) == 0;
            !(clean && slot.is_known_complete(*number))
        });
        let is_full = fed.len() >= MOST_FEEDS;
        match fed.iter_mut().find(|feed| is_full && ptr::eq(feed.slot, other)) {
            // Operations in between are then said to wait for more than they do.
            Some(feed) => feed.number = feed.number.max(number),
            None => fed.push(Feed { own: self.timeline.next(), slot: other, number }),
        }
        self.fed_count.store(fed.len(), Release);
    }

    /// Takes a failure that nobody has seen: of the operations up to `number`, of the operations of
    /// other streams that these waited for, and so on. For an operation that is complete, before
    /// which all of these are.
    #[inline]
    pub(crate) fn take_unseen(&'static self, number: u64, unseen: Unseen) -> Result<()> {
        if !self.may_have_unseen() && self.fed_count.load(Acquire) == 0 {
            return Ok(());
        }
        self.take_unseen_of_all(number, unseen)
    }

    /// Whether there may be a failure that nobody has seen.
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
        // All that they waited for was well.
        if all.iter().all(|(slot, _)| !slot.may_have_unseen()) {
            let mut fed = lock(&self.fed);
            fed.retain(|feed| feed.own > number || !feed.slot.is_known_complete(feed.number));
            self.fed_count.store(fed.len(), Release);
        }
        Ok(())
    }

    /// Where events tell: asks how an operation has ended that is complete on the device.
    fn learn_outcome(&self, number: u64) {
        /// Another thread that asks is soon ready.
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

    /// Takes a failure of this stream up to `number`.
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
