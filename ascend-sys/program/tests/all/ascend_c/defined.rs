//! An operation whose result C++ would leave open is printed in a form that defines the result. No
//! other operation is printed in that form.

use std::borrow::Cow;

use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;

use ascend_program_testing::build::{Builder, tiling_layout};
use ascend_program_testing::compiler::{Directory, complaints, sources};

/// Returns the printed form of a value that is written to a tensor of its type.
pub(super) fn printed(number: Number, build: impl FnOnce(&mut Builder) -> ValueId) -> String {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.workspace = false;
    b.program.tiling = Some(tiling_layout(0));
    let y = b.output("y", number);
    let value = build(&mut b);
    let to = b.at(y, 0);
    b.step(Step::Copy(Copy::Set { to, value }));
    let source = ascend_c::kernel(&b.done()).unwrap();
    let call = source.split("yGm.SetValue(0,").nth(1).unwrap();
    let value: Vec<_> = call.split(");\n").next().unwrap().split_whitespace().collect();
    value.join(" ")
}

pub(super) fn field(b: &mut Builder, number: Number) -> ValueId {
    b.value(Of::Tiling { offset: 64, path: "f".into(), element: None }, number)
}

pub(super) fn of_field(number: Number, operator: Binary, other: u64) -> String {
    printed(number, |b| {
        let (f, other) = (field(b, number), b.value(Of::Constant(other), number));
        b.binary(operator, f, other)
    })
}

#[test]
fn what_does_not_leave_its_type_is_printed_as_it_is() {
    assert_eq!(of_field(U64, Binary::Mul, 2), "tilingData.f * 2");
    assert_eq!(of_field(U32, Binary::Sub, 2), "tilingData.f - 2");
    assert_eq!(of_field(I32, Binary::Mul, 2), "tilingData.f * 2");
    assert_eq!(of_field(U16, Binary::Mul, 2), "static_cast<uint16_t>(tilingData.f * 2)");
}

#[test]
fn small_numbers_are_computed_in_as_many_bits_as_they_need() {
    let square = |number| {
        printed(number, |b| {
            let f = field(b, number);
            b.binary(Binary::Mul, f, f)
        })
    };
    assert_eq!(square(U8), "static_cast<uint8_t>(tilingData.f * tilingData.f)");
    assert_eq!(square(I16), "static_cast<int16_t>(tilingData.f * tilingData.f)");
    assert_eq!(
        square(U16),
        "static_cast<uint16_t>(static_cast<uint32_t>(tilingData.f) * tilingData.f)"
    );
    let power = |number, times| {
        printed(number, |b| {
            let f = field(b, number);
            (0..times).fold(f, |power, _| b.binary(Binary::Mul, power, f))
        })
    };
    let f = "tilingData.f";
    assert_eq!(power(I16, 2), format!("static_cast<int16_t>({f} * {f} * {f})"));
    assert_eq!(
        power(U8, 4),
        format!("static_cast<uint8_t>(static_cast<uint32_t>({f} * {f} * {f}) * {f} * {f})")
    );
}

#[test]
fn numbers_that_the_host_does_not_have_are_made_of_their_bits() {
    let part = |name, offset, number, lengths| layout::Field {
        name: Cow::Borrowed(name),
        doc: Cow::Borrowed(""),
        offset,
        item: layout::Item::Number(number),
        lengths: Cow::Borrowed(lengths),
    };
    let fields = vec![part("scale", 0, F16, &[]), part("steps", 2, Bf16, &[3])];
    let mut b = Builder::new(Mix::AivOnly);
    b.program.tiling = Some(layout::Layout {
        name: Cow::Borrowed("BitsTiling"),
        size: 8,
        align: 2,
        fields: Cow::Owned(fields),
        ..tiling_layout(0)
    });
    let (x, y) = (b.output("x", F16), b.output("y", Bf16));
    let scale = b.value(Of::Tiling { offset: 0, path: "scale".into(), element: None }, F16);
    let index = b.value(Of::Constant(2), U64);
    let element = Some((index, 3));
    let step = b.value(Of::Tiling { offset: 2, path: "steps".into(), element }, Bf16);
    for (tensor, value) in [(x, scale), (y, step)] {
        let to = b.at(tensor, 0);
        b.step(Step::Copy(Copy::Set { to, value }));
    }
    let program = b.done();
    let source = ascend_c::kernel(&program).unwrap();
    for text in [
        "SetValue(0, FromBits<half>(tilingData.scale))",
        "FromBits<bfloat16_t>(tilingData.steps[2])",
    ] {
        assert!(source.contains(text), "{source}");
    }
    // The source is correct for a compiler that assumes strict aliasing.
    let directory = Directory::new("bits");
    let more = ["-O2", "-fstrict-aliasing", "-Wstrict-aliasing=1"];
    let Some(said) = complaints(&more, &sources(&program, &directory)) else { return };
    assert!(said.is_empty(), "{said}");
}

#[test]
fn floating_point_numbers_become_the_nearest_whole_ones() {
    let whole = |from, to| {
        printed(to, |b| {
            let f = field(b, from);
            b.value(Of::Cast(f), to)
        })
    };
    assert_eq!(whole(F32, I32), "Saturated<int32_t>(tilingData.f)");
    assert_eq!(whole(F64, U8), "Saturated<uint8_t>(tilingData.f)");
    let half = "FromBits<half>(tilingData.f)";
    assert_eq!(whole(F16, U64), format!("Saturated<uint64_t>(static_cast<float>({half}))"));
    assert_eq!(whole(F32, Bool), "static_cast<bool>(tilingData.f)");
    assert_eq!(whole(I64, F32), "static_cast<float>(tilingData.f)");
}
