//! Conversion of fp16 and bf16 to fp32 and back, in integer and fp32 arithmetic without branches,
//! so that the compiler can vectorise it.
//!
//! A processor's own fp16 conversion gives the same bits except for the payload of a NaN. Payloads
//! never reach memory: [`super::element`] makes every NaN the canonical one before it narrows.

/// Returns 2 to the power `n`. `n` must be an exponent of a normal number.
const fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// Converts fp16 to fp32 exactly.
#[inline(always)]
pub(super) fn f16_to_f32(half: u16) -> f32 {
    let word = u32::from(half) << 16;
    let sign = word & 0x8000_0000;
    let magnitude = word.wrapping_add(word); // exponent and mantissa, at the top of the word
    // Move exponent and mantissa to their places in fp32, and add an excess to the exponent, so
    // that infinity and NaN get an exponent of all ones. One multiplication then removes the excess
    // from the finite values.
    let normal = f32::from_bits((magnitude >> 4).wrapping_add(0xE0 << 23)) * power_of_two(-112);
    // A subnormal is an integer multiple of 2^-24. That integer is exact as the mantissa of a
    // number from one half up.
    let subnormal = f32::from_bits((magnitude >> 17) | (126 << 23)) - 0.5;
    let bits = if magnitude < (1 << 27) { subnormal.to_bits() } else { normal.to_bits() };
    f32::from_bits(sign | bits)
}

/// Converts fp32 to fp16, to nearest, ties to even. A NaN becomes the canonical quiet NaN and keeps
/// its sign.
#[inline(always)]
pub(super) fn f32_to_f16(value: f32) -> u16 {
    let word = value.to_bits();
    let shifted = word.wrapping_add(word);
    // Scaling up and down again makes every value infinite that is too large for fp16.
    let scaled = (value.abs() * power_of_two(112)) * power_of_two(-110);
    // The addition of a number 2^13 times larger rounds the value. The number is at least that for
    // the smallest normal fp16.
    let bias = (shifted & 0xFF00_0000).max(0x7100_0000);
    let rounded = (f32::from_bits((bias >> 1) + 0x0780_0000) + scaled).to_bits();
    let magnitude = ((rounded >> 13) & 0x7C00) + (rounded & 0x0FFF);
    let magnitude = if shifted > 0xFF00_0000 { 0x7E00 } else { magnitude };
    ((word >> 16) & 0x8000 | magnitude) as u16
}

/// Converts bf16 to fp32 exactly.
#[inline(always)]
pub(super) fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Converts fp32 to bf16, to nearest, ties to even. A NaN must have a payload bit in its upper
/// half, because rounding could otherwise turn it into infinity. The canonical NaN stays as it is.
#[inline(always)]
pub(super) fn f32_to_bf16(value: f32) -> u16 {
    let word = value.to_bits();
    (word.wrapping_add(0x7FFF + ((word >> 16) & 1)) >> 16) as u16
}
