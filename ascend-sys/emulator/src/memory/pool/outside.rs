//! Allocations outside of the pool's own addresses. They are memory of other processes, or memory
//! that is allocated without an address. The latter counts against the limit of the pool from its
//! allocation on. When it is mapped at an address, it becomes an allocation at that address.

use super::{Allocation, MemoryPool, OutOfMemory, PoolState};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of mapped allocations. If there are none, callers need not search for one.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Returns whether any pool has a mapped allocation.
#[inline]
pub(crate) fn is_any_mapped() -> bool {
    MAPPED.load(Ordering::Relaxed) != 0
}

impl MemoryPool {
    /// Adopts memory of another process, which is outside of the pool's own addresses. It counts
    /// against no limit.
    pub(crate) fn adopt(&self, start: usize, size: usize, process: u32, entry: &'static str) {
        let mut state = self.state();
        state.next_number += 1;
        let number = state.next_number;
        let new =
            Allocation { number, size, reserved: 0, charged: 0, entry, process, is_mapped: false };
        state.live.insert(start, new);
    }

    /// Returns whether an address is in an allocation of another process.
    pub(crate) fn is_adopted(&self, address: usize) -> bool {
        self.state().holding(address, 1).is_some_and(|(_, allocation)| allocation.process != 0)
    }

    /// Ends an allocation of [`adopt`](Self::adopt).
    pub(crate) fn release(&self, start: usize, by: &'static str) {
        let mut state = self.state();
        if state.live.get(&start).is_some_and(|known| known.process != 0)
            && let Some(allocation) = state.live.remove(&start)
        {
            self.epoch.fetch_add(1, Ordering::Release);
            state.remember(start, allocation, by);
        }
    }

    /// Counts bytes that have no address yet against the limit.
    pub(crate) fn charge(&self, bytes: usize) -> Result<(), OutOfMemory> {
        let mut state = self.state();
        state.settle();
        let (charged, limit) = (state.charged, state.limit);
        match charged.checked_add(bytes as u64) {
            Some(sum) if sum <= limit => state.charged = sum,
            _ => return Err(OutOfMemory { free: limit - charged.min(limit), total: limit }),
        }
        Ok(())
    }

    /// Undoes a charge of [`charge`](Self::charge).
    pub(crate) fn uncharge(&self, bytes: usize) {
        let mut state = self.state();
        state.charged = state.charged.saturating_sub(bytes as u64);
    }

    /// Makes reserved addresses an allocation with memory of a process (0 means this process). This
    /// adds nothing to the bytes that count against the limit of the pool. Adjacent mapped
    /// allocations are used as one.
    pub(crate) fn map(&self, start: usize, size: usize, entry: &'static str, process: u32) {
        let mut state = self.state();
        state.next_number += 1;
        let number = state.next_number;
        let new =
            Allocation { number, size, reserved: 0, charged: 0, entry, process, is_mapped: true };
        state.live.insert(start, new);
        MAPPED.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends an allocation of [`map`](Self::map).
    pub(crate) fn unmap(&self, start: usize, by: &'static str) {
        let mut state = self.state();
        if state.live.get(&start).is_some_and(|known| known.is_mapped)
            && let Some(allocation) = state.live.remove(&start)
        {
            self.epoch.fetch_add(1, Ordering::Release);
            MAPPED.fetch_sub(1, Ordering::Relaxed);
            state.remember(start, allocation, by);
        }
    }

    /// Returns whether an address is in an allocation outside of the pool's own addresses: memory
    /// of another process, or a mapped allocation.
    pub(crate) fn is_outside(&self, address: usize) -> bool {
        let state = self.state();
        let found = state.holding(address, 1);
        found.is_some_and(|(_, allocation)| allocation.process != 0 || allocation.is_mapped)
    }
}

impl PoolState {
    /// Returns the end of the bytes that begin with an allocation. Adjacent mapped allocations
    /// belong to them.
    pub(super) fn end_of(&self, start: usize, allocation: &Allocation) -> usize {
        let mut end = start + allocation.size;
        if allocation.is_mapped {
            while let Some(next) = self.live.get(&end).filter(|next| next.is_mapped) {
                end += next.size;
            }
        }
        end
    }
}
