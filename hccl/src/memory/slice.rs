//! Slices of device buffers.

#![forbid(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Range, RangeBounds};

use super::allocation::{Owned, Region};
use super::host_slice::{HostDestination, HostSource};
use super::{Download, DownloadInto, Source, transfer};
use crate::device::{Stream, StreamState};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::order::work::Work;

/// Some elements of a [`DeviceBuffer`](super::DeviceBuffer), to read.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let x = device.upload(&[1, 2, 3, 4], &stream)?;
/// let tail = x.slice(2..)?;
/// assert_eq!(tail.to_vec(&stream).wait()?, [3, 4]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct DeviceSlice<'a, T: Element> {
    allocation: &'a Owned,
    /// The range in elements of the allocation.
    range: Range<usize>,
    marker: PhantomData<&'a T>,
}

/// Some elements of a [`DeviceBuffer`](super::DeviceBuffer), to write. Disjoint slices may be used
/// at the same time, on different streams and threads, and do not wait for one another.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let mut x = device.zeros::<i32>(6, &stream)?;
/// for (number, mut part) in x.slice_mut(..)?.chunks_mut(2)?.enumerate() {
///     part.upload(&[number as i32; 2], &stream)?;
/// }
/// assert_eq!(x.to_vec(&stream).wait()?, [0, 0, 1, 1, 2, 2]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct DeviceSliceMut<'a, T: Element> {
    allocation: &'a Owned,
    /// The range in elements of the allocation.
    range: Range<usize>,
    marker: PhantomData<&'a mut T>,
}

/// Returns the part of `within` that `range` names. `range` is relative to the start of `within`.
pub(super) fn part(within: &Range<usize>, range: impl RangeBounds<usize>) -> Result<Range<usize>> {
    let length = within.end - within.start;
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&end) => end.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => length,
    };
    if start > end || end > length {
        return Err(Error::OutOfRange { range: start..end, length });
    }
    Ok(within.start + start..within.start + end)
}

pub(super) fn bytes<T>(range: &Range<usize>) -> Range<usize> {
    range.start * size_of::<T>()..range.end * size_of::<T>()
}

impl<'a, T: Element> DeviceSlice<'a, T> {
    /// Copies the slice to the host, as [`DeviceBuffer::to_vec`](super::DeviceBuffer::to_vec) does.
    pub fn to_vec(&self, stream: &Stream) -> Download<T> {
        Download::new("to_vec", &self.region(), stream)
    }

    /// Copies the elements to a slice of the host, of the same length, as
    /// [`DeviceBuffer::download_into`](super::DeviceBuffer::download_into) does.
    pub fn download_into<'d>(
        &self,
        destination: &'d mut [T],
        stream: &Stream,
    ) -> DownloadInto<'d, T> {
        DownloadInto::new(&self.region(), destination, stream)
    }

    /// Copies the elements to pinned or registered memory of the same length, as
    /// [`DeviceBuffer::copy_to`](super::DeviceBuffer::copy_to) does.
    pub fn copy_to(&self, host: impl HostDestination<T>, stream: &Stream) -> Result<Work> {
        transfer::copy_to_host::<T>(&self.region(), &host.region(), stream)
    }

    /// Returns a part of the slice. `range` is in elements relative to its start. Fails with
    /// [`Error::OutOfRange`] if the range does not lie inside the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'a, T>> {
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

    /// Returns the allocation and the range of the slice in it, in elements.
    pub(super) fn into_parts(self) -> (&'a Owned, Range<usize>) {
        (self.allocation, self.range)
    }

    #[inline]
    pub(crate) fn region(&self) -> Region<'_> {
        self.allocation.region(bytes::<T>(&self.range))
    }

    pub(super) fn into_region(self) -> Region<'a> {
        self.allocation.region(bytes::<T>(&self.range))
    }
}

impl<T: Element> Clone for DeviceSlice<'_, T> {
    fn clone(&self) -> Self {
        Self::new(self.allocation, self.range.clone())
    }
}

impl<'a, T: Element> DeviceSliceMut<'a, T> {
    /// Copies `data`, which must have the length of the slice, from the host, as
    /// [`DeviceBuffer::upload`](super::DeviceBuffer::upload) does.
    pub fn upload(&mut self, data: &[T], stream: &Stream) -> Result<Work> {
        transfer::upload("upload", &self.region(), data, stream)
    }

    /// Copies the elements of another buffer or slice of the same device to this slice, as
    /// [`DeviceBuffer::copy_from`](super::DeviceBuffer::copy_from) does.
    #[inline]
    pub fn copy_from<S: StreamState>(
        &mut self,
        source: impl Source<T>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        transfer::copy::<T, S>(&source.region(), &self.region(), stream)
    }

    /// Copies pinned or registered memory of the same length to this slice, as
    /// [`DeviceBuffer::copy_from_host`](super::DeviceBuffer::copy_from_host) does.
    pub fn copy_from_host(&mut self, host: impl HostSource<T>, stream: &Stream) -> Result<Work> {
        transfer::copy_from_host::<T>(&host.region(), &self.region(), stream)
    }

    /// Sets every byte to zero, as [`DeviceBuffer::fill_zero`](super::DeviceBuffer::fill_zero)
    /// does.
    #[inline]
    pub fn fill_zero<S: StreamState>(&mut self, stream: &Stream<S>) -> Result<S::Work> {
        transfer::fill_zero(&self.region(), stream)
    }

    /// Returns a part of the slice. `range` is in elements relative to its start. Fails with
    /// [`Error::OutOfRange`] if the range does not lie inside the slice.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        Ok(DeviceSliceMut::new(self.allocation, part(&self.range, range)?))
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
    pub fn chunks_mut(self, size: usize) -> Result<impl Iterator<Item = DeviceSliceMut<'a, T>>> {
        if size == 0 {
            return Err(Error::Empty { operation: "chunks_mut", what: "a chunk" });
        }
        let (allocation, end) = (self.allocation, self.range.end);
        Ok(self.range.step_by(size).map(move |start| {
            DeviceSliceMut::new(allocation, start..start.saturating_add(size).min(end))
        }))
    }

    /// Returns the same elements for reading, while `self` is borrowed.
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(self.allocation, self.range.clone())
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

    /// Returns the allocation and the range of the slice in it, in elements.
    pub(super) fn into_parts(self) -> (&'a Owned, Range<usize>) {
        (self.allocation, self.range)
    }

    #[inline]
    pub(crate) fn region(&self) -> Region<'_> {
        self.allocation.region(bytes::<T>(&self.range))
    }

    pub(super) fn into_region(self) -> Region<'a> {
        self.allocation.region(bytes::<T>(&self.range))
    }
}

impl<T: Element> fmt::Debug for DeviceSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSlice<{}>({:?})", T::DTYPE, self.range)
    }
}

impl<T: Element> fmt::Debug for DeviceSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSliceMut<{}>({:?})", T::DTYPE, self.range)
    }
}
