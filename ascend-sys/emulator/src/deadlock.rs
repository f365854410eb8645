//! Finds deadlocks: ends those that are certain, and prints those that are suspected.
//!
//! A deadlock is *certain* in two cases.
//!
//! - Queued tasks wait for each other in a *cycle*, and each is bound to a task that is already
//!   queued. The wait for an event is bound to the record of the event, and a rank is bound to the
//!   collective that its peer has issued. No action of a thread can change this. (Waits for a
//!   notify, a message or the flag of an event are not bound to a task, because any stream may end
//!   them.) All tasks of the cycle are made to give up.
//! - Nothing in the process can run. Every stream that has work is parked on another stream or on a
//!   thread. Every thread sleeps in one of the emulator's calls or in a wait for another thread.
//!   The process is then [closed](crate::closed), and it must stay closed for [`STILL`]. The tasks
//!   and calls that wait for a thread are made to give up. If some of them wait for other
//!   processes, all these processes must be closed as well: see [`stillness`].
//!
//! Every other deadlock is only *suspected*. An unknown thread may still record an event or bring a
//! rank, and any code may write a word that a stream waits for. A suspected deadlock is printed
//! when nothing has moved for [`WARN_AFTER`], and the program goes on. It is not printed for safe
//! programs, which have devices of their own, because their waits report it themselves. It is not
//! printed for streams that wait for other processes either, because these processes may be busy
//! with something else.
//!
//! A task or a call with a short limit is not part of a deadlock, because it goes on by itself.

use crate::callback;
use crate::closed::{Closed, cpu_time};
use crate::fabric::stillness::{self, BeforeLook, Told};
use crate::poll::polling;
use crate::queue::Outcome;
use crate::sleep::{self, Enders, SHORT, SleepingThread, Until, WaitingCall};
use crate::step::{Helpers, Need, Reason};
use crate::stream::{STREAMS, Stream};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of consecutive checks that must find a stream in the same place before it is
/// examined, or a cycle before it is ended.
const LOOKS: u32 = 5;
/// The time for which the process must stay closed. It is longer than `hccl` lets a call wait
/// behind another call.
const STILL: Duration = Duration::from_secs(1);
/// The time until the next check, after the state was reported to other processes.
const NEXT: Duration = Duration::from_millis(250);
/// The time without any progress after which a message is printed.
const WARN_AFTER: Duration = Duration::from_secs(10);
/// The time until the next check of a process that was found open.
const AGAIN: Duration = Duration::from_millis(100);
/// The pause between two checks, as a multiple of the time that a check has run on a core. Time off
/// the core does not count: on a busy machine a check may take long, but then it does not cost
/// other threads time.
const REST: u32 = 20;

/// The result of examining a stream.
enum Examined {
    Stuck(Stuck),
    /// The stream goes on by itself, or may do so.
    Moving,
    /// Another thread is examining the stream. If that moves the stream, the next check finds it
    /// elsewhere.
    Unknown,
}

/// A stream whose head is parked and cannot go on by itself.
struct Stuck {
    stream: &'static Stream,
    ticket: u64,
    /// The progress of the head.
    progress: u64,
    /// The streams that have queued the tasks to which the head is bound.
    bound_to: Vec<u32>,
    /// Whether the head waits for a thread. If the head gives up, other streams may be able to go
    /// on.
    root: bool,
    /// Whether the head waits for a record or a message that is queued in another stream. That
    /// stream is listed itself.
    follows: bool,
    /// Whether the head waits only for the records of notifies or events.
    signal: bool,
    /// Whether the head waits for a write of memory, which may come from anywhere. If so, the
    /// stream is printed, but no deadlock is proven.
    open: bool,
    /// The names of the processes that the head waits for.
    abroad: Vec<u64>,
}

/// The state that the housekeeper keeps between checks.
#[derive(Default)]
pub(crate) struct Watch {
    /// The place where each stream was found, and how often in a row.
    seen: HashMap<u32, (u64, u32)>,
    /// The last cycle, and how often in a row it was found.
    cycle: (Vec<u64>, u32),
    /// The state since which nothing has moved; `None` if a stream moves.
    still: Option<Still>,
    /// The time of the next check of the threads of the process.
    again: Option<Instant>,
    /// The time before which there is no check, so that checks do not take the time that the
    /// program needs.
    rests: Option<Instant>,
}

/// A state since which nothing has moved.
struct Still {
    state: Vec<u64>,
    since: Instant,
    closed: Option<ClosedSince>,
    /// Whether the streams were printed. A waiting call notes separately whether it was printed.
    printed: bool,
}

/// The closed state of the process.
struct ClosedSince {
    since: Instant,
    how: Closed,
    /// The state as it was reported to other processes.
    told: Option<Told>,
}

impl Watch {
    /// Checks all unfinished work, if a check is due, and ends deadlocks.
    pub(crate) fn look(&mut self) {
        if self.rests.is_none_or(|until| Instant::now() >= until) {
            let began = cpu_time();
            let told = self.told();
            self.look_now();
            if told.is_some() && self.told() != told {
                stillness::note_moves();
            }
            self.rests = Some(Instant::now() + REST * cpu_time().saturating_sub(began));
        }
    }

    /// Returns the number of the state that was reported to other processes.
    fn told(&self) -> Option<u64> {
        self.still.as_ref()?.closed.as_ref()?.told.as_ref().map(|told| told.state)
    }

    fn look_now(&mut self) {
        let streams: Vec<&'static Stream> =
            STREAMS.all().filter(|stream| !stream.queue.is_idle()).collect();
        let seen = std::mem::take(&mut self.seen);
        for stream in &streams {
            let completed = stream.queue.completed();
            let times = match seen.get(&stream.index()) {
                Some((old, times)) if *old == completed => times + 1,
                _ => 0,
            };
            self.seen.insert(stream.index(), (completed, times));
        }
        let rests = |stream: &&&'static Stream| self.seen[&stream.index()].1 >= LOOKS;
        let (mut stuck, mut unknown) = (Vec::new(), 0);
        for stream in streams.iter().filter(rests) {
            match examine(stream, &streams) {
                Examined::Stuck(found) => stuck.push(found),
                Examined::Unknown => unknown += 1,
                Examined::Moving => {}
            }
        }
        if self.found_cycle(&stuck) {
            let cycle = cycle_of(stuck);
            let text = text_of(&cycle, &[]);
            end(cycle, &[], text)();
            return;
        }
        if stuck.len() == streams.len() && (!stuck.is_empty() || sleep::any_calls()) {
            self.nothing_moves(stuck, &sleep::sleepers());
        } else if unknown > 0 && stuck.len() + unknown == streams.len() {
            // A thread that examines a stream is running.
            self.still.iter_mut().for_each(|still| still.closed = None);
        } else {
            self.still = None;
        }
    }

    /// Returns whether [`LOOKS`] checks in a row have found the same cycle of stuck streams.
    fn found_cycle(&mut self, stuck: &[Stuck]) -> bool {
        let members = members_of_cycles(stuck);
        let state = state_of(members.iter().map(|at| &stuck[*at]));
        if state.is_empty() || state != self.cycle.0 {
            self.cycle = (state, 0);
        }
        self.cycle.1 += 1;
        !members.is_empty() && self.cycle.1 >= LOOKS
    }

    /// Handles a check that has found all streams stuck.
    fn nothing_moves(&mut self, stuck: Vec<Stuck>, sleepers: &[SleepingThread]) {
        let state = state_of(stuck.iter());
        let calls: Vec<Arc<WaitingCall>> =
            sleepers.iter().filter_map(SleepingThread::call).collect();
        let now = Instant::now();
        let still = match &mut self.still {
            Some(still) if still.state == state => still,
            slot => slot.insert(Still { state, since: now, closed: None, printed: false }),
        };
        let abroad = abroad(&stuck, &calls);
        if still.since.elapsed() >= WARN_AFTER {
            // Calls may follow one another, and each of them may end soon. So a call is printed
            // when that call alone has waited for as long.
            let lasts = |call: &&Arc<WaitingCall>| call.since.elapsed() >= WARN_AFTER;
            let news = calls.iter().filter(lasts).filter(|call| call.is_told_first());
            let news: Vec<_> = news.cloned().collect();
            // Other processes may be busy with something else for that long.
            let is_here = stuck.iter().all(|s| s.abroad.is_empty());
            let stuck = if is_here && !still.printed { &stuck[..] } else { &[] };
            still.printed |= !stuck.is_empty();
            if !stuck.is_empty() || !news.is_empty() {
                print(stuck, &news);
            }
        }
        let is_due = match &still.closed {
            Some(ClosedSince { since, told: None, .. }) => since.elapsed() >= STILL,
            Some(ClosedSince { since, .. }) => since.elapsed() >= NEXT,
            None => self.again.is_none_or(|again| now >= again),
        };
        let is_open = |call: &Arc<WaitingCall>| matches!(call.ends, Enders::Anybody);
        let any_open = calls.iter().any(is_open) || stuck.iter().any(|s| s.open);
        if sleepers.is_empty() || !is_due || any_open {
            return;
        }
        let before = (!abroad.is_empty()).then(BeforeLook::now);
        let closed = Closed::now(sleepers);
        if closed.is_none() {
            self.again = Some(now + AGAIN);
        }
        match (&mut still.closed, closed) {
            (Some(known), Some(closed)) if closed.follows(&known.how) => {
                let Some(before) = before else {
                    self.still = None;
                    return end_all(stuck, calls);
                };
                let lines = lines(&stuck, &calls);
                (known.since, known.how) = (now, closed);
                let told = known.told.get_or_insert_with(Told::new);
                told.note_still(before, abroad, lines, move |text| end(stuck, &calls, text));
            }
            (_, closed) => {
                still.closed = closed.map(|how| ClosedSince { since: now, how, told: None });
            }
        }
    }
}

impl SleepingThread {
    fn call(&self) -> Option<Arc<WaitingCall>> {
        match &self.until {
            Until::Call(call) => Some(call.clone()),
            _ => None,
        }
    }
}

/// Returns the stuck waits as numbers that change when a stream moves.
fn state_of<'a>(stuck: impl Iterator<Item = &'a Stuck>) -> Vec<u64> {
    stuck.flat_map(|s| [u64::from(s.stream.index()), s.ticket, s.progress]).collect()
}

/// Examines whether a stream is stuck.
fn examine(stream: &'static Stream, streams: &[&'static Stream]) -> Examined {
    match stream.poll(1) {
        Outcome::Parked if callback::is_running(stream) => return Examined::Moving,
        Outcome::Parked => {}
        Outcome::Busy => return Examined::Unknown,
        Outcome::Idle | Outcome::Runnable => return Examined::Moving,
    }
    let head = polling(|| {
        stream.queue.with_head(stream, |ticket, task| {
            (ticket, task.progress(), task.limit(), task.upstream(), task.helpers())
        })
    });
    if head.is_none() && !stream.is_at_rest() {
        return Examined::Unknown;
    }
    // A call of a thread begins, or drops, the tasks of a held stream, all at once.
    let held = || {
        let call = Helpers::Queued(vec![Need::Call]);
        (stream.queue.submitted(), 0, None, None, call)
    };
    let (ticket, progress, limit, upstream, helpers) = head.unwrap_or_else(held);
    if limit.is_some_and(|limit| limit < SHORT) {
        return Examined::Moving;
    }
    let mut stuck = Stuck {
        stream,
        ticket,
        progress,
        bound_to: Vec::new(),
        root: false,
        follows: false,
        signal: false,
        open: false,
        abroad: Vec::new(),
    };
    match helpers {
        Helpers::Anybody => return Examined::Moving,
        Helpers::Writers => stuck.open = true,
        Helpers::Streams => {}
        Helpers::Point => stuck.bound_to.extend(upstream.map(|(stream, _)| stream.index())),
        Helpers::Queued(needs) => {
            stuck.signal = needs.iter().all(|need| matches!(need, Need::Signal(_)));
            for need in needs {
                if let Need::Abroad(names) = need {
                    stuck.root = true;
                    stuck.abroad.extend(names);
                    continue;
                }
                match (provider(streams, &need), need) {
                    // Another record, or a message of another stream, may come before the queued
                    // one.
                    (Some(_), Need::Signal(_) | Need::Message { .. }) => stuck.follows = true,
                    (Some(provider), _) => stuck.bound_to.push(provider.index()),
                    (None, _) => stuck.root = true,
                }
            }
        }
    }
    Examined::Stuck(stuck)
}

/// Returns a stream that has queued a task which meets the need.
fn provider(streams: &[&'static Stream], need: &Need) -> Option<&'static Stream> {
    let has = |stream: &&&'static Stream| stream.queue.has_waiting(|task| task.provides(need));
    streams.iter().find(has).copied()
}

/// Returns the largest set of stuck streams in which each stream is bound to a stream of the set.
/// The set holds positions in `stuck`.
fn members_of_cycles(stuck: &[Stuck]) -> Vec<usize> {
    let mut members: Vec<usize> = (0..stuck.len()).collect();
    loop {
        let streams: Vec<u32> = members.iter().map(|at| stuck[*at].stream.index()).collect();
        let before = members.len();
        members.retain(|at| stuck[*at].bound_to.iter().any(|bound| streams.contains(bound)));
        if members.len() == before {
            return members;
        }
    }
}

fn cycle_of(stuck: Vec<Stuck>) -> Vec<Stuck> {
    let members = members_of_cycles(&stuck);
    let keep = |(at, stuck)| members.contains(&at).then_some(stuck);
    let unrooted = |stuck| Stuck { root: false, ..stuck };
    stuck.into_iter().enumerate().filter_map(keep).map(unrooted).collect()
}

/// Returns the names of the processes that the tasks and calls wait for.
fn abroad(stuck: &[Stuck], calls: &[Arc<WaitingCall>]) -> BTreeSet<u64> {
    let of_calls = calls.iter().flat_map(|call| match &call.ends {
        Enders::Processes(names) => names.as_slice(),
        Enders::Anybody => &[],
    });
    stuck.iter().flat_map(|s| &s.abroad).chain(of_calls).copied().collect()
}

/// Lists the stuck tasks and calls, one per line. Leaves out a task that waits for a record or a
/// message that is queued in another stream, unless there is no call and every task waits for
/// another stuck task.
fn lines(stuck: &[Stuck], calls: &[Arc<WaitingCall>]) -> Vec<String> {
    // A stream that waits for a point of another one is not itself a cause; the other one may be.
    let leads = |s: &Stuck| !s.follows && s.bound_to.is_empty();
    let any_leads = !calls.is_empty() || stuck.iter().any(leads);
    let listed = stuck.iter().filter(|s| !s.follows || !any_leads);
    let text = |stream: &'static Stream| {
        let head = stream.look(|_, task| task.describe());
        match head {
            Some(head) => format!("{}: {head}", stream.describe()),
            None if stream.queue.is_held() => format!("{} {}", stream.describe(), stream.stopped()),
            None => format!("{}: a task", stream.describe()),
        }
    };
    let streams = listed.map(|s| text(s.stream));
    streams.chain(calls.iter().map(|c| c.text.clone())).collect()
}

fn text_of(stuck: &[Stuck], calls: &[Arc<WaitingCall>]) -> String {
    let list = stillness::list(lines(stuck, calls), 0);
    format!("every thread and every stream waits for another{list}")
}

/// Ends the stuck tasks and calls, separately for each block.
fn end_all(stuck: Vec<Stuck>, calls: Vec<Arc<WaitingCall>>) {
    type InBlock = (Vec<Stuck>, Vec<Arc<WaitingCall>>);
    let mut blocks: BTreeMap<Option<u32>, InBlock> = BTreeMap::new();
    for stuck in stuck {
        blocks.entry(stuck.stream.device().block()).or_default().0.push(stuck);
    }
    for call in calls {
        blocks.entry(call.block).or_default().1.push(call);
    }
    for (stuck, calls) in blocks.into_values() {
        let text = text_of(&stuck, &calls);
        end(stuck, &calls, text)();
    }
}

/// Makes the stuck tasks and calls give up. If some of them wait for a thread, only these give up,
/// and the rest can then go on. The returned function wakes the streams of the tasks; a poll before
/// that ends a task for the same reason.
fn end(mut stuck: Vec<Stuck>, calls: &[Arc<WaitingCall>], text: String) -> Box<dyn FnOnce()> {
    let text: Arc<str> = text.into();
    let reason = Reason::Deadlock(text.clone());
    // If all of them wait for streams, all give up: if only the first one did, the others would go
    // on as if nothing had been wrong. So all are marked before any is polled. But a thread whose
    // call gives up may still record the notify that a task waits for, and so report how its call
    // has ended.
    if !calls.is_empty() {
        stuck.retain(|s| !s.signal);
    }
    let any_root = !calls.is_empty() || stuck.iter().any(|s| s.root);
    stuck.retain(|s| s.root || !any_root);
    stuck.iter().for_each(|s| s.stream.void_until(s.ticket, reason.clone()));
    calls.iter().for_each(|call| call.give_up(text.clone()));
    Box::new(move || stuck.iter().for_each(|s| s.stream.wake()))
}

/// Prints that nothing has moved for [`WARN_AFTER`], if a stream or call of the default block is
/// among the waits.
fn print(stuck: &[Stuck], calls: &[Arc<WaitingCall>]) {
    /// The block of programs that request none.
    const DEFAULT: u32 = 0;
    let mut blocks = stuck.iter().map(|s| s.stream.device().block());
    if blocks.any(|block| block == Some(DEFAULT)) || calls.iter().any(|c| c.block == Some(DEFAULT))
    {
        eprintln!(
            "ascend-emulator: nothing has moved for {} s, which may be a deadlock; check whether \
             these waits can still end{}",
            WARN_AFTER.as_secs(),
            stillness::list(lines(stuck, calls), 0)
        );
    }
}
