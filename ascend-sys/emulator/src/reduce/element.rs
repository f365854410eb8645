//! What a reduction does to single elements, written once for every type and every operator. The loops run over 64 bytes of
//! elements that are already in registers; the compiler turns them into vector instructions of the caller's target.

use super::isa::{Isa, Line};
use core::mem::transmute;

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
integer_number!(i8, i16, u16, i32, i64, u64);

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
    /// The elements of a line in memory as accumulators.
    ///
    /// # Safety
    ///
    /// As for [`Isa::load`].
    #[inline(always)]
    unsafe fn load<I: Isa>(from: *const u8) -> Self::Accumulator {
        // SAFETY: the same promise.
        Self::widen::<I>(unsafe { I::load(from) })
    }
    /// `a op b`, element by element.
    fn combine<I: Isa, O: Operator>(
        a: Self::Accumulator,
        b: Self::Accumulator,
    ) -> Self::Accumulator;
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

macro_rules! plain_element {
    ($($t:ty),*) => {$(
        impl Element for $t {
            const SIZE: usize = size_of::<$t>();
            type Accumulator = [$t; 64 / size_of::<$t>()];
            #[inline(always)]
            fn widen<I: Isa>(line: Line) -> Self::Accumulator {
                // SAFETY: both are 64 bytes, and every bit pattern is a number.
                unsafe { transmute(line) }
            }
            #[inline(always)]
            fn combine<I: Isa, O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator {
                let result = combine::<O, $t, _>(a, b);
                // SAFETY: all are 64 bytes, and every bit pattern is a number.
                unsafe { transmute(I::keep(transmute::<Self::Accumulator, Line>(result))) }
            }
            #[inline(always)]
            fn narrow<I: Isa>(mut accumulator: Self::Accumulator) -> Line {
                for x in &mut accumulator {
                    *x = x.canonical();
                }
                // SAFETY: both are 64 bytes, and every bit pattern is a line.
                unsafe { I::keep(transmute::<Self::Accumulator, Line>(accumulator)) }
            }
        }
    )*};
}
plain_element!(i8, i16, i32, i64, u64, f32, f64);

/// Sums and products of 16-bit floats are accumulated in fp32.
macro_rules! wide_element {
    ($($name:ident: $widen:ident, $narrow:ident $(, $load:ident)?;)*) => {$(
        pub(super) struct $name;

        impl Element for $name {
            const SIZE: usize = 2;
            type Accumulator = [f32; 32];
            #[inline(always)]
            fn widen<I: Isa>(line: Line) -> Self::Accumulator {
                I::$widen(line)
            }
            $(#[inline(always)]
            unsafe fn load<I: Isa>(from: *const u8) -> Self::Accumulator {
                // SAFETY: the same promise.
                unsafe { I::$load(from) }
            })?
            #[inline(always)]
            fn combine<I: Isa, O: Operator>(a: Self::Accumulator, b: Self::Accumulator) -> Self::Accumulator {
                let result = combine::<O, f32, 32>(a, b);
                // SAFETY: both are 128 bytes, and every bit pattern is a number.
                unsafe {
                    let [first, second] = transmute::<Self::Accumulator, [Line; 2]>(result);
                    transmute([I::keep(first), I::keep(second)])
                }
            }
            #[inline(always)]
            fn narrow<I: Isa>(accumulator: Self::Accumulator) -> Line {
                I::$narrow(accumulator)
            }
        }
    )*};
}
wide_element! {
    Fp16: widen_f16, narrow_f16, load_f16;
    Bf16: widen_bf16, narrow_bf16;
}

/// 16-bit floats of which the greatest or the least is wanted: as integers that are ordered as the floats are.
///
/// Read as sign and magnitude, the bits of floats are in order, negative NaNs first and positive ones last. The scale is shifted so that
/// both kinds of NaN come to the end that wins: the top where the greatest is wanted, the bottom where the least is.
pub(super) struct Ordered<const INFINITY: u16, const GREATEST: bool>;

impl<const INFINITY: u16, const GREATEST: bool> Ordered<INFINITY, GREATEST> {
    /// The place of a negative infinity before the shift.
    const NEGATIVE: u16 = Self::in_order(0x8000 | INFINITY);
    /// What comes first after the shift: the negative infinity, or the first of the NaNs.
    const FIRST: u16 = if GREATEST { Self::NEGATIVE } else { INFINITY + 1 };

    /// Sign and magnitude to two's complement and back: turns round what is negative.
    #[inline(always)]
    const fn in_order(bits: u16) -> u16 {
        bits ^ (((bits as i16) >> 15) as u16 & 0x7FFF)
    }
}

impl<const INFINITY: u16, const GREATEST: bool> Element for Ordered<INFINITY, GREATEST> {
    const SIZE: usize = 2;
    type Accumulator = [u16; 32];
    #[inline(always)]
    fn widen<I: Isa>(line: Line) -> Self::Accumulator {
        let mut places = line.to_u16();
        for place in &mut places {
            *place = Self::in_order(*place).wrapping_sub(Self::FIRST);
        }
        places
    }
    #[inline(always)]
    fn combine<I: Isa, O: Operator>(
        a: Self::Accumulator,
        b: Self::Accumulator,
    ) -> Self::Accumulator {
        I::keep(Line::from_u16(combine::<O, u16, 32>(a, b))).to_u16()
    }
    #[inline(always)]
    fn narrow<I: Isa>(mut places: Self::Accumulator) -> Line {
        // The canonical NaN: all of the exponent, and the highest bit of the mantissa.
        let nan = INFINITY | (INFINITY & INFINITY.wrapping_neg()) >> 1;
        for place in &mut places {
            let bits = Self::in_order(place.wrapping_add(Self::FIRST));
            *place = if bits & 0x7FFF > INFINITY { nan } else { bits };
        }
        I::keep(Line::from_u16(places))
    }
}
