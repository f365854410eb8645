//! The happens-before relation between components. It tracks the work that each component knows to
//! be complete, and finds accesses that nothing orders.
//!
//! The checker is independent of streams and devices. Hooks report events to it, in the order in
//! which they happen. An operation [begins](Checker::begin) on a component. A component
//! [learns](Checker::learn) that another component has passed a point. Participants
//! [arrive](Checker::arrive) at a meeting and [leave](Checker::leave) it. A signal is
//! [set](Checker::set) and [taken](Checker::take). If a component learns a fact at a step, all its
//! later steps know the fact, too. So does every component that learns of one of these steps.
//!
//! All threads of the host are one component. A fact that a call has reported to one thread counts
//! as known to every later call of any thread. Threads can communicate in ways that the checker
//! cannot see, so it assumes that they do.

use super::clock::{Clock, ClockComponent, ClockPoint};
use super::finding::{Finding, FindingKind, FindingSide};
use super::shadow::{Access, CheckedOperation, Found, Mode, Shadow, ShadowMemory};
use crate::processes::listener::takes_lines;
use crate::processes::peer::random;
use ascend_sync::lock_std as lock;
use signal::CheckedSignal;
use std::collections::{HashMap, HashSet, VecDeque};
use std::mem::Discriminant;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use told::ForeignComponents;
use touch::side;

mod cpu_kernels;
mod signal;
mod told;
mod touch;

/// The component of the host, which stands for all of its threads.
pub(crate) const HOST: ClockComponent = ClockComponent(u32::MAX);
/// The number of changes of a component's knowledge that are remembered. For an older step, the
/// knowledge of a slightly later step is used. So races may be missed, but no false race is
/// reported.
const REMEMBERED: usize = 4096;
/// The largest number of findings that are kept.
const KEPT: usize = 1000;

/// The key of a meeting: a communicator, the kind of meeting, and its number.
pub(crate) type ArrivalKey = (u64, u64, u64);

/// The participants whose arrival is known to a participant when it leaves a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    Nobody,
    Party(usize),
    All,
}

/// The accesses of one operation that must not share a byte with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    None,
    /// Those that write: a byte must not have two results.
    Writes,
    All,
}

pub(crate) struct Checker {
    /// The random name of this checker, which other processes use.
    name: u64,
    state: Mutex<CheckerState>,
    count: AtomicU32,
}

impl Default for Checker {
    fn default() -> Self {
        Checker { name: random(), state: Mutex::default(), count: AtomicU32::new(0) }
    }
}

#[derive(Default)]
struct CheckerState {
    components: HashMap<ClockComponent, KnownSteps>,
    /// The number of steps of the host so far.
    host_time: u64,
    memory: ShadowMemory,
    /// The objects other than memory that may have only one user at a time, by number.
    owned: HashMap<u64, Shadow>,
    meetings: HashMap<ArrivalKey, CheckedMeeting>,
    signals: HashMap<u64, CheckedSignal>,
    foreign: ForeignComponents,
    /// The steps that other processes may know of.
    told: Clock,
    /// The last number that was given out, for each name.
    numbers: HashMap<ArrivalKey, u64>,
    /// Whether CPU kernels may have written memory, which the checker does not see.
    kernels_write: bool,
    findings: Vec<Arc<Finding>>,
    seen: HashSet<(Discriminant<FindingKind>, String, String, String)>,
    /// The findings of the current call, which are not printed yet.
    fresh: Vec<Arc<Finding>>,
}

/// The knowledge of a component about other components.
#[derive(Default)]
struct KnownSteps {
    now: Arc<Clock>,
    /// The changes of the knowledge, each with its step and the new clock.
    changes: VecDeque<(u64, Arc<Clock>)>,
}

struct CheckedMeeting {
    arrivals: Vec<Option<Arc<Clock>>>,
    /// The number of participants in this process. `expected` is the number of participants, here
    /// and elsewhere, that report their arrival.
    own: usize,
    expected: usize,
    /// The union of the clocks of all arrivals, once all participants have arrived.
    union: Option<Arc<Clock>>,
    left: usize,
}

impl Checker {
    /// Returns the current clock of the host, for an operation that it issues.
    pub(crate) fn known_to_host(&self) -> Arc<Clock> {
        lock(&self.state).components.entry(HOST).or_default().now.clone()
    }

    /// Notes that the host has learned that a point is passed.
    pub(crate) fn host_learns(&self, point: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.clock_at(point);
        let time = state.host_time;
        state.learn(ClockPoint { component: HOST, time }, &clock);
    }

    /// Notes that the component knows, from this step on, everything in `clock`.
    pub(crate) fn learn(&self, at: ClockPoint, clock: &Clock) {
        lock(&self.state).learn(at, clock);
    }

    /// Notes that the component knows, from this step on, that a point of another component is
    /// passed.
    pub(crate) fn learn_point(&self, at: ClockPoint, point: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.clock_at(point);
        state.learn(at, &clock);
    }

    /// Notes that an operation begins as the next step of its component. It is over when `at` is
    /// passed. `apart` says which of its accesses must not overlap each other.
    pub(crate) fn begin(&self, at: ClockPoint, operation: &Arc<CheckedOperation>, apart: Apart) {
        self.telling(|state| {
            let clock = state.clock_at(at);
            state.touch(at, operation, &clock);
            state.overlaps(at, operation, apart);
        });
    }

    /// Notes that the operation uses an object that may have only one user at a time. `thing` and
    /// `name` are the number and the name of the object.
    pub(crate) fn own(
        &self,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
        thing: u64,
        name: &str,
    ) {
        self.telling(|state| {
            let clock = state.clock_at(at);
            let access = Access { point: at, mode: Mode::Write, operation: operation.clone() };
            let mut others = Vec::new();
            let shadow =
                state.owned.entry(thing).or_insert_with(|| Shadow::new(0..1, name.into(), true));
            shadow.access(0..1, &access, &clock, |found| {
                if let Found::Unordered { other, .. } = found {
                    others.push(other);
                }
            });
            let name = shadow.name.clone();
            for other in others {
                let knew = clock.get(other.point.component);
                let sides = vec![side(&other, &(0..0)), side(&access, &(0..0))];
                let kind = FindingKind::Shared;
                state.found(Finding {
                    kind,
                    memory: name.clone(),
                    size: 0,
                    bytes: None,
                    sides,
                    knew,
                });
            }
        });
    }

    /// Notes that the host itself touches memory, in a call or outside of one. Returns the point of
    /// the access.
    pub(crate) fn host_touches(&self, operation: &Arc<CheckedOperation>) -> ClockPoint {
        let at = self.host_steps();
        self.telling(|state| {
            let clock = state.clock_at(at);
            state.touch(at, operation, &clock);
        });
        at
    }

    /// Notes new memory. With `written`, its initial contents count as written.
    pub(crate) fn allocated(&self, range: Range<usize>, name: &str, written: bool) {
        lock(&self.state).memory.add(Shadow::new(range, name.into(), written));
    }

    /// Notes a new window of a kernel.
    pub(crate) fn window_opened(&self, range: Range<usize>, name: &str) {
        lock(&self.state).memory.add(Shadow::window(range, name.into()));
    }

    /// Notes that the allocation at an address may be written without a report, for example by
    /// other processes.
    pub(crate) fn lent(&self, address: usize) {
        if let Some(memory) = lock(&self.state).memory.holding(address) {
            memory.is_lent = true;
        }
    }

    /// Returns whether an address lies in a window.
    pub(crate) fn is_window(&self, address: usize) -> bool {
        lock(&self.state).memory.holding(address).is_some_and(|memory| memory.is_window)
    }

    /// Notes the accesses of a kernel or its server to windows. The accesses to other memory are
    /// reported when the kernel ends.
    pub(crate) fn touches_windows(&self, at: ClockPoint, operation: &Arc<CheckedOperation>) {
        self.telling(|state| {
            for touch in &operation.touches {
                let memory = state.memory.holding(touch.range.start);
                if memory.is_some_and(|memory| memory.is_window) {
                    let (mode, range) = (touch.mode, touch.range.clone());
                    state.touch_one(at, operation, &Clock::default(), mode, range);
                }
            }
        });
    }

    /// Adds a finding that a kernel, which has ended, has broken a rule of kernels.
    pub(crate) fn kernel_is_wrong(
        &self,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
        found: ascend_program::check::Finding,
    ) {
        // There is one finding for each rule and place in the source.
        let memory = format!("{} {}:{}:{}", found.rule, found.file, found.line, found.column);
        let sides = vec![FindingSide::plain("run", operation, at.time)];
        let (kind, memory) = (FindingKind::Kernel(Box::new(found)), memory.into());
        let finding = Finding { kind, memory, size: 0, bytes: None, sides, knew: 0 };
        self.telling(|state| state.found(finding));
    }

    /// Notes that the host frees the memory that begins at `start`. If it `has_waited` for all
    /// accesses to the memory, it now knows that they are complete.
    pub(crate) fn freed(&self, start: usize, operation: &Arc<CheckedOperation>, has_waited: bool) {
        self.telling(|state| {
            let at = state.host_step();
            let clock = state.clock_at(at);
            let access = Access { point: at, mode: Mode::Write, operation: operation.clone() };
            let Some(shadow) = state.memory.starting_at(start) else { return };
            let mut others: Vec<Access> = Vec::new();
            shadow.access(shadow.range(), &access, &clock, |found| {
                if let Found::Unordered { other, .. } = found
                    && !others.iter().any(|seen| Arc::ptr_eq(&seen.operation, &other.operation))
                {
                    others.push(other);
                }
            });
            shadow.freed = Some(access.clone());
            let (range, memory) = (shadow.range(), shadow.name.clone());
            for other in others {
                if has_waited {
                    let known = state.clock_at(other.point);
                    state.learn(at, &known);
                    continue;
                }
                let knew = clock.get(other.point.component);
                let sides = vec![side(&other, &range), side(&access, &range)];
                let (kind, size) = (FindingKind::Free, range.len());
                let memory = memory.clone();
                state.found(Finding { kind, memory, size, bytes: None, sides, knew });
            }
        });
    }

    /// Removes all memory of a range of addresses.
    pub(crate) fn forget(&self, range: Range<usize>) {
        lock(&self.state).memory.forget(range);
    }

    /// Notes that a participant arrives at a meeting. All its steps before `at` are complete. Of
    /// the `participants`, `own` are in this process, and `expected` report their arrival.
    pub(crate) fn arrive(
        &self,
        key: ArrivalKey,
        participant: usize,
        (participants, own, expected): (usize, usize, usize),
        at: ClockPoint,
    ) {
        let mut state = lock(&self.state);
        let clock = state.clock_at(ClockPoint { time: at.time.saturating_sub(1), ..at });
        let meeting =
            state.meetings.entry(key).or_insert_with(|| CheckedMeeting::new(participants));
        (meeting.own, meeting.expected) = (own, expected);
        meeting.arrive(participant, clock);
        if meeting.is_over() {
            state.meetings.remove(&key);
        }
    }

    /// Notes that a participant leaves a meeting and knows of the arrivals `sees`.
    pub(crate) fn leave(&self, key: ArrivalKey, sees: Sees, at: ClockPoint) {
        let mut state = lock(&self.state);
        let Some(meeting) = state.meetings.get_mut(&key) else { return };
        meeting.left += 1;
        let clock = match sees {
            Sees::Nobody => None,
            Sees::Party(participant) => meeting.arrivals.get(participant).cloned().flatten(),
            Sees::All => Some(meeting.union()),
        };
        if meeting.is_over() {
            state.meetings.remove(&key);
        }
        if let Some(clock) = clock {
            state.learn(at, &clock);
        }
    }

    /// Returns the next number for this name, from 1.
    pub(crate) fn next_number(&self, name: ArrivalKey) -> u64 {
        let mut state = lock(&self.state);
        let number = state.numbers.entry(name).or_default();
        *number += 1;
        *number
    }

    /// Takes back the last number of this name, which was not used.
    pub(crate) fn number_not_used(&self, name: ArrivalKey) {
        if let Some(number) = lock(&self.state).numbers.get_mut(&name) {
            *number -= 1;
        }
    }

    /// Notes a step of the host itself, and returns its point.
    pub(crate) fn host_steps(&self) -> ClockPoint {
        lock(&self.state).host_step()
    }

    /// Notes that other processes receive data or a signal, so that they may know of the steps up
    /// to `at`.
    pub(crate) fn tells(&self, at: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.clock_at(at);
        state.told.join(&clock);
    }

    /// Notes that data or a signal was received from a process that reports nothing to checkers.
    /// That process may know everything that was sent to other processes before. The checker
    /// assumes this, so that it reports no false race.
    pub(crate) fn is_told(&self, at: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.told.clone();
        state.learn(at, &clock);
    }

    /// Notes that the host has received data or a signal from a process that reports nothing to
    /// checkers: see [`is_told`](Self::is_told).
    pub(crate) fn host_is_told(&self) {
        let at = self.host_steps();
        self.is_told(at);
    }

    /// Returns the number of findings.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn finding(&self, index: u32) -> Option<Arc<Finding>> {
        lock(&self.state).findings.get(index as usize).cloned()
    }

    /// Runs `look`, which may add findings. Returns the new findings.
    fn looking(&self, look: impl FnOnce(&mut CheckerState)) -> Vec<Arc<Finding>> {
        let mut state = lock(&self.state);
        look(&mut state);
        self.count.store(state.findings.len() as u32, Ordering::Release);
        std::mem::take(&mut state.fresh)
    }

    /// Runs `look`, which may add findings. Then releases the lock and prints the new findings.
    fn telling(&self, look: impl FnOnce(&mut CheckerState)) {
        print(&self.looking(look));
    }

    /// Does the same as [`telling`](Self::telling) on the thread that receives the messages of
    /// other processes. That thread must not block on standard error.
    fn telling_for_others(&self, look: impl FnOnce(&mut CheckerState)) {
        let fresh = self.looking(look);
        if fresh.is_empty() || takes_lines() {
            print(&fresh);
        } else {
            let print = move || print(&fresh);
            // If no thread can be started, the findings are not printed but still kept.
            let _ = std::thread::Builder::new().name("ascend-findings".into()).spawn(print);
        }
    }
}

fn print(findings: &[Arc<Finding>]) {
    for finding in findings {
        eprintln!("ascend-emulator: {finding}");
    }
}

impl CheckerState {
    /// Returns the clock of everything that is known to be complete when a point is passed.
    fn clock_at(&self, point: ClockPoint) -> Clock {
        let mut clock = match self.components.get(&point.component) {
            None => Clock::default(),
            Some(known) => {
                let after = known.changes.partition_point(|(time, _)| *time <= point.time);
                match after.checked_sub(1).and_then(|at| known.changes.get(at)) {
                    Some((_, clock)) => Clock::clone(clock),
                    // The first changes may have been dropped.
                    None if known.changes.len() == REMEMBERED => Clock::clone(&known.changes[0].1),
                    None => Clock::default(),
                }
            }
        };
        clock.raise(point);
        clock
    }

    fn learn(&mut self, at: ClockPoint, clock: &Clock) {
        let known = self.components.entry(at.component).or_default();
        if known.now.knows(clock) {
            return;
        }
        Arc::make_mut(&mut known.now).join(clock);
        match known.changes.back_mut() {
            Some((time, last)) if *time == at.time => *last = known.now.clone(),
            _ => {
                if known.changes.len() == REMEMBERED {
                    known.changes.pop_front();
                }
                known.changes.push_back((at.time, known.now.clone()));
            }
        }
    }

    /// Notes a step of the host itself. Everything that the host issues from now on comes after it.
    fn host_step(&mut self) -> ClockPoint {
        self.host_time += 1;
        let at = ClockPoint { component: HOST, time: self.host_time };
        let mut clock = Clock::default();
        clock.raise(at);
        self.learn(at, &clock);
        at
    }

    /// Adds a finding, unless a similar one was added before.
    fn found(&mut self, finding: Finding) {
        let who = |at: usize| finding.sides.get(at).map_or(String::new(), FindingSide::kind);
        let kind = std::mem::discriminant(&finding.kind);
        let like = (kind, finding.memory.to_string(), who(0), who(1));
        if self.findings.len() < KEPT && self.seen.insert(like) {
            let finding = Arc::new(finding);
            self.findings.push(finding.clone());
            self.fresh.push(finding);
        }
    }
}

impl CheckedMeeting {
    fn new(participants: usize) -> CheckedMeeting {
        let arrivals = vec![None; participants];
        CheckedMeeting { arrivals, own: 0, expected: participants, union: None, left: 0 }
    }

    /// Returns whether all participants of this process have left the meeting, and no other arrival
    /// will be reported.
    fn is_over(&self) -> bool {
        self.own > 0
            && self.left == self.own
            && self.arrivals.iter().flatten().count() >= self.expected
    }

    fn arrive(&mut self, participant: usize, clock: Clock) {
        if let Some(place) = self.arrivals.get_mut(participant) {
            *place = Some(Arc::new(clock));
        }
    }

    fn union(&mut self) -> Arc<Clock> {
        if let Some(union) = &self.union {
            return union.clone();
        }
        let mut union = Clock::default();
        self.arrivals.iter().flatten().for_each(|clock| union.join(clock));
        let union = Arc::new(union);
        if self.arrivals.iter().all(Option::is_some) {
            self.union = Some(union.clone());
        }
        union
    }
}
