//! Reuse: the memory of an allocation becomes another allocation as it is.

use super::super::shadow;
use super::{Allocation, MemoryPool};
use std::sync::atomic::Ordering;

impl MemoryPool {
    /// Ends the allocation that begins at `start`, by the function `by`. From now on its memory
    /// belongs to a new one of `size` bytes, by `entry`: the caller knows that work queued for the
    /// old one comes first. Returns false if there is no allocation there, or a smaller one.
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
        // Work queued for the old one may still touch all of its bytes.
        shadow::taken(start, size.max(old.size), old.reserved);
        state.next_number += 1;
        let number = state.next_number;
        state.live.insert(start, Allocation { number, size, entry, ..old });
        true
    }
}
