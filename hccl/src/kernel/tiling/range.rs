//! The ranges of the fields of a tiling struct, evaluated at compile time.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};

use super::TilingError;
use crate::dtype::{bf16, f16};
use crate::error::Result;

/// A range of numbers of type `T`.
#[derive(Clone, Copy, Debug)]
pub struct RangeBounds<T> {
    is_empty: bool,
    /// A function that returns the value as text if it is out of range, and otherwise `None`. With
    /// this pointer, `check` needs no trait bounds on `T`. If a type cannot have a range, the
    /// compiler then reports only that.
    outside: fn(&RangeBounds<T>, &T) -> Option<String>,
    start: T,
    end: T,
    /// Whether the range includes `end`.
    closed: bool,
}

impl<T> RangeBounds<T> {
    /// Returns whether the range contains no value.
    pub const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns an error if the value of a field is out of range. `range` is the text of the range
    /// in the source.
    pub fn check(
        &self,
        value: &T,
        tiling: &'static str,
        field: &'static str,
        range: &'static str,
    ) -> Result<()> {
        match (self.outside)(self, value) {
            None => Ok(()),
            Some(value) => {
                Err(TilingError::OutOfRange { tiling, field, value: value.into(), range }.into())
            }
        }
    }
}

fn outside<T: PartialOrd + Debug>(bounds: &RangeBounds<T>, value: &T) -> Option<String> {
    let below = match bounds.closed {
        true => *value <= bounds.end,
        false => *value < bounds.end,
    };
    (!(below && *value >= bounds.start)).then(|| format!("{value:?}"))
}

/// A range type of Rust whose ends have type `T`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of `{T}`",
    label = "the ends are constants of the type of the field",
    note = "only a field that is a number, or an array of numbers, has a range; the ends of a range of `f16` or `bf16` are constants such as `f16::ONE`"
)]
pub trait RangeOf<T> {
    /// The reader type of this range type.
    type Reader;
    /// The only value of the reader type.
    const READER: Self::Reader;
}

/// A reader of ranges `R`. Its method `read` is inherent, because a constant cannot call the
/// functions of a trait.
#[derive(Debug)]
pub struct Reader<R>(PhantomData<R>);

/// Returns the reader of a range of numbers `T`.
pub const fn reader<T, R: RangeOf<T>>(_: &R) -> R::Reader {
    R::READER
}

macro_rules! reader {
    ($ty:ty, $range:ident, $it:ident => $ends:expr, $number:ident => $key:expr) => {
        impl RangeOf<$ty> for $range<$ty> {
            type Reader = Reader<Self>;
            const READER: Reader<Self> = Reader(PhantomData);
        }

        impl Reader<$range<$ty>> {
            /// Returns the bounds of a range.
            pub const fn read(self, $it: &$range<$ty>) -> RangeBounds<$ty> {
                let (start, end, closed): ($ty, $ty, bool) = $ends;
                let $number = start;
                let first = $key;
                let $number = end;
                let last = $key;
                let has_values = first < last || closed && first == last;
                RangeBounds { is_empty: !has_values, outside: outside::<$ty>, start, end, closed }
            }
        }
    };
}

/// Implements ranges for number types. Each line gives the first and last value of a type, and the
/// expression by which a constant compares two of its values.
macro_rules! numbers {
    ($($ty:ty: $first:ident, $last:ident, $number:ident => $key:expr;)*) => {$(
        reader!($ty, Range, it => (it.start, it.end, false), $number => $key);
        reader!($ty, RangeFrom, it => (it.start, <$ty>::$last, true), $number => $key);
        reader!($ty, RangeInclusive, it => (*it.start(), *it.end(), true), $number => $key);
        reader!($ty, RangeTo, it => (<$ty>::$first, it.end, false), $number => $key);
        reader!($ty, RangeToInclusive, it => (<$ty>::$first, it.end, true), $number => $key);
    )*};
}

numbers! {
    i8: MIN, MAX, number => number;
    i16: MIN, MAX, number => number;
    i32: MIN, MAX, number => number;
    i64: MIN, MAX, number => number;
    u8: MIN, MAX, number => number;
    u16: MIN, MAX, number => number;
    u32: MIN, MAX, number => number;
    u64: MIN, MAX, number => number;
    f32: NEG_INFINITY, INFINITY, number => number;
    f64: NEG_INFINITY, INFINITY, number => number;
    f16: NEG_INFINITY, INFINITY, number => number.to_f64_const();
    bf16: NEG_INFINITY, INFINITY, number => number.to_f64_const();
}
