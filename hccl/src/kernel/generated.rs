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

/// The result of recording a kernel.
pub type RecordResult<T> = std::result::Result<Recorded<T>, RecordError>;

/// Returns the place of the caller in the source.
#[track_caller]
pub fn here() -> &'static std::panic::Location<'static> {
    std::panic::Location::caller()
}

/// Records that the calling function, which stands under `#[kernel(inline)]`, has been called.
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

/// Gives its name to a binding that can have one. This trait goes first, for it needs no more
/// references than the call has.
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

/// Everything else that is bound in a kernel.
pub trait Nameless {
    #[doc(hidden)]
    fn __hccl_name(&self, _: &str) {}
}

impl<T: ?Sized> Nameless for &T {}

/// The length of an array in a table. A length that a table has no room for makes a struct too
/// large in any case.
pub const fn length(length: usize) -> u32 {
    if length > u32::MAX as usize { u32::MAX } else { length as u32 }
}

/// The type of a field or of an argument, of which nothing is known yet.
///
/// The items for a type that fits are inherent, and the compiler takes those first. For any other
/// type the items of [`Unfit`] apply. So the generated code compiles with any type, and one place
/// can say that it does not fit.
#[derive(Debug)]
pub struct Type<T: ?Sized>(PhantomData<T>);

impl<T: FieldType + Symbolic> Type<T> {
    /// Whether it can be in a tiling struct.
    pub const __HCCL_FITS: bool = true;
    /// The type as data.
    pub const __HCCL_ITEM: Item = T::ITEM;

    /// Whether the fields of a struct lie in their ranges.
    pub fn __hccl_check(value: &T) -> Result<()> {
        value.check_value()
    }
}

impl<T: Symbolic> Type<T> {
    /// The symbols of a field of this type, by its name in C++.
    pub fn __hccl_symbols(at: &At, offset: usize, name: &str) -> T::Symbols {
        T::symbols(&at.field(offset, name))
    }
}

impl<T: First> Type<T> {
    /// Whether a kernel can have it for its first argument.
    pub const __HCCL_IS_FIRST: bool = true;
}

/// The items of [`Type`] for a type that does not fit. None of it is ever run.
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

/// A type and its symbols, if it fits. The generated code gives a constant for `FITS` that the
/// compiler refuses if the type does not fit; it then reports nothing more about code that depends
/// on the constant.
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

/// The impl exists so that the compiler does not know which one is meant by a constant that it has
/// refused.
impl<T> If<false> for T {
    type Itself = T;
    type Symbols = ();
}

/// A type that a kernel has for its first argument, if it can be that: like [`If`].
pub trait FirstIf<const IS_FIRST: bool> {
    /// The type itself, or `Kernel<()>` if it cannot be the first argument.
    type Itself: First;
}

impl<T: First> FirstIf<true> for T {
    type Itself = T;
}

/// The impl exists so that the compiler does not know which one is meant by a constant that it has
/// refused.
impl<T> FirstIf<false> for T {
    type Itself = super::Kernel<()>;
}
