//! Checks the operations that a client prepares: the products that have them, their types and
//! numbers, and the memory that their turns read and write.
//!
//! The elements of turn `t` and rank `r` follow from the count `c` and the stride `S`, which is the
//! count if it is 0. An all-reduce reads and writes from `t*c` on. A gather reads from `t*c` on and
//! writes from `r*S + t*c` on; a scatter does the reverse. An all-to-all reads and writes from `r*S
//! + t*c` on.

use super::Product;
use super::call::{Call, buffer, name, typed};
use super::global::Spot;
use super::in_place;
use super::one_sided;
use super::traffic::Touched;
use super::uneven::uneven;
use super::view::{View, many};
use crate::declared::ValueId;
use crate::dtype;
use crate::layout::Number;
use crate::step::*;

/// The greatest number of ranks of any operation.
const MOST_RANKS: u32 = 256;

/// The greatest number of bytes of one turn on Ascend 950.
const MOST_BYTES: u128 = 256 << 20;

/// Checks everything that one call shows by itself. Returns the memory that its turns touch on this
/// rank, as far as that is known.
pub(super) fn look(view: &mut View<'_, '_>, call: Call<'_>) -> Vec<Touched> {
    let command = call.operation.command();
    let Some((rank, ranks)) = view.group(call.client) else { return Vec::new() };
    rank_limits(view, command, ranks);
    if ranks > MOST_RANKS {
        return Vec::new();
    }
    declared(view, call);
    let mut touched = blocks(view, call, ranks);
    if let Some(Place { base, .. }) = call.operation.receives()
        && !touched.iter().any(|touched| touched.write)
    {
        view.unknown.push(base);
    }
    if view.strict() {
        let Call { task, operation, repeat, .. } = call;
        in_place::look(view, (task, operation, repeat), rank as usize, &touched);
    }
    // The host may have set that the rank's own block is not copied to the output.
    if view.product() == Product::A2
        && matches!(command, 6 | 10)
        && let Some(tiling) = call.tiling
        && view.tiling(tiling, Number::U8) == Some(1)
        && let Some(written) = touched.iter_mut().find(|touched| touched.write)
        && (rank as usize) < written.blocks.len()
    {
        written.blocks.remove(rank as usize);
    }
    touched
}

/// Returns the blocks that an operation touches.
fn blocks(view: &mut View<'_, '_>, call: Call<'_>, ranks: u32) -> Vec<Touched> {
    let command = call.operation.command();
    match call.operation {
        Operation::AllReduce(e, reduction) => {
            reduced(view, call, e.dtype, *reduction);
            strided(view, call, e, ranks, None, (Side::Whole, Side::Whole))
        }
        Operation::AllGather(e, stride) => {
            typed(view, command, e.dtype);
            strided(view, call, e, ranks, Some(*stride), (Side::Whole, Side::Blocks))
        }
        Operation::ReduceScatter(e, reduction, stride) => {
            reduced(view, call, e.dtype, *reduction);
            strided(view, call, e, ranks, Some(*stride), (Side::Blocks, Side::Whole))
        }
        Operation::AlltoAll(e, stride) => {
            typed(view, command, e.dtype);
            strided(view, call, e, ranks, Some(*stride), (Side::Blocks, Side::Blocks))
        }
        Operation::AlltoAllV { .. } => uneven(view, call, ranks),
        Operation::BatchWrite { items, count, queue } => {
            one_sided::batch(view, items, *count, *queue).into_iter().collect()
        }
        Operation::AlltoAllvWrite { offsets, sizes, window, local, .. } => {
            one_sided::windows(view, [offsets, sizes], [*window, *local], ranks)
        }
    }
}

fn rank_limits(view: &mut View<'_, '_>, command: u32, ranks: u32) {
    let (product, strict) = (view.product(), view.strict());
    let most = match (product, command) {
        (Product::A3, 8 | 10) if strict => 128,
        (Product::Ascend950, 8) => 32,
        (Product::Ascend950, _) => 64,
        _ => MOST_RANKS,
    };
    if ranks > most {
        let name = name(command);
        let message =
            format!("{name} among {ranks} ranks, but {} takes at most {most}", product.name());
        view.error("ranks", message, "divide the communicator");
    }
}

/// Checks that the host has filled the tiling for elements of the type that the call names.
fn declared(view: &mut View<'_, '_>, call: Call<'_>) {
    let dtype = match call.operation {
        Operation::AllReduce(exchange, _)
        | Operation::AllGather(exchange, _)
        | Operation::ReduceScatter(exchange, ..)
        | Operation::AlltoAll(exchange, _) => exchange.dtype,
        Operation::AlltoAllV { dtype, .. } => *dtype,
        Operation::BatchWrite { .. } | Operation::AlltoAllvWrite { .. } => return,
    };
    let Some(tiling) = call.tiling else { return };
    let Some(found) = view.tiling(tiling + 14, Number::U8) else { return };
    let decides = view.product() == Product::Ascend950;
    // On other products, 0 also means that the host has not set the type.
    if found == u64::from(dtype) || (!decides && found == 0) {
        return;
    }
    let (said, filled) = (dtype::name(dtype), dtype::name(found as u32));
    let message = format!(
        "the call is of {said} ({dtype}), but its Mc2CcTiling is filled for {filled} ({found})"
    );
    let help = "have the host set the source type to that of the call";
    match decides {
        true => view.error("dtype", format!("{message}; Ascend 950 uses the tiling"), help),
        false => view.note("dtype", format!("{message}; on this product the call decides"), help),
    }
}

fn reduced(view: &mut View<'_, '_>, call: Call<'_>, dtype: u32, reduction: Reduction) {
    typed(view, call.operation.command(), dtype);
    if reduction == Reduction::Prod && view.strict() {
        let message = "the call reduces by product, which no document lists for kernels".to_owned();
        view.error("reduction", message, "reduce by sum, max or min");
    }
    // On this product, the tiling decides about the reduction instead of the call.
    if view.product() == Product::Ascend950
        && let Some(tiling) = call.tiling
        && let Some(found) = view.tiling(tiling + 276, Number::U32)
        && found != reduction as u64
    {
        let message = format!(
            "the call reduces by {reduction:?} ({}), but its Mc2CcTiling says {found}; Ascend 950 uses the tiling",
            reduction as u32
        );
        view.error("reduction", message, "have the host set the same reduction");
    }
}

/// The blocks that one side of a call touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// One block in each turn.
    Whole,
    /// A block for each rank in each turn, a stride apart.
    Blocks,
}

fn strided(
    view: &mut View<'_, '_>,
    call: Call<'_>,
    exchange: &Exchange,
    ranks: u32,
    stride: Option<ValueId>,
    (send, recv): (Side, Side),
) -> Vec<Touched> {
    let given = match stride {
        None => 0,
        Some(stride) => match view.count(stride) {
            Some(stride) => stride,
            None => return Vec::new(),
        },
    };
    let Some(count) = view.count(exchange.count) else { return Vec::new() };
    if count == 0 {
        let message = format!("`{}` has a count of 0", view.words().task(call.task));
        view.error("count", message, "if there is nothing to do, leave the call out on all ranks");
        return Vec::new();
    }
    if stride.is_some() {
        strides(view, call, count, given, ranks, recv);
    }
    if let Some(size) = dtype::size(exchange.dtype)
        && view.product() == Product::Ascend950
    {
        let bytes = u128::from(count) * u128::from(size);
        if bytes > MOST_BYTES {
            let message =
                format!("{bytes} bytes in a turn, but Ascend 950 takes at most {MOST_BYTES}");
            view.error("count", message, "divide it into more turns");
        }
    }
    let turns =
        Turns { count, stride: if given == 0 { count } else { given }, repeat: call.repeat };
    let sides = [(&exchange.send, send, false), (&exchange.recv, recv, true)];
    let touched = sides.into_iter().filter_map(|(place, side, write)| {
        let blocks = if side == Side::Blocks { u64::from(ranks) } else { 1 };
        let (size, spot) = bounds(view, call, place, exchange.dtype, turns, blocks, write)?;
        let bytes = |elements: u64| u128::from(elements) * u128::from(size);
        let start = spot.offset * u128::from(spot.unit);
        let block = |at: u64| (start + u128::from(at) * bytes(turns.stride), bytes(count));
        let blocks = (0..blocks).map(block).collect();
        let space = view.space(place.base)?;
        let strided = (side == Side::Blocks).then_some(call.operation.command());
        Some(Touched { base: place.base, space, write, strided, size, blocks })
    });
    touched.collect()
}

fn strides(
    view: &mut View<'_, '_>,
    call: Call<'_>,
    count: u64,
    given: u64,
    ranks: u32,
    recv: Side,
) {
    let repeat = call.repeat;
    let name = view.words().task(call.task);
    let needed = u128::from(count) * u128::from(repeat);
    let gather_or_scatter =
        matches!(call.operation, Operation::AllGather(..) | Operation::ReduceScatter(..));
    let a2_scatter = view.product() == Product::A2
        && matches!(call.operation, Operation::ReduceScatter(..))
        && given != 0
        && needed > given.into();
    let refused = view.product() == Product::A3 && gather_or_scatter && given != 0 && given < count;
    if refused {
        let message = format!("`{name}` has a stride of {given}, below its count of {count}");
        view.error(
            "stride",
            message,
            format!("use a stride of at least {needed}, count times repeat"),
        );
    } else if a2_scatter {
        let message = format!(
            "`{name}` has a stride of {given}, but A2 requires {needed} for {repeat} turns of {count}"
        );
        view.error("stride", message, "use a stride of at least count times repeat");
    } else if ranks > 1
        && needed > u128::from(if given == 0 { count } else { given })
        && view.strict()
    {
        let stride = match given {
            0 => format!("no stride, so blocks follow one another after {count} elements"),
            given => format!("a stride of {given}"),
        };
        let what = match recv {
            Side::Blocks => "turns overwrite the results of earlier turns",
            Side::Whole => "turns read data that belongs to another rank",
        };
        let message =
            format!("`{name}` has {} of {count} and {stride}: {what}", many(repeat, "turn"));
        view.error("overlap", message, format!("give it a stride of at least {needed}"));
    }
}

/// The numbers of a call with a stride, in elements and turns.
#[derive(Debug, Clone, Copy)]
struct Turns {
    count: u64,
    stride: u64,
    repeat: u64,
}

impl Turns {
    /// Returns the number of elements from the start to one past the last element.
    fn extent(&self, blocks: u64) -> u128 {
        let last = u128::from(blocks - 1) * u128::from(self.stride);
        last + u128::from(self.count) * u128::from(self.repeat)
    }

    /// Returns the first turn and block that go beyond `room` elements, and the element at which
    /// that block begins.
    fn beyond(&self, blocks: u64, room: u128) -> Option<(u64, u64, u128)> {
        let count = u128::from(self.count);
        (0..self.repeat).find_map(|turn| {
            // The last blocks of a turn reach farthest.
            let start =
                |block: u64| u128::from(block) * u128::from(self.stride) + u128::from(turn) * count;
            let block = (0..blocks).find(|block| start(*block) + count > room)?;
            Some((turn, block, start(block)))
        })
    }
}

fn bounds(
    view: &mut View<'_, '_>,
    call: Call<'_>,
    place: &Place,
    dtype: u32,
    turns: Turns,
    blocks: u64,
    write: bool,
) -> Option<(u64, Spot)> {
    let (size, spot) = buffer(view, place, dtype, write)?;
    let room = spot.room(size).unwrap_or(u128::MAX);
    if blocks == 0 || turns.extent(blocks) <= room {
        return Some((size, spot));
    }
    let (turn, block, first) = turns.beyond(blocks, room)?;
    let start = spot.start(size) + first;
    let words = view.words();
    let base = words.base(place.base);
    let whose = match (blocks, write) {
        (1, _) => String::new(),
        (_, true) => format!(", with data from rank {block}"),
        (_, false) => format!(" for rank {block}"),
    };
    let message = format!(
        "turn {} of {} of `{}` {} elements {start}..{} of `{base}`{whose}, but `{base}` has {}",
        turn + 1,
        turns.repeat,
        words.task(call.task),
        if write { "writes" } else { "reads" },
        start + u128::from(turns.count),
        many(spot.all(size), "element")
    );
    let needed = spot.start(size) + turns.extent(blocks);
    let help = format!("{needed} elements are needed: change count, stride, repeat or the tensor");
    view.error("bounds", message, help);
    None
}
