//! What a kernel does, step by step.
//!
//! The steps are those calls of Ascend C that fused kernels need, with the units they have there:
//! counts in elements, gaps as each step says. Where two calls differ only in how a count is
//! rounded, the exact one stands here.

mod hccl;
mod uses;

use serde::{Deserialize, Serialize};

use crate::declared::{
    BlockId, ClientId, Core, LocalId, MatmulId, QueueId, ScratchId, TaskId, ValueId, VariableId,
};

pub use hccl::{Exchange, Hccl, Operation, PerRank, Reduction};
pub(crate) use uses::{StepUse, UsedMemory};

/// A step and where it stands in the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// What is done.
    pub step: Step,
    /// By which line.
    pub source: Source,
}

/// A place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Source {
    /// Index in [`Program::files`](crate::Program::files).
    pub file: u32,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
    /// The call that it lies in, from 1, of those in [`Program::calls`](crate::Program::calls). 0:
    /// the kernel itself.
    pub call: u32,
}

/// A place in global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    /// What it lies in.
    pub base: Base,
    /// From there, in elements of the base (bytes in the workspace and in windows).
    pub offset: ValueId,
}

/// Memory that a kernel is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Base {
    /// An argument, by number.
    Parameter(u32),
    /// The user's part of the workspace, as bytes.
    Workspace,
    /// The input window of a rank (`GetWindowsInAddr`), as bytes.
    WindowIn(ClientId, ValueId),
    /// The output window of a rank (`GetWindowsOutAddr`), as bytes.
    WindowOut(ClientId, ValueId),
}

/// A place in local memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Local {
    /// The tensor.
    pub tensor: LocalId,
    /// From its start, in elements.
    pub offset: Option<ValueId>,
}

/// How much a copy between global and local memory moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pieces {
    /// Elements of each piece.
    pub length: ValueId,
    /// How many pieces; one if not given. Each begins at a multiple of 32 bytes of the local
    /// memory.
    pub count: Option<ValueId>,
    /// Between the end of a piece in global memory and the start of the next, in elements.
    pub gap: Option<ValueId>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// A comment for who reads the Ascend C.
    Comment(String),
    /// A value gets its name here.
    Name(ValueId),
    /// A variable gets a value. The first time declares it.
    Set(VariableId, ValueId),
    /// A variable gets what is read.
    Read(VariableId, Read),
    /// `for (variable = from; variable < to; variable += step)`.
    Loop {
        /// Lives in the block.
        variable: VariableId,
        /// The first value.
        from: ValueId,
        /// Not reached.
        to: ValueId,
        /// Not zero.
        step: ValueId,
        /// What is repeated.
        body: BlockId,
    },
    /// One or the other.
    If {
        /// A bool.
        condition: ValueId,
        /// If it holds.
        then: BlockId,
        /// If it does not.
        otherwise: Option<BlockId>,
    },
    /// What only cores of one kind do (`if ASCEND_IS_AIC`).
    On(Core, BlockId),
    /// Something in local memory.
    Buffer(Buffer),
    /// Data between memories.
    Copy(Copy),
    /// Arithmetic of the vector unit.
    Vector(Vector),
    /// Who waits for whom.
    Sync(Sync),
    /// A product of matrices.
    Matmul(Multiply),
    /// A call of an HCCL client.
    Hccl(Hccl),
}

/// What is read into a variable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Read {
    /// An element of global memory, through the core's cache (`GlobalTensor::GetValue`).
    Global(Place),
    /// An element of local memory (`LocalTensor::GetValue`).
    Local(Local),
    /// Turns of a task that are finished (`Query`), an `i32`.
    Finished(TaskId),
    /// The number of queues of a client (`GetQueueNum`), a `u16`.
    Queues(ClientId),
    /// The next block of a fine-grained AlltoAllV (`Iterate` with one slice), a `u16`. The flag:
    /// received ones, for which it waits.
    Slice(TaskId, bool),
}

/// Local memory. What passes through a queue is handed over from one unit of the core to the next
/// with it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Buffer {
    /// `InitBuffer` of a queue.
    InitQueue(QueueId),
    /// `InitBuffer` of a buffer without a queue.
    InitScratch(ScratchId),
    /// `AllocTensor`: waits until a buffer is free.
    Alloc(QueueId, LocalId),
    /// `EnQue`.
    Enqueue(QueueId, LocalId),
    /// `DeQue`: waits until who filled it has done so.
    Dequeue(QueueId, LocalId),
    /// `FreeTensor`.
    Free(QueueId, LocalId),
    /// `TBuf::Get`.
    Get(ScratchId, LocalId),
}

/// Data between memories.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Copy {
    /// `DataCopyPad` from global memory.
    In {
        /// Where to.
        to: Local,
        /// Where from.
        from: Place,
        /// How much.
        pieces: Pieces,
    },
    /// `DataCopyPad` to global memory.
    Out {
        /// Where to.
        to: Place,
        /// Where from.
        from: Local,
        /// How much.
        pieces: Pieces,
        /// Adds to what is there (`SetAtomicAdd` around the copy).
        add: bool,
    },
    /// `GlobalTensor::SetValue`, through the core's cache.
    Set {
        /// The element.
        to: Place,
        /// What it becomes.
        value: ValueId,
    },
    /// `LocalTensor::SetValue`.
    SetLocal {
        /// The element.
        to: Local,
        /// What it becomes.
        value: ValueId,
    },
    /// `DataCacheCleanAndInvalid` of the line of 64 bytes that an element lies in.
    Clean(Place),
}

/// Arithmetic of the vector unit; counts in elements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Vector {
    /// `Duplicate`.
    Fill {
        /// The result.
        to: Local,
        /// Of each element.
        value: ValueId,
        /// How many.
        count: ValueId,
    },
    /// `Add`, `Sub`, `Mul`, `Div`, `Max`, `Min`.
    Binary {
        /// Which of them.
        operator: VectorBinary,
        /// The result.
        to: Local,
        /// The left operand.
        a: Local,
        /// The right operand.
        b: Local,
        /// How many.
        count: ValueId,
    },
    /// `Adds`, `Muls`, `Maxs`, `Mins`.
    Scalar {
        /// Which of them; not `Sub` or `Div`.
        operator: VectorBinary,
        /// The result.
        to: Local,
        /// The left operand.
        a: Local,
        /// The right one, the same for all.
        scalar: ValueId,
        /// How many.
        count: ValueId,
    },
    /// `Relu`, `Exp`, `Sqrt`.
    Unary {
        /// Which of them.
        operator: VectorUnary,
        /// The result.
        to: Local,
        /// The operand.
        a: Local,
        /// How many.
        count: ValueId,
    },
    /// `Cast`.
    Cast {
        /// The result.
        to: Local,
        /// The operand.
        from: Local,
        /// What becomes of what does not fit.
        round: Round,
        /// How many.
        count: ValueId,
    },
    /// `ReduceSum`, `ReduceMax`: one element.
    Reduce {
        /// Which of them.
        operator: VectorReduce,
        /// The result, one element.
        to: Local,
        /// The operand.
        from: Local,
        /// Memory for intermediate results.
        work: Local,
        /// How many.
        count: ValueId,
    },
}

impl Vector {
    /// Its tensors, the result first.
    pub(crate) fn locals(&self) -> Vec<Local> {
        match self {
            Vector::Fill { to, .. } => vec![*to],
            Vector::Binary { to, a, b, .. } => vec![*to, *a, *b],
            Vector::Scalar { to, a, .. } | Vector::Unary { to, a, .. } => vec![*to, *a],
            Vector::Cast { to, from, .. } => vec![*to, *from],
            Vector::Reduce { to, from, work, .. } => vec![*to, *from, *work],
        }
    }
}

/// An operation of two vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum VectorBinary {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

/// An operation of one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum VectorUnary {
    Relu,
    Exp,
    Sqrt,
}

/// What becomes of a vector that is one number in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum VectorReduce {
    Sum,
    Max,
}

/// How a conversion rounds (`RoundMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Round {
    /// It need not (`CAST_NONE`).
    None,
    /// To the nearest, ties to even (`CAST_RINT`).
    Nearest,
    /// `CAST_FLOOR`.
    Floor,
    /// `CAST_CEIL`.
    Ceil,
    /// To the nearest, ties away from zero (`CAST_ROUND`).
    Away,
    /// `CAST_TRUNC`.
    Truncate,
}

/// Who waits for whom.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Sync {
    /// `PipeBarrier`.
    Pipe(Pipe),
    /// `SetFlag` and `WaitFlag` in one: the second unit waits for what the first has been given so
    /// far.
    Units(Pipe, Pipe),
    /// `CrossCoreSetFlag`: raised when earlier work of the unit is done.
    Raise {
        /// Who is released when who has raised it.
        mode: Mode,
        /// Which unit.
        pipe: Pipe,
        /// Which flag, 0 to 15.
        flag: u16,
    },
    /// `CrossCoreWaitFlag`.
    Await {
        /// Which flag.
        flag: u16,
    },
    /// `SyncAll<true>` of all vector cores, `SyncAll<false>` of all cores.
    All {
        /// Only vector cores.
        vector: bool,
    },
}

/// A unit of a core (`pipe_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pipe {
    /// Scalars (`PIPE_S`).
    Scalar,
    /// Vectors (`PIPE_V`).
    Vector,
    /// Copies into local memory (`PIPE_MTE2`).
    In,
    /// Copies out of local memory (`PIPE_MTE3`).
    Out,
    /// Results of the cube unit to global memory (`PIPE_FIX`).
    Fix,
    /// All of them (`PIPE_ALL`).
    All,
}

impl Pipe {
    /// Its name in the documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pipe::Scalar => "S",
            Pipe::Vector => "V",
            Pipe::In => "MTE2",
            Pipe::Out => "MTE3",
            Pipe::Fix => "FIX",
            Pipe::All => "any unit",
        }
    }
}

/// Between whom a flag is (`CrossCoreSetFlag<mode>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// All cores of one kind (0).
    Kind,
    /// The two vector cores of a block (1).
    Pair,
    /// From the cube core of a block to its vector cores, or from all of these to it (2).
    Block,
}

/// A product of matrices, done by a cube core: `c = a * b`, row by row, with `bias` added to each
/// row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Multiply {
    /// With which types and tiling.
    pub matmul: MatmulId,
    /// Where the left piece begins: `rows` by `depth`.
    pub a: Place,
    /// Where the right piece begins: `depth` by `columns`.
    pub b: Place,
    /// Where the result begins: `rows` by `columns`.
    pub c: Place,
    /// Where what is added to each row begins.
    pub bias: Option<Place>,
    /// Of the piece.
    pub rows: ValueId,
    /// Of the piece.
    pub columns: ValueId,
    /// What is summed over; no piece of it is left out.
    pub depth: ValueId,
    /// Elements from a row to the next: of `a` as it lies in memory, of `b`, of `c`.
    pub pitches: [ValueId; 3],
}
