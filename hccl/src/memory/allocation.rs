//! A piece of device or pinned memory, its stamps, and what happens when it is dropped.
//!
//! The memory is given back only when its stamps are complete. `aclrtFree` itself waits for nobody, and a drop must not
//! wait, so a dropped allocation goes to a list (the node is in the allocation's own header: nothing is allocated) and is
//! freed at the next operation or allocation, or before out-of-memory is reported. An allocation in a list does not keep its
//! runtime alive; the stream that it is in use by does, and whoever completes that stream looks at the list again.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::api::Table;
use crate::device::Device;
use crate::error::Result;
use crate::order::issue::{MemoryPlace, Touch};
use crate::order::stamps::{self, AccessKind, Stamps};
use crate::runtime::Runtime;
use crate::sync::lock;

/// Where an allocation is, and so who frees it.
enum Backing {
    Device(Device),
    Pinned(Runtime),
    /// Somebody else's device memory: never freed here.
    Foreign(Device),
    /// In a list; the list knows.
    Retired,
}

/// See the [module](self).
pub(crate) struct Allocation {
    pointer: *mut c_void,
    bytes: usize,
    /// Shared with the graphs that use the memory: while there is one, it is not freed.
    stamps: Arc<Stamps>,
    backing: Backing,
    pinned: bool,
    next: Option<Box<Allocation>>,
}

// SAFETY: the pointer is only a number here. What is behind it is reached through operations on streams, which CANN takes
// from any thread, or by the host after the stamps say that no device uses it.
unsafe impl Send for Allocation {}
// SAFETY: as above; the stamps have their own lock.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn owned(pointer: *mut c_void, bytes: usize, backing: Backing) -> Owned {
        let pinned = matches!(backing, Backing::Pinned(_));
        let stamps = Arc::new(Stamps::new());
        let allocation = Allocation { pointer, bytes, stamps, backing, pinned, next: None };
        Owned(ManuallyDrop::new(Box::new(allocation)))
    }

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

    /// Some of its bytes.
    #[inline]
    pub(crate) fn region(&self, range: Range<usize>) -> Region<'_> {
        Region { allocation: self, range }
    }

    /// Whether nothing uses it any more, and no graph will. Never blocks.
    pub(crate) fn is_complete(&mut self) -> bool {
        stamps::are_complete(&mut self.stamps)
    }

    /// Waits until no device writes these bytes any more, and with `reads` until none reads them either.
    pub(crate) fn wait(
        &self,
        range: &Range<usize>,
        reads: bool,
        limit: Duration,
        waiter: &'static str,
    ) -> Result<()> {
        let start = Instant::now();
        for (slot, number) in self.stamps.unfinished(range, reads).into_iter() {
            slot.wait(number, limit.saturating_sub(start.elapsed()), waiter)?;
        }
        Ok(())
    }

    /// The host is about to read or write the first `bytes` of pinned memory itself.
    #[inline]
    pub(super) fn host_touches(&self, bytes: usize, write: bool) {
        if let Backing::Pinned(runtime) = &self.backing {
            runtime.host_touches(self.pointer, bytes, write);
        }
    }

    /// Gives the memory back. It must be complete, and some context of the runtime be current.
    pub(crate) fn free(self: Box<Self>, table: &Table) {
        if let Err((_, error)) = self.try_free(table) {
            tracing::warn!("memory could not be freed: {error}");
        }
    }

    fn try_free(self: Box<Self>, table: &Table) -> Result<(), (Box<Self>, crate::Error)> {
        // SAFETY: the allocation is moved in, so it is freed once; the caller has seen that its stamps are complete, and
        // whoever could make new ones had to borrow it.
        let result = unsafe {
            if self.pinned { table.free_host(self.pointer) } else { table.free(self.pointer) }
        };
        result.map_err(|error| (self, error))
    }
}

/// An allocation with an owner. Dropped, it goes to its list.
pub(crate) struct Owned(ManuallyDrop<Box<Allocation>>);

impl Owned {
    /// Device memory. When the device is full, waits for what was dropped before it gives up.
    pub(crate) fn device(device: &Device, bytes: usize) -> Result<Owned> {
        device.reap_if_due();
        let bound = device.bind()?;
        let pointer = match device.table().malloc(bytes) {
            Ok(pointer) => pointer,
            Err(error) if is_out_of_memory(&error) => {
                let waited = device.reap_all(device.runtime().deadline());
                device.table().malloc(bytes).map_err(|error| match waited {
                    // For example that another rank has failed; that what was dropped is still in use is no answer.
                    Err(cut_short) if !cut_short.is_timeout() => cut_short,
                    _ => {
                        let place = format!("device {}", device.index()).into();
                        let (free, total) = device.table().memory_info().unwrap_or_default();
                        out_of_memory(error, bytes, place, free, total)
                    }
                })?
            }
            Err(error) => return Err(error),
        };
        drop(bound);
        Ok(Allocation::owned(pointer, bytes, Backing::Device(device.clone())))
    }

    /// Pinned memory. Some context of the runtime must be current.
    pub(super) fn pinned(runtime: &Runtime, bytes: usize) -> Result<Owned> {
        let pointer = runtime.table().malloc_host(bytes).map_err(|error| {
            if is_out_of_memory(&error) {
                out_of_memory(error, bytes, "pinned host memory".into(), 0, 0)
            } else {
                error
            }
        })?;
        Ok(Allocation::owned(pointer, bytes, Backing::Pinned(runtime.clone())))
    }

    /// A block that comes back from the pool.
    pub(super) fn reuse(mut block: Box<Allocation>, runtime: &Runtime) -> Owned {
        block.backing = Backing::Pinned(runtime.clone());
        Owned(ManuallyDrop::new(block))
    }

    /// Memory of somebody else.
    pub(super) fn foreign(device: &Device, pointer: *mut c_void, bytes: usize) -> Owned {
        Allocation::owned(pointer, bytes, Backing::Foreign(device.clone()))
    }
}

impl Deref for Owned {
    type Target = Allocation;
    #[inline]
    fn deref(&self) -> &Allocation {
        &self.0
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `self` is not used again.
        let mut allocation = unsafe { ManuallyDrop::take(&mut self.0) };
        match std::mem::replace(&mut allocation.backing, Backing::Retired) {
            Backing::Device(device) => device.state().retired.push(allocation),
            Backing::Pinned(runtime) => runtime.pool().retire(allocation),
            Backing::Foreign(_) | Backing::Retired => {}
        }
        // The device goes after the push: it may be the last handle of the runtime, which then frees its lists.
    }
}

fn is_out_of_memory(error: &crate::Error) -> bool {
    use crate::error::Code;
    // Bad alloc, memory allocation, device out of memory.
    matches!(error.code(), Some(Code::Acl(200_000 | 207_001 | 207_018)))
}

fn out_of_memory(
    error: crate::Error,
    requested: usize,
    place: Box<str>,
    free: usize,
    total: usize,
) -> crate::Error {
    if is_out_of_memory(&error) {
        crate::Error::OutOfMemory { requested, place, free, total }
    } else {
        error
    }
}

/// Some bytes of an allocation: what an operation is given.
#[derive(Clone)]
pub struct Region<'a> {
    allocation: &'a Allocation,
    range: Range<usize>,
}

impl<'a> Region<'a> {
    /// The address of the first byte.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.allocation.pointer.wrapping_byte_add(self.range.start)
    }

    /// How many bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.range.end - self.range.start
    }

    /// Whether it may share bytes with what the borrow checker takes for something else.
    #[inline]
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.allocation.backing, Backing::Foreign(_))
    }

    /// Some of its bytes, relative to its start. They must lie inside.
    #[inline]
    pub(crate) fn part(&self, range: Range<usize>) -> Region<'a> {
        let start = self.range.start;
        Region { allocation: self.allocation, range: start + range.start..start + range.end }
    }

    /// For an operation that reads it; `what` is the argument's name.
    #[inline]
    pub(crate) fn read(&self, what: &'static str) -> Touch<'a> {
        self.touch(AccessKind::Read, what)
    }

    /// For an operation that writes it.
    #[inline]
    pub(crate) fn write(&self, what: &'static str) -> Touch<'a> {
        self.touch(AccessKind::Write, what)
    }

    #[inline]
    fn touch(&self, access: AccessKind, what: &'static str) -> Touch<'a> {
        let place = match &self.allocation.backing {
            Backing::Device(device) | Backing::Foreign(device) => MemoryPlace::Device(device),
            Backing::Pinned(runtime) => MemoryPlace::Host(runtime),
            Backing::Retired => MemoryPlace::Nowhere,
        };
        let stamps = &self.allocation.stamps;
        Touch { stamps, range: self.range.clone(), access, place, what }
    }

    /// How many bytes two regions share.
    #[inline]
    pub(crate) fn overlap(&self, other: &Region<'_>) -> usize {
        let (a, b) = (self.pointer().addr(), other.pointer().addr());
        let end = (a.saturating_add(self.bytes())).min(b.saturating_add(other.bytes()));
        end.saturating_sub(a.max(b))
    }
}

/// Dropped allocations, linked through their headers.
#[derive(Default)]
pub(crate) struct RetireList {
    any: AtomicBool,
    head: Mutex<Option<Box<Allocation>>>,
}

impl RetireList {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    pub(crate) fn push(&self, mut allocation: Box<Allocation>) {
        let mut head = lock(&self.head);
        allocation.next = head.take();
        *head = Some(allocation);
        self.any.store(true, Release);
    }

    /// Takes all of them. Not yet taken ones are leaked, not freed, when the iterator is dropped early.
    pub(crate) fn drain(&self) -> impl Iterator<Item = Box<Allocation>> + use<> {
        let mut next = {
            let mut head = lock(&self.head);
            self.any.store(false, Release);
            head.take()
        };
        std::iter::from_fn(move || {
            let mut allocation = next.take()?;
            next = allocation.next.take();
            Some(allocation)
        })
    }

    /// Frees those that are complete, and says how many are left.
    pub(crate) fn free_complete(&self, table: &Table) -> usize {
        let mut left = 0;
        for mut allocation in self.drain() {
            if !allocation.is_complete() {
                self.push(allocation);
            } else if let Err((allocation, error)) = allocation.try_free(table) {
                // For example inside a host function, where CANN refuses to free. Later, then.
                tracing::debug!("not freed yet: {error}");
                self.push(allocation);
            } else {
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
