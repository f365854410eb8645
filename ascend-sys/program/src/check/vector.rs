//! Checks arithmetic of the vector unit: the types that each product has, and bounds.

use super::Product;
use super::buffer::Touch;
use super::clock::Unit;
use super::local::{LocalMemory, Span};
use super::view::View;
use crate::declared::Core;
use crate::layout::Number::{self, *};
use crate::step::*;

pub(super) fn look(view: &mut View<'_, '_>, memory: &mut LocalMemory, vector: &Vector) {
    if view.core.kind == Core::Aic {
        let message = "a cube core has no vector unit".to_owned();
        view.error("core", message, "compute it on vector cores");
        return;
    }
    let number = |view: &View<'_, '_>, local: &Local| {
        view.ground.program.locals[local.tensor.0 as usize].what
    };
    let (to, sources, count): (&Local, Vec<&Local>, _) = match vector {
        Vector::Fill { to, count, .. } => (to, vec![], count),
        Vector::Binary { to, a, b, count, .. } => (to, vec![a, b], count),
        Vector::Scalar { to, a, count, .. } | Vector::Unary { to, a, count, .. } => {
            (to, vec![a], count)
        }
        Vector::Cast { to, from, count, .. } | Vector::Reduce { to, from, count, .. } => {
            (to, vec![from], count)
        }
    };
    let of = number(view, to);
    match vector {
        Vector::Cast { from, round, .. } => cast(view, number(view, from), of, *round),
        _ => typed(view, vector, of),
    }
    let Some(count) = view.count(*count) else {
        memory.widen(to);
        return;
    };
    if count == 0 && view.product() == Product::Ascend950 {
        let message = "a vector operation of 0 elements, which Ascend 950 may reject".to_owned();
        view.error("vector-count", message, "leave it out when there is nothing to do");
    }
    if count > i32::MAX as u64 {
        let message =
            format!("a vector operation of {count} elements, but it can have at most {}", i32::MAX);
        view.error("vector-count", message, "compute shorter tiles");
        return;
    }
    let bytes = |number: Number| u128::from(count) * u128::from(number.size());
    let read: Vec<Option<Span>> = sources
        .iter()
        .map(|local| {
            let bytes = bytes(number(view, local));
            memory.operand(view, local, bytes)
        })
        .collect();
    let written = match vector {
        Vector::Reduce { .. } => u128::from(of.size()),
        _ => bytes(of),
    };
    for (local, span) in sources.iter().zip(&read) {
        if let Some(span) = span {
            memory.touch(view, local, *span, Unit::Vector, Touch::Read);
        }
    }
    let Some(written) = memory.operand(view, to, written) else {
        memory.widen(to);
        return;
    };
    if let Vector::Reduce { operator, work, .. } = vector {
        work_of(view, memory, *operator, work, count);
    }
    memory.touch(view, to, written, Unit::Vector, Touch::Write);
    let widening =
        matches!(vector, Vector::Cast { from, .. } if number(view, from).size() < of.size());
    for read in read.iter().flatten() {
        if written.shifted(read) || (widening && written.overlaps(read)) {
            let message = "the result and an operand share a part of a tensor".to_owned();
            let help = if widening {
                "write wider elements to another tensor"
            } else {
                "write to the operand itself, or to another part"
            };
            view.error("overlap", message, help);
        }
    }
}

/// Checks the memory for intermediate results.
fn work_of(
    view: &mut View<'_, '_>,
    memory: &mut LocalMemory,
    operator: VectorReduce,
    work: &Local,
    count: u64,
) {
    let size = u64::from(view.ground.program.locals[work.tensor.0 as usize].what.size());
    let wanted = match (operator, view.product()) {
        // A sum does not use it.
        (VectorReduce::Sum, _) | (_, Product::Ascend950) => 0,
        (VectorReduce::Max, _) => {
            (2 * (count / (256 / size)).max(1)).next_multiple_of(32 / size) * size
        }
    };
    if let Some(span) = memory.operand(view, work, wanted.into()) {
        memory.touch(view, work, span, Unit::Vector, Touch::Spoil);
    }
}

/// Reports an operation for whose element type the product has no instruction.
fn typed(view: &mut View<'_, '_>, vector: &Vector, number: Number) {
    let new = view.product() == Product::Ascend950;
    let base = matches!(number, I16 | F16 | I32 | F32);
    let unsigned = matches!(number, U16 | U32 | U64);
    let (name, good) = match vector {
        Vector::Fill { .. } => {
            let old = matches!(number, I16 | U16 | F16 | Bf16 | I32 | U32 | F32);
            ("Duplicate".to_owned(), old || (new && number != Bool))
        }
        Vector::Binary { operator, .. } => {
            use VectorBinary::*;
            let float = matches!(number, F16 | F32);
            let good = match operator {
                Div => float || (new && (base || unsigned || number == I64)),
                Mul => base || (new && (unsigned || matches!(number, Bf16 | I64))),
                Add | Sub | Max | Min => {
                    base || (new && (unsigned || matches!(number, Bf16 | I64 | I8 | U8)))
                }
            };
            (format!("{operator:?}"), good)
        }
        Vector::Scalar { operator, .. } => {
            (format!("{operator:?}s"), base || (new && matches!(number, Bf16 | I64)))
        }
        Vector::Unary { operator: VectorUnary::Relu, .. } => {
            ("Relu".to_owned(), matches!(number, F16 | I32 | F32) || (new && number == I64))
        }
        Vector::Unary { operator, .. } => (format!("{operator:?}"), matches!(number, F16 | F32)),
        Vector::Reduce { operator, .. } => {
            let more = match operator {
                VectorReduce::Sum => matches!(number, I32 | U32 | I64 | U64),
                VectorReduce::Max => matches!(number, I16 | I32 | U8 | U16 | U32 | U64),
            };
            (format!("Reduce{operator:?}"), matches!(number, F16 | F32) || (new && more))
        }
        Vector::Cast { .. } => return,
    };
    if !good {
        let message = format!("{} has no {name} of {number} elements", view.product().name());
        let help = match number {
            Bf16 => "cast to f32, compute, and cast back",
            _ => "cast to a type that it supports",
        };
        view.error("vector-type", message, help);
    }
}

/// Checks that the product has a cast with this rounding.
fn cast(view: &mut View<'_, '_>, from: Number, to: Number, round: Round) {
    let new = view.product() == Product::Ascend950;
    // `none` is whether the rounding may be left open, and `said` whether it may be given.
    let (none, said) = match (from, to) {
        (F16, F32) | (Bf16, F32) | (I16, F32) | (I8 | U8, F16) => (true, false),
        (I32, I64 | I16) | (I64, I32) => (true, false),
        (F32, Bf16 | I16 | I32 | I64 | F32) | (F16, I16 | I32) | (Bf16, I32) => (false, true),
        (F32, F16) | (I32, F32) | (I16, F16) | (F16, I8 | U8) => (true, true),
        // Nothing is known here about the rounding of these conversions.
        (F16, Bf16) | (Bf16, F16) if new => return,
        _ => (false, false),
    };
    let good = if round == Round::None { none } else { said };
    if good {
        return;
    }
    let product = view.product().name();
    if new && !none && !said {
        let message = format!(
            "{product} has more casts than A2 and A3, but none from {from} to {to} is known here"
        );
        view.note("cast", message, "look it up in CANN's documents, or cast by way of f32 or f16");
        return;
    }
    let (message, help) = match (none, said) {
        (false, false) => (
            format!("{product} has no cast from {from} to {to}"),
            "cast by way of f32 or f16".to_owned(),
        ),
        (true, _) => (
            format!("a cast from {from} to {to} loses nothing, but is to round ({round:?})"),
            "use `Round::None`".to_owned(),
        ),
        _ => (
            format!("a cast from {from} to {to} that does not say how to round"),
            "give a rounding, such as `Round::Nearest`".to_owned(),
        ),
    };
    view.error("cast", message, help);
}
