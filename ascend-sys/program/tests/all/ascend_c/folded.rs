//! No needless arithmetic is left in the source, and only arithmetic that changes nothing is left
//! out.

use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::{Builder, tiling_layout};

use super::defined::{field, of_field, printed};

const F: &str = "tilingData.f";

#[test]
fn what_is_known_is_computed() {
    for number in [I32, U32, I64, U64] {
        assert_eq!(of_field(number, Binary::Mul, 0), "0");
        assert_eq!(of_field(number, Binary::Rem, 1), "0");
        for (operator, neutral) in
            [(Binary::Add, 0), (Binary::Sub, 0), (Binary::Mul, 1), (Binary::Div, 1)]
        {
            assert_eq!(of_field(number, operator, neutral), F);
        }
    }
    let constants = |number: Number, operator, a: i64, b: i64| {
        printed(number, |b_| {
            let [a, b] =
                [a, b].map(|n| b_.value(Of::Constant(flow::fit(number, n as u64)), number));
            b_.binary(operator, a, b)
        })
    };
    assert_eq!(constants(U8, Binary::Add, 200, 100), "44");
    assert_eq!(constants(U32, Binary::Sub, 1, 2), "4294967295U");
    assert_eq!(constants(I32, Binary::Rem, -7, 2), "-1");
    assert_eq!(constants(U64, Binary::Max, 3, 8), "8");
    // An operation that a walk rejects stays in the source, so that the fault is visible at its
    // line.
    assert_eq!(constants(I32, Binary::Div, 1, 0), "1 / 0");
    assert_eq!(constants(I32, Binary::Add, i32::MAX.into(), 1), "2147483647 + 1");
}

#[test]
fn constants_in_a_row_are_one() {
    let row = |number, operators: [(Binary, u64); 2]| {
        printed(number, |b| {
            let f = field(b, number);
            operators.into_iter().fold(f, |so_far, (operator, n)| {
                let n = b.value(Of::Constant(n), number);
                b.binary(operator, so_far, n)
            })
        })
    };
    assert_eq!(row(U64, [(Binary::Add, 3), (Binary::Sub, 1)]), format!("{F} + 2"));
    assert_eq!(row(U64, [(Binary::Add, 1), (Binary::Sub, 3)]), format!("{F} - 2"));
    assert_eq!(row(I32, [(Binary::Sub, 4), (Binary::Add, 4)]), F);
    assert_eq!(row(U64, [(Binary::Mul, 6), (Binary::Mul, 4)]), format!("{F} * 24"));
    // The sum of both constants leaves the type, but adding them one after the other does not.
    let far = i32::MAX as u64;
    assert_eq!(row(I32, [(Binary::Add, far), (Binary::Add, 1)]), format!("{F} + {far} + 1"));
    // A quotient times its divisor is not always the dividend.
    assert_eq!(row(U64, [(Binary::Div, 4), (Binary::Mul, 4)]), format!("{F} / 4 * 4"));
}

#[test]
fn floating_point_numbers_are_left_alone() {
    for (operator, n, sign) in
        [(Binary::Add, 0.0, "+ 0.0f"), (Binary::Mul, 1.0, "* 1.0f"), (Binary::Mul, 0.0, "* 0.0f")]
    {
        assert_eq!(of_field(F32, operator, f64::to_bits(n)), format!("{F} {sign}"));
    }
}

#[test]
fn truth_values_and_choices_that_are_known_are_left_out() {
    let logic = |operator, known: bool| {
        printed(Bool, |b| {
            let (f, zero) = (field(b, U64), b.n(0));
            let open = b.binary(Binary::Equal, f, zero);
            let known = b.value(Of::Constant(known.into()), Bool);
            b.value(Of::Binary(operator, open, known), Bool)
        })
    };
    assert_eq!(logic(Binary::And, true), format!("{F} == 0"));
    assert_eq!(logic(Binary::And, false), "false");
    assert_eq!(logic(Binary::Or, false), format!("{F} == 0"));
    assert_eq!(logic(Binary::Or, true), "true");
    let chosen = printed(U64, |b| {
        let [three, four] = [3, 4].map(|n| b.n(n));
        let (less, f) = (b.binary(Binary::Less, three, four), field(b, U64));
        b.value(Of::Select(less, f, four), U64)
    });
    assert_eq!(chosen, F);
}

#[test]
fn a_conversion_there_and_back_is_none_if_nothing_is_lost() {
    let there_and_back = |number, by| {
        printed(number, |b| {
            let f = field(b, number);
            let wide = b.value(Of::Cast(f), by);
            b.value(Of::Cast(wide), number)
        })
    };
    assert_eq!(there_and_back(U32, U64), F);
    assert_eq!(there_and_back(I32, U32), F);
    let narrow = format!("static_cast<uint8_t>({F})");
    assert_eq!(there_and_back(U32, U8), narrow);
    assert_eq!(there_and_back(I32, F32), format!("Saturated<int32_t>(static_cast<float>({F}))"));
}

#[test]
fn halves_are_converted_by_way_of_float() {
    for (half, ty) in [(F16, "half"), (Bf16, "bfloat16_t")] {
        let cast = |from, to| {
            printed(to, |b| {
                // A 16-bit float in the struct would be its bits, so a variable is used.
                let variable = b.variable("v", from);
                let v = b.get(variable);
                b.value(Of::Cast(v), to)
            })
        };
        for (whole, name) in [(I64, "int64_t"), (U64, "uint64_t"), (I32, "int32_t")] {
            assert_eq!(cast(whole, half), format!("static_cast<{ty}>(static_cast<float>(v))"));
            let back = format!("Saturated<{name}>(static_cast<float>(v))");
            assert_eq!(cast(half, whole), back);
        }
        assert_eq!(cast(Bool, half), format!("static_cast<{ty}>(static_cast<float>(v))"));
        assert_eq!(cast(half, Bool), "static_cast<bool>(static_cast<float>(v))");
        assert_eq!(cast(F32, half), format!("static_cast<{ty}>(v)"));
        assert_eq!(cast(half, F32), "static_cast<float>(v)");
    }
}

/// Returns the place of a copied piece that begins some bytes after the start of the workspace.
fn in_workspace(number: Number, offset: impl FnOnce(&mut Builder) -> ValueId) -> String {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.tiling = Some(tiling_layout(0));
    let offset = offset(&mut b);
    let from = b.filled("a", number, 64);
    let length = b.n(64);
    let pieces = Pieces { count: None, length, gap: None };
    let to = Place { base: Base::Workspace, offset };
    b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
    let source = ascend_c::kernel(&b.done()).unwrap();
    let call = source.split("(userWorkspace").nth(1).unwrap();
    call.split("), a").next().unwrap().trim_start_matches(" + ").to_owned()
}

#[test]
fn bytes_are_elements_with_their_size() {
    let field_times = |number, n: u64| {
        move |b: &mut Builder| {
            let f = field(b, number);
            let wide = b.value(Of::Cast(f), U64);
            let n = b.n(n);
            b.binary(Binary::Mul, wide, n)
        }
    };
    assert_eq!(in_workspace(F32, |b| b.n(4)), "sizeof(float)");
    assert_eq!(in_workspace(F32, |b| b.n(128)), "32 * sizeof(float)");
    assert_eq!(in_workspace(F16, |b| b.n(0)), "");
    assert_eq!(in_workspace(F32, field_times(U64, 4)), format!("{F} * sizeof(float)"));
    assert_eq!(in_workspace(F16, field_times(U64, 32)), format!("{F} * 16 * sizeof(half)"));
    // These offsets are not multiples of an element's size.
    assert_eq!(in_workspace(F32, field_times(U64, 6)), format!("{F} * 6"));
    assert_eq!(in_workspace(F32, |b| b.n(6)), "6");
    // A factor of 64 bits makes the product as wide, but a factor of type `int` does not.
    assert_eq!(in_workspace(F32, field_times(U32, 4)), format!("{F} * sizeof(float)"));
    let wide = format!("static_cast<uint64_t>({F}) * 2 * sizeof(float)");
    assert_eq!(in_workspace(F32, field_times(U32, 8)), wide);
    let sum = in_workspace(F32, |b| {
        let times = field_times(U64, 4)(b);
        let start = b.n(1024);
        b.binary(Binary::Add, start, times)
    });
    assert_eq!(sum, format!("256 * sizeof(float) + {F} * sizeof(float)"));
}

#[test]
fn a_variable_takes_more() {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.workspace = false;
    let y = b.output("y", U64);
    let [sum, small] = [("sum", U64), ("small", U8)].map(|(name, number)| b.variable(name, number));
    for variable in [sum, small] {
        let number = b.program.variables[variable.0 as usize].what;
        let [one, two] = [1, 2].map(|n| b.value(Of::Constant(n), number));
        b.step(Step::Set(variable, one));
        let now = b.get(variable);
        let more = b.binary(Binary::Add, now, two);
        b.step(Step::Set(variable, more));
        let product = b.binary(Binary::Mul, two, now);
        b.step(Step::Set(variable, product));
    }
    let (value, to) = (b.get(sum), b.at(y, 0));
    b.step(Step::Copy(Copy::Set { to, value }));
    let source = ascend_c::kernel(&b.done()).unwrap();
    for text in ["    sum += 2;\n", "    sum = 2 * sum;\n", "    small = small + 2;\n"] {
        assert!(source.contains(text), "{text}{source}");
    }
}

#[test]
fn names_are_given_to_what_is_used() {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.workspace = false;
    b.program.tiling = Some(tiling_layout(0));
    let y = b.output("y", U64);
    let f = field(&mut b, U64);
    let hidden = b.name("hidden", f);
    let f = field(&mut b, U64);
    let width = b.name("width", f);
    let zero = b.n(0);
    let start = b.binary(Binary::Mul, hidden, zero);
    let to = Place { base: y, offset: start };
    b.step(Step::Copy(Copy::Set { to, value: width }));
    let source = ascend_c::kernel(&b.done()).unwrap();
    assert!(source.contains("const uint64_t width = tilingData.f;"), "{source}");
    assert!(source.contains("yGm.SetValue(0, width);"), "{source}");
    assert!(!source.contains("hidden"), "{source}");
}
