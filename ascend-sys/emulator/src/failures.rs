//! Keeps the failures of a stream's tasks, and notes which of them were returned to the host.

use crate::message::Failure;
use ascend_sync::lock_std as lock;
use ascend_sys::aclError;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of failures that are kept for a stream.
const REMEMBERED: usize = 64;

/// The failures of a stream; see the [module](self).
#[derive(Default)]
pub(crate) struct Failures {
    /// Whether there may be failures that no synchronise has returned. A synchronise checks this
    /// first.
    unreported: AtomicBool,
    noted: Mutex<NotedFailures>,
}

#[derive(Default)]
struct NotedFailures {
    /// The last failures by ticket, the newest last.
    last: VecDeque<(u64, Failure)>,
    /// The newest failure that is no longer kept: its ticket and code. The tickets of older ones
    /// are not kept.
    forgotten: Option<(u64, aclError)>,
    /// Failures up to this ticket have been returned.
    reported: u64,
}

impl Failures {
    /// Removes all failures. Does not reset the ticket up to which failures count as returned.
    pub(crate) fn clear(&self) {
        let mut noted = lock(&self.noted);
        noted.last.clear();
        noted.forgotten = None;
        self.unreported.store(false, Ordering::Release);
    }

    pub(crate) fn note(&self, ticket: u64, failure: Failure) {
        let mut noted = lock(&self.noted);
        if noted.last.len() == REMEMBERED
            && let Some((ticket, oldest)) = noted.last.pop_front()
        {
            noted.forgotten = Some((ticket, oldest.acl_code()));
        }
        noted.last.push_back((ticket, failure));
        self.unreported.store(true, Ordering::Release);
    }

    /// Returns the failure of a task, if it is still kept.
    pub(crate) fn of(&self, ticket: u64) -> Option<Failure> {
        let noted = lock(&self.noted);
        let found = noted.last.iter().find(|(noted, _)| *noted == ticket);
        found.map(|(_, failure)| failure.clone())
    }

    /// Returns the first failure among some tasks that is still kept.
    pub(crate) fn first_within(&self, tickets: &Range<u64>) -> Option<Failure> {
        let noted = lock(&self.noted);
        let found = noted.last.iter().find(|(ticket, _)| tickets.contains(ticket));
        found.map(|(_, failure)| failure.clone())
    }

    /// Takes the failures of the tasks up to a ticket that were not returned before, and returns
    /// the latest of them. From now on, all failures of these tasks count as returned. A failure
    /// that is no longer kept is returned without its text, even if its task is later than the
    /// ticket.
    #[inline]
    pub(crate) fn report(&self, ticket: u64) -> Result<(), Failure> {
        if self.unreported.load(Ordering::Acquire) { self.report_slowly(ticket) } else { Ok(()) }
    }

    #[cold]
    fn report_slowly(&self, ticket: u64) -> Result<(), Failure> {
        let mut noted = lock(&self.noted);
        let reported = noted.reported;
        let news = |at: u64| reported < at && at <= ticket;
        let failure = match noted.last.iter().rev().find(|(at, _)| news(*at)) {
            Some((_, failure)) => failure.clone(),
            None => match noted.forgotten {
                Some((at, code)) if reported < at => {
                    Failure::new(code, "a task of the stream failed; which one is no longer known")
                }
                _ => return Ok(()),
            },
        };
        let newest = noted.last.back().map_or(0, |(at, _)| *at);
        noted.reported = reported.max(ticket.min(newest));
        self.unreported.store(newest > ticket, Ordering::Release);
        Err(failure)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn failure(code: aclError) -> Failure {
        Failure::new(code, format!("failure {code}"))
    }

    fn code(result: Result<(), Failure>) -> aclError {
        result.map_or_else(|failure| failure.acl_code(), |()| 0)
    }

    #[test]
    fn each_is_returned_once_to_who_asks_for_its_ticket() {
        let failures = Failures::default();
        assert_eq!(code(failures.report(9)), 0);
        for ticket in [3, 4, 7] {
            failures.note(ticket, failure(ticket as aclError));
        }
        assert_eq!(code(failures.report(2)), 0);
        assert_eq!(code(failures.report(5)), 4);
        assert_eq!(code(failures.report(5)), 0);
        assert_eq!(code(failures.report(u64::MAX)), 7);
        assert_eq!(code(failures.report(u64::MAX)), 0);
        failures.note(8, failure(8));
        assert_eq!(code(failures.report(8)), 8);
        assert_eq!(failures.of(4).map(|failure| failure.acl_code()), Some(4));
        assert_eq!(failures.first_within(&(5..9)).map(|failure| failure.acl_code()), Some(7));
        failures.clear();
        assert!(failures.of(4).is_none());
    }

    #[test]
    fn what_is_forgotten_is_still_a_failure() {
        let failures = Failures::default();
        for ticket in 10..10 + REMEMBERED as u64 + 2 {
            failures.note(ticket, failure(ticket as aclError));
        }
        assert!(failures.of(11).is_none());
        assert_eq!(code(failures.report(11)), 11);
        assert_eq!(code(failures.report(11)), 0);
        assert_eq!(code(failures.report(12)), 12);
    }
}
