//! The housekeeper: a thread that runs what nobody waits for, and looks after time limits and deadlocks.

use super::{HELP, polling};
use crate::deadlock;
use crate::lane::Outcome;
use crate::stream::{STREAMS, Stream};
use crate::task::Reason;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

/// How often the housekeeper looks while there is unfinished work.
const TICK: Duration = Duration::from_micros(500);
/// How many ticks pass between two looks for deadlocks.
const LOOK: u64 = 8;

/// The housekeeper is parked until there is unfinished work.
static HOUSEKEEPER_SLEEPS: AtomicBool = AtomicBool::new(true);

/// Wakes the housekeeper if it sleeps. Called after leaving unfinished work.
#[inline]
pub(super) fn notice() {
    // The housekeeper says that it sleeps, then looks once more; here the work is there, then the look.
    fence(Ordering::SeqCst);
    if HOUSEKEEPER_SLEEPS.load(Ordering::Relaxed) {
        housekeeper().unpark();
    }
}

fn housekeeper() -> &'static thread::Thread {
    static HOUSEKEEPER: OnceLock<thread::Thread> = OnceLock::new();
    HOUSEKEEPER.get_or_init(|| {
        let spawned = thread::Builder::new().name("ascend-emulator".into()).spawn(keep_house);
        // Without threads there is no housekeeping; waiting threads still run everything.
        spawned.map_or_else(|_| thread::current(), |handle| handle.thread().clone())
    })
}

fn keep_house() {
    let mut parked: HashMap<u32, (u64, Instant)> = HashMap::new();
    let mut deadlocks = deadlock::Watch::default();
    for n in 0u64.. {
        if n.is_multiple_of(LOOK) {
            deadlocks.look();
        }
        match tick(&mut parked) {
            Outcome::Runnable => {}
            Outcome::Idle => {
                HOUSEKEEPER_SLEEPS.store(true, Ordering::SeqCst);
                fence(Ordering::SeqCst);
                if STREAMS.all().all(|stream| stream.lane.is_idle()) {
                    thread::park();
                }
                HOUSEKEEPER_SLEEPS.store(false, Ordering::SeqCst);
            }
            _ => {
                HOUSEKEEPER_SLEEPS.store(false, Ordering::Relaxed);
                thread::park_timeout(TICK);
            }
        }
    }
}

fn tick(parked: &mut HashMap<u32, (u64, Instant)>) -> Outcome {
    let mut all = Outcome::Idle;
    for stream in STREAMS.all().filter(|stream| !stream.lane.is_idle()) {
        if all == Outcome::Idle {
            all = Outcome::Parked;
        }
        if stream.watched.load(Ordering::Relaxed) == 0 && stream.poll(HELP) == Outcome::Runnable {
            all = Outcome::Runnable;
        }
        expire(stream, parked);
    }
    if all == Outcome::Idle {
        parked.clear();
    }
    all
}

/// Tells the head of a stream to give up when it has been parked for longer than its limit.
fn expire(stream: &'static Stream, parked: &mut HashMap<u32, (u64, Instant)>) {
    let Some((ticket, limit)) =
        polling(|| stream.lane.peek(stream, |ticket, task| (ticket, task.limit(stream))))
    else {
        return;
    };
    let (seen, since) = *parked
        .entry(stream.index())
        .and_modify(|entry| {
            if entry.0 != ticket {
                *entry = (ticket, Instant::now());
            }
        })
        .or_insert_with(|| (ticket, Instant::now()));
    if let Some(limit) = limit
        && since.elapsed() >= limit
    {
        polling(|| {
            stream
                .lane
                .treat_head(stream, seen, |task| task.expire(stream, &Reason::Timeout(limit)))
        });
        stream.wake();
    }
}
