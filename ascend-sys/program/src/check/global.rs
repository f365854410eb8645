//! Checks uses of global memory: places, their bounds, and copies from and to local memory.

use super::Product;
use super::area::{Area, Way};
use super::buffer::Touch;
use super::clock::Unit;
use super::local::LocalMemory;
use super::view::View;
use crate::declared::Core;
use crate::layout::Number;
use crate::step::*;

/// The number of ranks whose windows fit into the context of an A2.
const A2_WINDOWS: u64 = 32;

/// A place in global memory, with the numbers of the current step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    /// The offset from the start of the base, in units of `unit`.
    pub offset: u128,
    /// The unit of the offset in bytes.
    pub unit: u64,
    /// The number of bytes of the base, if it is known.
    pub bytes: Option<u64>,
}

impl Spot {
    /// Returns the number of elements of this size from here to the end of the base, or `None` if
    /// the size of the base is not known.
    pub(super) fn room(&self, size: u64) -> Option<u128> {
        let start = self.offset * u128::from(self.unit);
        self.bytes.map(|bytes| u128::from(bytes).saturating_sub(start) / u128::from(size.max(1)))
    }

    /// Returns the index of the first element, in elements of this size.
    pub(super) fn start(&self, size: u64) -> u128 {
        self.offset * u128::from(self.unit) / u128::from(size.max(1))
    }

    /// Returns the number of elements of this size in the base; 0 if the size of the base is not
    /// known.
    pub(super) fn all(&self, size: u64) -> u64 {
        self.bytes.unwrap_or(0) / size.max(1)
    }
}

/// Computes the numbers of a place. If that fails, reports the failure and returns `None`.
pub(super) fn spot(view: &mut View<'_, '_>, place: &Place) -> Option<Spot> {
    let offset = u128::from(view.count(place.offset)?);
    let (unit, bytes) = match place.base {
        Base::Parameter(at) => {
            let number = view.ground.program.parameters[at as usize].number;
            let bytes = view.ground.setting.parameters.get(at as usize).copied().flatten();
            (u64::from(number.size()), bytes)
        }
        Base::Workspace => (1, view.ground.setting.workspace),
        Base::WindowIn(client, rank) | Base::WindowOut(client, rank) => {
            if view.product() == Product::Ascend950 {
                view.lacks("windows that a kernel can use", "use buffers of your own");
            }
            let (rank, (_, ranks)) = (view.count(rank)?, view.group(client)?);
            if rank >= A2_WINDOWS && view.product() == Product::A2 {
                let message = format!(
                    "this uses the window of rank {rank}, but a kernel on A2 reaches only the windows of ranks 0 to {}",
                    A2_WINDOWS - 1
                );
                view.error("ranks", message, "divide the communicator");
            }
            if rank >= u64::from(ranks) {
                let message = format!("the window of rank {rank}, but there are {ranks} ranks");
                view.error(
                    "ranks",
                    message,
                    "use a rank below that number, because ranks are counted from 0",
                );
                return None;
            }
            (1, view.ground.setting.window)
        }
    };
    Some(Spot { offset, unit, bytes })
}

/// Returns the type of the elements of a base, or `None` if the base is in bytes.
pub(super) fn number(view: &View<'_, '_>, base: Base) -> Option<Number> {
    match base {
        Base::Parameter(at) => Some(view.ground.program.parameters[at as usize].number),
        _ => None,
    }
}

/// Reports a write to an argument that is an input.
pub(super) fn written(view: &mut View<'_, '_>, base: Base) {
    if let Base::Parameter(at) = base
        && !view.ground.program.parameters[at as usize].output
        && view.strict()
    {
        let name = view.words().base(base);
        let message = format!("`{name}` is an input, but this writes it");
        view.error("written", message, "declare it as an output, or write another tensor");
    }
}

/// Records that a core uses `count` pieces of equal length, a pitch apart.
pub(super) fn touch(
    view: &mut View<'_, '_>,
    place: &Place,
    size: u64,
    (count, elements, pitch): (u64, u64, u64),
    write: bool,
) {
    reach(view, place, size, (count, elements, pitch), write, Way::Memory);
}

fn reach(
    view: &mut View<'_, '_>,
    place: &Place,
    size: u64,
    (count, elements, pitch): (u64, u64, u64),
    write: bool,
    way: Way,
) {
    // A number that cannot be computed has already been reported with the bounds.
    let Ok(offset) = view.walk.count(place.offset) else {
        if write {
            view.unknown.push(place.base);
        }
        return;
    };
    let size_of_one = number(view, place.base).map_or(1, |number| number.size());
    let bytes = |elements: u64| u128::from(elements) * u128::from(size);
    let Some(space) = view.space(place.base) else { return };
    let unit = match (way, write, view.core.kind) {
        (Way::Cache, false, _) => Unit::Control,
        (Way::Cache | Way::Clean, ..) => Unit::Scalar,
        (_, false, _) => Unit::In,
        (_, true, Core::Aiv) => Unit::Out,
        (_, true, Core::Aic) => Unit::Fix,
    };
    view.areas.push(Area {
        base: place.base,
        space,
        from: u128::from(offset) * u128::from(size_of_one),
        bytes: bytes(elements),
        pitch: bytes(pitch).max(1),
        count: count.into(),
        write,
        way,
        unit,
    });
}

/// Checks that this number of elements, from a place on, is within the memory of the place. Reports
/// an error if it is not.
pub(super) fn within(
    view: &mut View<'_, '_>,
    place: &Place,
    elements: u128,
    size: u64,
    write: bool,
) {
    if write {
        written(view, place.base);
    }
    let Some(spot) = spot(view, place) else { return };
    if spot.room(size).is_some_and(|room| elements > room) && elements > 0 {
        let (start, all) = (spot.start(size), spot.all(size));
        let name = view.words().base(place.base);
        let verb = if write { "writes" } else { "reads" };
        let message = format!(
            "this {verb} elements {start}..{} of `{name}`, which has {all}",
            start.saturating_add(elements)
        );
        view.error("bounds", message, "give it a larger tensor, or count fewer elements");
    }
}

/// Checks one scalar that is read or written through the cache.
pub(super) fn element(view: &mut View<'_, '_>, place: &Place, size: u64, write: bool) {
    let size = number(view, place.base).map_or(size, |number| u64::from(number.size()));
    within(view, place, 1, size, write);
    reach(view, place, size, (1, 1, 1), write, Way::Cache);
}

/// Checks a step that copies data, writes one element, or cleans a cache line.
pub(super) fn copy(view: &mut View<'_, '_>, memory: &mut LocalMemory, copy: &Copy) {
    match copy {
        Copy::In { to, from, pieces } => {
            moved(view, memory, from, to, pieces, (false, Way::Memory));
        }
        Copy::Out { to, from, pieces, add } => {
            let way = if *add { Way::Add } else { Way::Memory };
            moved(view, memory, to, from, pieces, (true, way));
            let number = view.ground.program.locals[from.tensor.0 as usize].what;
            use Number::*;
            if *add && !matches!(number, I8 | I16 | I32 | F16 | Bf16 | F32) {
                let message = format!("no copy adds elements of type {number}");
                view.error("dtype", message, "add elements of i8, i16, i32, f16, bf16 or f32");
            }
        }
        Copy::Set { to, value } => {
            let size = u64::from(view.walk.number(*value).size());
            element(view, to, size, true);
        }
        Copy::SetLocal { to, .. } => memory.element(view, to, Touch::Write),
        Copy::Clean(place) => {
            let size = number(view, place.base).map_or(1, |number| u64::from(number.size()));
            within(view, place, 1, size, false);
            reach(view, place, size, (1, 1, 1), false, Way::Clean);
        }
    }
}

/// Checks a `DataCopyPad` in either direction.
fn moved(
    view: &mut View<'_, '_>,
    memory: &mut LocalMemory,
    place: &Place,
    local: &Local,
    pieces: &Pieces,
    (out, way): (bool, Way),
) {
    if view.core.kind == Core::Aic {
        let message = "a cube core has no local memory for vectors".to_owned();
        view.error("core", message, "copy on vector cores");
        return;
    }
    let number = view.ground.program.locals[local.tensor.0 as usize].what;
    let size = u64::from(number.size());
    if number == Number::Bool && view.product() != Product::Ascend950 {
        view.lacks("copies of bool", "copy bytes");
    }
    if let Some(base) = self::number(view, place.base)
        && base != number
    {
        let name = view.words().base(place.base);
        let message = format!("a copy between `{name}`, of {base}, and a tensor of {number}");
        view.error("dtype", message, "copy as the same type, and cast in local memory");
        return;
    }
    let (Some(length), Some(count), Some(gap)) = (
        view.count(pieces.length),
        pieces.count.map_or(Some(1), |count| view.count(count)),
        pieces.gap.map_or(Some(0), |gap| view.count(gap)),
    ) else {
        match out {
            true => view.unknown.push(place.base),
            false => memory.widen(local),
        }
        return;
    };
    let bytes = u128::from(length) * u128::from(size);
    let gap_bytes = u128::from(gap) * u128::from(size);
    let largest =
        if view.product() == Product::Ascend950 { (1 << 40) - 1 } else { u32::MAX.into() };
    let fits = limit(view, "pieces", count.into(), 4095, "copy in several steps")
        && limit(view, "bytes in a piece", bytes, 2_097_151, "copy shorter pieces")
        && limit(view, "bytes between pieces", gap_bytes, largest, "copy in several steps");
    if !fits || count == 0 || length == 0 {
        return;
    }
    reach(view, place, size, (count, length, length + gap), out, way);
    let (count, length, gap) = (u128::from(count), u128::from(length), u128::from(gap));
    within(view, place, count * length + (count - 1) * gap, size, out);
    // A piece that ends inside a block of 32 bytes fills that block, and every buffer ends with
    // such a block.
    let pitch = bytes.next_multiple_of(32);
    let Some(span) = memory.operand(view, local, (count - 1) * pitch + bytes) else {
        if !out {
            memory.widen(local);
        }
        return;
    };
    let pieces = (0..if pitch == bytes { 1 } else { count }).map(|at| match pitch == bytes {
        true => span,
        false => span.part(at * pitch, bytes),
    });
    if out {
        for piece in pieces {
            memory.touch(view, local, piece, Unit::Out, Touch::Read);
        }
    } else {
        memory.touch(view, local, span.part(0, count * pitch), Unit::In, Touch::Spoil);
        pieces.for_each(|piece| memory.define(piece));
    }
}

/// Checks that a number fits into the fields of the instruction.
fn limit(view: &mut View<'_, '_>, what: &str, found: u128, largest: u128, help: &str) -> bool {
    if found > largest {
        view.error(
            "pieces",
            format!("a copy has {found} {what}, but can have at most {largest}"),
            help,
        );
    }
    found <= largest
}
