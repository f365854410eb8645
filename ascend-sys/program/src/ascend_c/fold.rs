//! Removes arithmetic that a reader does not need: known values are computed, and operations that
//! change nothing are left out.
//!
//! The source computes the same as a walk, wherever a walk computes a value. Unsigned integers
//! wrap. An operation whose signed result would leave its type, or that divides by zero, is a fault
//! of the kernel and stays unchanged. Floating-point numbers stay unchanged too, because `x + 0.0`
//! is not `x` for every `x`. A name of the kernel is kept if it is used.

use std::collections::BTreeSet;

use super::uses::{made_of, values_of};
use crate::declared::*;
use crate::flow::{compare, convert, fit, is_float, is_signed, is_whole};
use crate::layout::Number;
use crate::program::Program;
use crate::step::Step;

/// Returns the same program without needless arithmetic, and without names for unused values.
pub(super) fn folded(program: &Program) -> Program {
    let mut program = program.clone();
    let mut fold = Fold { values: std::mem::take(&mut program.values) };
    for at in 0..fold.values.len() {
        // Each rule leaves fewer operators, or none that could be left out, so the loop ends.
        while let Some(simpler) = fold.simpler(at) {
            fold.values[at].of = simpler;
        }
    }
    program.values = fold.values;
    let used = used(&program);
    for block in &mut program.blocks {
        block.retain(|node| !matches!(node.step, Step::Name(value) if !used.contains(&value)));
    }
    program
}

/// Returns the values that steps use. A step that only names a value does not count.
fn used(program: &Program) -> BTreeSet<ValueId> {
    let mut open = Vec::new();
    for step in program.blocks.iter().flatten().map(|node| &node.step) {
        if !matches!(step, Step::Name(_)) {
            values_of(program, step, &mut open);
        }
    }
    made_of(program, open, &BTreeSet::new())
}

struct Fold {
    values: Vec<Value>,
}

impl Fold {
    fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// Returns the bits of a constant without a name.
    fn known(&self, id: ValueId) -> Option<u64> {
        match self.value(id) {
            Value { of: Of::Constant(bits), name: None, .. } => Some(*bits),
            _ => None,
        }
    }

    /// Returns the definition of a value that equals another value of the same type.
    fn same_as(&self, id: ValueId) -> Of {
        match self.value(id) {
            Value { of, name: None, .. } => of.clone(),
            _ => Of::Cast(id),
        }
    }

    /// Returns a simpler form of a value, if there is one.
    fn simpler(&mut self, at: usize) -> Option<Of> {
        let Value { of, number, .. } = &self.values[at];
        let number = *number;
        match *of {
            Of::Unary(Unary::Not, a) => match (self.known(a), self.value(a)) {
                (Some(bits), _) => Some(Of::Constant(u64::from(bits == 0))),
                (None, Value { of: Of::Unary(Unary::Not, inner), name: None, .. }) => {
                    Some(self.same_as(*inner))
                }
                _ => None,
            },
            Of::Unary(Unary::Negate, a) if is_whole(number) => {
                let bits = self.known(a)?;
                // C++ would give the result, as a literal, a signed type.
                match is_signed(number) {
                    true => exact(number, -i128::from(bits as i64)).map(Of::Constant),
                    false => Some(Of::Constant(fit(number, bits.wrapping_neg()))),
                }
            }
            Of::Select(condition, a, b) => match self.known(condition) {
                Some(bits) => Some(self.same_as(if bits != 0 { a } else { b })),
                None if a == b => Some(self.same_as(a)),
                None => None,
            },
            Of::Cast(a) => self.cast(a, number),
            Of::Binary(operator, a, b) => {
                let operands = self.value(a).number;
                match operands {
                    Number::Bool if !operator.compares() => self.logic(operator, a, b),
                    _ if is_float(operands) => None,
                    _ => self.whole(operator, operands, a, b),
                }
            }
            _ => None,
        }
    }

    fn cast(&self, a: ValueId, to: Number) -> Option<Of> {
        let Value { of, number: from, name } = self.value(a);
        if let Some(bits) = self.known(a) {
            return Some(Of::Constant(convert(*from, to, bits)));
        }
        match of {
            _ if *from == to && name.is_none() => Some(self.same_as(a)),
            // The inner conversion and the outer one cancel out.
            Of::Cast(inner) if name.is_none() => {
                let inside = self.value(*inner).number;
                let lossless = is_whole(inside) && is_whole(*from) && inside.size() <= from.size();
                (inside == to && lossless).then(|| self.same_as(*inner))
            }
            _ => None,
        }
    }

    fn logic(&self, operator: Binary, a: ValueId, b: ValueId) -> Option<Of> {
        let neutral = u64::from(operator == Binary::And);
        match (self.known(a), self.known(b)) {
            (Some(bits), _) if bits == neutral => Some(self.same_as(b)),
            (_, Some(bits)) if bits == neutral => Some(self.same_as(a)),
            (Some(bits), _) | (_, Some(bits)) => Some(Of::Constant(bits)),
            _ if a == b => Some(self.same_as(a)),
            _ => None,
        }
    }

    /// Simplifies an operation on integers, or a comparison of truth values.
    fn whole(&mut self, operator: Binary, number: Number, a: ValueId, b: ValueId) -> Option<Of> {
        use Binary::{Add, Div, Max, Min, Mul, Rem, Sub};
        let zero = Some(Of::Constant(0));
        match (operator, self.known(a), self.known(b)) {
            (_, Some(a), Some(b)) if operator.compares() => {
                Some(Of::Constant(u64::from(compare(operator, number, a, b))))
            }
            (_, Some(a), Some(b)) => computed(operator, number, a, b).map(Of::Constant),
            (Add | Sub, _, Some(0)) | (Mul | Div, _, Some(1)) => Some(self.same_as(a)),
            (Add, Some(0), _) | (Mul, Some(1), _) => Some(self.same_as(b)),
            (Mul, Some(0), _) | (Mul, _, Some(0)) => zero,
            (Div | Rem, Some(0), _) | (Rem, _, Some(1)) => zero,
            (Sub, ..) if a == b => zero,
            (Min | Max, ..) if a == b => Some(self.same_as(a)),
            (Add | Sub, _, Some(more)) => self.moved(operator, number, a, more),
            (Add, Some(more), _) => self.moved(operator, number, b, more),
            (Mul, _, Some(times)) => self.scaled(number, a, times),
            (Mul, Some(times), _) => self.scaled(number, b, times),
            _ => None,
        }
    }

    /// Combines two constants that are added: `x + 3 - 1` becomes `x + 2`.
    fn moved(&mut self, operator: Binary, number: Number, a: ValueId, more: u64) -> Option<Of> {
        let Value { of: Of::Binary(inner, x, y), name: None, .. } = self.value(a) else {
            return None;
        };
        let (x, first) = match (inner, self.known(*x), self.known(*y)) {
            (Binary::Add, Some(constant), None) => (*y, constant),
            (Binary::Add | Binary::Sub, None, Some(constant)) => (*x, constant),
            _ => return None,
        };
        let signed = |operator: Binary, bits: u64| {
            let size = if is_signed(number) { i128::from(bits as i64) } else { bits.into() };
            if operator == Binary::Sub { -size } else { size }
        };
        let sum = signed(*inner, first) + signed(operator, more);
        let (operator, bits) = match sum < 0 {
            true => (Binary::Sub, exact(number, -sum)?),
            false => (Binary::Add, exact(number, sum)?),
        };
        let constant = self.constant(number, bits);
        Some(Of::Binary(operator, x, constant))
    }

    /// Combines two constants that are multiplied: `x * 3 * 2` becomes `x * 6`.
    fn scaled(&mut self, number: Number, a: ValueId, times: u64) -> Option<Of> {
        let Value { of: Of::Binary(Binary::Mul, x, y), name: None, .. } = self.value(a) else {
            return None;
        };
        let (x, first) = match (self.known(*x), self.known(*y)) {
            (Some(constant), None) => (*y, constant),
            (None, Some(constant)) => (*x, constant),
            _ => return None,
        };
        let bits = computed(Binary::Mul, number, first, times)?;
        let constant = self.constant(number, bits);
        Some(Of::Binary(Binary::Mul, x, constant))
    }

    /// Adds a new constant. It comes after the value that it is a part of. That does no harm,
    /// because a constant has no parts.
    fn constant(&mut self, number: Number, bits: u64) -> ValueId {
        self.values.push(Value { of: Of::Constant(bits), number, name: None });
        ValueId(self.values.len() as u32 - 1)
    }
}

/// Returns the bits of an integer, if its type can hold it.
fn exact(number: Number, size: i128) -> Option<u64> {
    let bits = fit(number, size as u64);
    let of_bits = if is_signed(number) { i128::from(bits as i64) } else { bits.into() };
    (of_bits == size).then_some(bits)
}

/// Computes an operation on two integers. Returns `None` if the operation is a fault, such as a
/// division by zero, or if it is a comparison or a logical operation.
pub(super) fn computed(operator: Binary, number: Number, a: u64, b: u64) -> Option<u64> {
    if !is_signed(number) {
        let bits = match operator {
            Binary::Add => a.wrapping_add(b),
            Binary::Sub => a.wrapping_sub(b),
            Binary::Mul => a.wrapping_mul(b),
            Binary::Div => a.checked_div(b)?,
            Binary::Rem => a.checked_rem(b)?,
            Binary::Min => a.min(b),
            Binary::Max => a.max(b),
            _ => return None,
        };
        return Some(fit(number, bits));
    }
    let (a, b) = (i128::from(a as i64), i128::from(b as i64));
    let size = match operator {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a.checked_div(b)?,
        Binary::Rem => {
            exact(number, a.checked_div(b)?)?;
            a % b
        }
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        _ => return None,
    };
    exact(number, size)
}
