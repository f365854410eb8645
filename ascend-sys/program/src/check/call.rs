//! The prepare calls of clients, and the checks that calls of all operations share.

use super::Product;
use super::global::{self, Spot, spot};
use super::view::View;
use crate::declared::{ClientId, TaskId};
use crate::dtype;
use crate::layout::Number;
use crate::step::*;

/// A prepare call.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub task: TaskId,
    pub client: ClientId,
    pub operation: &'a Operation,
    pub repeat: u64,
    /// The offset of the operation's `Mc2CcTiling` in the tiling struct.
    pub tiling: Option<u64>,
}

pub(super) fn name(command: u32) -> String {
    match command {
        2 => "AllReduce".to_owned(),
        6 => "AllGather".to_owned(),
        7 => "ReduceScatter".to_owned(),
        8 => "AlltoAllV".to_owned(),
        10 => "AlltoAll".to_owned(),
        18 => "BatchWrite".to_owned(),
        20 => "AlltoAllvWrite".to_owned(),
        other => format!("operation {other}"),
    }
}

pub(super) fn typed(view: &mut View<'_, '_>, command: u32, dtype: u32) {
    let good = match (view.product(), command) {
        (Product::Ascend950, 2) => matches!(dtype, 1 | 2 | 3 | 4 | 11),
        (Product::Ascend950, 7) => matches!(dtype, 0..=4 | 11 | 14..=16),
        (Product::Ascend950, _) => matches!(dtype, 0..=5 | 7..=11 | 14..=16),
        (_, 2 | 7) => matches!(dtype, 0..=4 | 11),
        _ => dtype::size(dtype).is_some(),
    };
    if !good {
        let message = format!(
            "{} on {} does not take elements of type {} ({dtype})",
            name(command),
            view.product().name(),
            dtype::name(dtype)
        );
        let help = match command {
            2 | 7 => "reduce f32, f16, bf16, i32 or i16, which every product reduces",
            _ => "send the same bytes as another type",
        };
        view.error("dtype", message, help);
    }
}

/// Returns the size of an element, and the numbers of a place that the server reads or writes. If
/// that fails, reports the failure and returns `None`.
pub(super) fn buffer(
    view: &mut View<'_, '_>,
    place: &Place,
    dtype: u32,
    write: bool,
) -> Option<(u64, Spot)> {
    if write {
        global::written(view, place.base);
    }
    let size = dtype::size(dtype)?;
    let spot = spot(view, place)?;
    match global::number(view, place.base) {
        Some(number) if dtype::of(number) != Some(dtype) => {
            let bytes = matches!(number, Number::I8 | Number::U8) && size == 1;
            let wrong = u64::from(number.size()) != size || view.strict();
            if wrong && !bytes {
                let message = format!(
                    "`{}` has elements of type {number}, but the call says {}",
                    view.words().base(place.base),
                    dtype::name(dtype)
                );
                view.error("dtype", message, "name the type of the tensor");
                return None;
            }
        }
        None if spot.offset % u128::from(size) != 0 => {
            let message = format!(
                "byte {} of `{}` is not a multiple of the {size} bytes of an element",
                spot.offset,
                view.words().base(place.base)
            );
            view.error("align", message, "begin at a multiple of the size of an element");
        }
        _ => {}
    }
    Some((size, spot))
}
