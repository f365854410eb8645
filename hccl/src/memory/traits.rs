//! The sources and destinations of operations.

#![forbid(unsafe_code)]

use std::fmt;

use super::allocation::Region;
use super::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Uninit};
use crate::device::{Open, StreamState};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::order::work::Work;

pub(crate) mod sealed {
    use super::*;

    /// The part of a source that only the crate uses.
    pub trait Source {
        fn region(&self) -> Region<'_>;
    }

    /// The part of a destination on the host that only the crate uses.
    pub trait HostDestination {
        fn region(&self) -> Region<'_>;
    }

    /// The part of a destination that only the crate uses. After a call, `finish` returns the
    /// destination to the caller.
    pub trait Destination<S: StreamState = Open>: Sized {
        /// Whether the destination was never written. Then an operation must write all of it.
        const FRESH: bool;
        type Output;
        type Optional;
        type Error: From<Error>;
        fn region(&self) -> Region<'_>;
        /// Turns the outcome of a call into the value that the call returns.
        fn finish(self, outcome: Result<S::Work>) -> Result<Self::Output, Self::Error>;
        /// Does the same as [`finish`](Self::finish) for a rank that may have no destination.
        fn finish_optional(
            this: Option<Self>,
            outcome: Result<S::Work>,
        ) -> Result<Self::Optional, Self::Error>;
    }
}

/// A source that is borrowed for longer than one call. Sealed like [`Source`].
pub trait Lend<'a>: sealed::Source {
    /// Returns its region, which stays borrowed for `'a`.
    #[doc(hidden)]
    fn lend(self) -> Region<'a>;
}

/// A destination that is borrowed for longer than one call. Sealed like [`Destination`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent to a batch or a group",
    note = "pass `&mut buffer` or a slice of it (`buffer.slice_mut(a..b)?`); a buffer fresh \
            from `alloc` cannot be returned from here: make it with `zeros`"
)]
pub trait LendMut<'a>: sealed::Destination {
    /// Returns its region, which stays borrowed for `'a`.
    #[doc(hidden)]
    fn lend(self) -> Region<'a>;
}

impl<'a, T: Element> Lend<'a> for &'a DeviceBuffer<T> {
    fn lend(self) -> Region<'a> {
        DeviceBuffer::region(self)
    }
}
impl<'a, T: Element> Lend<'a> for &'a DeviceSlice<'_, T> {
    fn lend(self) -> Region<'a> {
        DeviceSlice::region(self)
    }
}
impl<'a, T: Element> Lend<'a> for DeviceSlice<'a, T> {
    fn lend(self) -> Region<'a> {
        self.into_region()
    }
}
impl<'a, T: Element> LendMut<'a> for &'a mut DeviceBuffer<T> {
    fn lend(self) -> Region<'a> {
        DeviceBuffer::region(self)
    }
}
impl<'a, T: Element> LendMut<'a> for &'a mut DeviceSliceMut<'_, T> {
    fn lend(self) -> Region<'a> {
        DeviceSliceMut::region(self)
    }
}
impl<'a, T: Element> LendMut<'a> for DeviceSliceMut<'a, T> {
    fn lend(self) -> Region<'a> {
        self.into_region()
    }
}

/// Device memory that an operation can read: `&DeviceBuffer<T>`, [`DeviceSlice<T>`](DeviceSlice) or
/// `&DeviceSlice<T>`.
///
/// The trait is sealed.
///
/// ```
/// use hccl::prelude::*;
///
/// /// Takes a whole buffer or a part of one.
/// fn total(x: impl Source<f32>, comm: &mut Communicator, on: &Stream) -> hccl::Result<Vec<f32>> {
///     let mut sum = on.device().zeros::<f32>(x.len(), on)?;
///     comm.all_reduce(x, &mut sum, Sum, on)?;
///     sum.to_vec(on).wait()
/// }
/// # let runtime = Runtime::emulator(2)?;
/// # let sums = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let x = rank.device().upload(&[1.0, 2.0], &stream)?;
/// #     let mut comm = rank.communicator()?;
/// #     total(&x, &mut comm, &stream)?;
/// #     total(x.slice(1..)?, &mut comm, &stream)
/// # })?;
/// # assert_eq!(sums, [[4.0], [4.0]]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "an operation cannot read `{T}` elements from `{Self}`",
    note = "pass `&buffer` or a slice of it (`buffer.slice(a..b)?`); memory that was never written (`Uninit`) cannot be read"
)]
pub trait Source<T: Element>: sealed::Source {
    /// Returns the length in elements.
    fn len(&self) -> usize {
        sealed::Source::region(self).bytes() / size_of::<T>()
    }

    /// Returns whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Device memory that an operation can write: `&mut DeviceBuffer<T>`,
/// [`DeviceSliceMut<T>`](DeviceSliceMut), `&mut DeviceSliceMut<T>`, or a `DeviceBuffer<T, Uninit>`
/// by value. The call returns this buffer as `DeviceBuffer<T>`, together with the [`Work`].
///
/// The trait is sealed.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// runtime.run_ranks(1, |rank| {
///     let (device, mut comm) = (rank.device(), rank.communicator()?);
///     let stream = device.stream()?;
///     let x = device.upload(&[1, 2], &stream)?;
///     let mut y = device.zeros::<i32>(4, &stream)?;
///     comm.all_reduce(&x, y.slice_mut(..2)?, Sum, &stream)?; // a part
///     let (z, work) = comm.all_reduce(&x, device.alloc(2)?, Sum, &stream)?; // a fresh buffer
///     let mut z: DeviceBuffer<i32> = z;
///     comm.all_reduce(&x, &mut z, Sum, &stream)?.wait() // a whole buffer
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "an operation cannot write `{T}` elements to `{Self}`",
    note = "pass `&mut buffer`, a slice of it (`buffer.slice_mut(a..b)?`), or, on a stream that does not record, a buffer fresh from `alloc` by value"
)]
pub trait Destination<T: Element, S: StreamState = Open>:
    sealed::Destination<
        S,
        Output = <Self as Destination<T, S>>::Output,
        Optional = <Self as Destination<T, S>>::Optional,
        Error = <Self as Destination<T, S>>::Error,
    >
{
    /// The result of a call that writes here: [`Work`] ([`Captured`](crate::device::Captured) on a
    /// stream that records), or `(DeviceBuffer<T>, Work)` for a buffer that was passed by value.
    type Output;
    /// The result of a call that writes here on one rank only: [`Work`]
    /// ([`Captured`](crate::device::Captured) on a stream that records), or
    /// `(Option<DeviceBuffer<T>>, Work)` for a buffer that was passed by value.
    type Optional;
    /// The error of a refused call: [`Error`], or [`Refused`] with the buffer that was passed by
    /// value.
    type Error: From<Error>;
}

/// The error of a refused call, with the buffer that was passed to the call by value.
///
/// ```
/// use hccl::prelude::*;
///
/// # let runtime = Runtime::emulator(1)?;
/// runtime.run_ranks(1, |rank| {
///     let (device, mut comm) = (rank.device(), rank.communicator()?);
///     let stream = device.stream()?;
///     let x = device.upload(&[1, 2], &stream)?;
///     let refused = comm.all_reduce(&x, device.alloc(3)?, Sum, &stream).unwrap_err();
///     eprintln!("{}", refused.error); // 2 elements do not fit 3
///     let fresh = refused.buffer.expect("the call had taken it");
///     assert_eq!(fresh.len(), 3);
///     Ok::<_, hccl::Error>(())
/// })?;
/// # Ok::<(), hccl::Error>(())
/// ```
pub struct Refused<T: Element> {
    /// The error of the call.
    pub error: Error,
    /// The buffer, if the call had taken one.
    pub buffer: Option<DeviceBuffer<T, Uninit>>,
}

impl<T: Element> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Self {
        refused.error
    }
}

impl<T: Element> From<Error> for Refused<T> {
    fn from(error: Error) -> Self {
        Refused { error, buffer: None }
    }
}

impl<T: Element> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The readable text of the error, because `unwrap` prints it.
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<T: Element> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

// The text is the text of `error`, so the source is the source of `error` too.
impl<T: Element> std::error::Error for Refused<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<T: Element> sealed::Source for &DeviceBuffer<T> {
    #[inline]
    fn region(&self) -> Region<'_> {
        DeviceBuffer::region(self)
    }
}
impl<T: Element> Source<T> for &DeviceBuffer<T> {}

impl<T: Element> sealed::Source for DeviceSlice<'_, T> {
    #[inline]
    fn region(&self) -> Region<'_> {
        DeviceSlice::region(self)
    }
}
impl<T: Element> Source<T> for DeviceSlice<'_, T> {}

impl<T: Element> sealed::Source for &DeviceSlice<'_, T> {
    #[inline]
    fn region(&self) -> Region<'_> {
        DeviceSlice::region(self)
    }
}
impl<T: Element> Source<T> for &DeviceSlice<'_, T> {}

/// Implements the common part of destinations whose elements have been written before.
macro_rules! written {
    () => {
        const FRESH: bool = false;
        type Output = S::Work;
        type Optional = S::Work;
        type Error = Error;
        #[inline]
        fn finish(self, outcome: Result<S::Work>) -> Result<S::Work> {
            outcome
        }
        #[inline]
        fn finish_optional(_: Option<Self>, outcome: Result<S::Work>) -> Result<S::Work> {
            outcome
        }
    };
}

macro_rules! destination {
    ($($type:ty),*) => {
        $(
            impl<T: Element, S: StreamState> sealed::Destination<S> for $type {
                written!();
                #[inline]
                fn region(&self) -> Region<'_> {
                    (**self).region()
                }
            }
            impl<T: Element, S: StreamState> Destination<T, S> for $type {
                type Output = S::Work;
                type Optional = S::Work;
                type Error = Error;
            }
        )*
    };
}
destination!(&mut DeviceBuffer<T>, &mut DeviceSliceMut<'_, T>);

impl<T: Element, S: StreamState> sealed::Destination<S> for DeviceSliceMut<'_, T> {
    written!();
    #[inline]
    fn region(&self) -> Region<'_> {
        DeviceSliceMut::region(self)
    }
}
impl<T: Element, S: StreamState> Destination<T, S> for DeviceSliceMut<'_, T> {
    type Output = S::Work;
    type Optional = S::Work;
    type Error = Error;
}

impl<T: Element> sealed::Destination for DeviceBuffer<T, Uninit> {
    const FRESH: bool = true;
    type Output = (DeviceBuffer<T>, Work);
    type Optional = (Option<DeviceBuffer<T>>, Work);
    type Error = Refused<T>;
    #[inline]
    fn region(&self) -> Region<'_> {
        DeviceBuffer::region(self)
    }
    #[inline]
    fn finish(self, outcome: Result<Work>) -> Result<(DeviceBuffer<T>, Work), Refused<T>> {
        match outcome {
            Ok(work) => Ok((self.written(), work)),
            Err(error) => Err(Refused { error, buffer: Some(self) }),
        }
    }
    #[inline]
    fn finish_optional(
        this: Option<Self>,
        outcome: Result<Work>,
    ) -> Result<(Option<DeviceBuffer<T>>, Work), Refused<T>> {
        match outcome {
            Ok(work) => Ok((this.map(DeviceBuffer::written), work)),
            Err(error) => Err(Refused { error, buffer: this }),
        }
    }
}
impl<T: Element> Destination<T> for DeviceBuffer<T, Uninit> {
    type Output = (DeviceBuffer<T>, Work);
    type Optional = (Option<DeviceBuffer<T>>, Work);
    type Error = Refused<T>;
}
