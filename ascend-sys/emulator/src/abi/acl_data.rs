//! The entries for data types and data buffers, as in CANN's `acl_base_rt.h`. A data buffer is an
//! object with a pointer and a size.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Named};
use super::entries::{Acl, answer, entries};
use crate::message::{Failure, fail};
use crate::slots::{self, HandleKind, Slots, Slotted};
use ascend_sys::{
    ACL_ERROR_BAD_ALLOC, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, aclDataBuffer, aclDataType, aclFloat16,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

entries! {
    Acl;
    also {
        aclCreateDataBuffer, aclGetDataBufferAddr, aclGetDataBufferSize, aclGetDataBufferSizeV2,
        aclDataTypeSize, aclFloatToFloat16, aclFloat16ToFloat,
    }

    fn aclDestroyDataBuffer(buffer: Handle<DataBuffer, *const aclDataBuffer>) {
        let index = buffer.required("dataBuffer")?.find()?.index;
        if !BUFFERS.retire(buffer.number()) {
            return Err(slots::unknown(HandleKind::DataBuffer, buffer.number()));
        }
        BUFFERS.recycle(index);
        Ok(())
    }

    fn aclUpdateDataBuffer(
        buffer: Handle<DataBuffer, *mut aclDataBuffer>,
        data: *mut c_void,
        size: usize,
    ) {
        buffer.required("dataBuffer")?.find()?.set(data, size);
        Ok(())
    }
}

/// An address and a size that the program stores. The emulator does not use them.
struct DataBuffer {
    index: u32,
    data: AtomicPtr<c_void>,
    size: AtomicUsize,
}

static BUFFERS: Slots<DataBuffer> = Slots::new();

impl Slotted for DataBuffer {
    const KIND: HandleKind = HandleKind::DataBuffer;

    fn new(index: u32) -> DataBuffer {
        DataBuffer { index, data: AtomicPtr::new(null_mut()), size: AtomicUsize::new(0) }
    }
}

impl Named for DataBuffer {
    type Found = &'static DataBuffer;

    fn find(handle: u64) -> Result<&'static DataBuffer, Failure> {
        BUFFERS.get(handle).ok_or_else(|| slots::unknown(HandleKind::DataBuffer, handle))
    }
}

impl DataBuffer {
    fn set(&self, data: *mut c_void, size: usize) {
        self.data.store(data, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }
}

unsafe extern "C" fn aclCreateDataBuffer(data: *mut c_void, size: usize) -> *mut aclDataBuffer {
    answer::<Acl, _>("aclCreateDataBuffer", null_mut(), || {
        let Some((_, handle)) = BUFFERS.take(|buffer, _| buffer.set(data, size)) else {
            return fail!(
                ACL_ERROR_BAD_ALLOC,
                "every data buffer of the process is in use; destroy one with aclDestroyDataBuffer"
            );
        };
        Ok(handle as *mut aclDataBuffer)
    })
}

/// Calls `question` with a buffer, for an entry that returns the result instead of a code. If the
/// handle names no buffer, reports the failure and returns `otherwise`.
fn ask<T>(
    name: &'static str,
    buffer: *const aclDataBuffer,
    otherwise: T,
    question: impl FnOnce(&DataBuffer) -> T,
) -> T {
    answer::<Acl, T>(name, otherwise, || {
        if buffer.is_null() {
            return Err(Failure::null("dataBuffer"));
        }
        Ok(question(DataBuffer::find(buffer.addr() as u64)?))
    })
}

unsafe extern "C" fn aclGetDataBufferAddr(buffer: *const aclDataBuffer) -> *mut c_void {
    ask("aclGetDataBufferAddr", buffer, null_mut(), |found| found.data.load(Ordering::Relaxed))
}

unsafe extern "C" fn aclGetDataBufferSizeV2(buffer: *const aclDataBuffer) -> usize {
    ask("aclGetDataBufferSizeV2", buffer, 0, |found| found.size.load(Ordering::Relaxed))
}

unsafe extern "C" fn aclGetDataBufferSize(buffer: *const aclDataBuffer) -> u32 {
    ask("aclGetDataBufferSize", buffer, 0, |found| found.size.load(Ordering::Relaxed) as u32)
}

unsafe extern "C" fn aclDataTypeSize(data_type: aclDataType) -> usize {
    answer::<Acl, _>("aclDataTypeSize", 0, || {
        Ok(match data_type {
            aclDataType::ACL_INT8
            | aclDataType::ACL_UINT8
            | aclDataType::ACL_BOOL
            | aclDataType::ACL_HIFLOAT8
            | aclDataType::ACL_FLOAT8_E5M2
            | aclDataType::ACL_FLOAT8_E4M3FN
            | aclDataType::ACL_FLOAT8_E8M0 => 1,
            aclDataType::ACL_FLOAT16
            | aclDataType::ACL_BF16
            | aclDataType::ACL_INT16
            | aclDataType::ACL_UINT16 => 2,
            aclDataType::ACL_FLOAT
            | aclDataType::ACL_INT32
            | aclDataType::ACL_UINT32
            | aclDataType::ACL_COMPLEX32 => 4,
            aclDataType::ACL_DOUBLE
            | aclDataType::ACL_INT64
            | aclDataType::ACL_UINT64
            | aclDataType::ACL_COMPLEX64 => 8,
            aclDataType::ACL_COMPLEX128 => 16,
            other => {
                return fail!(
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "dataType is {}, which is not a type of elements with whole bytes; pass such a \
                     type, for example ACL_FLOAT (0)",
                    other.0
                );
            }
        })
    })
}

unsafe extern "C" fn aclFloatToFloat16(value: f32) -> aclFloat16 {
    // The conversion saturates: a value that is too large, including infinity, becomes the largest
    // finite value.
    let half = half::f16::from_f32(value);
    if half.is_infinite() { half::f16::MAX.copysign(half).to_bits() } else { half.to_bits() }
}

unsafe extern "C" fn aclFloat16ToFloat(value: aclFloat16) -> f32 {
    half::f16::from_bits(value).to_f32()
}
