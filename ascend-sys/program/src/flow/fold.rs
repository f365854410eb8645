//! Computes in one step a loop that only adds.
//!
//! A loop need not be walked iteration by iteration if its body only adds to integers, and if each
//! term is the loop variable or is the same in every iteration. Then the sums are known.

use super::number::{fit, is_float, is_signed};
use super::{Fault, LoopRange, Unknown, Walk};
use crate::declared::*;
use crate::layout::Number;
use crate::step::{Source, Step};

/// The smallest number of iterations with which a loop is computed at once. A loop with fewer
/// iterations is walked.
const FEW: u64 = 64;

/// The greatest number of iterations of a loop that is computed at once. With more, even an empty
/// loop takes a core of an NPU more than a minute.
const MOST: u64 = 1 << 36;

/// A variable to which each iteration adds.
struct Sum {
    variable: VariableId,
    /// Whether the iteration subtracts the term.
    negative: bool,
    term: Term,
    source: Source,
}

/// The number that is added in each iteration.
enum Term {
    /// A number that is the same in each iteration, or `None` if it is not known.
    Same(Option<u64>),
    /// The loop variable.
    Own,
}

impl Walk<'_> {
    /// Computes a whole loop at once. Returns false if the loop must be walked.
    pub(super) fn fold(&mut self, range: &LoopRange, body: BlockId) -> Result<bool, Fault> {
        let number = self.program.variables[range.variable.0 as usize].what;
        if is_float(number) {
            return Ok(false);
        }
        let whole = |bits: u64| numeric(number, bits);
        let (from, to, step) = (whole(range.from), whole(range.to), whole(range.step));
        if step <= 0 || to <= from {
            return Ok(false);
        }
        let turns = ((to - from) as u128).div_ceil(step as u128);
        let last = from + step * (turns as i128 - 1);
        // A sum that leaves its type is a fault, so such a loop is walked.
        let is_within = whole(fit(number, (last + step) as u64)) == last + step;
        if turns < u128::from(FEW) || !is_within {
            return Ok(false);
        }
        let Some(sums) = self.sums(range.variable, body) else { return Ok(false) };
        if turns > u128::from(MOST) {
            return Err(self.fault(&format!("a loop of {turns} turns that do nothing")));
        }
        let mut results: Vec<(VariableId, Option<u64>)> = Vec::new();
        for Sum { variable, negative, term, source } in sums {
            let of = self.program.variables[variable.0 as usize].what;
            let before = self.variables[variable.0 as usize];
            let (before, each) = match (before, term) {
                (Some(before), Term::Same(Some(each))) => (before, Some(each)),
                (Some(before), Term::Own) => (before, None),
                _ => {
                    results.push((variable, None));
                    continue;
                }
            };
            // No number below is larger than 2^102, so nothing overflows.
            let sum = match each {
                Some(each) => numeric(of, each) * turns as i128,
                None if from >= 0 && turns <= 1 << 32 => (from + last) * turns as i128 / 2,
                None => return Ok(false),
            };
            let sum = if negative { -sum } else { sum };
            let after = numeric(of, before) + sum;
            let bits = fit(of, after as u64);
            if is_signed(of) && numeric(of, bits) != after {
                let Some(each) = each else { return Ok(false) };
                self.source = source;
                let each = if negative { -numeric(of, each) } else { numeric(of, each) };
                return Err(self.beyond(of, numeric(of, before), each, negative));
            }
            results.push((variable, Some(bits)));
        }
        for (variable, bits) in results {
            self.variables[variable.0 as usize] = bits;
        }
        self.variables[range.variable.0 as usize] = Some(fit(number, last as u64));
        Ok(true)
    }

    /// Returns the variables to which the body adds, with their terms. Returns `None` if the body
    /// does anything else.
    fn sums(&self, own: VariableId, body: BlockId) -> Option<Vec<Sum>> {
        let block = &self.program.blocks[body.0 as usize];
        let mut sets = Vec::new();
        for node in block {
            match &node.step {
                Step::Comment(_) => {}
                Step::Set(variable, _) if *variable != own => sets.push(*variable),
                _ => return None,
            }
        }
        let mut once = sets.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() < sets.len() {
            return None;
        }
        let nodes = block.iter().filter_map(|node| match &node.step {
            Step::Set(variable, value) => Some((*variable, *value, node.source)),
            _ => None,
        });
        nodes
            .map(|(variable, value, source)| {
                let number = self.program.variables[variable.0 as usize].what;
                let (negative, a, b) = match self.program.values[value.0 as usize].of {
                    Of::Binary(Binary::Add, a, b) if !is_float(number) => (false, a, b),
                    Of::Binary(Binary::Sub, a, b) if !is_float(number) => (true, a, b),
                    _ => return None,
                };
                let term = match (self.is_variable(a, variable), self.is_variable(b, variable)) {
                    (true, false) => b,
                    (false, true) if !negative => a,
                    _ => return None,
                };
                let type_of = |id: VariableId| self.program.variables[id.0 as usize].what;
                let term = if self.is_variable(term, own) && type_of(own) == number {
                    Term::Own
                } else if self.depends(term, own, &sets) {
                    return None;
                } else {
                    match self.value(term) {
                        Ok(bits) => Term::Same(Some(bits)),
                        Err(Unknown::Data) => Term::Same(None),
                        // The walk through the loop reports the fault.
                        Err(_) => return None,
                    }
                };
                Some(Sum { variable, negative, term, source })
            })
            .collect()
    }

    fn is_variable(&self, value: ValueId, variable: VariableId) -> bool {
        matches!(self.program.values[value.0 as usize].of, Of::Variable(of) if of == variable)
    }

    /// Returns whether a value changes from one iteration to the next.
    fn depends(&self, value: ValueId, own: VariableId, sets: &[VariableId]) -> bool {
        let on = |value: &ValueId| self.depends(*value, own, sets);
        match &self.program.values[value.0 as usize].of {
            Of::Variable(variable) => *variable == own || sets.contains(variable),
            Of::Tiling { element, .. } => element.as_ref().is_some_and(|(index, _)| on(index)),
            Of::Unary(_, a) | Of::Cast(a) => on(a),
            Of::Binary(_, a, b) => on(a) || on(b),
            Of::Select(a, b, c) => on(a) || on(b) || on(c),
            Of::Constant(_)
            | Of::BlockIndex
            | Of::BlockCount
            | Of::SubBlockIndex
            | Of::TaskRatio
            | Of::Rank(_)
            | Of::Ranks(_) => false,
        }
    }

    /// Returns the fault of the iteration in which a sum leaves its type.
    fn beyond(&self, number: Number, before: i128, each: i128, negative: bool) -> Fault {
        let bits = 8 * number.size() - 1;
        let room = if each > 0 { (1 << bits) - 1 - before } else { -(1 << bits) - before };
        let x = before + each * (room / each);
        let (sign, shown) = if negative { ("-", -each) } else { ("+", each) };
        let result = x + each;
        self.fault(&format!(
            "{x} {sign} {shown} is {result}, beyond the range of {number}; use smaller numbers \
             or a wider type"
        ))
    }
}

/// Returns an integer as an `i128`.
fn numeric(number: Number, bits: u64) -> i128 {
    if is_signed(number) { i128::from(bits as i64) } else { i128::from(bits) }
}
