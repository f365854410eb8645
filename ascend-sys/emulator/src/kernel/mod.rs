//! Kernels: loading what was recorded, launching it, and interpreting it on emulated cores, with
//! the communication server beside.
//!
//! # How a program gets here
//!
//! - A *recorded kernel* is what `Recorded::to_bytes` of the crate `hccl` gives:
//!   `aclrtBinaryLoadFromFile`, `aclrtBinaryLoadFromData` or `aclrtCreateBinary` with
//!   `aclrtBinaryLoad`, then `aclrtBinaryGetFunction` with its name. Object files of Ascend C are
//!   refused.
//! - The *communication server* is the function `RunAicpuKfcSrvLaunch` of CANN's own library. A
//!   program gets hold of it as of any AICPU library: `aclrtBinaryLoadFromFile` with a path that
//!   ends in `libccl_kernel.json` (of the installed CANN; here the file need not exist) and the
//!   option `ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE`, then `aclrtBinaryGetFunction`, or
//!   `aclrtRegisterCpuFunc` where the kernel is to have a name of its own. Its arguments are an
//!   8-byte descriptor, whose bits 4 to 7 count the contexts, then these, then whatever the kernel
//!   gets, which it does not look at.
//! - A *CPU kernel* is a function of a [library](cpu_library) for the AI CPU that was compiled for
//!   the host. It is [launched](cpu_kernel) like any kernel; its arguments are a
//!   [block](cpu_arguments) of bytes.
//! - The arguments of a kernel are pointers: the context of each group, inputs and outputs,
//!   workspace, tiling. The workspace begins with the user's part: nothing here needs the system's.
//!
//! # How it runs
//!
//! A launch is one task of its stream ([`task`]) that [begins](begin) when its turn has come. Its
//! [cores](core) are [interpreted](interpreter) and stop where they would wait, between [steps];
//! they take turns inside the task, so a kernel needs no thread. [`local`] and [`global`] are the
//! memories, [`vector`] and [`matmul`] the arithmetic, [`flags`] what cores wait for among
//! themselves, [`client`] the HCCL client, of which each core keeps [books]; what it does on Ascend
//! 950 is [`posted`], and with [`queues`] it is another one again. What a [track] is told shows in
//! a [timeline](crate::timeline). Kernel and server of a rank talk through an [area](area), mostly
//! about [work]; the [server] is a task of the stream that it is launched on. Of each context that
//! it serves it holds a [conversation]; its [turns](turn) are collectives of a communicator that
//! the servers of all ranks [share](hub).
//!
//! # What differs from hardware
//!
//! - Within a core everything is done in order, so what a kernel forgets to order (`PipeBarrier`,
//!   `SetFlag`) shows nowhere.
//! - Scalar accesses to global memory have no cache, so a forgotten `DataCacheCleanAndInvalid`
//!   shows in no result; the checker finds it.
//! - Messages are no bytes in the workspace of the context, and the order between the messages of
//!   several groups is not kept, since no result depends on it.
//! - On 950 the data types of the calls count, not those of the tiling.
//! - Where races are looked for, a kernel is one operation, with what it touched itself and what
//!   its server read and wrote for it. What happens inside, between its cores and turns, is not
//!   tracked, but checked [again] where the check before the launch had to leave out something;
//!   what was written of windows is, by all ranks at once.

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
