//! Registered memory: memory of the program that devices copy to and from directly.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::allocation::{Owned, Region};
use super::host_slice::{HostDestination, HostSlice, HostSliceMut, HostSource};
use super::traits::sealed;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::runtime::Runtime;

/// Memory that can be [registered](Runtime::register): `Vec<T>`, `Box<[T]>`, `Arc<[T]>`, or the
/// storage of a tensor library, whose adapter implements this trait once. Using an implementation
/// is safe.
///
/// The value is dropped when no device uses its memory any more. A later call that issues an
/// operation, allocates memory, or drops an object drops the value, on the thread of that call. A
/// panic of this drop is caught.
///
/// This trait is for host memory. For memory and streams of a device that other code made, there
/// are [`DeviceBuffer::from_raw`](crate::DeviceBuffer::from_raw) and
/// [`Stream::from_raw`](crate::Stream::from_raw).
///
/// # Safety
///
/// From the call of [`memory`](Self::memory) until the value is dropped, this must hold for the
/// slice that the call returns:
///
/// * it stays allocated and at the same address, even if the value is moved;
/// * its elements are initialised, and it is valid for reads through the pointer;
/// * no code writes to it, except `hccl` if the type implements [`HostMemoryMut`].
///
/// ```
/// use std::ptr::NonNull;
/// use std::sync::Arc;
///
/// use hccl::memory::HostMemory;
///
/// /// A tensor whose storage is shared. Nobody writes to the storage while it is shared.
/// struct Tensor {
///     storage: Arc<Vec<f32>>,
/// }
///
/// // SAFETY: the elements are on the heap, initialised, and stay there while there is an owner; nobody
/// // writes to a shared storage.
/// unsafe impl HostMemory for Tensor {
///     type Element = f32;
///     fn memory(&mut self) -> NonNull<[f32]> {
///         NonNull::from(self.storage.as_slice())
///     }
/// }
///
/// # fn main() -> hccl::Result<()> {
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let storage = Arc::new(vec![0.5; 3000]);
/// let lent = runtime.register(Tensor { storage: storage.clone() })?;
/// let mut x = device.zeros::<f32>(3000, &stream)?;
/// x.copy_from_host(&lent, &stream)?;
/// assert_eq!(x.to_vec(&stream).wait()?, *storage);
/// # Ok(())
/// # }
/// ```
pub unsafe trait HostMemory: Send + 'static {
    /// The type of its elements.
    type Element: Element;

    /// Returns the elements. Called once.
    fn memory(&mut self) -> NonNull<[Self::Element]>;
}

/// Memory that devices can copy from and to: `Vec<T>` and `Box<[T]>`.
///
/// # Safety
///
/// The slice of [`HostMemory::memory`] is valid for writes through the pointer too. Until the value
/// is dropped, no other code reads or writes it.
///
/// ```
/// use hccl::memory::HostMemoryMut;
/// # use hccl::prelude::*;
///
/// /// Fills memory of the program from a device.
/// fn fetch<M: HostMemoryMut>(
///     x: &DeviceBuffer<M::Element>,
///     into: &mut Registered<M>,
///     on: &Stream,
/// ) -> hccl::Result<Work> {
///     x.copy_to(into, on)
/// }
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// # let x = device.upload(&[1, 2], &stream)?;
/// let mut memory = runtime.register(vec![0; 2])?;
/// fetch(&x, &mut memory, &stream)?;
/// assert_eq!(memory.as_slice()?, [1, 2]); // waits for the copy
/// # Ok::<(), hccl::Error>(())
/// ```
pub unsafe trait HostMemoryMut: HostMemory {}

// SAFETY: a vector that nobody changes keeps its elements initialised and at the same address.
unsafe impl<T: Element> HostMemory for Vec<T> {
    type Element = T;
    fn memory(&mut self) -> NonNull<[T]> {
        NonNull::from(self.as_mut_slice())
    }
}
// SAFETY: the value is the only owner of its elements.
unsafe impl<T: Element> HostMemoryMut for Vec<T> {}

// SAFETY: the same argument as for `Vec<T>`.
unsafe impl<T: Element> HostMemory for Box<[T]> {
    type Element = T;
    fn memory(&mut self) -> NonNull<[T]> {
        NonNull::from(&mut **self)
    }
}
// SAFETY: the value is the only owner of its elements.
unsafe impl<T: Element> HostMemoryMut for Box<[T]> {}

// SAFETY: the elements stay at the same address while there is an owner, and nobody writes to the
// elements of a shared `Arc`.
unsafe impl<T: Element> HostMemory for Arc<[T]> {
    type Element = T;
    fn memory(&mut self) -> NonNull<[T]> {
        NonNull::from(&**self)
    }
}

/// Registered memory of the program. Devices copy to and from it directly, as with a
/// [`HostBuffer`](super::HostBuffer). [`Runtime::register`] makes it.
///
/// [`into_inner`](Self::into_inner) returns the memory when no device uses it any more. If you drop
/// the `Registered` instead, the memory is kept until no device uses it, and is then dropped. Copy
/// the memory, or [parts](Self::slice) of it, with [`copy_to`](crate::DeviceBuffer::copy_to) and
/// [`copy_from_host`](crate::DeviceBuffer::copy_from_host).
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// let x = device.upload(&[1.0_f32; 1000], &stream)?;
/// let mut memory = runtime.register(vec![0.0_f32; 2000])?;
/// x.copy_to(memory.slice_mut(1000..)?, &stream)?;
/// let memory: Vec<f32> = memory.into_inner()?; // waits for the copy
/// assert_eq!(memory[999..1001], [0.0, 1.0]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Registered<M: HostMemory> {
    memory: Owned,
    len: usize,
    marker: PhantomData<fn() -> M>,
}

/// The error of a call that was refused or has failed, with the value that the call had taken.
///
/// ```
/// use hccl::dtype::DType;
/// # use hccl::prelude::*;
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
///
/// let x = device.dynamic_zeros(DType::I32, 4, &stream)?;
/// let refused = x.into_typed::<f32>().unwrap_err();
/// eprintln!("{}", refused.error);
/// let x = refused.value; // the buffer, as it was
/// assert_eq!(x.dtype(), DType::I32);
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct GivenBack<V> {
    /// The error of the call.
    pub error: Error,
    /// The value that the call had taken.
    pub value: V,
}

impl<M: HostMemory> Registered<M> {
    /// Blocks until no device uses the memory any more, up to the runtime's deadline, and returns
    /// the memory (`aclrtHostUnregister`). If each [`Work`](crate::Work) that uses the memory is
    /// complete, this returns at once. So an async task should await each `Work` first.
    ///
    /// # Errors
    ///
    /// The memory stays registered and is returned with the error. If a copy to the memory, or an
    /// operation before that copy, has failed and the program has not seen the failure, the error
    /// is that failure. A second call then returns the memory, with unspecified contents.
    #[allow(clippy::result_large_err, reason = "the memory comes back, and it is called seldom")]
    pub fn into_inner(self) -> Result<M, GivenBack<Self>> {
        if let Err(error) = self.memory.host_accesses(&self.memory.all(), true, "into_inner") {
            return Err(GivenBack { error, value: self });
        }
        match self.memory.unregister() {
            Ok(owner) => match owner.map(|owner| owner.downcast::<M>()) {
                Some(Ok(memory)) => Ok(*memory),
                _ => unreachable!("it was registered with its owner, which is taken once"),
            },
            Err((error, memory)) => {
                Err(GivenBack { error, value: Self { memory, len: self.len, marker: PhantomData } })
            }
        }
    }

    /// Returns the elements. Blocks until no device writes them, and returns an error if that takes
    /// longer than the runtime's deadline. If a copy to the elements, or an operation before that
    /// copy, has failed and the program has not seen the failure, returns the failure.
    pub fn as_slice(&self) -> Result<&[M::Element]> {
        self.whole().as_slice()
    }

    /// Returns the elements in `range`, to copy from or to read. Fails with [`Error::OutOfRange`]
    /// if the range does not lie inside the memory.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<HostSlice<'_, M::Element>> {
        self.whole().slice(range)
    }

    /// Returns the length in elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn whole(&self) -> HostSlice<'_, M::Element> {
        HostSlice::new(&self.memory, 0..self.len)
    }
}

impl<M: HostMemoryMut> Registered<M> {
    /// Returns the elements for writing. Blocks until no device reads or writes them, up to the
    /// runtime's deadline. Returns the failures that [`as_slice`](Self::as_slice) returns.
    pub fn as_mut_slice(&mut self) -> Result<&mut [M::Element]> {
        self.whole_mut().into_mut_slice()
    }

    /// Returns the elements in `range`, to copy to or to write. Fails with [`Error::OutOfRange`] if
    /// the range does not lie inside the memory.
    pub fn slice_mut(
        &mut self,
        range: impl RangeBounds<usize>,
    ) -> Result<HostSliceMut<'_, M::Element>> {
        self.whole_mut().into_slice_mut(range)
    }

    fn whole_mut(&mut self) -> HostSliceMut<'_, M::Element> {
        HostSliceMut::new(&self.memory, 0..self.len)
    }
}

impl Runtime {
    /// Registers memory of the program (`aclrtHostRegister`), so that devices copy to and from it
    /// directly. The memory may be a `Vec<T>`, a `Box<[T]>`, or an `Arc<[T]>`, which devices can
    /// only copy from.
    ///
    /// The memory need not be aligned. The backend registers whole pages of 4 KiB. At either end,
    /// less than 4 KiB may share a page with other memory. These bytes are copied through pinned
    /// memory, as [`upload`](crate::DeviceBuffer::upload) copies its data, in the same order on the
    /// stream. So memory of less than a page gains nothing from being registered. Registering costs
    /// system calls, so use it for memory that is copied more than once.
    ///
    /// # Errors
    ///
    /// The memory is returned with the error:
    ///
    /// * [`Error::MissingSymbol`] if the backend cannot register memory (CANN can from 8.5.0 on).
    /// * [`Error::Call`] if the backend refuses. Its code is 507910 if a page is registered
    ///   already, for example by another owner of the same `Arc`.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// # let runtime = hccl::Runtime::emulator(1)?;
    /// # let device = runtime.device(0)?;
    /// # let stream = device.stream()?;
    /// let mut mine = runtime.register(vec![1.0_f32; 10_000])?;
    /// let mut x = device.zeros::<f32>(10_000, &stream)?;
    /// x.copy_from_host(&mine, &stream)?;
    /// x.slice(..5)?.copy_to(mine.slice_mut(5..10)?, &stream)?;
    /// mine.as_mut_slice()?[0] = 2.0; // waits for both
    /// let mine: Vec<f32> = mine.into_inner()?;
    /// assert_eq!(mine[..2], [2.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn register<M: HostMemory>(&self, memory: M) -> Result<Registered<M>, GivenBack<M>> {
        // Boxed first, so that the value does not move after it has returned its elements.
        let mut owner = Box::new(memory);
        let slice = owner.memory();
        // SAFETY: the implementation of the trait guarantees the contract, and the registration
        // keeps the owner.
        match unsafe { self.register_slice(slice) } {
            Ok(mut memory) => {
                memory.keep(owner);
                Ok(Registered { memory, len: slice.len(), marker: PhantomData })
            }
            Err(error) => Err(GivenBack { error, value: *owner }),
        }
    }

    /// Registers borrowed memory while `scope` runs, so that devices copy from `data` directly.
    ///
    /// When `scope` returns or panics, the call blocks until no device uses `data` any more. As
    /// with [`std::thread::scope`], no deadline ends that wait, because the caller may use the
    /// memory afterwards. The wait logs a warning at each [deadline](Runtime::deadline), and it
    /// ends when the copies have completed or failed. `scope` is a closure because a guard could be
    /// forgotten. In all other respects this is like [`register`](Self::register).
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// # let runtime = hccl::Runtime::emulator(1)?;
    /// # let device = runtime.device(0)?;
    /// # let stream = device.stream()?;
    /// let data = [7_i32; 5000];
    /// let mut x = device.zeros::<i32>(5000, &stream)?;
    /// runtime.lend(&data, |data| x.copy_from_host(data, &stream))?;
    /// assert_eq!(x.to_vec(&stream).wait()?, data);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lend<T: Element, R>(
        &self,
        data: &[T],
        scope: impl FnOnce(HostSlice<'_, T>) -> Result<R>,
    ) -> Result<R> {
        // SAFETY: the slice is borrowed until the guard has ended the registration, and only read,
        // as a `HostSlice` is.
        let lent = Lent::new(unsafe { self.register_slice(NonNull::from(data)) }?);
        let outcome = scope(HostSlice::new(lent.memory(), 0..data.len()))?;
        lent.end().map(|()| outcome)
    }

    /// Registers borrowed memory as [`lend`](Self::lend) does. Devices can also copy to `data`.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// # let runtime = hccl::Runtime::emulator(1)?;
    /// # let device = runtime.device(0)?;
    /// # let stream = device.stream()?;
    /// let x = device.upload(&[1_u8, 2, 3], &stream)?;
    /// let mut data = vec![0_u8; 100_000];
    /// runtime.lend_mut(&mut data, |mut data| {
    ///     x.copy_to(data.slice_mut(50_000..50_003)?, &stream)
    /// })?;
    /// assert_eq!(data[50_000..50_004], [1, 2, 3, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lend_mut<T: Element, R>(
        &self,
        data: &mut [T],
        scope: impl FnOnce(HostSliceMut<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let len = data.len();
        // SAFETY: the slice is borrowed mutably until the guard has ended the registration.
        let lent = Lent::new(unsafe { self.register_slice(NonNull::from(data)) }?);
        let outcome = scope(HostSliceMut::new(lent.memory(), 0..len))?;
        lent.end().map(|()| outcome)
    }

    /// Registers a slice.
    ///
    /// # Safety
    /// As for [`Owned::registered`].
    unsafe fn register_slice<T: Element>(&self, slice: NonNull<[T]>) -> Result<Owned> {
        let bytes = slice.len() * size_of::<T>();
        // SAFETY: the caller keeps the same contract.
        unsafe { Owned::registered(&self.some_device()?, slice.as_ptr().cast(), bytes) }
    }
}

/// Borrowed memory that is registered. Its drop blocks until no device uses the memory.
struct Lent(Option<Owned>);

impl Lent {
    fn new(memory: Owned) -> Self {
        Lent(Some(memory))
    }

    fn memory(&self) -> &Owned {
        match &self.0 {
            Some(memory) => memory,
            None => unreachable!("only a drop takes it"),
        }
    }

    /// Blocks until no device uses the memory. Then returns a failure of an operation that has
    /// written the memory, if the program has not seen the failure yet.
    fn end(self) -> Result<()> {
        self.wait();
        self.memory().take_unseen(&self.memory().all())
    }

    fn wait(&self) {
        /// The pause between two waits. A wait may fail at once, for example because another rank
        /// has failed.
        const PAUSE: Duration = Duration::from_millis(20);
        let (memory, all) = (self.memory(), self.memory().all());
        while let Err(error) = memory.host_waits(&all, true, "lend") {
            if error.is_timeout() {
                tracing::warn!("memory that was lent is still in use: {error}");
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.wait();
        let Some(memory) = self.0.take() else { return };
        if let Err((error, memory)) = memory.unregister() {
            // The pages stay registered.
            tracing::warn!(
                "memory could not be unregistered, so its pages stay registered: {error}"
            );
            memory.abandon();
        }
    }
}

impl<M: HostMemory> sealed::Source for &Registered<M> {
    fn region(&self) -> Region<'_> {
        self.memory.region(self.memory.all())
    }
}
impl<M: HostMemory> HostSource<M::Element> for &Registered<M> {}

impl<M: HostMemoryMut> sealed::HostDestination for &mut Registered<M> {
    fn region(&self) -> Region<'_> {
        self.memory.region(self.memory.all())
    }
}
impl<M: HostMemoryMut> HostDestination<M::Element> for &mut Registered<M> {}

impl<M: HostMemory> fmt::Debug for Registered<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered<{}>({} elements)", M::Element::DTYPE, self.len)
    }
}

impl<V> From<GivenBack<V>> for Error {
    fn from(given_back: GivenBack<V>) -> Self {
        given_back.error
    }
}

impl<V> fmt::Debug for GivenBack<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The readable text of the error, because `unwrap` prints it.
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<V> fmt::Display for GivenBack<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

// The text is the text of `error`, so the source is the source of `error` too.
impl<V> std::error::Error for GivenBack<V> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}
