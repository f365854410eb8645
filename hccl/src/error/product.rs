//! The products of Ascend, as far as they differ for a program.

use std::fmt;

/// A generation of Ascend devices, as far as generations differ for a program.
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
    /// Ascend 910B: Atlas A2.
    A2,
    /// Ascend 910_93: Atlas A3.
    A3,
    /// Ascend 950.
    Ascend950,
}

impl Product {
    /// The product by the name that `aclrtGetSocName` returns.
    pub(crate) fn from_soc_name(name: &str) -> Option<Product> {
        // The A3 name also starts with Ascend910.
        [
            ("Ascend910_93", Product::A3),
            ("Ascend910B", Product::A2),
            ("Ascend950", Product::Ascend950),
        ]
        .into_iter()
        .find_map(|(start, product)| name.starts_with(start).then_some(product))
    }

    /// The product as the rules for kernels name it.
    pub(crate) fn of_kernels(self) -> ascend_program::check::Product {
        use ascend_program::check::Product as P;
        match self {
            Product::A2 => P::A2,
            Product::A3 => P::A3,
            Product::Ascend950 => P::Ascend950,
        }
    }

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
