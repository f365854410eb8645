//! Numbers with the meaning that they have in C++. Integers are extended to 64 bits by their sign,
//! and floating-point numbers are `f64`.

use half::{bf16, f16};

use crate::declared::Binary;
use crate::layout::Number;

pub(crate) fn is_float(number: Number) -> bool {
    matches!(number, Number::F16 | Number::Bf16 | Number::F32 | Number::F64)
}

pub(crate) fn is_signed(number: Number) -> bool {
    matches!(number, Number::I8 | Number::I16 | Number::I32 | Number::I64)
}

/// Returns whether a type is an integer.
pub(crate) fn is_whole(number: Number) -> bool {
    !is_float(number) && number != Number::Bool
}

pub(crate) fn compare(operator: Binary, number: Number, a: u64, b: u64) -> bool {
    let order = if is_float(number) {
        f64::from_bits(a).partial_cmp(&f64::from_bits(b))
    } else if is_signed(number) {
        Some((a as i64).cmp(&(b as i64)))
    } else {
        Some(a.cmp(&b))
    };
    match (operator, order) {
        (Binary::NotEqual, None) => true,
        (_, None) => false,
        (Binary::Equal, Some(order)) => order.is_eq(),
        (Binary::NotEqual, Some(order)) => order.is_ne(),
        (Binary::Less, Some(order)) => order.is_lt(),
        (Binary::LessEqual, Some(order)) => order.is_le(),
        (Binary::Greater, Some(order)) => order.is_gt(),
        (_, Some(order)) => order.is_ge(),
    }
}

/// Returns bits in the range of a type: integers wrap, and floating-point numbers are rounded.
pub fn fit(number: Number, bits: u64) -> u64 {
    let float = f64::from_bits(bits);
    match number {
        Number::I8 => bits as i8 as u64,
        Number::I16 => bits as i16 as u64,
        Number::I32 => bits as i32 as u64,
        Number::U8 => u64::from(bits as u8),
        Number::U16 => u64::from(bits as u16),
        Number::U32 => u64::from(bits as u32),
        Number::I64 | Number::U64 | Number::F64 => bits,
        Number::F16 => f16::from_f64(float).to_f64().to_bits(),
        Number::Bf16 => bf16::from_f64(float).to_f64().to_bits(),
        Number::F32 => f64::from(float as f32).to_bits(),
        Number::Bool => u64::from(bits != 0),
    }
}

/// Converts a number between types. A number that does not fit into an integer saturates, and
/// 16-bit floating-point numbers are made from `float`.
pub(crate) fn convert(from: Number, to: Number, bits: u64) -> u64 {
    match (is_float(from), is_float(to)) {
        (false, false) if to == Number::Bool => u64::from(bits != 0),
        (false, false) => fit(to, bits),
        (false, true) if to == Number::F64 && is_signed(from) => (bits as i64 as f64).to_bits(),
        (false, true) if to == Number::F64 => (bits as f64).to_bits(),
        (false, true) if is_signed(from) => fit(to, f64::from(bits as i64 as f32).to_bits()),
        (false, true) => fit(to, f64::from(bits as f32).to_bits()),
        (true, true) if from == Number::F64 && to != from => fit(to, fit(Number::F32, bits)),
        (true, true) => fit(to, bits),
        (true, false) => {
            let float = f64::from_bits(bits);
            match to {
                Number::I8 => float as i8 as u64,
                Number::I16 => float as i16 as u64,
                Number::I32 => float as i32 as u64,
                Number::I64 => float as i64 as u64,
                Number::U8 => u64::from(float as u8),
                Number::U16 => u64::from(float as u16),
                Number::U32 => u64::from(float as u32),
                Number::Bool => u64::from(float != 0.0),
                _ => float as u64,
            }
        }
    }
}

/// Reads a number from memory. `bytes` must have the size of the type.
pub fn load(number: Number, bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    for (to, from) in whole.iter_mut().zip(bytes) {
        *to = *from;
    }
    let bits = u64::from_le_bytes(whole);
    match number {
        Number::F16 => f16::from_bits(bits as u16).to_f64().to_bits(),
        Number::Bf16 => bf16::from_bits(bits as u16).to_f64().to_bits(),
        Number::F32 => f64::from(f32::from_bits(bits as u32)).to_bits(),
        _ => fit(number, bits),
    }
}

/// Encodes a number for memory. Only the first [`Number::size`] bytes of the result count.
pub fn store(number: Number, bits: u64) -> [u8; 8] {
    let float = f64::from_bits(bits);
    let bits = match number {
        Number::F16 => u64::from(f16::from_f64(float).to_bits()),
        Number::Bf16 => u64::from(bf16::from_f64(float).to_bits()),
        Number::F32 => u64::from((float as f32).to_bits()),
        _ => bits,
    };
    bits.to_le_bytes()
}

/// Returns a number as text.
pub fn show(number: Number, bits: u64) -> String {
    match number {
        _ if is_float(number) => format!("{:?}", f64::from_bits(bits)),
        Number::Bool => (bits != 0).to_string(),
        _ if is_signed(number) => (bits as i64).to_string(),
        _ => bits.to_string(),
    }
}
