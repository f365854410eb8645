//! An allocation: a [block](super::block) of device or pinned memory with an owner, and its regions, which operations are given.
//!
//! Dropped while operations use it, the block goes to the list of its device, or of the pool, and is freed when they are complete.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::time::Duration;

use super::block::Block;
use super::pool::Pool;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::order::issue::{MemoryPlace, Touch};
use crate::order::patience::Patience;
use crate::order::stamps::{AccessKind, Conflicts};
use crate::runtime::Runtime;

/// Where an allocation is, and so who frees it.
enum Backing {
    Device(Device),
    Pinned(Runtime),
    /// Somebody else's device memory: never freed here.
    Foreign(Device),
}

/// An allocation with an owner. Dropped, its block goes to the list of where it is.
pub(crate) struct Owned {
    block: ManuallyDrop<Box<Block>>,
    backing: Backing,
}

impl Owned {
    fn new(block: Box<Block>, backing: Backing) -> Owned {
        Owned { block: ManuallyDrop::new(block), backing }
    }

    /// Some of its bytes.
    #[inline]
    pub(crate) fn region(&self, range: Range<usize>) -> Region<'_> {
        Region { allocation: self, range }
    }

    /// The host is about to read or write these bytes of pinned memory itself.
    #[inline]
    pub(super) fn host_touches(&self, range: &Range<usize>, write: bool) {
        if let Backing::Pinned(runtime) = &self.backing {
            let first = self.pointer().wrapping_byte_add(range.start);
            runtime.host_touches(first, range.end - range.start, write);
        }
    }

    /// The host is about to access these bytes of pinned memory. Waits until no device writes them, and
    /// for a write until none reads them either, up to the runtime's deadline.
    pub(super) fn host_accesses(
        &self,
        range: &Range<usize>,
        write: bool,
        waiter: &'static str,
    ) -> Result<()> {
        self.unfinished(range, write).wait(self.runtime().deadline(), waiter)?;
        self.host_touches(range, write);
        Ok(())
    }

    fn runtime(&self) -> &Runtime {
        match &self.backing {
            Backing::Device(device) | Backing::Foreign(device) => device.runtime(),
            Backing::Pinned(runtime) => runtime,
        }
    }

    /// Device memory. When the device is full, waits for what was dropped before it gives up.
    pub(crate) fn device(device: &Device, bytes: usize) -> Result<Owned> {
        device.reap_if_due();
        let pointer = device.malloc(bytes)?;
        Ok(Owned::new(Block::new(pointer, bytes, false), Backing::Device(device.clone())))
    }

    /// A pinned block of at least so many bytes, from the pool of the runtime when it has one. Contents are unspecified.
    pub(super) fn pinned(device: &Device, bytes: usize) -> Result<Owned> {
        let runtime = device.runtime();
        let pool = runtime.pool();
        let bytes = Pool::size(bytes);
        if let Some(block) = pool.take(bytes) {
            return Ok(Owned::new(block, Backing::Pinned(runtime.clone())));
        }
        let _bound = device.bind()?;
        let table = device.table();
        let block = match Block::pinned(table, bytes) {
            Err(error) if is_out_of_memory(&error) => {
                pool.trim(table, 0);
                Block::pinned(table, bytes)
            }
            other => other,
        };
        let block = block.map_err(|error| match is_out_of_memory(&error) {
            true => {
                let place = "pinned host memory".into();
                Error::OutOfMemory { requested: bytes, place, free: 0, total: 0 }
            }
            false => error,
        })?;
        Ok(Owned::new(block, Backing::Pinned(runtime.clone())))
    }

    /// Memory of somebody else.
    pub(super) fn foreign(device: &Device, pointer: *mut c_void, bytes: usize) -> Owned {
        Owned::new(Block::new(pointer, bytes, false), Backing::Foreign(device.clone()))
    }
}

impl Deref for Owned {
    type Target = Block;
    #[inline]
    fn deref(&self) -> &Block {
        &self.block
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the block is not used again.
        let block = unsafe { ManuallyDrop::take(&mut self.block) };
        match &self.backing {
            Backing::Device(device) => device.state().retired.push(block),
            Backing::Pinned(runtime) => runtime.pool().retire(block),
            Backing::Foreign(_) => {}
        }
        // The device goes after the push: it may be the last handle of the runtime, which then frees its lists.
    }
}

impl Device {
    /// Memory of the device. Where there is none left, waits for what was dropped, until there is, nothing that was dropped is in
    /// use, another rank has failed, or the runtime's deadline.
    fn malloc(&self, bytes: usize) -> Result<*mut c_void> {
        /// One is waited for at a time, and no longer than this: others may be complete before it.
        const SLICE: Duration = Duration::from_millis(20);
        let _bound = self.bind()?;
        let mut patience = Patience::new(self.runtime().deadline());
        let mut cut_short = None;
        loop {
            let freed = self.state().freed();
            match self.table().malloc(bytes) {
                Err(error) if is_out_of_memory(&error) => {}
                other => return other,
            }
            let is_over = |unfinished: &Conflicts| {
                // Another thread may have freed some since.
                unfinished.is_empty() && self.state().freed() == freed
            };
            let mut unfinished = self.reap_and_look();
            if is_over(&unfinished) {
                // What was complete by that look, and not a moment before, is freed now.
                unfinished = self.reap_and_look();
            }
            if is_over(&unfinished) || cut_short.is_some() {
                // For example that another rank has failed; that what was dropped is still in use is no answer.
                return Err(cut_short.unwrap_or_else(|| self.out_of_memory(bytes)));
            }
            match unfinished.wait_a_little(&mut patience, SLICE, "freeing memory") {
                Err(late) if late.is_timeout() => return Err(self.out_of_memory(bytes)),
                // Where the backend cannot end the operation, it uses its memory until it is complete.
                Err(Error::Aborted { .. }) => std::thread::sleep(SLICE.min(patience.left())),
                Err(error) => cut_short = Some(error),
                Ok(()) => {}
            }
        }
    }

    #[cold]
    fn out_of_memory(&self, requested: usize) -> Error {
        let place = format!("device {}", self.index()).into();
        let (free, total) = self.table().memory_info().unwrap_or_default();
        Error::OutOfMemory { requested, place, free, total }
    }
}

/// Bytes of `len` elements.
pub(crate) fn size_in_bytes<T>(len: usize) -> Result<usize> {
    // Like a slice of Rust: not more than isize::MAX bytes.
    len.checked_mul(size_of::<T>())
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or(Error::TooLarge { elements: len, element: size_of::<T>() })
}

fn is_out_of_memory(error: &crate::Error) -> bool {
    use crate::error::Code;
    // Bad alloc, memory allocation, device out of memory.
    matches!(error.code(), Some(Code::Acl(200_000 | 207_001 | 207_018)))
}

/// Some bytes of an allocation: what an operation is given.
#[derive(Clone)]
pub struct Region<'a> {
    allocation: &'a Owned,
    range: Range<usize>,
}

impl<'a> Region<'a> {
    /// The address of the first byte.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.allocation.pointer().wrapping_byte_add(self.range.start)
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
        };
        let stamps = &self.allocation.block.stamps;
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
