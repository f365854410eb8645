//! Memory of the program, registered with the backend: its pages, and the ends that share a page
//! with other memory.
//!
//! CANN registers whole pages of 4 KiB, and memory of a program seldom begins and ends at one:
//! large `Vec`s of the GNU allocator begin 16 bytes behind. So the whole pages inside the memory
//! are registered (the *middle*), and the rest, less than a page at either end, has a copy in
//! pinned memory (the *ends*). A device reaches bytes of the middle where they are, and the others
//! in the ends.
//!
//! Of each byte outside the middle it is [noted](super::newer) which copy is newer:
//!
//! * [`Newer::Program`]: the copy in the ends is out of date. Nothing uses it.
//! * [`Newer::Neither`]: they are equal.
//! * [`Newer::Device`]: a device has written the ends, or will.
//!
//! 1. Before a device reads bytes, those of `Program` are copied to the ends and become `Neither`.
//!    They are not written by the program meanwhile, since the operation has borrowed them.
//! 2. When an operation that writes bytes has been enqueued, they become `Device`. It has the only
//!    borrow.
//! 3. Before the program reads bytes, it waits until no device writes them; then those of `Device`
//!    are copied to the program's memory and become `Neither`. Nobody has a reference to these: the
//!    write had the only borrow, and every later reader does this first, under the lock.
//! 4. Before the program writes bytes, it also waits until no device reads them; they become
//!    `Program`.

use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::Mutex;

use super::newer::{Newer, Notes};
use crate::api::Table;
use crate::error::Result;
use crate::sync::{contain, lock};

/// CANN registers whole pages of this size.
pub(super) const PAGE: usize = 4096;

/// See the [module](self).
pub(super) struct Registration {
    /// The program's memory.
    start: *mut c_void,
    /// The registered pages, in bytes from the start. Empty when there are none.
    middle: Range<usize>,
    /// Pinned memory for what lies before and behind the middle, one after the other. Null without
    /// any.
    ends: *mut c_void,
    newer: Mutex<Notes>,
    /// Keeps the program's memory alive.
    owner: Option<Box<dyn Any + Send>>,
}

impl Registration {
    /// Registers memory. Some context of the runtime must be current.
    ///
    /// # Safety
    /// The memory stays where it is, and is valid to read (and to write, if anything is to be
    /// written) until the registration is [closed](Self::close).
    pub(super) unsafe fn new(table: &Table, start: *mut c_void, bytes: usize) -> Result<Self> {
        let middle = whole_pages(start.addr(), bytes);
        let outside = bytes - middle.len();
        let ends = if outside == 0 { ptr::null_mut() } else { table.malloc_host(outside)? };
        let newer = Mutex::new(Notes::new(outside, Newer::Program));
        let mut registration =
            Registration { start, middle: middle.start..middle.start, ends, newer, owner: None };
        if !ends.is_null() {
            // A failed copy leaves unspecified bytes there, but they are initialised.
            // SAFETY: it was just allocated with as many bytes.
            unsafe { ptr::write_bytes(ends.cast::<u8>(), 0, outside) };
        }
        if !middle.is_empty() {
            let first = start.wrapping_byte_add(middle.start);
            // SAFETY: the caller's promise; the pages lie inside the memory.
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

    /// Gives back what the backend holds. After an error nothing has changed, and it can be tried
    /// again.
    pub(super) fn close(&mut self, table: &Table) -> Result<()> {
        if !self.middle.is_empty() {
            let first = self.start.wrapping_byte_add(self.middle.start);
            // SAFETY: it was registered with this address; whoever closes has seen that nothing
            // uses it.
            unsafe { table.unregister_host(first) }?;
            self.middle.end = self.middle.start;
        }
        if !self.ends.is_null() {
            let ends = std::mem::replace(&mut self.ends, ptr::null_mut());
            // The registration cannot go on without its pages, so this failure is not returned.
            // SAFETY: it came from `malloc_host`, nothing uses it, and it is forgotten here.
            if let Err(error) = unsafe { table.free_host(ends) } {
                tracing::warn!("pinned memory could not be freed: {error}");
            }
        }
        Ok(())
    }

    /// Leaves the pages registered, and forgets of them.
    pub(super) fn abandon(&mut self) {
        self.middle.end = self.middle.start;
    }

    /// Takes the owner that has kept the memory alive.
    pub(super) fn take_owner(&mut self) -> Option<Box<dyn Any + Send>> {
        self.owner.take()
    }

    /// Where a device reaches the byte `at`, and how many bytes from there on lie in one piece.
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

    /// Those of these bytes that lie in registered pages.
    pub(super) fn within_pages(&self, range: &Range<usize>) -> Range<usize> {
        range.start.max(self.middle.start)..range.end.min(self.middle.end)
    }

    /// Rule 1. `touches` is told which pinned bytes the host writes.
    pub(super) fn before_device_reads(
        &self,
        range: &Range<usize>,
        mut touches: impl FnMut(*mut c_void, usize, bool),
    ) {
        self.settle(range, Newer::Program, |program, end, bytes| {
            touches(end, bytes, true);
            // SAFETY: both have as many bytes; the operation has borrowed the program's, so nobody
            // writes them, and nothing uses bytes of the ends that are out of date.
            unsafe { ptr::copy_nonoverlapping(program.cast::<u8>(), end.cast(), bytes) }
        });
    }

    /// Rule 2.
    pub(super) fn device_writes(&self, range: &Range<usize>) {
        self.set(range, Newer::Device);
    }

    /// Rule 3, behind the wait.
    pub(super) fn before_program_reads(
        &self,
        range: &Range<usize>,
        mut touches: impl FnMut(*mut c_void, usize, bool),
    ) {
        self.settle(range, Newer::Device, |program, end, bytes| {
            touches(end, bytes, false);
            // SAFETY: both have as many bytes; no device writes the ends any more, and nobody has a
            // reference to the program's: see rule 3 of the module.
            unsafe { ptr::copy_nonoverlapping(end.cast::<u8>(), program.cast(), bytes) }
        });
    }

    /// Rule 4, behind rule 3.
    pub(super) fn program_writes(&self, range: &Range<usize>) {
        self.set(range, Newer::Program);
    }

    /// The bytes of a range that lie before and behind the middle: where in the memory, and where
    /// in the ends.
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

    /// Calls `copy` with each piece of a range of which this copy is newer, and notes that they are
    /// equal then.
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
            // It could not be given back, so a device may be told to use it: the memory stays.
            std::mem::forget(self.owner.take());
        }
        // The program's own code.
        let owner = self.owner.take();
        contain(|| drop(owner));
    }
}

/// The whole pages inside some memory, in bytes from its start. Empty when there are none.
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
