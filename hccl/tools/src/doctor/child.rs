//! Runs parts of the work in child processes, so that a broken library can only harm a child.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::fact::Fact;

/// The way in which a child has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The child has reported all its facts.
    Done,
    Status(i32),
    Signal(i32),
    TooLong(Duration),
    NotStarted(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Done => f.write_str("the process has ended well"),
            End::Status(status) => write!(f, "the process has ended with status {status}"),
            End::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "the process has ended by {name}"),
                None => write!(f, "the process has ended by signal {signal}"),
            },
            End::TooLong(limit) => {
                write!(f, "the process was ended: it took more than {} s", limit.as_secs())
            }
            End::NotStarted(problem) => write!(f, "no process could be started: {problem}"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGSEGV => "SIGSEGV (it has touched memory that is not there)",
        libc::SIGBUS => "SIGBUS (a file is shorter than it should be)",
        libc::SIGABRT => "SIGABRT (a library has given up)",
        libc::SIGILL => "SIGILL (instructions that this processor does not know)",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        _ => return None,
    })
}

/// The facts that a child has reported, and the way in which it has ended.
pub(crate) struct Told {
    pub(crate) facts: Vec<Fact>,
    pub(crate) end: End,
    /// The last lines of the child's output on standard error.
    pub(crate) last_words: String,
}

/// The kind of the fact that a child sends last.
pub(crate) const DONE: &str = "done";

/// Runs this program as a child with these arguments, for at most this time. Calls `heard` with
/// each fact as soon as it arrives.
pub(crate) fn run(arguments: &[String], limit: Duration, mut heard: impl FnMut(&Fact)) -> Told {
    let mut told = Told { facts: Vec::new(), end: End::Done, last_words: String::new() };
    let child = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    });
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            told.end = End::NotStarted(error.to_string());
            return told;
        }
    };
    let (say, hear) = mpsc::channel();
    if let Some(out) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                if say.send(Fact::parse(&line)).is_err() {
                    return;
                }
            }
        });
    }
    let (say_error, hear_error) = mpsc::channel();
    if let Some(error) = child.stderr.take() {
        thread::spawn(move || say_error.send(tail(error)));
    }
    let until = Instant::now() + limit;
    let mut is_done = false;
    let mut is_late = false;
    loop {
        match hear.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(fact) if fact.kind() == DONE => {
                is_done = true;
                break;
            }
            Ok(fact) => {
                heard(&fact);
                told.facts.push(fact);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                is_late = true;
                break;
            }
        }
    }
    // A library may leave threads or exit handlers behind that do not end.
    let grace = if is_late { Duration::ZERO } else { Duration::from_secs(5) };
    let status = end(&mut child, grace);
    told.end = match status {
        _ if is_done => End::Done,
        _ if is_late => End::TooLong(limit),
        Some(status) => match (status.signal(), status.code()) {
            (Some(signal), _) => End::Signal(signal),
            (None, code) => End::Status(code.unwrap_or(-1)),
        },
        None => End::TooLong(limit),
    };
    told.last_words = hear_error.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
    told
}

/// Waits until a child ends, and kills it when the time is over. Returns `None` if the child still
/// runs 5 seconds after that.
fn end(child: &mut Child, grace: Duration) -> Option<ExitStatus> {
    let until = Instant::now() + grace;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= until {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    // The child may just have ended by itself, and then this fails.
    let _ = child.kill();
    let until = Instant::now() + Duration::from_secs(5);
    // A process that hangs in the driver cannot be killed.
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Reads to the end, and returns the last 2,000 bytes as text.
fn tail(mut from: impl Read) -> String {
    const KEPT: usize = 2000;
    let mut last = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        last.extend_from_slice(&piece[..read]);
        let beyond = last.len().saturating_sub(KEPT);
        last.drain(..beyond);
    }
    String::from_utf8_lossy(&last).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_words_the_last_are_kept() {
        let text = "x".repeat(5000) + "\nthe end\n";
        let kept = tail(text.as_bytes());
        assert!(kept.len() <= 2000 && kept.ends_with("the end"));
    }

    #[test]
    fn an_end_says_what_has_happened() {
        let texts =
            [End::Signal(libc::SIGBUS), End::Signal(63), End::Status(3)].map(|it| it.to_string());
        assert!(texts[0].contains("SIGBUS"));
        assert!(texts[1].ends_with("signal 63"));
        assert!(texts[2].ends_with("status 3"));
    }
}
