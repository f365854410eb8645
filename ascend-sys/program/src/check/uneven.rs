//! Checks an exchange of blocks of different lengths, with a count and a displacement for each
//! rank.

use super::Product;
use super::call::{Call, buffer, typed};
use super::traffic::Touched;
use super::view::{View, many};
use crate::layout::Number;
use crate::step::*;

/// Checks an AlltoAllV.
pub(super) fn uneven(view: &mut View<'_, '_>, call: Call<'_>, ranks: u32) -> Vec<Touched> {
    let Operation::AlltoAllV {
        send,
        recv,
        dtype,
        send_counts,
        send_displs,
        recv_counts,
        recv_displs,
    } = call.operation
    else {
        return Vec::new();
    };
    let mut touched = Vec::new();
    if view.product() == Product::A2 {
        view.lacks("AlltoAllV", "use AlltoAll with the largest count");
    }
    typed(view, 8, *dtype);
    for (place, counts, displs, write) in
        [(send, send_counts, send_displs, false), (recv, recv_counts, recv_displs, true)]
    {
        let buffer = buffer(view, place, *dtype, write);
        let [of_counts, of_displs] = match write {
            true => ["receive counts", "receive displacements"],
            false => ["send counts", "send displacements"],
        };
        let (Some(counts), Some(displs)) =
            (list(view, counts, of_counts, ranks), list(view, displs, of_displs, ranks))
        else {
            return touched;
        };
        if let Some((size, spot)) = &buffer
            && let Some(space) = view.space(place.base)
        {
            let bytes = |elements: u64| u128::from(elements) * u128::from(*size);
            let start = spot.offset * u128::from(spot.unit);
            let block = |(count, displ): (&u64, &u64)| (start + bytes(*displ), bytes(*count));
            let blocks = counts.iter().zip(&displs).map(block).collect();
            touched.push(Touched {
                base: place.base,
                space,
                write,
                strided: None,
                size: *size,
                blocks,
            });
        }
        let verb = if write { "writes" } else { "reads" };
        for (rank, (count, displ)) in counts.iter().zip(&displs).enumerate() {
            let elements = u128::from(*count) * u128::from(call.repeat);
            let Some((size, spot)) = &buffer else { break };
            let Some(room) = spot.room(*size) else { break };
            if *count > 0 && u128::from(*displ) + elements > room {
                let start = spot.start(*size) + u128::from(*displ);
                let words = view.words();
                let base = words.base(place.base);
                let message = format!(
                    "`{}` {verb} elements {start}..{} of `{base}`{} rank {rank}, but `{base}` has {}",
                    words.task(call.task),
                    start + elements,
                    if write { ", with data from" } else { " for" },
                    many(spot.all(*size), "element")
                );
                let help = "change counts, displacements or the tensor";
                view.error("bounds", message, help);
            }
        }
        if write && view.strict() {
            shared(view, call, &counts, &displs);
        }
    }
    touched
}

/// Reports blocks of two ranks that go to the same elements.
fn shared(view: &mut View<'_, '_>, call: Call<'_>, counts: &[u64], displs: &[u64]) {
    let mut blocks: Vec<(u64, u128, usize)> = Vec::new();
    for (rank, (count, displ)) in counts.iter().zip(displs).enumerate() {
        if *count > 0 {
            let end = u128::from(*displ) + u128::from(*count) * u128::from(call.repeat);
            blocks.push((*displ, end, rank));
        }
    }
    blocks.sort_unstable();
    let both = blocks.windows(2).find(|two| u128::from(two[1].0) < two[0].1);
    if let Some(&[(a, a_end, a_rank), (b, b_end, b_rank)]) = both {
        let message = format!(
            "`{}` writes elements {a}..{a_end} from rank {a_rank} and {b}..{b_end} from rank {b_rank}, which overlap",
            view.words().task(call.task)
        );
        let help = "leave room for count times repeat elements from each rank";
        view.error("overlap", message, help);
    }
}

/// Reads one number for each rank. `what` names the numbers in an error text. If that fails,
/// reports the failure and returns `None`.
fn list(view: &mut View<'_, '_>, list: &PerRank, what: &str, ranks: u32) -> Option<Vec<u64>> {
    let length = match list {
        PerRank::Tiling(_, _, length) => *length,
        PerRank::Values(values) => values.len() as u32,
    };
    if length < ranks {
        let message = format!(
            "the list of {what} has {}, but the communicator has {ranks} ranks",
            many(length.into(), "number")
        );
        view.error("counts", message, "give one number for each rank");
        return None;
    }
    (0..ranks)
        .map(|rank| match list {
            PerRank::Tiling(offset, ..) => {
                view.tiling(u64::from(*offset) + 8 * u64::from(rank), Number::U64)
            }
            PerRank::Values(values) => view.count(values[rank as usize]),
        })
        .collect()
}
