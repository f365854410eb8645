//! A program and what it declares.

use serde::{Deserialize, Serialize};

use crate::layout::{Layout, Number};
use crate::step::Node;

/// How bytes begin that are a program.
pub const MAGIC: [u8; 8] = *b"\x7fASCPROG";

/// The version of the encoding. A reader takes no other.
pub const VERSION: u32 = 1;

/// A recorded kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The entry function, in snake case.
    pub name: String,
    /// Which cores run it.
    pub mix: Mix,
    /// Its arguments before workspace and tiling: all inputs, then all outputs.
    pub parameters: Vec<Parameter>,
    /// Whether there is a workspace argument that the kernel uses.
    pub workspace: bool,
    /// The struct behind the tiling argument.
    pub tiling: Option<Layout>,
    /// Communicators it takes part in: so many hidden context arguments come first.
    pub groups: u32,
    /// Values, each made of earlier ones.
    pub values: Vec<Value>,
    /// Scalars that change.
    pub variables: Vec<Declared<Number>>,
    /// Queues of buffers of the local memory.
    pub queues: Vec<Declared<Queue>>,
    /// Buffers of the local memory without a queue.
    pub scratches: Vec<Declared<Scratch>>,
    /// Names for tensors in local memory.
    pub locals: Vec<Declared<Number>>,
    /// HCCL clients.
    pub clients: Vec<Declared<Client>>,
    /// What clients have prepared.
    pub tasks: Vec<Declared<ClientId>>,
    /// Matrix multiplications.
    pub matmuls: Vec<Declared<Matmul>>,
    /// What is done, in order. The first block is the kernel; every other one belongs to one step of an earlier one.
    pub blocks: Vec<Vec<Node>>,
    /// The source files that [`Source`](crate::step::Source) counts.
    pub files: Vec<String>,
}

/// Something that has a name in the source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Declared<T> {
    /// In snake case, unique among its kind.
    pub name: String,
    /// What it is.
    pub what: T,
}

/// Which cores run a kernel (`KERNEL_TYPE_...`), and how many for each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mix {
    /// Vector cores, which cannot synchronise with each other in hardware.
    AivOnly,
    /// Cube cores, which cannot synchronise with each other in hardware.
    AicOnly,
    /// Vector cores.
    MixAiv10,
    /// Cube cores.
    MixAic10,
    /// One cube and one vector core a block.
    MixAic11,
    /// One cube and two vector cores a block.
    MixAic12,
}

impl Mix {
    /// Cores of that kind for each block.
    pub fn ratio(self, core: Core) -> u32 {
        match (self, core) {
            (Mix::AivOnly | Mix::MixAiv10, Core::Aiv) => 1,
            (Mix::AicOnly | Mix::MixAic10 | Mix::MixAic11 | Mix::MixAic12, Core::Aic) => 1,
            (Mix::MixAic11, Core::Aiv) => 1,
            (Mix::MixAic12, Core::Aiv) => 2,
            _ => 0,
        }
    }

    /// Whether its cores can synchronise with each other in hardware.
    pub fn synchronises(self) -> bool {
        !matches!(self, Mix::AivOnly | Mix::AicOnly)
    }

    /// The enumerator of `KernelMetaType`.
    pub fn ascend_c(self) -> &'static str {
        match self {
            Mix::AivOnly => "KERNEL_TYPE_AIV_ONLY",
            Mix::AicOnly => "KERNEL_TYPE_AIC_ONLY",
            Mix::MixAiv10 => "KERNEL_TYPE_MIX_AIV_1_0",
            Mix::MixAic10 => "KERNEL_TYPE_MIX_AIC_1_0",
            Mix::MixAic11 => "KERNEL_TYPE_MIX_AIC_1_1",
            Mix::MixAic12 => "KERNEL_TYPE_MIX_AIC_1_2",
        }
    }
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
    /// In snake case.
    pub name: String,
    /// Of its elements.
    pub number: Number,
    /// Whether the kernel writes it.
    pub output: bool,
}

/// A value: pure, so that it may be computed wherever it is used. What can change has been put into a variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// How it comes about.
    pub of: Of,
    /// Its type.
    pub number: Number,
    /// Its name in the source, if [`Step::Name`](crate::step::Step::Name) gives it one.
    pub name: Option<String>,
}

/// Number of a value in [`Program::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// Number of a block in [`Program::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockId(pub u32);

/// Number of a variable in [`Program::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct VariableId(pub u32);

/// Number of a queue in [`Program::queues`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueId(pub u32);

/// Number of a buffer in [`Program::scratches`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScratchId(pub u32);

/// Number of a local tensor in [`Program::locals`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LocalId(pub u32);

/// Number of a client in [`Program::clients`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientId(pub u32);

/// Number of a task in [`Program::tasks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// Number of a matrix multiplication in [`Program::matmuls`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MatmulId(pub u32);

/// How a value comes about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Of {
    /// A constant. Floating point types carry the bits of an `f64` that converts without loss.
    Constant(u64),
    /// A field of the tiling struct, or an element of one that is an array.
    Tiling {
        /// Of the field, or of the first element, in bytes.
        offset: u32,
        /// As C++ has it, such as `tile.M`.
        path: String,
        /// Which element, and how many there are.
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
    /// What a variable holds.
    Variable(VariableId),
    /// `-a` or `!a`.
    Unary(Unary, ValueId),
    /// Both sides have the type of the result, but for comparisons, which give a bool. Unsigned numbers wrap; signed ones must not
    /// leave their type.
    Binary(Binary, ValueId, ValueId),
    /// The second if the first is true, else the third.
    Select(ValueId, ValueId, ValueId),
    /// A conversion, as `static_cast` makes it; a floating point number that does not fit becomes the nearest whole one that does.
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
    /// Of its elements.
    pub number: Number,
    /// Where its buffers go.
    pub position: Position,
    /// How many.
    pub buffers: u8,
    /// Elements of each.
    pub length: ValueId,
}

/// What passes through a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Position {
    /// From global memory to the vector unit.
    VecIn,
    /// From the vector unit to global memory.
    VecOut,
}

/// A buffer for intermediate results (`TBuf`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scratch {
    /// Of its elements.
    pub number: Number,
    /// Elements.
    pub length: ValueId,
}

/// An HCCL client (`Hccl`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Which context, in the order of the operator's groups.
    pub group: u32,
    /// The only core that writes messages, if it is named (`HcclServerConfig`): its kind and block.
    pub core: Option<(Core, u32)>,
    /// Whether it reads the tiling struct where it lies in global memory (`Init`, `SetCcTiling`), as older releases have it, instead of the
    /// core's copy (`InitV2`, `SetCcTilingV2`).
    pub by_address: bool,
}

/// A matrix multiplication (`MatmulImpl`) with its types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matmul {
    /// Of the left matrix.
    pub a: Number,
    /// Of the right matrix.
    pub b: Number,
    /// Of the result.
    pub c: Number,
    /// Of what is added to each row.
    pub bias: Option<Number>,
    /// Whether the left matrix is given as its transpose.
    pub transposed_a: bool,
    /// Whether the right matrix is given as its transpose.
    pub transposed_b: bool,
    /// The `TCubeTiling` in the tiling struct: its offset in bytes, and its path in C++.
    pub tiling: (u32, String),
}

/// Why bytes are not a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// They do not begin like one.
    NoProgram,
    /// Another version of the encoding.
    Version(u32),
    /// They end too early or hold what no program holds.
    Damaged(String),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::NoProgram => f.write_str("this is not a recorded kernel"),
            DecodeError::Version(found) => write!(
                f,
                "a recorded kernel of version {found}, but this reads version {VERSION}: record it again"
            ),
            DecodeError::Damaged(why) => write!(f, "a damaged recorded kernel: {why}"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl Program {
    /// What a loader takes for a binary.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        // Writing to a vector fails only for lengths that are not known beforehand; there is none.
        postcard::to_extend(self, bytes).unwrap_or_default()
    }

    /// Whether these bytes claim to be a program.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote, whoever may have changed it since: everything in the result counts what is there.
    pub fn from_bytes(bytes: &[u8]) -> Result<Program, DecodeError> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(DecodeError::NoProgram)?;
        let Some((version, rest)) = rest.split_first_chunk() else {
            return Err(DecodeError::Damaged("it ends too early".into()));
        };
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let program: Program =
            postcard::from_bytes(rest).map_err(|error| DecodeError::Damaged(error.to_string()))?;
        program.validate().map_err(DecodeError::Damaged)?;
        Ok(program)
    }
}
