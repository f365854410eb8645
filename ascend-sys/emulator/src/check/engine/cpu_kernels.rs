//! CPU kernels in the checker: they issue work of their own, and their writes are unseen.

use super::{Checker, Clock, ClockPoint, HOST, lock};

impl Checker {
    /// Returns the knowledge of a CPU kernel that begins when a point is passed. From now on reads
    /// of bytes that nobody wrote are not reported, since the kernel may have written them.
    pub(crate) fn kernel_begins(&self, before: ClockPoint) -> Clock {
        let mut state = lock(&self.state);
        state.kernels_write = true;
        state.clock_at(before)
    }

    /// The clock of a component when a point is passed.
    pub(crate) fn clock_at(&self, point: ClockPoint) -> Clock {
        lock(&self.state).clock_at(point)
    }

    /// The host knows what `clock` knows from now on.
    pub(crate) fn host_joins(&self, clock: &Clock) {
        let mut state = lock(&self.state);
        let time = state.host_time;
        state.learn(ClockPoint { component: HOST, time }, clock);
    }
}
