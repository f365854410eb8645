//! Finds races: cores use the same bytes, at least one of them writes, and nothing orders the uses.
//!
//! The emulator runs the cores of a kernel in an order of its own, so there a kernel with a race
//! may well give the right result. Elements that two cores write through their caches are checked
//! line by line, in [`cache`](super::cache).

use std::collections::BTreeMap;

use super::super::view::{self, UnitUse};
use super::*;

/// The greatest number of pairs of accesses, and pieces of them, that are checked. In real kernels
/// far fewer accesses lie near each other.
const MOST_PAIRS: u128 = 1 << 22;

/// Reports each line that uses memory which another core may be using at the same time. The
/// accesses must be sorted by their beginnings.
pub(super) fn look(
    accesses: &BTreeMap<Space, Vec<Access>>,
    ground: &Ground<'_>,
    report: &mut Report,
) {
    let mut pairs = 0;
    for accesses in accesses.values().filter(|all| all.iter().any(|access| access.area.write)) {
        let longest = longest_of(accesses);
        for (at, access) in accesses.iter().enumerate() {
            let first = access.area.from.saturating_sub(longest);
            let begin = accesses[..at].partition_point(|other| other.area.from < first);
            pairs += (at - begin) as u128;
            for other in accesses[begin..at].iter().filter(|other| !ordered(other, access)) {
                if let Some(byte) = shared(&other.area, &access.area, &mut pairs) {
                    say(ground, report, other, access, byte);
                }
            }
            if pairs > MOST_PAIRS {
                return not_all(report, access.source, Some(access.name));
            }
        }
    }
}

/// Returns whether the order of two accesses is known or makes no difference.
fn ordered(a: &Access, b: &Access) -> bool {
    let both = |way| a.area.way == way && b.area.way == way;
    !(a.area.write || b.area.write)
        || both(Way::Add)
        || (both(Way::Cache) && a.area.write && b.area.write)
        || a.knew(b)
        || b.knew(a)
}

/// Returns the first byte that two areas have in common. `b` must not begin before `a`.
fn shared(a: &Area, b: &Area, looked: &mut u128) -> Option<u128> {
    if a.pitch == b.pitch && a.bytes <= a.pitch && b.bytes <= b.pitch {
        // The first piece of `b` begins in this piece of `a` or after it, and may reach the next
        // piece. Later pieces have the same distance from each other.
        let (piece, inside) = ((b.from - a.from) / a.pitch, (b.from - a.from) % a.pitch);
        let this = piece < a.count && inside < a.bytes;
        let next = piece + 1 < a.count && inside + b.bytes > a.pitch;
        return match (this, next) {
            (true, _) => Some(b.from),
            (_, true) => Some(a.from + (piece + 1) * a.pitch),
            _ => None,
        };
    }
    let (few, many) = if a.count <= b.count { (a, b) } else { (b, a) };
    let pieces = few.count.min(MOST_PAIRS.saturating_sub(*looked));
    *looked += pieces;
    (0..pieces).find_map(|piece| {
        let from = few.from.checked_add(piece.checked_mul(few.pitch)?)?;
        many.meets(from, from.checked_add(few.bytes)?)
    })
}

fn say(ground: &Ground<'_>, report: &mut Report, a: &Access, b: &Access, byte: u128) {
    // The finding is at the read, or else at the access that comes later in the kernel.
    let (here, other) = match (a.area.write, b.area.write) {
        (false, true) => (a, b),
        (true, false) => (b, a),
        _ if a.order > b.order => (a, b),
        _ => (b, a),
    };
    let words = &ground.words;
    let element = (byte - here.area.space.1) / element_size(ground, here);
    if here.core == other.core {
        let of = format!("element {element} of `{}`", words.base(here.area.base));
        let used = |access: &Access| UnitUse {
            unit: access.area.unit,
            writes: access.area.write,
            line: access.source.line,
        };
        let (first, second) = if a.order < b.order { (a, b) } else { (b, a) };
        let said = || view::unordered(&of, first.name, [used(first), used(second)], false);
        return report.add(Severity::Error, "units", second.source, Some(second.name), said);
    }
    report.add(Severity::Error, "race", here.source, Some(here.name), || {
        let message = format!(
            "this {} element {element} of `{}`, {}, and nothing orders the two",
            if here.area.write { "writes" } else { "reads" },
            words.base(here.area.base),
            does(other)
        );
        let help = "let both cores meet in between, at a barrier or by a flag";
        // A read of the scalar unit is done at once, so the other access is the late one.
        let (late, on) = match other.area.unit {
            Unit::Control => (here, other),
            _ => (other, here),
        };
        let text = format!(
            "{} is late with line {}; {} goes on with line {}",
            late.name, late.source.line, on.name, on.source.line
        );
        let witness = Witness { text, late: Late::line(late.name, late.source.line) };
        (message, help.to_owned(), witness)
    });
}
