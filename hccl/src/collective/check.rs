//! The checks of arguments that run before CANN is called.

use ascend_sys::HcclReduceOp;

use super::MOST_ELEMENTS;
use crate::comm::Member;
use crate::dtype::{DType, Reduce, ReduceKind, ReduceOp};
use crate::error::product::Product;
use crate::error::{Error, Result};
use crate::memory::allocation::Region;

/// The type and the reduction of an operation that reduces. Its methods check whether a product
/// supports them.
#[derive(Clone, Copy)]
pub(crate) struct CheckedReduction {
    pub(super) dtype: DType,
    pub(super) kind: ReduceKind,
}

impl CheckedReduction {
    #[inline]
    pub(crate) fn of<T: Reduce<Op>, Op: ReduceOp>() -> Self {
        CheckedReduction { dtype: T::DTYPE, kind: Op::KIND }
    }

    /// Returns CANN's code of the reduction.
    #[inline]
    pub(super) fn code(self) -> HcclReduceOp {
        HcclReduceOp(self.kind.code())
    }

    /// Checks that the product supports this reduction of this type.
    #[inline]
    pub(super) fn check(self, product: Option<Product>) -> Result<()> {
        // The Ascend 950 reduces every type that compiles. The other products do not reduce `u64`
        // and `f64`.
        if self.is_wide()
            && let Some(product) = product
            && product != Product::Ascend950
        {
            let instead = match self.dtype {
                DType::U64 => "Convert to i64.",
                _ => "Convert to f32.",
            };
            return Err(self.refused(product, "only the Ascend 950 does", instead));
        }
        Ok(())
    }

    /// Checks that the product supports this reduction with parts of different lengths. For
    /// these operations, products support fewer types and reductions.
    pub(super) fn check_variable(self, product: Option<Product>) -> Result<()> {
        self.check(product)?;
        let Some(product) = product else { return Ok(()) };
        let who = match product {
            Product::Ascend950 if self.is_wide() => {
                "its reduce_scatter_v takes i8, i16, i32, i64, f16, bf16 and f32"
            }
            Product::A2 if self.dtype == DType::I64 => {
                "its reduce_scatter_v takes i8, i16, i32, f16, bf16 and f32"
            }
            Product::A2 | Product::A3 if self.kind == ReduceKind::Prod => {
                "its reduce_scatter_v takes sums, maxima and minima"
            }
            _ => return Ok(()),
        };
        Err(self.refused(product, who, "Use `reduce_scatter` or `all_reduce`, which take more."))
    }

    fn is_wide(self) -> bool {
        matches!(self.dtype, DType::U64 | DType::F64)
    }

    #[cold]
    fn refused(self, product: Product, who: &'static str, instead: &'static str) -> Error {
        Error::NotSupported { dtype: self.dtype, kind: self.kind, product, who, instead }
    }
}

/// The checks that depend on the communicator.
impl Member {
    #[inline]
    pub(crate) fn check_rank(&self, what: &'static str, rank: u32) -> Result<()> {
        let world_size = self.world_size;
        if rank < world_size { Ok(()) } else { Err(Error::NoSuchRank { what, rank, world_size }) }
    }

    /// Checks that the root gives an argument, and that the other ranks do not give it.
    #[inline]
    pub(super) fn check_root(&self, what: &'static str, root: u32, given: bool) -> Result<()> {
        self.check_rank("the root", root)?;
        let rank = self.label.rank;
        if given == (root == rank) { Ok(()) } else { Err(Error::RootOnly { what, root, rank }) }
    }

    /// Returns the number of elements in one rank's part of a buffer that all ranks [share
    /// evenly](Self::check_even).
    #[inline]
    pub(super) fn share(&self, buffer: &Region<'_>, dtype: DType) -> usize {
        dtype.elements(buffer.bytes()) / self.world_size as usize
    }

    /// Returns this rank's part of a buffer that all ranks [share evenly](Self::check_even).
    #[inline]
    pub(super) fn own_part<'a>(&self, buffer: &Region<'a>, dtype: DType) -> Region<'a> {
        let share = self.share(buffer, dtype) * dtype.size();
        let start = share * self.label.rank as usize;
        buffer.part(start..start + share)
    }

    /// Checks that the length of a buffer is a multiple of the number of ranks.
    #[inline]
    pub(super) fn check_even(
        &self,
        what: &'static str,
        buffer: &Region<'_>,
        dtype: DType,
    ) -> Result<()> {
        let (length, world_size) = (dtype.elements(buffer.bytes()), self.world_size);
        if self.share(buffer, dtype) * world_size as usize == length {
            return Ok(());
        }
        Err(Error::Uneven { what, length, world_size })
    }

    /// Checks that `whole` is as long as the parts of all ranks together.
    #[inline]
    pub(super) fn check_whole(
        &self,
        what: &'static str,
        whole: &Region<'_>,
        part: &Region<'_>,
        operation: &'static str,
        dtype: DType,
    ) -> Result<()> {
        // A length that overflows is longer than any buffer.
        let expected = part.bytes().saturating_mul(self.world_size as usize);
        check_length(operation, what, expected, whole.bytes(), dtype)
    }
}

/// Checks that two lengths in bytes are equal. The error has the lengths in elements.
#[inline]
pub(super) fn check_length(
    operation: &'static str,
    what: &'static str,
    expected: usize,
    found: usize,
    dtype: DType,
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (dtype.elements(expected), dtype.elements(found));
    Err(Error::WrongLength { operation, what, expected, found })
}

/// Checks that a source and a destination have no byte in common.
///
/// The borrow checker ensures this for buffers that `hccl` owns, but foreign memory (`from_raw`)
/// can overlap. HCCL accepts equal pointers, which only the methods `.._in_place` pass. It
/// guarantees nothing for buffers that overlap partly.
#[inline]
pub(crate) fn check_apart(
    operation: &'static str,
    from: &Region<'_>,
    to: &Region<'_>,
) -> Result<()> {
    match from.overlap(to) {
        0 => Ok(()),
        bytes => Err(Error::Overlap { operation, bytes }),
    }
}

#[inline]
pub(crate) fn check_count(count: usize) -> Result<()> {
    if count > MOST_ELEMENTS { Err(Error::TooManyElements { count }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_reduce_what_their_tables_say() {
        let check = |dtype, product| {
            CheckedReduction { dtype, kind: ReduceKind::Sum }.check(Some(product)).is_ok()
        };
        for product in [Product::A2, Product::A3, Product::Ascend950] {
            for dtype in [DType::I8, DType::I16, DType::I64, DType::F16, DType::BF16, DType::F32] {
                assert!(check(dtype, product), "{dtype} on {product:?}");
            }
            for dtype in [DType::U64, DType::F64] {
                assert_eq!(check(dtype, product), product == Product::Ascend950);
            }
        }
    }

    #[test]
    fn products_reduce_less_in_parts_of_different_lengths() {
        let check = |dtype, kind, product| {
            CheckedReduction { dtype, kind }.check_variable(Some(product)).is_ok()
        };
        for product in [Product::A2, Product::A3, Product::Ascend950] {
            for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min] {
                for dtype in [DType::I8, DType::I16, DType::I32, DType::F16, DType::BF16] {
                    assert!(check(dtype, kind, product), "{dtype} {kind} on {product:?}");
                }
                assert_eq!(check(DType::I64, kind, product), product != Product::A2);
                assert!(!check(DType::U64, kind, product) && !check(DType::F64, kind, product));
            }
            let takes_products = product == Product::Ascend950;
            assert_eq!(check(DType::F32, ReduceKind::Prod, product), takes_products);
        }
    }

    #[test]
    fn counts_have_a_limit() {
        assert!(check_count(MOST_ELEMENTS).is_ok());
        assert!(matches!(check_count(MOST_ELEMENTS + 1), Err(Error::TooManyElements { .. })));
    }
}
