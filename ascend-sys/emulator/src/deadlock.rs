//! Deadlocks, reported at once where they are certain, and else after a few seconds instead of after a time limit.
//!
//! The streams of a block are stuck when each that has work is parked, and what each waits for can only come
//! from another stuck stream, or from a thread that sleeps in one of our calls. A task says which threads could help it:
//! those that used the missing rank's communicator, or the event, last. When every thread that has a device of the block
//! set sleeps and they are among them, nobody is left to help: the stuck tasks give up, with the whole circle as text.
//!
//! Nobody, that is, if the process has no other threads than these, the first one and our own. A thread that has no device yet
//! may be about to set one and to go on with a communicator that was given to it. While there is such a thread nothing is certain; then the
//! stuck tasks give up when nothing has moved for [`STILL`].
//!
//! A thread that waits with a short limit does not count as asleep, since it will go on by itself; nor does one whose wait
//! is over and that has only not got a core yet. A task with a short limit is not stuck for the same reason. A thread that
//! waits in slices, and says so, is asleep in each of them, and the same sleep as long as it waits for the same thing.

use crate::callback;
use crate::executor::cores::threads;
use crate::machine;
use crate::poll::polling;
use crate::queue::Outcome;
use crate::step::{Helpers, Reason};
use crate::stream::{Mark, STREAMS, Stream};
use crate::users::{self, SHORT};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// How often in a row nothing must have changed.
const LOOKS: u32 = 5;
/// How long nothing must have changed while there are threads of which nothing is known.
const STILL: Duration = Duration::from_secs(5);
/// How many looks pass between two looks for such threads.
const STRANGERS: u32 = 64;
/// How many looks in a row may find somebody awake.
const MISSES: u32 = 2;
/// How many stuck tasks a text lists.
const LISTED: usize = 16;

/// A stream whose head is parked, and that only threads asleep could help.
struct Stuck {
    stream: &'static Stream,
    ticket: u64,
    text: String,
    /// Waits for a thread, not for another stream: giving up here may free the others.
    root: bool,
    /// Waits for a record that is queued in another stream, which is listed itself.
    follows: bool,
}

/// What the housekeeper remembers between looks: per block, what it saw and how often.
#[derive(Default)]
pub(crate) struct Watch {
    seen: HashMap<u32, LastSeen>,
}

struct LastSeen {
    state: Vec<u64>,
    since: Instant,
    looks: u32,
    /// Looks in a row at which somebody was awake.
    misses: u32,
}

impl Watch {
    /// Looks at every block with unfinished work; ends deadlocks.
    pub(crate) fn look(&mut self) {
        let mut blocks: BTreeMap<u32, Vec<&'static Stream>> = BTreeMap::new();
        for stream in STREAMS.all().filter(|stream| !stream.queue.is_idle()) {
            if let Some(block) = stream.device().block() {
                blocks.entry(block).or_default().push(stream);
            }
        }
        self.seen.retain(|block, _| blocks.contains_key(block));
        for (block, streams) in blocks {
            let sleepers = users::sleepers(
                |device| machine::device_slot(device).block() == Some(block),
                |until| Mark::from_bits(until).is_complete(),
            );
            let stuck = sleepers.as_ref().and_then(|asleep| all_stuck(&streams, &asleep.ids));
            let (Some(asleep), Some(stuck)) = (sleepers, stuck) else {
                // Who waits in slices is awake for a moment between two of them, and so is who looks around. If he does
                // nothing else, nothing has changed; if he does, the state is another one, or he is awake for longer.
                if let Some(seen) = self.seen.get_mut(&block) {
                    seen.misses += 1;
                    if seen.misses > MISSES {
                        self.seen.remove(&block);
                    }
                }
                continue;
            };
            let state: Vec<u64> = (asleep.sleeps.iter().copied())
                .chain(stuck.iter().flat_map(|s| [u64::from(s.stream.index()), s.ticket]))
                .collect();
            match self.seen.get_mut(&block) {
                Some(seen) if seen.state == state => {
                    seen.looks += 1;
                    seen.misses = 0;
                    let certain = || {
                        seen.looks % STRANGERS == LOOKS % STRANGERS
                            && !are_strangers(&asleep.numbers)
                    };
                    if seen.looks >= LOOKS && (seen.since.elapsed() >= STILL || certain()) {
                        self.seen.remove(&block);
                        end(stuck);
                    }
                }
                _ => {
                    let seen = LastSeen { state, since: Instant::now(), looks: 1, misses: 0 };
                    self.seen.insert(block, seen);
                }
            }
        }
    }
}

/// Whether the process has threads besides these, the first one and our own. Those that cannot be asked for count.
fn are_strangers(known: &[i32]) -> bool {
    let Some(mut threads) = threads() else { return true };
    threads.any(|number| {
        if number.unsigned_abs() == std::process::id() || known.contains(&number) {
            return false;
        }
        // Gone, if it has no name any more.
        let name = std::fs::read_to_string(format!("/proc/self/task/{number}/comm"));
        name.is_ok_and(|name| !name.is_empty() && !name.starts_with("ascend-"))
    })
}

/// The streams, if every one of them is stuck.
fn all_stuck(streams: &[&'static Stream], asleep: &[u32]) -> Option<Vec<Stuck>> {
    let look = |stream: &'static Stream| {
        if stream.poll(1) != Outcome::Parked || callback::is_running(stream) {
            return None;
        }
        let head = polling(|| {
            stream.queue.with_head(stream, |ticket, task| {
                (ticket, task.limit(), task.helpers(), task.describe())
            })
        });
        let (ticket, limit, helpers, text) = head?;
        if limit.is_some_and(|limit| limit < SHORT) {
            return None;
        }
        let follows = matches!(helpers, Helpers::Signal(_));
        let root = match helpers {
            Helpers::Stream => false,
            Helpers::Threads(threads) => {
                if threads.is_empty() || threads.iter().any(|thread| !asleep.contains(thread)) {
                    return None;
                }
                true
            }
            Helpers::Signal(number) if is_queued(streams, number) => false,
            Helpers::Signal(_) | Helpers::Anybody => return None,
        };
        Some(Stuck { stream, ticket, text, root, follows })
    };
    streams.iter().map(|stream| look(stream)).collect()
}

/// Whether one of these streams will record a signal.
fn is_queued(streams: &[&'static Stream], signal: u64) -> bool {
    streams.iter().any(|stream| stream.queue.has_waiting(|task| task.records() == Some(signal)))
}

/// Tells the stuck tasks to give up; those that wait for streams go on when the others have.
fn end(mut stuck: Vec<Stuck>) {
    // The same deadlock gives the same text: by what waits, rank by rank.
    stuck.sort_by(|a, b| a.text.cmp(&b.text));
    let mut text = String::from("every thread and every stream waits for another");
    let any_leads = stuck.iter().any(|s| !s.follows);
    let listed = || stuck.iter().filter(|s| !s.follows || !any_leads);
    for s in listed().take(LISTED) {
        text += &format!("\n  {}: {}", s.stream.describe(), s.text);
    }
    if let more @ 1.. = listed().count().saturating_sub(LISTED) {
        text += &format!("\n  and {more} more streams");
    }
    let reason = Reason::Deadlock(text.into());
    // Where all wait for streams all give up: the first one that did would let the others go on, as
    // if nothing had been wrong. So all are told before any is polled.
    let any_root = stuck.iter().any(|s| s.root);
    stuck.retain(|s| s.root || !any_root);
    stuck.iter().for_each(|s| s.stream.void_until(s.ticket, reason.clone()));
    stuck.iter().for_each(|s| s.stream.wake());
}
