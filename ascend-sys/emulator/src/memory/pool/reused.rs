//! Reuse: the memory of an allocation becomes that of another allocation, without a free between
//! them.

use super::super::shadow;
use super::{Allocation, MemoryPool};
use std::sync::atomic::Ordering;

impl MemoryPool {
    /// Ends the allocation that begins at `start`, by the function `by`. From now on, its memory
    /// belongs to a new allocation of `size` bytes, made by `entry`. The caller guarantees that
    /// work queued for the old allocation comes first. Returns false if no allocation begins there,
    /// or if it is smaller.
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
        // Work queued for the old allocation may still touch all of its bytes.
        shadow::taken(start, size.max(old.size), old.reserved);
        state.next_number += 1;
        let number = state.next_number;
        state.live.insert(start, Allocation { number, size, entry, ..old });
        true
    }
}
