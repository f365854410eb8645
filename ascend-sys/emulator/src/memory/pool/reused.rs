//! Memory of an allocation that becomes another allocation's as it is.

use super::super::shadow;
use super::{Allocation, MemoryPool};
use std::sync::atomic::Ordering;

impl MemoryPool {
    /// Ends the allocation that begins at `start`, by the function `by`. Its memory is that of a
    /// new one of `size` bytes from now on, by `entry`: the caller knows that what was queued for
    /// the old one comes first. False when there is no such allocation, or a smaller one.
    pub(crate) fn hand_over(
        &self,
        start: usize,
        size: usize,
        by: &'static str,
        entry: &'static str,
    ) -> bool {
        let mut state = self.state();
        let Some(old) = state.live.get(&start).copied().filter(|old| size <= old.reserved) else {
            return false;
        };
        self.epoch.fetch_add(1, Ordering::Release);
        state.remember(start, old, by);
        // What is queued for the old one may still touch all of its bytes.
        shadow::taken(start, size.max(old.size), old.reserved);
        state.next_number += 1;
        let number = state.next_number;
        state.live.insert(start, Allocation { number, size, entry, ..old });
        true
    }
}
