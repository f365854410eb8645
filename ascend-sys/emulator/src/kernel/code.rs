//! The code of a kernel, and the functions that a program has requested.

use super::cpu_library::{CpuBinary, FileKind};
use super::verdict::Recorded;
use crate::message::{Failure, fail};
use ascend_program::Program;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The content of a binary.
#[derive(Clone)]
pub(crate) enum Code {
    Program(Arc<Recorded>),
    Server,
    /// Kernels for the AI CPU, compiled for the host.
    Cpu(Arc<CpuBinary>),
}

/// The end of the error text for bytes that are not accepted.
const TAKES: &str = "the emulator accepts recorded kernels (from `Recorded::to_bytes`), libccl_kernel.json for the \
                     communication server and, from a file, a library of CPU kernels that was compiled for the host or \
                     the descriptor of one; the object files of Ascend C need an NPU";

impl Code {
    /// Reads a binary from a file with these bytes.
    pub(crate) fn of_file(path: &Path, bytes: &[u8]) -> Result<Code, Failure> {
        let binary = match FileKind::of(bytes) {
            FileKind::Descriptor => CpuBinary::of_descriptor(path, bytes)?,
            FileKind::Library => CpuBinary::of_library(path)?,
            FileKind::ForeignLibrary(machine) => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "{} is a library for another processor (number {machine} in ELF); compile CPU \
                     kernels for the host",
                    path.display()
                );
            }
            FileKind::Other => return Code::of_bytes(bytes),
        };
        Ok(Code::Cpu(Arc::new(binary)))
    }

    /// Reads a binary from the bytes of a caller.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Code, Failure> {
        match Program::from_bytes(bytes) {
            Ok(program) => Ok(Code::Program(Arc::new(Recorded::new(program)))),
            Err(why) => fail!(ACL_ERROR_RT_PARAM_INVALID, "{why}; {TAKES}"),
        }
    }
}

/// A function of a binary.
pub(crate) struct KernelFunction {
    pub(crate) binary: u64,
    pub(crate) device: u32,
    pub(crate) name: String,
    pub(crate) code: Code,
    /// The handles of the argument lists, the oldest first.
    pub(super) lists: Mutex<VecDeque<u64>>,
}
