//! Host memory that the device reaches at any time: that of `aclrtMallocHost`, and registered
//! memory.

use crate::check;
use crate::executor;
use crate::memory::pool::{HeldRange, OutOfMemory};
use crate::memory::{self, MemoryPlace};
use crate::stream::{STREAMS, unfinished_on};
use std::ops::Range;

/// Allocates `size` bytes for the function `by`. `device` is a device that will use them.
pub(crate) fn allocate(device: u32, size: usize, by: &'static str) -> Result<usize, OutOfMemory> {
    let address = memory::host_pool().allocate(size, size, by)?;
    check::allocated(device, memory::host_pool(), address, true);
    Ok(address)
}

/// Ends an allocation. Its bytes are reused when all work that is queued now is complete, and no
/// other process reaches them.
pub(crate) fn free(address: usize, by: &'static str, held: &[HeldRange]) -> Result<(), String> {
    check::freed(None, address, by);
    memory::host_pool().free_held(address, by, || unfinished_on(0..u32::MAX), held)
}

/// Registers memory of the program's own. Returns false if it is not pageable memory, for example
/// because it is already registered.
pub(crate) fn register(address: usize, size: usize) -> bool {
    let fresh = memory::place_of(address) == Ok(MemoryPlace::Pageable)
        && memory::register_host(address, size);
    if fresh {
        check::registered(address, size);
    }
    fresh
}

/// Ends a registration: the memory belongs to the program alone again. First waits for the queued
/// tasks that touch the memory. Does not wait for other tasks, because they may wait for a call
/// that the calling thread makes next. Returns false if another thread has ended the registration
/// before.
pub(crate) fn unregister(memory: &Range<usize>, by: &'static str) -> bool {
    for stream in STREAMS.all().filter(|stream| !stream.queue.is_idle()) {
        executor::wait_for_users(stream, memory);
    }
    check::unregistered(memory.start, by);
    memory::unregister_host(memory.start)
}
