//! CPU kernels in the checker. They issue work, and the checker does not see their writes.

use super::{Checker, Clock, ClockPoint, HOST, lock};

impl Checker {
    /// Returns the clock of a CPU kernel that begins when a point is passed. From now on, reads of
    /// unwritten bytes are not reported, since the kernel may have written them.
    pub(crate) fn kernel_begins(&self, before: ClockPoint) -> Clock {
        let mut state = lock(&self.state);
        state.kernels_write = true;
        state.clock_at(before)
    }

    /// Returns the clock of everything that is known to be complete when a point is passed.
    pub(crate) fn clock_at(&self, point: ClockPoint) -> Clock {
        lock(&self.state).clock_at(point)
    }

    /// Notes that the host knows everything in `clock` from now on.
    pub(crate) fn host_joins(&self, clock: &Clock) {
        let mut state = lock(&self.state);
        let time = state.host_time;
        state.learn(ClockPoint { component: HOST, time }, clock);
    }
}
