//! The parts of `HcclDataType` that kernels need.

use crate::layout::Number;

/// Returns the short name of a data type of HCCL.
pub fn name(dtype: u32) -> &'static str {
    match dtype {
        0 => "i8",
        1 => "i16",
        2 => "i32",
        3 => "f16",
        4 => "f32",
        5 => "i64",
        6 => "u64",
        7 => "u8",
        8 => "u16",
        9 => "u32",
        10 => "f64",
        11 => "bf16",
        12 => "i128",
        14 => "hif8",
        15 => "fp8e4m3",
        16 => "fp8e5m2",
        17 => "fp8e8m0",
        18 => "mxfp8",
        _ => "unknown",
    }
}

/// Returns the number of bytes of an element, or `None` if a kernel cannot count elements of this
/// type.
pub fn size(dtype: u32) -> Option<u64> {
    Some(match dtype {
        0 | 7 | 14 | 15 | 16 | 17 => 1,
        1 | 3 | 8 | 11 => 2,
        2 | 4 | 9 => 4,
        5 | 6 | 10 => 8,
        _ => return None,
    })
}

/// Returns the data type of a number, or `None` for a bool, for which HCCL has no data type.
pub fn of(number: Number) -> Option<u32> {
    Some(match number {
        Number::I8 => 0,
        Number::I16 => 1,
        Number::I32 => 2,
        Number::F16 => 3,
        Number::F32 => 4,
        Number::I64 => 5,
        Number::U64 => 6,
        Number::U8 => 7,
        Number::U16 => 8,
        Number::U32 => 9,
        Number::F64 => 10,
        Number::Bf16 => 11,
        Number::Bool => return None,
    })
}

/// Returns the type of number of a data type, if kernels have that type.
pub fn number(dtype: u32) -> Option<Number> {
    use Number::*;
    let all = [I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64];
    all.into_iter().find(|number| of(*number) == Some(dtype))
}
