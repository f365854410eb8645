//! The contributions of the ranks to a large operation.

use super::table::{BlockTable, Summary};

/// The contribution of a rank to a large operation. Together with the number of its slot it takes
/// two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Contribution {
    /// The address of the send buffer; null if the operation has none. The same holds for `recv`.
    pub(crate) send: *const u8,
    pub(crate) recv: *mut u8,
    /// The number of bytes that the operation touches in both buffers.
    pub(crate) touched: usize,
    /// The summary of the table, for an operation that has tables.
    pub(crate) table: Summary,
}

/// The contributions of all ranks.
pub(crate) trait Participants {
    fn ranks(&self) -> usize;
    fn contribution(&self, rank: usize) -> Contribution;
    /// Returns the counts and displacements of a rank, for an operation that has tables.
    fn blocks(&self, rank: usize) -> BlockTable<'_>;
}
