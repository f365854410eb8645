//! Decides which values get names, and where. These are the values that the kernel names, and parts
//! of expressions that would otherwise be unreadable.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Thing;
use super::printer::Printer;
use super::uses::operands;
use crate::declared::*;
use crate::flow::{is_float, is_signed};
use crate::layout::Number;

/// The greatest number of unnamed parts of an expression. A longer expression is printed in pieces.
const LONGEST: u64 = 48;

impl Printer<'_> {
    /// Gives names to parts of a value if its line would otherwise be unreadable.
    pub(super) fn cut(&mut self, id: ValueId) {
        for part in self.heavy(id) {
            self.declare_value(part, "part");
        }
    }

    /// Returns the parts of a value that must get a name. A part comes after the parts that it
    /// needs.
    pub(super) fn heavy(&self, id: ValueId) -> Vec<ValueId> {
        let mut weights = BTreeMap::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if weights.insert(id, 1u64).is_none() && self.names.get(Thing::Value(id)).is_none() {
                open.extend(self.computed(&self.program.values[id.0 as usize].of));
            }
        }
        let mut heavy = Vec::new();
        // A value is made only of earlier values.
        for at in weights.keys().copied().collect::<Vec<_>>() {
            if self.names.get(Thing::Value(at)).is_some() {
                continue;
            }
            let parts = operands(&self.program.values[at.0 as usize].of);
            let weight = parts.iter().fold(1u64, |sum, part| {
                sum.saturating_add(weights.get(part).copied().unwrap_or(1))
            });
            match weight > LONGEST {
                true => heavy.push(at),
                false => drop(weights.insert(at, weight)),
            }
        }
        heavy
    }

    /// Returns the operands that are always computed with a value, or whose computation cannot
    /// fail.
    fn computed(&self, of: &Of) -> Vec<ValueId> {
        let mut parts = operands(of);
        if matches!(of, Of::Select(..) | Of::Binary(Binary::And | Binary::Or, ..)) {
            let first = parts.remove(0);
            parts.retain(|part| !self.may_fail(*part));
            parts.insert(0, first);
        }
        parts
    }

    /// Returns whether C++ leaves the value undefined for some numbers. Such a value must be
    /// computed only where it is needed.
    fn may_fail(&self, id: ValueId) -> bool {
        let Value { of, number, .. } = &self.program.values[id.0 as usize];
        let signed = is_signed(*number);
        let itself = match of {
            Of::Tiling { element, .. } => element.is_some(),
            Of::Binary(Binary::Div | Binary::Rem, ..) => !is_float(*number),
            Of::Binary(Binary::Add | Binary::Sub | Binary::Mul, ..) => signed,
            Of::Unary(Unary::Negate, _) => signed,
            _ => false,
        };
        itself || operands(of).into_iter().any(|part| self.may_fail(part))
    }

    /// Returns an equal value that already has the same name. There is one if a function that
    /// several kernels call names a value that its caller has named too.
    pub(super) fn declared_alike(&self, id: ValueId, name: &str) -> Option<ValueId> {
        let values = &self.program.values;
        self.names.values().into_iter().find(|other| {
            let of_other = values[other.0 as usize].name.as_ref();
            of_other.is_some_and(|other| self.names.alike(other, name)) && self.same(id, *other)
        })
    }

    /// Returns whether two values are made in the same way.
    fn same(&self, a: ValueId, b: ValueId) -> bool {
        if a == b {
            return true;
        }
        let [Value { of: of_a, number: a, .. }, Value { of: of_b, number: b, .. }] =
            [a, b].map(|id| &self.program.values[id.0 as usize]);
        let parts = || operands(of_a).into_iter().zip(operands(of_b));
        a == b
            && match (of_a, of_b) {
                (
                    Of::Tiling { path: a, element: x, .. },
                    Of::Tiling { path: b, element: y, .. },
                ) => a == b && x.is_some() == y.is_some(),
                (Of::Unary(a, _), Of::Unary(b, _)) => a == b,
                (Of::Binary(a, ..), Of::Binary(b, ..)) => a == b,
                (Of::Select(..), Of::Select(..)) | (Of::Cast(_), Of::Cast(_)) => true,
                (a, b) => return a == b,
            }
            && parts().all(|(a, b)| self.same(a, b))
    }

    /// Declares a value here under a name.
    pub(super) fn declare_value(&mut self, id: ValueId, name: &str) {
        let number = self.number(id);
        let text = self.initialiser(id);
        let kind = if self.is_constant(id) { "constexpr" } else { "const" };
        let name = self.names.give(Thing::Value(id), name);
        self.text.line(&format!("{kind} {} {name} = {text};", number.ascend_c()));
    }

    /// Returns whether a value depends on one of these variables.
    pub(super) fn depends(&self, id: ValueId, on: impl Fn(VariableId) -> bool) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match &self.program.values[id.0 as usize].of {
                Of::Variable(variable) if on(*variable) => return true,
                of => open.extend(operands(of)),
            }
        }
        false
    }

    /// Returns whether any compiler can compute a value.
    pub(super) fn is_constant(&self, id: ValueId) -> bool {
        let mut open = vec![id];
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let Value { of, number, .. } = &self.program.values[id.0 as usize];
            let good = match of {
                _ if matches!(number, Number::F16 | Number::Bf16) => false,
                Of::Constant(bits) => !is_float(*number) || f64::from_bits(*bits).is_finite(),
                // A product of signed numbers that is too large would be an error, so only unsigned
                // ones count.
                Of::Binary(operator, ..) => {
                    let unsigned = matches!(
                        number,
                        Number::U8 | Number::U16 | Number::U32 | Number::U64 | Number::Bool
                    );
                    !matches!(operator, Binary::Div | Binary::Rem | Binary::Min | Binary::Max)
                        && unsigned
                }
                Of::Select(..) => true,
                Of::Unary(Unary::Not, _) => true,
                Of::Cast(a) => !is_float(self.number(*a)),
                _ => false,
            };
            if !good {
                return false;
            }
            open.extend(operands(of));
        }
        true
    }
}
