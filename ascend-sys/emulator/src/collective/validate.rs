//! The counts, element types, reductions and roots that each product accepts, in the order in which
//! its library checks.
//!
//! A2 and A3 use one implementation, 950 another. The two accept different types. If they also
//! check in a different order, a comment at the ABI entry states it.

use std::ffi::c_void;

use ascend_sys::{HcclDataType, HcclResult};

use crate::message::{Failure, refuse};
use crate::profile::Product;
use ascend_reduce::{DataType, ReduceOp};

/// The largest number of elements that an operation accepts.
pub(crate) const MOST_ELEMENTS: u64 = 0x7_ffff_ffff;

/// Returns the error for a buffer that was freed too early.
#[cold]
pub(crate) fn freed_before(when: &str, text: String) -> Failure {
    let text = format!("EI0003: a buffer must stay until {when}: {text}");
    Failure::new(HcclResult::HCCL_E_PARA, text)
}

/// Checks the count of any operation, in elements.
pub(crate) fn count(count: u64) -> Result<(), Failure> {
    if count > MOST_ELEMENTS {
        return refuse!(
            HCCL_E_PARA,
            "the count {count} is above the largest, {MOST_ELEMENTS}; issue several operations"
        );
    }
    Ok(())
}

/// Checks and returns the element type of an operation that only moves data.
pub(crate) fn movement(product: Product, dtype: u32) -> Result<DataType, Failure> {
    use DataType::*;
    match DataType::from_hccl(dtype) {
        None => refuse!(
            HCCL_E_NOT_SUPPORT,
            "{dtype} is not the number of a data type; pass a value of HcclDataType"
        ),
        Some(Int128) => refuse!(
            HCCL_E_NOT_SUPPORT,
            "the data type INT128 is not supported; use another data type"
        ),
        Some(t @ (Hif8 | Fp8E4M3 | Fp8E5M2 | Fp8E8M0)) if product != Product::Ascend950 => {
            refuse!(
                HCCL_E_NOT_SUPPORT,
                "the data type {} is not supported on {product}; Ascend 950 has it, so use another \
                 data type here",
                name_of(t)
            )
        }
        Some(dtype) => Ok(dtype),
    }
}

/// Checks and returns the element type and the operator of a reduction.
pub(crate) fn reduction(
    product: Product,
    dtype: u32,
    op: u32,
) -> Result<(DataType, ReduceOp), Failure> {
    use DataType::*;
    let dtype = movement(product, dtype)?;
    let reduces = match product {
        Product::Ascend950 => dtype.is_reducible(),
        Product::A2 | Product::A3 => dtype.is_reducible() && !matches!(dtype, Uint64 | Fp64),
    };
    if !reduces {
        let hint = if dtype.is_reducible() { "; Ascend 950 can" } else { "" };
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} cannot reduce the data type {}{hint}; convert the data to another type \
             first",
            name_of(dtype)
        );
    }
    let Some(op) = ReduceOp::from_hccl(op) else {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{op} is not the number of a reduction; pass a value of HcclReduceOp"
        );
    };
    if op == ReduceOp::Prod && matches!(dtype, Int16 | Bfp16) {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} has no product (PROD) of the data type {}; convert the data to another type \
             first",
            name_of(dtype)
        );
    }
    Ok((dtype, op))
}

/// Checks and returns the element type and the operator of `HcclReduceScatterV`, which accepts
/// fewer types.
pub(crate) fn reduction_v(
    product: Product,
    dtype: u32,
    op: u32,
) -> Result<(DataType, ReduceOp), Failure> {
    use DataType::*;
    let (dtype, op) = reduction(product, dtype, op)?;
    if matches!(dtype, Uint64 | Fp64) || (dtype == Int64 && product == Product::A2) {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} has no reduce-scatter with counts of the data type {}; convert the data to \
             another type first",
            name_of(dtype)
        );
    }
    if op == ReduceOp::Prod && product != Product::Ascend950 {
        return refuse!(
            HCCL_E_NOT_SUPPORT,
            "{product} has no reduce-scatter with counts by product (PROD); Ascend 950 does, so \
             use another reduction here"
        );
    }
    Ok((dtype, op))
}

/// Checks that the two element types of an operation that sends and receives are equal.
pub(crate) fn same_type(sent: HcclDataType, received: HcclDataType) -> Result<(), Failure> {
    if sent != received {
        return refuse!(
            HCCL_E_PARA,
            "sendType is {}, recvType {}; they must be equal, so pass one type for both",
            in_words(sent),
            in_words(received)
        );
    }
    Ok(())
}

fn in_words(dtype: HcclDataType) -> &'static str {
    DataType::from_hccl(dtype.0).map_or("unknown", name_of)
}

/// Checks that the buffers of an operation that cannot work in place are not the same.
pub(crate) fn apart(send: *const c_void, recv: *const c_void) -> Result<(), Failure> {
    if send == recv && !send.is_null() {
        return refuse!(
            HCCL_E_PARA,
            "sendBuf and recvBuf are both {send:p}; this operation does not work in place, so pass \
             two buffers"
        );
    }
    Ok(())
}

/// Checks a rank that an argument names. `what` is the name of the argument.
pub(crate) fn rank(what: &str, rank: u32, ranks: usize) -> Result<(), Failure> {
    if rank as usize >= ranks {
        return refuse!(
            HCCL_E_PARA,
            "the {what} {rank} is not a rank of the communicator; pass 0 to {}",
            ranks - 1
        );
    }
    Ok(())
}

/// Returns CANN's name of a type, without its prefix.
pub(crate) fn name_of(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Int8 => "INT8",
        DataType::Int16 => "INT16",
        DataType::Int32 => "INT32",
        DataType::Fp16 => "FP16",
        DataType::Fp32 => "FP32",
        DataType::Int64 => "INT64",
        DataType::Uint64 => "UINT64",
        DataType::Uint8 => "UINT8",
        DataType::Uint16 => "UINT16",
        DataType::Uint32 => "UINT32",
        DataType::Fp64 => "FP64",
        DataType::Bfp16 => "BFP16",
        DataType::Int128 => "INT128",
        DataType::Hif8 => "HIF8",
        DataType::Fp8E4M3 => "FP8E4M3",
        DataType::Fp8E5M2 => "FP8E5M2",
        DataType::Fp8E8M0 => "FP8E8M0",
    }
}

impl std::fmt::Display for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::A2 => "Atlas A2",
            Self::A3 => "Atlas A3",
            Self::Ascend950 => "Ascend 950",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of the types, from 0 to 20, that a product reduces with an operator. The
    /// expected lists are those of CANN's documentation.
    fn reducible(product: Product, op: u32) -> Vec<u32> {
        (0..=20).filter(|dtype| reduction(product, *dtype, op).is_ok()).collect()
    }

    #[test]
    fn reductions_by_product() {
        for product in [Product::A2, Product::A3] {
            for op in [0, 2, 3] {
                assert_eq!(reducible(product, op), [0, 1, 2, 3, 4, 5, 11], "{product} op {op}");
            }
            assert_eq!(reducible(product, 1), [0, 2, 3, 4, 5], "{product} PROD");
        }
        for op in [0, 2, 3] {
            assert_eq!(reducible(Product::Ascend950, op), [0, 1, 2, 3, 4, 5, 6, 10, 11]);
        }
        assert_eq!(reducible(Product::Ascend950, 1), [0, 2, 3, 4, 5, 6, 10]);
        for op in [4, 255] {
            assert_eq!(reducible(Product::A3, op), [0u32; 0]);
        }
    }

    #[test]
    fn movements_by_product() {
        let moved = |product| -> Vec<u32> {
            (0..=if cfg!(miri) { 20 } else { 255 })
                .filter(|dtype| movement(product, *dtype).is_ok())
                .collect()
        };
        assert_eq!(moved(Product::A3), (0..=11).collect::<Vec<_>>());
        assert_eq!(moved(Product::A2), (0..=11).collect::<Vec<_>>());
        assert_eq!(moved(Product::Ascend950), (0..=11).chain(14..=17).collect::<Vec<_>>());
    }

    #[test]
    fn codes_and_texts() {
        let refused = reduction(Product::A3, 10, 0).unwrap_err();
        assert_eq!(refused.code, HcclResult::HCCL_E_NOT_SUPPORT);
        assert!(refused.text.contains("FP64") && refused.text.contains("Ascend 950 can"));
        assert_eq!(count(MOST_ELEMENTS), Ok(()));
        assert_eq!(count(MOST_ELEMENTS + 1).unwrap_err().code, HcclResult::HCCL_E_PARA);
        assert_eq!(rank("root", 1, 2), Ok(()));
        assert_eq!(rank("root", 2, 2).unwrap_err().code, HcclResult::HCCL_E_PARA);
    }
}
