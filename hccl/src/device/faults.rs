//! Operations that failed after they had been issued, until somebody has been told.
//!
//! A failure is told to whoever awaits the operation. When its `Work` was dropped, it comes back from the next operation or
//! synchronise of the stream, so that none is lost. A failure is kept after it was told, because the `Work` of a failed
//! operation must not say that all is well later; the last [`KEPT`] are.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::error::Error;
use crate::sync::lock;

/// As many as a backend keeps.
const KEPT: usize = 64;

struct Fault {
    /// The numbers that may be meant: one where the backend tells, else all that were not known to be well.
    numbers: RangeInclusive<u64>,
    /// The failed task, where the backend counts.
    ticket: Option<u64>,
    error: Error,
    told: bool,
}

/// The failures of one stream.
#[derive(Default)]
pub(crate) struct Faults {
    /// How many have not been told. The fast path looks at nothing else here.
    untold: AtomicU64,
    /// How many there ever were.
    ever: AtomicU64,
    list: Mutex<VecDeque<Fault>>,
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
        let mut list = lock(&self.list);
        if list.len() == KEPT
            && let Some(oldest) = list.pop_front()
            && !oldest.told
        {
            self.untold.fetch_sub(1, Relaxed);
        }
        list.push_back(Fault { numbers, ticket, error, told: false });
        self.untold.fetch_add(1, Relaxed);
        self.ever.fetch_add(1, Release);
    }

    /// The failure of operation `number`, whose tasks have the tickets after `tickets.0` up to `tickets.1`.
    pub(crate) fn of(&self, number: u64, tickets: (u64, u64)) -> Option<Error> {
        self.tell(|fault| match fault.ticket {
            Some(ticket) => tickets.0 < ticket && ticket <= tickets.1,
            None => fault.numbers.contains(&number),
        })
    }

    /// The first failure that has not been told and that `wanted` takes, by its range of numbers.
    pub(crate) fn take_untold(
        &self,
        wanted: impl Fn(&RangeInclusive<u64>) -> bool,
    ) -> Option<Error> {
        self.tell(|fault| !fault.told && wanted(&fault.numbers))
    }

    fn tell(&self, wanted: impl Fn(&Fault) -> bool) -> Option<Error> {
        let mut list = lock(&self.list);
        let fault = list.iter_mut().find(|fault| wanted(fault))?;
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
    fn the_oldest_failures_are_forgotten() {
        let faults = Faults::default();
        for number in 0..=KEPT as u64 {
            faults.add(number..=number, None, error("one of many"));
        }
        assert!(faults.of(0, (0, 0)).is_none() && faults.of(1, (0, 0)).is_some());
    }
}
