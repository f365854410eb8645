//! Device memory whose element type is known only at run time.

#![forbid(unsafe_code)]

use std::fmt;
use std::ops::{Range, RangeBounds};

use super::allocation::{Owned, Region};
use super::slice::part;
use super::{DeviceBuffer, DeviceSlice, DeviceSliceMut, GivenBack};
use crate::device::{Device, Stream};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};

/// Elements in the memory of one device, whose type is known only at run time, for example from a
/// file or a message.
///
/// [`Communicator::dynamic`](crate::Communicator::dynamic) has the collectives for it. Copy it as
/// [bytes](Self::bytes), or as elements once their type is known ([`typed`](Self::typed)). [`From`]
/// converts a [`DeviceBuffer`] to a `DynBuffer`, and [`into_typed`](Self::into_typed) converts it
/// back.
///
/// ```
/// use hccl::DynBuffer;
/// use hccl::dtype::DType;
///
/// # fn main() -> hccl::Result<()> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let dtype = DType::from_name("f32").unwrap_or(DType::U8);
/// let mut x = device.dynamic_zeros(dtype, 2, &stream)?;
/// x.bytes_mut().upload(&[0, 0, 128, 63, 0, 0, 0, 64], &stream)?;
/// assert_eq!(x.typed::<f32>()?.to_vec(&stream).wait()?, [1.0, 2.0]);
/// assert!(x.typed::<i32>().is_err());
/// # Ok(())
/// # }
/// ```
pub struct DynBuffer {
    memory: Owned,
    dtype: DType,
    len: usize,
    device: Device,
}

/// Some elements of a [`DynBuffer`] or of a [`DeviceBuffer`], to read.
///
/// ```
/// use hccl::dtype::DType;
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
///
/// let x = device.dynamic_zeros(DType::I64, 8, &stream)?;
/// let half = x.slice(4..)?;
/// assert_eq!((half.dtype(), half.len(), half.bytes().len()), (DType::I64, 4, 32));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
pub struct DynSlice<'a> {
    allocation: &'a Owned,
    dtype: DType,
    /// The range in elements of the allocation.
    range: Range<usize>,
}

/// Some elements of a [`DynBuffer`] or of a [`DeviceBuffer`], to write.
///
/// ```
/// use hccl::dtype::DType;
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
///
/// let mut x = device.dynamic_zeros(DType::I32, 4, &stream)?;
/// x.slice_mut(1..3)?.into_typed::<i32>()?.upload(&[5, 6], &stream)?;
/// assert_eq!(x.typed::<i32>()?.to_vec(&stream).wait()?, [0, 5, 6, 0]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct DynSliceMut<'a> {
    allocation: &'a Owned,
    dtype: DType,
    /// The range in elements of the allocation.
    range: Range<usize>,
}

impl Device {
    /// Allocates a buffer of `len` elements of type `dtype`, and sets all its bytes to zero on
    /// `stream`.
    pub fn dynamic_zeros(&self, dtype: DType, len: usize, stream: &Stream) -> Result<DynBuffer> {
        let bytes = len.checked_mul(dtype.size());
        let bytes = bytes.ok_or(Error::TooLarge { elements: len, element: dtype.size() })?;
        let (memory, _, device) = self.zeros::<u8>(bytes, stream)?.into_parts();
        Ok(DynBuffer { memory, dtype, len, device })
    }
}

impl DynBuffer {
    /// Returns the elements, for reading. Fails with [`Error::WrongType`] if `T` is not their type.
    pub fn typed<T: Element>(&self) -> Result<DeviceSlice<'_, T>> {
        DynSlice::from(self).typed()
    }

    /// Returns the elements, for writing. Fails with [`Error::WrongType`] if `T` is not their type.
    pub fn typed_mut<T: Element>(&mut self) -> Result<DeviceSliceMut<'_, T>> {
        DynSliceMut::from(self).typed_as("typed_mut")
    }

    /// Returns the buffer with the element type `T`. If its elements have another type, the buffer
    /// is returned with the error.
    #[allow(clippy::result_large_err, reason = "the buffer comes back, and it is called seldom")]
    pub fn into_typed<T: Element>(self) -> Result<DeviceBuffer<T>, GivenBack<Self>> {
        match check_type::<T>("into_typed", self.dtype) {
            Ok(()) => Ok(DeviceBuffer::from_parts(self.memory, self.len, self.device)),
            Err(error) => Err(GivenBack { error, value: self }),
        }
    }

    /// Returns the elements in `range`, for reading. Fails with [`Error::OutOfRange`] if the range
    /// does not lie inside the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DynSlice<'_>> {
        DynSlice::from(self).slice(range)
    }

    /// Returns the elements in `range`, for writing. Fails with [`Error::OutOfRange`] if the range
    /// does not lie inside the buffer.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DynSliceMut<'_>> {
        DynSliceMut::from(self).into_slice_mut(range)
    }

    /// Returns the bytes of the elements, for reading.
    pub fn bytes(&self) -> DeviceSlice<'_, u8> {
        DynSlice::from(self).bytes()
    }

    /// Returns the bytes of the elements, for writing.
    pub fn bytes_mut(&mut self) -> DeviceSliceMut<'_, u8> {
        DynSliceMut::from(self).into_bytes()
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the length in elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the device that has the memory.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

fn check_type<T: Element>(operation: &'static str, found: DType) -> Result<()> {
    let expected = T::DTYPE;
    if expected == found {
        return Ok(());
    }
    Err(Error::WrongType { operation, what: "the buffer", expected, found })
}

impl<'a> DynSlice<'a> {
    /// Returns the elements, for reading. Fails with [`Error::WrongType`] if `T` is not their type.
    pub fn typed<T: Element>(&self) -> Result<DeviceSlice<'a, T>> {
        check_type::<T>("typed", self.dtype)?;
        Ok(DeviceSlice::new(self.allocation, self.range.clone()))
    }

    /// Returns the bytes of the elements, for reading.
    pub fn bytes(&self) -> DeviceSlice<'a, u8> {
        DeviceSlice::new(self.allocation, in_bytes(&self.range, self.dtype))
    }

    /// Returns a part of the slice. `range` is in elements relative to its start. Fails with
    /// [`Error::OutOfRange`] if the range does not lie inside the slice.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<DynSlice<'a>> {
        Ok(DynSlice { range: part(&self.range, range)?, ..*self })
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the length in elements.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    pub(crate) fn region(&self) -> Region<'a> {
        self.allocation.region(in_bytes(&self.range, self.dtype))
    }
}

impl<'a> DynSliceMut<'a> {
    /// Returns the elements, for writing. Fails with [`Error::WrongType`] if `T` is not their type.
    pub fn into_typed<T: Element>(self) -> Result<DeviceSliceMut<'a, T>> {
        self.typed_as("into_typed")
    }

    fn typed_as<T: Element>(self, operation: &'static str) -> Result<DeviceSliceMut<'a, T>> {
        check_type::<T>(operation, self.dtype)?;
        Ok(DeviceSliceMut::new(self.allocation, self.range))
    }

    /// Returns the bytes of the elements, for writing.
    pub fn into_bytes(self) -> DeviceSliceMut<'a, u8> {
        DeviceSliceMut::new(self.allocation, in_bytes(&self.range, self.dtype))
    }

    /// Returns a part of the slice. `range` is in elements relative to its start. Fails with
    /// [`Error::OutOfRange`] if the range does not lie inside the slice.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<DynSliceMut<'_>> {
        DynSliceMut::from(self).into_slice_mut(range)
    }

    /// Returns the same elements for reading, while `self` is borrowed.
    pub fn as_slice(&self) -> DynSlice<'_> {
        DynSlice { allocation: self.allocation, dtype: self.dtype, range: self.range.clone() }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the length in elements.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    fn into_slice_mut(self, range: impl RangeBounds<usize>) -> Result<Self> {
        Ok(DynSliceMut { range: part(&self.range, range)?, ..self })
    }

    pub(crate) fn region(&self) -> Region<'a> {
        self.allocation.region(in_bytes(&self.range, self.dtype))
    }
}

/// Converts a range of elements to a range of bytes. The range lies inside an allocation, so the
/// product does not overflow.
fn in_bytes(range: &Range<usize>, dtype: DType) -> Range<usize> {
    range.start * dtype.size()..range.end * dtype.size()
}

impl<T: Element> From<DeviceBuffer<T>> for DynBuffer {
    fn from(buffer: DeviceBuffer<T>) -> Self {
        let (memory, len, device) = buffer.into_parts();
        DynBuffer { memory, dtype: T::DTYPE, len, device }
    }
}

impl<'a> From<&'a DynBuffer> for DynSlice<'a> {
    fn from(buffer: &'a DynBuffer) -> Self {
        DynSlice { allocation: &buffer.memory, dtype: buffer.dtype, range: 0..buffer.len }
    }
}

impl<'a> From<&DynSlice<'a>> for DynSlice<'a> {
    fn from(slice: &DynSlice<'a>) -> Self {
        slice.clone()
    }
}

impl<'a, T: Element> From<&'a DeviceBuffer<T>> for DynSlice<'a> {
    fn from(buffer: &'a DeviceBuffer<T>) -> Self {
        buffer.whole().into()
    }
}

impl<'a, T: Element> From<DeviceSlice<'a, T>> for DynSlice<'a> {
    fn from(slice: DeviceSlice<'a, T>) -> Self {
        let (allocation, range) = slice.into_parts();
        DynSlice { allocation, dtype: T::DTYPE, range }
    }
}

impl<'a> From<&'a mut DynBuffer> for DynSliceMut<'a> {
    fn from(buffer: &'a mut DynBuffer) -> Self {
        DynSliceMut { allocation: &buffer.memory, dtype: buffer.dtype, range: 0..buffer.len }
    }
}

impl<'a> From<&'a mut DynSliceMut<'_>> for DynSliceMut<'a> {
    fn from(slice: &'a mut DynSliceMut<'_>) -> Self {
        DynSliceMut { range: slice.range.clone(), ..*slice }
    }
}

impl<'a, T: Element> From<&'a mut DeviceBuffer<T>> for DynSliceMut<'a> {
    fn from(buffer: &'a mut DeviceBuffer<T>) -> Self {
        buffer.whole_mut().into()
    }
}

impl<'a, T: Element> From<DeviceSliceMut<'a, T>> for DynSliceMut<'a> {
    fn from(slice: DeviceSliceMut<'a, T>) -> Self {
        let (allocation, range) = slice.into_parts();
        DynSliceMut { allocation, dtype: T::DTYPE, range }
    }
}

macro_rules! debug {
    ($($name:ident $(<$life:lifetime>)?;)*) => { $(
        impl fmt::Debug for $name$(<$life>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "<{}>({} elements)"), self.dtype, self.len())
            }
        }
    )* };
}
debug! { DynBuffer; DynSlice<'_>; DynSliceMut<'_>; }
