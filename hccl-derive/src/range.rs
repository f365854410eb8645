//! Checks the range of a field, as far as its text allows.

use syn::{Error, Expr, ExprLit, ExprUnary, Lit, Result, UnOp};

use crate::types::Shape;

/// The largest number of each integer type. The smallest number of an unsigned type is 0; that of a
/// signed type is the negative of the largest, less 1.
const WHOLE: [(&str, i128); 8] = [
    ("i8", i8::MAX as i128),
    ("i16", i16::MAX as i128),
    ("i32", i32::MAX as i128),
    ("i64", i64::MAX as i128),
    ("u8", u8::MAX as i128),
    ("u16", u16::MAX as i128),
    ("u32", u32::MAX as i128),
    ("u64", u64::MAX as i128),
];

/// Checks that `range` is a range with at least one end, and that each end that is a literal is a
/// number of the type.
pub fn check(range: &Expr, shape: Option<&Shape>) -> Result<()> {
    let problem = "`range` takes a range with at least one end: write `range = 1..=64` or `range \
                   = 1..`";
    let Expr::Range(range) = range else { return Err(Error::new_spanned(range, problem)) };
    let ends: Vec<&Expr> = [&range.start, &range.end].into_iter().flatten().map(|e| &**e).collect();
    if ends.is_empty() {
        return Err(Error::new_spanned(range, problem));
    }
    let name = shape.map(Shape::name).unwrap_or_default();
    let found = ends.iter().find_map(|end| Some((end, end_problem(end, &name)?)));
    found.map_or(Ok(()), |(end, problem)| Err(Error::new_spanned(end, problem)))
}

/// Returns the problem of an end for a type with this name, if one is known.
fn end_problem(end: &Expr, ty: &str) -> Option<String> {
    let (negative, literal) = match end {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => (true, &**expr),
        end => (false, end),
    };
    let Expr::Lit(ExprLit { lit, .. }) = literal else { return None };
    let whole = WHOLE.iter().find(|(name, _)| *name == ty);
    match (lit, whole) {
        (Lit::Int(number), Some((_, last)))
            if number.suffix().is_empty() || number.suffix() == ty =>
        {
            let first = if ty.starts_with('u') { 0 } else { -last - 1 };
            let number = number.base10_parse::<i128>().ok();
            let within = number
                .map(|number| if negative { -number } else { number })
                .is_some_and(|number| (first..=*last).contains(&number));
            (!within)
                .then(|| format!("a `{ty}` is in {first}..={last}: write an end in this range"))
        }
        (Lit::Float(_), Some(_)) => {
            Some(format!("a `{ty}` is a whole number: write a whole number for the end"))
        }
        (Lit::Int(number), None) if matches!(ty, "f32" | "f64") && number.suffix().is_empty() => {
            Some(format!("a `{ty}` has a decimal point: write `{number}.0`"))
        }
        _ => None,
    }
}
