//! The contributions of the ranks to a large operation.

use super::table::{BlockTable, Summary};

/// The contribution of a rank to a large operation: two cache lines, with the number of the slot.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Contribution {
    /// Where its buffers are; null where the operation has none.
    pub(crate) send: *const u8,
    pub(crate) recv: *mut u8,
    /// Bytes that the operation touches in them.
    pub(crate) touched: usize,
    /// The table, for operations that have tables.
    pub(crate) table: Summary,
}

/// The contributions of all ranks.
pub(crate) trait Participants {
    fn ranks(&self) -> usize;
    fn contribution(&self, rank: usize) -> Contribution;
    /// The counts and displacements of a rank, of an operation that has tables.
    fn blocks(&self, rank: usize) -> BlockTable<'_>;
}
