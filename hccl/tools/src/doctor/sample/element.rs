//! Inputs of the sample, and the expected results.
//!
//! Inputs of reductions are small whole numbers. So every sum, product, maximum and minimum is
//! exact in every type, in any order of computation. Inputs of movements have arbitrary bits.

use hccl::dtype::{Element, Max, Min, Prod, Reduce, ReduceKind, ReduceOp, Sum, bf16, f16};

/// An action that needs the operation of a reduction as a type.
pub(crate) trait WithReduction<T: Element> {
    fn call<Op: ReduceOp>(self, op: Op) -> hccl::Result<Option<Vec<T>>>
    where
        T: Reduce<Op>;
}

/// An element of the sample.
pub(crate) trait Sample: Kinds {
    /// Makes an element from the lowest bits of `bits`.
    fn from_bits(bits: u64) -> Self;

    fn from_number(number: i64) -> Self;

    fn into_bits(self) -> u64;

    /// Returns the value and the bits of the element as text.
    fn text(self) -> String;

    /// Returns the element that a rank gives to a movement.
    fn moved(rank: u32, index: usize) -> Self {
        let mut bits = (u64::from(rank) << 40 ^ index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits ^= bits >> 29;
        Self::from_bits(bits.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ bits >> 17)
    }

    /// Returns the element that a rank gives to a reduction.
    fn given(kind: ReduceKind, rank: u32, ranks: u32, index: usize) -> Self {
        Self::from_number(number(kind, rank, ranks, index))
    }

    /// Returns the element that a reduction over all ranks must give.
    fn reduced(kind: ReduceKind, ranks: u32, index: usize) -> Self {
        let numbers = (0..ranks).map(|rank| number(kind, rank, ranks, index));
        let result = match kind {
            ReduceKind::Sum => numbers.sum(),
            ReduceKind::Prod => numbers.product(),
            ReduceKind::Max => numbers.max().unwrap_or_default(),
            ReduceKind::Min => numbers.min().unwrap_or_default(),
        };
        Self::from_number(result)
    }
}

/// Returns the whole number that a rank gives to a reduction.
fn number(kind: ReduceKind, rank: u32, ranks: u32, index: usize) -> i64 {
    let mixed = u64::from(rank).wrapping_mul(31).wrapping_add((index as u64).wrapping_mul(17));
    if kind == ReduceKind::Prod {
        // At most six ranks give 2, so a product is at most 64, which fits every type.
        return match (rank < 6, (mixed + mixed / 7) % 3) {
            (true, 0) => 2,
            (_, 1) => -1,
            _ => 1,
        };
    }
    // The sum over all ranks fits the smallest type.
    let largest = (120 / u64::from(ranks.max(1))).max(1);
    ((mixed ^ mixed >> 3) % (2 * largest + 1)) as i64 - largest as i64
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        values! { $t, |bits: u64| bits as $t, |number: i64| number as $t, |value: $t| value as u64 & (u64::MAX >> (64 - <$t>::BITS)) }
    )*};
}

macro_rules! values {
    ($t:ty, $from_bits:expr, $from_number:expr, $into_bits:expr) => {
        impl Sample for $t {
            fn from_bits(bits: u64) -> Self {
                ($from_bits)(bits)
            }
            fn from_number(number: i64) -> Self {
                ($from_number)(number)
            }
            fn into_bits(self) -> u64 {
                ($into_bits)(self)
            }
            fn text(self) -> String {
                let digits = 2 * size_of::<Self>();
                format!("{self} (0x{:0digits$x})", self.into_bits())
            }
        }
    };
}

/// The reductions of a type.
pub(crate) trait Kinds: Element {
    /// Calls `with` with the reduction. Returns `None` if the type does not have it.
    fn with<W: WithReduction<Self>>(kind: ReduceKind, with: W) -> hccl::Result<Option<Vec<Self>>>;
}

macro_rules! kinds {
    ($($t:ty: $($op:ident)*;)*) => {$(
        impl Kinds for $t {
            fn with<W: WithReduction<Self>>(kind: ReduceKind, with: W) -> hccl::Result<Option<Vec<Self>>> {
                let _ = &with;
                match kind {
                    $(ReduceKind::$op => with.call($op),)*
                    #[allow(unreachable_patterns, reason = "some types have all of them")]
                    _ => Ok(None),
                }
            }
        }
    )*};
}

kinds! {
    i8: Sum Prod Max Min;
    i16: Sum Max Min;
    i32: Sum Prod Max Min;
    i64: Sum Prod Max Min;
    u8: ;
    u16: ;
    u32: ;
    u64: Sum Prod Max Min;
    f16: Sum Prod Max Min;
    bf16: Sum Max Min;
    f32: Sum Prod Max Min;
    f64: Sum Prod Max Min;
}
integers! { i8 i16 i32 i64 u8 u16 u32 u64 }
values! { f16, |bits: u64| f16::from_bits(bits as u16), |number: i64| f16::from_f32(number as f32), |value: f16| u64::from(value.to_bits()) }
values! { bf16, |bits: u64| bf16::from_bits(bits as u16), |number: i64| bf16::from_f32(number as f32), |value: bf16| u64::from(value.to_bits()) }
values! { f32, |bits: u64| f32::from_bits(bits as u32), |number: i64| number as f32, |value: f32| u64::from(value.to_bits()) }
values! { f64, f64::from_bits, |number: i64| number as f64, f64::to_bits }

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that the reductions of all ranks, one after the other, are exact in a type.
    fn is_exact<T: Sample + std::ops::Add<Output = T> + std::ops::Mul<Output = T>>() {
        for ranks in [1, 2, 8, 16] {
            for index in 0..500 {
                let of = |kind| (0..ranks).map(move |rank| T::given(kind, rank, ranks, index));
                let sum = of(ReduceKind::Sum).reduce(|a, b| a + b).unwrap();
                assert_eq!(sum.into_bits(), T::reduced(ReduceKind::Sum, ranks, index).into_bits());
                let product = of(ReduceKind::Prod).reduce(|a, b| a * b).unwrap();
                let expected = T::reduced(ReduceKind::Prod, ranks, index);
                // A factor of 0 would hide the other factors. The sign is that of the factors.
                assert_eq!(product.into_bits(), expected.into_bits());
                assert_ne!(expected.into_bits(), 0);
            }
        }
    }

    #[test]
    fn reductions_are_exact_in_every_type() {
        is_exact::<i8>();
        is_exact::<i64>();
        is_exact::<f16>();
        is_exact::<bf16>();
        is_exact::<f32>();
    }

    #[test]
    fn ranks_give_different_numbers_and_bits() {
        for kind in [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max] {
            let of =
                |rank| (0..100).map(move |index| number(kind, rank, 4, index)).collect::<Vec<_>>();
            assert_ne!(of(0), of(1), "{kind:?}");
        }
        let of = |rank| (0..100).map(|index| u8::moved(rank, index)).collect::<Vec<_>>();
        assert_ne!(of(0), of(1));
    }

    #[test]
    fn a_value_is_shown_with_its_bits() {
        assert_eq!((-2i8).text(), "-2 (0xfe)");
        assert_eq!(1.5f32.text(), "1.5 (0x3fc00000)");
        assert_eq!(f16::from_f32(1.0).text(), "1 (0x3c00)");
    }
}
