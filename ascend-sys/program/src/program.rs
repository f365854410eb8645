//! A program: its declarations, its steps, and its encoding.

use serde::{Deserialize, Serialize};

use crate::declared::*;
use crate::layout::{Layout, Number};
use crate::step::{Node, Source};

/// The first bytes of an encoded program.
pub const MAGIC: [u8; 8] = *b"\x7fASCPROG";

/// The version of the encoding. A reader rejects every other version.
pub const VERSION: u32 = 3;

/// A recorded kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// The name of the entry function, in snake case.
    pub name: String,
    /// The doc comment of the function, for the printed source. Empty if there is none.
    pub doc: String,
    /// The cores that run the kernel.
    pub mix: Mix,
    /// The arguments before workspace and tiling: all inputs, then all outputs.
    pub parameters: Vec<Parameter>,
    /// Whether there is a workspace argument that the kernel uses.
    pub workspace: bool,
    /// The parts of the workspace that have a name in the source.
    pub views: Vec<Declared<WorkspaceView>>,
    /// The layout of the tiling argument. `None` if the kernel has no tiling.
    pub tiling: Option<Layout>,
    /// The number of communicators that the kernel takes part in. Each has a hidden context
    /// argument; these arguments come first.
    pub groups: u32,
    /// The values. Each is made only of earlier values.
    pub values: Vec<Value>,
    /// The scalar variables.
    pub variables: Vec<Declared<Number>>,
    /// The queues of buffers in local memory.
    pub queues: Vec<Declared<Queue>>,
    /// The buffers in local memory without a queue.
    pub scratches: Vec<Declared<Scratch>>,
    /// The names of tensors in local memory.
    pub locals: Vec<Declared<Number>>,
    /// The HCCL clients.
    pub clients: Vec<Declared<Client>>,
    /// The tasks that clients prepare.
    pub tasks: Vec<Declared<ClientId>>,
    /// The matrix multiplications.
    pub matmuls: Vec<Declared<Matmul>>,
    /// The blocks of steps, in order. The first block is the kernel. Every other block belongs to
    /// one step of an earlier block.
    pub blocks: Vec<Vec<Node>>,
    /// The source files to which the file indices of a [`Source`] refer.
    pub files: Vec<String>,
    /// The calls of functions that the kernel has made. A call within another one comes after it.
    pub calls: Vec<FunctionCall>,
    /// The warnings of the checker that the kernel allows.
    pub allowed: Vec<Allowed>,
}

/// A call of a function while the kernel was recorded. The steps of the function are steps of the
/// kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The name of the function, in snake case.
    pub function: String,
    /// The doc comment of the function. Empty if there is none.
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
    /// launch has written them (rule `windows`). Otherwise this is an error, or a note if not all
    /// ranks are known.
    Windows,
}

impl Warning {
    /// Returns the name of the rule that the finding has.
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
    /// The warning that is allowed.
    pub warning: Warning,
    /// The reason why the warning does not apply.
    pub reason: String,
}

impl Program {
    /// Returns a place in the source, such as "vadd.rs:12:9", with the calls that led there, such
    /// as " (in `scale`, called at vadd.rs:40:5)".
    pub fn line(&self, source: Source) -> String {
        let place = self.place(source);
        match self.path(source).join(", ") {
            path if path.is_empty() => place,
            path => format!("{place} ({path})"),
        }
    }

    /// Returns the place in the source, without the calls.
    fn place(&self, source: Source) -> String {
        let Source { file, line, column, .. } = source;
        match self.files.get(file as usize) {
            // The recorder has set no line, because no step of the kernel has run.
            _ if line == 0 => "the start".to_owned(),
            Some(file) => format!("{file}:{line}:{column}"),
            None => format!("line {line}"),
        }
    }

    /// Returns the calls around a place, the innermost first, such as "in `scale`, called at
    /// vadd.rs:40:5".
    pub fn path(&self, source: Source) -> Vec<String> {
        let said = |call: &FunctionCall| {
            format!("in `{}`, called at {}", call.function, self.place(call.from))
        };
        self.calls_around(source.call).map(|(_, call)| said(call)).collect()
    }

    /// Returns a call and the calls around it, the innermost first, with their numbers.
    pub(crate) fn calls_around(&self, call: u32) -> impl Iterator<Item = (u32, &FunctionCall)> {
        let find = |number: u32| {
            let index = usize::try_from(number).ok()?.checked_sub(1)?;
            Some((number, self.calls.get(index)?))
        };
        std::iter::successors(find(call), move |(_, call)| find(call.from.call))
    }
}

/// The cores that run a kernel (`KERNEL_TYPE_...`), with their number for each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Mix {
    /// Vector cores, which cannot synchronise with each other in hardware.
    AivOnly,
    /// Cube cores, which cannot synchronise with each other in hardware.
    AicOnly,
    /// Vector cores, which can synchronise with each other.
    MixAiv10,
    /// Cube cores, which can synchronise with each other.
    MixAic10,
    /// One cube core and one vector core for each block.
    MixAic11,
    /// One cube core and two vector cores for each block.
    MixAic12,
}

impl Mix {
    /// Returns the number of cores of a kind for each block.
    pub fn ratio(self, core: Core) -> u32 {
        match (self, core) {
            (Mix::AivOnly | Mix::MixAiv10, Core::Aiv) => 1,
            (Mix::AicOnly | Mix::MixAic10 | Mix::MixAic11 | Mix::MixAic12, Core::Aic) => 1,
            (Mix::MixAic11, Core::Aiv) => 1,
            (Mix::MixAic12, Core::Aiv) => 2,
            _ => 0,
        }
    }

    /// Returns whether the cores can synchronise with each other in hardware.
    pub fn synchronises(self) -> bool {
        !matches!(self, Mix::AivOnly | Mix::AicOnly)
    }

    /// Returns the enumerator of `KernelMetaType`.
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
    /// The bytes do not begin with the [`MAGIC`] of a program.
    NoProgram,
    /// The bytes have another version of the encoding.
    Version(u32),
    /// The bytes end too early, or hold values that no program has.
    Damaged(String),
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::NoProgram => f.write_str("this is not a recorded kernel"),
            DecodeError::Version(found) => write!(
                f,
                "the recorded kernel has version {found}, but this program reads version \
                 {VERSION}: record it again"
            ),
            DecodeError::Damaged(why) => {
                write!(f, "the recorded kernel is damaged: {why}; record it again")
            }
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
    /// Returns the bytes that a loader accepts as a binary.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        // Writing to a vector fails only for lengths that are not known beforehand, and there is no
        // such length here.
        postcard::to_extend(self, bytes).unwrap_or_default()
    }

    /// Returns whether these bytes begin like those of a program.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Decodes the bytes of [`to_bytes`](Self::to_bytes). The bytes may have been changed since
    /// then: every number in a decoded program names something that exists.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a program, have another version, or are damaged.
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
