//! Memory of the program that is registered with the backend: its whole pages, and the ends that
//! share a page with other memory.
//!
//! CANN registers whole pages of 4 KiB. But memory of a program seldom begins and ends at a page
//! boundary. For example, a large `Vec` of the GNU allocator begins 16 bytes after a boundary. So
//! only the whole pages inside the memory are registered (the *middle*). The rest, less than a page
//! at either end, has a copy in pinned memory (the *ends*). A device accesses the bytes of the
//! middle in place, and all other bytes in the ends.
//!
//! For each byte outside the middle, a [note](super::newer) says which copy is newer:
//!
//! * [`Newer::Program`]: the copy in the ends is out of date. Nothing uses it.
//! * [`Newer::Neither`]: the copies are equal.
//! * [`Newer::Device`]: a device has written or will write the ends.
//!
//! 1. Before a device reads bytes, the bytes with the note `Program` are copied to the ends, and
//!    their note becomes `Neither`. The program does not write them meanwhile, since the operation
//!    has borrowed them.
//! 2. When an operation that writes bytes has been enqueued, their note becomes `Device`. The
//!    operation has the only borrow.
//! 3. Before the program reads bytes, it waits until no device writes them. Then the bytes with the
//!    note `Device` are copied to the program's memory, and their note becomes `Neither`. No
//!    reference to these bytes exists, because the write had the only borrow, and every later
//!    reader first makes this copy under the lock.
//! 4. Before the program writes bytes, it also waits until no device reads them. Then their note
//!    becomes `Program`.

use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::Mutex;

use super::newer::{Newer, Notes};
use crate::api::Table;
use crate::error::Result;
use crate::sync::{contain, lock};

/// The size in bytes of the pages that CANN registers.
pub(super) const PAGE: usize = 4096;

/// One registration of memory of the program; see the [module](self).
pub(super) struct Registration {
    /// The program's memory.
    start: *mut c_void,
    /// The range of the registered pages, in bytes from `start`. Empty if there are none.
    middle: Range<usize>,
    /// Pinned memory for the bytes before the middle, followed by the bytes after it. Null if the
    /// middle covers all bytes.
    ends: *mut c_void,
    newer: Mutex<Notes>,
    /// Keeps the program's memory alive.
    owner: Option<Box<dyn Any + Send>>,
}

impl Registration {
    /// Registers memory. Some context of the runtime must be current.
    ///
    /// # Safety
    /// Until the registration is [closed](Self::close), the memory stays where it is and is valid
    /// for reads, and also for writes if a device is to write it.
    pub(super) unsafe fn new(table: &Table, start: *mut c_void, bytes: usize) -> Result<Self> {
        let middle = whole_pages(start.addr(), bytes);
        let outside = bytes - middle.len();
        let ends = if outside == 0 { ptr::null_mut() } else { table.malloc_host(outside)? };
        let newer = Mutex::new(Notes::new(outside, Newer::Program));
        let mut registration =
            Registration { start, middle: middle.start..middle.start, ends, newer, owner: None };
        if !ends.is_null() {
            // Initialised, because a failed copy leaves unspecified bytes there.
            // SAFETY: it was just allocated with as many bytes.
            unsafe { ptr::write_bytes(ends.cast::<u8>(), 0, outside) };
        }
        if !middle.is_empty() {
            let first = start.wrapping_byte_add(middle.start);
            // SAFETY: the caller keeps the same contract, and the pages lie inside the memory.
            if let Err(error) = unsafe { table.register_host(first, middle.len()) } {
                let _ = registration.close(table);
                return Err(error);
            }
            registration.middle = middle;
        }
        Ok(registration)
    }

    pub(super) fn keep(&mut self, owner: Box<dyn Any + Send>) {
        self.owner = Some(owner);
    }

    /// Unregisters the pages and frees the ends. After an error nothing has changed, and the caller
    /// may try again.
    pub(super) fn close(&mut self, table: &Table) -> Result<()> {
        if !self.middle.is_empty() {
            let first = self.start.wrapping_byte_add(self.middle.start);
            // SAFETY: it was registered with this address. The caller has checked that nothing uses
            // it.
            unsafe { table.unregister_host(first) }?;
            self.middle.end = self.middle.start;
        }
        if !self.ends.is_null() {
            let ends = std::mem::replace(&mut self.ends, ptr::null_mut());
            // The pages are no longer registered, so the registration is over even if this fails.
            // SAFETY: `ends` came from `malloc_host`, nothing uses it, and `self.ends` is null now.
            if let Err(error) = unsafe { table.free_host(ends) } {
                tracing::warn!("pinned memory could not be freed: {error}");
            }
        }
        Ok(())
    }

    /// Leaves the pages registered for good and forgets them.
    pub(super) fn abandon(&mut self) {
        self.middle.end = self.middle.start;
    }

    /// Takes the owner that has kept the memory alive.
    pub(super) fn take_owner(&mut self) -> Option<Box<dyn Any + Send>> {
        self.owner.take()
    }

    /// Returns the address at which a device accesses byte `at`, and the number of contiguous bytes
    /// from there on. After the middle that number is `usize::MAX`, and the caller must limit it.
    pub(super) fn piece(&self, at: usize) -> (*mut c_void, usize) {
        let Range { start, end } = self.middle;
        if at < start {
            (self.ends.wrapping_byte_add(at), start - at)
        } else if at < end {
            (self.start.wrapping_byte_add(at), end - at)
        } else {
            (self.ends.wrapping_byte_add(at - (end - start)), usize::MAX)
        }
    }

    /// Returns the part of `range` that lies in registered pages.
    pub(super) fn within_pages(&self, range: &Range<usize>) -> Range<usize> {
        range.start.max(self.middle.start)..range.end.min(self.middle.end)
    }

    /// Applies rule 1. Calls `touches` with the pinned bytes that the host writes.
    pub(super) fn before_device_reads(
        &self,
        range: &Range<usize>,
        mut touches: impl FnMut(*mut c_void, usize, bool),
    ) {
        self.settle(range, Newer::Program, |program, end, bytes| {
            touches(end, bytes, true);
            // SAFETY: both places have `bytes` bytes. The operation has borrowed the program's
            // bytes, so nobody writes them. Nothing uses bytes of the ends that are out of date.
            unsafe { ptr::copy_nonoverlapping(program.cast::<u8>(), end.cast(), bytes) }
        });
    }

    /// Applies rule 2.
    pub(super) fn device_writes(&self, range: &Range<usize>) {
        self.set(range, Newer::Device);
    }

    /// Applies rule 3, after the wait. Calls `touches` with the pinned bytes that the host reads.
    pub(super) fn before_program_reads(
        &self,
        range: &Range<usize>,
        mut touches: impl FnMut(*mut c_void, usize, bool),
    ) {
        self.settle(range, Newer::Device, |program, end, bytes| {
            touches(end, bytes, false);
            // SAFETY: both places have `bytes` bytes. No device writes the ends any more, and
            // nobody has a reference to the program's bytes (rule 3 of the module).
            unsafe { ptr::copy_nonoverlapping(end.cast::<u8>(), program.cast(), bytes) }
        });
    }

    /// Applies rule 4, after rule 3.
    pub(super) fn program_writes(&self, range: &Range<usize>) {
        self.set(range, Newer::Program);
    }

    /// Returns the parts of a range before and after the middle: for each part, its start in the
    /// memory and its range in the ends.
    fn outside(&self, range: &Range<usize>) -> [(usize, Range<usize>); 2] {
        let Range { start, end } = self.middle;
        let before = range.start.min(start)..range.end.min(start);
        let behind = range.start.max(end)..range.end.max(end);
        let shift = end - start;
        [(before.start, before), (behind.start, behind.start - shift..behind.end - shift)]
    }

    fn set(&self, range: &Range<usize>, newer: Newer) {
        if self.ends.is_null() {
            return;
        }
        let mut notes = lock(&self.newer);
        for (_, places) in self.outside(range) {
            notes.set(places, newer);
        }
    }

    /// Calls `copy` with each piece of `range` whose note is `newer`. Then sets the note of these
    /// bytes to `Neither`.
    fn settle(
        &self,
        range: &Range<usize>,
        newer: Newer,
        mut copy: impl FnMut(*mut c_void, *mut c_void, usize),
    ) {
        if self.ends.is_null() {
            return;
        }
        let mut notes = lock(&self.newer);
        for (at, places) in self.outside(range) {
            while let Some(run) = notes.first(&places, newer) {
                let program = self.start.wrapping_byte_add(at + (run.start - places.start));
                copy(program, self.ends.wrapping_byte_add(run.start), run.len());
                notes.set(run, Newer::Neither);
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.middle.is_empty() {
            // The pages are still registered, so a device may still access them. The memory is
            // leaked.
            std::mem::forget(self.owner.take());
        }
        // The drop of the owner is code of the program, which may panic.
        let owner = self.owner.take();
        contain(|| drop(owner));
    }
}

/// Returns the range of the whole pages inside some memory, in bytes from its start. The range is
/// empty if there are none.
fn whole_pages(address: usize, bytes: usize) -> Range<usize> {
    let first = address.wrapping_neg() % PAGE;
    if first >= bytes {
        return bytes..bytes;
    }
    first..first + (bytes - first) / PAGE * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_lie_inside() {
        for (address, bytes, expected) in [
            (0, 0, 0..0),
            (0, 4096, 0..4096),
            (0, 8191, 0..4096),
            (16, 4096, 4096..4096),
            (16, 4080, 4080..4080),
            (16, 8175, 4080..4080),
            (16, 8176, 4080..8176),
            (4095, 4097, 1..4097),
            (1, 100, 100..100),
            (usize::MAX - 4095, 4096, 0..4096),
        ] {
            let pages = whole_pages(address, bytes);
            let both_empty = pages.is_empty() && expected.is_empty();
            assert!(pages == expected || both_empty, "{bytes} bytes at {address}: {pages:?}");
            assert!(pages.end <= bytes, "{bytes} bytes at {address}: {pages:?}");
        }
    }
}
