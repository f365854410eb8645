//! The builder of a `TCubeTiling` for the shape of a matrix product.

use std::fmt;

use ascend_program::cube;
use ascend_program::{Matmul, check};

use super::{TCubeTiling, TilingError};
use crate::Result;
use crate::dtype::Element;
use crate::error::product::Product;
use crate::kernel::tensor::number;

impl TCubeTiling {
    /// Returns a builder of the tiling that divides the matrix product `c = a * b` among the cube
    /// cores. `c` has `m` rows and `n` columns, and `a` has `k` columns. `A`, `B` and `C` are the
    /// types of the elements, as in [`Kernel::matmul`]. The division also holds for a kernel that
    /// passes `a` or `b` as its transpose.
    ///
    /// Each core computes one piece of `c`, of `single_core_m` by `single_core_n` elements. The
    /// pieces have about the same size, and there are at most as many pieces as cores. Base blocks
    /// fit into L0, and their size is chosen so that a core reads little of `a` and `b`. `a` and
    /// `b` have two buffers each, in L0 and in L1. `c` has a second buffer in L0 if it fits. For
    /// half floats on the A2 and the A3, large base blocks have 128 by 256 or 256 by 128 elements.
    /// Their depth is 64. CANN recommends these sizes.
    ///
    /// ```
    /// use hccl::f16;
    /// use hccl::kernel::*;
    /// use hccl::prelude::Product;
    ///
    /// #[derive(Tiling, Clone, Copy)]
    /// #[repr(C)]
    /// struct Tiles { cube: TCubeTiling }
    ///
    /// #[kernel(mix = "aic_only")]
    /// fn product(k: Kernel<Tiles>, a: Input<f16>, b: Input<f16>, c: Output<f16>) {
    ///     let t = k.tiling().cube;
    ///     let product = k.matmul::<f16, f16, f16>(&t);
    ///     // The cores take the pieces column by column, each column from the top down.
    ///     let (core, down) = (k.block_index().cast::<i32>(), t.m.div_ceil(t.single_core_m));
    ///     let row = core % down * t.single_core_m;
    ///     let column = core / down * t.single_core_n;
    ///     k.when(core.lt(t.used_core_num), || {
    ///         product.multiply(
    ///             a.at(row * t.ka).matrix(t.ka),
    ///             b.at(column).matrix(t.n),
    ///             c.at(row * t.n + column).matrix(t.n),
    ///             (
    ///                 t.single_core_m.min(t.m - row),
    ///                 t.single_core_n.min(t.n - column),
    ///                 t.single_core_k,
    ///             ),
    ///         );
    ///     });
    /// }
    ///
    /// # fn main() -> hccl::Result<()> {
    /// let (m, n, k) = (1000, 520, 300);
    /// let cube = TCubeTiling::for_shape::<f16, f16, f16>(Product::A3, m, n, k).build()?;
    /// assert_eq!((cube.base_m, cube.base_n, cube.base_k), (128, 176, 80));
    ///
    /// let blocks = cube.used_core_num as u32;
    /// let sizes = [m * k, k * n, m * n].map(|elements| 2 * elements);
    /// let report = product::record()?.check(&Tiles { cube }, blocks, 1, Product::A3, &sizes);
    /// assert!(report.is_good(true), "{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Kernel::matmul`]: crate::kernel::Kernel::matmul
    pub fn for_shape<A: Element, B: Element, C: Element>(
        product: Product,
        m: usize,
        n: usize,
        k: usize,
    ) -> TCubeTilingBuilder {
        let [a, b, c] = [number::<A>(), number::<B>(), number::<C>()];
        let (transposed_a, transposed_b) = (false, false);
        let tiling = (0, String::new());
        let matmul = Matmul { a, b, c, bias: None, transposed_a, transposed_b, tiling };
        TCubeTilingBuilder { product: product.of_kernels(), size: [m, n, k], matmul, cores: None }
    }
}

/// A builder of a [`TCubeTiling`], made by [`TCubeTiling::for_shape`].
///
/// ```
/// use hccl::kernel::TCubeTiling;
/// use hccl::{Product, f16};
///
/// // A product of 1000 by 520 elements, with a depth of 300.
/// let cube = TCubeTiling::for_shape::<f16, f16, f16>(Product::A3, 1000, 520, 300).build()?;
/// assert_eq!((cube.m, cube.n, cube.ka), (1000, 520, 300));
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "`build` fills the tiling"]
pub struct TCubeTilingBuilder {
    product: check::Product,
    size: [usize; 3],
    matmul: Matmul,
    cores: Option<u32>,
}

impl fmt::Debug for TCubeTilingBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.size;
        let types = self.matmul.types();
        write!(f, "TCubeTilingBuilder({m} by {n}, depth {k}, {types}, {:?})", self.product)
    }
}

impl TCubeTilingBuilder {
    /// Sets the maximum number of cube cores that take part, which must not exceed that of the
    /// chip. The default is all cube cores: 24 on the A2 and the A3, 32 on the Ascend 950. Some
    /// chips of these products have fewer: `GetCoreNumAic` of CANN's platform interface returns
    /// their number.
    pub fn cores(mut self, cores: u32) -> Self {
        self.cores = Some(cores);
        self
    }

    /// Adds a bias with elements of type `D` to the product: see
    /// [`Matmul::bias`](crate::kernel::Matmul::bias). By default there is no bias.
    pub fn bias<D: Element>(mut self) -> Self {
        self.matmul.bias = Some(number::<D>());
        self
    }

    /// Fills the tiling and returns it. The result keeps all rules that a launch checks.
    ///
    /// # Errors
    ///
    /// [`Error::Tiling`](crate::Error::Tiling) if `m`, `n` or `k` is 0 or does not fit in an `i32`.
    /// The same error is returned if no cube core multiplies these types, or if the number of cores
    /// is 0 or larger than that of the chip.
    pub fn build(self) -> Result<TCubeTiling> {
        let chip = self.product.cube();
        let ([m, n, k], cores) = (self.size, self.cores.unwrap_or(chip.cores));
        let shape = cube::Shape { m, n, k, matmul: &self.matmul, chip: &chip, cores };
        match shape.tiles() {
            Ok(tiles) => Ok(TCubeTiling::from_numbers(tiles.0)),
            Err(cube::Refused { setting, value, rule }) => {
                let value = value.into_boxed_str();
                Err(TilingError::Setting { setting, value, rule: rule.into() }.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Tiling;

    #[test]
    fn the_fields_have_the_names_and_places_of_the_rules() {
        let numbers = std::array::from_fn(|at| at as i32);
        let words: Vec<[u8; 4]> = numbers.iter().map(|number: &i32| number.to_ne_bytes()).collect();
        assert_eq!(TCubeTiling::from_numbers(numbers).as_bytes(), words.as_flattened());
        for (field, rule) in TCubeTiling::LAYOUT.fields().iter().zip(cube::Field::ALL) {
            assert_eq!((field.name.as_ref(), field.offset), (rule.name(), 4 * rule as u32));
        }
    }
}
