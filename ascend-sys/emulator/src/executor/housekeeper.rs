//! The housekeeper: a thread that runs work that no thread waits for, and watches time limits and
//! deadlocks.
//!
//! It checks all streams at every tick while anything is unfinished. Between two ticks, it runs
//! streams, if some can run, and lets [`workers`](super::workers) run them too. It does this only
//! while the waiting threads leave a core free, because those threads run everything themselves.
//! When all work is done, it stays awake for a while, so that a program that issues in bursts does
//! not pay for waking it.

use super::cores::{self, cores};
use super::help::{Counted, RUNNING, help};
use super::workers::Workers;
use crate::bell;
use crate::deadlock;
use crate::later;
use crate::poll::{HELP, polling};
use crate::queue::Outcome;
use crate::sleep;
use crate::step::Reason;
use crate::stream::{STREAMS, Stream};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The time between two checks by the housekeeper while there is unfinished work.
pub(crate) const TICK: Duration = Duration::from_micros(500);
/// The number of ticks between two checks for deadlocks.
const LOOK: u64 = 8;
/// The number of ticks without unfinished work before the housekeeper sleeps: 50 milliseconds.
const LINGER: u32 = 100;
/// The time between two counts of the process's cores.
const ASK: Duration = Duration::from_secs(1);

/// Starts the housekeeper, unless it is already running.
#[cold]
pub(super) fn start() {
    bell::employ(|| {
        let spawned = thread::Builder::new().name("ascend-emulator".into()).spawn(keep_house);
        // If no thread can be started, there is no housekeeping; waiting threads still run
        // everything.
        spawned.map_or_else(|_| thread::current(), |handle| handle.thread().clone())
    });
}

fn keep_house() {
    let this = cores::this_thread();
    let _own = sleep::OwnThread::new();
    let mut limits = Limits::default();
    let mut deadlocks = deadlock::Watch::default();
    let mut workers = Workers::default();
    let mut quiet = 0;
    let mut asked: Option<Instant> = None;
    bell::is_up();
    for n in 0u64.. {
        if asked.is_none_or(|asked| asked.elapsed() >= ASK) {
            let own: Vec<i32> = workers.numbers().chain([this]).collect();
            cores::follow(&own);
            asked = Some(Instant::now());
        }
        if n.is_multiple_of(LOOK) {
            deadlocks.look();
        }
        later::look();
        let outcome = match limits.tick() {
            Outcome::Idle if sleep::any_calls() => Outcome::Parked,
            outcome => outcome,
        };
        quiet = if outcome == Outcome::Idle { quiet + 1 } else { 0 };
        if quiet > LINGER {
            bell::await_notice(|| {
                !sleep::any_calls() && STREAMS.all().all(|stream| stream.queue.is_idle())
            });
            quiet = 0;
        } else if outcome != Outcome::Runnable || !run(&mut workers) {
            thread::park_timeout(TICK);
        }
    }
}

/// Runs streams until the next tick. Returns false if there is nothing more to run, or no core to
/// run it on.
fn run(workers: &mut Workers) -> bool {
    let _running = Counted::add(&RUNNING);
    let began = Instant::now();
    while began.elapsed() < TICK {
        if RUNNING.load(Ordering::Relaxed) > cores() {
            return false;
        }
        match help() {
            0 => return false,
            1 => {}
            _ => workers.rouse_one(),
        }
    }
    true
}

/// The parked heads of streams, by the stream's slot. Each entry has the ticket of the head, its
/// progress, and the time since when it has been parked with that progress.
#[derive(Default)]
struct Limits(HashMap<u32, (u64, u64, Instant)>);

impl Limits {
    /// Checks every stream. Runs some of the work that no thread waits for, however busy the cores
    /// are. Makes tasks give up when their time limit has passed. Returns `Idle` if nothing is
    /// unfinished, `Runnable` if a stream has more to run, and otherwise `Parked`.
    fn tick(&mut self) -> Outcome {
        let mut all = Outcome::Idle;
        for stream in STREAMS.all().filter(|stream| !stream.queue.is_idle()) {
            if all == Outcome::Idle {
                all = Outcome::Parked;
            }
            if !stream.watchers.any() && stream.assist(HELP) == Outcome::Runnable {
                all = Outcome::Runnable;
            }
            self.expire(stream);
        }
        if all == Outcome::Idle {
            self.0.clear();
        }
        all
    }

    /// Makes the head of a stream give up if it has been parked for longer than its limit.
    fn expire(&mut self, stream: &'static Stream) {
        let head = polling(|| {
            stream.queue.with_head(stream, |ticket, task| (ticket, task.progress(), task.limit()))
        });
        let Some((ticket, progress, limit)) = head else { return };
        let (seen, _, since) = *self
            .0
            .entry(stream.index())
            .and_modify(|entry| {
                if (entry.0, entry.1) != (ticket, progress) {
                    *entry = (ticket, progress, Instant::now());
                }
            })
            .or_insert_with(|| (ticket, progress, Instant::now()));
        if let Some(limit) = limit
            && since.elapsed() >= limit
        {
            stream.void_until(seen, Reason::Timeout(limit));
            stream.wake();
        }
    }
}
