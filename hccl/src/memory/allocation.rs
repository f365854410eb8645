//! Allocations: a [block](super::block) of device or pinned memory with an owner, and regions of
//! it, which are passed to operations.
//!
//! When an allocation is dropped, its block goes to a list of the device or of the pool. The block
//! is freed when the operations that use it are complete.

use std::any::Any;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::time::Duration;

use super::block::{Block, BlockOrigin};
use super::pool::Pool;
use super::registration::Registration;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::order::issue::{MemoryPlace, Touch};
use crate::order::patience::Patience;
use crate::order::stamps::{AccessKind, Conflicts};
use crate::order::unseen::Unseen;
use crate::runtime::Runtime;

/// The place of an allocation, which decides where it is freed.
enum Backing {
    Device(Device),
    Pinned(Runtime),
    /// Device memory of other code, which is never freed here.
    Foreign(Device),
    /// Memory of the program, which this device has registered.
    Registered(Device),
}

/// The owner of an allocation. Its drop adds the block to the list of the device or of the pool.
pub(crate) struct Owned {
    block: ManuallyDrop<Box<Block>>,
    backing: Backing,
}

impl Owned {
    fn new(block: Box<Block>, backing: Backing) -> Owned {
        Owned { block: ManuallyDrop::new(block), backing }
    }

    /// Returns the region of these bytes.
    #[inline]
    pub(crate) fn region(&self, range: Range<usize>) -> Region<'_> {
        Region { allocation: self, range }
    }

    /// Notifies the backend that the host is about to read or write these bytes of pinned memory.
    #[inline]
    pub(super) fn host_touches(&self, range: &Range<usize>, write: bool) {
        let touched = match (&self.backing, self.registration()) {
            (Backing::Pinned(_), _) => range.clone(),
            // The backend does not track the bytes outside the registered pages.
            (Backing::Registered(_), Some(registration)) => registration.within_pages(range),
            _ => return,
        };
        if !touched.is_empty() {
            let first = self.pointer().wrapping_byte_add(touched.start);
            self.runtime().host_touches(first, touched.len(), write);
        }
    }

    /// Waits as [`host_waits`](Self::host_waits) does. Then returns a failure as
    /// [`take_unseen`](Self::take_unseen) does.
    pub(super) fn host_accesses(
        &self,
        range: &Range<usize>,
        write: bool,
        waiter: &'static str,
    ) -> Result<()> {
        self.host_waits(range, write, waiter)?;
        self.take_unseen(range)
    }

    /// Searches the operations that have written these bytes, and operations before these, for a
    /// failure that the program has not seen. Returns the failure.
    pub(super) fn take_unseen(&self, range: &Range<usize>) -> Result<()> {
        let mut unseen = self.stamps.unseen(range).into_iter();
        unseen.try_for_each(|(slot, number)| slot.take_unseen(number, Unseen::Any))
    }

    /// Prepares an access of the host to these bytes of pinned memory. Blocks until no device
    /// writes them, and for a write also until no device reads them, up to the runtime's deadline.
    pub(super) fn host_waits(
        &self,
        range: &Range<usize>,
        write: bool,
        waiter: &'static str,
    ) -> Result<()> {
        self.unfinished(range, write).wait(self.runtime().deadline(), waiter)?;
        if let Some(registration) = self.registration() {
            registration.before_program_reads(range, self.touching());
            if write {
                registration.program_writes(range);
            }
        }
        self.host_touches(range, write);
        Ok(())
    }

    /// Returns a function that notifies the backend of an access to pinned memory, by its address.
    fn touching(&self) -> impl Fn(*mut c_void, usize, bool) {
        |first, bytes, write| self.runtime().host_touches(first, bytes, write)
    }

    fn runtime(&self) -> &Runtime {
        match &self.backing {
            Backing::Device(device) | Backing::Foreign(device) | Backing::Registered(device) => {
                device.runtime()
            }
            Backing::Pinned(runtime) => runtime,
        }
    }

    /// Allocates device memory. If the device is full, waits for dropped memory before it fails.
    pub(crate) fn device(device: &Device, bytes: usize) -> Result<Owned> {
        device.reap_if_due();
        let pointer = device.malloc(bytes)?;
        Ok(Owned::new(
            Block::new(pointer, bytes, BlockOrigin::Device),
            Backing::Device(device.clone()),
        ))
    }

    /// Returns a pinned block of at least `bytes` bytes, from the pool of the runtime if the pool
    /// has one. Its contents are unspecified.
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

    /// Registers memory of the program.
    ///
    /// # Safety
    /// Until its owner is dropped or [given back](Self::unregister), the memory stays where it is,
    /// stays initialised, and is valid for reads. No other code writes it until then. If a
    /// device is to write the memory, it is also valid for writes, and no other code reads it until
    /// then.
    pub(super) unsafe fn registered(
        device: &Device,
        pointer: *mut c_void,
        bytes: usize,
    ) -> Result<Owned> {
        device.reap_if_due();
        let _bound = device.bind()?;
        // SAFETY: the caller keeps the same contract.
        let registration = unsafe { Registration::new(device.table(), pointer, bytes) }?;
        let block = Block::new(pointer, bytes, BlockOrigin::Registered(Box::new(registration)));
        Ok(Owned::new(block, Backing::Registered(device.clone())))
    }

    /// Keeps the owner of registered memory alive.
    pub(super) fn keep(&mut self, owner: Box<dyn Any + Send>) {
        if let Some(registration) = self.block.registration_mut() {
            registration.keep(owner);
        }
    }

    /// Ends a registration and returns the owner of the memory. The caller has made sure that no
    /// device uses the memory any more, for example with [`host_waits`](Self::host_waits). After an
    /// error the memory stays registered.
    #[allow(clippy::result_large_err, reason = "the memory comes back, and it is called seldom")]
    pub(super) fn unregister(mut self) -> Result<Option<Box<dyn Any + Send>>, (Error, Owned)> {
        let closed = self.close_registration();
        closed.map_err(|error| (error, self))
    }

    fn close_registration(&mut self) -> Result<Option<Box<dyn Any + Send>>> {
        let device = match &self.backing {
            Backing::Registered(device) => device.clone(),
            Backing::Device(_) | Backing::Pinned(_) | Backing::Foreign(_) => return Ok(None),
        };
        let _bound = device.bind()?;
        let Some(registration) = self.block.registration_mut() else { return Ok(None) };
        registration.close(device.table())?;
        Ok(registration.take_owner())
    }

    /// Forgets registered memory, which no device uses any more, and leaves its pages registered.
    pub(super) fn abandon(mut self) {
        if let Some(registration) = self.block.registration_mut() {
            registration.abandon();
        }
    }

    /// Wraps device memory of other code.
    pub(super) fn foreign(device: &Device, pointer: *mut c_void, bytes: usize) -> Owned {
        Owned::new(
            Block::new(pointer, bytes, BlockOrigin::Device),
            Backing::Foreign(device.clone()),
        )
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
            Backing::Registered(device) => {
                device.state().retired.push(block);
                // The memory belongs to the program, which may need it soon.
                device.reap_in_drop();
            }
            Backing::Pinned(runtime) => runtime.pool().retire(block),
            Backing::Foreign(_) => {}
        }
        // `backing` is dropped after the push. It may be the last handle of the runtime, whose drop
        // frees the lists.
    }
}

impl Device {
    /// Allocates memory of the device. If too little is free, waits for dropped memory. The wait
    /// ends when enough is free, when no dropped memory is in use any more, when another rank has
    /// failed, or when the runtime's deadline has passed.
    fn malloc(&self, bytes: usize) -> Result<*mut c_void> {
        /// The longest wait for one operation that still uses dropped memory. Another operation may
        /// complete first, so the loop checks all of them after each slice.
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
                // If the number has changed, another thread has freed memory meanwhile.
                unfinished.is_empty() && self.state().freed() == freed
            };
            let mut unfinished = self.reap_and_look();
            if is_over(&unfinished) {
                // Frees blocks that became complete after the first call had checked them.
                unfinished = self.reap_and_look();
            }
            if is_over(&unfinished) || cut_short.is_some() {
                // `cut_short` is, for example, the failure of another rank. This explains more than
                // an out-of-memory error.
                return Err(cut_short.unwrap_or_else(|| self.out_of_memory(bytes)));
            }
            match unfinished.wait_a_little(&mut patience, SLICE, "freeing memory") {
                Err(late) if late.is_timeout() => return Err(self.out_of_memory(bytes)),
                // If the backend cannot end an aborted operation, the operation uses its memory
                // until it is complete.
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

/// Returns the number of bytes of `len` elements.
pub(crate) fn size_in_bytes<T>(len: usize) -> Result<usize> {
    // At most isize::MAX bytes, as for a slice of Rust.
    len.checked_mul(size_of::<T>())
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or(Error::TooLarge { elements: len, element: size_of::<T>() })
}

fn is_out_of_memory(error: &crate::Error) -> bool {
    use crate::error::Code;
    // The codes for bad alloc, memory allocation, and device out of memory.
    matches!(error.code(), Some(Code::Acl(200_000 | 207_001 | 207_018)))
}

/// A range of bytes of an allocation, which is passed to operations.
#[derive(Clone)]
pub struct Region<'a> {
    allocation: &'a Owned,
    range: Range<usize>,
}

impl<'a> Region<'a> {
    /// Returns the address of the first byte.
    #[inline]
    pub(crate) fn pointer(&self) -> *mut c_void {
        self.allocation.pointer().wrapping_byte_add(self.range.start)
    }

    /// Returns the address at which a device accesses byte `at`, and the number of contiguous bytes
    /// from there on.
    #[inline]
    pub(super) fn piece(&self, at: usize) -> (*mut c_void, usize) {
        let left = self.bytes() - at;
        match self.allocation.registration() {
            None => (self.pointer().wrapping_byte_add(at), left),
            Some(registration) => {
                let (first, bytes) = registration.piece(self.range.start + at);
                (first, bytes.min(left))
            }
        }
    }

    /// Prepares the bytes for an operation by which a device reads them. Called before the
    /// operation is issued.
    #[inline]
    pub(super) fn before_device_reads(&self) {
        if let Some(registration) = self.allocation.registration() {
            registration.before_device_reads(&self.range, self.allocation.touching());
        }
    }

    /// Notes that a device writes the bytes. Called when the operation has been enqueued.
    #[inline]
    pub(super) fn device_writes(&self) {
        if let Some(registration) = self.allocation.registration() {
            registration.device_writes(&self.range);
        }
    }

    /// Returns the number of bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.range.end - self.range.start
    }

    /// Returns whether the region is memory of other code. This memory may overlap other buffers,
    /// which the borrow checker does not see.
    #[inline]
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.allocation.backing, Backing::Foreign(_))
    }

    /// Returns a part of the region. `range` is in bytes relative to the start of the region, and
    /// must lie inside the region.
    #[inline]
    pub(crate) fn part(&self, range: Range<usize>) -> Region<'a> {
        let start = self.range.start;
        Region { allocation: self.allocation, range: start + range.start..start + range.end }
    }

    /// Returns the touch for an operation that reads the region. `what` is the argument's name.
    #[inline]
    pub(crate) fn read(&self, what: &'static str) -> Touch<'a> {
        self.touch(AccessKind::Read, what)
    }

    /// Returns the touch for an operation that writes the region. `what` is the argument's name.
    #[inline]
    pub(crate) fn write(&self, what: &'static str) -> Touch<'a> {
        self.touch(AccessKind::Write, what)
    }

    #[inline]
    fn touch(&self, access: AccessKind, what: &'static str) -> Touch<'a> {
        let place = match &self.allocation.backing {
            Backing::Device(device) | Backing::Foreign(device) => MemoryPlace::Device(device),
            Backing::Pinned(runtime) => MemoryPlace::Host(runtime),
            Backing::Registered(device) => MemoryPlace::Host(device.runtime()),
        };
        let stamps = &self.allocation.block.stamps;
        Touch { stamps, range: self.range.clone(), access, place, what }
    }

    /// Returns the number of bytes that two regions share.
    #[inline]
    pub(crate) fn overlap(&self, other: &Region<'_>) -> usize {
        let (a, b) = (self.pointer().addr(), other.pointer().addr());
        let end = (a.saturating_add(self.bytes())).min(b.saturating_add(other.bytes()));
        end.saturating_sub(a.max(b))
    }
}
