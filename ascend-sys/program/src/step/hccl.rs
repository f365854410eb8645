//! What a kernel asks of its HCCL clients.

use serde::{Deserialize, Serialize};

use super::Place;
use crate::declared::{ClientId, TaskId, ValueId};

/// A call of an HCCL client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Hccl {
    /// `InitV2` with the context of its group and the `Mc2InitTiling` at this offset of the tiling
    /// struct.
    Init(ClientId, u32),
    /// `SetCcTilingV2`: the offset of a `Mc2CcTiling` in bytes from the `Mc2InitTiling`, and its
    /// path in C++.
    Configure(ClientId, u32, String),
    /// A prepare call.
    Prepare {
        /// What it gives.
        task: TaskId,
        /// What is to be done.
        operation: Operation,
        /// Turns, 1 to 255.
        repeat: ValueId,
        /// Commits all turns at once.
        commit: bool,
    },
    /// `Commit`: one more turn may run.
    Commit(TaskId),
    /// `Wait`: for one more turn.
    Wait(TaskId),
    /// `InterHcclGroupSync`: what this client prepares later waits for a task of another group.
    After(ClientId, TaskId),
    /// `QueueBarrier`.
    Barrier(ClientId, ValueId),
    /// `Finalize<sync>`.
    Finalize(ClientId, bool),
}

/// What a client prepares; counts and strides in elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Operation {
    /// `AllReduce`.
    AllReduce(Exchange, Reduction),
    /// `AllGather`.
    AllGather(Exchange, ValueId),
    /// `ReduceScatter`.
    ReduceScatter(Exchange, Reduction, ValueId),
    /// `AlltoAll`.
    AlltoAll(Exchange, ValueId),
    /// `AlltoAllV`.
    AlltoAllV {
        /// Where the blocks for the others lie.
        send: Place,
        /// Where the blocks of the others go.
        recv: Place,
        /// Of the elements, as an `HcclDataType`.
        dtype: u32,
        /// Elements for each rank.
        send_counts: PerRank,
        /// Where they begin.
        send_displs: PerRank,
        /// Elements from each rank.
        recv_counts: PerRank,
        /// Where they go.
        recv_displs: PerRank,
    },
    /// `BatchWrite`: the items lie in global memory.
    BatchWrite {
        /// The first item.
        items: Place,
        /// How many.
        count: ValueId,
        /// The queue of the core.
        queue: ValueId,
    },
    /// `AlltoAllvWrite`: blocks of bytes, each into the input window of another rank.
    AlltoAllvWrite {
        /// What the blocks lie in.
        send: Place,
        /// Where each begins, in bytes from there: a `u64` for each rank, in global memory.
        offsets: Place,
        /// How many bytes each has: the same. That of the own rank does not count.
        sizes: Place,
        /// Where in the windows of all ranks they go, in bytes.
        window: ValueId,
        /// Bytes of the own block.
        local: ValueId,
    },
}

impl Operation {
    /// The number of its type (`HcclCMDType`).
    pub fn command(&self) -> u32 {
        match self {
            Operation::AllReduce(..) => 2,
            Operation::AllGather(..) => 6,
            Operation::ReduceScatter(..) => 7,
            Operation::AlltoAllV { .. } => 8,
            Operation::AlltoAll(..) => 10,
            Operation::BatchWrite { .. } => 18,
            Operation::AlltoAllvWrite { .. } => 20,
        }
    }
}

/// One number for each rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum PerRank {
    /// An array of `u64` in the tiling struct: its offset, its path in C++, how many there are.
    Tiling(u32, String, u32),
    /// A value each.
    Values(Vec<ValueId>),
}

/// What most operations have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The input.
    pub send: Place,
    /// The output.
    pub recv: Place,
    /// Elements of a block.
    pub count: ValueId,
    /// Of the elements, as an `HcclDataType`.
    pub dtype: u32,
}

/// An `HcclReduceOp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
}
