//! What is looked at before CANN is called.

use super::MOST_ELEMENTS;
use crate::dtype::{DType, Reduce, ReduceKind, ReduceOp};
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::runtime::Product;

/// What is reduced, and how.
#[derive(Clone, Copy)]
pub(super) struct Reduction {
    pub(super) dtype: DType,
    pub(super) kind: ReduceKind,
    pub(super) count: usize,
}

impl Reduction {
    #[inline]
    pub(super) fn of<T: Reduce<Op>, Op: ReduceOp>(region: &Region<'_>) -> Self {
        Reduction { dtype: T::DTYPE, kind: Op::KIND, count: region.bytes() / size_of::<T>() }
    }

    /// What the product can do.
    #[inline]
    pub(super) fn check(self, product: Option<Product>) -> Result<()> {
        check_count(self.count)?;
        // All that compiles is reduced by the 950; the others leave out these two.
        let wide = matches!(self.dtype, DType::U64 | DType::F64);
        if let Some(product) = product
            && wide
            && product != Product::Ascend950
        {
            return Err(Error::NotSupported {
                dtype: self.dtype,
                kind: self.kind,
                product,
                instead: if self.dtype == DType::U64 { DType::I64 } else { DType::F32 },
            });
        }
        Ok(())
    }
}

/// A source and a destination of an all-reduce: equal lengths, and no byte in common.
///
/// Borrowing rules the second out for buffers that hccl owns; foreign memory (`from_raw`) can overlap all the same. HCCL takes equal
/// pointers, which is what `all_reduce_in_place` is for, and makes no promise for a part in common.
#[inline]
pub(super) fn check_pair(
    operation: &'static str,
    from: &Region<'_>,
    to: &Region<'_>,
    element: usize,
) -> Result<()> {
    if from.bytes() != to.bytes() {
        let (expected, found) = (from.bytes() / element, to.bytes() / element);
        let what = "the destination";
        return Err(Error::WrongLength { operation, what, expected, found });
    }
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
            Reduction { dtype, kind: ReduceKind::Sum, count: 1 }.check(Some(product)).is_ok()
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
    fn counts_have_a_limit() {
        assert!(check_count(MOST_ELEMENTS).is_ok());
        assert!(matches!(check_count(MOST_ELEMENTS + 1), Err(Error::TooManyElements { .. })));
    }
}
