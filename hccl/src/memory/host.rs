//! Pinned host memory.

use std::fmt;
use std::marker::PhantomData;

use super::allocation::{Owned, Region, size_in_bytes};
use crate::dtype::Element;
use crate::error::Result;
use crate::runtime::Runtime;

/// Elements in pinned host memory, which the devices of a runtime copy to and from without a detour.
///
/// The host sees them as a slice when no device writes (or, for a mutable slice, reads) them; [`as_slice`](Self::as_slice)
/// and [`as_mut_slice`](Self::as_mut_slice) wait for that. Used by streams of two devices at once, the second operation
/// waits in the call, because events do not reach across devices.
///
/// ```
/// # fn main() -> hccl::Result<()> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let x = device.upload(&[1_i32, 2, 3], &stream)?;
/// let mut host = runtime.host_buffer::<i32>(3)?;
/// x.copy_to(&mut host, &stream)?;
/// assert_eq!(host.as_slice()?, [1, 2, 3]); // waits for the copy
/// # Ok(())
/// # }
/// ```
pub struct HostBuffer<T: Element> {
    memory: Owned,
    len: usize,
    runtime: Runtime,
    marker: PhantomData<T>,
}

impl<T: Element> HostBuffer<T> {
    pub(crate) fn new(runtime: &Runtime, len: usize) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len)?;
        let memory = Owned::pinned(&runtime.some_device()?, bytes)?;
        memory.host_touches(bytes, true);
        // SAFETY: the block has at least `bytes` bytes and is complete, fresh or from the pool, so nobody else uses it.
        unsafe { std::ptr::write_bytes(memory.pointer().cast::<u8>(), 0, bytes) };
        Ok(Self { memory, len, runtime: runtime.clone(), marker: PhantomData })
    }

    /// Length in elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements. Waits until no device writes them, up to the runtime's deadline; after that it is an error. Contents are
    /// unspecified when a copy to them failed.
    pub fn as_slice(&self) -> Result<&[T]> {
        self.wait(false, "as_slice")?;
        // SAFETY: no device writes them, and none can start to while `self` is borrowed; the block is page aligned, holds
        // `len` elements and was zeroed, and any bits are a valid element.
        Ok(unsafe { std::slice::from_raw_parts(self.memory.pointer().cast(), self.len) })
    }

    /// The elements, to change. Waits until no device reads or writes them, up to the runtime's deadline.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.wait(true, "as_mut_slice")?;
        // SAFETY: as in `as_slice`; nor does any device read them.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.memory.pointer().cast(), self.len) })
    }

    /// Waits for writes, and with `reads`, which a mutable slice needs, for reads too.
    fn wait(&self, reads: bool, waiter: &'static str) -> Result<()> {
        self.memory.wait(&self.memory.all(), reads, self.runtime.deadline(), waiter)?;
        self.memory.host_touches(self.len * size_of::<T>(), reads);
        Ok(())
    }

    pub(crate) fn region(&self) -> Region<'_> {
        self.memory.region(0..self.len * size_of::<T>())
    }
}

impl Runtime {
    /// Pinned host memory for `len` elements, filled with zeros (`aclrtMallocHost`).
    pub fn host_buffer<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        HostBuffer::new(self, len)
    }
}

impl<T: Element> fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuffer<{}>({} elements)", T::DTYPE, self.len)
    }
}
