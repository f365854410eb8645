//! The clocks and operations that other processes report.
//!
//! Each checker has a unique name. A component of another checker gets a number here when it is
//! first mentioned in a message. From then on this checker treats the component like its own. The
//! messages of the other checker report the steps of the component.

use super::*;
use crate::fabric::{ToldClock, ToldComponent, ToldMode, ToldOperation, ToldTouch};
use crate::task::Touch;

/// The first number for components of other checkers. Streams of this process have smaller numbers.
const FIRST: u32 = 1 << 31;

/// The components of other checkers.
#[derive(Default)]
pub(super) struct ForeignComponents {
    numbers: HashMap<ToldComponent, ClockComponent>,
    names: Vec<ToldComponent>,
}

/// Returns whether a component belongs to another checker.
pub(super) fn is_foreign(component: ClockComponent) -> bool {
    component != HOST && component.0 >= FIRST
}

impl ForeignComponents {
    /// Returns the name of a component for other checkers. `own` is the name of this checker.
    fn name(&self, own: u64, component: ClockComponent) -> ToldComponent {
        let foreign = is_foreign(component).then(|| self.names.get((component.0 - FIRST) as usize));
        let own = ToldComponent { checker: own, component: component.0 };
        foreign.flatten().copied().unwrap_or(own)
    }

    /// Returns the component with a name, which gets a number if it is new.
    fn number(&mut self, own: u64, name: ToldComponent) -> ClockComponent {
        let as_own = ClockComponent(name.component);
        if name.checker == own && !is_foreign(as_own) {
            return as_own;
        }
        let next = FIRST + self.names.len() as u32;
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(name);
            ClockComponent(next)
        })
    }
}

impl Checker {
    /// Returns the clock of everything that is known when a point is passed, for other checkers.
    pub(crate) fn told(&self, at: ClockPoint) -> ToldClock {
        lock(&self.state).told_at(self.name, at)
    }

    /// Returns the clock of the host, for other checkers.
    pub(crate) fn told_host(&self) -> ToldClock {
        let state = lock(&self.state);
        state.told_at(self.name, ClockPoint { component: HOST, time: state.host_time })
    }

    /// Notes the clock of the host of another process. From now on, the host of this process knows
    /// the same.
    pub(crate) fn hosts_know(&self, known: &ToldClock) {
        let mut state = lock(&self.state);
        let clock = state.clock_of(self.name, known);
        let at = ClockPoint { component: HOST, time: state.host_time };
        state.learn(at, &clock);
    }

    /// Makes the report of an operation of this process for another process whose memory it
    /// touches.
    pub(crate) fn tell(
        &self,
        at: ClockPoint,
        operation: &CheckedOperation,
        touches: Vec<ToldTouch>,
    ) -> ToldOperation {
        let state = lock(&self.state);
        ToldOperation {
            component: state.foreign.name(self.name, at.component),
            time: at.time,
            known: state.told_at(self.name, at),
            what: operation.what.clone(),
            place: operation.place.clone(),
            member: operation.member.clone(),
            issued: operation.issued.clone(),
            touches,
        }
    }

    /// Notes that an operation of another process touches memory of this process. The operation may
    /// have begun some time ago, but the work after it has waited until the process has reported
    /// it.
    pub(crate) fn touched_by_other(&self, told: &ToldOperation, touches: Vec<Touch>, process: u32) {
        self.telling_for_others(|state| {
            let (at, operation) = state.hear(self.name, told, touches, process);
            let clock = state.clock_at(at);
            state.touch(at, &operation, &clock);
        });
    }

    /// Notes that another process sets a signal of this process.
    pub(crate) fn set_by_other(&self, signal: u64, name: &str, told: &ToldOperation, process: u32) {
        self.telling_for_others(|state| {
            let (at, operation) = state.hear(self.name, told, Vec::new(), process);
            state.set(signal, name, at, &operation);
        });
    }

    /// Notes that a participant of another process arrives at a meeting. `known` is its clock.
    pub(crate) fn arrived_abroad(
        &self,
        key: ArrivalKey,
        participant: usize,
        participants: usize,
        known: &ToldClock,
    ) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let clock = state.clock_of(self.name, known);
        let new = || CheckedMeeting::new(participants);
        let meeting = state.meetings.entry(key).or_insert_with(new);
        meeting.arrive(participant, clock);
        // The participants of this process may have left already, if none of them waits for this
        // arrival.
        if meeting.is_over() {
            state.meetings.remove(&key);
        }
    }

    /// Returns whether the arrival of a participant at a meeting was noted.
    pub(crate) fn has_arrived(&self, key: ArrivalKey, participant: usize) -> bool {
        let state = lock(&self.state);
        let meeting = state.meetings.get(&key);
        meeting.is_some_and(|it| it.arrivals.get(participant).is_some_and(Option::is_some))
    }

    /// Removes the meetings of a communicator that has ended.
    pub(crate) fn forget_meetings(&self, comm: u64) {
        let mut state = lock(&self.state);
        state.meetings.retain(|key, _| key.0 != comm);
    }
}

impl CheckerState {
    fn told_at(&self, own: u64, at: ClockPoint) -> ToldClock {
        let clock = self.clock_at(at);
        clock.iter().map(|(component, time)| (self.foreign.name(own, component), time)).collect()
    }

    fn clock_of(&mut self, own: u64, told: &ToldClock) -> Clock {
        let mut clock = Clock::default();
        for (name, time) in told {
            clock.raise(ClockPoint { component: self.foreign.number(own, *name), time: *time });
        }
        clock
    }

    /// Converts a reported operation of another process to a step and an operation of this checker.
    /// Also notes the reported clock of that step.
    fn hear(
        &mut self,
        own: u64,
        told: &ToldOperation,
        touches: Vec<Touch>,
        process: u32,
    ) -> (ClockPoint, Arc<CheckedOperation>) {
        let component = self.foreign.number(own, told.component);
        let at = ClockPoint { component, time: told.time };
        let known = self.clock_of(own, &told.known);
        self.learn(at, &known);
        let operation = CheckedOperation {
            what: told.what.clone(),
            place: told.place.clone(),
            process: Some(process),
            member: told.member.clone(),
            issued: told.issued.clone(),
            touches,
        };
        (at, Arc::new(operation))
    }
}

impl From<Mode> for ToldMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Read => Self::Read,
            Mode::Write => Self::Write,
            Mode::Reduce(kind) => Self::Reduce(kind),
        }
    }
}

impl From<ToldMode> for Mode {
    fn from(mode: ToldMode) -> Self {
        match mode {
            ToldMode::Read => Self::Read,
            ToldMode::Write => Self::Write,
            ToldMode::Reduce(kind) => Self::Reduce(kind),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn point(component: u32, time: u64) -> ClockPoint {
        ClockPoint { component: ClockComponent(component), time }
    }

    fn operation(what: &str, touches: Vec<Touch>) -> Arc<CheckedOperation> {
        Arc::new(CheckedOperation {
            what: what.into(),
            place: "stream".into(),
            process: None,
            member: None,
            issued: "a test".into(),
            touches,
        })
    }

    fn write_of(other: &Checker, at: ClockPoint) -> ToldOperation {
        other.tell(at, &operation("write", Vec::new()), Vec::new())
    }

    fn writes(own: &Checker, told: &ToldOperation) {
        own.touched_by_other(told, vec![Touch::write(4096, 64)], 7);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks whether standard error takes a line, which Miri cannot")]
    fn a_write_of_another_process_races_with_what_it_does_not_know() {
        let (own, other) = (Checker::default(), Checker::default());
        own.allocated(4096..8192, "memory", true);
        own.begin(point(1, 1), &operation("read", vec![Touch::read(4096, 64)]), Apart::None);
        writes(&own, &write_of(&other, point(1, 1)));
        assert_eq!(own.count(), 1);
    }

    #[test]
    fn a_write_of_another_process_follows_what_it_was_told() {
        let (own, other) = (Checker::default(), Checker::default());
        own.allocated(4096..8192, "memory", true);
        own.begin(point(1, 1), &operation("read", vec![Touch::read(4096, 64)]), Apart::None);
        other.arrived_abroad((1, 0, 1), 0, 2, &own.told(point(1, 1)));
        other.arrive((1, 0, 1), 1, (2, 1, 2), point(1, 1));
        other.leave((1, 0, 1), Sees::All, point(1, 1));
        writes(&own, &write_of(&other, point(1, 2)));
        assert_eq!(own.count(), 0);
        assert!(lock(&other.state).meetings.is_empty());
    }

    #[test]
    fn a_meeting_is_over_when_all_have_left_and_all_arrivals_are_told_in_whatever_order() {
        let (own, other) = (Checker::default(), Checker::default());
        let known = other.told(point(1, 1));
        let meets = |number, leaves_first: bool| {
            let key = (1, 0, number);
            own.arrive(key, 1, (2, 1, 2), point(1, number));
            if leaves_first {
                own.leave(key, Sees::Nobody, point(1, number));
            }
            own.arrived_abroad(key, 0, 2, &known);
            if !leaves_first {
                assert!(own.has_arrived(key, 0));
                own.leave(key, Sees::All, point(1, number));
            }
        };
        // The messages of the second meeting arrive first.
        meets(2, true);
        meets(1, false);
        assert!(lock(&own.state).meetings.is_empty());
    }

    #[test]
    fn a_write_of_another_process_may_be_told_after_what_follows_it() {
        let (own, other) = (Checker::default(), Checker::default());
        own.allocated(4096..8192, "memory", true);
        let write = write_of(&other, point(1, 1));
        // A third process has reported earlier that the write is over.
        own.arrived_abroad((1, 0, 1), 0, 2, &other.told(point(1, 1)));
        own.arrive((1, 0, 1), 1, (2, 1, 2), point(3, 1));
        own.leave((1, 0, 1), Sees::All, point(3, 1));
        own.begin(point(3, 2), &operation("read", vec![Touch::read(4096, 64)]), Apart::None);
        writes(&own, &write);
        assert_eq!(own.count(), 0);
    }
}
