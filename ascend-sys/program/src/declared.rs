//! The declarations that the steps of a program use: values, and everything that exists for longer
//! than a step.

use serde::{Deserialize, Serialize};

use crate::layout::Number;

/// A declaration that has a name in the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declared<T> {
    /// The name, in snake case. It is unique among the declarations of its kind.
    pub name: String,
    /// The type or the properties that are declared.
    pub what: T,
}

/// A kind of core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Core {
    /// A cube core (`AIC`).
    Aic,
    /// A vector core (`AIV`).
    Aiv,
}

/// An argument: a tensor in global memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// The name of the argument, in snake case.
    pub name: String,
    /// The type of the elements.
    pub number: Number,
    /// Whether the kernel writes the tensor.
    pub output: bool,
}

/// A name for elements of the workspace. It does not restrict how they are used: a
/// [`Place`](crate::step::Place) in the workspace is in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceView {
    /// The type of the elements.
    pub number: Number,
    /// The offset of the first element, in bytes from the start of the workspace.
    pub byte: u64,
}

/// A value. It is pure, so it may be computed wherever it is used. Numbers that can change are in
/// variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The operation that makes the value.
    pub of: Of,
    /// The type of the value.
    pub number: Number,
    /// The name of the value in the source, if [`Step::Name`](crate::step::Step::Name) gives it
    /// one.
    pub name: Option<String>,
}

/// The number of a value in [`Program::values`](crate::Program::values).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// The number of a block in [`Program::blocks`](crate::Program::blocks).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u32);

/// The number of a variable in [`Program::variables`](crate::Program::variables).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VariableId(pub u32);

/// The number of a queue in [`Program::queues`](crate::Program::queues).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueId(pub u32);

/// The number of a buffer in [`Program::scratches`](crate::Program::scratches).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScratchId(pub u32);

/// The number of a local tensor in [`Program::locals`](crate::Program::locals).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LocalId(pub u32);

/// The number of a client in [`Program::clients`](crate::Program::clients).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(pub u32);

/// The number of a task in [`Program::tasks`](crate::Program::tasks).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// The number of a matrix multiplication in [`Program::matmuls`](crate::Program::matmuls).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MatmulId(pub u32);

/// An operation that makes a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Of {
    /// A constant. A constant of a floating-point type has the bits of an `f64` that converts
    /// without loss.
    Constant(u64),
    /// A field of the tiling struct, or an element of an array field.
    Tiling {
        /// The offset of the field, or of the first element, in bytes.
        offset: u32,
        /// The path of the field in C++, such as `tile.M`.
        path: String,
        /// The index of the element, and the number of elements.
        element: Option<(ValueId, u32)>,
    },
    /// The result of `GetBlockIdx`, an `i64`.
    BlockIndex,
    /// The result of `GetBlockNum`, an `i64`.
    BlockCount,
    /// The result of `GetSubBlockIdx`, an `i64`.
    SubBlockIndex,
    /// The result of `GetTaskRatio`, an `i64`.
    TaskRatio,
    /// The result of `GetRankId`, a `u32`.
    Rank(ClientId),
    /// The result of `GetRankDim`, a `u32`.
    Ranks(ClientId),
    /// The number that a variable holds.
    Variable(VariableId),
    /// An operation on one operand: `-a` or `!a`.
    Unary(Unary, ValueId),
    /// An operation on two operands. Both have the type of the result, except in comparisons, which
    /// give a bool. Unsigned numbers wrap; signed numbers must not leave their type.
    Binary(Binary, ValueId, ValueId),
    /// The second value if the first one is true, else the third value.
    Select(ValueId, ValueId, ValueId),
    /// A conversion, as `static_cast` makes it. In a conversion to an integer type, a
    /// floating-point number that does not fit becomes the nearest number that does.
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
    /// Returns whether the result is a bool, whatever the types of the operands are.
    pub fn compares(self) -> bool {
        use Binary::*;
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }
}

/// A queue of buffers in the local memory of a vector core (`TQue`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// The type of the elements.
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
    /// The type of the elements.
    pub number: Number,
    /// The number of elements.
    pub length: ValueId,
}

/// An HCCL client (`Hccl`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// The index of the context, in the order of the operator's groups.
    pub group: u32,
    /// The only core that writes messages, by its kind and block. `None` if `HcclServerConfig` does
    /// not name one.
    pub core: Option<(Core, u32)>,
    /// Whether the client reads the tiling struct directly in global memory (`Init`,
    /// `SetCcTiling`), as in older releases. Otherwise it reads the core's copy (`InitV2`,
    /// `SetCcTilingV2`).
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
    /// Returns whether the cube cores of some product multiply these types.
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

    /// Returns the types of the product, such as `f16 * f16 + f32 -> f16`.
    pub fn types(&self) -> String {
        let bias = self.bias.map_or(String::new(), |bias| format!(" + {bias}"));
        format!("{} * {}{bias} -> {}", self.a, self.b, self.c)
    }
}
