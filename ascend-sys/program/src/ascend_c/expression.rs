//! Prints values as expressions of C++, with only the parentheses that they need.

use super::fold::computed;
use super::level::{Expression, Level, Loose};
use super::literal::{constant, literal_text};
use super::names::Thing;
use super::printer::{Helper, Printer};
use crate::declared::*;
use crate::flow::{convert, fit, is_float, is_signed, is_whole};
use crate::layout::Number;

impl Printer<'_> {
    /// Prints a value after `=`, where C++ converts to its type and no operator binds tighter.
    pub(super) fn initialiser(&mut self, id: ValueId) -> String {
        let id = self.without_widening(id);
        self.expression(id).text
    }

    /// Prints a value as an argument, or between brackets.
    pub(super) fn argument(&mut self, id: ValueId) -> String {
        let id = self.without_widening(id);
        self.operand(id, Level::Any)
    }

    /// Prints a value as an argument from which a template takes its type.
    pub(super) fn typed(&mut self, id: ValueId) -> String {
        let text = self.operand(id, Level::Any);
        if self.has_its_type(id) {
            return text;
        }
        let number = self.number(id);
        let cast = format!("static_cast<{}>(", number.ascend_c());
        match text.starts_with(&cast) {
            true => text,
            false => format!("{cast}{text})"),
        }
    }

    /// Prints a value as a part of an expression. The part binds at least as tightly as `level`.
    pub(super) fn operand(&mut self, id: ValueId, level: Level) -> String {
        let Expression { text, level: found, loose } = self.expression(id);
        if loose.is_some() {
            return format!("static_cast<{}>({text})", self.number(id).ascend_c());
        }
        match found < level {
            true => format!("({text})"),
            false => text,
        }
    }

    /// Prints a number of elements as a number of bytes: times `sizeof`, or unchanged if an element
    /// has one byte.
    pub(super) fn bytes(&mut self, count: ValueId, number: Number) -> String {
        let count = self.without_widening(count);
        let size = format!("sizeof({})", number.ascend_c());
        match number.size() {
            1 => self.operand(count, Level::Any),
            _ if self.is_plain(count, 1) => size,
            _ => {
                let text = self.operand(count, Level::Product);
                format!("{text} * {size}")
            }
        }
    }

    /// Prints an offset in bytes. Its parts that are whole elements are written with `sizeof`.
    pub(super) fn byte_offset(&mut self, id: ValueId, element: Number) -> String {
        let size = u64::from(element.size());
        let whole = |bits: u64| size > 1 && bits.is_multiple_of(size);
        let id = self.without_widening(id);
        // With fewer bits, a product in bytes may wrap although the product in elements does not.
        let wide = self.number(id).size() == 8;
        let nameless = wide && self.names.get(Thing::Value(id)).is_none();
        match self.program.values[id.0 as usize].of {
            Of::Constant(bits) if nameless && whole(bits) => sized(bits / size, element),
            Of::Binary(Binary::Add, a, b) if nameless => {
                let (a, b) = (self.byte_offset(a, element), self.byte_offset(b, element));
                format!("{a} + {b}")
            }
            Of::Binary(Binary::Mul, a, b) if nameless => {
                let (a, bits) = match (self.literal(a), self.literal(b)) {
                    (_, Some(bits)) => (a, bits),
                    (Some(bits), None) => (b, bits),
                    (None, None) => return self.operand(id, Level::Product),
                };
                if !whole(bits) {
                    return self.operand(id, Level::Product);
                }
                // The first factor must be as wide as the sum.
                let a = if bits == size { self.without_widening(a) } else { a };
                format!("{} * {}", self.operand(a, Level::Product), sized(bits / size, element))
            }
            _ => self.operand(id, Level::Product),
        }
    }

    /// Returns whether a value is a constant without a name and has these bits.
    pub(super) fn is_plain(&self, id: ValueId, bits: u64) -> bool {
        self.literal(id) == Some(bits)
    }

    pub(super) fn number(&self, id: ValueId) -> Number {
        self.program.values[id.0 as usize].number
    }

    fn expression(&mut self, id: ValueId) -> Expression {
        if let Some(name) = self.names.get(Thing::Value(id)) {
            return Expression::new(name, Level::Primary);
        }
        let program = self.program;
        let Value { of, number, .. } = &program.values[id.0 as usize];
        let number = *number;
        if let Some(bits) = self.unsigned(id) {
            return constant(number, bits);
        }
        match of {
            Of::Constant(bits) => constant(number, *bits),
            Of::Tiling { path, element, .. } => {
                let path = self.path(path);
                let text = match element {
                    Some((index, _)) => format!("{path}[{}]", self.argument(*index)),
                    None => path,
                };
                match number {
                    // The host fills the struct and has no such types, so the struct holds the bits
                    // of the numbers.
                    Number::F16 | Number::Bf16 => self.helped(Helper::FromBits, number, &[text]),
                    _ => Expression::new(text, Level::Primary),
                }
            }
            Of::BlockIndex => Expression::new("GetBlockIdx()", Level::Primary),
            Of::BlockCount => Expression::new("GetBlockNum()", Level::Primary),
            Of::SubBlockIndex => Expression::new("GetSubBlockIdx()", Level::Primary),
            Of::TaskRatio => Expression::new("GetTaskRatio()", Level::Primary),
            Of::Rank(client) => {
                Expression::new(format!("{}.GetRankId()", self.client(*client)), Level::Primary)
            }
            Of::Ranks(client) => {
                Expression::new(format!("{}.GetRankDim()", self.client(*client)), Level::Primary)
            }
            Of::Variable(variable) => {
                Expression::new(self.name(Thing::Variable(*variable)), Level::Primary)
            }
            Of::Unary(Unary::Not, a) => {
                Expression::new(format!("!{}", self.operand(*a, Level::Unary)), Level::Unary)
            }
            Of::Unary(Unary::Negate, a) => {
                let expression = self.expression(*a);
                let loose = match () {
                    () if !is_narrow(number) => None,
                    () if is_float(number) => Some(Loose::Float),
                    () => Some(expression.far(self.most(*a))),
                };
                let a = match expression {
                    a if a.text.starts_with('-') || a.level < Level::Unary => {
                        format!("({})", a.text)
                    }
                    a => a.text,
                };
                Expression { text: format!("-{a}"), level: Level::Unary, loose }
            }
            Of::Binary(operator, a, b) => self.binary(number, *operator, *a, *b),
            Of::Select(condition, a, b) => {
                let condition = self.operand(*condition, Level::Or);
                let (a, b) = self.pair(*a, *b, Level::Or, Level::Select, false);
                Expression::new(format!("{condition} ? {a} : {b}"), Level::Select)
            }
            Of::Cast(a) => self.cast(*a, number),
        }
    }

    /// Computes a value made of unsigned constants whose names are not visible here. Their literals
    /// would be signed, so C++ would compute another value.
    fn unsigned(&self, id: ValueId) -> Option<u64> {
        let Value { of, number, .. } = &self.program.values[id.0 as usize];
        if !is_whole(*number) || is_signed(*number) || self.names.get(Thing::Value(id)).is_some() {
            return None;
        }
        match *of {
            Of::Constant(bits) => Some(bits),
            Of::Unary(Unary::Negate, a) => Some(fit(*number, self.unsigned(a)?.wrapping_neg())),
            Of::Cast(a) if self.number(a).size() <= number.size() => {
                Some(convert(self.number(a), *number, self.unsigned(a)?))
            }
            Of::Binary(operator, a, b) if !operator.compares() => {
                computed(operator, *number, self.unsigned(a)?, self.unsigned(b)?)
            }
            _ => None,
        }
    }

    fn binary(&mut self, number: Number, operator: Binary, a: ValueId, b: ValueId) -> Expression {
        let (sign, level) = match operator {
            Binary::Add => ("+", Level::Sum),
            Binary::Sub => ("-", Level::Sum),
            Binary::Mul => ("*", Level::Product),
            Binary::Div => ("/", Level::Product),
            Binary::Rem => ("%", Level::Product),
            Binary::And => ("&&", Level::And),
            Binary::Or => ("||", Level::Or),
            Binary::Equal => ("==", Level::Equality),
            Binary::NotEqual => ("!=", Level::Equality),
            Binary::Less => ("<", Level::Relation),
            Binary::LessEqual => ("<=", Level::Relation),
            Binary::Greater => (">", Level::Relation),
            Binary::GreaterEqual => (">=", Level::Relation),
            Binary::Min | Binary::Max => {
                let helper = if operator == Binary::Min { Helper::Smaller } else { Helper::Larger };
                let arguments = [self.argument(a), self.argument(b)];
                return self.helped(helper, number, &arguments);
            }
        };
        // Only parentheses make C++ compute the right operand of an operator first. Readers also
        // expect parentheses around && in ||.
        let (left, right) = match level {
            Level::Or => (Level::Equality, Level::Equality),
            Level::And => (Level::And, Level::Equality),
            Level::Sum => (Level::Sum, Level::Product),
            Level::Product => (Level::Product, Level::Unary),
            _ => (Level::Sum, Level::Sum),
        };
        let chained = |text: &Self, side: ValueId| {
            level == Level::Or
                && text.names.get(Thing::Value(side)).is_none()
                && matches!(text.program.values[side.0 as usize].of, Of::Binary(Binary::Or, ..))
        };
        let left = if chained(self, a) { Level::Or } else { left };
        let ring = matches!(operator, Binary::Add | Binary::Sub | Binary::Mul);
        if ring && is_narrow(number) && !is_float(number) {
            // The last bits of these operators' results do not depend on the higher bits of the
            // operands.
            let inside = |expression: Expression, level| match expression.level < level {
                true => format!("({})", expression.text),
                false => expression.text,
            };
            let most = [a, b].map(|side| self.most(side));
            let (a, b) = (self.expression(a), self.expression(b));
            let loose = match (a.far(most[0]), b.far(most[1])) {
                // A signed number cannot leave its type without a fault of the kernel.
                _ if matches!(number, Number::I8 | Number::I16) => Loose::Int(1 << 15),
                (Loose::Int(a), Loose::Int(b)) if operator == Binary::Mul => {
                    Loose::Int(a.saturating_mul(b))
                }
                (Loose::Int(a), Loose::Int(b)) => Loose::Int(a.saturating_add(b)),
                _ => Loose::Unsigned,
            };
            let beyond = matches!(loose, Loose::Int(far) if far > i32::MAX.into());
            let (a, loose) = match beyond {
                true => (format!("static_cast<uint32_t>({})", a.text), Loose::Unsigned),
                false => (inside(a, left), loose),
            };
            let text = format!("{a} {sign} {}", inside(b, right));
            return Expression { text, level, loose: Some(loose) };
        }
        let (a, b) = self.pair(a, b, left, right, !operator.compares());
        let loose = match () {
            () if !is_narrow(number) || operator.compares() => None,
            () if is_float(number) => Some(Loose::Float),
            // The operands of quotients and remainders fit their type.
            () => Some(Loose::Int(1 << 16)),
        };
        Expression { text: format!("{a} {sign} {b}"), level, loose }
    }

    /// Returns the largest possible distance from 0 of a value whose type is smaller than the type
    /// in which C++ computes.
    fn most(&self, id: ValueId) -> i128 {
        match (self.literal(id), self.number(id)) {
            (Some(bits), _) => i128::from(bits as i64).abs(),
            (None, Number::I8) => 1 << 7,
            (None, Number::U8) => 1 << 8,
            (None, Number::I16) => 1 << 15,
            _ => 1 << 16,
        }
    }

    /// Prints a call of a helper, with its type as an argument.
    fn helped(&mut self, helper: Helper, number: Number, arguments: &[String]) -> Expression {
        self.helpers.insert(helper);
        let (name, ty) = (helper.name(), number.ascend_c());
        Expression::new(format!("{name}<{ty}>({})", arguments.join(", ")), Level::Primary)
    }

    /// Prints a conversion.
    fn cast(&mut self, id: ValueId, number: Number) -> Expression {
        let from = self.number(id);
        if from == number {
            return self.expression(id);
        }
        if is_float(from) && is_whole(number) {
            return self.saturated(id, number);
        }
        // C++ converts a `half` only to `float`, and only from `float`.
        let by_float = match number {
            Number::F32 => false,
            _ => is_half(from) || is_half(number) && from != Number::F32,
        };
        let a = self.operand(id, Level::Any);
        let a = if by_float { format!("static_cast<float>({a})") } else { a };
        let text = format!("static_cast<{}>({a})", number.ascend_c());
        Expression::new(text, Level::Primary)
    }

    /// Prints the conversion of a floating-point number to a whole number.
    fn saturated(&mut self, id: ValueId, number: Number) -> Expression {
        let from = self.number(id);
        let a = match is_half(from) {
            true => format!("static_cast<float>({})", self.operand(id, Level::Any)),
            false => self.typed(id),
        };
        self.helped(Helper::Saturated, number, &[a])
    }

    /// Prints two operands. If both are literals, the first one is printed as a literal of their
    /// type.
    fn pair(
        &mut self,
        a: ValueId,
        b: ValueId,
        left: Level,
        right: Level,
        mixes: bool,
    ) -> (String, String) {
        let number = self.number(a);
        let (a, b) = self.without_one_widening(a, b, mixes);
        let b_text = self.operand(b, right);
        let a_text = match (self.literal(a), self.literal(b)) {
            (Some(bits), Some(_)) => match number {
                Number::U32 => format!("{bits}U"),
                Number::I64 => format!("INT64_C({})", bits as i64),
                Number::U64 => format!("UINT64_C({bits})"),
                _ => self.operand(a, left),
            },
            _ => self.operand(a, left),
        };
        (a_text, b_text)
    }

    /// Returns two operands without the conversion that C++ makes by itself. If one operand
    /// certainly has the type, C++ converts the other operand. `mixes` allows that even if a sign
    /// is lost, which compilers report in comparisons.
    fn without_one_widening(&self, a: ValueId, b: ValueId, mixes: bool) -> (ValueId, ValueId) {
        let number = self.number(a);
        if is_narrow(number) || is_float(number) {
            return (a, b);
        }
        let (inner_a, inner_b) = (self.without_widening(a), self.without_widening(b));
        let same_sign = |inner| mixes || is_signed(self.number(inner)) == is_signed(number);
        if inner_b != b && self.has_its_type(a) && same_sign(inner_b) {
            (a, inner_b)
        } else if inner_a != a && self.has_its_type(b) && same_sign(inner_a) {
            (inner_a, b)
        } else {
            (a, b)
        }
    }

    /// Returns the bits of a constant without a name.
    fn literal(&self, id: ValueId) -> Option<u64> {
        if self.names.get(Thing::Value(id)).is_some() {
            return None;
        }
        match &self.program.values[id.0 as usize] {
            Value { of: Of::Constant(bits), .. } => Some(*bits),
            _ => None,
        }
    }

    /// Returns the value inside a conversion that C++ makes by itself and without loss.
    pub(super) fn without_widening(&self, id: ValueId) -> ValueId {
        if self.names.get(Thing::Value(id)).is_some() || self.literal(id).is_some() {
            return id;
        }
        let Value { of: Of::Cast(a), number, .. } = &self.program.values[id.0 as usize] else {
            return id;
        };
        let (from, of) = (self.number(*a), &self.program.values[a.0 as usize].of);
        // Indices and counts of cores are never negative.
        let counted =
            matches!(of, Of::BlockIndex | Of::BlockCount | Of::SubBlockIndex | Of::TaskRatio);
        let widens = is_whole(from)
            && is_whole(*number)
            && (from.size() < number.size() || (counted && *number == Number::U64));
        // A value computed in the smaller type must be brought into its range first. A name does
        // that, and a cast shows it.
        let computed = matches!(of, Of::Binary(..) | Of::Unary(..) | Of::Select(..))
            && self.names.get(Thing::Value(*a)).is_none();
        match widens && !computed {
            true => *a,
            false => id,
        }
    }

    /// Returns whether the expression of a value certainly has the type of the value in C++.
    fn has_its_type(&self, id: ValueId) -> bool {
        if self.names.get(Thing::Value(id)).is_some() {
            return true;
        }
        let Value { of, number, .. } = &self.program.values[id.0 as usize];
        match of {
            Of::Cast(a) if self.number(*a) == *number => self.has_its_type(*a),
            Of::Constant(_) => matches!(number, Number::I32 | Number::Bool) || is_float(*number),
            Of::Select(_, a, b) => self.has_its_type(*a) && self.has_its_type(*b),
            Of::Binary(operator, a, b) if !matches!(operator, Binary::Min | Binary::Max) => {
                *number == Number::Bool
                    || !is_narrow(*number) && (self.has_its_type(*a) || self.has_its_type(*b))
            }
            Of::Unary(Unary::Negate, a) => !is_narrow(*number) && self.has_its_type(*a),
            _ => true,
        }
    }
}

/// Prints the number of bytes of some elements.
fn sized(count: u64, element: Number) -> String {
    let size = format!("sizeof({})", element.ascend_c());
    match count {
        1 => size,
        _ => format!("{} * {size}", literal_text(Number::U64, count)),
    }
}

/// Returns whether C++ computes in a larger type than `number`.
fn is_narrow(number: Number) -> bool {
    use Number::*;
    matches!(number, I8 | I16 | U8 | U16 | F16 | Bf16)
}

/// Returns whether a type is a floating-point number of 16 bits. Ascend C converts such a number
/// only to `float` and from `float`.
fn is_half(number: Number) -> bool {
    matches!(number, Number::F16 | Number::Bf16)
}
