//! The shadow of memory: the allocations, and the accesses to each byte.
//!
//! [`ascend_operator::shadow`] stores the accesses and defines which accesses conflict.

use super::clock::{Clock, ClockPoint};
use crate::task::Touch;
pub(crate) use ascend_operator::shadow::{Found, Mode};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// An operation, as findings describe it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CheckedOperation {
    /// The description of the operation, for example "copy of 4096 bytes".
    pub(crate) what: String,
    /// The place where it ran, for example "stream 5 of device 2" or "the host".
    pub(crate) place: String,
    /// The process in which it ran, if that is another process.
    pub(crate) process: Option<u32>,
    /// Its number in its communicator, if it has one, for example `#3 of communicator "world", rank
    /// 1`.
    pub(crate) member: Option<String>,
    /// The call that issued it, for example `aclrtMemcpyAsync on thread "main"`.
    pub(crate) issued: String,
    /// All of its accesses.
    pub(crate) touches: Vec<Touch>,
}

/// An access that has begun. It is over when its point is passed.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) point: ClockPoint,
    pub(crate) mode: Mode,
    pub(crate) operation: Arc<CheckedOperation>,
}

/// The shadow of one allocation, or of another object that may have only one user at a time.
#[derive(Debug)]
pub(crate) struct Shadow {
    /// The name, for findings.
    pub(crate) name: Arc<str>,
    bytes: ascend_operator::shadow::Shadow<Access>,
    /// The access that freed the allocation.
    pub(crate) freed: Option<Access>,
    /// Whether it is a window of a kernel. For a window, only reads of unwritten bytes are checked.
    pub(crate) is_window: bool,
    /// Whether other processes may write it without a report, so that it is unknown whether a byte
    /// was written.
    pub(crate) is_lent: bool,
}

impl Shadow {
    /// Makes a shadow. With `written`, its bytes count as written.
    pub(crate) fn new(range: Range<usize>, name: Arc<str>, written: bool) -> Shadow {
        let bytes = ascend_operator::shadow::Shadow::new(range, written);
        Shadow { name, bytes, freed: None, is_window: false, is_lent: false }
    }

    /// Makes the shadow of a window that was not written yet.
    pub(crate) fn window(range: Range<usize>, name: Arc<str>) -> Shadow {
        Shadow { is_window: true, ..Shadow::new(range, name, false) }
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.bytes.range()
    }

    /// Notes an access to some of its bytes, by a component with the clock `clock`. Calls `found`
    /// for each error.
    pub(crate) fn access(
        &mut self,
        bytes: Range<usize>,
        access: &Access,
        clock: &Clock,
        mut found: impl FnMut(Found<Access>),
    ) {
        let (is_window, is_lent) = (self.is_window, self.is_lent);
        let is_before = |other: &Access| is_window || clock.covers(other.point);
        self.bytes.access(bytes, access.mode, access, is_before, |what| {
            if !(is_lent && matches!(what, Found::Unwritten { .. })) {
                found(what);
            }
        });
    }
}

/// The shadows of all allocations.
#[derive(Debug, Default)]
pub(crate) struct ShadowMemory {
    shadows: BTreeMap<usize, Shadow>,
}

impl ShadowMemory {
    /// Adds a new allocation, which replaces older ones that it overlaps.
    pub(crate) fn add(&mut self, shadow: Shadow) {
        self.forget(shadow.range());
        self.shadows.insert(shadow.range().start, shadow);
    }

    /// Removes the allocations that overlap a range.
    pub(crate) fn forget(&mut self, range: Range<usize>) {
        while let Some((&start, _)) = self
            .shadows
            .range(..range.end)
            .next_back()
            .filter(|(_, shadow)| shadow.range().end > range.start)
        {
            self.shadows.remove(&start);
        }
    }

    /// Returns the allocation that begins at `start` and is not freed.
    pub(crate) fn starting_at(&mut self, start: usize) -> Option<&mut Shadow> {
        self.shadows.get_mut(&start).filter(|shadow| shadow.freed.is_none())
    }

    /// Returns the allocation, freed or not, that contains a byte.
    pub(crate) fn holding(&mut self, byte: usize) -> Option<&mut Shadow> {
        let (_, shadow) = self.shadows.range_mut(..=byte).next_back()?;
        shadow.range().contains(&byte).then_some(shadow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_takes_the_place_of_what_was_there() {
        let mut memory = ShadowMemory::default();
        memory.add(Shadow::new(0..64, "a".into(), false));
        memory.add(Shadow::new(64..128, "b".into(), false));
        memory.add(Shadow::new(32..96, "c".into(), false));
        assert!(memory.holding(10).is_none() && memory.holding(100).is_none());
        assert_eq!(memory.holding(64).map(|shadow| shadow.name.to_string()), Some("c".into()));
        assert!(memory.starting_at(32).is_some() && memory.starting_at(33).is_none());
    }
}
