//! Slices of pinned or registered memory, and the traits of host memory that a copy can read or
//! write.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};

use super::HostBuffer;
use super::allocation::{Owned, Region};
use super::slice::{bytes, part};
use super::traits::sealed;
use crate::dtype::Element;
use crate::error::{Error, Result};

/// Some elements of a [`HostBuffer`] or of [registered](super::Registered) memory, to copy from or
/// to read.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let mut host = runtime.host_buffer::<f32>(4)?;
/// host.as_mut_slice()?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
/// let mut x = device.zeros::<f32>(2, &stream)?;
/// x.copy_from_host(host.slice(2..)?, &stream)?;
/// assert_eq!(x.to_vec(&stream).wait()?, [3.0, 4.0]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct HostSlice<'a, T: Element> {
    allocation: &'a Owned,
    /// The range in elements of the allocation.
    range: Range<usize>,
    marker: PhantomData<&'a T>,
}

/// Some elements of a [`HostBuffer`] or of [registered](super::Registered) memory, to copy to or to
/// write. Disjoint slices may be used at the same time and do not wait for one another: the host
/// can read one while a device writes another.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let mut host = runtime.host_buffer::<i32>(4)?;
/// let x = device.upload(&[1, 2], &stream)?;
/// let (first, mut second) = host.split_at_mut(2)?;
/// x.copy_to(first, &stream)?;
/// second.as_mut_slice()?.fill(7); // does not wait for the copy
/// assert_eq!(host.as_slice()?, [1, 2, 7, 7]); // waits
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct HostSliceMut<'a, T: Element> {
    allocation: &'a Owned,
    /// The range in elements of the allocation.
    range: Range<usize>,
    marker: PhantomData<&'a mut T>,
}

impl<'a, T: Element> HostSlice<'a, T> {
    /// Returns the elements. Blocks until no device writes them, up to the runtime's deadline, as
    /// [`HostBuffer::as_slice`] does.
    pub fn as_slice(&self) -> Result<&'a [T]> {
        let range = bytes::<T>(&self.range);
        self.allocation.host_accesses(&range, false, "as_slice")?;
        let first = self.allocation.pointer().wrapping_byte_add(range.start);
        // SAFETY: the range lies inside the allocation, which is aligned and initialised; any bits
        // are a valid element. No device writes the range, and none can start to while it is
        // borrowed.
        Ok(unsafe { std::slice::from_raw_parts(first.cast(), self.len()) })
    }

    /// Returns a part of the slice. `range` is in elements relative to its start. Fails with
    /// [`Error::OutOfRange`] if the range does not lie inside the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<HostSlice<'a, T>> {
        Ok(Self::new(self.allocation, part(&self.range, range)?))
    }

    /// Returns the length in elements.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    pub(super) fn new(allocation: &'a Owned, range: Range<usize>) -> Self {
        Self { allocation, range, marker: PhantomData }
    }

    pub(crate) fn region(&self) -> Region<'_> {
        self.allocation.region(bytes::<T>(&self.range))
    }
}

impl<T: Element> Clone for HostSlice<'_, T> {
    fn clone(&self) -> Self {
        Self::new(self.allocation, self.range.clone())
    }
}

impl<'a, T: Element> HostSliceMut<'a, T> {
    /// Returns the elements for writing. Blocks until no device reads or writes them, as
    /// [`HostBuffer::as_mut_slice`] does.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T]> {
        HostSliceMut::new(self.allocation, self.range.clone()).into_mut_slice()
    }

    /// Returns the elements for reading. Blocks until no device writes them, as
    /// [`HostBuffer::as_slice`] does.
    pub fn as_slice(&self) -> Result<&[T]> {
        HostSlice::new(self.allocation, self.range.clone()).as_slice()
    }

    /// Returns a part of the slice. `range` is in elements relative to its start. Fails with
    /// [`Error::OutOfRange`] if the range does not lie inside the slice.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<HostSliceMut<'_, T>> {
        Ok(HostSliceMut::new(self.allocation, part(&self.range, range)?))
    }

    /// Splits the slice into the first `mid` elements and the rest. Fails with
    /// [`Error::OutOfRange`] if `mid` is greater than the length.
    pub fn split_at_mut(self, mid: usize) -> Result<(Self, Self)> {
        let first = part(&self.range, ..mid)?;
        let second = part(&self.range, mid..)?;
        Ok((Self::new(self.allocation, first), Self::new(self.allocation, second)))
    }

    /// Splits the slice into pieces of `size` elements. The last piece may be shorter. Fails with
    /// [`Error::Empty`] if `size` is 0.
    pub fn chunks_mut(self, size: usize) -> Result<impl Iterator<Item = HostSliceMut<'a, T>>> {
        if size == 0 {
            return Err(Error::Empty { operation: "chunks_mut", what: "a chunk" });
        }
        let (allocation, end) = (self.allocation, self.range.end);
        Ok(self.range.step_by(size).map(move |start| {
            HostSliceMut::new(allocation, start..start.saturating_add(size).min(end))
        }))
    }

    /// Returns a part of the slice to copy from. `range` is in elements relative to its start.
    /// Fails with [`Error::OutOfRange`] if the range does not lie inside the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<HostSlice<'_, T>> {
        Ok(HostSlice::new(self.allocation, part(&self.range, range)?))
    }

    /// Returns the length in elements.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns a slice of elements that the caller has borrowed mutably for `'a`.
    pub(super) fn new(allocation: &'a Owned, range: Range<usize>) -> Self {
        Self { allocation, range, marker: PhantomData }
    }

    pub(super) fn into_slice_mut(self, range: impl RangeBounds<usize>) -> Result<Self> {
        Ok(Self::new(self.allocation, part(&self.range, range)?))
    }

    pub(super) fn into_mut_slice(self) -> Result<&'a mut [T]> {
        let range = bytes::<T>(&self.range);
        self.allocation.host_accesses(&range, true, "as_mut_slice")?;
        let first = self.allocation.pointer().wrapping_byte_add(range.start);
        // SAFETY: as in `HostSlice::as_slice`. In addition, no device reads the range, and `self`
        // is the only borrow of it for `'a`.
        Ok(unsafe { std::slice::from_raw_parts_mut(first.cast(), self.len()) })
    }

    pub(crate) fn region(&self) -> Region<'_> {
        self.allocation.region(bytes::<T>(&self.range))
    }
}

/// Host memory that a copy can read: `&HostBuffer<T>`, `&Registered<M>`,
/// [`HostSlice<T>`](HostSlice), `&HostSlice<T>`, or a reference to a
/// [`HostSliceMut<T>`](HostSliceMut).
///
/// The trait is sealed.
///
/// ```
/// use hccl::memory::HostSource;
/// # use hccl::prelude::*;
///
/// fn load(x: &mut DeviceBuffer<f32>, from: impl HostSource<f32>, on: &Stream) -> hccl::Result<Work> {
///     x.copy_from_host(from, on)
/// }
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let mut x = device.zeros::<f32>(2, &stream)?;
/// let host = runtime.host_buffer::<f32>(4)?;
/// load(&mut x, host.slice(..2)?, &stream)?;
/// # let host = runtime.host_buffer::<f32>(2)?;
/// load(&mut x, &host, &stream)?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a device cannot copy `{T}` elements from `{Self}`",
    note = "pass `&host` of a `HostBuffer`, or a part of it (`host.slice(a..b)?`); the elements of an ordinary slice are copied by `upload`"
)]
pub trait HostSource<T: Element>: sealed::Source {}

/// Host memory that a copy can write: `&mut HostBuffer<T>`, [`HostSliceMut<T>`](HostSliceMut),
/// `&mut HostSliceMut<T>`, or `&mut Registered<M>`.
///
/// The trait is sealed.
///
/// ```
/// use hccl::memory::HostDestination;
/// # use hccl::prelude::*;
///
/// fn save(x: &DeviceBuffer<f32>, to: impl HostDestination<f32>, on: &Stream) -> hccl::Result<Work> {
///     x.copy_to(to, on)
/// }
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let x = device.zeros::<f32>(2, &stream)?;
/// let mut host = runtime.host_buffer::<f32>(4)?;
/// save(&x, host.slice_mut(..2)?, &stream)?;
/// # let mut host = runtime.host_buffer::<f32>(2)?;
/// save(&x, &mut host, &stream)?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a device cannot copy `{T}` elements to `{Self}`",
    note = "pass `&mut host` of a `HostBuffer`, or a part of it (`host.slice_mut(a..b)?`); an ordinary slice is filled by `download_into`"
)]
pub trait HostDestination<T: Element>: sealed::HostDestination {}

macro_rules! source {
    ($($type:ty),*) => { $(
        impl<T: Element> sealed::Source for $type {
            fn region(&self) -> Region<'_> {
                (*self).region()
            }
        }
        impl<T: Element> HostSource<T> for $type {}
    )* };
}
source!(&HostBuffer<T>, &HostSlice<'_, T>, &HostSliceMut<'_, T>);

impl<T: Element> sealed::Source for HostSlice<'_, T> {
    fn region(&self) -> Region<'_> {
        HostSlice::region(self)
    }
}
impl<T: Element> HostSource<T> for HostSlice<'_, T> {}

macro_rules! destination {
    ($($type:ty),*) => { $(
        impl<T: Element> sealed::HostDestination for $type {
            fn region(&self) -> Region<'_> {
                (**self).region()
            }
        }
        impl<T: Element> HostDestination<T> for $type {}
    )* };
}
destination!(&mut HostBuffer<T>, &mut HostSliceMut<'_, T>);

impl<T: Element> sealed::HostDestination for HostSliceMut<'_, T> {
    fn region(&self) -> Region<'_> {
        HostSliceMut::region(self)
    }
}
impl<T: Element> HostDestination<T> for HostSliceMut<'_, T> {}

impl<T: Element> fmt::Debug for HostSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSlice<{}>({:?})", T::DTYPE, self.range)
    }
}

impl<T: Element> fmt::Debug for HostSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSliceMut<{}>({:?})", T::DTYPE, self.range)
    }
}
