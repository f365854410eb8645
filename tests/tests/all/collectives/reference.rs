//! The expected results of the operations, computed in the plainest way: element by element, in the
//! order of the ranks.

use hccl::dtype::{Element, ReduceKind, bf16, f16};

/// A small generator (SplitMix64), so that a failure can be repeated.
pub struct Random(u64);

impl Random {
    pub fn new(seed: usize) -> Self {
        Random(seed as u64)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// An element with a reference for every operation on it.
pub trait Reference: Element {
    /// Makes an element of the low bits of `random`. It may have any bits, for data that is only
    /// moved.
    fn from_random(random: u64) -> Self;

    /// Returns an input for a reduction: any integer, or a float of moderate size, near one for a
    /// product.
    fn number(kind: ReduceKind, random: u64) -> Self;

    /// Returns the reduction of one element of each rank.
    fn reduce(kind: ReduceKind, inputs: impl Iterator<Item = Self>) -> Self;

    /// Returns the bits, as [`from_random`](Self::from_random) takes them.
    fn into_bits(self) -> u64;

    /// Returns whether all bits are equal, so that a NaN equals itself.
    fn same_bits(a: &[Self], b: &[Self]) -> bool {
        a.iter().map(|x| x.into_bits()).eq(b.iter().map(|x| x.into_bits()))
    }

    fn bits(seed: usize, n: usize) -> Vec<Self> {
        let mut random = Random::new(seed);
        (0..n).map(|_| Self::from_random(random.next())).collect()
    }

    fn numbers(kind: ReduceKind, seed: usize, n: usize) -> Vec<Self> {
        let mut random = Random::new(seed);
        (0..n).map(|_| Self::number(kind, random.next())).collect()
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Reference for $t {
            fn from_random(random: u64) -> Self {
                random as $t
            }
            fn number(_: ReduceKind, random: u64) -> Self {
                random as $t
            }
            fn reduce(kind: ReduceKind, inputs: impl Iterator<Item = Self>) -> Self {
                let combined = match kind {
                    ReduceKind::Sum => inputs.reduce(<$t>::wrapping_add),
                    ReduceKind::Prod => inputs.reduce(<$t>::wrapping_mul),
                    ReduceKind::Max => inputs.max(),
                    ReduceKind::Min => inputs.min(),
                };
                combined.unwrap_or_default()
            }
            fn into_bits(self) -> u64 {
                // The sign is not extended into the upper bits.
                self as u64 & (u64::MAX >> (64 - <$t>::BITS))
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Implements [`Reference`] for floats, which are combined in a type at least as wide as `f32` and
/// rounded once. A NaN in any input gives the NaN without sign and payload; -0 is less than +0. A
/// single input keeps its bits.
macro_rules! floats {
    ($($t:ty, $wide:ty, $widen:expr, $round:expr;)*) => {$(
        impl Reference for $t {
            fn from_random(random: u64) -> Self {
                <$t>::from_bits(random as _)
            }
            fn number(kind: ReduceKind, random: u64) -> Self {
                let unit = (random >> 40) as $wide / (1u32 << 24) as $wide;
                let round = $round;
                match kind {
                    ReduceKind::Prod => round(0.5 + unit),
                    _ => round(unit * 200.0 - 100.0),
                }
            }
            fn reduce(kind: ReduceKind, inputs: impl Iterator<Item = Self>) -> Self {
                let (widen, round) = ($widen, $round);
                let mut inputs = inputs.peekable();
                let Some(first) = inputs.next() else { return Self::default() };
                if inputs.peek().is_none() {
                    return first;
                }
                let is_less = |a: $wide, b: $wide| match a == b {
                    // Of the two zeros, the one with a sign is smaller.
                    true => a.is_sign_negative() && !b.is_sign_negative(),
                    false => a < b,
                };
                let combine = |a: $wide, b: $wide| match kind {
                    _ if a.is_nan() || b.is_nan() => <$wide>::NAN,
                    ReduceKind::Sum => a + b,
                    ReduceKind::Prod => a * b,
                    ReduceKind::Max if is_less(a, b) => b,
                    ReduceKind::Min if is_less(b, a) => b,
                    ReduceKind::Max | ReduceKind::Min => a,
                };
                let combined = inputs.map(widen).fold(widen(first), combine);
                round(if combined.is_nan() { <$wide>::NAN } else { combined })
            }
            fn into_bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    )*};
}
floats! {
    f16, f32, |x: f16| x.to_f32(), f16::from_f32;
    bf16, f32, |x: bf16| x.to_f32(), bf16::from_f32;
    f32, f32, |x: f32| x, |x: f32| x;
    f64, f64, |x: f64| x, |x: f64| x;
}
