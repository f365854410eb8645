//! A piece of device or pinned memory and its stamps, and the list where it waits until nothing
//! uses it any more.
//!
//! The memory is given back only when its stamps are complete. `aclrtFree` itself waits for nobody,
//! and a drop must not wait, so the memory of a dropped [allocation](super::allocation) goes to a
//! list (the node is in the block itself: nothing is allocated) and is freed at the next operation
//! or allocation, or before out-of-memory is reported. A block does not keep its runtime alive; the
//! stream that it is in use by does, and whoever completes that stream looks at the list again.

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

/// See the [module](self).
pub(crate) struct Block {
    pointer: *mut c_void,
    bytes: usize,
    /// Shared with the graphs that use the memory: while there is one, it is not freed.
    pub(super) stamps: Arc<Stamps>,
    origin: BlockOrigin,
    next: Option<Box<Block>>,
}

/// Where a block comes from, and so how it is given back.
pub(super) enum BlockOrigin {
    Device,
    Pinned,
    /// Memory of the program.
    Registered(Box<Registration>),
}

// SAFETY: the pointer is only a number here. The memory behind it is reached through operations on
// streams, which CANN takes from any thread, or by the host after the stamps say that no device
// uses it.
unsafe impl Send for Block {}
// SAFETY: as above; the stamps have their own lock.
unsafe impl Sync for Block {}

impl Block {
    /// Memory that was just allocated, or is somebody else's.
    pub(super) fn new(pointer: *mut c_void, bytes: usize, origin: BlockOrigin) -> Box<Self> {
        Box::new(Block { pointer, bytes, stamps: Arc::new(Stamps::new()), origin, next: None })
    }

    /// Fresh pinned memory. Some context of the runtime must be current.
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

    /// Its whole range of bytes.
    pub(crate) fn all(&self) -> Range<usize> {
        0..self.bytes
    }

    /// How memory of the program is registered.
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

    /// Whether nothing uses it any more, and no graph will. Never blocks.
    pub(crate) fn is_complete(&mut self) -> bool {
        are_complete(&mut self.stamps)
    }

    /// The operations that still write these bytes, and with `reads` those that read them too.
    pub(crate) fn unfinished(&self, range: &Range<usize>, reads: bool) -> Conflicts {
        self.stamps.unfinished(range, reads)
    }

    /// Gives the memory back. It must be complete, and some context of the runtime be current.
    pub(crate) fn free(self: Box<Self>, table: &Table) {
        if let Err((_, error)) = self.try_free(table) {
            tracing::warn!("memory could not be freed: {error}");
        }
    }

    fn try_free(mut self: Box<Self>, table: &Table) -> Result<(), (Box<Self>, Error)> {
        // SAFETY: the block is moved in, so it is freed once; the caller has seen that its stamps
        // are complete, and whoever could make new ones had to borrow it.
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
    /// How many were freed.
    freed: AtomicUsize,
    head: Mutex<Option<Box<Block>>>,
}

impl RetireList {
    pub(crate) fn freed(&self) -> usize {
        self.freed.load(Acquire)
    }

    /// The operations that use a block that is in use.
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

    /// Takes all of them. Not yet taken ones are leaked, not freed, when the iterator is dropped
    /// early.
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

    /// Frees those that are complete, and says how many are left.
    pub(crate) fn free_complete(&self, table: &Table) -> usize {
        let mut left = 0;
        for mut block in self.drain() {
            if !block.is_complete() {
                self.push(block);
            } else if let Err((block, error)) = block.try_free(table) {
                // For example inside a host function, where CANN refuses to free. Later, then.
                tracing::debug!("not freed yet: {error}");
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
        // Not recursively: the list may be long.
        self.drain().for_each(drop);
    }
}
