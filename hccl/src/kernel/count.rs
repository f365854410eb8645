//! Traits for counts and for ranges of loops, which numbers of Rust and symbols both implement. Use
//! them in the signatures of helper functions. A kernel itself only passes numbers and symbols.

use std::ops::{Range, RangeTo};

use ascend_program::layout::Number;
use ascend_program::{Of, ValueId};

use super::record::{self, Id, KernelRecorder, ValueHandle};
use super::value::{Scalar, Value, Whole, sealed};

/// A number of elements or turns, an offset, an index, a rank or a queue. It is a [`Value`] of an
/// integer type, or an integer of Rust that is not negative.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// fn behind(y: Output<u64>, elements: impl count::Count) -> Output<u64> {
///     y.at(elements)
/// }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     let place = behind(behind(y, k.tiling().count), 1); // a value of the kernel, then a number
///     place.set(0, 7);
///     place.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a count",
    note = "a count is an integer of Rust or a `Value` of an integer type"
)]
pub trait Count: sealed::Sealed {
    #[doc(hidden)]
    fn count(self) -> Counted;
}

/// A count in the form in which it is passed to the recorder: a symbol or a constant.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Counted(CountOf);

#[derive(Clone, Copy, Debug)]
enum CountOf {
    Symbol(ValueHandle, Number),
    Constant(Option<u64>),
}

impl Counted {
    pub(super) const ZERO: Counted = Counted(CountOf::Constant(Some(0)));
    pub(super) const ONE: Counted = Counted(CountOf::Constant(Some(1)));

    /// Returns the index of the count in the arena, after adding it there if it is a constant.
    /// Notes a mistake if the constant is negative, or if the symbol belongs to another recording.
    pub(super) fn id(self, recorder: &mut KernelRecorder) -> Id {
        match self.0 {
            CountOf::Symbol(handle, number) => recorder.own(handle, number),
            CountOf::Constant(Some(count)) => recorder.push(Of::Constant(count), Number::U64),
            CountOf::Constant(None) => {
                recorder.mistake("a count or an offset is negative: pass 0 or a positive number");
                recorder.push(Of::Constant(0), Number::U64)
            }
        }
    }

    /// Returns the number of the count in the program.
    pub(super) fn value(self, recorder: &mut KernelRecorder) -> ValueId {
        let id = self.id(recorder);
        recorder.value(id)
    }

    /// Converts the count to `u64`, the type in which sums and products of different counts are
    /// computed. Returns the index of the result in the arena.
    pub(super) fn wide(self, recorder: &mut KernelRecorder) -> Id {
        let id = self.id(recorder);
        match recorder.number(id) {
            Number::U64 => id,
            _ => recorder.push(Of::Cast(ValueId(id.0)), Number::U64),
        }
    }
}

impl<T: Scalar> sealed::Sealed for Value<T> {}

impl<T: Whole> Count for Value<T> {
    fn count(self) -> Counted {
        Counted(CountOf::Symbol(self.handle, T::NUMBER))
    }
}

macro_rules! counts {
    ($($ty:ty)*) => {$(
        impl Count for $ty {
            fn count(self) -> Counted {
                Counted(CountOf::Constant(u64::try_from(self).ok()))
            }
        }
    )*};
}

counts!(i8 i16 i32 i64 u8 u16 u32 u64 usize);
impl sealed::Sealed for usize {}

/// The range of a recorded loop: `..n` or `from..to`. Both ends of `from..to` are numbers, or both
/// are [`Value`]s.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     let count = k.tiling().count;
///     k.range(..count, |i| y.set(i, 0));
///     k.range(k.value(2)..count, |i| y.set(i, i));
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range for a recorded loop",
    note = "write `..n`, or `from..to` with two numbers or two `Value`s; `k.value(1)` makes a `Value` from a number"
)]
pub trait Bounds: sealed::Sealed {
    /// The type of the loop variable.
    type Number: Whole;
    #[doc(hidden)]
    fn bounds(self) -> (Value<Self::Number>, Value<Self::Number>);
}

impl<T> sealed::Sealed for Range<T> {}
impl<T> sealed::Sealed for RangeTo<T> {}

fn zero<T: Whole>() -> Value<T> {
    Value::new(record::constant(0, T::NUMBER))
}

impl<T: Whole> Bounds for Range<Value<T>> {
    type Number = T;
    fn bounds(self) -> (Value<T>, Value<T>) {
        (self.start, self.end)
    }
}

impl<T: Whole> Bounds for RangeTo<Value<T>> {
    type Number = T;
    fn bounds(self) -> (Value<T>, Value<T>) {
        (zero(), self.end)
    }
}

impl<T: Whole> Bounds for Range<T> {
    type Number = T;
    fn bounds(self) -> (Value<T>, Value<T>) {
        (self.start.into(), self.end.into())
    }
}

impl<T: Whole> Bounds for RangeTo<T> {
    type Number = T;
    fn bounds(self) -> (Value<T>, Value<T>) {
        (zero(), self.end.into())
    }
}
