//! Checks products of matrices: types, the tiling that the host made, and bounds.

use super::global::{touch, within};
use super::view::View;
use crate::cube::{Field, Problem, Tiles};
use crate::declared::{Core, Matmul};
use crate::layout::Number;
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
    let tiles = tiles(view, matmul);
    if let Some(tiles) = &tiles {
        tiling(view, &declared.name, matmul, tiles);
    }
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
    if let Some(tiles) = &tiles
        && let Ok(deepest @ 1..) = u64::try_from(tiles.get(Field::SingleCoreK))
        && depth > deepest
    {
        let name = &declared.name;
        let message =
            format!("a product {depth} deep, but singleCoreK of `{name}` covers {deepest}");
        view.error("cube-tiling", message, "fill the tiling for the whole depth");
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

/// Checks a matrix in global memory.
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
            "rows of {columns} elements of `{}` begin only {pitch} elements apart",
            view.words().base(place.base)
        );
        let help = format!("pass a distance between rows of at least {columns} elements");
        view.error("matmul", message, help);
        return;
    }
    let elements = u128::from(rows - 1) * u128::from(pitch) + u128::from(columns);
    within(view, place, elements, number.size().into(), write);
    touch(view, place, number.size().into(), (rows, columns, pitch), write);
}

fn types(view: &mut View<'_, '_>, matmul: &Matmul) {
    if !matmul.exists() {
        let message = format!("cube cores do not compute {}", matmul.types());
        view.error(
            "matmul",
            message,
            "use a product that is supported, such as f16 * f16 + f32 -> f16",
        );
    }
}

/// Returns the `TCubeTiling` of this launch. If it cannot be read, reports the failure and returns
/// `None`.
fn tiles(view: &mut View<'_, '_>, matmul: &Matmul) -> Option<Tiles> {
    let mut tiles = Tiles([0; 50]);
    for (at, number) in (0_u64..).zip(&mut tiles.0) {
        *number = view.tiling(u64::from(matmul.tiling.0) + 4 * at, Number::I32)? as i32;
    }
    Some(tiles)
}

fn tiling(view: &mut View<'_, '_>, name: &str, matmul: &Matmul, tiles: &Tiles) {
    let help = "let `TCubeTiling::for_shape` fill it, or CANN's library on the host";
    let chip = view.product().cube();
    let mixed = view.ground.program.mix.ratio(Core::Aiv) > 0;
    let l1 = chip.l1 - if mixed { chip.l1_reserve } else { 0 };
    if let Some(Problem { field, must }) = tiles.problem(matmul, &chip, l1) {
        let (field, number) = (field.name(), tiles.get(field));
        let message = format!("{field} of `{name}` is {number}, but must be {must}");
        return view.error("cube-tiling", message, help);
    }
    if let Some(field) = tiles.not_plain().next() {
        let (field, number) = (field.name(), tiles.get(field));
        let message = format!("{field} of `{name}` is {number}; in a plain product it is 0");
        view.note("cube-tiling", message, "set it to 0, unless CANN's library has filled it");
    }
}
