//! Expressions of C++ under construction, with the binding strengths of their operators.

/// The binding strength of the outermost operator of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Any,
    Select,
    Or,
    And,
    Equality,
    Relation,
    Sum,
    Product,
    Unary,
    Primary,
}

/// An expression of C++ under construction.
pub(super) struct Expression {
    pub(super) text: String,
    pub(super) level: Level,
    /// The type in which C++ computes, if the type of the value is smaller. The result may then be
    /// out of the range of the value's type.
    pub(super) loose: Option<Loose>,
}

/// The type in which C++ computes instead of a smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loose {
    /// The type `int`, with the greatest possible distance of the number from 0.
    Int(i128),
    /// The type `uint32_t`, which wraps.
    Unsigned,
    /// The type `float`.
    Float,
}

impl Expression {
    pub(super) fn new(text: impl Into<String>, level: Level) -> Self {
        Expression { text: text.into(), level, loose: None }
    }

    /// Returns the type in which C++ computes. `most` is the largest distance of the value from 0.
    pub(super) fn far(&self, most: i128) -> Loose {
        self.loose.unwrap_or(Loose::Int(most))
    }
}
