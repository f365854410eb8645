//! A program: its declarations, its steps, and its encoding.

use serde::{Deserialize, Serialize};

use crate::declared::*;
use crate::layout::{Layout, Number};
use crate::step::{Node, Source};

/// The first bytes of an encoded program.
pub const MAGIC: [u8; 8] = *b"\x7fASCPROG";

/// The version of the encoding. A reader accepts no other.
pub const VERSION: u32 = 3;

/// A recorded kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The entry function, in snake case.
    pub name: String,
    /// The doc comment of the function, for the printed source; empty if there is none.
    pub doc: String,
    /// The cores that run it.
    pub mix: Mix,
    /// Its arguments before workspace and tiling: all inputs, then all outputs.
    pub parameters: Vec<Parameter>,
    /// Whether there is a workspace argument that the kernel uses.
    pub workspace: bool,
    /// Parts of the workspace that have a name in the source.
    pub views: Vec<Declared<WorkspaceView>>,
    /// The struct behind the tiling argument.
    pub tiling: Option<Layout>,
    /// The number of communicators it takes part in. Each is a hidden context argument; these come
    /// first.
    pub groups: u32,
    /// Values, each made of earlier ones.
    pub values: Vec<Value>,
    /// Scalar variables.
    pub variables: Vec<Declared<Number>>,
    /// Queues of buffers of the local memory.
    pub queues: Vec<Declared<Queue>>,
    /// Buffers of the local memory without a queue.
    pub scratches: Vec<Declared<Scratch>>,
    /// Names for tensors in local memory.
    pub locals: Vec<Declared<Number>>,
    /// HCCL clients.
    pub clients: Vec<Declared<Client>>,
    /// The tasks that clients have prepared.
    pub tasks: Vec<Declared<ClientId>>,
    /// Matrix multiplications.
    pub matmuls: Vec<Declared<Matmul>>,
    /// The steps, in order. The first block is the kernel; every other one belongs to one step of
    /// an earlier one.
    pub blocks: Vec<Vec<Node>>,
    /// The source files that [`Source`] counts.
    pub files: Vec<String>,
    /// The calls of functions that the kernel has made; one within another comes behind it.
    pub calls: Vec<FunctionCall>,
    /// The warnings of the checker that the kernel allows.
    pub allowed: Vec<Allowed>,
}

/// A call of a function while the kernel was recorded. The steps of the function have become steps
/// of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The function, in snake case.
    pub function: String,
    /// Its doc comment; empty if there is none.
    pub doc: String,
    /// The source of the call.
    pub from: Source,
}

/// A warning of the checker that a kernel can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Warning {
    /// No core and no turn writes an output (rule `never-written`).
    NeverWritten,
    /// A result of a turn is overwritten before anything uses it (rule `overwritten`).
    Overwritten,
    /// The kernel reads parts of a window that no rank of the launch writes, because an earlier
    /// launch has written them (rule `windows`). Otherwise this is an error or, where not all ranks
    /// are known, a note.
    Windows,
}

impl Warning {
    /// The rule that the finding carries.
    pub fn rule(self) -> &'static str {
        match self {
            Warning::NeverWritten => "never-written",
            Warning::Overwritten => "overwritten",
            Warning::Windows => "windows",
        }
    }
}

/// A warning that a kernel allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// The warning.
    pub warning: Warning,
    /// The reason why it does not apply.
    pub reason: String,
}

impl Program {
    /// A place in the source, as "vadd.rs:12:9", and the calls that led there, as " (in `scale`,
    /// called at vadd.rs:40:5)".
    pub fn line(&self, source: Source) -> String {
        let place = self.place(source);
        match self.path(source).join(", ") {
            path if path.is_empty() => place,
            path => format!("{place} ({path})"),
        }
    }

    /// The place in the source, without the calls.
    fn place(&self, source: Source) -> String {
        let Source { file, line, column, .. } = source;
        match self.files.get(file as usize) {
            // The recorder has left no line: no step of the kernel has run.
            _ if line == 0 => "the start".to_owned(),
            Some(file) => format!("{file}:{line}:{column}"),
            None => format!("line {line}"),
        }
    }

    /// The calls around a place, the innermost first: "in `scale`, called at vadd.rs:40:5".
    pub fn path(&self, source: Source) -> Vec<String> {
        let said = |call: &FunctionCall| {
            format!("in `{}`, called at {}", call.function, self.place(call.from))
        };
        self.calls_around(source.call).map(|(_, call)| said(call)).collect()
    }

    /// A call and those around it, the innermost first, with their numbers.
    pub(crate) fn calls_around(&self, call: u32) -> impl Iterator<Item = (u32, &FunctionCall)> {
        let find = |number: u32| {
            let index = usize::try_from(number).ok()?.checked_sub(1)?;
            Some((number, self.calls.get(index)?))
        };
        std::iter::successors(find(call), move |(_, call)| find(call.from.call))
    }
}

/// The cores that run a kernel (`KERNEL_TYPE_...`), and their number for each block.
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
    /// The number of cores of that kind for each block.
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

/// The reason why bytes are not a program.
#[derive(Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// They do not begin like a program.
    NoProgram,
    /// They have another version of the encoding.
    Version(u32),
    /// They end too early or hold values that no program holds.
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

/// Writes the same text as `Display`, since `unwrap` prints it.
impl std::fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DecodeError: {self}")
    }
}

impl std::error::Error for DecodeError {}

impl Program {
    /// The bytes that a loader takes for a binary.
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

    /// Decodes the bytes of [`to_bytes`](Self::to_bytes), even if somebody has changed them since:
    /// every number in the result names something that exists.
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
