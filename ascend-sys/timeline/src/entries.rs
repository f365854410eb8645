//! The entries of a recording. All times are nanoseconds since the start of the recording.

use serde::{Deserialize, Serialize};

/// A finished launch of a kernel on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The number of the device in its block, from 0.
    pub device: u32,
    /// The name of the kernel.
    pub kernel: String,
    /// The number of blocks of the launch.
    pub blocks: u32,
    /// The ranks of the device, one for each communicator of the kernel.
    pub ranks: Vec<usize>,
    /// The time of the start, in nanoseconds.
    pub from: u64,
    /// The time of the end, in nanoseconds.
    pub to: u64,
    /// The reason for the failure. `None` if the launch succeeded.
    pub failure: Option<String>,
    /// The work of each core in each block of the launch.
    pub cores: Vec<Block>,
}

/// The kind of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CoreKind {
    /// A cube core (AIC).
    Cube,
    /// A vector core (AIV).
    Vector,
}

/// The work of one core in one block of a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The kind of the core.
    pub kind: CoreKind,
    /// The number of the core, counted over all blocks of the launch.
    pub index: u32,
    /// The number of the core on the device.
    pub core_index: u32,
    /// The number of the block.
    pub block: u32,
    /// The time of the start, in nanoseconds.
    pub from: u64,
    /// The time of the end, in nanoseconds.
    pub to: u64,
    /// The states of the core, in order and without gaps.
    pub parts: Vec<Part>,
    /// The matrix products. Each is within one of the parts.
    pub products: Vec<Part>,
    /// The messages to the server, each with its time in nanoseconds and its text.
    pub marks: Vec<(u64, String)>,
}

/// A state of a core over some time, or a matrix product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The state of the core.
    pub what: Doing,
    /// The time of the start, in nanoseconds.
    pub from: u64,
    /// The time of the end, in nanoseconds.
    pub to: u64,
}

/// The state of a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doing {
    /// The core ran from one line of the kernel to another.
    Runs {
        /// The line of the kernel at which the state began.
        first: String,
        /// The line of the kernel at which the state ended.
        last: String,
        /// The time that the interpreter worked for this core, in nanoseconds. In the rest of the
        /// state, the thread did other work.
        interpreted: u64,
    },
    /// The core waited.
    Waits {
        /// The event that the core waited for.
        what: String,
        /// The line of the kernel at which the core waited.
        place: String,
    },
    /// The core multiplied two matrices.
    Multiplies {
        /// The number of rows, the number of columns and the depth.
        sizes: [u64; 3],
    },
}

/// The identity of the communicator of some servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ServersKey {
    /// All ranks are in one process: the id of the process, and its number for the communicator.
    Process(u32, u64),
    /// The ranks are in several processes: the key that these processes share.
    Job(u64),
}

/// A finished turn of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSpan {
    /// The number of the device in its block, from 0.
    pub device: u32,
    /// The communicator of the servers.
    pub servers: ServersKey,
    /// The name of the communicator.
    pub group: String,
    /// The rank of the server.
    pub rank: usize,
    /// The number of the turn in the communicator.
    pub number: u64,
    /// True if the ranks meet in this turn.
    pub meets: bool,
    /// The label, such as "tiles 2 of 4".
    pub name: String,
    /// The operation that the turn carries out.
    pub operation: String,
    /// The line of the kernel that prepared the operation.
    pub place: String,
    /// The time when the rank arrived, in nanoseconds.
    pub from: u64,
    /// The time of the end on this rank, in nanoseconds.
    pub to: u64,
    /// The data that this rank received.
    pub moved: Vec<Moved>,
}

/// Data that the result of one rank needs from another rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The source rank.
    pub from: usize,
    /// The destination rank.
    pub to: usize,
    /// The number of bytes.
    pub bytes: u64,
}

/// The identity of a notify. It is the same in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NotifyKey {
    /// The id of the process that waits for the notify.
    pub process: u32,
    /// The handle of the thread or channel that owns the notify, valid in that process.
    pub owner: u64,
    /// True if the owner is a channel.
    pub on_channel: bool,
    /// The index among the notifies of the owner.
    pub index: u32,
}

/// A finished primitive of an operator thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrimitiveSpan {
    /// The number of the device in its block, from 0.
    pub device: u32,
    /// The rank in the communicator. `None` if the thread belongs to no rank.
    pub rank: Option<usize>,
    /// The name of the communicator.
    pub group: String,
    /// The handle of the thread, unique in its process.
    pub thread: u64,
    /// The name of the thread.
    pub name: String,
    /// The function that issued the primitive.
    pub call: String,
    /// The work that the primitive does.
    pub work: PrimitiveWork,
    /// The time when the primitive became the next one of its thread, in nanoseconds.
    pub from: u64,
    /// The time of the end, in nanoseconds.
    pub to: u64,
    /// The reason for the failure. `None` if the primitive succeeded.
    pub failure: Option<String>,
}

/// The work of a primitive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrimitiveWork {
    /// A copy or a reduction of data.
    Moves {
        /// The source device.
        from: u32,
        /// The destination device.
        to: u32,
        /// The number of bytes.
        bytes: u64,
        /// True if the data is reduced into the destination instead of copied.
        reduces: bool,
    },
    /// A record of a notify.
    Records {
        /// The notify that is recorded.
        notify: NotifyKey,
        /// The notify and its owner, in words.
        whose: String,
    },
    /// A wait for a notify.
    Waits {
        /// The notify that is waited for.
        notify: NotifyKey,
        /// The notify and its owner, in words.
        whose: String,
        /// The rank that records the notify. `None` if it is unknown.
        recorder: Option<usize>,
    },
}
