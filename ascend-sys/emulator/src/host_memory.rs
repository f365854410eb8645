//! Host memory that the device reaches at any time: of `aclrtMallocHost`, or registered.

use crate::check;
use crate::executor;
use crate::memory::pool::OutOfMemory;
use crate::memory::{self, MemoryPlace};
use crate::stream::{unfinished, unfinished_on};

/// Takes `size` bytes for the function `by`, called with a device that will use them.
pub(crate) fn allocate(device: u32, size: usize, by: &'static str) -> Result<usize, OutOfMemory> {
    let address = memory::host_pool().allocate(size, size, by)?;
    check::allocated(device, memory::host_pool(), address, true);
    Ok(address)
}

/// Ends an allocation. Its bytes are reused when what is queued now is complete.
pub(crate) fn free(address: usize, by: &'static str) -> Result<(), String> {
    check::freed(None, address, by);
    memory::host_pool().free(address, by, || unfinished_on(0..u32::MAX))
}

/// Makes memory of the program's own known, unless it is known already.
pub(crate) fn register(address: usize, size: usize) -> bool {
    let fresh = memory::place_of(address) == Ok(MemoryPlace::Pageable)
        && memory::register_host(address, size);
    if fresh {
        check::registered(address, size);
    }
    fresh
}

/// Gives memory back to the program, to which it belongs: first waits for all that is queued. False
/// when nothing was registered there.
pub(crate) fn unregister(address: usize, by: &'static str) -> bool {
    for mark in unfinished() {
        if let Some(stream) = mark.stream() {
            executor::wait(stream, mark.ticket(), None);
        }
    }
    check::host_saw_everything();
    check::freed(None, address, by);
    memory::unregister_host(address)
}
