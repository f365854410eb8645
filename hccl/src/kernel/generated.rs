//! The items that the generated code of the macros refers to.

use std::marker::PhantomData;

pub use std::borrow::Cow;

pub use ascend_program::Mix;
pub use ascend_program::layout::{
    Field, Item, Layout, Message, Role, field_problem, promise_problem, size_problem, tail_problem,
};
pub use core;

pub use super::control::First;
pub use super::record::OpenCall;
pub use super::symbol::{At, Symbolic, structs};
pub use super::tensor::Argument;
pub use super::tiling::range::{RangeBounds, RangeOf, Reader, reader};
pub use super::tiling::{FieldType, Tiling};
use super::value::Recordable;
use super::{RecordError, Recorded, control, record as recorder};
pub use crate::Result;

/// The result of recording a kernel with tiling argument `T`.
pub type RecordResult<T> = std::result::Result<Recorded<T>, RecordError>;

/// Returns the place of the caller in the source.
#[track_caller]
pub fn here() -> &'static std::panic::Location<'static> {
    std::panic::Location::caller()
}

/// Records the beginning of a call of the function `function`, which has `#[kernel(inline)]`. The
/// call ends when the result is dropped.
#[track_caller]
pub fn call(function: &str, doc: &str) -> OpenCall {
    OpenCall::begin(function, doc, std::panic::Location::caller())
}

/// Records a kernel whose first argument is a `K`.
pub fn record<K: First>(
    (name, doc): (&str, &str),
    mix: Mix,
    here: &'static std::panic::Location<'static>,
    kernel: impl FnOnce(u64, K),
) -> RecordResult<K::Tiling> {
    let program = recorder::record(name, mix, here, |recording| {
        control::declare::<K::Tiling>(recording, doc, here);
        kernel(recording, K::first(recording));
    })?;
    Ok(Recorded::new(program))
}

/// A binding that can have a name in the program. The compiler prefers this trait to [`Nameless`]:
/// in the call `(&binding).__hccl_name(..)`, the method of this trait needs one reference less.
pub trait Named {
    #[doc(hidden)]
    fn __hccl_name(&self, name: &str);
}

impl<T: Recordable> Named for T {
    #[track_caller]
    fn __hccl_name(&self, name: &str) {
        self.name(name);
    }
}

/// A binding that cannot have a name. The call for it does nothing.
pub trait Nameless {
    #[doc(hidden)]
    fn __hccl_name(&self, _: &str) {}
}

impl<T: ?Sized> Nameless for &T {}

/// Returns the length of an array for a layout, at most `u32::MAX`. A longer array makes the struct
/// too large in any case, so its exact length does not matter.
pub const fn length(length: usize) -> u32 {
    if length > u32::MAX as usize { u32::MAX } else { length as u32 }
}

/// The type of a field or of an argument, which may lack the traits that the generated code needs.
///
/// The items for a type that fits are inherent, and the compiler prefers inherent items. For any
/// other type it takes the items of [`Unfit`]. So the generated code compiles with any type, and a
/// single place reports that a type does not fit.
#[derive(Debug)]
pub struct Type<T: ?Sized>(PhantomData<T>);

impl<T: FieldType + Symbolic> Type<T> {
    /// Whether the type can be in a tiling struct.
    pub const __HCCL_FITS: bool = true;
    /// The type as an item of a [`Layout`].
    pub const __HCCL_ITEM: Item = T::ITEM;

    /// Checks that the fields of a struct are within their ranges.
    pub fn __hccl_check(value: &T) -> Result<()> {
        value.check_value()
    }
}

impl<T: Symbolic> Type<T> {
    /// Returns the symbols of a field of this type. `offset` is in bytes, and `name` is the name in
    /// C++.
    pub fn __hccl_symbols(at: &At, offset: usize, name: &str) -> T::Symbols {
        T::symbols(&at.field(offset, name))
    }
}

impl<T: First> Type<T> {
    /// Whether the type can be the first argument of a kernel.
    pub const __HCCL_IS_FIRST: bool = true;
}

/// The items of [`Type`] for a type that does not fit. The functions never run, because a program
/// with such a type does not compile.
pub trait Unfit {
    #[doc(hidden)]
    const __HCCL_IS_FIRST: bool = false;
    #[doc(hidden)]
    const __HCCL_FITS: bool = false;
    #[doc(hidden)]
    const __HCCL_ITEM: Item = <u8 as FieldType>::ITEM;

    #[doc(hidden)]
    fn __hccl_check<V: ?Sized>(_: &V) -> Result<()> {
        Ok(())
    }

    #[doc(hidden)]
    fn __hccl_symbols<S>(_: &At, _: usize, _: &str) -> S {
        unreachable!("a program with such a field does not compile")
    }
}

impl<T: ?Sized> Unfit for Type<T> {}

/// A type and, if it fits into a tiling struct, its symbols. The generated code passes a constant
/// for `FITS`. If the type does not fit, the evaluation of the constant is a compile error. The
/// compiler then reports no further errors in code that depends on the constant.
pub trait If<const FITS: bool> {
    /// The type itself, even if it does not fit.
    type Itself;
    /// The symbols of the type, or `()` if it does not fit.
    type Symbols: Clone;
}

impl<T: Symbolic> If<true> for T {
    type Itself = T;
    type Symbols = T::Symbols;
}

/// With two implementations, the compiler cannot choose one for a constant whose evaluation failed,
/// and so reports no further errors.
impl<T> If<false> for T {
    type Itself = T;
    type Symbols = ();
}

/// The type of the first argument of a kernel. If the given type cannot be the first argument,
/// `Kernel<()>` stands in for it. The trait works like [`If`].
pub trait FirstIf<const IS_FIRST: bool> {
    /// The type itself, or `Kernel<()>` if it cannot be the first argument.
    type Itself: First;
}

impl<T: First> FirstIf<true> for T {
    type Itself = T;
}

/// With two implementations, the compiler cannot choose one for a constant whose evaluation failed,
/// and so reports no further errors.
impl<T> FirstIf<false> for T {
    type Itself = super::Kernel<()>;
}
