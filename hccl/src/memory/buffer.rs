//! Buffers: typed memory of a device.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::allocation::{Owned, Region, size_in_bytes};
use super::host_slice::{HostDestination, HostSource};
use super::slice::{bytes, part};
use super::{DeviceSlice, DeviceSliceMut, Download, DownloadInto, Source, transfer};
use crate::device::{Device, Stream, StreamState};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::order::work::Work;

/// The state of a buffer that has been written.
///
/// ```
/// use hccl::memory::{Init, Uninit};
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
///
/// let fresh: DeviceBuffer<f32, Uninit> = device.alloc(4)?;
/// let written: DeviceBuffer<f32, Init> = device.zeros(4, &stream)?; // the same as `DeviceBuffer<f32>`
/// # let _ = (fresh, written);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub enum Init {}

/// The state of a buffer fresh from [`Device::alloc`]: it can be written, but not read.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(2)?;
/// let gathered = runtime.run_ranks(2, |rank| {
///     let (device, mut comm) = (rank.device(), rank.communicator()?);
///     let stream = device.stream()?;
///     let own = device.upload(&[rank.index()], &stream)?;
///     let all: DeviceBuffer<u32, Uninit> = device.alloc(2)?; // not filled with zeros first
///     let (all, work) = comm.all_gather(&own, all, &stream)?; // comes back as `DeviceBuffer<u32>`
///     work.wait()?;
///     all.to_vec(&stream).wait()
/// })?;
/// assert_eq!(gathered, [[0, 1], [0, 1]]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Debug)]
pub enum Uninit {}

/// Elements in the memory of one device.
///
/// Reading and writing are operations on a stream of the same device. Dropping never blocks: memory
/// that an operation still uses is freed when the operation is complete.
///
/// ```
/// # fn main() -> hccl::Result<()> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// let device = runtime.device(0)?;
/// let stream = device.stream()?;
/// let mut x = device.upload(&[1.0_f32, 2.0, 3.0, 4.0], &stream)?;
/// let (mut left, right) = x.split_at_mut(2)?;
/// left.copy_from(&right.as_slice(), &stream)?;
/// assert_eq!(x.to_vec(&stream).wait()?, [3.0, 4.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
pub struct DeviceBuffer<T: Element, S = Init> {
    memory: Owned,
    len: usize,
    device: Device,
    marker: PhantomData<fn() -> (T, S)>,
}

impl<T: Element> DeviceBuffer<T, Uninit> {
    pub(crate) fn alloc(device: &Device, len: usize) -> Result<Self> {
        // CANN cannot allocate zero bytes, but it requires an address even for an empty buffer. So
        // an empty buffer gets one byte.
        let memory = Owned::device(device, size_in_bytes::<T>(len)?.max(1))?;
        Ok(Self { memory, len, device: device.clone(), marker: PhantomData })
    }

    /// Returns the buffer as written. The buffer was passed to an operation that writes all of it.
    pub(super) fn written(self) -> DeviceBuffer<T> {
        let Self { memory, len, device, .. } = self;
        DeviceBuffer { memory, len, device, marker: PhantomData }
    }
}

impl<T: Element> DeviceBuffer<T> {
    /// Copies `data` from the host to the buffer (`aclrtMemcpyAsync`). When the call returns,
    /// `data` has been read; the buffer is written later. Fails with [`Error::WrongLength`] if the
    /// lengths differ.
    pub fn upload(&mut self, data: &[T], stream: &Stream) -> Result<Work> {
        self.whole_mut().upload(data, stream)
    }

    /// Copies the elements to the host. Returns a future of a `Vec`. The copy is enqueued now; if
    /// that is refused, the future returns the error. The future also returns a failure of an
    /// earlier operation that the program has not seen. So it never returns bytes that a failed
    /// operation should have written.
    pub fn to_vec(&self, stream: &Stream) -> Download<T> {
        self.whole().to_vec(stream)
    }

    /// Copies the elements to a slice of the host, of the same length. Returns a future; code that
    /// is not asynchronous calls [`wait`](DownloadInto::wait).
    ///
    /// The copy is enqueued now; if that is refused, for example because the lengths differ
    /// ([`Error::WrongLength`]), the future returns the error. The device writes to a
    /// pinned block of the runtime. The data is copied to `destination` when the future is awaited.
    /// So a future that is dropped or forgotten leaves `destination` unchanged.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// # let runtime = hccl::Runtime::emulator(1)?;
    /// # let device = runtime.device(0)?;
    /// # let stream = device.stream()?;
    /// let x = device.upload(&[1.0_f32, 2.0, 3.0], &stream)?;
    /// let mut all = vec![0.0; 5];
    /// x.download_into(&mut all[1..4], &stream).wait()?; // or .await
    /// assert_eq!(all, [0.0, 1.0, 2.0, 3.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn download_into<'d>(
        &self,
        destination: &'d mut [T],
        stream: &Stream,
    ) -> DownloadInto<'d, T> {
        self.whole().download_into(destination, stream)
    }

    /// Copies the elements of another buffer or slice of the same device to this buffer
    /// (`aclrtMemcpyAsync`). Does not block. Fails with [`Error::WrongLength`] if the lengths
    /// differ, and with [`Error::Overlap`] if the two share memory, which only memory of other code
    /// can do.
    #[inline]
    pub fn copy_from<S: StreamState>(
        &mut self,
        source: impl Source<T>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        self.whole_mut().copy_from(source, stream)
    }

    /// Sets every byte to zero (`aclrtMemsetAsync`). Does not block.
    #[inline]
    pub fn fill_zero<S: StreamState>(&mut self, stream: &Stream<S>) -> Result<S::Work> {
        self.whole_mut().fill_zero(stream)
    }

    /// Copies the elements to pinned or registered memory (`aclrtMemcpyAsync`). `host` is a mutable
    /// reference to a [`HostBuffer`](super::HostBuffer) or to [`Registered`](super::Registered)
    /// memory, or a part of one of these. Fails with [`Error::WrongLength`] if the lengths differ.
    pub fn copy_to(&self, host: impl HostDestination<T>, stream: &Stream) -> Result<Work> {
        self.whole().copy_to(host, stream)
    }

    /// Copies pinned or registered memory to this buffer (`aclrtMemcpyAsync`). `host` is a
    /// reference to a [`HostBuffer`](super::HostBuffer) or to [`Registered`](super::Registered)
    /// memory, or a part of one of these. Fails with [`Error::WrongLength`] if the lengths differ.
    pub fn copy_from_host(&mut self, host: impl HostSource<T>, stream: &Stream) -> Result<Work> {
        self.whole_mut().copy_from_host(host, stream)
    }

    /// Returns the elements in `range`, for reading. Fails with [`Error::OutOfRange`] if the range
    /// does not lie inside the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        Ok(DeviceSlice::new(&self.memory, part(&(0..self.len), range)?))
    }

    /// Returns the elements in `range`, for writing. Fails with [`Error::OutOfRange`] if the range
    /// does not lie inside the buffer.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        Ok(DeviceSliceMut::new(&self.memory, part(&(0..self.len), range)?))
    }

    /// Splits the buffer, for writing, into the first `mid` elements and the rest. Fails with
    /// [`Error::OutOfRange`] if `mid` is greater than the length.
    pub fn split_at_mut(
        &mut self,
        mid: usize,
    ) -> Result<(DeviceSliceMut<'_, T>, DeviceSliceMut<'_, T>)> {
        self.slice_mut(..)?.split_at_mut(mid)
    }

    /// Wraps device memory of other code, for example of a training framework. This crate never
    /// frees it. For memory of the host, see [`HostMemory`](super::HostMemory).
    ///
    /// # Safety
    /// `pointer` is device memory of `device` for `len` elements, aligned for `T`. The memory stays
    /// allocated until every operation that uses the buffer is complete, and until every
    /// [`Graph`](crate::Graph) that captured such an operation is dropped. Meanwhile no other code
    /// uses the memory, unless events order its operations with those of this crate.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if `len` is not 0 and the pointer is null or is not aligned for `T`.
    /// [`Error::TooLarge`] if the elements have more than `isize::MAX` bytes.
    pub unsafe fn from_raw(device: &Device, pointer: *mut c_void, len: usize) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len)?;
        let wrong = match pointer {
            _ if len == 0 => None,
            pointer if pointer.is_null() => Some(format!(
                "the pointer is null, but len is {len}: pass device memory, or a len of 0"
            )),
            pointer if !pointer.cast::<T>().is_aligned() => {
                let align = align_of::<T>();
                Some(format!(
                    "pointer {pointer:p} is not a multiple of {align}, the type's alignment: pass an \
                     aligned pointer"
                ))
            }
            _ => None,
        };
        if let Some(problem) = wrong {
            let operation = "DeviceBuffer::from_raw";
            return Err(Error::Invalid { operation, problem: problem.into() });
        }
        let memory = Owned::foreign(device, pointer, bytes);
        Ok(Self { memory, len, device: device.clone(), marker: PhantomData })
    }

    /// Splits the buffer into its parts.
    pub(super) fn into_parts(self) -> (Owned, usize, Device) {
        (self.memory, self.len, self.device)
    }

    /// Makes a buffer of memory that holds `len` elements of type `T`.
    pub(super) fn from_parts(memory: Owned, len: usize, device: Device) -> Self {
        Self { memory, len, device, marker: PhantomData }
    }

    pub(super) fn whole(&self) -> DeviceSlice<'_, T> {
        DeviceSlice::new(&self.memory, 0..self.len)
    }

    pub(super) fn whole_mut(&mut self) -> DeviceSliceMut<'_, T> {
        DeviceSliceMut::new(&self.memory, 0..self.len)
    }
}

impl<T: Element, S> DeviceBuffer<T, S> {
    /// Returns the length in elements. It may be 0: an empty buffer can be used in operations like
    /// any other buffer.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device that has the memory.
    pub fn device(&self) -> &Device {
        &self.device
    }

    #[inline]
    pub(crate) fn region(&self) -> Region<'_> {
        self.memory.region(0..self.len * size_of::<T>())
    }

    /// Returns the device address, for foreign code. Getting the address is safe, but using it is
    /// not: this crate does not wait for operations that other code enqueues.
    pub fn as_ptr(&self) -> *mut c_void {
        self.memory.pointer()
    }
}

impl Device {
    /// Allocates memory for `len` elements, with unspecified contents (`aclrtMalloc`). Blocks only
    /// if the device is full and dropped memory is still in use.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T, Uninit>> {
        DeviceBuffer::alloc(self, len)
    }

    /// Allocates a buffer of `len` elements and sets them to zero on `stream`.
    pub fn zeros<T: Element>(&self, len: usize, stream: &Stream) -> Result<DeviceBuffer<T>> {
        let buffer = self.alloc::<T>(len)?;
        transfer::fill_zero(&buffer.region(), stream)?;
        Ok(buffer.written())
    }

    /// Allocates a buffer and copies `data` to it on `stream`. When the call returns, `data` has
    /// been read; the buffer is written later.
    pub fn upload<T: Element>(&self, data: &[T], stream: &Stream) -> Result<DeviceBuffer<T>> {
        let buffer = self.alloc::<T>(data.len())?;
        transfer::upload("upload", &buffer.region(), data, stream)?;
        Ok(buffer.written())
    }
}

impl<T: Element, S> fmt::Debug for DeviceBuffer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = bytes::<T>(&(0..self.len));
        write!(f, "DeviceBuffer<{}>({} elements, {} bytes)", T::DTYPE, self.len, range.end)
    }
}
