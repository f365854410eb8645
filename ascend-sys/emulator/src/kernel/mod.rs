//! Kernels: loading recorded kernels, launching them, and interpreting them on emulated cores, with
//! the communication server beside.
//!
//! # How a program gets here
//!
//! - A *recorded kernel* is the result of `Recorded::to_bytes` of the crate `hccl`. It is loaded by
//!   `aclrtBinaryLoadFromFile`, `aclrtBinaryLoadFromData` or `aclrtCreateBinary` with
//!   `aclrtBinaryLoad`, then found by `aclrtBinaryGetFunction` with its name. Object files of
//!   Ascend C are refused.
//! - The *communication server* is the function `RunAicpuKfcSrvLaunch` of CANN's own library. A
//!   program gets hold of it as of any AICPU library: `aclrtBinaryLoadFromFile` with a path that
//!   ends in `libccl_kernel.json` (of the installed CANN; here the file need not exist) and the
//!   option `ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE`, then `aclrtBinaryGetFunction`, or
//!   `aclrtRegisterCpuFunc` where the kernel is to have a name of its own. Its arguments are an
//!   8-byte descriptor, whose bits 4 to 7 count the contexts, then the contexts, then the arguments
//!   of the kernel, which it does not read.
//! - A *CPU kernel* is a function of a [library](cpu_library) for the AI CPU that was compiled for
//!   the host. It is [launched](cpu_kernel) like any kernel; its arguments are a
//!   [block](cpu_arguments) of bytes.
//! - The arguments of a kernel are pointers: the context of each group, inputs and outputs,
//!   workspace, tiling. The workspace begins with the user's part: nothing here needs the system's
//!   part.
//!
//! # How it runs
//!
//! A launch is one task of its stream ([`task`]) that [begins](begin) when its turn has come. Its
//! [cores](core) are [interpreted](interpreter) and stop where they would wait, between [steps];
//! they take turns inside the task, so a kernel needs no thread.
//!
//! [`local`] and [`global`] are the memories, [`vector`] and [`matmul`] the arithmetic, [`flags`]
//! the waits of cores for one another. [`client`] is the HCCL client, of which each core keeps
//! [books]; on Ascend 950 it works as in [`posted`], and with queues as in [`queues`]. A [track]
//! records what shows in a [timeline](crate::timeline).
//!
//! Kernel and server of a rank talk through an [area](area), mostly about [work]; the [server] is a
//! task of the stream that it is launched on. It holds a [conversation] for each context that it
//! serves. Its [turns](turn) are collectives of a communicator that the servers of all ranks
//! [share](hub).
//!
//! # What differs from hardware
//!
//! - Within a core everything is done in order, so a missing order (`PipeBarrier`, `SetFlag`) in a
//!   kernel has no effect.
//! - Scalar accesses to global memory have no cache, so a forgotten `DataCacheCleanAndInvalid`
//!   changes no result; the checker finds it.
//! - Messages are no bytes in the workspace of the context, and the order between the messages of
//!   several groups is not kept, since no result depends on it.
//! - On 950 the data types of the calls count, not those of the tiling.
//! - Where races are looked for, a kernel is one operation, with its own accesses and the reads and
//!   writes of its server for it. Accesses inside, between its cores and turns, are not tracked,
//!   but checked [again] where the check before the launch had to leave out something. Writes to
//!   windows are the exception: they are tracked, for all ranks together.

mod abroad;
mod again;
mod area;
pub(crate) mod arguments;
mod begin;
pub(crate) mod binary;
mod books;
mod cast;
mod client;
mod code;
mod context;
mod conversation;
mod core;
pub(crate) mod cpu_arguments;
pub(crate) mod cpu_kernel;
mod cpu_library;
mod flags;
mod global;
mod hub;
mod interpreter;
pub(crate) mod launch;
mod local;
mod matmul;
mod moves;
mod order;
mod posted;
mod prepare;
mod queues;
mod ranges;
mod running;
mod server;
mod steps;
mod task;
pub(crate) mod time_limit;
mod track;
mod turn;
mod vector;
mod verdict;
mod work;
mod world;
mod write;

pub(crate) use context::{complete as complete_context, of as context_of};
