//! Signals. The component that takes a signal learns everything that the setting component knew
//! when it set the signal. It is a finding if a signal is set while it is set, or if it may be set
//! again before its last wait is over.

use super::*;

#[derive(Default)]
pub(super) struct CheckedSignal {
    clock: Arc<Clock>,
    /// The operation that has set the signal, as long as it is not taken, and its point.
    set: Option<(ClockPoint, Arc<CheckedOperation>)>,
    taken: Option<(ClockPoint, Arc<CheckedOperation>)>,
}

impl Checker {
    /// Notes that a signal is set. The component that takes it then knows that the steps of the
    /// setting component up to `at` are complete.
    pub(crate) fn set(
        &self,
        signal: u64,
        name: &str,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
    ) {
        self.telling(|state| state.set(signal, name, at, operation));
    }

    /// Notes that a signal is taken, and so is no longer set.
    pub(crate) fn take(&self, signal: u64, at: ClockPoint, operation: &Arc<CheckedOperation>) {
        lock(&self.state).take(signal, at, operation);
    }

    /// Notes that the host sets a signal.
    pub(crate) fn host_sets(&self, signal: u64, name: &str, operation: &Arc<CheckedOperation>) {
        self.telling(|state| {
            let at = state.host_step();
            state.set(signal, name, at, operation);
        });
    }

    /// Notes that the host takes a signal.
    pub(crate) fn host_takes(&self, signal: u64, operation: &Arc<CheckedOperation>) {
        let mut state = lock(&self.state);
        let at = state.host_step();
        state.take(signal, at, operation);
    }

    /// Resets a signal.
    pub(crate) fn clear(&self, signal: u64) {
        lock(&self.state).signals.remove(&signal);
    }
}

impl CheckerState {
    pub(super) fn set(
        &mut self,
        signal: u64,
        name: &str,
        at: ClockPoint,
        operation: &Arc<CheckedOperation>,
    ) {
        let clock = self.clock_at(at);
        let signal = self.signals.entry(signal).or_default();
        let before = signal.set.replace((at, operation.clone()));
        let unordered = match (&before, &signal.taken) {
            (Some((point, before)), _) => Some((FindingKind::SetTwice, before.clone(), *point)),
            (None, Some((point, taker))) if !clock.covers(*point) => {
                Some((FindingKind::SetEarly, taker.clone(), *point))
            }
            _ => None,
        };
        let knew = unordered.as_ref().map_or(0, |(_, _, point)| clock.get(point.component));
        signal.clock = Arc::new(clock);
        if let Some((kind, other, point)) = unordered {
            let verb = if kind == FindingKind::SetTwice { "set" } else { "wait" };
            let sides = vec![
                FindingSide::plain(verb, &other, point.time),
                FindingSide::plain("set", operation, at.time),
            ];
            let memory = name.into();
            self.found(Finding { kind, memory, size: 0, bytes: None, sides, knew });
        }
    }

    pub(super) fn take(&mut self, signal: u64, at: ClockPoint, operation: &Arc<CheckedOperation>) {
        let signal = self.signals.entry(signal).or_default();
        signal.set = None;
        signal.taken = Some((at, operation.clone()));
        let clock = signal.clock.clone();
        self.learn(at, &clock);
    }
}
