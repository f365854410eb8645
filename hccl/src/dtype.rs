//! The element types of buffers, and their reductions. Use the traits in generic code, and
//! [`DType`] for a type that is known at run time only. A program whose types are fixed needs just
//! the names of the reductions.
//!
//! The compiler checks that HCCL moves a type ([`Element`]), and that at least one product reduces
//! the type with the given operation ([`Reduce`]). Whether the product in use supports the
//! reduction is checked when the operation is issued, before CANN is called. For example, only the
//! Ascend 950 reduces `u64` and `f64`.
//!
//! | | `i8` `i32` `i64` `f16` `f32` | `i16` `bf16` | `u64` `f64` | `u8` `u16` `u32` |
//! |---|---|---|---|---|
//! | [`Sum`] [`Max`] [`Min`] | all products | all products | 950 | does not compile |
//! | [`Prod`] | all products | does not compile | 950 | does not compile |
//! | moved (broadcast, send, receive) | all products | all products | all products | all products |
//!
//! A type that is known at run time only is a [`DType`], for which [`DType::is_reduced_by`] makes
//! the same check as [`Reduce`]. HCCL moves 8-bit floats as [bytes](fp8).

pub mod fp8;

use std::fmt;

pub use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A type that HCCL can move between devices.
///
/// Every bit pattern of an element is a valid value. So a buffer whose contents are unspecified,
/// for example after a failed operation, still holds valid elements. The trait is sealed, because
/// CANN defines the list of types.
///
/// ```
/// use hccl::prelude::*;
///
/// /// Works for any element type.
/// fn ones<T: Element + From<u8>>(device: &Device, on: &Stream) -> hccl::Result<DeviceBuffer<T>> {
///     device.upload(&[T::from(1); 4], on)
/// }
/// # let runtime = Runtime::emulator(1)?;
/// # let device = runtime.device(0)?;
/// # let stream = device.stream()?;
/// assert_eq!(ones::<f64>(&device, &stream)?.to_vec(&stream).wait()?, [1.0; 4]);
/// assert_eq!(f32::DTYPE.name(), "f32");
/// # Ok::<(), hccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type of HCCL",
    label = "a device buffer cannot hold `{Self}`",
    note = "elements are i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, hccl::f16 and hccl::bf16",
    note = "a `bool` travels as u8, a `usize` as u64, a struct as one buffer for each of its fields"
)]
pub trait Element:
    sealed::Sealed + Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static
{
    /// The type as a value.
    const DTYPE: DType;
}

/// A reduction, which combines elements: one of [`Sum`], [`Prod`], [`Max`], [`Min`].
///
/// The trait is sealed, because CANN defines the list of reductions.
///
/// ```
/// use hccl::dtype::{ReduceKind, ReduceOp};
/// use hccl::prelude::*;
///
/// fn name<Op: ReduceOp>(_: Op) -> &'static str {
///     Op::KIND.name()
/// }
/// assert_eq!((name(Sum), Max::KIND), ("sum", ReduceKind::Max));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reduction",
    label = "expected one of `Sum`, `Prod`, `Max`, `Min`",
    note = "pass the unit struct itself: `comm.all_reduce(&x, &mut y, Sum, &stream)`"
)]
pub trait ReduceOp: sealed::Sealed + Copy + Default + fmt::Debug + Send + Sync + 'static {
    /// The reduction as a value.
    const KIND: ReduceKind;
}

/// An element type that at least one Ascend product reduces with `Op`.
///
/// Whether the product in use reduces the type is checked when an operation is issued. See the
/// table of the [module](self).
///
/// ```
/// use hccl::prelude::*;
///
/// /// Averages over the ranks, for every type that can be summed and divided.
/// fn mean<T: Reduce<Sum> + std::ops::Div<Output = T>>(
///     x: &mut DeviceBuffer<T>,
///     ranks: T,
///     comm: &mut Communicator,
///     on: &Stream,
/// ) -> hccl::Result<Vec<T>> {
///     comm.all_reduce_in_place(&mut *x, Sum, on)?;
///     Ok(x.to_vec(on).wait()?.into_iter().map(|sum| sum / ranks).collect())
/// }
/// # let runtime = Runtime::emulator(2)?;
/// # let means = runtime.run_ranks(2, |rank| {
/// #     let stream = rank.device().stream()?;
/// #     let mut x = rank.device().upload(&[rank.index() as f32], &stream)?;
/// #     mean(&mut x, 2.0, &mut rank.communicator()?, &stream)
/// # })?;
/// # assert_eq!(means, [[0.5], [0.5]]);
/// # Ok::<(), hccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "no Ascend product reduces `{Self}` with `{Op}`",
    label = "`{Self}` cannot be reduced with `{Op}`",
    note = "`Sum`, `Max` and `Min` take i8, i16, i32, i64, u64, f16, bf16, f32 and f64; `Prod` takes these without i16 and bf16",
    note = "convert before reducing, for example u8, u16 or i16 to i32, u32 to i64, bf16 to f32"
)]
pub trait Reduce<Op: ReduceOp>: Element {}

macro_rules! elements {
    ($($rust:ty, $name:ident, $code:literal, $bytes:literal, $text:literal;)*) => {
        /// The type of an element as a value, for messages and for code that learns the type at run
        /// time.
        ///
        /// ```
        /// use hccl::dtype::{DType, ReduceKind};
        ///
        /// let dtype = DType::from_name("bf16").expect("HCCL has it");
        /// assert_eq!((dtype, dtype.size()), (DType::BF16, 2));
        /// assert!(dtype.is_reduced_by(ReduceKind::Sum) && !dtype.is_reduced_by(ReduceKind::Prod));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum DType {
            $(#[doc = concat!("`", $text, "`. Size in bytes: ", stringify!($bytes), ".")] $name,)*
        }

        impl DType {
            /// Every type, in the order of CANN's numbers.
            pub const ALL: &'static [DType] = &[$(DType::$name,)*];

            /// Returns the size of one element in bytes.
            pub const fn size(self) -> usize {
                match self { $(DType::$name => $bytes,)* }
            }

            /// Returns the number of whole elements in `bytes` bytes. It shifts, because sizes are
            /// powers of two and a division by a variable is slow.
            #[inline]
            pub(crate) const fn elements(self, bytes: usize) -> usize {
                bytes >> self.size().trailing_zeros()
            }

            /// Returns whether this is a floating-point type, whose sums and products are rounded.
            pub(crate) const fn is_float(self) -> bool {
                matches!(self, DType::F16 | DType::F32 | DType::F64 | DType::BF16)
            }

            /// Returns CANN's number for the type (`HcclDataType`).
            pub const fn code(self) -> u32 {
                match self { $(DType::$name => $code,)* }
            }

            /// Returns the name of the Rust type, for example "f32".
            pub const fn name(self) -> &'static str {
                match self { $(DType::$name => $text,)* }
            }

            /// Returns the type with this [name](Self::name), or `None` if there is none.
            pub fn from_name(name: &str) -> Option<DType> {
                match name { $($text => Some(DType::$name),)* _ => None }
            }
        }

        $(
            const _: () = assert!(size_of::<$rust>() == $bytes && size_of::<$rust>().is_power_of_two());
            impl sealed::Sealed for $rust {}
            impl Element for $rust {
                const DTYPE: DType = DType::$name;
            }
        )*
    };
}

elements! {
    i8, I8, 0, 1, "i8";
    i16, I16, 1, 2, "i16";
    i32, I32, 2, 4, "i32";
    f16, F16, 3, 2, "f16";
    f32, F32, 4, 4, "f32";
    i64, I64, 5, 8, "i64";
    u64, U64, 6, 8, "u64";
    u8, U8, 7, 1, "u8";
    u16, U16, 8, 2, "u16";
    u32, U32, 9, 4, "u32";
    f64, F64, 10, 8, "f64";
    bf16, BF16, 11, 2, "bf16";
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! reductions {
    ($($name:ident, $code:literal, $text:literal, $doc:literal, $example:literal;)*) => {
        /// A reduction as a value, for messages and for code that learns the reduction at run time.
        ///
        /// ```
        /// use hccl::dtype::ReduceKind;
        ///
        /// let names: Vec<_> = ReduceKind::ALL.iter().map(|kind| kind.name()).collect();
        /// assert_eq!(names, ["sum", "prod", "max", "min"]);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ReduceKind {
            $(#[doc = $doc] $name,)*
        }

        impl ReduceKind {
            /// Every reduction, in the order of CANN's numbers.
            pub const ALL: &'static [ReduceKind] = &[$(ReduceKind::$name,)*];

            /// Returns CANN's number for the reduction (`HcclReduceOp`).
            pub const fn code(self) -> u32 {
                match self { $(ReduceKind::$name => $code,)* }
            }

            /// Returns the name of the reduction in lower case.
            pub const fn name(self) -> &'static str {
                match self { $(ReduceKind::$name => $text,)* }
            }
        }

        $(
            #[doc = $doc]
            ///
            /// ```
            /// use hccl::prelude::*;
            ///
            /// # let runtime = Runtime::emulator(2)?;
            /// let values = runtime.run_ranks(2, |rank| {
            ///     let stream = rank.device().stream()?;
            ///     let mut x = rank.device().upload(&[rank.index() as f32 + 2.0], &stream)?;
            #[doc = concat!("    rank.communicator()?.all_reduce_in_place(&mut x, ", stringify!($name), ", &stream)?;")]
            ///     x.to_vec(&stream).wait()
            /// })?;
            #[doc = concat!("assert_eq!(values, [[", $example, "], [", $example, "]]); // of 2.0 and 3.0")]
            /// # Ok::<(), hccl::Error>(())
            /// ```
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct $name;
            impl sealed::Sealed for $name {}
            impl ReduceOp for $name {
                const KIND: ReduceKind = ReduceKind::$name;
            }
        )*
    };
}

reductions! {
    Sum, 0, "sum", "The sum over the ranks. Integers wrap around.", "5.0";
    Prod, 1, "prod", "The product over the ranks. Integers wrap around.", "6.0";
    Max, 2, "max", "The greatest value of any rank.", "3.0";
    Min, 3, "min", "The least value of any rank.", "2.0";
}

impl fmt::Display for ReduceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! reduces {
    ($($op:ident: $($element:ty)*;)*) => {
        $($(impl Reduce<$op> for $element {})*)*

        impl DType {
            /// Returns whether at least one Ascend product reduces elements of this type with this
            /// reduction. This is [`Reduce`] for a type that is known at run time only.
            pub const fn is_reduced_by(self, kind: ReduceKind) -> bool {
                match kind {
                    $(ReduceKind::$op => {
                        $(self.code() == <$element as Element>::DTYPE.code())||*
                    })*
                }
            }
        }
    };
}

reduces! {
    Sum: i8 i16 i32 i64 u64 f16 bf16 f32 f64;
    Max: i8 i16 i32 i64 u64 f16 bf16 f32 f64;
    Min: i8 i16 i32 i64 u64 f16 bf16 f32 f64;
    Prod: i8 i32 i64 u64 f16 f32 f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_cann() {
        let codes: Vec<u32> = DType::ALL.iter().map(|d| d.code()).collect();
        assert_eq!(codes, (0..12).collect::<Vec<u32>>());
        let codes: Vec<u32> = ReduceKind::ALL.iter().map(|d| d.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3]);
    }

    #[test]
    fn a_type_is_reduced_at_run_time_as_the_table_says() {
        for dtype in DType::ALL.iter().copied() {
            let [sum, prod, max, min] =
                [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min]
                    .map(|kind| dtype.is_reduced_by(kind));
            let is_plain = matches!(dtype, DType::U8 | DType::U16 | DType::U32);
            assert_eq!((sum, max, min), (!is_plain, !is_plain, !is_plain), "{dtype}");
            assert_eq!(prod, !is_plain && !matches!(dtype, DType::I16 | DType::BF16), "{dtype}");
        }
    }

    #[test]
    fn names_are_those_of_rust() {
        for dtype in DType::ALL.iter().copied() {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::from_name("F32"), None);
        assert_eq!(<bf16 as Element>::DTYPE.to_string(), "bf16");
        assert_eq!(Prod::KIND.to_string(), "prod");
    }
}
