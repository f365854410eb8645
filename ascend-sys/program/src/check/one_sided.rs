//! Checks one-sided writes: a rank writes to other ranks without their participation.

use super::Product;
use super::global;
use super::traffic::Touched;
use super::view::View;
use crate::declared::ValueId;
use crate::layout::Number;
use crate::step::*;

/// The greatest number of items of a batch on A3.
const MOST_ITEMS: u64 = 2047;

/// Checks a `BatchWrite`. Returns the memory of its items, if their place is known. The contents of
/// the items are data.
pub(super) fn batch(
    view: &mut View<'_, '_>,
    items: &Place,
    count: ValueId,
    queue: ValueId,
) -> Option<Touched> {
    let bytes = match view.product() {
        Product::Ascend950 => {
            view.lacks("BatchWrite", "use AlltoAllV");
            return None;
        }
        Product::A2 => 32,
        Product::A3 => 64,
    };
    let (count, queue) = (view.count(count)?, view.count(queue)?);
    if view.product() == Product::A3 && count > MOST_ITEMS {
        let message = format!("{count} items in a batch, but A3 takes at most {MOST_ITEMS}");
        view.error("count", message, "write them in several batches");
    }
    if view.product() == Product::A2 && queue != 0 {
        let message = format!("a batch for queue {queue}, but A2 has queue 0 only");
        view.error("product", message, "use queue 0");
    }
    let all = u128::from(count) * bytes;
    global::within(view, items, all, 1, false);
    let spot = global::spot(view, items)?;
    let blocks = vec![(spot.offset * u128::from(spot.unit), all)];
    let space = view.space(items.base)?;
    Some(Touched { base: items.base, space, write: false, strided: None, size: spot.unit, blocks })
}

/// Checks that a core has the queue that it names, if the host has set queues.
pub(super) fn queue(view: &mut View<'_, '_>, operation: &Operation, queues: u64, cores: u64) {
    if queues == 0 {
        return;
    }
    let Operation::BatchWrite { queue, .. } = operation else {
        let message = "a client with queues prepares an operation other than BatchWrite".to_owned();
        view.error("product", message, "have the host set no queues, or use another communicator");
        return;
    };
    if let Some(queue) = view.count(*queue)
        && queue >= queues
    {
        let message = format!("a batch for queue {queue}, but each core has {queues}");
        view.error(
            "product",
            message,
            "use a queue below that number, because queues are counted from 0",
        );
    }
    if u64::from(view.core.index) >= cores {
        let message =
            format!("this core writes batches, but the number of cores with queues is {cores}");
        view.error("product", message, "have the host set more cores (commBlockNum)");
    }
}

/// Checks an `AlltoAllvWrite`. Returns the memory that it reads on this rank, as far as that is
/// known. The lengths of the blocks are data.
pub(super) fn windows(
    view: &mut View<'_, '_>,
    lists: [&Place; 2],
    [at, local]: [ValueId; 2],
    ranks: u32,
) -> Vec<Touched> {
    if view.product() != Product::Ascend950 {
        view.lacks("AlltoAllvWrite", "use AlltoAllV, or BatchWrite");
        return Vec::new();
    }
    if let (Some(at), Some(local), Some(room)) =
        (view.count(at), view.count(local), view.ground.setting.window)
        && u128::from(at) + u128::from(local) > room.into()
    {
        let message =
            format!("{local} own bytes from byte {at} of a window on, but the window has {room}");
        view.error("bounds", message, "use a larger window (hcclBufferSize), or write less");
    }
    let mut touched = Vec::new();
    for list in lists {
        match global::number(view, list.base) {
            None | Some(Number::U64) => {}
            Some(number) => {
                let message = format!(
                    "`{}` has elements of type {number}, but offsets and sizes are u64",
                    view.words().base(list.base),
                );
                view.error("dtype", message, "give it tensors of u64");
                continue;
            }
        }
        global::within(view, list, ranks.into(), 8, false);
        let Some(spot) = global::spot(view, list) else { continue };
        let start = spot.offset * u128::from(spot.unit);
        if start % 8 != 0 {
            let message = format!(
                "byte {start} of `{}` is not a multiple of 8",
                view.words().base(list.base)
            );
            view.error("align", message, "begin at a multiple of 8 bytes");
        }
        let blocks = vec![(start, u128::from(ranks) * 8)];
        let Some(space) = view.space(list.base) else { continue };
        touched.push(Touched {
            base: list.base,
            space,
            write: false,
            strided: None,
            size: 8,
            blocks,
        });
    }
    touched
}
