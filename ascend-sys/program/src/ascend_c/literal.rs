//! Prints numbers as literals of C++.

use super::level::{Expression, Level};
use crate::layout::Number;

/// Prints a number as a literal of C++.
pub(super) fn literal_text(number: Number, bits: u64) -> String {
    constant(number, bits).text
}

pub(super) fn constant(number: Number, bits: u64) -> Expression {
    let text = match number {
        Number::Bool => (bits != 0).to_string(),
        Number::I8 | Number::I16 | Number::I32 | Number::I64 => match bits as i64 {
            i64::MIN => "INT64_MIN".to_owned(),
            // The digits alone would have a larger type.
            n if n == i64::from(i32::MIN) => "INT32_MIN".to_owned(),
            n if number == Number::I64 && i32::try_from(n).is_err() => format!("INT64_C({n})"),
            n => n.to_string(),
        },
        Number::U8 | Number::U16 | Number::U32 | Number::U64 => match bits {
            n if i32::try_from(n).is_ok() => n.to_string(),
            n if u32::try_from(n).is_ok() => format!("{n}U"),
            n => format!("UINT64_C({n})"),
        },
        Number::F64 => float(bits, ""),
        Number::F32 => float(bits, "f"),
        Number::F16 | Number::Bf16 => format!("{}({})", number.ascend_c(), float(bits, "f")),
    };
    let level = match text.as_bytes() {
        _ if text.contains(" / ") && !text.ends_with(')') => Level::Product,
        [b'-', ..] => Level::Unary,
        _ => Level::Primary,
    };
    Expression::new(text, level)
}

/// Returns the text of an `f64`, or of an `f32` that it holds.
fn float(bits: u64, suffix: &str) -> String {
    let float = f64::from_bits(bits);
    if float.is_nan() {
        return format!("0.0{suffix} / 0.0{suffix}");
    }
    if float.is_infinite() {
        let sign = if float < 0.0 { "-" } else { "" };
        return format!("{sign}1.0{suffix} / 0.0{suffix}");
    }
    // These are the fewest digits that distinguish the number from its neighbours.
    let digits = match suffix {
        "f" => format!("{:?}", float as f32),
        _ => format!("{float:?}"),
    };
    format!("{digits}{suffix}")
}
