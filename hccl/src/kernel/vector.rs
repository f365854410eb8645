//! Arithmetic of the vector unit. All counts are in elements, and all operands are in local memory.
//!
//! Products support different types. The A2 and the A3, for example, have no arithmetic for `bf16`.
//! The launch checks this. A type that no product supports is a mistake when the kernel is
//! recorded.

use std::panic::Location;

use ascend_program::Core;
use ascend_program::layout::Number;
use ascend_program::step::{
    Round as Mode, Step, Vector, VectorBinary as Of2, VectorReduce, VectorUnary as Of1,
};

use super::control::Kernel;
use super::count::{Count, Counted};
use super::local::LocalSlice;
use super::record::{self, Caller, KernelRecorder};
use super::tensor::number;
use super::value::{Scalar, Value};
use crate::dtype::Element;

/// The rounding of a conversion by [`Kernel::cast`] (`RoundMode`).
///
/// ```
/// use hccl::kernel::*;
///
/// #[kernel(mix = "aiv_only")]
/// fn own(k: Kernel, x: Input<f32>, y: Output<i32>) {
///     let a = k.scratch::<f32>(64).get();
///     let whole = k.scratch::<i32>(64).get();
///     k.copy_in(&a, x, 64);
///     k.wait_for(Pipe::Vector, Pipe::In);
///     k.cast(&whole, &a, Round::Floor, 64);
///     k.wait_for(Pipe::Out, Pipe::Vector);
///     k.copy_out(y, &whole, 64);
/// }
/// # fn main() -> hccl::Result<()> {
/// # own::record()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Round {
    /// Does not round, for a conversion that needs no rounding, such as `f16` to `f32`
    /// (`CAST_NONE`).
    None,
    /// Rounds to the nearest, ties to even (`CAST_RINT`).
    Nearest,
    /// Rounds downwards (`CAST_FLOOR`).
    Floor,
    /// Rounds upwards (`CAST_CEIL`).
    Ceil,
    /// Rounds to the nearest, ties away from zero (`CAST_ROUND`).
    Away,
    /// Rounds towards zero (`CAST_TRUNC`).
    Truncate,
}

/// A reduction of a tensor to one element.
#[derive(Debug, Clone, Copy)]
enum Fold {
    Sum,
    Max,
}

use Number::*;

/// The types for which at least one product has `Add`, `Sub`, `Max` and `Min`.
const ADDED: &[Number] = &[I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32];
/// The types for which at least one product has `Mul`.
const MULTIPLIED: &[Number] = &[I16, I32, I64, U16, U32, U64, F16, Bf16, F32];
/// The types for which at least one product has `Div`.
const DIVIDED: &[Number] = &[I16, I32, I64, U16, U32, U64, F16, F32];
/// The types for which at least one product has `Adds`, `Muls`, `Maxs` and `Mins`.
const SCALED: &[Number] = &[I16, I32, I64, F16, Bf16, F32];
/// The types for which at least one product has `Exp` and `Sqrt`.
const REAL: &[Number] = &[F16, F32];
/// The types for which at least one product has `Relu`.
const CUT: &[Number] = &[I32, I64, F16, F32];
/// The types for which at least one product has `ReduceSum`.
const SUMMED: &[Number] = &[I32, I64, U32, U64, F16, F32];
/// The types for which at least one product has `ReduceMax`.
const COMPARED: &[Number] = &[I16, I32, U8, U16, U32, U64, F16, F32];
/// The types for which at least one product has `Duplicate`.
const FILLED: &[Number] = &[I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32];

/// Notes a mistake if no vector core runs the current block, or if no product supports the type.
fn takes<E: Element>(recorder: &mut KernelRecorder, call: &str, types: &[Number]) {
    recorder.only_on(Core::Aiv, &format!("`{call}`"));
    if !types.contains(&number::<E>()) {
        let types: Vec<String> = types.iter().map(Number::to_string).collect();
        recorder.mistake(format!(
            "no product has `{call}` for {}: use one of {}, as the product allows",
            number::<E>(),
            types.join(", ")
        ));
    }
}

macro_rules! binaries {
    ($($(#[$doc:meta])* $name:ident $operator:ident $types:ident;)*) => {
        impl<T> Kernel<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<E: Element>(
                self,
                to: impl Into<LocalSlice<E>>,
                a: impl Into<LocalSlice<E>>,
                b: impl Into<LocalSlice<E>>,
                count: impl Count,
            ) {
                let (to, a, b, count) = (to.into(), a.into(), b.into(), count.count());
                record::with(self.recording, Location::caller(), |recorder| {
                    takes::<E>(recorder, stringify!($operator), $types);
                    let (to, a, b) = (to.place(recorder), a.place(recorder), b.place(recorder));
                    let (operator, count) = (Of2::$operator, count.value(recorder));
                    recorder.step(Step::Vector(Vector::Binary { operator, to, a, b, count }));
                });
            }
        )*}
    };
}

binaries! {
    /// Computes `to[i] = a[i] + b[i]` (`Add`).
    add Add ADDED;
    /// Computes `to[i] = a[i] - b[i]` (`Sub`).
    sub Sub ADDED;
    /// Computes `to[i] = a[i] * b[i]` (`Mul`).
    mul Mul MULTIPLIED;
    /// Computes `to[i] = a[i] / b[i]` (`Div`).
    div Div DIVIDED;
    /// Sets `to[i]` to the greater of `a[i]` and `b[i]` (`Max`).
    max Max ADDED;
    /// Sets `to[i]` to the smaller of `a[i]` and `b[i]` (`Min`).
    min Min ADDED;
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident $call:literal $operator:ident;)*) => {
        impl<T> Kernel<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<E: Element + Scalar>(
                self,
                to: impl Into<LocalSlice<E>>,
                a: impl Into<LocalSlice<E>>,
                scalar: impl Into<Value<E>>,
                count: impl Count,
            ) {
                let (to, a, scalar, count) = (to.into(), a.into(), scalar.into(), count.count());
                record::with(self.recording, Location::caller(), |recorder| {
                    takes::<E>(recorder, $call, SCALED);
                    let (to, a) = (to.place(recorder), a.place(recorder));
                    let scalar = recorder.own(scalar.handle, E::NUMBER);
                    let scalar = recorder.value(scalar);
                    let (operator, count) = (Of2::$operator, count.value(recorder));
                    recorder.step(Step::Vector(Vector::Scalar { operator, to, a, scalar, count }));
                });
            }
        )*}
    };
}

scalars! {
    /// Computes `to[i] = a[i] + scalar` (`Adds`).
    adds "Adds" Add;
    /// Computes `to[i] = a[i] * scalar` (`Muls`).
    muls "Muls" Mul;
    /// Sets `to[i]` to the greater of `a[i]` and `scalar` (`Maxs`).
    maxs "Maxs" Max;
    /// Sets `to[i]` to the smaller of `a[i]` and `scalar` (`Mins`).
    mins "Mins" Min;
}

macro_rules! unaries {
    ($($(#[$doc:meta])* $name:ident $operator:ident $types:ident;)*) => {
        impl<T> Kernel<T> {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name<E: Element>(
                self,
                to: impl Into<LocalSlice<E>>,
                a: impl Into<LocalSlice<E>>,
                count: impl Count,
            ) {
                let (to, a, count) = (to.into(), a.into(), count.count());
                record::with(self.recording, Location::caller(), |recorder| {
                    takes::<E>(recorder, stringify!($operator), $types);
                    let (to, a) = (to.place(recorder), a.place(recorder));
                    let (operator, count) = (Of1::$operator, count.value(recorder));
                    recorder.step(Step::Vector(Vector::Unary { operator, to, a, count }));
                });
            }
        )*}
    };
}

unaries! {
    /// Sets `to[i]` to `a[i]` if that is positive, and to 0 otherwise (`Relu`).
    relu Relu CUT;
    /// Sets `to[i]` to the exponential of `a[i]` (`Exp`).
    exp Exp REAL;
    /// Sets `to[i]` to the square root of `a[i]` (`Sqrt`).
    sqrt Sqrt REAL;
}

impl<T> Kernel<T> {
    /// Sets `to[i]` to `value` (`Duplicate`).
    #[track_caller]
    pub fn fill<E: Element + Scalar>(
        self,
        to: impl Into<LocalSlice<E>>,
        value: impl Into<Value<E>>,
        count: impl Count,
    ) {
        let (to, value, count) = (to.into(), value.into(), count.count());
        record::with(self.recording, Location::caller(), |recorder| {
            takes::<E>(recorder, "Duplicate", FILLED);
            let to = to.place(recorder);
            let value = recorder.own(value.handle, E::NUMBER);
            let (value, count) = (recorder.value(value), count.value(recorder));
            recorder.step(Step::Vector(Vector::Fill { to, value, count }));
        });
    }

    /// Sets `to[i]` to `from[i]`, converted to another type (`Cast`). Products support different
    /// pairs of types and different roundings.
    #[track_caller]
    pub fn cast<E: Element, F: Element>(
        self,
        to: impl Into<LocalSlice<E>>,
        from: impl Into<LocalSlice<F>>,
        round: Round,
        count: impl Count,
    ) {
        let (to, from, count) = (to.into(), from.into(), count.count());
        record::with(self.recording, Location::caller(), |recorder| {
            recorder.only_on(Core::Aiv, "`Cast`");
            let round = match round {
                Round::None => Mode::None,
                Round::Nearest => Mode::Nearest,
                Round::Floor => Mode::Floor,
                Round::Ceil => Mode::Ceil,
                Round::Away => Mode::Away,
                Round::Truncate => Mode::Truncate,
            };
            let (to, from) = (to.place(recorder), from.place(recorder));
            let count = count.value(recorder);
            recorder.step(Step::Vector(Vector::Cast { to, from, round, count }));
        });
    }

    /// Sets `to[0]` to the sum of the `count` elements of `from` (`ReduceSum`). `work` holds
    /// intermediate results; it is always large enough if it is as long as `from`.
    #[track_caller]
    pub fn reduce_sum<E: Element>(
        self,
        to: impl Into<LocalSlice<E>>,
        from: impl Into<LocalSlice<E>>,
        work: impl Into<LocalSlice<E>>,
        count: impl Count,
    ) {
        let places = [to.into(), from.into(), work.into()];
        self.fold(Fold::Sum, places, count.count(), Location::caller());
    }

    /// Sets `to[0]` to the greatest of the `count` elements of `from` (`ReduceMax`). `work` holds
    /// intermediate results; it is always large enough if it is as long as `from`.
    #[track_caller]
    pub fn reduce_max<E: Element>(
        self,
        to: impl Into<LocalSlice<E>>,
        from: impl Into<LocalSlice<E>>,
        work: impl Into<LocalSlice<E>>,
        count: impl Count,
    ) {
        let places = [to.into(), from.into(), work.into()];
        self.fold(Fold::Max, places, count.count(), Location::caller());
    }

    fn fold<E: Element>(
        self,
        fold: Fold,
        [to, from, work]: [LocalSlice<E>; 3],
        count: Counted,
        here: Caller,
    ) {
        record::with(self.recording, here, |recorder| {
            let operator = match fold {
                Fold::Sum => {
                    takes::<E>(recorder, "ReduceSum", SUMMED);
                    VectorReduce::Sum
                }
                Fold::Max => {
                    takes::<E>(recorder, "ReduceMax", COMPARED);
                    VectorReduce::Max
                }
            };
            let (to, from, work) = (to.place(recorder), from.place(recorder), work.place(recorder));
            let count = count.value(recorder);
            recorder.step(Step::Vector(Vector::Reduce { operator, to, from, work, count }));
        });
    }
}
