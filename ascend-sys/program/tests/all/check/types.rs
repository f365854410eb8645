//! Tests of the types that each product sends, reduces, computes with and casts. The tables of the
//! documents are compared with the checker for every pair.

use ascend_program::check::{Finding, Product, Severity};
use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;

use crate::check::harness::{Kernel, exchange};

const PRODUCTS: [Product; 3] = [Product::A2, Product::A3, Product::Ascend950];

const NUMBERS: [Number; 13] = [I8, U8, I16, U16, I32, U32, I64, U64, F16, Bf16, F32, F64, Bool];

/// Returns the findings about a kernel of one call: the rules of its errors, and the number of its
/// notes.
fn said(product: Product, build: impl FnOnce(&mut Kernel)) -> (Vec<&'static str>, usize) {
    let mut k = Kernel::new(Mix::MixAiv10);
    k.setting.product = product;
    build(&mut k);
    let findings: Vec<Finding> = k.findings();
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    let errors: Vec<_> = errors.map(|finding| finding.rule).collect();
    let notes = findings.len() - errors.len();
    (errors, notes)
}

fn scratch(k: &mut Kernel, name: &str, number: Number) -> Local {
    k.filled(name, number, 64)
}

fn constant(k: &mut Kernel, number: Number) -> ValueId {
    match number {
        F16 | Bf16 | F32 | F64 => k.float(number, 1.0),
        _ => k.value(Of::Constant(1), number),
    }
}

/// The types of an operation on A2 and A3, and the additional types of a 950.
struct Row {
    name: &'static str,
    old: &'static [Number],
    new: &'static [Number],
    make: fn(&mut Kernel, Number) -> Vector,
}

fn binary(k: &mut Kernel, number: Number, operator: VectorBinary) -> Vector {
    let (a, count) = (scratch(k, "a", number), k.n(8));
    Vector::Binary { operator, to: a, a, b: a, count }
}

fn scalar(k: &mut Kernel, number: Number, operator: VectorBinary) -> Vector {
    let (a, count, scalar) = (scratch(k, "a", number), k.n(8), constant(k, number));
    Vector::Scalar { operator, to: a, a, scalar, count }
}

fn unary(k: &mut Kernel, number: Number, operator: VectorUnary) -> Vector {
    let (a, count) = (scratch(k, "a", number), k.n(8));
    Vector::Unary { operator, to: a, a, count }
}

fn reduce(k: &mut Kernel, number: Number, operator: VectorReduce) -> Vector {
    let (from, work) = (scratch(k, "a", number), scratch(k, "w", number));
    let (to, count) = (scratch(k, "c", number), k.n(8));
    Vector::Reduce { operator, to, from, work, count }
}

const COMPUTED: &[Number] = &[I16, F16, I32, F32];
const EVERY: &[Number] = &[Bf16, U16, U32, I64, U64, I8, U8];

const ROWS: &[Row] = &[
    Row {
        name: "Duplicate",
        old: &[I16, U16, F16, Bf16, I32, U32, F32],
        new: &[I8, U8, I64, U64, F64],
        make: |k, number| {
            let (to, value, count) = (scratch(k, "a", number), constant(k, number), k.n(8));
            Vector::Fill { to, value, count }
        },
    },
    Row { name: "Add", old: COMPUTED, new: EVERY, make: |k, n| binary(k, n, VectorBinary::Add) },
    Row { name: "Sub", old: COMPUTED, new: EVERY, make: |k, n| binary(k, n, VectorBinary::Sub) },
    Row { name: "Max", old: COMPUTED, new: EVERY, make: |k, n| binary(k, n, VectorBinary::Max) },
    Row { name: "Min", old: COMPUTED, new: EVERY, make: |k, n| binary(k, n, VectorBinary::Min) },
    Row {
        name: "Mul",
        old: COMPUTED,
        new: &[Bf16, U16, U32, I64, U64],
        make: |k, n| binary(k, n, VectorBinary::Mul),
    },
    Row {
        name: "Div",
        old: &[F16, F32],
        new: &[I16, I32, U16, U32, I64, U64],
        make: |k, n| binary(k, n, VectorBinary::Div),
    },
    Row {
        name: "Adds",
        old: COMPUTED,
        new: &[Bf16, I64],
        make: |k, n| scalar(k, n, VectorBinary::Add),
    },
    Row {
        name: "Muls",
        old: COMPUTED,
        new: &[Bf16, I64],
        make: |k, n| scalar(k, n, VectorBinary::Mul),
    },
    Row {
        name: "Relu",
        old: &[F16, I32, F32],
        new: &[I64],
        make: |k, n| unary(k, n, VectorUnary::Relu),
    },
    Row { name: "Exp", old: &[F16, F32], new: &[], make: |k, n| unary(k, n, VectorUnary::Exp) },
    Row { name: "Sqrt", old: &[F16, F32], new: &[], make: |k, n| unary(k, n, VectorUnary::Sqrt) },
    Row {
        name: "ReduceSum",
        old: &[F16, F32],
        new: &[I32, U32, I64, U64],
        make: |k, n| reduce(k, n, VectorReduce::Sum),
    },
    Row {
        name: "ReduceMax",
        old: &[F16, F32],
        new: &[I16, I32, U8, U16, U32, U64],
        make: |k, n| reduce(k, n, VectorReduce::Max),
    },
];

#[test]
fn every_product_computes_with_its_types_and_no_others() {
    for row in ROWS {
        for product in PRODUCTS {
            for number in NUMBERS {
                let new = product == Product::Ascend950 && row.new.contains(&number);
                let wanted = row.old.contains(&number) || new;
                let (errors, notes) = said(product, |k| {
                    let vector = (row.make)(k, number);
                    k.step(Step::Vector(vector));
                });
                let wanted: &[&str] = if wanted { &[] } else { &["vector-type"] };
                assert_eq!(
                    (&errors[..], notes),
                    (wanted, 0),
                    "{} {number:?} {product:?}",
                    row.name
                );
            }
        }
    }
}

/// The casts of A2 and A3: from, to, whether the rounding may be left open, and whether it may be
/// given.
const CASTS: &[(Number, &[Number], bool, bool)] = &[
    (F16, &[F32], true, false),
    (Bf16, &[F32], true, false),
    (I16, &[F32], true, false),
    (I8, &[F16], true, false),
    (U8, &[F16], true, false),
    (I32, &[I64, I16], true, false),
    (I64, &[I32], true, false),
    (F32, &[F16], true, true),
    (F32, &[Bf16, I16, I32, I64, F32], false, true),
    (F16, &[I16, I32], false, true),
    (Bf16, &[I32], false, true),
    (I32, &[F32], true, true),
    (I16, &[F16], true, true),
    (F16, &[I8, U8], true, true),
];

#[test]
fn every_product_has_its_casts_and_no_others() {
    let rounds =
        [Round::None, Round::Nearest, Round::Floor, Round::Ceil, Round::Away, Round::Truncate];
    for product in PRODUCTS {
        for from in NUMBERS {
            for to in NUMBERS {
                let known = CASTS.iter().find(|(a, b, ..)| *a == from && b.contains(&to));
                let both = matches!((from, to), (F16, Bf16) | (Bf16, F16));
                for round in rounds {
                    let (errors, notes) = said(product, |k| {
                        let (a, c) = (scratch(k, "a", from), scratch(k, "c", to));
                        let count = k.n(8);
                        k.step(Step::Vector(Vector::Cast { to: c, from: a, round, count }));
                    });
                    let wanted: (&[&str], usize) = match (known, product) {
                        (Some((.., none, said)), _) => {
                            let good = if round == Round::None { *none } else { *said };
                            (if good { &[] } else { &["cast"] }, 0)
                        }
                        (None, Product::Ascend950) => (&[], usize::from(!both)),
                        (None, _) => (&["cast"], 0),
                    };
                    let found = (&errors[..], notes);
                    assert_eq!(found, wanted, "{from:?} to {to:?}, {round:?}, {product:?}");
                }
            }
        }
    }
}

#[test]
fn every_product_sends_and_reduces_its_types_and_no_others() {
    let moved = |product, dtype: u32| match product {
        Product::Ascend950 => [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 14, 15, 16].contains(&dtype),
        _ => (0..=11).chain(14..=17).any(|known| known == dtype),
    };
    let reduced = |product, scatters: bool, dtype: u32| match product {
        Product::Ascend950 if scatters => [0, 1, 2, 3, 4, 11, 14, 15, 16].contains(&dtype),
        Product::Ascend950 => [1, 2, 3, 4, 11].contains(&dtype),
        _ => [0, 1, 2, 3, 4, 11].contains(&dtype),
    };
    for product in PRODUCTS {
        for dtype in 0..20 {
            for command in [2, 6, 7, 10] {
                let (errors, _) = said(product, |k| {
                    // Bytes of the workspace may be of any type.
                    k.write_workspace(4096);
                    let e = exchange(k, Base::Workspace, Base::Workspace, 64);
                    let recv = k.at(Base::Workspace, 1 << 20);
                    let (e, stride) = (Exchange { dtype, recv, ..e }, k.n(64));
                    k.dtype = dtype as u8;
                    let operation = match command {
                        2 => Operation::AllReduce(e, Reduction::Sum),
                        6 => Operation::AllGather(e, stride),
                        7 => Operation::ReduceScatter(e, Reduction::Sum, stride),
                        _ => Operation::AlltoAll(e, stride),
                    };
                    let hccl = k.ready(&[command]);
                    let t = k.task("tiles", hccl);
                    k.on_block(0, |b| {
                        b.prepare(t, operation, 1, true);
                        b.wait(t);
                        b.finalize(hccl);
                    });
                });
                let good = match command {
                    2 | 7 => reduced(product, command == 7, dtype),
                    _ => moved(product, dtype),
                };
                let wanted: &[&str] = if good { &[] } else { &["dtype"] };
                assert_eq!(errors, wanted, "type {dtype} in operation {command} on {product:?}");
            }
        }
    }
}
