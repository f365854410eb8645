//! A sample of the conformance suite: every operation and type, with some sizes. It runs on as many
//! ranks as there are devices, and has inputs and references of its own.

pub(crate) mod case;
pub(crate) mod element;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hccl::prelude::*;

use crate::fact::Teller;
use case::{Bench, Case, Seen};

/// The time limit of a case.
const LIMIT: Duration = Duration::from_secs(30);
/// The number of cases that may break their communicator before the rest is given up.
const MOST_FAILURES: usize = 20;

/// A message of a rank to the thread that gives the orders.
enum Report {
    Ready,
    Done(u32, Result<Seen, String>),
    Left,
}

/// Runs the child: tries the cases from number `first` on, for this time. Facts: `cases COUNT
/// RANKS`; for each case `case NUMBER TEXT`, and then `ok NUMBER FIRST_US AGAIN_US`, `difference
/// NUMBER RANK ELEMENT EXPECTED GOT COUNT` or `error NUMBER RANK TEXT`. If it cannot try all cases,
/// the last fact is `no-cann WHY`, `no-communicator NUMBER WHY`, `given-up NUMBER` after too many
/// failures, or `time-out NUMBER` when the time was over before this case. If a rank hangs in a
/// call, the process exits with [`HANGS`].
pub(crate) fn run(first: usize, time: Duration, teller: &Teller) {
    let until = Instant::now() + time;
    let runtime = match Runtime::cann() {
        Ok(runtime) => runtime,
        Err(error) => return teller.tell(&["no-cann", &error.to_string()]),
    };
    runtime.set_deadline(LIMIT);
    let ranks = runtime.device_count() as u32;
    let cases = case::cases(runtime.product());
    teller.tell(&["cases", &cases.len().to_string(), &ranks.to_string()]);
    let mut next = first;
    let mut failures = 0;
    while next < cases.len() {
        if failures == MOST_FAILURES {
            return teller.tell(&["given-up", &next.to_string()]);
        }
        let before = next;
        match session(&runtime, &cases, &mut next, until, teller) {
            Ended::Whole => {}
            Ended::TimeOver => return teller.tell(&["time-out", &next.to_string()]),
            Ended::Failed => failures += 1,
            Ended::NotBegun(problem) => {
                teller.tell(&["no-communicator", &before.to_string(), &problem]);
                // Without a communicator no case can run.
                return;
            }
        }
    }
}

enum Ended {
    Whole,
    TimeOver,
    /// A case failed, so a new communicator is needed.
    Failed,
    NotBegun(String),
}

/// Runs cases on one communicator, until a case fails or the time is over.
fn session(
    runtime: &Runtime,
    cases: &[Case],
    next: &mut usize,
    until: Instant,
    teller: &Teller,
) -> Ended {
    let ranks = runtime.device_count() as u32;
    let (report, reports) = mpsc::channel();
    let (orders, places): (Vec<Sender<Case>>, Vec<_>) = (0..ranks)
        .map(|_| {
            let (order, orders) = mpsc::channel();
            (order, Mutex::new(Some((orders, report.clone()))))
        })
        .unzip();
    drop(report);
    thread::scope(|scope| {
        let body = |rank: Rank| -> hccl::Result<()> {
            let place =
                places[rank.index() as usize].lock().unwrap_or_else(PoisonError::into_inner).take();
            let Some((orders, report)) = place else { return Ok(()) };
            let outcome = work(&rank, orders, &report);
            // This fails if the receiver has stopped already.
            let _ = report.send(Report::Left);
            outcome
        };
        let whole = scope.spawn(move || runtime.run_ranks(ranks, body));
        let ended = order(cases, next, until, &orders, &reports, teller);
        // The ranks end when no more orders can come.
        drop(orders);
        if let Ended::NotBegun(_) = ended {
            let problem = match whole.join() {
                Ok(Err(error)) => error.to_string(),
                _ => "the ranks did not meet".into(),
            };
            return Ended::NotBegun(problem);
        }
        ended
    })
}

/// Does the work of one rank: runs the cases that it receives.
fn work(rank: &Rank, orders: Receiver<Case>, report: &Sender<Report>) -> hccl::Result<()> {
    let stream = rank.device().stream()?;
    let mut comm = rank.communicator()?;
    let _ = report.send(Report::Ready);
    while let Ok(case) = orders.recv() {
        let mut bench = Bench { comm: &mut comm, stream: &stream };
        let seen = case::run(&case, &mut bench).map_err(|error| error.to_string());
        if report.send(Report::Done(rank.index(), seen)).is_err() {
            break;
        }
    }
    Ok(())
}

/// Sends the cases to the ranks, one after the other, and reports the results of the ranks.
fn order(
    cases: &[Case],
    next: &mut usize,
    until: Instant,
    orders: &[Sender<Case>],
    reports: &Receiver<Report>,
    teller: &Teller,
) -> Ended {
    let ranks = orders.len();
    for _ in 0..ranks {
        // CANN gives up by itself after two minutes.
        match reports.recv_timeout(Duration::from_secs(180)) {
            Ok(Report::Ready) => {}
            _ => return Ended::NotBegun(String::new()),
        }
    }
    while let Some(case) = cases.get(*next) {
        if Instant::now() >= until {
            return Ended::TimeOver;
        }
        let number = next.to_string();
        *next += 1;
        teller.tell(&["case", &number, &case.text(ranks as u32)]);
        // If a rank is gone, its report will be missing below.
        for order in orders {
            let _ = order.send(*case);
        }
        let mut all = Vec::new();
        while all.len() < ranks {
            match reports.recv_timeout(LIMIT + Duration::from_secs(10)) {
                Ok(Report::Done(rank, seen)) => all.push((rank, seen)),
                Ok(Report::Ready | Report::Left) | Err(RecvTimeoutError::Disconnected) => {
                    teller.tell(&["error", &number, "?", "a rank has left"]);
                    return Ended::Failed;
                }
                // A rank hangs in a call, so this process cannot wait for it. The parent starts
                // another child.
                Err(RecvTimeoutError::Timeout) => {
                    let came = all.len();
                    let text = format!(
                        "{came} of {ranks} ranks came back in time; the others hang in a call"
                    );
                    teller.tell(&["error", &number, "?", &text]);
                    std::process::exit(HANGS);
                }
            }
        }
        all.sort_by_key(|(rank, _)| *rank);
        if !tell(&number, &all, teller) {
            return Ended::Failed;
        }
    }
    Ended::Whole
}

/// The status of a child that has left a rank hanging.
pub(crate) const HANGS: i32 = 3;

/// Reports the results of a case. Returns whether the communicator can still be used.
fn tell(number: &str, all: &[(u32, Result<Seen, String>)], teller: &Teller) -> bool {
    for (rank, seen) in all {
        if let Err(error) = seen {
            teller.tell(&["error", number, &rank.to_string(), error]);
            return false;
        }
    }
    let all = || all.iter().filter_map(|(rank, seen)| Some((rank, seen.as_ref().ok()?)));
    let difference = all().find_map(|(rank, seen)| Some((rank, seen.difference.as_ref()?)));
    if let Some((rank, found)) = difference {
        let (rank, element) = (rank.to_string(), found.element.to_string());
        let count = found.count.to_string();
        teller.tell(&["difference", number, &rank, &element, &found.expected, &found.got, &count]);
        return true;
    }
    let longest = |time: fn(&Seen) -> Duration| {
        let longest = all().map(|(_, seen)| time(seen)).max().unwrap_or_default();
        format!("{:.1}", longest.as_secs_f64() * 1e6)
    };
    teller.tell(&["ok", number, &longest(|seen| seen.first), &longest(|seen| seen.again)]);
    true
}
