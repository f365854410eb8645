//! Tests of the sizes of data types, and of data buffers.

use ascend_emulator_testing::common::message;
use ascend_emulator_testing::{call, fails, ok};
use ascend_sys::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

#[test]
fn a_data_type_has_the_size_that_its_name_says() {
    type Type = aclDataType;
    for (types, size) in [
        (&[Type::ACL_INT8, Type::ACL_UINT8, Type::ACL_BOOL, Type::ACL_HIFLOAT8][..], 1),
        (&[Type::ACL_FLOAT8_E5M2, Type::ACL_FLOAT8_E4M3FN, Type::ACL_FLOAT8_E8M0], 1),
        (&[Type::ACL_FLOAT16, Type::ACL_BF16, Type::ACL_INT16, Type::ACL_UINT16], 2),
        (&[Type::ACL_FLOAT, Type::ACL_INT32, Type::ACL_UINT32, Type::ACL_COMPLEX32], 4),
        (&[Type::ACL_DOUBLE, Type::ACL_INT64, Type::ACL_UINT64, Type::ACL_COMPLEX64], 8),
        (&[Type::ACL_COMPLEX128], 16),
    ] {
        for &each in types {
            assert_eq!(call!(aclDataTypeSize(each)), size, "{each:?}");
        }
    }
    let _ = message();
    for other in [Type::ACL_INT4, Type::ACL_UINT1, Type::ACL_STRING, Type::ACL_DT_UNDEFINED] {
        assert_eq!(call!(aclDataTypeSize(other)), 0);
        let text = message();
        assert!(text.contains("aclDataTypeSize: dataType is"), "{text}");
    }
}

#[test]
fn a_data_buffer_returns_what_was_put_into_it() {
    let (first, second) = (0x1000 as *mut c_void, 0x2000 as *mut c_void);
    let buffer = call!(aclCreateDataBuffer(first, 1 << 32 | 5));
    let other = call!(aclCreateDataBuffer(null_mut(), 0));
    assert_eq!(call!(aclGetDataBufferAddr(buffer)), first);
    assert_eq!(call!(aclGetDataBufferSizeV2(buffer)), 1 << 32 | 5);
    assert_eq!(call!(aclGetDataBufferSize(buffer)), 5, "the old function has 32 bits");
    ok!(aclUpdateDataBuffer(buffer, second, 7));
    assert_eq!(call!(aclGetDataBufferAddr(buffer)), second);
    assert_eq!(call!(aclGetDataBufferSizeV2(buffer)), 7);
    assert_eq!(call!(aclGetDataBufferAddr(other)), null_mut());
    ok!(aclDestroyDataBuffer(buffer));
    ok!(aclDestroyDataBuffer(other));
}

#[test]
fn a_data_buffer_that_is_gone_or_made_up_is_an_error() {
    let buffer = call!(aclCreateDataBuffer(null_mut(), 3));
    ok!(aclDestroyDataBuffer(buffer));
    fails!(107017, ["was destroyed"], aclDestroyDataBuffer(buffer));
    fails!(107017, ["was destroyed"], aclUpdateDataBuffer(buffer, null_mut(), 0));
    fails!(100000, ["dataBuffer is NULL"], aclDestroyDataBuffer(null()));
    let _ = message();
    assert_eq!(call!(aclGetDataBufferSizeV2(buffer)), 0);
    let text = message();
    assert!(text.contains("aclGetDataBufferSizeV2: the data buffer"), "{text}");
    assert_eq!(call!(aclGetDataBufferAddr(0x10 as *const aclDataBuffer)), null_mut());
    let text = message();
    assert!(text.contains("0x10 is not the handle of any data buffer"), "{text}");
}

#[test]
fn halves_become_floats_and_back() {
    for (value, bits) in [(0.0, 0), (1.0, 0x3c00), (-2.5, 0xc100), (65504.0, 0x7bff)] {
        assert_eq!(call!(aclFloatToFloat16(value)), bits);
        assert_eq!(call!(aclFloat16ToFloat(bits)), value);
    }
    assert_eq!(call!(aclFloatToFloat16(1e9)), 0x7bff, "the largest finite one");
    assert_eq!(call!(aclFloatToFloat16(f32::NEG_INFINITY)), 0xfbff);
}
