//! Memory of a device.

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

/// The state of a buffer fresh from [`Device::alloc`]: it can be written, not read.
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
        // CANN allocates no less than a byte; an empty buffer has an address all the same, which
        // CANN asks for.
        let memory = Owned::device(device, size_in_bytes::<T>(len)?.max(1))?;
        Ok(Self { memory, len, device: device.clone(), marker: PhantomData })
    }

    /// It has been handed to an operation that writes all of it.
    pub(super) fn written(self) -> DeviceBuffer<T> {
        let Self { memory, len, device, .. } = self;
        DeviceBuffer { memory, len, device, marker: PhantomData }
    }
}

impl<T: Element> DeviceBuffer<T> {
    /// Copies from the host; `data` must have the buffer's length. `data` is copied when the call
    /// returns, the buffer is written later (`aclrtMemcpyAsync`).
    pub fn upload(&mut self, data: &[T], stream: &Stream) -> Result<Work> {
        self.whole_mut().upload(data, stream)
    }

    /// Copies to the host: a future that gives a `Vec`. The copy is enqueued now; if that is
    /// refused, the future says so. It also tells a failure that nobody has seen of what came
    /// before the copy, so that it never gives bytes that a failed operation should have written.
    pub fn to_vec(&self, stream: &Stream) -> Download<T> {
        self.whole().to_vec(stream)
    }

    /// Copies to the host, into a slice of the same length: a future, with
    /// [`wait`](DownloadInto::wait).
    ///
    /// The copy is enqueued now; if that is refused, the future says so. The device writes to a
    /// pinned block of the runtime, and the data moves to `destination` when the future is awaited,
    /// so a future that is dropped or forgotten leaves `destination` as it was.
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

    /// Copies from another buffer or slice of the same device; lengths must be equal
    /// (`aclrtMemcpyAsync`).
    #[inline]
    pub fn copy_from<S: StreamState>(
        &mut self,
        source: impl Source<T>,
        stream: &Stream<S>,
    ) -> Result<S::Work> {
        self.whole_mut().copy_from(source, stream)
    }

    /// Sets every byte to zero (`aclrtMemsetAsync`).
    #[inline]
    pub fn fill_zero<S: StreamState>(&mut self, stream: &Stream<S>) -> Result<S::Work> {
        self.whole_mut().fill_zero(stream)
    }

    /// Copies to pinned memory of the same length (`aclrtMemcpyAsync`): `&mut` of a
    /// [`HostBuffer`](super::HostBuffer), or a part of one.
    pub fn copy_to(&self, host: impl HostDestination<T>, stream: &Stream) -> Result<Work> {
        self.whole().copy_to(host, stream)
    }

    /// Copies from pinned memory of the same length (`aclrtMemcpyAsync`): a reference to a
    /// [`HostBuffer`](super::HostBuffer), or a part of one.
    pub fn copy_from_host(&mut self, host: impl HostSource<T>, stream: &Stream) -> Result<Work> {
        self.whole_mut().copy_from_host(host, stream)
    }

    /// Elements `range`, to read. A range that is not inside is an error.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DeviceSlice<'_, T>> {
        Ok(DeviceSlice::new(&self.memory, part(&(0..self.len), range)?))
    }

    /// Elements `range`, to write. A range that is not inside is an error.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DeviceSliceMut<'_, T>> {
        Ok(DeviceSliceMut::new(&self.memory, part(&(0..self.len), range)?))
    }

    /// Two parts to write: the first `mid` elements and the rest.
    pub fn split_at_mut(
        &mut self,
        mid: usize,
    ) -> Result<(DeviceSliceMut<'_, T>, DeviceSliceMut<'_, T>)> {
        self.slice_mut(..)?.split_at_mut(mid)
    }

    /// Memory of somebody else, for example of a training framework. It is never freed here. For
    /// memory of the host see [`HostMemory`](super::HostMemory).
    ///
    /// # Safety
    /// `pointer` is device memory of `device` for `len` elements, aligned for `T`. It stays
    /// allocated until every operation that was given the buffer is complete, and every
    /// [`Graph`](crate::Graph) that captured one is dropped; nobody else uses it meanwhile (or is
    /// ordered with those operations by events).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a null pointer with elements, and one that is not aligned for them;
    /// an error for more bytes than any memory has.
    pub unsafe fn from_raw(device: &Device, pointer: *mut c_void, len: usize) -> Result<Self> {
        let bytes = size_in_bytes::<T>(len)?;
        let wrong = match pointer {
            _ if len == 0 => None,
            pointer if pointer.is_null() => {
                Some(format!("the pointer is null, for {len} elements"))
            }
            pointer if !pointer.cast::<T>().is_aligned() => {
                let align = align_of::<T>();
                Some(format!("the pointer {pointer:p} is no multiple of {align}, as elements need"))
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

    /// Its parts.
    pub(super) fn into_parts(self) -> (Owned, usize, Device) {
        (self.memory, self.len, self.device)
    }

    /// Memory that holds so many elements of the type.
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
    /// Length in elements. May be 0: an empty buffer takes part in operations like any other.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device whose memory it is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    #[inline]
    pub(crate) fn region(&self) -> Region<'_> {
        self.memory.region(0..self.len * size_of::<T>())
    }

    /// The device address, for foreign code. Reading it is safe, using it is not: operations that
    /// this crate does not know of are not waited for.
    pub fn as_ptr(&self) -> *mut c_void {
        self.memory.pointer()
    }
}

impl Device {
    /// Memory for `len` elements. Its contents are unspecified (`aclrtMalloc`). Blocks only when
    /// the device is full of memory that was dropped while in use.
    pub fn alloc<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T, Uninit>> {
        DeviceBuffer::alloc(self, len)
    }

    /// A buffer of `len` zeros.
    pub fn zeros<T: Element>(&self, len: usize, stream: &Stream) -> Result<DeviceBuffer<T>> {
        let buffer = self.alloc::<T>(len)?;
        transfer::fill_zero(&buffer.region(), stream)?;
        Ok(buffer.written())
    }

    /// A buffer with a copy of `data`, which is copied when the call returns.
    pub fn upload<T: Element>(&self, data: &[T], stream: &Stream) -> Result<DeviceBuffer<T>> {
        let buffer = self.alloc::<T>(data.len())?;
        transfer::upload(&buffer.region(), data, stream)?;
        Ok(buffer.written())
    }
}

impl<T: Element, S> fmt::Debug for DeviceBuffer<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = bytes::<T>(&(0..self.len));
        write!(f, "DeviceBuffer<{}>({} elements, {} bytes)", T::DTYPE, self.len, range.end)
    }
}
