//! Pieces of global memory, as a step of a core uses them.

use super::clock::Unit;
use super::space::Space;
use crate::step::Base;

/// Pieces of global memory that a core uses in one step, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub base: Base,
    /// The piece of memory of the base, and the offset in it, in bytes.
    pub space: (Space, u128),
    pub from: u128,
    /// The bytes of each piece.
    pub bytes: u128,
    /// The distance from one piece to the next; above 0.
    pub pitch: u128,
    pub count: u128,
    pub write: bool,
    pub way: Way,
    /// The unit that uses it.
    pub unit: Unit,
}

/// The way in which a core accesses global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A copy or a product.
    Memory,
    /// A copy that adds, in one step, to the data there.
    Add,
    /// A read or a write of one element, through the core's cache.
    Cache,
    /// The core writes back the data that its cache holds of the line in which this begins, and
    /// drops it.
    Clean,
}

impl Area {
    pub(super) fn end(&self) -> u128 {
        let last = self.pitch.saturating_mul(self.count - 1);
        self.from.saturating_add(last).saturating_add(self.bytes)
    }

    /// The first byte of the range that lies in a piece.
    pub(super) fn meets(&self, from: u128, to: u128) -> Option<u128> {
        if self.bytes == 0 || self.count == 0 || from >= to {
            return None;
        }
        // The first piece that ends behind `from`.
        let piece = match from.checked_sub(self.from + self.bytes - 1) {
            None | Some(0) => 0,
            Some(beyond) => beyond.div_ceil(self.pitch),
        };
        let start = self.from.checked_add(piece.checked_mul(self.pitch)?)?;
        (piece < self.count && start < to).then_some(start.max(from))
    }
}
