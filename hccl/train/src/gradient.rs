//! Numbers that gradients consist of.

use hccl::prelude::*;

/// A floating-point type that ranks can add up.
pub trait Gradient: Reduce<Sum> {
    /// The value times a factor.
    fn scaled(self, factor: f32) -> Self;

    /// The sum of two.
    fn plus(self, other: Self) -> Self;

    /// The value as a double.
    fn to_f64(self) -> f64;
}

macro_rules! gradient {
    ($($float:ty),*) => {$(
        impl Gradient for $float {
            fn scaled(self, factor: f32) -> Self {
                self * <$float>::from(factor)
            }

            fn plus(self, other: Self) -> Self {
                self + other
            }

            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

gradient!(f32, f64);

macro_rules! half_gradient {
    ($($float:ty),*) => {$(
        impl Gradient for $float {
            fn scaled(self, factor: f32) -> Self {
                <$float>::from_f32(self.to_f32() * factor)
            }

            fn plus(self, other: Self) -> Self {
                <$float>::from_f32(self.to_f32() + other.to_f32())
            }

            fn to_f64(self) -> f64 {
                f64::from(self.to_f32())
            }
        }

        impl Widen<f32> for $float {
            fn widen(self) -> f32 {
                self.to_f32()
            }
        }
    )*};
}

half_gradient!(f16, bf16);

/// A gradient that can be summed in a type that has all its values: `f16` and `bf16` in `f32`, and each
/// in its own.
pub trait Widen<W>: Element {
    /// The same value.
    fn widen(self) -> W;
}

impl<T: Gradient> Widen<T> for T {
    fn widen(self) -> T {
        self
    }
}
