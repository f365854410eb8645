//! Copies of arrays of the `ndarray` crate to a device and back.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ndarray::{Array, ArrayBase, Data, Dimension, Shape, ShapeBuilder};

use super::allocation::Region;
use super::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Download, transfer};
use crate::device::{Device, Stream};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::order::work::Work;

impl Device {
    /// Allocates a buffer and copies an array to it, in row-major order whatever the layout of the
    /// array. When the call returns, the array has been read; the buffer is written later.
    pub fn upload_array<T, S, D>(
        &self,
        array: &ArrayBase<S, D>,
        stream: &Stream,
    ) -> Result<DeviceBuffer<T>>
    where
        T: Element,
        S: Data<Elem = T>,
        D: Dimension,
    {
        let buffer = self.alloc::<T>(array.len())?;
        upload(&buffer.region(), array, stream)?;
        Ok(buffer.written())
    }
}

/// Copies an array to device memory of the same number of elements, in row-major order.
fn upload<T, S, D>(
    destination: &Region<'_>,
    array: &ArrayBase<S, D>,
    stream: &Stream,
) -> Result<Work>
where
    T: Element,
    S: Data<Elem = T>,
    D: Dimension,
{
    let operation = "upload_array";
    transfer::check_length::<T>(operation, "the array", destination, array.len())?;
    if let Some(data) = array.as_slice() {
        return transfer::upload(operation, destination, data, stream);
    }
    transfer::upload_with(operation, destination, stream, |block: *mut T| {
        for (at, &value) in array.iter().enumerate() {
            // SAFETY: the block has room for the destination's elements, which are as many as the
            // array's.
            unsafe { block.add(at).write(value) };
        }
    })
}

impl<T: Element> DeviceBuffer<T> {
    /// Copies an array to the buffer, which must have the same number of elements, in row-major
    /// order whatever the layout of the array. When the call returns, the array has been read; the
    /// buffer is written later.
    pub fn upload_array<S, D>(&mut self, array: &ArrayBase<S, D>, stream: &Stream) -> Result<Work>
    where
        S: Data<Elem = T>,
        D: Dimension,
    {
        self.whole_mut().upload_array(array, stream)
    }

    /// Copies the elements to the host. Returns a future of an array of this shape, which must have
    /// as many elements as the buffer. Otherwise the future returns [`Error::WrongLength`], or
    /// [`Error::Invalid`] if the shape has more elements than an address space holds.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// # let runtime = hccl::Runtime::emulator(1)?;
    /// # let device = runtime.device(0)?;
    /// # let stream = device.stream()?;
    /// let x = device.upload_array(&ndarray::array![[1, 2, 3], [4, 5, 6]].t(), &stream)?;
    /// assert_eq!(x.to_array((3, 2), &stream).wait()?, ndarray::array![[1, 4], [2, 5], [3, 6]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_array<Sh>(&self, shape: Sh, stream: &Stream) -> DownloadArray<T, Sh::Dim>
    where
        Sh: ShapeBuilder,
    {
        self.whole().to_array(shape, stream)
    }
}

impl<T: Element> DeviceSlice<'_, T> {
    /// Copies the slice to the host, into an array of this shape, as
    /// [`DeviceBuffer::to_array`](super::DeviceBuffer::to_array) does.
    pub fn to_array<Sh>(&self, shape: Sh, stream: &Stream) -> DownloadArray<T, Sh::Dim>
    where
        Sh: ShapeBuilder,
    {
        DownloadArray::new(&self.region(), shape, stream)
    }
}

impl<T: Element> DeviceSliceMut<'_, T> {
    /// Copies an array to the slice, which must have the same number of elements, as
    /// [`DeviceBuffer::upload_array`](super::DeviceBuffer::upload_array) does.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// # let runtime = hccl::Runtime::emulator(1)?;
    /// # let device = runtime.device(0)?;
    /// # let stream = device.stream()?;
    /// // Two matrices in one buffer, the second one transposed.
    /// let mut both = device.zeros::<i32>(8, &stream)?;
    /// let (mut first, mut second) = both.split_at_mut(4)?;
    /// let a = ndarray::array![[1, 2], [3, 4]];
    /// first.upload_array(&a, &stream)?;
    /// second.upload_array(&a.t(), &stream)?;
    /// assert_eq!(both.to_vec(&stream).wait()?, [1, 2, 3, 4, 1, 3, 2, 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upload_array<S, D>(&mut self, array: &ArrayBase<S, D>, stream: &Stream) -> Result<Work>
    where
        S: Data<Elem = T>,
        D: Dimension,
    {
        upload(&self.region(), array, stream)
    }
}

/// A copy to the host that has been enqueued and becomes an array. It is a future of the array;
/// code that is not asynchronous calls [`wait`](Self::wait).
///
/// ```
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let x = device.upload_array(&ndarray::array![[1, 2], [3, 4]], &stream)?;
/// let download = x.to_array((2, 2), &stream); // the copy is on its way
/// // ... other work ...
/// assert_eq!(download.wait()?, ndarray::array![[1, 2], [3, 4]]); // or `.await`
/// # Ok::<(), hccl::Error>(())
/// ```
#[must_use = "the data is lost unless the download is awaited"]
pub struct DownloadArray<T: Element, D: Dimension> {
    download: Download<T>,
    shape: Shape<D>,
}

impl<T: Element, D: Dimension> DownloadArray<T, D> {
    pub(super) fn new<Sh>(source: &Region<'_>, shape: Sh, stream: &Stream) -> Self
    where
        Sh: ShapeBuilder<Dim = D>,
    {
        let shape = shape.into_shape_with_order();
        let operation = "to_array";
        let expected = source.bytes() / size_of::<T>();
        let download = match shape.raw_dim().size_checked() {
            Some(found) if found == expected => Download::new(operation, source, stream),
            Some(found) => {
                let what = "the shape";
                Download::refused(
                    operation,
                    Error::WrongLength { operation, what, expected, found },
                )
            }
            None => {
                let lengths = shape.raw_dim().slice();
                let problem = format!(
                    "the shape {lengths:?} has more elements than an address space holds: use a \
                     smaller shape"
                );
                let error = Error::Invalid { operation, problem: problem.into() };
                Download::refused(operation, error)
            }
        };
        Self { download, shape }
    }

    /// Blocks until the copy is complete, up to the runtime's deadline, and returns the array.
    pub fn wait(self) -> Result<Array<T, D>> {
        shaped(self.shape, self.download.wait()?)
    }
}

fn shaped<T, D: Dimension>(shape: Shape<D>, data: Vec<T>) -> Result<Array<T, D>> {
    Array::from_shape_vec(shape, data).map_err(|error| Error::Invalid {
        operation: "to_array",
        problem: error.to_string().into(),
    })
}

impl<T: Element, D: Dimension + Unpin> Future for DownloadArray<T, D> {
    type Output = Result<Array<T, D>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let data = ready!(Pin::new(&mut self.download).poll(cx))?;
        Poll::Ready(shaped(self.shape.clone(), data))
    }
}
