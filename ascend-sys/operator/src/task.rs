//! The tasks of an operator. This form is recorded, checked, counted, drawn and run.
//!
//! A rank has *threads*. The tasks of one thread run in order, and different threads run at the
//! same time. Thread 0 is the *main* thread, which starts and ends the other threads. A *notify*
//! orders two threads. It is one latched bit: a record sets it, and a wait waits until it is set
//! and clears it. A notify belongs to its waiter. Between threads of a rank, it belongs to a
//! thread; between ranks, it belongs to one rank's end of a channel.
//!
//! The memory of a rank is its input, its output, and its *communication buffer*. Other ranks reach
//! only the communication buffer, through a channel.

use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::panic::Location;

/// A memory of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Memory {
    /// The input of the operator. Tasks must not write it.
    Input,
    /// The output of the operator.
    Output,
    /// The communication buffer, which peers reach through their channels (CANN:
    /// `HcclGetHcclBuffer`).
    Buffer,
}

impl Memory {
    /// Returns the name of the memory: "input", "output" or "communication buffer".
    pub const fn name(self) -> &'static str {
        match self {
            Memory::Input => "input",
            Memory::Output => "output",
            Memory::Buffer => "communication buffer",
        }
    }
}

impl Display for Memory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Some bytes of one rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The rank that owns the memory.
    pub rank: u32,
    /// The memory that contains the bytes.
    pub memory: Memory,
    /// The offset of the first byte in the memory.
    pub start: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Piece {
    /// Returns the range from the first byte to one past the last byte.
    pub const fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes)
    }
}

impl Display for Piece {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.range();
        write!(f, "bytes {start}..{end} of the {} of rank {}", self.memory, self.rank)
    }
}

/// A notify: one bit, which a record sets and a wait clears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// A notify of a thread. The thread waits for it, and any thread of the same rank records it.
    Thread {
        /// The rank of both threads.
        rank: u32,
        /// The thread that waits.
        thread: u32,
        /// The index among the notifies of the thread.
        index: u32,
    },
    /// A notify at a rank's end of a channel. The rank waits for it, and its peer records it.
    Channel {
        /// The rank that waits.
        rank: u32,
        /// The rank that records.
        peer: u32,
        /// The index among the notifies at this end.
        index: u32,
    },
}

impl Display for Signal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Signal::Thread { rank, thread, index } => {
                write!(f, "notify {index} of thread {thread} of rank {rank}")
            }
            Signal::Channel { rank, peer, index } => {
                write!(f, "notify {index} of rank {rank} on its channel with rank {peer}")
            }
        }
    }
}

/// The operation that combines two elements in a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReduceOp {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The greater element.
    Max,
    /// The lesser element.
    Min,
}

impl ReduceOp {
    /// Returns the name of the operation: "sum", "prod", "max" or "min".
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
        }
    }
}

/// A task of a thread. Enqueuing a task never blocks the host. A wait holds up only its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Copies bytes within the rank, or from or to the communication buffer of a peer.
    Copy {
        /// The bytes that are read.
        from: Piece,
        /// The bytes that are written, as many as are read.
        to: Piece,
    },
    /// Combines elements into the elements at the destination, each of them in one step.
    Reduce {
        /// The bytes that are read.
        from: Piece,
        /// The bytes that are read and written, as many as in `from`.
        to: Piece,
        /// The operation of the reduction.
        op: ReduceOp,
    },
    /// Sets a notify.
    Record(Signal),
    /// Waits until a notify is set, and clears it.
    Wait(Signal),
}

impl Task {
    /// Returns the bytes that the task reads and the bytes that it writes, or `None` for a record
    /// or a wait. A reduction also reads the bytes that it writes.
    pub const fn pieces(&self) -> Option<(&Piece, &Piece)> {
        match self {
            Task::Copy { from, to } | Task::Reduce { from, to, .. } => Some((from, to)),
            Task::Record(_) | Task::Wait(_) => None,
        }
    }
}

impl Display for Task {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Task::Copy { from, to } => write!(f, "copy from {from} to {to}"),
            Task::Reduce { from, to, op } => {
                write!(f, "{} of {from} into {to}", op.name())
            }
            Task::Record(signal) => write!(f, "record of {signal}"),
            Task::Wait(signal) => write!(f, "wait for {signal}"),
        }
    }
}

/// A task, and the source line that recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The task.
    pub task: Task,
    /// The place in the source.
    pub source: &'static Location<'static>,
}

/// All tasks of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankTasks {
    /// The threads, the main thread first. A rank without tasks still has its main thread.
    pub threads: Vec<Vec<Step>>,
    /// The channels that the rank has opened: each with its peer and the number of notifies of each
    /// end.
    pub channels: Vec<(u32, u32)>,
    /// The number of bytes of the input.
    pub input: u64,
    /// The number of bytes of the output.
    pub output: u64,
    /// The number of bytes of the communication buffer.
    pub buffer: u64,
    /// The offset of the input in the output, in bytes, if the operator runs in place.
    pub in_place: Option<u64>,
}

impl RankTasks {
    /// Returns the number of bytes of one of the rank's memories.
    pub const fn size(&self, memory: Memory) -> u64 {
        match memory {
            Memory::Input => self.input,
            Memory::Output => self.output,
            Memory::Buffer => self.buffer,
        }
    }
}

/// The goal of an operator with `n` elements: the required contents of each rank's output when the
/// operator is done.
///
/// The inputs are those of the collective of the same name in `hccl`. If only some ranks give or
/// receive, the other ranks have an input or output of no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Every rank gives n elements, and gets the elements of all ranks in the order of the ranks.
    AllGather,
    /// Every rank gives n elements, and gets the reduction of the elements of all ranks.
    AllReduce(ReduceOp),
    /// Every rank gives a part of n elements for each rank, and gets the reduction of the parts
    /// that are for it.
    ReduceScatter(ReduceOp),
    /// Every rank gets the n elements of the root. The root gets them in its output too.
    Broadcast {
        /// The rank whose input is used.
        root: u32,
    },
    /// The root gets the reduction of the n elements of each rank.
    Reduce {
        /// The operation of the reduction.
        op: ReduceOp,
        /// The rank that gets the result.
        root: u32,
    },
    /// Each rank gets its part of n elements from the input of the root.
    Scatter {
        /// The rank whose input is used.
        root: u32,
    },
    /// The root gets the n elements of each rank in the order of the ranks.
    Gather {
        /// The rank that gets the result.
        root: u32,
    },
    /// Every rank gives a part of n elements for each rank, and gets the parts that are for it, in
    /// the order of the ranks.
    AllToAll,
    /// Like [`AllToAll`](Self::AllToAll), but with parts of different sizes: `counts[i][j]`
    /// elements go from rank i to rank j, whatever n is.
    AllToAllV {
        /// The number of elements from each rank to each rank.
        counts: Vec<Vec<u64>>,
    },
    /// The n elements of one rank go to another rank.
    Send {
        /// The rank whose input is used.
        from: u32,
        /// The rank that gets the data.
        to: u32,
    },
    /// Another goal. The sizes are given, and the checker does not check the result.
    Other {
        /// The number of elements of the input of each rank.
        input: u64,
        /// The number of elements of the output of each rank.
        output: u64,
    },
}

impl Goal {
    /// Returns the number of elements of the input and of the output of a rank.
    pub fn sizes(&self, rank: u32, ranks: u32, n: u64) -> (u64, u64) {
        let all = n.saturating_mul(ranks.into());
        let only = |condition: bool, size: u64| if condition { size } else { 0 };
        match self {
            Goal::AllGather => (n, all),
            Goal::AllReduce(_) => (n, n),
            Goal::ReduceScatter(_) => (all, n),
            Goal::Broadcast { root } => (only(rank == *root, n), n),
            Goal::Reduce { root, .. } => (n, only(rank == *root, n)),
            Goal::Scatter { root } => (only(rank == *root, all), n),
            Goal::Gather { root } => (n, only(rank == *root, all)),
            Goal::AllToAll => (all, all),
            Goal::AllToAllV { counts } => {
                let of = |from: u32, to: u32| {
                    let row = counts.get(from as usize);
                    row.and_then(|row| row.get(to as usize)).copied().unwrap_or_default()
                };
                (
                    (0..ranks).map(|to| of(rank, to)).fold(0, u64::saturating_add),
                    (0..ranks).map(|from| of(from, rank)).fold(0, u64::saturating_add),
                )
            }
            Goal::Send { from, to } => (only(rank == *from, n), only(rank == *to, n)),
            Goal::Other { input, output } => (*input, *output),
        }
    }

    /// Returns a rank that the goal names and that does not exist among `ranks` ranks, if there is
    /// one.
    pub fn rank_beyond(&self, ranks: u32) -> Option<u32> {
        let named = match self {
            Goal::Broadcast { root }
            | Goal::Reduce { root, .. }
            | Goal::Scatter { root }
            | Goal::Gather { root } => [*root, *root],
            Goal::Send { from, to } => [*from, *to],
            _ => return None,
        };
        named.into_iter().find(|rank| *rank >= ranks)
    }

    /// Returns the root of the goal, if it has one.
    pub const fn root(&self) -> Option<u32> {
        match self {
            Goal::Broadcast { root }
            | Goal::Reduce { root, .. }
            | Goal::Scatter { root }
            | Goal::Gather { root } => Some(*root),
            _ => None,
        }
    }

    /// Returns the operation of the goal's reduction, if it has one.
    pub const fn reduces(&self) -> Option<ReduceOp> {
        match self {
            Goal::AllReduce(op) | Goal::ReduceScatter(op) | Goal::Reduce { op, .. } => Some(*op),
            _ => None,
        }
    }
}

/// An operator: the tasks of all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The name of the operator.
    pub name: String,
    /// The goal of the operator.
    pub goal: Goal,
    /// The n of the [goal](Goal), in elements.
    pub count: u64,
    /// The number of bytes of an element.
    pub element: u64,
    /// Whether elements are floating-point numbers, so that their sums and products are rounded.
    pub floats: bool,
    /// Whether the notifies [`READY`] and [`LEFT`] of each end of a channel are a handshake.
    /// `READY` reports that a communication buffer is exposed to the peer, and `LEFT` that the peer
    /// has left it.
    pub handshake: bool,
    /// The source line that made the operator, if it is known.
    pub source: Option<&'static Location<'static>>,
    /// The tasks of each rank.
    pub ranks: Vec<RankTasks>,
}

/// The index of the first notify of a [handshake](Operator::handshake), among the notifies at an
/// end of a channel. It reports that the peer's communication buffer is ready.
pub const READY: u32 = 0;
/// The index of the second notify of a [handshake](Operator::handshake). It reports that the peer
/// has left this rank's communication buffer.
pub const LEFT: u32 = 1;

impl Operator {
    /// Returns the source line in which a rank first uses its channel to a peer, else the line that
    /// made the operator.
    pub(crate) fn source_of_channel(
        &self,
        rank: u32,
        peer: u32,
    ) -> Option<&'static Location<'static>> {
        let uses = |step: &&Step| match &step.task {
            Task::Copy { from, to } | Task::Reduce { from, to, .. } => {
                from.rank == peer || to.rank == peer
            }
            Task::Record(Signal::Channel { rank: other, .. }) => *other == peer,
            Task::Wait(Signal::Channel { peer: other, .. }) => *other == peer,
            Task::Record(_) | Task::Wait(_) => false,
        };
        let steps = self.ranks.get(rank as usize).into_iter().flat_map(|tasks| &tasks.threads);
        steps.flatten().find(uses).map(|step| step.source).or(self.source)
    }

    /// Returns the number of tasks of all threads.
    pub fn tasks(&self) -> usize {
        self.ranks.iter().flat_map(|rank| &rank.threads).map(Vec::len).sum()
    }
}
