//! The calls of a kernel on its HCCL clients.

use serde::{Deserialize, Serialize};

use super::Place;
use crate::declared::{ClientId, TaskId, ValueId};

/// A call of an HCCL client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Hccl {
    /// A call of `InitV2`, with the context of its group and the `Mc2InitTiling` at this offset of
    /// the tiling struct. A client [by address](crate::Client::by_address) calls `Init`.
    Init(ClientId, u32),
    /// A call of `SetCcTilingV2`: the offset of a `Mc2CcTiling` in bytes from the `Mc2InitTiling`,
    /// and its path in C++. A client by address calls `SetCcTiling`.
    Configure(ClientId, u32, String),
    /// A call that prepares a task.
    Prepare {
        /// The task that the call returns.
        task: TaskId,
        /// The operation of the task.
        operation: Operation,
        /// The number of turns, 1 to 255.
        repeat: ValueId,
        /// Whether the call commits all turns at once.
        commit: bool,
    },
    /// A call of `Commit`: one more turn may run.
    Commit(TaskId),
    /// A call of `Wait`, which waits for one more turn.
    Wait(TaskId),
    /// A call of `InterHcclGroupSync`: the tasks that this client prepares later wait for a task of
    /// another group.
    After(ClientId, TaskId),
    /// A call of `QueueBarrier`.
    Barrier(ClientId, ValueId),
    /// A call of `Finalize<sync>`.
    Finalize(ClientId, bool),
}

/// An operation that a client prepares. Counts and strides are in elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Operation {
    /// An `AllReduce` with its reduction.
    AllReduce(Exchange, Reduction),
    /// An `AllGather` with its stride.
    AllGather(Exchange, ValueId),
    /// A `ReduceScatter` with its reduction and its stride.
    ReduceScatter(Exchange, Reduction, ValueId),
    /// An `AlltoAll` with its stride.
    AlltoAll(Exchange, ValueId),
    /// An `AlltoAllV`, whose blocks may have different sizes.
    AlltoAllV {
        /// The beginning of the blocks for the other ranks.
        send: Place,
        /// The beginning of the blocks from the other ranks.
        recv: Place,
        /// The type of the elements, as an `HcclDataType`.
        dtype: u32,
        /// The number of elements for each rank.
        send_counts: PerRank,
        /// The beginning of each block to send, in elements.
        send_displs: PerRank,
        /// The number of elements from each rank.
        recv_counts: PerRank,
        /// The beginning of each block to receive, in elements.
        recv_displs: PerRank,
    },
    /// A `BatchWrite`, whose items are in global memory.
    BatchWrite {
        /// The place of the first item.
        items: Place,
        /// The number of items.
        count: ValueId,
        /// The index of the queue of the core.
        queue: ValueId,
    },
    /// An `AlltoAllvWrite`, which writes blocks of bytes, each to the input window of another rank.
    AlltoAllvWrite {
        /// The memory of the blocks.
        send: Place,
        /// The beginning of each block, in bytes from `send`: a `u64` for each rank, in global
        /// memory.
        offsets: Place,
        /// The size of each block in bytes, in the same form as `offsets`. The size of this rank's
        /// own block is ignored.
        sizes: Place,
        /// The offset at which the blocks go into the window of each rank, in bytes.
        window: ValueId,
        /// The size of this rank's own block, in bytes.
        local: ValueId,
    },
}

impl Operation {
    /// Returns the number of the operation's type (`HcclCMDType`).
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
    /// An array of `u64` in the tiling struct: its offset in bytes, its path in C++, and its
    /// length.
    Tiling(u32, String, u32),
    /// A value for each rank.
    Values(Vec<ValueId>),
}

/// The buffers and the type of most operations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The beginning of the input.
    pub send: Place,
    /// The beginning of the output.
    pub recv: Place,
    /// The number of elements of a block.
    pub count: ValueId,
    /// The type of the elements, as an `HcclDataType`.
    pub dtype: u32,
}

/// A reduction, as an `HcclReduceOp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
}
