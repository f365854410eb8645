//! A collective that a kernel has prepared: the content of its message to the server.

use super::global::RegionAddress;
use ascend_reduce::{DataType, ReduceOp};

/// A collective that was prepared.
pub(super) struct PreparedWork {
    /// The name that the kernel uses for it, and the line that prepared it.
    pub(super) name: String,
    pub(super) place: String,
    pub(super) kind: WorkKind,
    pub(super) dtype: DataType,
    pub(super) send: RegionAddress,
    /// The place of the result; `None` for an AlltoAllvWrite, which goes into windows.
    pub(super) recv: Option<RegionAddress>,
    pub(super) windows: Option<WriteWindows>,
    /// The elements of a block, and from one block to the next; 0 for an AlltoAllV.
    pub(super) count: u64,
    pub(super) stride: u64,
    /// The own block of an AllGather or AlltoAll stays out of the result.
    pub(super) skips_own: bool,
    /// For an AlltoAllV: counts and displacements of the data to send, then of the data to receive.
    pub(super) lists: [Vec<u64>; 4],
    pub(super) repeat: u32,
    /// For a fine-grained AlltoAllV: the number of steps that are committed at a time. Each turn
    /// has a step for each rank.
    pub(super) steps: Option<u32>,
    pub(super) ranks: u32,
}

impl PreparedWork {
    /// Returns the final value of the counters.
    pub(super) fn total(&self) -> u32 {
        if self.steps.is_some() { self.repeat * self.ranks } else { self.repeat }
    }

    /// Refuses buffers in memory of another process: the other ranks look for a rank's contribution
    /// in the memory of its own process.
    pub(super) fn is_own_memory(&self) -> Result<(), String> {
        let spots = [Some(&self.send), self.recv.as_ref()].into_iter().flatten();
        match spots.filter_map(|spot| Some((&spot.region, spot.region.rank_abroad()?))).next() {
            None => Ok(()),
            Some((region, rank)) => Err(format!(
                "{}: {} cannot be a buffer of it, since rank {rank} is in another process; copy it from there (DataCopy)",
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

/// The places and lengths of the blocks of an AlltoAllvWrite, and their place in the windows.
pub(super) struct WriteWindows {
    /// A `u64` for each rank, in bytes.
    pub(super) offsets: RegionAddress,
    pub(super) sizes: RegionAddress,
    pub(super) at: u64,
    /// The bytes of the own block, with any entry in `sizes`.
    pub(super) own: u64,
}
