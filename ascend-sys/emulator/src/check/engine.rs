//! Happens-before, over components and points: the work that each component knows to be complete,
//! and the accesses that nothing orders.
//!
//! The checker knows neither streams nor devices. It is told what happens, in the order in which it
//! happens: an operation [begins](Checker::begin) on a component, a component
//! [learns](Checker::learn) that another has passed a point, participants [arrive](Checker::arrive)
//! at a meeting and [leave](Checker::leave) it, a signal is [set](Checker::set) and
//! [taken](Checker::take). All later steps of a component know what it learned at a step, and so
//! does any component that learns of one of those steps.
//!
//! The host is a component too, one for all threads: a fact that a call has told to one thread
//! counts as known to every later call. Threads can tell each other things in ways that the checker
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

/// The component of all threads of the host.
pub(crate) const HOST: ClockComponent = ClockComponent(u32::MAX);
/// The number of steps of a component whose knowledge is remembered. A request for an older step
/// gets the knowledge of a slightly later one. So races may be missed, but none is invented.
const REMEMBERED: usize = 4096;
/// Findings that are kept.
const KEPT: usize = 1000;

/// The key of a meeting: a communicator, the kind of meeting, and its number.
pub(crate) type ArrivalKey = (u64, u64, u64);

/// The participants whose arrival a participant has seen when it leaves a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    Nobody,
    Party(usize),
    All,
}

pub(crate) struct Checker {
    /// The name by which other processes know it.
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
    /// Accesses of the host so far.
    host_time: u64,
    memory: ShadowMemory,
    /// Things besides memory that have one user at a time.
    owned: HashMap<u64, Shadow>,
    meetings: HashMap<ArrivalKey, CheckedMeeting>,
    signals: HashMap<u64, CheckedSignal>,
    foreign: ForeignComponents,
    /// All that other processes were told.
    told: Clock,
    /// How many numbers of each kind were given out.
    numbers: HashMap<ArrivalKey, u64>,
    /// CPU kernels write memory, unseen.
    kernels_write: bool,
    findings: Vec<Arc<Finding>>,
    seen: HashSet<(Discriminant<FindingKind>, String, String, String)>,
    /// Findings of the call that is under way, not yet told.
    fresh: Vec<Arc<Finding>>,
}

/// The knowledge of a component about the others.
#[derive(Default)]
struct KnownSteps {
    now: Arc<Clock>,
    /// The changes: each with its step and the new clock.
    changes: VecDeque<(u64, Arc<Clock>)>,
}

struct CheckedMeeting {
    arrivals: Vec<Option<Arc<Clock>>>,
    /// The participants of this process, and the number of arrivals that will be heard of.
    own: usize,
    expected: usize,
    /// The union of all arrivals, when all are there.
    union: Option<Arc<Clock>>,
    left: usize,
}

impl Checker {
    /// Returns what the host knows now: for an operation that it issues.
    pub(crate) fn known_to_host(&self) -> Arc<Clock> {
        lock(&self.state).components.entry(HOST).or_default().now.clone()
    }

    /// The host has been told that a point is passed.
    pub(crate) fn host_learns(&self, point: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.clock_at(point);
        let time = state.host_time;
        state.learn(ClockPoint { component: HOST, time }, &clock);
    }

    /// Notes that from this step on the component knows what `clock` knows.
    pub(crate) fn learn(&self, at: ClockPoint, clock: &Clock) {
        lock(&self.state).learn(at, clock);
    }

    /// Notes that from this step on the component knows that a point of another is passed.
    pub(crate) fn learn_point(&self, at: ClockPoint, point: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.clock_at(point);
        state.learn(at, &clock);
    }

    /// An operation begins, at the head of its component. It is over when `at` is passed.
    pub(crate) fn begin(&self, at: ClockPoint, operation: &Arc<CheckedOperation>, apart: bool) {
        self.telling(|state| {
            let clock = state.clock_at(at);
            state.touch(at, operation, &clock);
            if apart {
                state.overlaps(at, operation);
            }
        });
    }

    /// Notes that the operation is one of several that must not be under way together. `name` is
    /// the thing that they use one after the other.
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

    /// The host itself touches memory, in a call or outside of one.
    pub(crate) fn host_touches(&self, operation: &Arc<CheckedOperation>) -> ClockPoint {
        let at = self.host_steps();
        self.telling(|state| {
            let clock = state.clock_at(at);
            state.touch(at, operation, &clock);
        });
        at
    }

    /// Notes new memory. With `written`, its first contents count as written.
    pub(crate) fn allocated(&self, range: Range<usize>, name: &str, written: bool) {
        lock(&self.state).memory.add(Shadow::new(range, name.into(), written));
    }

    /// Notes a new window of a kernel.
    pub(crate) fn window_opened(&self, range: Range<usize>, name: &str) {
        lock(&self.state).memory.add(Shadow::window(range, name.into()));
    }

    /// Notes that others may write the allocation at an address, unseen.
    pub(crate) fn lent(&self, address: usize) {
        if let Some(memory) = lock(&self.state).memory.holding(address) {
            memory.is_lent = true;
        }
    }

    /// Whether an address lies in a window.
    pub(crate) fn is_window(&self, address: usize) -> bool {
        lock(&self.state).memory.holding(address).is_some_and(|memory| memory.is_window)
    }

    /// Notes the accesses of a kernel or its server to windows. The checker gets the accesses to
    /// other memory when the kernel ends.
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

    /// Reports that a kernel which has ended has broken a rule of kernels.
    pub(crate) fn kernel_is_wrong(
        &self,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
        found: ascend_program::check::Finding,
    ) {
        // One for each rule and line.
        let memory = format!("{} {}:{}:{}", found.rule, found.file, found.line, found.column);
        let sides = vec![FindingSide::plain("run", operation, at.time)];
        let (kind, memory) = (FindingKind::Kernel(Box::new(found)), memory.into());
        let finding = Finding { kind, memory, size: 0, bytes: None, sides, knew: 0 };
        self.telling(|state| state.found(finding));
    }

    /// Notes that the host frees the memory that begins here. If it `has_waited` for all that
    /// touched the memory, it knows of that now.
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

    /// Forgets all memory of a range of addresses.
    pub(crate) fn forget(&self, range: Range<usize>) {
        lock(&self.state).memory.forget(range);
    }

    /// A participant comes to a meeting; all its steps before `at` are complete. Of the
    /// `participants`, `own` are in this process, and `expected` will tell of their arrival.
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

    /// A participant goes on from a meeting at which it has seen the arrival of others.
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

    /// Returns the next number under this name, from 1.
    pub(crate) fn next_number(&self, name: ArrivalKey) -> u64 {
        let mut state = lock(&self.state);
        let number = state.numbers.entry(name).or_default();
        *number += 1;
        *number
    }

    /// Takes the last number of this name back: it is not used after all.
    pub(crate) fn number_not_used(&self, name: ArrivalKey) {
        if let Some(number) = lock(&self.state).numbers.get_mut(&name) {
            *number -= 1;
        }
    }

    /// Notes that the host does something by itself that other processes hear of; returns its
    /// point.
    pub(crate) fn host_steps(&self) -> ClockPoint {
        lock(&self.state).host_step()
    }

    /// Notes that other processes are told something: they may know of the steps up to `at`.
    pub(crate) fn tells(&self, at: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.clock_at(at);
        state.told.join(&clock);
    }

    /// Notes that a process that tells checkers nothing has told something. Everything that other
    /// processes were told before may be behind it, so no race is invented.
    pub(crate) fn is_told(&self, at: ClockPoint) {
        let mut state = lock(&self.state);
        let clock = state.told.clone();
        state.learn(at, &clock);
    }

    /// The same, to the host.
    pub(crate) fn host_is_told(&self) {
        let at = self.host_steps();
        self.is_told(at);
    }

    /// How many findings there are.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn finding(&self, index: u32) -> Option<Arc<Finding>> {
        lock(&self.state).findings.get(index as usize).cloned()
    }

    /// Runs `look`, which may find something. Returns the new findings.
    fn looking(&self, look: impl FnOnce(&mut CheckerState)) -> Vec<Arc<Finding>> {
        let mut state = lock(&self.state);
        look(&mut state);
        self.count.store(state.findings.len() as u32, Ordering::Release);
        std::mem::take(&mut state.fresh)
    }

    /// Runs `look`, which may find something, and then prints the findings, without the lock.
    fn telling(&self, look: impl FnOnce(&mut CheckerState)) {
        print(&self.looking(look));
    }

    /// The same on the thread that hears other processes: it must not wait for a reader of standard
    /// error.
    fn telling_for_others(&self, look: impl FnOnce(&mut CheckerState)) {
        let fresh = self.looking(look);
        if fresh.is_empty() || takes_lines() {
            print(&fresh);
        } else {
            let print = move || print(&fresh);
            // If there is no thread, the findings are still kept.
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
    /// Returns what is known to be complete when a point is passed.
    fn clock_at(&self, point: ClockPoint) -> Clock {
        let mut clock = match self.components.get(&point.component) {
            None => Clock::default(),
            Some(known) => {
                let after = known.changes.partition_point(|(time, _)| *time <= point.time);
                match after.checked_sub(1).and_then(|at| known.changes.get(at)) {
                    Some((_, clock)) => Clock::clone(clock),
                    // The first changes may be forgotten.
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

    /// Notes a step of the host by itself: everything that it issues from now on comes after it.
    fn host_step(&mut self) -> ClockPoint {
        self.host_time += 1;
        let at = ClockPoint { component: HOST, time: self.host_time };
        let mut clock = Clock::default();
        clock.raise(at);
        self.learn(at, &clock);
        at
    }

    /// Notes a finding, unless one like it is known.
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

    /// Whether all participants of this process have left it, and no other will come.
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
