//! Products of matrices: types, the tiling that the host made, and bounds.

use super::Product;
use super::global::{touch, within};
use super::view::View;
use crate::declared::{Core, Matmul};
use crate::layout::Number::{self, *};
use crate::step::{Multiply, Place};

pub(super) fn look(view: &mut View<'_, '_>, multiply: &Multiply) {
    if view.core.kind == Core::Aiv {
        let message = "a vector core has no cube unit".to_owned();
        view.error("core", message, "multiply on cube cores");
        return;
    }
    let declared = &view.ground.program.matmuls[multiply.matmul.0 as usize];
    let matmul = &declared.what;
    types(view, matmul);
    tiling(view, &declared.name, matmul, multiply.bias.is_some());
    let Multiply { a, b, c, bias, rows, columns, depth, pitches, .. } = multiply;
    let mut numbers = [0; 6];
    for (number, value) in numbers.iter_mut().zip([rows, columns, depth].into_iter().chain(pitches))
    {
        match view.count(*value) {
            Some(found) => *number = found,
            None => {
                view.unknown.push(c.base);
                return;
            }
        }
    }
    let [rows, columns, depth, pitch_a, pitch_b, pitch_c] = numbers;
    if rows == 0 || columns == 0 || depth == 0 {
        let message = format!("a product of {rows} by {depth} and {depth} by {columns} elements");
        view.error("matmul", message, "leave it out when there is nothing to do");
        return;
    }
    let turned =
        |turned: bool, rows, columns| if turned { (columns, rows) } else { (rows, columns) };
    matrix(view, a, turned(matmul.transposed_a, rows, depth), pitch_a, matmul.a, false);
    matrix(view, b, turned(matmul.transposed_b, depth, columns), pitch_b, matmul.b, false);
    matrix(view, c, (rows, columns), pitch_c, matmul.c, true);
    match (bias, matmul.bias) {
        (Some(place), Some(number)) => {
            within(view, place, columns.into(), number.size().into(), false);
            touch(view, place, number.size().into(), (1, columns, 1), false);
        }
        (Some(_), None) => {
            let message = format!("a bias for `{}`, which is declared without one", declared.name);
            view.error("matmul", message, "declare it with the type of the bias");
        }
        _ => {}
    }
}

/// A matrix as it lies in memory.
fn matrix(
    view: &mut View<'_, '_>,
    place: &Place,
    (rows, columns): (u64, u64),
    pitch: u64,
    number: Number,
    write: bool,
) {
    if pitch < columns {
        let message = format!(
            "rows of {columns} elements of `{}` that begin {pitch} apart",
            view.words().base(place.base)
        );
        view.error("matmul", message, "give the elements from one row to the next");
        return;
    }
    let elements = u128::from(rows - 1) * u128::from(pitch) + u128::from(columns);
    within(view, place, elements, number.size().into(), write);
    touch(view, place, number.size().into(), (rows, columns, pitch), write);
}

fn types(view: &mut View<'_, '_>, matmul: &Matmul) {
    let good = match (matmul.a, matmul.b, matmul.c) {
        (F16, F16, F16 | F32) => matches!(matmul.bias, None | Some(F32 | F16)),
        (F16, F16, Bf16) | (Bf16, Bf16, Bf16 | F32 | F16) | (F32, F32, F32) => {
            matches!(matmul.bias, None | Some(F32))
        }
        (I8, I8, I32 | F16) => matches!(matmul.bias, None | Some(I32)),
        _ => false,
    };
    if !good {
        let bias = matmul.bias.map_or(String::new(), |bias| format!(" + {bias}"));
        let message =
            format!("no product of matrices is {} * {}{bias} -> {}", matmul.a, matmul.b, matmul.c);
        view.error("matmul", message, "f16 * f16 + f32 -> f16 is one of those there are");
    }
}

/// The `TCubeTiling` of this launch.
fn tiling(view: &mut View<'_, '_>, name: &str, matmul: &Matmul, bias: bool) {
    let mut field = |offset: u64| view.tiling(u64::from(matmul.tiling.0) + offset, Number::I32);
    let fields = [32, 36, 40, 120, 124, 128, 60].map(&mut field);
    let [Some(m), Some(n), Some(k), Some(double_a), Some(double_b), Some(double_c), Some(has_bias)] =
        fields
    else {
        return;
    };
    let mut wrong = |message: String, help: &str| view.error("matmul", message, help.to_owned());
    let refill = "have the host compute its tiling with the library";
    for (what, number) in [("baseM", m), ("baseN", n), ("baseK", k)] {
        if number == 0 || number > 1 << 16 || number % 16 != 0 {
            let message =
                format!("{what} of `{name}` is {}, and must be a multiple of 16", number as i64);
            return wrong(message, refill);
        }
    }
    for (what, number) in [("dbL0A", double_a), ("dbL0B", double_b), ("dbL0C", double_c)] {
        if number != 1 && number != 2 {
            return wrong(format!("{what} of `{name}` is {}, not 1 or 2", number as i64), refill);
        }
    }
    if bias && has_bias != 1 {
        let message = format!("`{name}` is given a bias, but isBias in its tiling is {has_bias}");
        wrong(message, "have the host enable the bias");
    }
    let result: u64 = if view.product() == Product::Ascend950 { 256 } else { 128 };
    for (what, bytes, room) in [
        ("left", m * k * u64::from(matmul.a.size()) * double_a, 64),
        ("right", n * k * u64::from(matmul.b.size()) * double_b, 64),
        ("resulting", m * n * 4 * double_c, result),
    ] {
        if bytes > room * 1024 {
            let message =
                format!("the {what} blocks of `{name}` take {bytes} bytes, of {}", room * 1024);
            view.error("matmul", message, refill);
        }
    }
}
