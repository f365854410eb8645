//! Kernels: loading and launching recorded kernels, interpreting them on emulated cores, and the
//! communication server.
//!
//! # How a program loads kernels
//!
//! - A *recorded kernel* is the result of `Recorded::to_bytes` of the crate `hccl`. It is loaded by
//!   `aclrtBinaryLoadFromFile`, `aclrtBinaryLoadFromData` or `aclrtCreateBinary` with
//!   `aclrtBinaryLoad`, and looked up by name with `aclrtBinaryGetFunction`. Object files of Ascend
//!   C are not accepted.
//! - The *communication server* is the function `RunAicpuKfcSrvLaunch` of CANN's own library. A
//!   program loads it like any AICPU library. It calls `aclrtBinaryLoadFromFile` with the option
//!   `ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE` and a path that ends in `libccl_kernel.json`. (With
//!   CANN this is a file of the installation; here it need not exist.) Then it calls
//!   `aclrtBinaryGetFunction`, or `aclrtRegisterCpuFunc` if the kernel needs its own name. The
//!   arguments are an 8-byte descriptor, whose bits 4 to 7 hold the number of contexts, then the
//!   contexts, then the arguments of the kernel, which the server does not read.
//! - A *CPU kernel* is a function of a [library](cpu_library) for the AI CPU that was compiled for
//!   the host. It is [launched](cpu_kernel) like any kernel; its arguments are a
//!   [block](cpu_arguments) of bytes.
//! - The arguments of a kernel are pointers: the context of each group, inputs and outputs,
//!   workspace, tiling. The workspace begins with the user's part, because the emulator does not
//!   need the system's part.
//!
//! # How it runs
//!
//! A launch is one task of its stream ([`task`]), which [begins](begin) when the stream reaches it.
//! Its [cores](core) are [interpreted](interpreter). A core stops between two [steps] where it has
//! to wait. The cores take turns inside the task, so a kernel needs no thread.
//!
//! [`local`] and [`global`] are the memories, [`vector`] and [`matmul`] the arithmetic, and
//! [`flags`] the synchronisation of the cores. [`client`] is the HCCL client, for which each core
//! keeps [records](books). [`posted`] has the client of Ascend 950, and [`queues`] the client with
//! queues. A [track] is the record of a core for a [timeline](crate::timeline).
//!
//! The kernel and the server of a rank exchange messages in an [area](area), mostly about [work].
//! The [server] is a task of the stream on which it is launched. It has a [conversation] for each
//! context that it serves. Its [turns](turn) are collectives of a communicator that the servers of
//! all ranks [share](hub).
//!
//! # What differs from hardware
//!
//! - A core does all instructions in order, so a missing `PipeBarrier` or `SetFlag` in a kernel has
//!   no effect.
//! - Scalar accesses to global memory have no cache, so a missing `DataCacheCleanAndInvalid`
//!   changes no result; the checker reports it.
//! - Messages are not bytes in the workspace of the context. The order between the messages of
//!   several groups is not kept, since no result depends on it.
//! - On Ascend 950 the data types of the calls are used, not those of the tiling.
//! - In checked mode a kernel is one operation, with its own accesses and those that its server
//!   makes for it. Races inside the kernel, between its cores and turns, are not tracked. Instead,
//!   a second check after the launch ([again]) covers the parts that the check before the launch
//!   had to leave out. Only writes to windows are tracked, for all ranks together.

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
mod second_look;
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
