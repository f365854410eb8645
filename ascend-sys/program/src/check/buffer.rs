//! One buffer of the local memory: the units that use it, and the bytes that have been written.
//!
//! The units of a core work at the same time. If one of two uses of the same bytes writes, the
//! later use must be ordered after the earlier one: its unit must have waited for the unit of the
//! earlier use, by a queue, by `wait_for` or by a barrier. If nothing orders the two, that is an
//! error, because the kernel computes with the wrong bytes if the earlier use is late.

use super::clock::{Unit, Units};
use super::ranges::Ranges;
use crate::step::Source;

/// The greatest number of uses of a buffer that are remembered. If there are more, uses for which
/// every unit has waited are dropped.
const MOST_USES: usize = 256;

/// The effect of a use on bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Touch {
    Read,
    Write,
    /// A write of unknown data.
    Spoil,
}

/// The use of bytes of a buffer by a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub unit: Unit,
    pub touch: Touch,
    pub from: u128,
    pub to: u128,
    pub source: Source,
}

impl Use {
    pub(super) fn writes(&self) -> bool {
        self.touch != Touch::Read
    }

    fn overlaps(&self, other: &Use) -> bool {
        self.from < other.to && other.from < self.to
    }
}

/// A buffer of local memory.
#[derive(Debug, Clone, Default)]
pub(super) struct LocalBuffer {
    /// Each use, with the tick of its unit.
    uses: Vec<(Use, u32)>,
    written: Ranges,
    /// Whether an unknown part of the buffer was written.
    widened: bool,
}

impl LocalBuffer {
    /// Marks all bytes as unwritten, as they are after a new allocation.
    pub(super) fn forget_contents(&mut self) {
        self.written.clear();
        self.widened = false;
    }

    /// Marks that from now on it is unknown which bytes have been written.
    pub(super) fn widen(&mut self) {
        self.widened = true;
    }

    /// Marks bytes as written by a use that was recorded before.
    pub(super) fn define(&mut self, from: u128, to: u128) {
        self.written.add(from, to);
    }

    /// Returns the first of these bytes that no unit has written.
    pub(super) fn unwritten(&self, from: u128, to: u128) -> Option<u128> {
        if self.widened { None } else { self.written.missing(from, to) }
    }

    /// Records a use. Returns the first earlier use that must be ordered with the new use but is
    /// not, and whether all uses could be remembered.
    pub(super) fn note(&mut self, of: Use, units: &mut Units) -> (Option<Use>, bool) {
        let core = units.core();
        let (clock, tick) = units.give(of.unit);
        let known = |(earlier, tick): &(Use, u32)| {
            (earlier.unit == of.unit && of.unit.in_order()) || *tick <= clock.of(core, earlier.unit)
        };
        let open = self.uses.iter().find(|entry| {
            (entry.0.writes() || of.writes()) && entry.0.overlaps(&of) && !known(entry)
        });
        let open = open.map(|(earlier, _)| *earlier);
        // A use after this write is also after all uses that the write is after, so these can be
        // dropped. Of two equal uses only the later one is kept: a unit that has waited for it has
        // also waited for the earlier one.
        self.uses.retain(|entry| {
            let inside = of.from <= entry.0.from && entry.0.to <= of.to;
            entry.0 != of && !(of.writes() && inside && known(entry))
        });
        match of.touch {
            Touch::Read => {}
            Touch::Write => self.written.add(of.from, of.to),
            Touch::Spoil => self.written.remove(of.from, of.to),
        }
        if self.uses.len() == MOST_USES {
            self.uses.retain(|(of, tick)| !units.all_know(of.unit, *tick));
        }
        // The scalar unit continues only when its read is over.
        let is_over = of.unit == Unit::Scalar && of.touch == Touch::Read;
        let room = is_over || self.uses.len() < MOST_USES;
        if room && !is_over {
            self.uses.push((of, tick));
        }
        (open, room)
    }
}
