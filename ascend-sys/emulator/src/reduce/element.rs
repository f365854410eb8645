//! What a reduction does to single elements, written once for every type and every operator. The loops run over 64 bytes of
//! elements that are already in registers; the compiler turns them into vector instructions of the caller's target.

use super::isa::{Isa, Line};

/// The type in which elements are accumulated.
///
/// Integers wrap. Float maximum and minimum are those of IEEE 754-2019 (`maximum`, `minimum`): a NaN propagates, and -0
/// is less than +0.
pub(super) trait Number: Copy {
    fn sum(a: Self, b: Self) -> Self;
    fn product(a: Self, b: Self) -> Self;
    fn maximum(a: Self, b: Self) -> Self;
    fn minimum(a: Self, b: Self) -> Self;
    /// Makes every NaN the same one. Which payload survives an addition depends on the order of its operands, which
    /// the compiler may swap: without this, two builds of one kernel could differ.
    fn canonical(self) -> Self;
}

macro_rules! integer_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn sum(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn product(a: Self, b: Self) -> Self {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn maximum(a: Self, b: Self) -> Self {
                if a > b { a } else { b }
            }
            #[inline(always)]
            fn minimum(a: Self, b: Self) -> Self {
                if a < b { a } else { b }
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        }
    )*};
}
integer_number!(i8, i16, i32, i64, u64);

macro_rules! float_number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn sum(a: Self, b: Self) -> Self {
                a + b
            }
            #[inline(always)]
            fn product(a: Self, b: Self) -> Self {
                a * b
            }
            #[inline(always)]
            fn maximum(a: Self, b: Self) -> Self {
                let larger = if a > b { a } else { b }; // b also when b is a NaN
                // Equal numbers have equal bits, except the two zeros: of those, `&` gives +0.
                let either = Self::from_bits(a.to_bits() & b.to_bits());
                let larger = if a == b { either } else { larger };
                if a.is_nan() { a } else { larger }
            }
            #[inline(always)]
            fn minimum(a: Self, b: Self) -> Self {
                let smaller = if a < b { a } else { b };
                let either = Self::from_bits(a.to_bits() | b.to_bits());
                let smaller = if a == b { either } else { smaller };
                if a.is_nan() { a } else { smaller }
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                if self.is_nan() { Self::NAN } else { self }
            }
        }
    )*};
}
float_number!(f32, f64);

/// One of the four operators, as a type, so that it is chosen outside the loops.
pub(super) trait Operator {
    fn apply<T: Number>(a: T, b: T) -> T;
}

pub(super) struct Sum;
pub(super) struct Product;
pub(super) struct Maximum;
pub(super) struct Minimum;

macro_rules! operator {
    ($($name:ident: $function:ident),*) => {$(
        impl Operator for $name {
            #[inline(always)]
            fn apply<T: Number>(a: T, b: T) -> T {
                T::$function(a, b)
            }
        }
    )*};
}
operator!(Sum: sum, Product: product, Maximum: maximum, Minimum: minimum);

/// An element type as it lies in memory, and the accumulators for one [`Line`] of it.
pub(super) trait Element {
    /// Bytes of one element.
    const SIZE: usize;
    /// The accumulators of one line.
    type Accumulator: Copy;
    /// The elements of a line as accumulators.
    fn widen<I: Isa>(line: Line) -> Self::Accumulator;
    /// `a op b`, element by element.
    fn combine<O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator;
    /// The result as it goes to memory: rounded once, NaN canonical.
    fn narrow<I: Isa>(accumulator: Self::Accumulator) -> Line;
}

#[inline(always)]
fn combine<O: Operator, T: Number, const N: usize>(a: [T; N], b: [T; N]) -> [T; N] {
    let mut result = a;
    for i in 0..N {
        result[i] = O::apply(a[i], b[i]);
    }
    result
}

#[inline(always)]
fn canonical<T: Number, const N: usize>(mut a: [T; N]) -> [T; N] {
    for x in &mut a {
        *x = x.canonical();
    }
    a
}

macro_rules! plain_element {
    ($($t:ty),*) => {$(
        impl Element for $t {
            const SIZE: usize = size_of::<$t>();
            type Accumulator = [$t; 64 / size_of::<$t>()];
            #[inline(always)]
            fn widen<I: Isa>(line: Line) -> Self::Accumulator {
                // SAFETY: both are 64 bytes, and every bit pattern is a number.
                unsafe { core::mem::transmute(line) }
            }
            #[inline(always)]
            fn combine<O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator {
                combine::<O, $t, _>(a, b)
            }
            #[inline(always)]
            fn narrow<I: Isa>(accumulator: Self::Accumulator) -> Line {
                // SAFETY: both are 64 bytes, and every bit pattern is a line.
                unsafe { core::mem::transmute(canonical(accumulator)) }
            }
        }
    )*};
}
plain_element!(i8, i16, i32, i64, u64, f32, f64);

/// fp16, accumulated in fp32.
pub(super) struct Fp16;

impl Element for Fp16 {
    const SIZE: usize = 2;
    type Accumulator = [f32; 32];
    #[inline(always)]
    fn widen<I: Isa>(line: Line) -> Self::Accumulator {
        I::widen_f16(line)
    }
    #[inline(always)]
    fn combine<O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator {
        combine::<O, f32, 32>(a, b)
    }
    #[inline(always)]
    fn narrow<I: Isa>(accumulator: Self::Accumulator) -> Line {
        I::narrow_f16(canonical(accumulator))
    }
}

/// bf16, accumulated in fp32.
pub(super) struct Bf16;

impl Element for Bf16 {
    const SIZE: usize = 2;
    type Accumulator = [f32; 32];
    #[inline(always)]
    fn widen<I: Isa>(line: Line) -> Self::Accumulator {
        I::widen_bf16(line)
    }
    #[inline(always)]
    fn combine<O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator {
        combine::<O, f32, 32>(a, b)
    }
    #[inline(always)]
    fn narrow<I: Isa>(accumulator: Self::Accumulator) -> Line {
        I::narrow_bf16(canonical(accumulator))
    }
}
