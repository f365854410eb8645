//! The system's allocator with counters. A test program that uses this crate has it as its global
//! allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Returns the number of allocations of this thread.
pub fn on_this_thread() -> u64 {
    OF_THREAD.get()
}

/// Returns the number of allocations of all threads together.
pub fn in_process() -> u64 {
    OF_PROCESS.load(Ordering::Relaxed)
}

/// Returns the number of allocations of the process that were not freed.
pub fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}
static OF_PROCESS: AtomicU64 = AtomicU64::new(0);
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator unchanged. The counters need no allocation:
// they are constants at first, and have no destructor. (Growing and zeroed allocations come to
// `alloc` by the trait's own methods.)
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        OF_THREAD.set(OF_THREAD.get() + 1);
        OF_PROCESS.fetch_add(1, Ordering::Relaxed);
        LIVE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is that of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above, so from the system's allocator, with this
        // layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}
