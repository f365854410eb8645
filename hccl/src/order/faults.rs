//! The failures of operations that failed after they had been issued.
//!
//! A failure is reported to the task or thread that awaits the operation. If its `Work` was
//! dropped, the next call that comes after the operation in the order of the streams returns the
//! failure. A failure is kept even after it was reported (`told` in the code), because the `Work`
//! of a failed operation must never report success.
//!
//! The last [`KEPT`] failures are kept one by one. For older failures, and for those that the
//! backend itself has forgotten, only a range of numbers or tickets is kept. Every operation in the
//! range counts as failed. So a failure never turns into success. But if the program has not
//! queried the outcome of a successful operation in time, the operation may be reported as failed.
//!
//! A `Work` may outlive its stream. So the failures of earlier streams of the slot are kept in the
//! same way, separately from those of the present stream.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::error::Error;
use crate::sync::lock;

/// The number of failures that are kept one by one: as many as a backend keeps.
const KEPT: usize = 64;

struct StreamFailure {
    /// The numbers of the operations that may have failed. This is a single number if the backend
    /// reports it. Otherwise these are all operations that were not known to have succeeded.
    numbers: RangeInclusive<u64>,
    /// The ticket of the failed task, if the backend counts tasks.
    ticket: Option<u64>,
    error: Error,
    told: bool,
}

/// Failures whose details are gone. Ranges are (first, last).
struct Forgotten {
    /// The range of tickets of the failures that are known by their ticket.
    tickets: Option<(u64, u64)>,
    /// The range of numbers of the failures that are known by their number.
    numbers: Option<(u64, u64)>,
    /// The range of numbers of the failures that have not been reported.
    untold: Option<(u64, u64)>,
    /// The last failure whose details were known.
    last: Option<Box<Error>>,
}

impl Forgotten {
    fn error(&self) -> Error {
        Error::Forgotten { last: self.last.clone() }
    }

    fn is_meant(&self, number: u64, tickets: (u64, u64)) -> bool {
        let (before, after) = tickets;
        let by_ticket = self.tickets.is_some_and(|(a, b)| a <= after && before < b);
        by_ticket && before < after || self.numbers.is_some_and(|(a, b)| a <= number && number <= b)
    }
}

fn widen(range: &mut Option<(u64, u64)>, (first, last): (u64, u64)) {
    let (a, b) = range.unwrap_or((first, last));
    *range = Some((a.min(first), b.max(last)));
}

/// The failures of a slot.
#[derive(Default)]
pub(crate) struct Faults {
    /// The number of failures that have not been reported. The fast path reads only this field.
    untold: AtomicU64,
    /// The number of failures so far, including those of earlier streams.
    ever: AtomicU64,
    kept: Mutex<Kept>,
    /// The failures of earlier streams. Locked after `kept`.
    past: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    list: VecDeque<StreamFailure>,
    forgotten: Option<Forgotten>,
}

impl Kept {
    /// Adds a failure. If the list is full, this forgets the oldest failure. Returns whether the
    /// forgotten failure was merged with another unreported failure. Merged failures are reported
    /// as one failure.
    fn add(&mut self, fault: StreamFailure) -> bool {
        let oldest = if self.list.len() == KEPT { self.list.pop_front() } else { None };
        self.list.push_back(fault);
        oldest.is_some_and(|StreamFailure { numbers, ticket, error, told }| {
            let tickets = ticket.map(|ticket| (ticket, ticket));
            self.forget(numbers.into_inner(), tickets, told, Some(Box::new(error)))
        })
    }

    fn meant(&self, number: u64, tickets: (u64, u64)) -> Option<Error> {
        // Other operations may have failed too, so this does not count as a report.
        let forgotten = self.forgotten.as_ref()?;
        forgotten.is_meant(number, tickets).then(|| forgotten.error())
    }

    /// Forgets the details of a failure and keeps only its range. Returns whether it was merged
    /// with another unreported failure. Merged failures are reported as one failure.
    fn forget(
        &mut self,
        numbers: (u64, u64),
        tickets: Option<(u64, u64)>,
        told: bool,
        last: Option<Box<Error>>,
    ) -> bool {
        let forgotten = self.forgotten.get_or_insert(Forgotten {
            tickets: None,
            numbers: None,
            untold: None,
            last: None,
        });
        match tickets {
            Some(tickets) => widen(&mut forgotten.tickets, tickets),
            None => widen(&mut forgotten.numbers, numbers),
        }
        forgotten.last = last.or(forgotten.last.take());
        let merged = !told && forgotten.untold.is_some();
        if !told {
            widen(&mut forgotten.untold, numbers);
        }
        merged
    }
}

impl Faults {
    #[inline]
    pub(crate) fn any_untold(&self) -> bool {
        self.untold.load(Relaxed) != 0
    }

    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.ever.load(Acquire) != 0
    }

    pub(crate) fn add(&self, numbers: RangeInclusive<u64>, ticket: Option<u64>, error: Error) {
        let mut kept = lock(&self.kept);
        if !kept.add(StreamFailure { numbers, ticket, error, told: false }) {
            self.untold.fetch_add(1, Relaxed);
        }
        self.ever.fetch_add(1, Release);
    }

    /// Moves all failures to the failures of earlier streams. Called when another stream begins;
    /// all failures have been reported by then.
    pub(crate) fn begin(&self) {
        if !self.any() {
            return;
        }
        let Kept { list, forgotten } = std::mem::take(&mut *lock(&self.kept));
        let mut past = lock(&self.past);
        for fault in list {
            past.add(fault);
        }
        if let Some(Forgotten { tickets, numbers, last, .. }) = forgotten {
            if let Some(tickets) = tickets {
                past.forget((0, 0), Some(tickets), true, last.clone());
            }
            if let Some(numbers) = numbers {
                past.forget(numbers, None, true, last);
            }
        }
    }

    /// Adds failures that the backend has counted among the tasks with these `tickets`, which
    /// belong to the operations `numbers`. It is not known which of them failed.
    pub(crate) fn add_forgotten(&self, numbers: (u64, u64), tickets: (u64, u64)) {
        let mut kept = lock(&self.kept);
        let last = kept.list.back().map(|fault| Box::new(fault.error.clone()));
        if !kept.forget(numbers, Some(tickets), false, last) {
            self.untold.fetch_add(1, Relaxed);
        }
        self.ever.fetch_add(1, Release);
    }

    /// Returns the failure of operation `number`, whose tasks have the tickets after `tickets.0` up
    /// to `tickets.1`. Counts it as reported, unless its details are forgotten.
    pub(crate) fn of(&self, number: u64, tickets: (u64, u64)) -> Option<Error> {
        [&self.kept, &self.past].into_iter().find_map(|kept| {
            let mut kept = lock(kept);
            let known = self.tell(&mut kept, |fault| match fault.ticket {
                Some(ticket) => tickets.0 < ticket && ticket <= tickets.1,
                None => fault.numbers.contains(&number),
            });
            known.or_else(|| kept.meant(number, tickets))
        })
    }

    /// Returns whether a known failure may be that of operation `number`. This does not count as a
    /// report.
    pub(crate) fn is_known(&self, number: u64) -> bool {
        self.any() && {
            let kept = lock(&self.kept);
            let forgotten = kept.forgotten.as_ref().and_then(|forgotten| forgotten.numbers);
            kept.list.iter().any(|fault| fault.numbers.contains(&number))
                || forgotten.is_some_and(|(first, last)| first <= number && number <= last)
        }
    }

    /// Returns an unreported failure whose range of numbers `wanted` accepts, and counts it as
    /// reported. Forgotten failures come first.
    pub(crate) fn take_untold(
        &self,
        wanted: impl Fn(&RangeInclusive<u64>) -> bool,
    ) -> Option<Error> {
        let mut kept = lock(&self.kept);
        if let Some(forgotten) = &mut kept.forgotten
            && forgotten.untold.take_if(|(first, last)| wanted(&(*first..=*last))).is_some()
        {
            self.untold.fetch_sub(1, Relaxed);
            return Some(forgotten.error());
        }
        self.tell(&mut kept, |fault| !fault.told && wanted(&fault.numbers))
    }

    fn tell(&self, kept: &mut Kept, wanted: impl Fn(&StreamFailure) -> bool) -> Option<Error> {
        let fault = kept.list.iter_mut().find(|fault| wanted(fault))?;
        if !std::mem::replace(&mut fault.told, true) {
            self.untold.fetch_sub(1, Relaxed);
        }
        Some(fault.error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(problem: &str) -> Error {
        Error::Invalid { operation: "test", problem: problem.into() }
    }

    #[test]
    fn an_untold_failure_is_told_once_and_its_own_work_is_told_again() {
        let faults = Faults::default();
        faults.add(3..=3, None, error("first"));
        assert!(faults.any_untold());
        assert!(faults.of(2, (0, 0)).is_none());
        assert!(faults.take_untold(|_| true).is_some());
        assert!(faults.take_untold(|_| true).is_none() && !faults.any_untold());
        assert!(faults.of(3, (0, 0)).is_some());
    }

    #[test]
    fn a_counted_failure_belongs_to_the_operation_with_its_ticket() {
        let faults = Faults::default();
        faults.add(3..=3, Some(7), error("third"));
        assert!(faults.of(3, (7, 9)).is_none());
        assert!(faults.of(3, (5, 7)).is_some());
    }

    #[test]
    fn the_oldest_failures_lose_their_details_and_stay_failures() {
        let faults = Faults::default();
        let last = KEPT as u64 + 10;
        for number in 3..=last {
            faults.add(number..=number, None, error("one of many"));
        }
        assert!(faults.of(2, (0, 0)).is_none() && faults.of(last + 1, (0, 0)).is_none());
        for number in 3..=10 {
            let error = faults.of(number, (0, 0)).unwrap();
            assert!(matches!(error, Error::Forgotten { last: Some(_) }), "{error}");
        }
        assert!(matches!(faults.of(11, (0, 0)), Some(Error::Invalid { .. })));
        // None of the old failures was reported, so one report covers all of them.
        assert!(matches!(faults.take_untold(|_| true), Some(Error::Forgotten { .. })));
        let told = std::iter::from_fn(|| faults.take_untold(|_| true)).count();
        assert!(told == KEPT - 1 && !faults.any_untold(), "{told}");
    }

    #[test]
    fn a_failure_of_an_earlier_stream_stays_one_and_is_none_of_the_present() {
        let faults = Faults::default();
        faults.add(3..=3, Some(7), error("known"));
        faults.add_forgotten((4, 5), (8, 9));
        while faults.take_untold(|_| true).is_some() {}
        faults.begin();
        assert!(!faults.any_untold() && faults.of(7, (10, 11)).is_none());
        faults.add_forgotten((8, 8), (20, 20));
        // Operations between the failures of the two streams have succeeded.
        assert!(faults.of(7, (10, 11)).is_none() && faults.of(8, (19, 20)).is_some());
        assert!(matches!(faults.of(3, (6, 7)), Some(Error::Invalid { .. })));
        assert!(matches!(faults.of(4, (7, 8)), Some(Error::Forgotten { last: Some(_) })));
    }

    #[test]
    fn what_the_backend_forgot_is_known_by_its_tickets() {
        let faults = Faults::default();
        faults.add_forgotten((0, 5), (10, 20));
        assert!(faults.of(4, (8, 9)).is_none() && faults.of(9, (20, 22)).is_none());
        assert!(faults.of(4, (9, 10)).is_some() && faults.of(5, (19, 20)).is_some());
        assert!(faults.take_untold(|numbers| *numbers == (0..=5)).is_some());
        assert!(!faults.any_untold() && faults.of(4, (9, 10)).is_some());
    }
}
