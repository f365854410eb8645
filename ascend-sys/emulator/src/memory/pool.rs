//! The allocations of one device, or of pinned host memory: the owner of each byte, and the time at
//! which freed bytes can be reused.
//!
//! A pool never touches the memory itself. A free ends the allocation at once, as `aclrtFree` does.
//! But another allocation gets the bytes only when everything that was queued at that moment is
//! complete. So a queued task never touches memory of another allocation. A caller that waits
//! between the lookup and the enqueueing looks up again (see `held`). Freed pages stay populated
//! and are allocated again, best fit first.

pub(crate) mod outside;
mod reused;

use super::shadow;
use crate::progress::{QueuePoint, are_complete};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// The alignment of every allocation, in bytes.
const ALIGNMENT: usize = 64;
/// The alignment of allocations of at least this many bytes. Other processes can import only whole
/// pages.
pub(crate) const PAGE: usize = 4096;
/// The number of freed allocations that the pool keeps for messages.
const REMEMBERED: usize = 256;

pub(crate) struct MemoryPool {
    /// Changes whenever an allocation ends, because earlier lookups are then no longer certain.
    epoch: AtomicU64,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// The name for messages: "device 3", "pinned host memory".
    name: String,
    /// All addresses of the pool.
    addresses: Range<usize>,
    /// The number of bytes that may be charged in total.
    limit: u64,
    charged: u64,
    free: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
    live: BTreeMap<usize, Allocation>,
    limbo: Vec<Limbo>,
    freed: VecDeque<Freed>,
    next_number: u64,
}

#[derive(Clone, Copy)]
struct Allocation {
    number: u64,
    size: usize,
    reserved: usize,
    charged: u64,
    entry: &'static str,
    /// The process that has the memory; 0 means this process.
    process: u32,
    /// Whether it is in a reserved range of addresses, outside of the pool's own.
    is_mapped: bool,
}

struct Limbo {
    start: usize,
    reserved: usize,
    until: Vec<QueuePoint>,
    holds: Vec<Weak<()>>,
    /// The number of bytes that stay charged until another process releases them.
    charged: u64,
}

/// Bytes that another process may still reach. They are not reused before the hold is dropped.
pub(crate) struct HeldRange {
    pub(crate) bytes: Range<usize>,
    pub(crate) hold: Weak<()>,
}

struct Freed {
    start: usize,
    allocation: Allocation,
    by: &'static str,
}

/// The error of an allocation that does not fit, with the free bytes and all bytes of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

impl MemoryPool {
    pub(crate) fn new() -> MemoryPool {
        MemoryPool { epoch: AtomicU64::new(0), state: Mutex::new(PoolState::default()) }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resets the pool to an address range without allocations.
    pub(crate) fn open(&self, name: String, start: usize, bytes: usize, limit: u64) {
        let mut state = self.state();
        let next_number = state.next_number;
        let addresses = start..start + bytes;
        *state = PoolState { name, addresses, limit, next_number, ..PoolState::default() };
        if bytes > 0 {
            state.give(start, bytes);
        }
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// Adds free addresses to the pool.
    pub(crate) fn extend(&self, addresses: Range<usize>) {
        self.state().give(addresses.start, addresses.len());
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Allocates `size` bytes, and counts `charged` bytes against the limit. Returns the address.
    /// `entry` is the name of the call, for messages.
    pub(crate) fn allocate(
        &self,
        size: usize,
        charged: usize,
        entry: &'static str,
    ) -> Result<usize, OutOfMemory> {
        let mut state = self.state();
        state.settle();
        let oom =
            OutOfMemory { free: state.limit - state.charged.min(state.limit), total: state.limit };
        let charged = charged as u64;
        let alignment = if size < PAGE { ALIGNMENT } else { PAGE };
        let reserved = size.checked_next_multiple_of(ALIGNMENT).ok_or(oom)?;
        if state.charged.checked_add(charged).is_none_or(|sum| sum > state.limit) {
            return Err(oom);
        }
        let fits = |&&(length, start): &&(usize, usize)| {
            length - reserved >= start.next_multiple_of(alignment) - start
        };
        let &(length, free) = state.by_size.range((reserved, 0)..).find(fits).ok_or(oom)?;
        let start = free.next_multiple_of(alignment);
        state.take(free, length);
        if start > free {
            state.give(free, start - free);
        }
        let (end, free_end) = (start + reserved, free + length);
        if free_end > end {
            state.give(end, free_end - end);
        }
        state.next_number += 1;
        let number = state.next_number;
        state.charged += charged;
        shadow::taken(start, size, reserved);
        let new =
            Allocation { number, size, reserved, charged, entry, process: 0, is_mapped: false };
        state.live.insert(start, new);
        Ok(start)
    }

    /// Ends the allocation that begins at `start`. Its bytes are reused when `until` is complete.
    pub(crate) fn free(
        &self,
        start: usize,
        by: &'static str,
        until: impl FnOnce() -> Vec<QueuePoint>,
    ) -> Result<(), String> {
        self.free_held(start, by, until, &[])
    }

    /// Does the same as [`free`](Self::free), but `held` are bytes that other processes may still
    /// reach. They are reused only when these processes have released them.
    pub(crate) fn free_held(
        &self,
        start: usize,
        by: &'static str,
        until: impl FnOnce() -> Vec<QueuePoint>,
        held: &[HeldRange],
    ) -> Result<(), String> {
        self.state().end(start, by, until, held, &self.epoch)
    }

    /// Ends the allocation with this number, unless it has ended before. If it has ended, `start`
    /// may belong to another allocation now.
    pub(crate) fn free_numbered(
        &self,
        (start, number): (usize, u64),
        by: &'static str,
        until: impl FnOnce() -> Vec<QueuePoint>,
    ) {
        let mut state = self.state();
        if state.live.get(&start).is_some_and(|allocation| allocation.number == number) {
            // The allocation exists, so there is no error.
            let _ = state.end(start, by, until, &[], &self.epoch);
        }
    }

    /// Ends every allocation.
    pub(crate) fn free_all(
        &self,
        by: &'static str,
        until: impl Fn() -> Vec<QueuePoint>,
        held: &[HeldRange],
    ) {
        let starts: Vec<usize> = self.state().live.keys().copied().collect();
        for start in starts {
            // Another thread may have freed it in between.
            let _ = self.state().end(start, by, &until, held, &self.epoch);
        }
    }

    /// Returns whether another process may still reach memory that was freed.
    pub(crate) fn is_held(&self) -> bool {
        let state = self.state();
        let mut holds = state.limbo.iter().flat_map(|limbo| &limbo.holds);
        holds.any(|hold| hold.strong_count() > 0)
    }

    /// Returns the allocation that contains all `length` bytes at `address`, as (start, end). If it
    /// is mapped, the mapped allocations that follow it without a gap belong to it. The error says
    /// what is wrong with the address.
    pub(crate) fn find(&self, address: usize, length: usize) -> Result<(usize, usize), String> {
        let state = self.state();
        match state.holding(address, length) {
            Some((start, allocation)) => Ok((start, state.end_of(start, allocation))),
            None => Err(state.complain(address, length)),
        }
    }

    /// Returns the allocation that contains an address, without adjacent mapped allocations, as
    /// (start, end). The error says what is wrong with the address.
    pub(crate) fn bounds_of(&self, address: usize) -> Result<(usize, usize), String> {
        let state = self.state();
        match state.holding(address, 1) {
            Some((start, allocation)) => Ok((start, start + allocation.size)),
            None => Err(state.complain(address, 1)),
        }
    }

    /// Returns the number of the allocation that contains all `length` bytes at `address`. Each
    /// allocation has its own number, which is not used again.
    pub(crate) fn number_of(&self, address: usize, length: usize) -> Result<u64, String> {
        let state = self.state();
        match state.holding(address, length) {
            Some((_, allocation)) => Ok(allocation.number),
            None => Err(state.complain(address, length)),
        }
    }

    /// Returns an error if the allocation with this number no longer contains these bytes. The
    /// error says what happened to the allocation.
    pub(crate) fn is_still(
        &self,
        number: u64,
        address: usize,
        length: usize,
    ) -> Result<(), String> {
        let state = self.state();
        match state.holding(address, length) {
            Some((_, allocation)) if allocation.number == number => return Ok(()),
            _ => {}
        }
        match state.freed.iter().rev().find(|freed| freed.allocation.number == number) {
            Some(freed) => Err(format!(
                "{address:#x} pointed into {}, which was freed by {}; free it after its last use",
                state.describe(&freed.allocation),
                freed.by
            )),
            None => Err(format!(
                "{address:#x} pointed into allocation #{number} of {}, which is gone; free it \
                 after its last use",
                state.name
            )),
        }
    }

    /// Returns the name, for messages, of the allocation that begins at `start`, and its size.
    pub(crate) fn name_of(&self, start: usize) -> Option<(String, usize)> {
        let state = self.state();
        state.live.get(&start).map(|allocation| (state.describe(allocation), allocation.size))
    }

    /// Returns the call that made the allocation which begins at `start`.
    pub(crate) fn entry_of(&self, start: usize) -> Option<&'static str> {
        self.state().live.get(&start).map(|allocation| allocation.entry)
    }

    /// Returns all addresses of the pool, used or not.
    pub(crate) fn addresses(&self) -> Range<usize> {
        self.state().addresses.clone()
    }

    /// Returns the number of free bytes, and the number of bytes of the limit.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let state = self.state();
        (state.limit - state.charged.min(state.limit), state.limit)
    }
}

impl PoolState {
    /// Adds a free range, joined with its neighbours.
    fn give(&mut self, mut start: usize, mut length: usize) {
        if let Some((&before, &size)) = self.free.range(..start).next_back()
            && before + size == start
        {
            self.take(before, size);
            (start, length) = (before, length + size);
        }
        if let Some(&size) = self.free.get(&(start + length)) {
            self.take(start + length, size);
            length += size;
        }
        self.free.insert(start, length);
        self.by_size.insert((length, start));
    }

    fn take(&mut self, start: usize, length: usize) {
        self.free.remove(&start);
        self.by_size.remove(&(length, start));
    }

    /// Records an allocation that has ended, for messages.
    fn remember(&mut self, start: usize, allocation: Allocation, by: &'static str) {
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back(Freed { start, allocation, by });
    }

    /// Returns the allocation that contains all of these bytes, and its start.
    fn holding(&self, address: usize, length: usize) -> Option<(usize, &Allocation)> {
        let (&start, allocation) = self.live.range(..=address).next_back()?;
        let end = start + allocation.size;
        let is_inside = address < end
            && (length <= end - address
                || allocation.is_mapped && length <= self.end_of(start, allocation) - address);
        is_inside.then_some((start, allocation))
    }

    /// Ends the allocation that begins at `start`. Its bytes are reused when `until` is complete
    /// and each hold of them is dropped.
    fn end(
        &mut self,
        start: usize,
        by: &'static str,
        until: impl FnOnce() -> Vec<QueuePoint>,
        held: &[HeldRange],
        epoch: &AtomicU64,
    ) -> Result<(), String> {
        let is_own = |known: &Allocation| known.process == 0 && !known.is_mapped;
        let own = self.live.get(&start).is_none_or(is_own);
        let Some(allocation) = own.then(|| self.live.remove(&start)).flatten() else {
            return Err(self.complain_free(start));
        };
        // The allocation ends before the unfinished work is listed, so that work that is queued
        // later fails its lookup.
        epoch.fetch_add(1, Ordering::Release);
        self.remember(start, allocation, by);
        let (until, end) = (until(), start + allocation.reserved);
        let overlaps = |one: &&HeldRange| one.bytes.start < end && start < one.bytes.end;
        let holds: Vec<_> = held.iter().filter(overlaps).map(|one| one.hold.clone()).collect();
        let charged = if holds.is_empty() { 0 } else { allocation.charged };
        self.charged -= allocation.charged - charged;
        if until.is_empty() && holds.is_empty() {
            shadow::free(start, allocation.reserved);
            self.give(start, allocation.reserved);
        } else {
            self.limbo.push(Limbo { start, reserved: allocation.reserved, until, holds, charged });
        }
        Ok(())
    }

    /// Makes freed memory available again that no queued work and no other process can touch any
    /// more.
    fn settle(&mut self) {
        let mut index = 0;
        while index < self.limbo.len() {
            let limbo = &mut self.limbo[index];
            limbo.holds.retain(|hold| hold.strong_count() > 0);
            if are_complete(&mut limbo.until) && limbo.holds.is_empty() {
                let done = self.limbo.swap_remove(index);
                self.charged -= done.charged;
                shadow::free(done.start, done.reserved);
                self.give(done.start, done.reserved);
            } else {
                index += 1;
            }
        }
    }

    fn complain(&self, address: usize, length: usize) -> String {
        if let Some((&start, a)) = self.live.range(..=address).next_back() {
            let end = self.end_of(start, a);
            if address < end {
                let over = length - (end - address);
                return format!(
                    "{address:#x} with {length} bytes reaches {} beyond the end of {}; \
                     use only bytes of the allocation",
                    in_bytes(over),
                    self.describe(a)
                );
            }
            // The address is so close that it can be an overrun of this allocation and of no other.
            if address - end < a.size.max(4096) && self.freed_at(address).is_none() {
                let behind = address - end;
                return format!(
                    "{address:#x} is {} beyond the end of {}; use only bytes of the \
                     allocation",
                    in_bytes(behind),
                    self.describe(a)
                );
            }
        }
        match self.freed_at(address) {
            Some(f) => format!(
                "{address:#x} points into {}, which was freed by {}; do not use it after that",
                self.describe(&f.allocation),
                f.by
            ),
            None => format!(
                "{address:#x} is in no allocation of {}; use an address of an allocation",
                self.name
            ),
        }
    }

    fn complain_free(&self, address: usize) -> String {
        match self.live.range(..=address).next_back() {
            Some((&start, a)) if start == address && a.process != 0 && !a.is_mapped => {
                let what = match a.entry {
                    "aclrtIpcMemImportByKey" => "aclrtIpcMemClose with its key ends the import",
                    _ => "only that process can free it",
                };
                format!("{address:#x} is {}; {what}", self.describe(a))
            }
            Some((&start, a)) if start == address && a.is_mapped => {
                format!("{address:#x} is {}; aclrtUnmapMem ends it", self.describe(a))
            }
            Some((&start, a)) if address < start + a.size => format!(
                "{address:#x} is {} inside {}; free it by its first address, {start:#x}",
                in_bytes(address - start),
                self.describe(a)
            ),
            _ => self.complain(address, 1),
        }
    }

    fn freed_at(&self, address: usize) -> Option<&Freed> {
        self.freed.iter().rev().find(|f| address.wrapping_sub(f.start) < f.allocation.size)
    }

    fn describe(&self, a: &Allocation) -> String {
        let Allocation { number, size, entry, process, .. } = *a;
        let whose = if process == 0 { String::new() } else { format!(" of process {process}") };
        let size = in_bytes(size);
        format!("allocation #{number} of {} ({size}{whose}, by {entry})", self.name)
    }
}

fn in_bytes(count: usize) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(bytes: usize) -> MemoryPool {
        let pool = MemoryPool::new();
        pool.open("device 3".into(), 0x10000, bytes, bytes as u64);
        pool
    }

    #[test]
    fn ranges_are_joined_again() {
        let pool = pool(4096);
        let a: Vec<_> = (0..4).map(|_| pool.allocate(1024, 1024, "aclrtMalloc").unwrap()).collect();
        assert!(pool.allocate(1, 1, "aclrtMalloc").is_err());
        for i in [1, 3, 0, 2] {
            pool.free(a[i], "aclrtFree", Vec::new).unwrap();
        }
        assert_eq!(pool.allocate(4096, 4096, "aclrtMalloc"), Ok(0x10000));
    }

    #[test]
    fn an_allocation_of_a_page_or_more_begins_with_a_page() {
        let pool = pool(64 << 10);
        let allocate = |bytes| pool.allocate(bytes, bytes, "aclrtMalloc").unwrap();
        let small = allocate(100);
        let large = allocate(PAGE);
        assert!(small == 0x10000 && large == 0x10000 + PAGE, "{small:#x} {large:#x}");
        assert_eq!(allocate(64), small + 128, "what is left before a page is not lost");
        let odd = allocate(PAGE + 1);
        assert_eq!(odd, large + PAGE);
        pool.free(large, "aclrtFree", Vec::new).unwrap();
        pool.free(small, "aclrtFree", Vec::new).unwrap();
        assert!(allocate(PAGE).is_multiple_of(PAGE));
        let most = 40 << 10;
        assert!(allocate(most).is_multiple_of(PAGE), "the largest piece that is free");
    }

    #[test]
    fn complaints_name_the_allocation() {
        let pool = pool(1 << 20);
        let a = pool.allocate(4096, 4096, "aclrtMalloc").unwrap();
        assert_eq!(pool.find(a + 96, 4000), Ok((a, a + 4096)));
        let over = pool.find(a + 96, 4001).unwrap_err();
        assert!(
            over.contains("reaches 1 byte beyond the end of allocation #1 of device 3 (4096 bytes"),
            "{over}"
        );
        let behind = pool.find(a + 4096 + 256, 1).unwrap_err();
        assert!(behind.contains("is 256 bytes beyond the end of allocation #1"), "{behind}");
        let inside = pool.free(a + 8, "aclrtFree", Vec::new).unwrap_err();
        assert!(inside.contains("is 8 bytes inside allocation #1"), "{inside}");
        pool.free(a, "aclrtFree", Vec::new).unwrap();
        let freed = pool.find(a + 8, 1).unwrap_err();
        assert!(
            freed.contains("allocation #1 of device 3") && freed.contains("freed by aclrtFree"),
            "{freed}"
        );
        let twice = pool.free(a, "aclrtFree", Vec::new).unwrap_err();
        assert!(twice.contains("freed by aclrtFree"), "{twice}");
    }
}
