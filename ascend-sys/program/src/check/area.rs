//! Pieces of global memory, as a step of a core uses them.

use super::clock::Unit;
use super::space::Space;
use crate::step::Base;

/// Pieces of global memory that a core uses in one step, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Area {
    pub base: Base,
    /// Which piece of memory the base is, and how many bytes into it.
    pub space: (Space, u128),
    pub from: u128,
    /// Of each piece.
    pub bytes: u128,
    /// From one piece to the next; above 0.
    pub pitch: u128,
    pub count: u128,
    pub write: bool,
    pub way: Way,
    /// Which unit uses it.
    pub unit: Unit,
}

/// How a core gets at global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By a copy or a product.
    Memory,
    /// By a copy that adds, in one step, to what is there.
    Add,
    /// One element, through the core's cache.
    Cache,
    /// It writes back what its cache holds of the line that this begins in, and drops it.
    Clean,
}

impl Area {
    pub(super) fn end(&self) -> u128 {
        let last = self.pitch.saturating_mul(self.count - 1);
        self.from.saturating_add(last).saturating_add(self.bytes)
    }

    /// The first byte that both have.
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
