//! The code of a kernel, and a function that a program has asked for.

use super::verdict::Recorded;
use crate::message::{Failure, fail};
use ascend_program::Program;
use ascend_sys::ACL_ERROR_RT_PARAM_INVALID;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What a binary holds.
#[derive(Clone)]
pub(crate) enum Code {
    Program(Arc<Recorded>),
    Server,
}

/// Why bytes are refused.
const TAKES: &str = "the emulator takes recorded kernels (what `Recorded::to_bytes` gives), and libccl_kernel.json for the \
                     communication server; the object files of Ascend C need an NPU";

impl Code {
    /// From the bytes of a file, or of a caller.
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
    /// Argument lists, the oldest first.
    pub(super) lists: Mutex<VecDeque<u64>>,
}
