//! The declarations that the steps of a program name: values, and everything that lives longer than
//! a step.

use serde::{Deserialize, Serialize};

use crate::layout::Number;

/// A declaration that has a name in the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declared<T> {
    /// Its name, in snake case, unique among its kind.
    pub name: String,
    /// The thing itself.
    pub what: T,
}

/// A kind of core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Core {
    /// Cube (`AIC`).
    Aic,
    /// Vector (`AIV`).
    Aiv,
}

/// An argument: a tensor in global memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name, in snake case.
    pub name: String,
    /// The type of its elements.
    pub number: Number,
    /// Whether the kernel writes it.
    pub output: bool,
}

/// A name for elements of the workspace. It does not define how they are used: a
/// [`Place`](crate::step::Place) counts bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceView {
    /// The type of its elements.
    pub number: Number,
    /// The offset of the first element, in bytes from the start of the workspace.
    pub byte: u64,
}

/// A value: pure, so that it may be computed wherever it is used. Numbers that can change are in
/// variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The operation that makes it.
    pub of: Of,
    /// Its type.
    pub number: Number,
    /// Its name in the source, if [`Step::Name`](crate::step::Step::Name) gives it one.
    pub name: Option<String>,
}

/// Number of a value in [`Program::values`](crate::Program::values).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// Number of a block in [`Program::blocks`](crate::Program::blocks).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u32);

/// Number of a variable in [`Program::variables`](crate::Program::variables).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VariableId(pub u32);

/// Number of a queue in [`Program::queues`](crate::Program::queues).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueId(pub u32);

/// Number of a buffer in [`Program::scratches`](crate::Program::scratches).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScratchId(pub u32);

/// Number of a local tensor in [`Program::locals`](crate::Program::locals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LocalId(pub u32);

/// Number of a client in [`Program::clients`](crate::Program::clients).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(pub u32);

/// Number of a task in [`Program::tasks`](crate::Program::tasks).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// Number of a matrix multiplication in [`Program::matmuls`](crate::Program::matmuls).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MatmulId(pub u32);

/// An operation that makes a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Of {
    /// A constant. Floating point types carry the bits of an `f64` that converts without loss.
    Constant(u64),
    /// A field of the tiling struct, or an element of one that is an array.
    Tiling {
        /// The offset of the field, or of the first element, in bytes.
        offset: u32,
        /// Its path in C++, such as `tile.M`.
        path: String,
        /// The index of the element, and the number of elements.
        element: Option<(ValueId, u32)>,
    },
    /// `GetBlockIdx`, an `i64`.
    BlockIndex,
    /// `GetBlockNum`, an `i64`.
    BlockCount,
    /// `GetSubBlockIdx`, an `i64`.
    SubBlockIndex,
    /// `GetTaskRatio`, an `i64`.
    TaskRatio,
    /// `GetRankId`, a `u32`.
    Rank(ClientId),
    /// `GetRankDim`, a `u32`.
    Ranks(ClientId),
    /// The number that a variable holds.
    Variable(VariableId),
    /// `-a` or `!a`.
    Unary(Unary, ValueId),
    /// Both sides have the type of the result, but for comparisons, which give a bool. Unsigned
    /// numbers wrap; signed ones must not leave their type.
    Binary(Binary, ValueId, ValueId),
    /// The second if the first is true, else the third.
    Select(ValueId, ValueId, ValueId),
    /// A conversion, as `static_cast` makes it; a floating point number that does not fit becomes
    /// the nearest whole one that does.
    Cast(ValueId),
}

/// An operator of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unary {
    Negate,
    Not,
}

/// An operator of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Binary {
    /// Whether the result is a bool, whatever the operands are.
    pub fn compares(self) -> bool {
        use Binary::*;
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }
}

/// A queue of buffers in the local memory of a vector core (`TQue`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// The type of its elements.
    pub number: Number,
    /// The direction of its buffers.
    pub position: Position,
    /// The number of buffers.
    pub buffers: u8,
    /// The number of elements of each buffer.
    pub length: ValueId,
}

/// The direction in which data passes through a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Position {
    /// The queue takes data from global memory to the vector unit.
    VecIn,
    /// The queue takes data from the vector unit to global memory.
    VecOut,
}

/// A buffer for intermediate results (`TBuf`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scratch {
    /// The type of its elements.
    pub number: Number,
    /// The number of elements.
    pub length: ValueId,
}

/// An HCCL client (`Hccl`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// The index of the context, in the order of the operator's groups.
    pub group: u32,
    /// The only core that writes messages, if it is named (`HcclServerConfig`): its kind and block.
    pub core: Option<(Core, u32)>,
    /// Whether it reads the tiling struct where it lies in global memory (`Init`, `SetCcTiling`),
    /// as older releases have it, instead of the core's copy (`InitV2`, `SetCcTilingV2`).
    pub by_address: bool,
}

/// A matrix multiplication (`MatmulImpl`) with its types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matmul {
    /// The type of the left matrix.
    pub a: Number,
    /// The type of the right matrix.
    pub b: Number,
    /// The type of the result.
    pub c: Number,
    /// The type of the bias that is added to each row.
    pub bias: Option<Number>,
    /// Whether the left matrix is given as its transpose.
    pub transposed_a: bool,
    /// Whether the right matrix is given as its transpose.
    pub transposed_b: bool,
    /// The `TCubeTiling` in the tiling struct: its offset in bytes, and its path in C++.
    pub tiling: (u32, String),
}

impl Matmul {
    /// Whether cube cores multiply these types, on any product.
    pub fn exists(&self) -> bool {
        use Number::*;
        match (self.a, self.b, self.c) {
            (F16, F16, F16 | F32) => matches!(self.bias, None | Some(F32 | F16)),
            (F16, F16, Bf16) | (Bf16, Bf16, Bf16 | F32 | F16) | (F32, F32, F32) => {
                matches!(self.bias, None | Some(F32))
            }
            (I8, I8, I32 | F16) => matches!(self.bias, None | Some(I32)),
            _ => false,
        }
    }

    /// The types of the product, such as `f16 * f16 + f32 -> f16`.
    pub fn types(&self) -> String {
        let bias = self.bias.map_or(String::new(), |bias| format!(" + {bias}"));
        format!("{} * {}{bias} -> {}", self.a, self.b, self.c)
    }
}
