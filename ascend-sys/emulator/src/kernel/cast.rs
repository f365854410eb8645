//! Conversions between types of number, as the vector unit does them. Values are rounded according
//! to the mode, and integers saturate.

use ascend_program::layout::Number;
use ascend_program::step::Round;
use half::{bf16, f16};
use std::ops::Range;

fn is_float(number: Number) -> bool {
    matches!(number, Number::F16 | Number::Bf16 | Number::F32 | Number::F64)
}

/// Does a `Cast` of all elements that the two ranges hold. Returns an error if the ranges overlap
/// in a way that would change an operand before it is read.
pub(super) fn cast(
    (to_type, from_type): (Number, Number),
    round: Round,
    memory: &mut [u8],
    to: Range<usize>,
    from: Range<usize>,
) -> Result<(), String> {
    let (wide, narrow) = (to_type.size() as usize, from_type.size() as usize);
    let is_in_place = wide == narrow && to == from;
    let overlaps = to.start < from.end && from.start < to.end;
    if overlaps && !is_in_place && (wide > narrow || to.start != from.start) {
        return Err("the result of a Cast overlaps its operand, which it would overwrite too \
                    early; use memory that lies apart"
            .into());
    }
    for n in 0..to.len() / wide {
        let at = from.start + n * narrow;
        let bits = ascend_program::flow::load(from_type, &memory[at..at + narrow]);
        let bits = convert(from_type, to_type, round, bits);
        let stored = ascend_program::flow::store(to_type, bits);
        let at = to.start + n * wide;
        memory[at..at + wide].copy_from_slice(&stored[..wide]);
    }
    Ok(())
}

/// Converts one number. `bits` and the result have the form of values of a program. A value that
/// does not fit into an integer type saturates.
fn convert(from: Number, to: Number, round: Round, bits: u64) -> u64 {
    match (is_float(from), is_float(to)) {
        (true, true) if from == to => integral(f64::from_bits(bits), round).to_bits(),
        (true, true) => nearby(f64::from_bits(bits), to, round).to_bits(),
        (true, false) => saturate(integral(f64::from_bits(bits), round), to),
        (false, true) => {
            let signed = matches!(from, Number::I8 | Number::I16 | Number::I32 | Number::I64);
            let float = if signed { bits as i64 as f64 } else { bits as f64 };
            nearby(float, to, round).to_bits()
        }
        (false, false) => {
            let unsigned = matches!(from, Number::U64) && bits > i64::MAX as u64;
            let value = if unsigned { i128::from(bits) } else { i128::from(bits as i64) };
            match to {
                Number::I8 => value.clamp(i8::MIN.into(), i8::MAX.into()) as u64,
                Number::I16 => value.clamp(i16::MIN.into(), i16::MAX.into()) as u64,
                Number::I32 => value.clamp(i32::MIN.into(), i32::MAX.into()) as u64,
                Number::I64 => value.clamp(i64::MIN.into(), i64::MAX.into()) as u64,
                Number::U8 => value.clamp(0, u8::MAX.into()) as u64,
                Number::U16 => value.clamp(0, u16::MAX.into()) as u64,
                Number::U32 => value.clamp(0, u32::MAX.into()) as u64,
                _ => value.clamp(0, u64::MAX.into()) as u64,
            }
        }
    }
}

fn saturate(float: f64, to: Number) -> u64 {
    match to {
        Number::I8 => float as i8 as u64,
        Number::I16 => float as i16 as u64,
        Number::I32 => float as i32 as u64,
        Number::I64 => float as i64 as u64,
        Number::U8 => u64::from(float as u8),
        Number::U16 => u64::from(float as u16),
        Number::U32 => u64::from(float as u32),
        _ => float as u64,
    }
}

/// Rounds to a whole number.
fn integral(float: f64, round: Round) -> f64 {
    match round {
        Round::None | Round::Nearest => float.round_ties_even(),
        Round::Floor => float.floor(),
        Round::Ceil => float.ceil(),
        Round::Away => float.round(),
        Round::Truncate => float.trunc(),
    }
}

/// Rounds to a number of another floating point type.
fn nearby(exact: f64, to: Number, round: Round) -> f64 {
    let near = f64::from_bits(ascend_program::flow::fit(to, exact.to_bits()));
    if near == exact || !exact.is_finite() {
        return near;
    }
    let below = if near < exact { near } else { neighbour(near, to, false) };
    let above = if near > exact { near } else { neighbour(near, to, true) };
    let toward_zero = if exact > 0.0 { below } else { above };
    let from_zero = if exact > 0.0 { above } else { below };
    match round {
        Round::None | Round::Nearest => near,
        Round::Floor => below,
        Round::Ceil => above,
        Round::Truncate => toward_zero,
        Round::Away if !from_zero.is_finite() => near,
        Round::Away if (exact - below) == (above - exact) => from_zero,
        Round::Away => near,
    }
}

/// Returns the next larger (`up`) or next smaller number of a type.
fn neighbour(float: f64, of: Number, up: bool) -> f64 {
    // For numbers of the same sign, the order of the bits is the order of the magnitudes.
    let step = |bits: u32, sign: u32| -> u32 {
        match (bits & sign != 0, up) {
            _ if bits & !sign == 0 => {
                if up {
                    1
                } else {
                    sign | 1
                }
            }
            (false, true) | (true, false) => bits + 1,
            _ => bits - 1,
        }
    };
    match of {
        Number::F16 => {
            f16::from_bits(step(f16::from_f64(float).to_bits().into(), 0x8000) as u16).to_f64()
        }
        Number::Bf16 => {
            bf16::from_bits(step(bf16::from_f64(float).to_bits().into(), 0x8000) as u16).to_f64()
        }
        Number::F32 => f64::from(f32::from_bits(step((float as f32).to_bits(), 0x8000_0000))),
        _ if up => float.next_up(),
        _ => float.next_down(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_as_their_mode_says() {
        use Round::*;
        let to = |from: f64, number, round| {
            f64::from_bits(convert(Number::F32, number, round, from.to_bits()))
        };
        // A value between two halves that is nearer to one of them, and a tie.
        let (one, step) = (1.0, 1.0 / 1024.0);
        for (round, near, tie) in [
            (Nearest, one, one),
            (Floor, one, one),
            (Ceil, one + step, one + step),
            (Away, one, one + step),
            (Truncate, one, one),
        ] {
            assert_eq!(to(1.0 + step / 4.0, Number::F16, round), near, "{round:?}");
            assert_eq!(to(1.0 + step / 2.0, Number::F16, round), tie, "{round:?}");
        }
        assert_eq!(to(-1.0 - step / 4.0, Number::F16, Floor), -1.0 - step);
        assert_eq!(to(-1.0 - step / 4.0, Number::F16, Ceil), -1.0);
        assert_eq!(to(1e-10, Number::F16, Ceil), f64::from(f16::from_bits(1)));
        assert_eq!(to(-1e-10, Number::F16, Floor), -f64::from(f16::from_bits(1)));
        assert_eq!(to(1e9, Number::F16, Truncate), 65504.0);
        for (round, whole) in [(Nearest, 2), (Floor, 2), (Ceil, 3), (Away, 3), (Truncate, 2)] {
            let bits = convert(Number::F32, Number::I32, round, 2.5f64.to_bits());
            assert_eq!(bits as i64, whole, "{round:?}");
        }
        assert_eq!(convert(Number::F32, Number::I16, Nearest, 1e9f64.to_bits()), 32767);
        assert_eq!(convert(Number::I32, Number::I16, None, 70_000), 32767);
        assert_eq!(convert(Number::I32, Number::I64, None, -5i64 as u64) as i64, -5);
    }
}
