//! The content of a message to the server: a collective that a kernel has prepared.

use super::global::RegionAddress;
use ascend_reduce::{DataType, ReduceOp};

/// A collective that a kernel has prepared.
pub(super) struct PreparedWork {
    /// The name of the task in the kernel. `place` is the line that prepared it.
    pub(super) name: String,
    pub(super) place: String,
    pub(super) kind: WorkKind,
    pub(super) dtype: DataType,
    pub(super) send: RegionAddress,
    /// The place of the result; `None` for an AlltoAllvWrite, which writes to windows.
    pub(super) recv: Option<RegionAddress>,
    pub(super) windows: Option<WriteWindows>,
    /// The number of elements of a block. `stride` is the number of elements from the start of one
    /// block to the start of the next, or 0 if the blocks are adjacent. Both are 0 for an AlltoAllV
    /// and an AlltoAllvWrite.
    pub(super) count: u64,
    pub(super) stride: u64,
    /// Whether an AllGather or AlltoAll leaves out the rank's own block.
    pub(super) skips_own: bool,
    /// The counts and displacements of the data to send, then of the data to receive, for an
    /// AlltoAllV.
    pub(super) lists: [Vec<u64>; 4],
    pub(super) repeat: u32,
    /// The number of steps that are committed at a time, for a fine-grained AlltoAllV. Each turn
    /// has one step for each rank.
    pub(super) steps: Option<u32>,
    pub(super) ranks: u32,
}

impl PreparedWork {
    /// Returns the final value of the counters.
    pub(super) fn total(&self) -> u32 {
        if self.steps.is_some() { self.repeat * self.ranks } else { self.repeat }
    }

    /// Checks that no buffer is in memory of another process, because the other ranks access a
    /// rank's contribution in the memory of its own process.
    pub(super) fn is_own_memory(&self) -> Result<(), String> {
        let spots = [Some(&self.send), self.recv.as_ref()].into_iter().flatten();
        match spots.filter_map(|spot| Some((&spot.region, spot.region.rank_abroad()?))).next() {
            None => Ok(()),
            Some((region, rank)) => Err(format!(
                "{}: {} cannot be a buffer, since rank {rank} is in another process; copy the data from there first (DataCopy)",
                self.describe(),
                region.name
            )),
        }
    }

    pub(super) fn describe(&self) -> String {
        format!("{} ({}, {})", self.name, self.kind.name(), self.place)
    }
}

/// The kind of collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkKind {
    AllReduce(ReduceOp),
    AllGather,
    ReduceScatter(ReduceOp),
    AlltoAll,
    AlltoAllV,
    AlltoAllvWrite,
}

impl WorkKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            WorkKind::AllReduce(_) => "AllReduce",
            WorkKind::AllGather => "AllGather",
            WorkKind::ReduceScatter(_) => "ReduceScatter",
            WorkKind::AlltoAll => "AlltoAll",
            WorkKind::AlltoAllV => "AlltoAllV",
            WorkKind::AlltoAllvWrite => "AlltoAllvWrite",
        }
    }
}

/// The offsets and sizes of the blocks of an AlltoAllvWrite, and their offset in the windows.
pub(super) struct WriteWindows {
    /// The offsets of the blocks in bytes, as a `u64` for each rank. `sizes` has the sizes of the
    /// blocks in the same form.
    pub(super) offsets: RegionAddress,
    pub(super) sizes: RegionAddress,
    pub(super) at: u64,
    /// The number of bytes of the block for the rank itself. It replaces the entry in `sizes`.
    pub(super) own: u64,
}
