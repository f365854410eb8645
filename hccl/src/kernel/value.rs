//! The scalars of a kernel, which are symbols while the kernel is recorded. Use a [`Value`] for a
//! number that is known only when the kernel runs. Use a number of Rust if it is already known when
//! the kernel is recorded.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Add, AddAssign, BitAnd, BitOr, Div, Mul, Neg, Not, Rem, Sub};
use std::panic::Location;

use ascend_program::layout::Number;
use ascend_program::step::Step;
use ascend_program::{Binary, Of, Unary, ValueId, VariableId};

use super::record::{self, Caller, KernelRecorder, NamedKind, ValueHandle};
use crate::dtype::{bf16, f16};

pub(super) mod sealed {
    pub trait Sealed {}
}

/// A type that a kernel can compute with: an integer type, a floating point type or `bool`. These
/// are the types of Ascend C.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// fn choose<T: value::Scalar>(if_so: Value<bool>, yes: Value<T>, no: Value<T>) -> Value<T> {
///     if_so.select(yes, no)
/// }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     let more = k.tiling().count.gt(8);
///     y.set(0, choose(more, k.value(3), k.tiling().count));
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "a kernel cannot compute with `{Self}`",
    note = "it can compute with i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, hccl::f16, hccl::bf16 and bool"
)]
pub trait Scalar: sealed::Sealed + Copy + 'static {
    /// This type as a value of [`Number`].
    const NUMBER: Number;

    /// Returns the bits of this number in a program. For an integer, they are the bits of the
    /// integer extended to 64 bits. For a floating point number, they are the bits of an `f64`.
    #[doc(hidden)]
    fn bits(self) -> u64;
}

/// A type with the operators `+ - * / %`: every [`Scalar`] except `bool`.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// fn square<T: value::Arithmetic>(x: Value<T>) -> Value<T> {
///     x * x
/// }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     y.set(0, square(k.tiling().count));
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no arithmetic",
    note = "truth values are combined with `&`, `|` and `!`"
)]
pub trait Arithmetic: Scalar {}

/// An integer type, for counts, offsets and bounds of loops.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Sizes { count: u64 }
///
/// fn pieces<T: value::Whole>(count: Value<T>, length: Value<T>) -> Value<T> {
///     count.div_ceil(length)
/// }
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel<Sizes>, y: Output<u64>) {
///     y.set(0, pieces(k.tiling().count, k.value(64)));
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer type",
    note = "counts, offsets and bounds of loops are integers"
)]
pub trait Whole: Arithmetic {}

macro_rules! scalars {
    ($($ty:ty, $number:ident, |$of:ident| $bits:expr, $($kind:ident)*;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Scalar for $ty {
            const NUMBER: Number = Number::$number;
            fn bits(self) -> u64 {
                let $of = self;
                $bits
            }
        }
        $(impl $kind for $ty {})*
    )*};
}

scalars! {
    i8, I8, |x| x as u64, Arithmetic Whole;
    i16, I16, |x| x as u64, Arithmetic Whole;
    i32, I32, |x| x as u64, Arithmetic Whole;
    i64, I64, |x| x as u64, Arithmetic Whole;
    u8, U8, |x| u64::from(x), Arithmetic Whole;
    u16, U16, |x| u64::from(x), Arithmetic Whole;
    u32, U32, |x| u64::from(x), Arithmetic Whole;
    u64, U64, |x| x, Arithmetic Whole;
    f16, F16, |x| x.to_f64().to_bits(), Arithmetic;
    bf16, Bf16, |x| x.to_f64().to_bits(), Arithmetic;
    f32, F32, |x| f64::from(x).to_bits(), Arithmetic;
    f64, F64, |x| x.to_bits(), Arithmetic;
    bool, Bool, |x| u64::from(x),;
}

/// A scalar of a kernel: a symbol while the kernel is recorded, a number when it runs.
///
/// It is `Copy` and has the operators of its type. One of the two operands may be a number of Rust.
/// Unsigned integers wrap, as in C++. If a signed integer overflows, the launch fails, because the
/// result is undefined in C++. Comparisons are methods, because their result is a symbol too.
/// Operands must have the same type; [`cast`](Self::cast) converts.
///
/// A value never changes. Use a [`Variable`] for a number that changes.
///
/// ```
/// use hccl::kernel::*;
///
/// #[derive(Tiling)]
/// #[repr(C)]
/// struct Tiles { tile_num: u64, tile_len: u64 }
///
/// #[kernel(mix = "aiv_only")]
/// fn values(k: Kernel<Tiles>) {
///     let t = k.tiling();
///     let stride = t.tile_len * t.tile_num + 44;
///     let rest = (1000 - stride).max(0) % t.tile_len;
///     k.when(rest.gt(0) & stride.le(1000), || k.comment("there is a rest"));
/// }
/// # fn main() -> hccl::Result<()> {
/// let program = values::record()?;
/// # let _ = program; Ok(())
/// # }
/// ```
pub struct Value<T: Scalar> {
    pub(super) handle: ValueHandle,
    pub(super) of: PhantomData<fn() -> T>,
}

impl<T: Scalar> Clone for Value<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Scalar> Copy for Value<T> {}

impl<T: Scalar> fmt::Debug for Value<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value<{}>({})", T::NUMBER, self.handle.id.0)
    }
}

impl<T: Scalar> From<T> for Value<T> {
    /// Makes a constant of the kernel that is being recorded.
    fn from(number: T) -> Self {
        Value::new(record::constant(number.bits(), T::NUMBER))
    }
}

impl<T: Scalar> Value<T> {
    pub(super) fn new(handle: ValueHandle) -> Self {
        Value { handle, of: PhantomData }
    }

    /// Converts the value to another type (`static_cast` in C++). Integers wrap. A floating point
    /// number that does not fit into an integer type becomes the nearest value of that type. Every
    /// number except 0 becomes `true`.
    #[track_caller]
    pub fn cast<U: Scalar>(self) -> Value<U> {
        if T::NUMBER == U::NUMBER {
            return Value::new(self.handle);
        }
        Value::new(record::fresh(self.handle.recording, Location::caller(), |recorder| {
            let id = recorder.own(self.handle, T::NUMBER);
            (Of::Cast(ValueId(id.0)), U::NUMBER)
        }))
    }

    fn binary<U: Scalar>(self, operator: Binary, other: Value<T>, here: Caller) -> Value<U> {
        let (a, b) = (self.handle, other.handle);
        // One operand may be `NONE`, a value of no recording. The recording of the other operand
        // then notes the mistake.
        let recording = if a == ValueHandle::NONE { b.recording } else { a.recording };
        Value::new(record::fresh(recording, here, |recorder| {
            let a = recorder.own(a, T::NUMBER);
            let b = recorder.own(b, T::NUMBER);
            (Of::Binary(operator, ValueId(a.0), ValueId(b.0)), U::NUMBER)
        }))
    }

    /// Returns whether `self == other`.
    #[track_caller]
    pub fn eq(self, other: impl Into<Value<T>>) -> Value<bool> {
        self.binary(Binary::Equal, other.into(), Location::caller())
    }

    /// Returns whether `self != other`.
    #[track_caller]
    pub fn ne(self, other: impl Into<Value<T>>) -> Value<bool> {
        self.binary(Binary::NotEqual, other.into(), Location::caller())
    }
}

impl<T: Arithmetic> Value<T> {
    /// Returns whether `self < other`.
    #[track_caller]
    pub fn lt(self, other: impl Into<Value<T>>) -> Value<bool> {
        self.binary(Binary::Less, other.into(), Location::caller())
    }

    /// Returns whether `self <= other`.
    #[track_caller]
    pub fn le(self, other: impl Into<Value<T>>) -> Value<bool> {
        self.binary(Binary::LessEqual, other.into(), Location::caller())
    }

    /// Returns whether `self > other`.
    #[track_caller]
    pub fn gt(self, other: impl Into<Value<T>>) -> Value<bool> {
        self.binary(Binary::Greater, other.into(), Location::caller())
    }

    /// Returns whether `self >= other`.
    #[track_caller]
    pub fn ge(self, other: impl Into<Value<T>>) -> Value<bool> {
        self.binary(Binary::GreaterEqual, other.into(), Location::caller())
    }

    /// Returns the smaller of the two values.
    #[track_caller]
    pub fn min(self, other: impl Into<Value<T>>) -> Value<T> {
        self.binary(Binary::Min, other.into(), Location::caller())
    }

    /// Returns the greater of the two values.
    #[track_caller]
    pub fn max(self, other: impl Into<Value<T>>) -> Value<T> {
        self.binary(Binary::Max, other.into(), Location::caller())
    }
}

impl<T: Whole> Value<T> {
    /// Returns the number of pieces of length `piece` that cover a length of `self`: the quotient,
    /// rounded up. Both numbers must be at least 0, `piece` must not be 0, and their sum must fit
    /// into the type.
    #[track_caller]
    pub fn div_ceil(self, piece: impl Into<Value<T>>) -> Value<T> {
        let (piece, here) = (piece.into(), Location::caller());
        let one = Value::<T>::new(record::constant(1, T::NUMBER));
        let sum = self.binary::<T>(Binary::Add, piece, here);
        sum.binary::<T>(Binary::Sub, one, here).binary(Binary::Div, piece, here)
    }
}

impl Value<bool> {
    /// Returns `yes` if this value is true, and `no` otherwise.
    #[track_caller]
    pub fn select<T: Scalar>(self, yes: impl Into<Value<T>>, no: impl Into<Value<T>>) -> Value<T> {
        let (yes, no) = (yes.into(), no.into());
        Value::new(record::fresh(self.handle.recording, Location::caller(), |recorder| {
            let condition = recorder.own(self.handle, Number::Bool);
            let yes = recorder.own(yes.handle, T::NUMBER);
            let no = recorder.own(no.handle, T::NUMBER);
            (Of::Select(ValueId(condition.0), ValueId(yes.0), ValueId(no.0)), T::NUMBER)
        }))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident)*) => {$(
        impl<T: Arithmetic> $trait for Value<T> {
            type Output = Value<T>;
            #[track_caller]
            fn $method(self, other: Value<T>) -> Value<T> {
                self.binary(Binary::$trait, other, Location::caller())
            }
        }

        impl<T: Arithmetic> $trait<T> for Value<T> {
            type Output = Value<T>;
            #[track_caller]
            fn $method(self, other: T) -> Value<T> {
                self.binary(Binary::$trait, other.into(), Location::caller())
            }
        }

        operators!(@left $trait $method: i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64);
    )*};
    (@left $trait:ident $method:ident: $($ty:ty)*) => {$(
        impl $trait<Value<$ty>> for $ty {
            type Output = Value<$ty>;
            #[track_caller]
            fn $method(self, other: Value<$ty>) -> Value<$ty> {
                Value::from(self).binary(Binary::$trait, other, Location::caller())
            }
        }
    )*};
}

operators!(Add add Sub sub Mul mul Div div Rem rem);

impl BitAnd for Value<bool> {
    type Output = Value<bool>;
    #[track_caller]
    fn bitand(self, other: Value<bool>) -> Value<bool> {
        self.binary(Binary::And, other, Location::caller())
    }
}

impl BitOr for Value<bool> {
    type Output = Value<bool>;
    #[track_caller]
    fn bitor(self, other: Value<bool>) -> Value<bool> {
        self.binary(Binary::Or, other, Location::caller())
    }
}

fn unary<T: Scalar>(operator: Unary, a: Value<T>, here: Caller) -> Value<T> {
    Value::new(record::fresh(a.handle.recording, here, |recorder| {
        let a = recorder.own(a.handle, T::NUMBER);
        (Of::Unary(operator, ValueId(a.0)), T::NUMBER)
    }))
}

impl Not for Value<bool> {
    type Output = Value<bool>;
    #[track_caller]
    fn not(self) -> Value<bool> {
        unary(Unary::Not, self, Location::caller())
    }
}

macro_rules! negations {
    ($($ty:ty)*) => {$(
        impl Neg for Value<$ty> {
            type Output = Value<$ty>;
            #[track_caller]
            fn neg(self) -> Value<$ty> {
                unary(Unary::Negate, self, Location::caller())
            }
        }
    )*};
}

negations!(i8 i16 i32 i64 f16 bf16 f32 f64);

/// A scalar that changes, made by [`Kernel::variable`](super::Kernel::variable).
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn sum(k: Kernel, x: Input<i32>, y: Output<i32>) {
///     let mut sum = k.variable(0);
///     k.range(..16, |i| sum += x.get(i));
///     y.set(0, sum.get());
///     y.clean(0);
/// }
/// # fn main() -> hccl::Result<()> {
/// # sum::record()?; Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Variable<T: Scalar> {
    pub(super) recording: u64,
    pub(super) variable: VariableId,
    pub(super) of: PhantomData<fn() -> T>,
}

impl<T: Scalar> Variable<T> {
    /// Returns the current value of the variable. A later [`set`](Self::set) does not change the
    /// returned value.
    #[track_caller]
    pub fn get(&self) -> Value<T> {
        Value::new(record::fresh(self.recording, Location::caller(), |recorder| {
            let now = recorder.push(Of::Variable(self.variable), T::NUMBER);
            let now = recorder.value(now);
            let copy = recorder.variable("now", T::NUMBER);
            recorder.step(Step::Set(copy, now));
            (Of::Variable(copy), T::NUMBER)
        }))
    }

    /// Sets the variable to a value.
    #[track_caller]
    pub fn set(&mut self, value: impl Into<Value<T>>) {
        let value = value.into();
        record::with(self.recording, Location::caller(), |recorder| {
            let value = recorder.own(value.handle, T::NUMBER);
            let value = recorder.value(value);
            self.checked(recorder);
            recorder.step(Step::Set(self.variable, value));
        });
    }

    /// Notes a mistake if the variable is used outside the loop or branch in which it was declared.
    fn checked(&self, recorder: &mut KernelRecorder) {
        let now = recorder.push(Of::Variable(self.variable), T::NUMBER);
        recorder.value(now);
    }
}

impl<T: Arithmetic, V: Into<Value<T>>> AddAssign<V> for Variable<T> {
    #[track_caller]
    fn add_assign(&mut self, more: V) {
        let more = more.into();
        record::with(self.recording, Location::caller(), |recorder| {
            let now = recorder.push(Of::Variable(self.variable), T::NUMBER);
            let more = recorder.own(more.handle, T::NUMBER);
            let sum = Of::Binary(Binary::Add, ValueId(now.0), ValueId(more.0));
            let sum = recorder.push(sum, T::NUMBER);
            let sum = recorder.value(sum);
            recorder.step(Step::Set(self.variable, sum));
        });
    }
}

/// A type whose values get a name in the program: the name of the variable that a `let` binds to
/// the value.
#[doc(hidden)]
pub trait Recordable {
    fn name(&self, name: &str);
}

impl<T: Scalar> Recordable for Value<T> {
    #[track_caller]
    fn name(&self, name: &str) {
        named(self.handle.recording, Location::caller(), |recorder| {
            recorder.name_value(self.handle, name);
        });
    }
}

impl<T: Scalar> Recordable for Variable<T> {
    #[track_caller]
    fn name(&self, name: &str) {
        named(self.recording, Location::caller(), |recorder| {
            recorder.name(NamedKind::Variable, self.variable.0, name);
        });
    }
}

/// Calls `name` with the recorder if `recording` is the current recording. Otherwise it does
/// nothing: a `let` that binds a value of another recording is not a mistake. Only a use of the
/// value is a mistake.
pub(super) fn named(recording: u64, here: Caller, name: impl FnOnce(&mut KernelRecorder)) {
    if record::current() == Some(recording) {
        record::with(recording, here, name);
    }
}
