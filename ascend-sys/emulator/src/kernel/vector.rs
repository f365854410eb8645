//! The arithmetic of a vector core, on its local memory.
//!
//! Floating point types of at most 32 bits are computed in 32 bits and rounded once. Integers wrap.

use ascend_program::layout::Number;
use ascend_program::step::{VectorBinary, VectorReduce, VectorUnary};
use ascend_reduce::Arithmetic;
use half::{bf16, f16};
use std::ops::Range;

/// The number of elements that are processed at a time.
const LANES: usize = 64;
/// The number of bytes of one repeat of an instruction.
const REPEAT: usize = 256;

/// A type in which numbers of one or more element types are computed.
trait Wide: Arithmetic + Default {
    fn sub(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn exp(self) -> Self;
    fn sqrt(self) -> Self;
    /// Converts from the bits of a value of a program.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! floats {
    ($($float:ident)*) => {$(
        impl Wide for $float {
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn exp(self) -> Self {
                // The value is computed with more bits and rounded once, so that it is the same on
                // every machine.
                f64::exp(f64::from(self)) as $float
            }
            fn sqrt(self) -> Self {
                $float::sqrt(self)
            }
            fn of_bits(bits: u64) -> Self {
                f64::from_bits(bits) as $float
            }
        }
    )*};
}
floats!(f32 f64);

macro_rules! integers {
    ($($integer:ident)*) => {$(
        impl Wide for $integer {
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn div(self, other: Self) -> Self {
                // CANN does not document the result of a division by zero. It must not end the
                // process.
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn exp(self) -> Self {
                (self as f64).exp() as $integer
            }
            fn sqrt(self) -> Self {
                (self as f64).sqrt() as $integer
            }
            fn of_bits(bits: u64) -> Self {
                bits as $integer
            }
        }
    )*};
}
integers!(i64 u64);

/// An element type.
trait VectorElement {
    type Wide: Wide;
    const SIZE: usize;
    fn load(bytes: &[u8]) -> Self::Wide;
    fn store(value: Self::Wide, bytes: &mut [u8]);
}

macro_rules! lanes {
    ($($name:ident $wide:ident $type:ident |$bits:ident| $load:expr, |$value:ident| $store:expr;)*) => {$(
        struct $name;
        impl VectorElement for $name {
            type Wide = $wide;
            const SIZE: usize = size_of::<$type>();
            #[inline]
            fn load(bytes: &[u8]) -> $wide {
                let mut whole = [0; size_of::<$type>()];
                whole.copy_from_slice(bytes);
                let $bits = $type::from_le_bytes(whole);
                $load
            }
            #[inline]
            fn store($value: $wide, bytes: &mut [u8]) {
                let value: $type = $store;
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
    )*};
}
lanes! {
    F32 f32 f32 |bits| bits, |value| value;
    F64 f64 f64 |bits| bits, |value| value;
    F16 f32 u16 |bits| f16::from_bits(bits).to_f32(), |value| f16::from_f32(value).to_bits();
    Bf16 f32 u16 |bits| bf16::from_bits(bits).to_f32(), |value| bf16::from_f32(value).to_bits();
    I8 i64 i8 |bits| bits.into(), |value| value as i8;
    I16 i64 i16 |bits| bits.into(), |value| value as i16;
    I32 i64 i32 |bits| bits.into(), |value| value as i32;
    I64 i64 i64 |bits| bits, |value| value;
    U8 u64 u8 |bits| bits.into(), |value| value as u8;
    U16 u64 u16 |bits| bits.into(), |value| value as u16;
    U32 u64 u32 |bits| bits.into(), |value| value as u32;
    U64 u64 u64 |bits| bits, |value| value;
}

/// Calls a function for the element type that belongs to a number type.
macro_rules! by_type {
    ($number:expr, $function:ident($($argument:expr),*)) => {
        match $number {
            Number::F32 => $function::<F32>($($argument),*),
            Number::F64 => $function::<F64>($($argument),*),
            Number::F16 => $function::<F16>($($argument),*),
            Number::Bf16 => $function::<Bf16>($($argument),*),
            Number::I8 => $function::<I8>($($argument),*),
            Number::I16 => $function::<I16>($($argument),*),
            Number::I32 => $function::<I32>($($argument),*),
            Number::I64 => $function::<I64>($($argument),*),
            Number::U8 | Number::Bool => $function::<U8>($($argument),*),
            Number::U16 => $function::<U16>($($argument),*),
            Number::U32 => $function::<U32>($($argument),*),
            Number::U64 => $function::<U64>($($argument),*),
        }
    };
}

/// Checks that two operands may be used together: they must be the same bytes, or share none.
fn apart(a: &Range<usize>, b: &Range<usize>) -> Result<(), String> {
    if a == b || a.end <= b.start || b.end <= a.start || a.is_empty() || b.is_empty() {
        return Ok(());
    }
    Err("the result overlaps an operand in part; it must be the operand or lie apart".into())
}

/// Implements `Add`, `Sub`, `Mul`, `Div`, `Max` and `Min` for all elements of the ranges.
pub(super) fn binary(
    number: Number,
    operator: VectorBinary,
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
    b: Range<usize>,
) -> Result<(), String> {
    apart(&to, &a)?;
    apart(&to, &b)?;
    by_type!(number, binary_of(operator, memory, to, a, b));
    Ok(())
}

fn binary_of<L: VectorElement>(
    operator: VectorBinary,
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
    b: Range<usize>,
) {
    match operator {
        VectorBinary::Add => zip::<L>(memory, to, a, b, Arithmetic::sum),
        VectorBinary::Sub => zip::<L>(memory, to, a, b, Wide::sub),
        VectorBinary::Mul => zip::<L>(memory, to, a, b, Arithmetic::product),
        VectorBinary::Div => zip::<L>(memory, to, a, b, Wide::div),
        VectorBinary::Max => zip::<L>(memory, to, a, b, Arithmetic::maximum),
        VectorBinary::Min => zip::<L>(memory, to, a, b, Arithmetic::minimum),
    }
}

fn load<L: VectorElement>(bytes: &[u8], to: &mut [L::Wide; LANES]) {
    for (to, from) in to.iter_mut().zip(bytes.chunks_exact(L::SIZE)) {
        *to = L::load(from);
    }
}

fn store<L: VectorElement>(from: &[L::Wide; LANES], bytes: &mut [u8]) {
    for (to, from) in bytes.chunks_exact_mut(L::SIZE).zip(from) {
        L::store(*from, to);
    }
}

/// Returns the parts of a range that are processed one after another.
fn parts<L: VectorElement>(of: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<L> {
    let (start, end) = (of.start, of.end);
    (start..end).step_by(LANES * L::SIZE).map(move |at| at..(at + LANES * L::SIZE).min(end))
}

fn zip<L: VectorElement>(
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
    b: Range<usize>,
    of: impl Fn(L::Wide, L::Wide) -> L::Wide,
) {
    let (mut x, mut y) = ([L::Wide::default(); LANES], [L::Wide::default(); LANES]);
    for ((to, a), b) in parts::<L>(&to).zip(parts::<L>(&a)).zip(parts::<L>(&b)) {
        load::<L>(&memory[a], &mut x);
        load::<L>(&memory[b], &mut y);
        for (x, y) in x.iter_mut().zip(&y) {
            *x = of(*x, *y);
        }
        store::<L>(&x, &mut memory[to]);
    }
}

/// Implements `Adds`, `Muls`, `Maxs` and `Mins`, whose second operand is one number, with the bits
/// `bits`.
pub(super) fn scalar(
    number: Number,
    operator: VectorBinary,
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
    bits: u64,
) -> Result<(), String> {
    apart(&to, &a)?;
    by_type!(number, scalar_of(operator, memory, to, a, bits));
    Ok(())
}

fn scalar_of<L: VectorElement>(
    operator: VectorBinary,
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
    bits: u64,
) {
    let scalar = L::Wide::of_bits(bits);
    match operator {
        VectorBinary::Add => map::<L>(memory, to, a, |x| L::Wide::sum(x, scalar)),
        VectorBinary::Sub => map::<L>(memory, to, a, |x| x.sub(scalar)),
        VectorBinary::Mul => map::<L>(memory, to, a, |x| L::Wide::product(x, scalar)),
        VectorBinary::Div => map::<L>(memory, to, a, |x| x.div(scalar)),
        VectorBinary::Max => map::<L>(memory, to, a, |x| L::Wide::maximum(x, scalar)),
        VectorBinary::Min => map::<L>(memory, to, a, |x| L::Wide::minimum(x, scalar)),
    }
}

fn map<L: VectorElement>(
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
    of: impl Fn(L::Wide) -> L::Wide,
) {
    let mut x = [L::Wide::default(); LANES];
    for (to, a) in parts::<L>(&to).zip(parts::<L>(&a)) {
        load::<L>(&memory[a], &mut x);
        for x in &mut x {
            *x = of(*x);
        }
        store::<L>(&x, &mut memory[to]);
    }
}

/// Implements `Relu`, `Exp` and `Sqrt`.
pub(super) fn unary(
    number: Number,
    operator: VectorUnary,
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
) -> Result<(), String> {
    apart(&to, &a)?;
    by_type!(number, unary_of(operator, memory, to, a));
    Ok(())
}

fn unary_of<L: VectorElement>(
    operator: VectorUnary,
    memory: &mut [u8],
    to: Range<usize>,
    a: Range<usize>,
) {
    match operator {
        VectorUnary::Relu => map::<L>(memory, to, a, |x| L::Wide::maximum(x, L::Wide::default())),
        VectorUnary::Exp => map::<L>(memory, to, a, Wide::exp),
        VectorUnary::Sqrt => map::<L>(memory, to, a, Wide::sqrt),
    }
}

/// Implements `ReduceSum` and `ReduceMax`: reduces all elements to one. Within 256 bytes, elements
/// are combined as a tree. The results for each 256 bytes are combined in order.
pub(super) fn reduce(
    number: Number,
    operator: VectorReduce,
    memory: &mut [u8],
    to: Range<usize>,
    from: Range<usize>,
) {
    if !from.is_empty() {
        by_type!(number, reduce_of(operator, memory, to, from));
    }
}

fn reduce_of<L: VectorElement>(
    operator: VectorReduce,
    memory: &mut [u8],
    to: Range<usize>,
    from: Range<usize>,
) {
    let mut all: Option<L::Wide> = None;
    for repeat in memory[from].chunks(REPEAT) {
        let mut tree = [L::Wide::default(); REPEAT];
        let mut left = repeat.len() / L::SIZE;
        for (to, from) in tree.iter_mut().zip(repeat.chunks_exact(L::SIZE)) {
            *to = L::load(from);
        }
        let join = |a: L::Wide, b: L::Wide| match operator {
            VectorReduce::Sum => L::Wide::sum(a, b),
            VectorReduce::Max => L::Wide::maximum(a, b),
        };
        while left > 1 {
            for n in 0..left / 2 {
                tree[n] = join(tree[2 * n], tree[2 * n + 1]);
            }
            if left % 2 == 1 {
                tree[left / 2] = tree[left - 1];
            }
            left = left.div_ceil(2);
        }
        all = Some(all.map_or(tree[0], |all| join(all, tree[0])));
    }
    if let Some(all) = all {
        L::store(all, &mut memory[to]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in the reductions of the server, a NaN stays a NaN, and -0 is less than +0.
    #[test]
    fn maximum_and_minimum_do_not_depend_on_the_order_of_operands() {
        let of = |operator, a: f32, b: f32| {
            let mut memory = [a.to_le_bytes(), b.to_le_bytes(), [0; 4]].concat();
            binary(Number::F32, operator, &mut memory, 8..12, 0..4, 4..8).unwrap();
            f32::from_le_bytes([memory[8], memory[9], memory[10], memory[11]])
        };
        for (a, b) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(of(VectorBinary::Max, a, b).is_sign_positive());
            assert!(of(VectorBinary::Min, a, b).is_sign_negative());
        }
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(of(VectorBinary::Max, a, b).is_nan() && of(VectorBinary::Min, a, b).is_nan());
        }
    }

    #[test]
    fn halves_are_computed_in_32_bits_and_rounded_once() {
        let numbers = [0.1f32, 3.0, -7.25, 60000.0, 0.0001];
        for a in numbers {
            for b in numbers {
                let (x, y) = (f16::from_f32(a), f16::from_f32(b));
                let mut memory = [x.to_le_bytes(), y.to_le_bytes(), [0; 2]].concat();
                binary(Number::F16, VectorBinary::Mul, &mut memory, 4..6, 0..2, 2..4).unwrap();
                let product = f16::from_f32(x.to_f32() * y.to_f32());
                assert_eq!(memory[4..], product.to_le_bytes());
            }
        }
    }

    #[test]
    fn results_may_be_their_operand_but_not_overlap_it() {
        let mut memory: Vec<u8> = (0..100u32).flat_map(|n| (n as f32).to_le_bytes()).collect();
        binary(Number::F32, VectorBinary::Add, &mut memory, 0..400, 0..400, 0..400).unwrap();
        assert_eq!(memory[396..], 198f32.to_le_bytes());
        let refused = binary(Number::F32, VectorBinary::Add, &mut memory, 0..40, 4..44, 0..40);
        assert!(refused.unwrap_err().contains("overlaps"));
    }

    #[test]
    fn a_sum_is_a_tree_in_256_bytes_and_sequential_beyond() {
        let numbers: Vec<f32> = (0..150).map(|n| 1.0 / (n as f32 + 1.0)).collect();
        let mut memory: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        fn tree(numbers: &[f32]) -> f32 {
            match numbers {
                [one] => *one,
                _ => {
                    let pairs: Vec<f32> = numbers.chunks(2).map(|pair| pair.iter().sum()).collect();
                    tree(&pairs)
                }
            }
        }
        let expected = tree(&numbers[..64]) + tree(&numbers[64..128]) + tree(&numbers[128..]);
        reduce(Number::F32, VectorReduce::Sum, &mut memory, 0..4, 0..600);
        assert_eq!(memory[..4], expected.to_le_bytes());
    }
}
