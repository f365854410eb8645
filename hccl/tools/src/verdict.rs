//! Finds which rank failed first, and why.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Instant;

use hccl_job::Report;

/// The facts known about a rank that has failed.
pub(crate) struct Failure {
    pub(crate) rank: u32,
    pub(crate) process: u32,
    pub(crate) status: ExitStatus,
    /// Whether the process ended after hcclrun had sent it a signal.
    pub(crate) was_asked: bool,
    pub(crate) at: Instant,
    /// The last error that the process has printed.
    pub(crate) last_words: String,
}

impl Failure {
    /// Returns the status of hcclrun if this is the first failure.
    pub(crate) fn exit_status(&self) -> u8 {
        let status = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 1,
        };
        // 0 would be success.
        u8::try_from(status).ok().filter(|status| *status != 0).unwrap_or(1)
    }
}

/// Returns the failure that caused the other ones. `failures` are in the order in which the
/// processes ended, `reports` in the order in which the ranks reported their errors.
///
/// A rank whose peer dies may end before hcclrun has seen the end of that peer. But a rank that
/// fails reports its error before other ranks can notice it. So the order of precedence is:
///
/// 1. the first report of a rank that does not follow from another rank,
/// 2. the first process that died by a signal that hcclrun had not sent,
/// 3. the first end that hcclrun did not ask for and that does not follow from another rank,
/// 4. the first end of all.
pub(crate) fn first<'a>(failures: &'a [Failure], reports: &[Report]) -> Option<&'a Failure> {
    let own = reports.iter().filter(|report| !report.follows);
    let of = |report: &Report| failures.iter().find(|failure| failure.rank == report.rank);
    let follows = |failure: &Failure| {
        reports.iter().any(|report| report.rank == failure.rank && report.follows)
    };
    let unasked = || failures.iter().filter(|failure| !failure.was_asked);
    let killed = || unasked().find(|failure| failure.status.signal().is_some());
    let reported = own.filter_map(of).next();
    reported
        .or_else(killed)
        .or_else(|| unasked().find(|failure| !follows(failure)))
        .or_else(|| failures.first())
}

/// Describes in words how a process ended.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "succeeded".into(),
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => {
            let core = if status.core_dumped() { ", core dumped" } else { "" };
            format!("killed by signal {signal} ({}){core}", name_of(signal))
        }
        (None, None) => "an unknown status".into(),
    }
}

/// Returns the name of a signal.
pub(crate) fn name_of(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("no name")
}

/// Returns the reason why a rank failed: the error that it has reported, or else the last error
/// that it has printed.
pub(crate) fn why(failure: &Failure, reports: &[Report]) -> Option<String> {
    let reported = reports.iter().find(|report| report.rank == failure.rank);
    let text = reported.map_or(failure.last_words.as_str(), |report| report.text.as_str()).trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(rank: u32, raw_status: i32) -> Failure {
        let status = ExitStatus::from_raw(raw_status);
        let (at, last_words) = (Instant::now(), String::new());
        Failure { rank, process: 1, status, was_asked: false, at, last_words }
    }

    fn report(rank: u32, follows: bool) -> Report {
        Report { rank, text: "text".into(), follows }
    }

    const EXIT_1: i32 = 1 << 8;

    #[test]
    fn the_first_report_that_does_not_follow_counts_most() {
        let failures = [failure(2, EXIT_1), failure(1, EXIT_1), failure(0, EXIT_1)];
        let reports = [report(2, true), report(0, false), report(1, false)];
        assert_eq!(first(&failures, &reports).unwrap().rank, 0);
    }

    #[test]
    fn a_kill_comes_before_ends_that_follow_from_it() {
        let failures = [failure(2, EXIT_1), failure(1, libc::SIGKILL)];
        assert_eq!(first(&failures, &[report(2, true)]).unwrap().rank, 1);
        assert_eq!(first(&failures, &[]).unwrap().rank, 1);
        assert_eq!(failures[1].exit_status(), 137);
        assert_eq!(describe(failures[1].status), "killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn an_end_that_hcclrun_asked_for_is_not_the_first() {
        let mut failures = [failure(2, libc::SIGTERM), failure(1, 3 << 8)];
        failures[0].was_asked = true;
        let found = first(&failures, &[]).unwrap();
        assert_eq!((found.rank, found.exit_status()), (1, 3));
    }
}
