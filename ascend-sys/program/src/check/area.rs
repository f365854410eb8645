//! Pieces of global memory that a step of a core uses.

use super::clock::Unit;
use super::space::Space;
use crate::step::Base;

/// Equally spaced pieces of global memory that a core uses in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub base: Base,
    /// The memory that the pieces are in, and the offset of the base in it, in bytes.
    pub space: (Space, u128),
    pub from: u128,
    /// The number of bytes of each piece.
    pub bytes: u128,
    /// The distance from the start of one piece to the start of the next, in bytes. It is above 0.
    pub pitch: u128,
    pub count: u128,
    pub write: bool,
    pub way: Way,
    /// The unit that uses the pieces.
    pub unit: Unit,
}

/// The way in which a core accesses global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A copy or a product.
    Memory,
    /// A copy that adds to the data in memory, in one step.
    Add,
    /// A read or a write of one element, through the core's cache.
    Cache,
    /// A write-back: the core writes back the cached data of the line in which the area begins, and
    /// drops that line from its cache.
    Clean,
}

impl Area {
    pub(super) fn end(&self) -> u128 {
        let last = self.pitch.saturating_mul(self.count - 1);
        self.from.saturating_add(last).saturating_add(self.bytes)
    }

    /// Returns the first byte between `from` and `to` that is in a piece.
    pub(super) fn meets(&self, from: u128, to: u128) -> Option<u128> {
        if self.bytes == 0 || self.count == 0 || from >= to {
            return None;
        }
        // The first piece that ends after `from`.
        let piece = match from.checked_sub(self.from + self.bytes - 1) {
            None | Some(0) => 0,
            Some(beyond) => beyond.div_ceil(self.pitch),
        };
        let start = self.from.checked_add(piece.checked_mul(self.pitch)?)?;
        (piece < self.count && start < to).then_some(start.max(from))
    }
}
