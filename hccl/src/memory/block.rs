//! A block of device or pinned memory with its stamps, and the list in which it waits until no
//! operation uses it any more.
//!
//! The memory is freed only when its stamps are complete. `aclrtFree` itself does not wait, and a
//! drop must not wait. So the memory of a dropped [allocation](super::allocation) goes to a list.
//! The next operation or allocation frees it, at the latest before out-of-memory is reported. The
//! list node is in the block itself, so that a drop allocates nothing. A block does not keep its
//! runtime alive, but a stream that uses the block does. When that stream has completed, the list
//! is checked again.

use std::ffi::c_void;
use std::iter;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use super::registration::Registration;
use crate::api::Table;
use crate::error::{Error, Result};
use crate::order::stamps::{Conflicts, Stamps, are_complete};
use crate::sync::lock;

/// A block of memory with its stamps; see the [module](self).
pub(crate) struct Block {
    pointer: *mut c_void,
    bytes: usize,
    /// The stamps, shared with the graphs and the detours that use the memory. The memory is not
    /// freed while one of them keeps the stamps.
    pub(super) stamps: Arc<Stamps>,
    origin: BlockOrigin,
    next: Option<Box<Block>>,
}

/// The origin of a block, which decides how it is freed.
pub(super) enum BlockOrigin {
    Device,
    Pinned,
    /// Registered memory of the program.
    Registered(Box<Registration>),
}

// SAFETY: the pointer is only a number here. The memory is accessed by operations on streams, which
// CANN accepts from any thread, or by the host after the stamps show that no device uses it.
unsafe impl Send for Block {}
// SAFETY: the same argument as for `Send`. The stamps have their own lock.
unsafe impl Sync for Block {}

impl Block {
    /// Returns a block for memory that was just allocated or that belongs to other code.
    pub(super) fn new(pointer: *mut c_void, bytes: usize, origin: BlockOrigin) -> Box<Self> {
        Box::new(Block { pointer, bytes, stamps: Arc::new(Stamps::new()), origin, next: None })
    }

    /// Allocates fresh pinned memory. Some context of the runtime must be current.
    pub(super) fn pinned(table: &Table, bytes: usize) -> Result<Box<Self>> {
        Ok(Self::new(table.malloc_host(bytes)?, bytes, BlockOrigin::Pinned))
    }

    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the range of all bytes of the block.
    pub(crate) fn all(&self) -> Range<usize> {
        0..self.bytes
    }

    /// Returns the registration, if the block is memory of the program.
    #[inline]
    pub(super) fn registration(&self) -> Option<&Registration> {
        match &self.origin {
            BlockOrigin::Registered(registration) => Some(registration),
            BlockOrigin::Device | BlockOrigin::Pinned => None,
        }
    }

    pub(super) fn registration_mut(&mut self) -> Option<&mut Registration> {
        match &mut self.origin {
            BlockOrigin::Registered(registration) => Some(registration),
            BlockOrigin::Device | BlockOrigin::Pinned => None,
        }
    }

    /// Returns whether no operation uses the block any more, and no graph or detour keeps its
    /// stamps. Never blocks.
    pub(crate) fn is_complete(&mut self) -> bool {
        are_complete(&mut self.stamps)
    }

    /// Returns the operations that still write these bytes, and with `reads` also those that still
    /// read them.
    pub(crate) fn unfinished(&self, range: &Range<usize>, reads: bool) -> Conflicts {
        self.stamps.unfinished(range, reads)
    }

    /// Frees the memory. Its stamps must be complete, and some context of the runtime must be
    /// current.
    pub(crate) fn free(self: Box<Self>, table: &Table) {
        if let Err((_, error)) = self.try_free(table) {
            tracing::warn!("memory could not be freed: {error}");
        }
    }

    fn try_free(mut self: Box<Self>, table: &Table) -> Result<(), (Box<Self>, Error)> {
        // SAFETY: the block is moved in, so it is freed once. The caller has checked that its
        // stamps are complete, and new stamps would need a borrow of the block.
        let result = unsafe {
            match &mut self.origin {
                BlockOrigin::Device => table.free(self.pointer),
                BlockOrigin::Pinned => table.free_host(self.pointer),
                BlockOrigin::Registered(registration) => registration.close(table),
            }
        };
        result.map_err(|error| (self, error))
    }
}

/// Blocks of dropped allocations, each linked to the next.
#[derive(Default)]
pub(crate) struct RetireList {
    any: AtomicBool,
    /// The number of blocks that were freed.
    freed: AtomicUsize,
    head: Mutex<Option<Box<Block>>>,
}

impl RetireList {
    pub(crate) fn freed(&self) -> usize {
        self.freed.load(Acquire)
    }

    /// Returns the operations that use the first block that is still in use, or none if no block
    /// is in use.
    pub(crate) fn unfinished(&self) -> Conflicts {
        let head = lock(&self.head);
        let blocks = iter::successors(head.as_deref(), |block| block.next.as_deref());
        let mut unfinished = blocks.map(|block| block.stamps.all_unfinished());
        unfinished.find(|unfinished| !unfinished.is_empty()).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    pub(crate) fn push(&self, mut block: Box<Block>) {
        let mut head = lock(&self.head);
        block.next = head.take();
        *head = Some(block);
        self.any.store(true, Release);
    }

    /// Takes all blocks. If the iterator is dropped early, the memory of the remaining blocks is
    /// leaked.
    pub(crate) fn drain(&self) -> impl Iterator<Item = Box<Block>> + use<> {
        let mut next = {
            let mut head = lock(&self.head);
            self.any.store(false, Release);
            head.take()
        };
        iter::from_fn(move || {
            let mut block = next.take()?;
            next = block.next.take();
            Some(block)
        })
    }

    /// Frees the complete blocks, and returns the number of blocks that are left.
    pub(crate) fn free_complete(&self, table: &Table) -> usize {
        let mut left = 0;
        for mut block in self.drain() {
            if !block.is_complete() {
                self.push(block);
            } else if let Err((block, error)) = block.try_free(table) {
                // CANN refuses to free memory inside a host function, for example. A later call
                // tries again.
                tracing::debug!("memory could not be freed yet: {error}");
                self.push(block);
            } else {
                self.freed.fetch_add(1, Release);
                continue;
            }
            left += 1;
        }
        left
    }
}

impl Drop for RetireList {
    fn drop(&mut self) {
        // One by one, because a recursive drop of a long list could overflow the stack.
        self.drain().for_each(drop);
    }
}
