//! Pinned host memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::allocation::{Owned, Region, size_in_bytes};
use super::host_slice::{HostSlice, HostSliceMut};
use crate::dtype::Element;
use crate::error::Result;
use crate::runtime::Runtime;

/// Elements in pinned host memory. The devices of a runtime copy to and from it directly.
///
/// The host sees the elements as a slice when no device writes them, and as a mutable slice when no
/// device reads them either. [`as_slice`](Self::as_slice) and [`as_mut_slice`](Self::as_mut_slice)
/// block until then. [`slice`](Self::slice) and [`slice_mut`](Self::slice_mut) borrow a part of the
/// buffer. A wait for one part does not wait for operations on the other parts.
///
/// Events do not work across devices. So if operations of two devices use the same elements, and
/// one of the two writes, the call of the second operation blocks until the first operation is
/// complete.
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
    marker: PhantomData<T>,
}

impl<T: Element> HostBuffer<T> {
    /// Returns the elements. Blocks until no device writes them, and returns an error if that takes
    /// longer than the runtime's deadline. If a copy to the elements, or an operation before that
    /// copy, has failed and the program has not seen the failure, returns the failure.
    pub fn as_slice(&self) -> Result<&[T]> {
        self.whole().as_slice()
    }

    /// Returns the elements for writing. Blocks until no device reads or writes them, up to the
    /// runtime's deadline. Returns the failures that [`as_slice`](Self::as_slice) returns.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        self.whole_mut().into_mut_slice()
    }

    /// Returns the elements in `range`, to copy from or to read. Fails with
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if the range does not lie inside the buffer.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// # let runtime = hccl::Runtime::emulator(1)?;
    /// # let device = runtime.device(0)?;
    /// # let stream = device.stream()?;
    /// let x = device.upload(&[1_i32, 2, 3, 4], &stream)?;
    /// let mut host = runtime.host_buffer::<i32>(6)?;
    /// x.slice(2..)?.copy_to(host.slice_mut(1..3)?, &stream)?;
    /// assert_eq!(host.as_slice()?, [0, 3, 4, 0, 0, 0]);
    /// let mut y = device.zeros::<i32>(2, &stream)?;
    /// y.copy_from_host(host.slice(2..4)?, &stream)?;
    /// assert_eq!(y.to_vec(&stream).wait()?, [4, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<HostSlice<'_, T>> {
        self.whole().slice(range)
    }

    /// Returns the elements in `range`, to copy to or to write. Fails with
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if the range does not lie inside the buffer.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<HostSliceMut<'_, T>> {
        self.whole_mut().into_slice_mut(range)
    }

    /// Splits the buffer, for writing, into the first `mid` elements and the rest. Fails with
    /// [`Error::OutOfRange`](crate::Error::OutOfRange) if `mid` is greater than the length.
    pub fn split_at_mut(
        &mut self,
        mid: usize,
    ) -> Result<(HostSliceMut<'_, T>, HostSliceMut<'_, T>)> {
        self.whole_mut().split_at_mut(mid)
    }

    /// Returns the length in elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn new(runtime: &Runtime, len: usize) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len)?;
        let memory = Owned::pinned(&runtime.some_device()?, bytes)?;
        memory.host_touches(&(0..bytes), true);
        // SAFETY: the block has at least `bytes` bytes and is complete, fresh or from the pool, so
        // nobody else uses it.
        unsafe { std::ptr::write_bytes(memory.pointer().cast::<u8>(), 0, bytes) };
        Ok(Self { memory, len, marker: PhantomData })
    }

    fn whole(&self) -> HostSlice<'_, T> {
        HostSlice::new(&self.memory, 0..self.len)
    }

    fn whole_mut(&mut self) -> HostSliceMut<'_, T> {
        HostSliceMut::new(&self.memory, 0..self.len)
    }

    pub(crate) fn region(&self) -> Region<'_> {
        self.memory.region(0..self.len * size_of::<T>())
    }
}

impl Runtime {
    /// Allocates pinned host memory for `len` elements and fills it with zeros (`aclrtMallocHost`).
    pub fn host_buffer<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        HostBuffer::new(self, len)
    }
}

impl<T: Element> fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuffer<{}>({} elements)", T::DTYPE, self.len)
    }
}
