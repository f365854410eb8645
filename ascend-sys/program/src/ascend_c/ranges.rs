//! Between which numbers a whole number lies, whatever the launch: where no result leaves its type, the source needs no words for it.

use crate::layout::Number;
use crate::program::*;
use crate::step::Step;

/// The smallest and the largest.
pub(super) type Range = (i128, i128);

/// Blocks of a launch.
const MOST_BLOCKS: i128 = 65_535;

/// What a type holds. Nothing asks for that of floating point numbers.
pub(super) fn of_type(number: Number) -> Range {
    match number {
        Number::I8 => (i8::MIN.into(), i8::MAX.into()),
        Number::I16 => (i16::MIN.into(), i16::MAX.into()),
        Number::I32 => (i32::MIN.into(), i32::MAX.into()),
        Number::I64 => (i64::MIN.into(), i64::MAX.into()),
        Number::U8 => (0, u8::MAX.into()),
        Number::U16 => (0, u16::MAX.into()),
        Number::U32 => (0, u32::MAX.into()),
        Number::U64 => (0, u64::MAX.into()),
        Number::Bool => (0, 1),
        Number::F16 | Number::Bf16 | Number::F32 | Number::F64 => (0, 0),
    }
}

/// The range of each value of a program.
pub(super) fn of_values(program: &Program) -> Vec<Range> {
    let loops = loops(program);
    let mut ranges: Vec<Range> = Vec::with_capacity(program.values.len());
    for value in &program.values {
        let whole = of_type(value.number);
        let range = match of_value(program, &loops, value, &ranges) {
            (low, high) if whole.0 <= low && high <= whole.1 => (low, high),
            // It wraps.
            _ => whole,
        };
        ranges.push(range);
    }
    ranges
}

/// From and to of each variable that nothing but one loop changes.
fn loops(program: &Program) -> Vec<Option<(ValueId, ValueId)>> {
    let mut found: Vec<Vec<Option<(ValueId, ValueId)>>> = vec![Vec::new(); program.variables.len()];
    for node in program.blocks.iter().flatten() {
        match &node.step {
            Step::Set(variable, _) | Step::Read(variable, _) => {
                found[variable.0 as usize].push(None);
            }
            Step::Loop { variable, from, to, .. } => {
                found[variable.0 as usize].push(Some((*from, *to)));
            }
            _ => {}
        }
    }
    let single = |changes: Vec<Option<_>>| match changes[..] {
        [change] => change,
        _ => None,
    };
    found.into_iter().map(single).collect()
}

fn of_value(
    program: &Program,
    loops: &[Option<(ValueId, ValueId)>],
    value: &Value,
    earlier: &[Range],
) -> Range {
    let whole = of_type(value.number);
    let known = |id: &ValueId| earlier.get(id.0 as usize).copied();
    let range = |id: &ValueId| known(id).unwrap_or(of_type(program.values[id.0 as usize].number));
    let signed = whole.0 < 0;
    match &value.of {
        Of::Constant(bits) if signed => (i128::from(*bits as i64), i128::from(*bits as i64)),
        Of::Constant(bits) => (i128::from(*bits), i128::from(*bits)),
        Of::BlockIndex => (0, 2 * MOST_BLOCKS - 1),
        Of::BlockCount => (1, MOST_BLOCKS),
        Of::SubBlockIndex => (0, 1),
        Of::TaskRatio => (1, 2),
        Of::Tiling { .. } | Of::Rank(_) | Of::Ranks(_) => whole,
        Of::Variable(variable) => match loops[variable.0 as usize] {
            // Outside of the loop it is 0, or what it was in the last round.
            Some((from, to)) => {
                (range(&from).0.min(0), (range(&to).1 - 1).max(range(&from).1).max(0))
            }
            None => whole,
        },
        Of::Unary(Unary::Negate, a) => (-range(a).1, -range(a).0),
        Of::Unary(Unary::Not, _) => whole,
        Of::Binary(operator, a, b) => {
            let (a, b) = (range(a), range(b));
            match operator {
                Binary::Add | Binary::Sub | Binary::Mul => ring(*operator, a, b),
                Binary::Min => (a.0.min(b.0), a.1.min(b.1)),
                Binary::Max => (a.0.max(b.0), a.1.max(b.1)),
                // Nothing grows by division, but for the sign.
                Binary::Div if b.0 > 0 => (a.0.min(0), a.1.max(0)),
                Binary::Rem if b.0 > 0 => {
                    let most = b.1 - 1;
                    (a.0.max(-most).min(0), a.1.min(most).max(0))
                }
                _ => whole,
            }
        }
        Of::Select(_, a, b) => (range(a).0.min(range(b).0), range(a).1.max(range(b).1)),
        Of::Cast(a) => match program.values[a.0 as usize].number {
            Number::F16 | Number::Bf16 | Number::F32 | Number::F64 => whole,
            _ => range(a),
        },
    }
}

/// A sum, a difference or a product, as if there were no largest number.
fn ring(operator: Binary, a: Range, b: Range) -> Range {
    match operator {
        Binary::Add => return (a.0 + b.0, a.1 + b.1),
        Binary::Sub => return (a.0 - b.1, a.1 - b.0),
        _ => {}
    }
    let of = i128::saturating_mul;
    let corners = [of(a.0, b.0), of(a.0, b.1), of(a.1, b.0), of(a.1, b.1)];
    corners
        .iter()
        .fold((corners[0], corners[0]), |(low, high), corner| (low.min(*corner), high.max(*corner)))
}

/// Whether an operation of two such numbers may give one that its type does not hold.
pub(super) fn overflows(operator: Binary, number: Number, a: Range, b: Range) -> bool {
    let whole = of_type(number);
    let (low, high) = match operator {
        Binary::Add | Binary::Sub | Binary::Mul => ring(operator, a, b),
        // There is one such quotient.
        Binary::Div | Binary::Rem => {
            return a.0 == whole.0 && whole.0 < 0 && b.0 <= -1 && -1 <= b.1;
        }
        _ => return false,
    };
    low < whole.0 || whole.1 < high
}
