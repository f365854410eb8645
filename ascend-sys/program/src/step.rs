//! The steps of a kernel.
//!
//! The steps are the calls of Ascend C that fused kernels need. They use the same units as Ascend
//! C: counts are in elements, and each step defines its gaps. If two calls of Ascend C differ only
//! in how a count is rounded, the step is the exact one.

mod hccl;
mod place;
pub(crate) mod uses;

use serde::{Deserialize, Serialize};

use crate::declared::{
    BlockId, ClientId, Core, LocalId, MatmulId, QueueId, ScratchId, TaskId, ValueId, VariableId,
};

pub use hccl::{Exchange, Hccl, Operation, PerRank, Reduction};
pub use place::{Base, Place};

/// A step and its place in the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The step itself.
    pub step: Step,
    /// The place of the step in the source.
    pub source: Source,
}

/// A place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Source {
    /// The index in [`Program::files`](crate::Program::files).
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
    /// The number of the call that contains the place, from 1, among
    /// [`Program::calls`](crate::Program::calls). It is 0 in the kernel itself.
    pub call: u32,
}

/// A place in local memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Local {
    /// The local tensor.
    pub tensor: LocalId,
    /// The offset from the start of the tensor, in elements.
    pub offset: Option<ValueId>,
}

/// The size of a copy between global and local memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pieces {
    /// The number of elements of each piece.
    pub length: ValueId,
    /// The number of pieces; one if not given. Each piece begins at a multiple of 32 bytes in local
    /// memory.
    pub count: Option<ValueId>,
    /// The gap in global memory between the end of a piece and the start of the next one, in
    /// elements.
    pub gap: Option<ValueId>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Step {
    /// A comment for readers of the Ascend C.
    Comment(String),
    /// Gives a value its name.
    Name(ValueId),
    /// Assigns a value to a variable. The first assignment declares it.
    Set(VariableId, ValueId),
    /// Reads a number into a variable.
    Read(VariableId, Read),
    /// A loop: `for (variable = from; variable < to; variable += step)`.
    Loop {
        /// The loop variable, which exists only in the body.
        variable: VariableId,
        /// The first value.
        from: ValueId,
        /// The end. The variable does not reach it.
        to: ValueId,
        /// The step, which is not zero.
        step: ValueId,
        /// The steps that are repeated.
        body: BlockId,
    },
    /// Executes one of two blocks.
    If {
        /// The condition, a bool.
        condition: ValueId,
        /// The steps that are executed if the condition is true.
        then: BlockId,
        /// The steps that are executed if the condition is false.
        otherwise: Option<BlockId>,
    },
    /// Steps that only the cores of one kind execute (`if ASCEND_IS_AIC`).
    On(Core, BlockId),
    /// An operation on local memory.
    Buffer(Buffer),
    /// A copy between memories.
    Copy(Copy),
    /// Arithmetic of the vector unit.
    Vector(Vector),
    /// A wait or a release.
    Sync(Sync),
    /// A product of matrices.
    Matmul(Multiply),
    /// A call of an HCCL client.
    Hccl(Hccl),
}

/// A read into a variable.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Read {
    /// An element of global memory, through the core's cache (`GlobalTensor::GetValue`).
    Global(Place),
    /// An element of local memory (`LocalTensor::GetValue`).
    Local(Local),
    /// The number of finished turns of a task (`Query`), an `i32`.
    Finished(TaskId),
    /// The number of queues of a client (`GetQueueNum`), a `u16`.
    Queues(ClientId),
    /// The next block of a fine-grained AlltoAllV (`Iterate` with one slice), a `u16`. If the flag
    /// is set, it is the next received block, and the read waits for it.
    Slice(TaskId, bool),
}

/// An operation on local memory. A tensor that passes through a queue goes from one unit of the
/// core to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Buffer {
    /// A call of `InitBuffer` for a queue.
    InitQueue(QueueId),
    /// A call of `InitBuffer` for a buffer without a queue.
    InitScratch(ScratchId),
    /// A call of `AllocTensor`, which waits until a buffer is free.
    Alloc(QueueId, LocalId),
    /// A call of `EnQue`.
    Enqueue(QueueId, LocalId),
    /// A call of `DeQue`, which waits until the unit that fills the tensor has filled it.
    Dequeue(QueueId, LocalId),
    /// A call of `FreeTensor`.
    Free(QueueId, LocalId),
    /// A call of `TBuf::Get`.
    Get(ScratchId, LocalId),
}

/// A copy between memories.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Copy {
    /// A copy from global memory (`DataCopyPad`).
    In {
        /// The destination.
        to: Local,
        /// The source.
        from: Place,
        /// The number and the length of the pieces.
        pieces: Pieces,
    },
    /// A copy to global memory (`DataCopyPad`).
    Out {
        /// The destination.
        to: Place,
        /// The source.
        from: Local,
        /// The number and the length of the pieces.
        pieces: Pieces,
        /// Whether the copy adds to the data at the destination (`SetAtomicAdd` around the copy).
        add: bool,
    },
    /// A call of `GlobalTensor::SetValue`, which writes through the core's cache.
    Set {
        /// The element that is written.
        to: Place,
        /// The new value of the element.
        value: ValueId,
    },
    /// A call of `LocalTensor::SetValue`.
    SetLocal {
        /// The element that is written.
        to: Local,
        /// The new value of the element.
        value: ValueId,
    },
    /// A `DataCacheCleanAndInvalid` of the cache line of 64 bytes that contains an element.
    Clean(Place),
}

/// Arithmetic of the vector unit. Counts are in elements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Vector {
    /// A fill with one value (`Duplicate`).
    Fill {
        /// The result.
        to: Local,
        /// The value of each element.
        value: ValueId,
        /// The number of elements.
        count: ValueId,
    },
    /// An operation on two tensors: `Add`, `Sub`, `Mul`, `Div`, `Max` or `Min`.
    Binary {
        /// The operator.
        operator: VectorBinary,
        /// The result.
        to: Local,
        /// The left operand.
        a: Local,
        /// The right operand.
        b: Local,
        /// The number of elements.
        count: ValueId,
    },
    /// An operation on a tensor and a scalar: `Adds`, `Muls`, `Maxs` or `Mins`.
    Scalar {
        /// The operator, which must not be `Sub` or `Div`.
        operator: VectorBinary,
        /// The result.
        to: Local,
        /// The left operand.
        a: Local,
        /// The right operand, the same for all elements.
        scalar: ValueId,
        /// The number of elements.
        count: ValueId,
    },
    /// An operation on one tensor: `Relu`, `Exp` or `Sqrt`.
    Unary {
        /// The operator.
        operator: VectorUnary,
        /// The result.
        to: Local,
        /// The operand of the operation.
        a: Local,
        /// The number of elements.
        count: ValueId,
    },
    /// A conversion to another type (`Cast`).
    Cast {
        /// The result.
        to: Local,
        /// The operand of the operation.
        from: Local,
        /// The rounding of numbers that the type of the result cannot hold exactly.
        round: Round,
        /// The number of elements.
        count: ValueId,
    },
    /// A reduction to one element: `ReduceSum` or `ReduceMax`.
    Reduce {
        /// The operator.
        operator: VectorReduce,
        /// The result, which is one element.
        to: Local,
        /// The operand of the operation.
        from: Local,
        /// The memory for intermediate results.
        work: Local,
        /// The number of elements.
        count: ValueId,
    },
}

impl Vector {
    /// Returns the tensors of the operation, the result first.
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

/// A reduction of a vector to one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum VectorReduce {
    Sum,
    Max,
}

/// The rounding of a conversion (`RoundMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Round {
    /// No rounding (`CAST_NONE`).
    None,
    /// Rounds to the nearest, ties to even (`CAST_RINT`).
    Nearest,
    /// Rounds down (`CAST_FLOOR`).
    Floor,
    /// Rounds up (`CAST_CEIL`).
    Ceil,
    /// Rounds to the nearest, ties away from zero (`CAST_ROUND`).
    Away,
    /// Rounds towards zero (`CAST_TRUNC`).
    Truncate,
}

/// A wait of a unit or a core for other units or cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Sync {
    /// A `PipeBarrier` of a unit.
    Pipe(Pipe),
    /// `SetFlag` and `WaitFlag` in one step: the second unit waits for the work that the first unit
    /// has been given so far.
    Units(Pipe, Pipe),
    /// A call of `CrossCoreSetFlag`: the unit raises the flag when its earlier work is done.
    Raise {
        /// The cores that must raise the flag, and the cores that are released.
        mode: Mode,
        /// The unit that raises the flag.
        pipe: Pipe,
        /// The number of the flag, 0 to 15.
        flag: u16,
    },
    /// A call of `CrossCoreWaitFlag`, which waits until the flag is raised.
    Await {
        /// The number of the flag, 0 to 15.
        flag: u16,
    },
    /// A barrier of all vector cores (`SyncAll<true>`) or of all cores (`SyncAll<false>`).
    All {
        /// Whether only vector cores take part.
        vector: bool,
    },
}

/// A unit of a core (`pipe_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pipe {
    /// The scalar unit (`PIPE_S`).
    Scalar,
    /// The vector unit (`PIPE_V`).
    Vector,
    /// The unit that copies into local memory (`PIPE_MTE2`).
    In,
    /// The unit that copies out of local memory (`PIPE_MTE3`).
    Out,
    /// The unit that copies results of the cube unit to global memory (`PIPE_FIX`).
    Fix,
    /// All units (`PIPE_ALL`).
    All,
}

impl Pipe {
    /// Returns the name of the unit in the documents.
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

/// The cores that a flag synchronises (`CrossCoreSetFlag<mode>`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mode {
    /// All cores of one kind (mode 0).
    Kind,
    /// The two vector cores of a block (mode 1).
    Pair,
    /// The cube core of a block and its vector cores (mode 2). The cube core raises the flag for
    /// the vector cores, or all these vector cores raise it for the cube core.
    Block,
}

/// A product of matrices that a cube core computes: `c = a * b`, with `bias` added to each row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Multiply {
    /// The multiplication, with its types and tiling.
    pub matmul: MatmulId,
    /// The beginning of the left piece: `rows` by `depth`.
    pub a: Place,
    /// The beginning of the right piece: `depth` by `columns`.
    pub b: Place,
    /// The beginning of the result: `rows` by `columns`.
    pub c: Place,
    /// The beginning of the bias that is added to each row.
    pub bias: Option<Place>,
    /// The number of rows of the left piece and of the result.
    pub rows: ValueId,
    /// The number of columns of the right piece and of the result.
    pub columns: ValueId,
    /// The length of the sums. The product always uses all of it.
    pub depth: ValueId,
    /// The distance from one row to the next, in elements: for `a` in its form in memory, for `b`,
    /// and for `c`.
    pub pitches: [ValueId; 3],
}
