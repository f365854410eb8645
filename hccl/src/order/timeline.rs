//! The numbers of a stream: how many operations were issued on it, and which of them are complete.
//!
//! # The invariant
//!
//! *A number counts as complete only when everything that its operation enqueued is complete.*
//!
//! Operations are numbered from 1 under the stream's issue lock. A number is
//! [`next`](StreamTimeline::next) while its operation is being enqueued. The number becomes part of
//! `submitted` when the enqueue call has returned, even if it returned an error. A refused
//! operation keeps its number, which is complete when the stream has finished the tasks that it
//! held at that moment. So stamps may name a number *before* its operation is enqueued. Until
//! [`publish`](StreamTimeline::publish) the number is newer than `submitted`, and a number newer
//! than `submitted` is never complete.
//!
//! If the backend counts tasks (its *tickets*), `publish` stores the ticket that the stream had
//! reached after the enqueue. A number is complete when the backend's completed ticket is no lower
//! than the stored one. The last [`WINDOW`] tickets are kept. An older number uses the ticket of
//! the oldest kept number. This ticket is higher, so the older number can only seem complete too
//! late, never too early. The same holds when an entry is overwritten between two loads of a
//! reader.
//!
//! A slot has one stream after another. When a stream [begins](StreamTimeline::begin), all earlier
//! numbers are complete. They stay complete, whatever tickets follow.
//!
//! If the backend does not count tasks, events show which numbers are complete, and the code that
//! queries the events calls [`complete`](StreamTimeline::complete).

#![forbid(unsafe_code)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::AtomicU64;

/// The number of tickets that are kept.
#[cfg(not(loom))]
pub(crate) const WINDOW: u64 = 64;
#[cfg(loom)]
pub(crate) const WINDOW: u64 = 2;

/// The numbers of one stream after another; see the [module](self).
pub(crate) struct StreamTimeline {
    submitted: AtomicU64,
    completed: AtomicU64,
    /// The number with which the present stream began.
    began: AtomicU64,
    tickets: [AtomicU64; WINDOW as usize],
}

impl StreamTimeline {
    pub(crate) fn new() -> Self {
        Self {
            submitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            began: AtomicU64::new(0),
            tickets: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Begins a stream at `ticket`, which must be complete and no lower than any earlier ticket.
    /// The call takes one number, so that a stream without operations has a last number too. The
    /// caller makes sure that all earlier operations are complete, and that no other thread begins
    /// a stream or issues an operation.
    pub(crate) fn begin(&self, ticket: u64) {
        let number = self.next();
        self.publish(number, ticket);
        self.complete(number);
        self.began.store(number, Release);
    }

    /// Returns whether `number` belongs to an earlier stream and is therefore complete.
    #[inline]
    pub(crate) fn is_past(&self, number: u64) -> bool {
        number < self.began.load(Acquire)
    }

    /// Returns the position of an operation in its stream, counted from 1.
    #[inline]
    pub(crate) fn position(&self, number: u64) -> u64 {
        number.saturating_sub(self.began.load(Relaxed))
    }

    /// Returns the highest ticket so far.
    pub(crate) fn last_ticket(&self) -> u64 {
        self.entry(self.submitted()).load(Acquire)
    }

    /// Returns the last number whose enqueue call has returned.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.submitted.load(Acquire)
    }

    /// Returns the number of the operation that is about to be enqueued. The caller holds the issue
    /// lock.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.submitted.load(Relaxed) + 1
    }

    /// Publishes `number`: its enqueue call has returned and the stream has reached `ticket` (0 if
    /// the backend does not count tasks). The caller holds the issue lock and publishes all numbers
    /// in order.
    #[inline]
    pub(crate) fn publish(&self, number: u64, ticket: u64) {
        self.entry(number).store(ticket, Release);
        self.submitted.store(number, Release);
    }

    /// Notes that everything up to `number` is complete.
    pub(crate) fn complete(&self, number: u64) {
        // `fetch_update` instead of `fetch_max`, because ThreadSanitizer does not see `fetch_max`.
        // If a higher number is stored already, no store is needed: a thread that reads the higher
        // number is ordered after the thread that stored it.
        let higher = |completed| (completed < number).then_some(number);
        let _ = self.completed.fetch_update(Release, Relaxed, higher);
    }

    /// Returns whether a call of [`complete`](Self::complete) has covered `number`.
    #[inline]
    pub(crate) fn is_told_complete(&self, number: u64) -> bool {
        self.completed.load(Acquire) >= number
    }

    /// Returns the highest number that was passed to [`complete`](Self::complete).
    pub(crate) fn told_complete(&self) -> u64 {
        self.completed.load(Acquire)
    }

    /// Returns a ticket that covers `number`, which belongs to the present stream. Returns `None`
    /// while the enqueue call of the operation has not returned.
    #[inline]
    pub(crate) fn ticket(&self, number: u64) -> Option<u64> {
        let submitted = self.submitted.load(Acquire);
        if number > submitted {
            return None;
        }
        let kept = number.max((submitted + 1).saturating_sub(WINDOW));
        Some(self.entry(kept).load(Acquire))
    }

    /// Returns the oldest number whose ticket is no lower than `ticket`. Returns `None` if there is
    /// none, or if the kept tickets do not show which number it is.
    pub(crate) fn number_of(&self, ticket: u64) -> Option<u64> {
        let submitted = self.submitted.load(Acquire);
        let oldest = (submitted + 1).saturating_sub(WINDOW).max(1);
        let found =
            (oldest..=submitted).find(|&number| self.entry(number).load(Acquire) >= ticket)?;
        // If this is the oldest kept number, an older number may have a ticket that is high enough.
        (found > oldest || oldest == 1).then_some(found)
    }

    #[inline]
    fn entry(&self, number: u64) -> &AtomicU64 {
        &self.tickets[(number % WINDOW) as usize]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn timeline_a_number_is_not_complete_before_its_enqueue_returned() {
        let timeline = StreamTimeline::new();
        assert_eq!(timeline.next(), 1);
        assert_eq!(timeline.ticket(1), None);
        timeline.publish(1, 3);
        assert_eq!(timeline.ticket(1), Some(3));
        assert_eq!(timeline.ticket(2), None);
    }

    #[test]
    fn timeline_an_old_number_borrows_a_higher_ticket() {
        let timeline = StreamTimeline::new();
        for number in 1..=2 * WINDOW {
            timeline.publish(number, 10 * number);
        }
        assert_eq!(timeline.ticket(2 * WINDOW), Some(20 * WINDOW));
        assert_eq!(timeline.ticket(WINDOW + 1), Some(10 * (WINDOW + 1)));
        assert_eq!(timeline.ticket(1), Some(10 * (WINDOW + 1)));
    }

    #[test]
    fn timeline_tickets_lead_back_to_numbers() {
        let timeline = StreamTimeline::new();
        timeline.publish(1, 2);
        timeline.publish(2, 2); // refused: no task of its own
        timeline.publish(3, 4);
        assert_eq!(timeline.number_of(1), Some(1));
        assert_eq!(timeline.number_of(2), Some(1));
        assert_eq!(timeline.number_of(3), Some(3));
        assert_eq!(timeline.number_of(5), None);
    }

    #[test]
    fn timeline_what_came_before_a_stream_is_complete() {
        let timeline = StreamTimeline::new();
        timeline.begin(0);
        timeline.publish(2, 5);
        assert!(!timeline.is_past(2) && timeline.ticket(2) == Some(5));
        timeline.begin(5);
        timeline.publish(4, 9);
        assert!(timeline.is_past(2) && !timeline.is_past(3) && timeline.is_told_complete(3));
        assert_eq!((timeline.position(4), timeline.last_ticket()), (1, 9));
    }

    #[test]
    fn timeline_completion_only_grows() {
        let timeline = StreamTimeline::new();
        timeline.complete(4);
        timeline.complete(2);
        assert!(timeline.is_told_complete(4) && !timeline.is_told_complete(5));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;

    /// An issuer enqueues and publishes more operations than the window keeps, and a backend
    /// completes them. When a third thread sees a number as complete, the backend must have
    /// completed both tasks of its operation.
    #[test]
    fn loom_no_number_seems_complete_too_early() {
        loom::model(|| {
            let timeline = Arc::new(StreamTimeline::new());
            let entered = Arc::new(AtomicU64::new(0));
            let completed = Arc::new(AtomicU64::new(0));
            let reader = {
                let (timeline, completed) = (timeline.clone(), completed.clone());
                loom::thread::spawn(move || {
                    for number in 1..=2 {
                        if let Some(ticket) = timeline.ticket(number)
                            && completed.load(Acquire) >= ticket
                        {
                            // Each operation is two tasks.
                            assert!(completed.load(Acquire) >= 2 * number);
                        }
                    }
                })
            };
            let device = {
                let (entered, completed) = (entered.clone(), completed.clone());
                loom::thread::spawn(move || completed.store(entered.load(Acquire), Release))
            };
            for number in 1..=3 {
                assert_eq!(timeline.next(), number);
                entered.store(2 * number, Release);
                timeline.publish(number, 2 * number);
            }
            reader.join().unwrap();
            device.join().unwrap();
        });
    }
}
