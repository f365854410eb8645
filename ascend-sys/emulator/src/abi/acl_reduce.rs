//! The entry for a reduction of one range of memory into another, in a stream.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_copy::{check_devices, may_reach};
use super::acl_memory::resolve;
use super::arguments::Handle;
use super::entries::{Acl, entries};
use crate::machine::foreign::is_foreign;
use crate::memory::MemoryPlace;
use crate::message::{Failure, fail};
use crate::operator::Reduce;
use crate::profile::Product;
use crate::stream::Stream;
use crate::{machine, submit};
use ascend_reduce::{DataType, ReduceOp};
use ascend_sys::{
    ACL_ERROR_RT_ADDR_UNALIGNED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID,
    aclDataType, aclrtReduceKind,
};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtReduceAsync(
        dst: *mut c_void,
        src: *const c_void,
        count: u64,
        kind: aclrtReduceKind,
        type_: aclDataType,
        stream: Handle<Stream>,
        _reserve: *mut c_void,
    ) {
        if dst.is_null() || src.is_null() || count == 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "dst or src is NULL, or count is 0; pass two addresses and at least one element"
            );
        }
        let stream = stream.find()?;
        let device = machine::device_slot(stream.device_id());
        let way = way_of(kind, type_, device.product())?;
        let size = way.0.size();
        let bytes = usize::try_from(count).unwrap_or(usize::MAX);
        if !bytes.is_multiple_of(size) {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "count is {count} bytes; it must be a multiple of the {size} bytes of an element"
            );
        }
        let (to, from) = (resolve(dst, bytes, "dst")?, resolve(src, bytes, "src")?);
        if !dst.addr().is_multiple_of(size) {
            return fail!(
                ACL_ERROR_RT_ADDR_UNALIGNED,
                "dst is {dst:?}; it must be aligned to its elements of {size} bytes"
            );
        }
        for (argument, bytes) in [("dst", to), ("src", from)] {
            if !matches!(bytes.place, MemoryPlace::Device(_)) {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "{argument} is not device memory; use memory of aclrtMalloc"
                );
            }
        }
        check_devices(to, from)?;
        may_reach(stream, to.place)?;
        may_reach(stream, from.place)?;
        if is_foreign(dst.addr()) {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "dst is memory of another process, into which the emulator reduces only over \
                 channels; pass memory of this process"
            );
        }
        submit::submit(stream, ENTRY, Reduce::local(to.data, from.data, bytes, way)).map(drop)
    }
}

/// Returns the element type and the operator. Returns an error if the product does not reduce them
/// while it moves data.
fn way_of(
    kind: aclrtReduceKind,
    type_: aclDataType,
    product: Product,
) -> Result<(DataType, ReduceOp), Failure> {
    let op = match kind {
        aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM => ReduceOp::Sum,
        aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX => ReduceOp::Max,
        aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN => ReduceOp::Min,
        aclrtReduceKind::ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL => {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "kind is EQUAL (13), which the emulator does not have; pass SUM (10), MAX (11) \
                 or MIN (12)"
            );
        }
        _ => {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "kind is {}, which is not an aclrtReduceKind; pass SUM (10), MAX (11) or MIN (12)",
                kind.0
            );
        }
    };
    let dtype = match type_ {
        aclDataType::ACL_FLOAT => DataType::Fp32,
        aclDataType::ACL_FLOAT16 => DataType::Fp16,
        aclDataType::ACL_BF16 => DataType::Bfp16,
        aclDataType::ACL_INT8 => DataType::Int8,
        aclDataType::ACL_INT16 => DataType::Int16,
        aclDataType::ACL_INT32 => DataType::Int32,
        // A wrapping sum has the same bits for signed and unsigned numbers.
        aclDataType::ACL_UINT32 if product == Product::Ascend950 && op == ReduceOp::Sum => {
            DataType::Int32
        }
        aclDataType::ACL_UINT32 if product == Product::Ascend950 => {
            return fail!(
                ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "type is UINT32, which the emulator reduces by SUM only; pass SUM (10) or another \
                 type"
            );
        }
        _ => {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "type is {}, which cannot be reduced in a copy on {product}; pass FLOAT, FLOAT16, \
                 BF16, INT8, INT16 or INT32, or on the 950 also UINT32",
                type_.0
            );
        }
    };
    Ok((dtype, op))
}
