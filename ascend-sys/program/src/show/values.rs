//! Prints values as expressions, with only the parentheses that they need.

use super::Words;
use crate::declared::*;
use crate::flow;

impl Words<'_> {
    /// Returns a value in the form for places where any expression is allowed.
    pub(crate) fn value(&self, value: ValueId) -> String {
        self.bound(value, 0)
    }

    /// Returns a value in the form for places next to other text.
    pub(super) fn operand(&self, value: ValueId) -> String {
        self.bound(value, UNARY)
    }

    fn bound(&self, value: ValueId, binding: u8) -> String {
        let known = self.program.values.get(value.0 as usize);
        match (known.and_then(|value| value.name.as_ref()), self.named.get(value.0 as usize)) {
            (Some(name), Some(true)) => name.clone(),
            _ => self.made(value, binding),
        }
    }

    /// Returns the expression of a value, in parentheses if it binds less tightly than its
    /// surroundings.
    pub(super) fn made(&self, value: ValueId, binding: u8) -> String {
        let Some(Value { of, number, .. }) = self.program.values.get(value.0 as usize) else {
            return "?".to_owned();
        };
        let (own, text) = match of {
            Of::Constant(bits) => (ATOM, flow::show(*number, *bits)),
            Of::Tiling { path, element: None, .. } => (ATOM, self.field(path)),
            Of::Tiling { path, element: Some((index, _)), .. } => {
                (ATOM, format!("{}[{}]", self.field(path), self.value(*index)))
            }
            Of::BlockIndex => (ATOM, "block_idx".to_owned()),
            Of::BlockCount => (ATOM, "block_num".to_owned()),
            Of::SubBlockIndex => (ATOM, "sub_block_idx".to_owned()),
            Of::TaskRatio => (ATOM, "task_ratio".to_owned()),
            Of::Rank(client) => (ATOM, format!("{}.rank", self.client(*client))),
            Of::Ranks(client) => (ATOM, format!("{}.ranks", self.client(*client))),
            Of::Variable(variable) => (ATOM, self.variable(*variable).to_owned()),
            Of::Unary(Unary::Negate, a) => (UNARY, format!("-{}", self.bound(*a, UNARY))),
            Of::Unary(Unary::Not, a) => (UNARY, format!("!{}", self.bound(*a, UNARY))),
            Of::Binary(operator @ (Binary::Min | Binary::Max), a, b) => {
                let name = if *operator == Binary::Min { "min" } else { "max" };
                (ATOM, format!("{name}({}, {})", self.value(*a), self.value(*b)))
            }
            Of::Binary(operator, a, b) => {
                let (sign, own) = sign(*operator);
                // To the right of `-` and `/`, the same operator needs parentheses. Comparisons
                // need them on both sides.
                let left = if operator.compares() { own + 1 } else { own };
                (own, format!("{} {sign} {}", self.bound(*a, left), self.bound(*b, own + 1)))
            }
            Of::Select(condition, a, b) => {
                let (a, b) = (self.value(*a), self.value(*b));
                (0, format!("if {} {{ {a} }} else {{ {b} }}", self.value(*condition)))
            }
            Of::Cast(a) => (CAST, format!("{} as {number}", self.bound(*a, CAST))),
        };
        if own < binding { format!("({text})") } else { text }
    }

    /// Returns a field of the tiling struct.
    fn field(&self, path: &str) -> String {
        if self.own.contains(path) { format!("tiling.{path}") } else { path.to_owned() }
    }
}

const CAST: u8 = 6;
const UNARY: u8 = 7;
const ATOM: u8 = 8;

fn sign(operator: Binary) -> (&'static str, u8) {
    match operator {
        Binary::Or => ("||", 1),
        Binary::And => ("&&", 2),
        Binary::Equal => ("==", 3),
        Binary::NotEqual => ("!=", 3),
        Binary::Less => ("<", 3),
        Binary::LessEqual => ("<=", 3),
        Binary::Greater => (">", 3),
        Binary::GreaterEqual => (">=", 3),
        Binary::Add => ("+", 4),
        Binary::Sub => ("-", 4),
        Binary::Mul => ("*", 5),
        Binary::Div => ("/", 5),
        Binary::Rem => ("%", 5),
        Binary::Min => ("min", ATOM),
        Binary::Max => ("max", ATOM),
    }
}
