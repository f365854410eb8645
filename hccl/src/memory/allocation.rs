//! An allocation: a [block](super::block) of device or pinned memory with an owner, and its
//! regions, which operations are given.
//!
//! Dropped while operations use it, the block goes to the list of its device, or of the pool, and
//! is freed when they are complete.

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

/// Where an allocation is, and so who frees it.
enum Backing {
    Device(Device),
    Pinned(Runtime),
    /// Somebody else's device memory: never freed here.
    Foreign(Device),
    /// Memory of the program, which this device has registered.
    Registered(Device),
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
        let touched = match (&self.backing, self.registration()) {
            (Backing::Pinned(_), _) => range.clone(),
            // The rest is nothing to the backend.
            (Backing::Registered(_), Some(registration)) => registration.within_pages(range),
            _ => return,
        };
        if !touched.is_empty() {
            let first = self.pointer().wrapping_byte_add(touched.start);
            self.runtime().host_touches(first, touched.len(), write);
        }
    }

    /// As [`host_waits`](Self::host_waits). Then returns a failure that nobody has seen: of what
    /// has written the bytes, or of what came before that.
    pub(super) fn host_accesses(
        &self,
        range: &Range<usize>,
        write: bool,
        waiter: &'static str,
    ) -> Result<()> {
        self.host_waits(range, write, waiter)?;
        self.take_unseen(range)
    }

    /// Returns a failure that nobody has seen of the operations that have written these bytes, or
    /// of those before them.
    pub(super) fn take_unseen(&self, range: &Range<usize>) -> Result<()> {
        let mut unseen = self.stamps.unseen(range).into_iter();
        unseen.try_for_each(|(slot, number)| slot.take_unseen(number, Unseen::Any))
    }

    /// The host is about to access these bytes of pinned memory. Waits until no device writes them,
    /// and for a write until none reads them either, up to the runtime's deadline.
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

    /// Tells the backend of a touch of pinned memory, by its address.
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

    /// Device memory. When the device is full, waits for what was dropped before it gives up.
    pub(crate) fn device(device: &Device, bytes: usize) -> Result<Owned> {
        device.reap_if_due();
        let pointer = device.malloc(bytes)?;
        Ok(Owned::new(
            Block::new(pointer, bytes, BlockOrigin::Device),
            Backing::Device(device.clone()),
        ))
    }

    /// A pinned block of at least so many bytes, from the pool of the runtime when it has one.
    /// Contents are unspecified.
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

    /// Memory of the program, registered.
    ///
    /// # Safety
    /// The memory stays where it is and initialised, and is valid to read (and to write, if
    /// anything is to be written), until its owner is dropped or [given back](Self::unregister).
    /// Nobody else writes it until then (or reads it, if anything is to be written).
    pub(super) unsafe fn registered(
        device: &Device,
        pointer: *mut c_void,
        bytes: usize,
    ) -> Result<Owned> {
        device.reap_if_due();
        let _bound = device.bind()?;
        // SAFETY: the caller's promise.
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

    /// Ends a registration, for a caller that has seen that no device uses the memory any more, as
    /// by [`host_waits`](Self::host_waits). Returns its owner. After an error it goes on.
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

    /// Leaves registered memory registered, which no device uses any more, and forgets of it.
    pub(super) fn abandon(mut self) {
        if let Some(registration) = self.block.registration_mut() {
            registration.abandon();
        }
    }

    /// Memory of somebody else.
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
                // The memory is the program's, which may need it.
                device.reap_in_drop();
            }
            Backing::Pinned(runtime) => runtime.pool().retire(block),
            Backing::Foreign(_) => {}
        }
        // The device goes after the push: it may be the last handle of the runtime, which then
        // frees its lists.
    }
}

impl Device {
    /// Allocates memory of the device. If too little is left, waits for dropped memory: until there
    /// is enough, no dropped memory is in use, another rank has failed, or the runtime's deadline
    /// has passed.
    fn malloc(&self, bytes: usize) -> Result<*mut c_void> {
        /// The longest wait for one operation that still uses dropped memory. Another one may
        /// complete first, so the loop looks at all of them after each slice.
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
                // Frees blocks that became complete just before that look.
                unfinished = self.reap_and_look();
            }
            if is_over(&unfinished) || cut_short.is_some() {
                // For example that another rank has failed; that what was dropped is still in use
                // is no answer.
                return Err(cut_short.unwrap_or_else(|| self.out_of_memory(bytes)));
            }
            match unfinished.wait_a_little(&mut patience, SLICE, "freeing memory") {
                Err(late) if late.is_timeout() => return Err(self.out_of_memory(bytes)),
                // Where the backend cannot end the operation, it uses its memory until it is
                // complete.
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

    /// Where a device reaches the byte `at`, and how many bytes from there on lie in one piece.
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

    /// An operation is about to be issued by which a device reads the bytes.
    #[inline]
    pub(super) fn before_device_reads(&self) {
        if let Some(registration) = self.allocation.registration() {
            registration.before_device_reads(&self.range, self.allocation.touching());
        }
    }

    /// An operation has been enqueued by which a device writes the bytes.
    #[inline]
    pub(super) fn device_writes(&self) {
        if let Some(registration) = self.allocation.registration() {
            registration.device_writes(&self.range);
        }
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
            Backing::Registered(device) => MemoryPlace::Host(device.runtime()),
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
