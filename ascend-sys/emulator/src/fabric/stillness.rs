//! Detects deadlocks that several processes are in.
//!
//! A process is *still* if nothing in it can run, except by actions of other processes. It reports
//! this to all processes that it is connected to, and names the processes that it waits for. A
//! process checks whether all processes that it waits for are still, and all that these wait for.
//! If so, it asks each of them for a confirmation. To answer, a process inspects itself again. Its
//! answer contains the number of frames that it had sent to, and received from, each other process
//! before that inspection. If every answer gives an unchanged state, and every frame that was sent
//! was received, no process of the set can ever go on:
//!
//! - Each process was still from its first report to its answer. So all were still at the same
//!   time, and no thread and no stream did anything.
//! - If a word in shared memory lets a stream go on, that stream is not parked when it is
//!   inspected.
//! - A frame in flight was sent and not received. A frame that was received before the counts has
//!   had its effect. An answer has the counts of the inspection before. So since the counts, each
//!   stream was polled, and each waiting thread has checked whether its wait is over.
//!
//! A process waits for all processes of a communicator, because each of them can end the
//! communicator. So a process outside the set has no communicator in which a process of the set
//! waits, and it cannot end a wait. A deadlock is not detected if no process in it is connected to
//! all the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::news::News;
use super::still_news::{FrameCounts, StillAnswer, StillNews, StillProcess};
use crate::processes::listener::{self, as_bytes};
use crate::processes::peer::Peer;
use ascend_sync::lock_std as lock;

/// The largest number of stuck tasks that a text lists.
const LISTED: usize = 16;
/// The largest number of characters of each line that a process sends to others.
const LONGEST: usize = 1000;
/// The largest number of characters of a text from another process.
const TEXT: usize = 1 << 16;
/// The largest number of state ends that are kept.
const KEPT: usize = 8;
/// The time after which a process that has not answered is asked again. A process that could go on
/// for a moment does not answer.
const AGAIN: Duration = Duration::from_secs(2);

/// The data of this process about which processes are still.
struct Stillness {
    /// The other processes that are still, by name.
    others: BTreeMap<u64, StillProcess>,
    /// The processes that have asked for a confirmation, each with its round.
    asked: BTreeMap<u64, u64>,
    /// The number of this process's current round of requests. `asks` holds the time when the round
    /// began, and the states that it asks about.
    round: u64,
    asks: Option<(Instant, BTreeMap<u64, u64>)>,
    answers: BTreeMap<u64, StillAnswer>,
    /// The ends of this process's states, by the number of the state. There is an end for the last
    /// state, and for earlier states in which this process has asked or answered. A thread of this
    /// process may have run since then, but it could not end any wait. So a deadlock that other
    /// processes have found still holds.
    ends: BTreeMap<u64, StateEnd>,
}

/// The end of a state in which this process waits for others. The end makes all stuck tasks and
/// threads give up, for a given reason.
struct StateEnd {
    waits_for: BTreeSet<u64>,
    /// Whether this process has asked or answered in the state. If not, no process can have found
    /// that the state is part of a deadlock.
    is_asked: bool,
    /// The function that reports the reason to all stuck tasks and threads. It returns the function
    /// that lets them give up.
    end: EndOfWaits,
}

type EndOfWaits = Box<dyn FnOnce(String) -> Box<dyn FnOnce()> + Send>;

/// A lock that this process holds while it reports a deadlock to other processes and to its own
/// waits. The other processes may end at once. Their loss is handled only when all waits of this
/// process have the report of the deadlock.
static ENDS: Mutex<()> = Mutex::new(());

static STILLNESS: Mutex<Stillness> = Mutex::new(Stillness {
    others: BTreeMap::new(),
    asked: BTreeMap::new(),
    round: 0,
    asks: None,
    answers: BTreeMap::new(),
    ends: BTreeMap::new(),
});

/// The frame counts and the requests, from before an inspection of this process.
pub(crate) struct BeforeLook {
    own: u64,
    peers: Vec<Arc<Peer>>,
    frames: FrameCounts,
    asked: BTreeMap<u64, u64>,
}

impl BeforeLook {
    pub(crate) fn now() -> BeforeLook {
        let (own, peers) = listener::neighbours();
        let frames = peers.iter().map(|peer| (peer.home.name, peer.frames())).collect();
        let asked = std::mem::take(&mut lock(&STILLNESS).asked);
        BeforeLook { own, peers, frames, asked }
    }
}

/// A state of this process, as it was reported to other processes.
pub(crate) struct Told {
    pub(crate) state: u64,
    /// The processes that have got the report, by name.
    to: BTreeSet<u64>,
    said: Option<StillProcess>,
    /// The counts from before the last inspection. Since then, each thread that waits has checked
    /// whether its wait is over.
    before: Option<BeforeLook>,
}

impl Told {
    pub(crate) fn new() -> Told {
        static STATES: AtomicU64 = AtomicU64::new(1);
        let state = STATES.fetch_add(1, Ordering::Relaxed);
        Told { state, to: BTreeSet::new(), said: None, before: None }
    }

    /// Handles an inspection that found this process still, in the state of the inspection before.
    /// Reports this to all other processes, and answers the processes that had asked before. If
    /// there is a deadlock, calls `end` with its text, now or later, and then the closure that
    /// `end` returns.
    pub(crate) fn note_still(
        &mut self,
        before: BeforeLook,
        waits_for: BTreeSet<u64>,
        lines: Vec<String>,
        end: impl FnOnce(String) -> Box<dyn FnOnce()> + Send + 'static,
    ) {
        let state = self.state;
        let process = StillProcess { state, waits_for, lines, more: 0 }.shortened();
        self.note_said(&process);
        for peer in before.peers.iter().filter(|peer| self.to.insert(peer.home.name)) {
            say(peer, StillNews::Still(process.clone()));
        }
        let Some(before) = self.before.replace(before) else { return };
        let mut known = lock(&STILLNESS);
        let is_asked = known.ends.get(&state).is_some_and(|end| end.is_asked);
        let is_asked = is_asked || !before.asked.is_empty();
        let (waits_for, end) = (process.waits_for.clone(), Box::new(end));
        known.keep_asked();
        known.ends.insert(state, StateEnd { waits_for, is_asked, end });
        if let Some((end, states, text)) = known.look(&before, &process) {
            drop(known);
            end.conclude(&before.peers, states, text);
        }
    }

    /// Has the state reported to all processes again if it differs from the last report. A
    /// collective that still misses a rank stays in its state when another rank comes, but no
    /// longer waits for that rank. Each connection carries the report before an answer, so the
    /// process that asked has the report when the answer comes.
    fn note_said(&mut self, process: &StillProcess) {
        if self.said.as_ref() != Some(process) {
            self.to.clear();
            self.said = Some(process.clone());
        }
    }
}

impl Stillness {
    /// Answers the processes that have asked, asks for confirmations, and checks for a deadlock. If
    /// there is one, returns the end of this process's state, the states of all processes, and the
    /// text.
    fn look(
        &mut self,
        before: &BeforeLook,
        process: &StillProcess,
    ) -> Option<(StateEnd, BTreeMap<u64, u64>, String)> {
        let BeforeLook { own, peers, frames, asked } = before;
        let answer = || StillAnswer { state: process.state, frames: frames.clone() };
        for peer in peers {
            if let Some(round) = asked.get(&peer.home.name) {
                say(peer, StillNews::Yes { round: *round, answer: answer() });
            }
        }
        let mut states = self.states_of_all(*own, process)?;
        match &mut self.asks {
            Some((since, about)) if *about == states => {
                if since.elapsed() >= AGAIN {
                    *since = Instant::now();
                    self.ask(peers, &states, process.state);
                }
            }
            _ => {
                self.round += 1;
                self.answers.clear();
                self.asks = Some((Instant::now(), states.clone()));
                self.ask(peers, &states, process.state);
            }
        }
        if !self.are_all_answered(&states) {
            return None;
        }
        if !self.is_all_heard(*own, &answer()) {
            self.asks = None;
            return None;
        }
        let text = self.text(process, peers, &states);
        states.insert(*own, process.state);
        Some((self.ends.remove(&process.state)?, states, text))
    }

    /// Returns the states of all other processes that this process waits for, directly or through
    /// other processes. `None` if one of them is not still.
    fn states_of_all(&self, own: u64, process: &StillProcess) -> Option<BTreeMap<u64, u64>> {
        let mut states = BTreeMap::new();
        let mut open: Vec<u64> = process.waits_for.iter().copied().collect();
        while let Some(name) = open.pop() {
            if name != own && !states.contains_key(&name) {
                let other = self.others.get(&name)?;
                states.insert(name, other.state);
                open.extend(&other.waits_for);
            }
        }
        Some(states)
    }

    /// Asks the processes that have not answered. `own` is the state in which this process asks.
    fn ask(&mut self, peers: &[Arc<Peer>], states: &BTreeMap<u64, u64>, own: u64) {
        let name = |peer: &Arc<Peer>| peer.home.name;
        let is_open = |name| states.contains_key(&name) && !self.answers.contains_key(&name);
        for peer in peers.iter().filter(|peer| is_open(name(peer))) {
            say(peer, StillNews::Asks { round: self.round });
        }
        if let Some(end) = self.ends.get_mut(&own) {
            end.is_asked = true;
        }
    }

    /// Removes the ends of states in which no process can have found a deadlock, and the oldest
    /// ends.
    fn keep_asked(&mut self) {
        self.ends.retain(|_, end| end.is_asked);
        while self.ends.len() >= KEPT {
            self.ends.pop_first();
        }
    }

    /// Takes the end of this process's state, if the process `name` has found a deadlock of these
    /// states. `own` is the name of this process. Returns `None` if this process has not asked or
    /// answered in that state, or did not wait for the process `name`.
    fn end_of(&mut self, own: u64, name: u64, states: &BTreeMap<u64, u64>) -> Option<StateEnd> {
        let state = states.get(&own)?;
        let end = self.ends.get(state)?;
        let is_so = end.is_asked && end.waits_for.contains(&name);
        is_so.then(|| self.ends.remove(state)).flatten()
    }

    fn are_all_answered(&self, states: &BTreeMap<u64, u64>) -> bool {
        let answers = |(name, state): (&u64, &u64)| {
            self.answers.get(name).is_some_and(|answer| answer.state == *state)
        };
        states.iter().all(answers)
    }

    /// Returns whether all frames were received that this process and the processes that have
    /// answered have sent one another.
    fn is_all_heard(&self, own: u64, answer: &StillAnswer) -> bool {
        let all: Vec<(u64, &StillAnswer)> = self
            .answers
            .iter()
            .map(|(name, answer)| (*name, answer))
            .chain([(own, answer)])
            .collect();
        let counts = |of: &StillAnswer, other| of.frames.get(&other).copied().unwrap_or_default();
        all.iter().all(|(name, of)| {
            all.iter().all(|(other, there)| counts(of, *other).0 == counts(there, *name).1)
        })
    }

    fn text(
        &self,
        process: &StillProcess,
        peers: &[Arc<Peer>],
        states: &BTreeMap<u64, u64>,
    ) -> String {
        let members = peers.iter().filter(|peer| states.contains_key(&peer.home.name));
        let mut numbers: Vec<u32> = members.map(|peer| peer.home.process).collect();
        numbers.push(std::process::id());
        numbers.sort_unstable();
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        let others = self.others.iter().filter(|(name, _)| states.contains_key(name));
        let all: Vec<&StillProcess> = others.map(|(_, other)| other).chain([process]).collect();
        let lines = all.iter().flat_map(|process| &process.lines);
        let more = all.iter().fold(0, |sum: usize, process| sum.saturating_add(process.more));
        format!(
            "every thread and every stream of processes {} waits for another{}",
            numbers.join(", "),
            list(lines.cloned().collect(), more)
        )
    }

    fn forget(&mut self, name: u64) {
        self.others.remove(&name);
        self.asked.remove(&name);
        self.answers.remove(&name);
    }
}

impl StateEnd {
    /// Reports the deadlock to the other processes before any wait of this process ends, so that
    /// they learn of the deadlock before its consequences.
    fn conclude(self, peers: &[Arc<Peer>], states: BTreeMap<u64, u64>, text: String) {
        let all_are_told = lock(&ENDS);
        for peer in peers.iter().filter(|peer| states.contains_key(&peer.home.name)) {
            say(peer, StillNews::Deadlock { states: states.clone(), text: text.clone() });
        }
        let go_on = (self.end)(text);
        drop(all_are_told);
        go_on();
    }
}

/// Notes that this process is not still any more, and reports it to the others.
pub(crate) fn note_moves() {
    let mut known = lock(&STILLNESS);
    known.asks = None;
    known.keep_asked();
    drop(known);
    listener::neighbours().1.iter().for_each(|peer| say(peer, StillNews::Moves));
}

/// Lists the waits that are stuck, one per line. The lines are sorted by the description of the
/// wait, then by the waiter. So the same deadlock gives the same text. `more` counts the waits
/// beyond the lines.
pub(crate) fn list(mut lines: Vec<String>, more: usize) -> String {
    fn key(line: &str) -> (Option<&str>, &str) {
        (line.split_once(": ").map(|(_, what)| what), line)
    }
    lines.sort_by(|a, b| key(a).cmp(&key(b)));
    let more = lines.len().saturating_sub(LISTED).saturating_add(more);
    lines.truncate(LISTED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

impl StillProcess {
    /// Keeps as many lines as a text lists, and counts the rest.
    fn shortened(mut self) -> Self {
        self.more = self.more.saturating_add(self.lines.len().saturating_sub(LISTED));
        self.lines.truncate(LISTED);
        for line in &mut self.lines {
            *line = line.chars().take(LONGEST).collect();
        }
        self
    }
}

fn say(peer: &Peer, news: StillNews) {
    peer.say_uncounted(&as_bytes(&News::Still(news)), Vec::new());
}

/// Handles news from another process about whether it is still.
pub(super) fn hear(from: &Peer, news: StillNews) {
    let (name, mut known) = (from.home.name, lock(&STILLNESS));
    if from.gone().is_some() {
        return;
    }
    match news {
        StillNews::Still(process) => {
            known.others.insert(name, process.shortened());
        }
        StillNews::Moves => known.forget(name),
        StillNews::Asks { round } => {
            known.asked.insert(name, round);
        }
        StillNews::Yes { round, answer } if round == known.round => {
            known.answers.insert(name, answer);
        }
        StillNews::Yes { .. } => {}
        StillNews::Deadlock { states, text } => {
            let (own, peers) = listener::neighbours();
            let end = known.end_of(own, name, &states);
            drop(known);
            if let Some(end) = end {
                let text = text.chars().take(TEXT).collect();
                end.conclude(&peers, states, text);
            }
        }
    }
}

/// Handles the loss of a process. If this process is ending its waits because of a deadlock, waits
/// until all of them have the report of the deadlock.
pub(super) fn lose(lost: &Peer) {
    drop(lock(&ENDS));
    lock(&STILLNESS).forget(lost.home.name);
}

#[cfg(all(test, not(loom)))]
mod tests;
