//! The Ascend products that this crate distinguishes.

use std::fmt;

/// A generation of Ascend devices. Generations that behave alike for a program are one variant.
///
/// ```
/// use hccl::{Product, Runtime};
///
/// let runtime = Runtime::emulator_builder().devices(1).product(Product::Ascend950).build()?;
/// assert_eq!(runtime.product(), Some(Product::Ascend950)); // reduces `f64`, which an A3 does not
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Product {
    /// The Atlas A2, with Ascend 910B chips.
    A2,
    /// The Atlas A3, with Ascend 910_93 chips.
    A3,
    /// The Ascend 950.
    Ascend950,
}

impl Product {
    /// Returns the product for a name that `aclrtGetSocName` returns, or `None` for an unknown
    /// name.
    pub(crate) fn from_soc_name(name: &str) -> Option<Product> {
        // The names of the A2 and of the A3 both start with Ascend910.
        [
            ("Ascend910_93", Product::A3),
            ("Ascend910B", Product::A2),
            ("Ascend950", Product::Ascend950),
        ]
        .into_iter()
        .find_map(|(start, product)| name.starts_with(start).then_some(product))
    }

    /// Converts the product to the type that the rules for kernels use.
    pub(crate) fn of_kernels(self) -> ascend_program::check::Product {
        use ascend_program::check::Product as P;
        match self {
            Product::A2 => P::A2,
            Product::A3 => P::A3,
            Product::Ascend950 => P::Ascend950,
        }
    }

    /// Returns the emulator's code for the product.
    #[cfg(feature = "emulator")]
    pub(crate) fn code(self) -> u32 {
        use ascend_sys::AscendExtProduct as P;
        match self {
            Product::A2 => P::ASCEND_EXT_PRODUCT_A2.0,
            Product::A3 => P::ASCEND_EXT_PRODUCT_A3.0,
            Product::Ascend950 => P::ASCEND_EXT_PRODUCT_ASCEND950.0,
        }
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Product::A2 => "Atlas A2",
            Product::A3 => "Atlas A3",
            Product::Ascend950 => "Ascend 950",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_is_told_by_the_chip() {
        assert_eq!(Product::from_soc_name("Ascend910_9391"), Some(Product::A3));
        assert_eq!(Product::from_soc_name("Ascend910B4"), Some(Product::A2));
        assert_eq!(Product::from_soc_name("Ascend950PR_9599"), Some(Product::Ascend950));
        assert_eq!(Product::from_soc_name("Ascend310P3"), None);
    }
}
