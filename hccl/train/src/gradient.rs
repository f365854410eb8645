//! The types of numbers that gradients consist of.

use hccl::prelude::*;

/// A floating-point type that ranks can add up.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::{FixedSum, Gradient};
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     /// Works for each type of gradients.
///     fn total<T: Gradient>(own: &[Vec<T>], comm: &mut Communicator, on: &Stream) -> hccl_train::Result<Vec<T>> {
///         FixedSum::new(own.len() * comm.world_size() as usize).sum(own, comm, on)
///     }
///     assert_eq!(total(&[vec![1.0_f32]], &mut comm, &stream)?, [2.0]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub trait Gradient: Reduce<Sum> {
    /// Returns the value times a factor.
    fn scaled(self, factor: f32) -> Self;

    /// Returns the sum of two values.
    fn plus(self, other: Self) -> Self;

    /// Returns the value as an `f64`.
    fn to_f64(self) -> f64;

    /// Appends the bytes of the value, in little-endian order.
    fn write_to(self, bytes: &mut Vec<u8>);

    /// Reads a value from bytes in little-endian order. Missing bytes count as zero.
    fn read_from(bytes: &[u8]) -> Self;
}

/// Multiplies all elements by a factor.
pub(crate) fn scale<T: Gradient>(elements: &mut [T], factor: f32) {
    elements.iter_mut().for_each(|element| *element = element.scaled(factor));
}

/// Returns the first `N` bytes of a slice. Fills up with zeros if the slice is shorter.
fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    all.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    all
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

            fn write_to(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn read_from(bytes: &[u8]) -> Self {
                <$float>::from_le_bytes(first(bytes))
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

            fn write_to(self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn read_from(bytes: &[u8]) -> Self {
                <$float>::from_le_bytes(first(bytes))
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

/// A type of gradients that can be summed in the type `W`, which can represent all of its values.
/// `f16` and `bf16` can be summed in `f32`, and each type in itself.
///
/// ```
/// use hccl::prelude::*;
/// use hccl_train::GradientBuckets;
///
/// # fn main() -> hccl_train::Result<()> {
/// # let runtime = Runtime::emulator(2)?;
/// runtime.run_ranks(2, |rank| -> hccl_train::Result<()> {
///     let stream = rank.device().stream()?;
///     let mut comm = rank.communicator()?;
///     // Gradients of 16 bits, whose sums have 32.
///     let mut buckets = GradientBuckets::<bf16, f32>::new(&[2], &stream)?;
///     let mut step = buckets.step(&mut comm, &stream);
///     step.push(0, &[bf16::ONE; 2])?;
///     assert_eq!(step.finish()?.get(0)?, [1.0_f32; 2]);
///     Ok(())
/// })?;
/// # Ok(())
/// # }
/// ```
pub trait Widen<W>: Element {
    /// Converts the value to `W` without loss.
    fn widen(self) -> W;
}

impl<T: Gradient> Widen<T> for T {
    fn widen(self) -> T {
        self
    }
}
