//! Numbers whose results C++ leaves open are printed with words that say them, and only those.

use ascend_program::layout::Number::{self, *};
use ascend_program::step::*;
use ascend_program::*;

use crate::common::{Builder, tiling_layout};

/// How a value is printed where it is written to a tensor of its type.
fn printed(number: Number, build: impl FnOnce(&mut Builder) -> ValueId) -> String {
    let mut b = Builder::new(Mix::AivOnly);
    b.program.workspace = false;
    b.program.tiling = Some(tiling_layout(0));
    let y = b.output("y", number);
    let value = build(&mut b);
    let to = b.at(y, 0);
    b.step(Step::Copy(Copy::Set { to, value }));
    let source = ascend_c::kernel(&b.done()).unwrap();
    let call = source.split("yGm.SetValue(0, ").nth(1).unwrap();
    call.split(");\n").next().unwrap().to_owned()
}

fn field(b: &mut Builder, number: Number) -> ValueId {
    b.value(Of::Tiling { offset: 64, path: "f".into(), element: None }, number)
}

fn of_field(number: Number, operator: Binary, other: u64) -> String {
    printed(number, |b| {
        let (f, other) = (field(b, number), b.value(Of::Constant(other), number));
        b.binary(operator, f, other)
    })
}

#[test]
fn signed_numbers_wrap_in_words_where_they_may_overflow() {
    assert_eq!(of_field(I64, Binary::Add, 5), "WrappingAdd<int64_t>(tilingData.f, 5)");
    assert_eq!(of_field(I32, Binary::Mul, 2), "WrappingMul<int32_t>(tilingData.f, 2)");
    assert_eq!(of_field(I32, Binary::Div, 2), "tilingData.f / 2");
    let minus = -1_i64 as u64;
    assert_eq!(of_field(I32, Binary::Div, minus), "WrappingDiv<int32_t>(tilingData.f, -1)");
    assert_eq!(of_field(I64, Binary::Rem, minus), "WrappingRem<int64_t>(tilingData.f, -1)");
    let negative = printed(I64, |b| {
        let f = field(b, I64);
        b.value(Of::Unary(Unary::Negate, f), I64)
    });
    assert_eq!(negative, "WrappingSub<int64_t>(0, tilingData.f)");
}

#[test]
fn what_cannot_overflow_is_printed_as_it_is() {
    assert_eq!(of_field(U64, Binary::Mul, 2), "tilingData.f * 2");
    assert_eq!(of_field(U32, Binary::Sub, 2), "tilingData.f - 2");
    let start = printed(I64, |b| {
        let (index, width) = (b.value(Of::BlockIndex, I64), b.value(Of::Constant(1 << 20), I64));
        let start = b.binary(Binary::Mul, index, width);
        b.value(Of::Unary(Unary::Negate, start), I64)
    });
    assert_eq!(start, "-(GetBlockIdx() * 1048576)");
    // 2 ^ 46 times 2 ^ 17 blocks of two cores is too much.
    let far = printed(I64, |b| {
        let (index, width) = (b.value(Of::BlockIndex, I64), b.value(Of::Constant(1 << 47), I64));
        b.binary(Binary::Mul, index, width)
    });
    assert!(far.starts_with("WrappingMul<int64_t>(GetBlockIdx(), "), "{far}");
    let bounded = printed(I32, |b| {
        let (f, ten) = (field(b, I32), b.value(Of::Constant(10), I32));
        let rest = b.binary(Binary::Rem, f, ten);
        b.binary(Binary::Mul, rest, rest)
    });
    assert_eq!(bounded, "tilingData.f % 10 * (tilingData.f % 10)");
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
    let cube = printed(I16, |b| {
        let f = field(b, I16);
        let square = b.binary(Binary::Mul, f, f);
        b.binary(Binary::Mul, square, f)
    });
    assert_eq!(
        cube,
        "static_cast<int16_t>(static_cast<uint32_t>(tilingData.f * tilingData.f) * tilingData.f)"
    );
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
    let half = "*reinterpret_cast<const half*>(&tilingData.f)";
    assert_eq!(whole(F16, U64), format!("Saturated<uint64_t>(static_cast<float>({half}))"));
    assert_eq!(whole(F32, Bool), "static_cast<bool>(tilingData.f)");
    assert_eq!(whole(I64, F32), "static_cast<float>(tilingData.f)");
}
