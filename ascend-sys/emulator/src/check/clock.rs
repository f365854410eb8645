//! Vector clocks: for each component, the steps that are known to be complete.
//!
//! A *component* is a sequence of ordered steps: a stream, or the host. The steps of a component
//! are numbered, and a [`ClockPoint`] is the end of a step. A [`Clock`] holds, for each component,
//! the last step that is certainly complete. Most clocks have entries for few components, so a
//! clock is a short sorted list.

/// A sequence of steps: a stream, or the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClockComponent(pub(crate) u32);

/// The end of a step of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockPoint {
    pub(crate) component: ClockComponent,
    pub(crate) time: u64,
}

/// A vector clock: for each component, the last step that is known to be complete. For a component
/// that is not in the list, no step is known to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    times: Vec<(ClockComponent, u64)>,
}

impl Clock {
    /// Returns the last step of a component that is known to be complete; 0 if there is none.
    pub(crate) fn get(&self, component: ClockComponent) -> u64 {
        self.times.binary_search_by_key(&component, |(l, _)| *l).map_or(0, |at| self.times[at].1)
    }

    /// Returns the components, each with its last complete step.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClockComponent, u64)> {
        self.times.iter().copied()
    }

    /// Returns whether a point is known to be passed.
    pub(crate) fn covers(&self, point: ClockPoint) -> bool {
        self.get(point.component) >= point.time
    }

    /// Notes that a point is passed.
    pub(crate) fn raise(&mut self, point: ClockPoint) {
        match self.times.binary_search_by_key(&point.component, |(l, _)| *l) {
            Ok(at) => self.times[at].1 = self.times[at].1.max(point.time),
            Err(at) => self.times.insert(at, (point.component, point.time)),
        }
    }

    /// Returns whether this clock contains everything that `other` contains.
    pub(crate) fn knows(&self, other: &Clock) -> bool {
        other.times.iter().all(|&(component, time)| self.get(component) >= time)
    }

    /// Adds everything that `other` contains.
    pub(crate) fn join(&mut self, other: &Clock) {
        let mine = std::mem::take(&mut self.times);
        self.times.reserve(mine.len().max(other.times.len()));
        let (mut a, mut b) = (mine.into_iter().peekable(), other.times.iter().copied().peekable());
        loop {
            let next = match (a.peek(), b.peek()) {
                (Some(x), Some(y)) if x.0 == y.0 => {
                    let next = (x.0, x.1.max(y.1));
                    a.next();
                    b.next();
                    next
                }
                (Some(x), Some(y)) if y.0 < x.0 => {
                    let next = *y;
                    b.next();
                    next
                }
                (Some(x), _) => {
                    let next = *x;
                    a.next();
                    next
                }
                (None, Some(y)) => {
                    let next = *y;
                    b.next();
                    next
                }
                (None, None) => return,
            };
            self.times.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(times: &[(u32, u64)]) -> Clock {
        let mut clock = Clock::default();
        times.iter().for_each(|&(component, time)| {
            clock.raise(ClockPoint { component: ClockComponent(component), time })
        });
        clock
    }

    #[test]
    fn a_join_is_the_maximum_of_every_lane() {
        let mut a = clock(&[(7, 3), (1, 9), (4, 2)]);
        let b = clock(&[(0, 5), (4, 8), (7, 1), (9, 1)]);
        assert!(!a.knows(&b) && !b.knows(&a));
        a.join(&b);
        assert_eq!(a, clock(&[(0, 5), (1, 9), (4, 8), (7, 3), (9, 1)]));
        assert!(a.knows(&b));
        let before = a.clone();
        a.join(&Clock::default());
        assert_eq!(a, before);
    }

    #[test]
    fn a_clock_covers_what_came_before() {
        let clock = clock(&[(2, 5)]);
        let point = |component, time| ClockPoint { component: ClockComponent(component), time };
        assert!(clock.covers(point(2, 5)) && clock.covers(point(2, 1)));
        assert!(!clock.covers(point(2, 6)) && !clock.covers(point(3, 1)));
    }
}
