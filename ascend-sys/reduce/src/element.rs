//! The arithmetic of a reduction on single elements, written once for every type and every
//! operator. The loops run over 64 bytes of elements that are already in registers. The compiler
//! turns these loops into vector instructions of the caller's target.

use super::isa::{CacheLine, Isa};
use core::mem::transmute;

/// The type in which elements are accumulated.
///
/// Integers wrap. The maximum and minimum of floats are those of IEEE 754-2019 (`maximum`,
/// `minimum`): a NaN propagates, and -0 is less than +0.
pub trait Arithmetic: Copy {
    /// Returns the sum; integers wrap.
    fn sum(a: Self, b: Self) -> Self;
    /// Returns the product; integers wrap.
    fn product(a: Self, b: Self) -> Self;
    /// Returns the greater value, or a NaN if either value is a NaN.
    fn maximum(a: Self, b: Self) -> Self;
    /// Returns the lesser value, or a NaN if either value is a NaN.
    fn minimum(a: Self, b: Self) -> Self;
    /// Returns the value, or the canonical NaN for every NaN. The payload that survives an addition
    /// depends on the order of its operands, which the compiler may swap. So without this function,
    /// two builds of one kernel could give different bits.
    fn canonical(self) -> Self;
}

macro_rules! integer_number {
    ($($t:ty),*) => {$(
        impl Arithmetic for $t {
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
integer_number!(i8, i16, u16, i32, i64, u64);

macro_rules! float_number {
    ($($t:ty),*) => {$(
        impl Arithmetic for $t {
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
                let larger = if a > b { a } else { b }; // this is b if b is a NaN
                // Equal numbers have equal bits, except the two zeros: for these, `&` gives +0.
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

/// One of the four operators, as a type, so that the operator is chosen outside the loops.
pub(super) trait Operator {
    fn apply<T: Arithmetic>(a: T, b: T) -> T;
    /// Applies the operator to the accumulators of a line of 16-bit elements.
    #[inline(always)]
    fn apply_wide<I: Isa>(a: [f32; 32], b: [f32; 32]) -> [f32; 32] {
        combine::<Self, f32, 32>(a, b)
    }
}

pub(super) struct Sum;
pub(super) struct Prod;
pub(super) struct Maximum;
pub(super) struct Minimum;

impl Operator for Sum {
    #[inline(always)]
    fn apply<T: Arithmetic>(a: T, b: T) -> T {
        T::sum(a, b)
    }
    #[inline(always)]
    fn apply_wide<I: Isa>(a: [f32; 32], b: [f32; 32]) -> [f32; 32] {
        I::sum(a, b)
    }
}

macro_rules! operator {
    ($($name:ident: $function:ident),*) => {$(
        impl Operator for $name {
            #[inline(always)]
            fn apply<T: Arithmetic>(a: T, b: T) -> T {
                T::$function(a, b)
            }
        }
    )*};
}
operator!(Prod: product, Maximum: maximum, Minimum: minimum);

/// An element type in its form in memory, and the accumulators for one [`CacheLine`] of it.
pub(super) trait Element {
    /// The number of bytes of one element.
    const SIZE: usize;
    /// Whether the results come in halves of registers. If so, they are also written in halves.
    const HALVES: bool = false;
    /// The accumulators of one line.
    type Accumulator: Copy;
    /// Converts the elements of a line to accumulators.
    fn widen<I: Isa>(line: CacheLine) -> Self::Accumulator;
    /// Loads several lines from memory and converts their elements to accumulators.
    ///
    /// # Safety
    ///
    /// As for [`Isa::load_lines`].
    #[inline(always)]
    unsafe fn load<I: Isa, const N: usize>(from: *const u8) -> [Self::Accumulator; N] {
        // SAFETY: the caller makes the same guarantee.
        let lines = unsafe { I::load_lines::<N>(from) };
        let mut wide = [Self::widen::<I>(lines[0]); N];
        for i in 1..N {
            wide[i] = Self::widen::<I>(lines[i]);
        }
        wide
    }
    /// Returns `a op b`, element by element.
    fn combine<I: Isa, O: Operator>(
        a: Self::Accumulator,
        b: Self::Accumulator,
    ) -> Self::Accumulator;
    /// Converts accumulators to the form in memory: rounded once, with every NaN canonical.
    fn narrow<I: Isa, const N: usize>(accumulators: [Self::Accumulator; N]) -> [CacheLine; N];
}

#[inline(always)]
fn combine<O: Operator + ?Sized, T: Arithmetic, const N: usize>(a: [T; N], b: [T; N]) -> [T; N] {
    let mut result = a;
    for i in 0..N {
        result[i] = O::apply(a[i], b[i]);
    }
    result
}

macro_rules! plain_element {
    ($($t:ty),*) => {$(
        impl Element for $t {
            const SIZE: usize = size_of::<$t>();
            type Accumulator = [$t; 64 / size_of::<$t>()];
            #[inline(always)]
            fn widen<I: Isa>(line: CacheLine) -> Self::Accumulator {
                // SAFETY: both types are 64 bytes, and every bit pattern is a number.
                unsafe { transmute(line) }
            }
            #[inline(always)]
            fn combine<I: Isa, O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator {
                let result = combine::<O, $t, _>(a, b);
                // SAFETY: all types are 64 bytes, and every bit pattern is a number.
                unsafe { transmute(I::keep(transmute::<Self::Accumulator, CacheLine>(result))) }
            }
            #[inline(always)]
            fn narrow<I: Isa, const N: usize>(accumulators: [Self::Accumulator; N]) -> [CacheLine; N] {
                let mut lines = [CacheLine([0; 64]); N];
                for i in 0..N {
                    let mut accumulator = accumulators[i];
                    for x in &mut accumulator {
                        *x = x.canonical();
                    }
                    // SAFETY: both types are 64 bytes, and every bit pattern is a line.
                    lines[i] = unsafe { I::keep(transmute::<Self::Accumulator, CacheLine>(accumulator)) };
                }
                lines
            }
        }
    )*};
}
plain_element!(i8, i16, i32, i64, u64, f32, f64);

/// Applies [`Isa::keep`] to both lines.
#[inline(always)]
fn keep<I: Isa>(wide: [f32; 32]) -> [f32; 32] {
    // SAFETY: both types are 128 bytes, and every bit pattern is a number.
    unsafe {
        let [first, second] = transmute::<[f32; 32], [CacheLine; 2]>(wide);
        transmute([I::keep(first), I::keep(second)])
    }
}

/// Implements [`Element`] for 16-bit floats whose sums and products are accumulated in fp32.
macro_rules! wide_element {
    ($($name:ident: $halves:literal, $widen:ident, $narrow:ident $(, $load:ident)?;)*) => {$(
        pub(super) struct $name;

        impl Element for $name {
            const SIZE: usize = 2;
            const HALVES: bool = $halves;
            type Accumulator = [f32; 32];
            #[inline(always)]
            fn widen<I: Isa>(line: CacheLine) -> Self::Accumulator {
                I::$widen(line)
            }
            $(#[inline(always)]
            unsafe fn load<I: Isa, const N: usize>(from: *const u8) -> [Self::Accumulator; N] {
                // SAFETY: the caller makes the same guarantee.
                unsafe { I::$load::<N>(from) }
            })?
            #[inline(always)]
            fn combine<I: Isa, O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator {
                keep::<I>(O::apply_wide::<I>(a, b))
            }
            #[inline(always)]
            fn narrow<I: Isa, const N: usize>(accumulators: [Self::Accumulator; N]) -> [CacheLine; N] {
                let mut accumulators = accumulators;
                if I::any_nan(&accumulators) {
                    for accumulator in &mut accumulators {
                        for x in accumulator.iter_mut() {
                            *x = x.canonical();
                        }
                        *accumulator = keep::<I>(*accumulator);
                    }
                }
                let mut lines = [CacheLine([0; 64]); N];
                for i in 0..N {
                    lines[i] = I::$narrow(accumulators[i]);
                }
                lines
            }
        }
    )*};
}
wide_element! {
    Fp16: true, widen_f16, narrow_f16, load_f16;
    Bf16: false, widen_bf16, narrow_bf16;
}

/// Returns the canonical NaN, given the bits of infinity: all bits of the exponent, and the highest
/// bit of the mantissa.
const fn nan(infinity: u16) -> u16 {
    infinity | (infinity & infinity.wrapping_neg()) >> 1
}

/// 16-bit floats for a maximum or a minimum.
///
/// Compared as signed integers, positive floats are in their own order, followed by the positive
/// NaNs, and negative floats are in the reverse order. So three extremes of the integers are
/// enough, and no conversion is needed: the greatest and the least signed value, and the greatest
/// unsigned value.
pub(super) struct Ordered<const INFINITY: u16, const GREATEST: bool>;

/// The extremes so far in each 16-bit lane of a cache line.
#[derive(Clone, Copy)]
pub(super) struct Extremes {
    /// The greatest signed value. It is the greatest float if one of the floats is positive. A
    /// positive NaN is greater than every positive float.
    greatest: CacheLine,
    /// The least signed value. It is the least float if all floats are positive, and the greatest
    /// float if all are negative.
    least: CacheLine,
    /// The greatest unsigned value. It is the least float if one of the floats is negative. A
    /// negative NaN is greater than every other value.
    unsigned: CacheLine,
}

impl<const INFINITY: u16, const GREATEST: bool> Element for Ordered<INFINITY, GREATEST> {
    const SIZE: usize = 2;
    type Accumulator = Extremes;
    #[inline(always)]
    fn widen<I: Isa>(line: CacheLine) -> Extremes {
        Extremes { greatest: line, least: line, unsigned: line }
    }
    #[inline(always)]
    fn combine<I: Isa, O: Operator>(a: Extremes, b: Extremes) -> Extremes {
        let greatest = combine::<Maximum, i16, 32>(a.greatest.to_i16(), b.greatest.to_i16());
        let least = combine::<Minimum, i16, 32>(a.least.to_i16(), b.least.to_i16());
        let unsigned = combine::<Maximum, u16, 32>(a.unsigned.to_u16(), b.unsigned.to_u16());
        Extremes {
            greatest: I::keep(CacheLine::from_i16(greatest)),
            least: I::keep(CacheLine::from_i16(least)),
            unsigned: I::keep(CacheLine::from_u16(unsigned)),
        }
    }
    #[inline(always)]
    fn narrow<I: Isa, const N: usize>(accumulators: [Extremes; N]) -> [CacheLine; N] {
        let mut lines = [CacheLine([0; 64]); N];
        for n in 0..N {
            let greatest = I::keep(accumulators[n].greatest).to_i16();
            let least = I::keep(accumulators[n].least).to_i16();
            let unsigned = I::keep(accumulators[n].unsigned).to_u16();
            let mut result = [0; 32];
            for i in 0..32 {
                let float = if GREATEST {
                    if greatest[i] < 0 { least[i] } else { greatest[i] }
                } else {
                    if (unsigned[i] as i16) < 0 { unsigned[i] as i16 } else { least[i] }
                };
                let is_nan = greatest[i] > INFINITY as i16 || unsigned[i] > 0x8000 | INFINITY;
                result[i] = if is_nan { nan(INFINITY) } else { float as u16 };
            }
            lines[n] = I::keep(CacheLine::from_u16(result));
        }
        lines
    }
}
