//! Virtual Ascend NPUs: CANN's C ABI in software, with real data movement, real concurrency and
//! real errors.
//!
//! [`table`] gives the functions as an [`ascend_sys::Functions`]. This crate exports no C symbol,
//! so it never captures the calls that a real CANN in the same process makes to itself.
//!
//! Files import downwards only. From the bottom: `memory` has every allocation, and names it in
//! errors; `machine` has the devices. `queue` and `task` are the protocol of a stream, which does
//! not depend on any kind of task. `stream`, `poll` and `executor` run tasks in order without a
//! thread per stream. Kinds of tasks are `leaf` (copies and fills), `after`, `event`, `notify` and
//! `callback`. `ipc` has the objects that one process exports and others import. `collective` and
//! `batch` are the operations in which ranks meet, and `fabric` makes communicators. `capture`
//! keeps the tasks of a captured stream as a graph, and `check` watches the tasks that go through
//! `submit`. `issue` puts operations of communicators into streams, `kernel` runs kernels, and
//! `operator` has the resources of programs' own operators. `faults` makes operations fail, and
//! `timeline` records the activities. `ending` ends the objects of a program on a stream, a
//! context, a device or a block. `abi` has the C functions, which check their arguments and call
//! inward.

mod abi;
mod after;
mod batch;
mod bell;
mod callback;
mod capture;
mod check;
mod closed;
mod collective;
mod context;
mod core_limits;
mod count_notify;
mod counted;
mod deadlock;
mod ending;
mod event;
mod exceptions;
mod executor;
mod fabric;
mod failures;
mod faults;
mod fork;
/// Fuzz targets: see the directory `fuzz`.
#[cfg(all(any(test, fuzzing), not(loom), not(miri)))]
#[doc(hidden)]
pub mod fuzz;
mod host_call_state;
mod host_memory;
mod indirect_copy;
mod init_hooks;
mod ipc;
mod issue;
mod kernel;
mod latched_bit;
mod later;
mod leaf;
mod lent;
mod machine;
mod memory;
mod message;
mod notify;
mod operator;
mod os_thread;
mod poll;
mod processes;
mod profile;
mod program_memory;
mod progress;
mod queue;
mod report;
mod sleep;
mod sleeping_streams;
mod slots;
mod state_hooks;
mod step;
mod stream;
mod stream_end;
mod stream_pool;
mod submit;
mod task;
mod timeline;
mod value;
mod virtual_memory;
mod watchers;

pub use abi::undeclared::{UNDECLARED, Undeclared, undeclared};
pub use abi::unsupported::Unsupported;
pub use abi::unsupported_list::UNSUPPORTED;
pub use ascend_reduce::{self as reduce, copy};

/// Returns the functions of the emulator. A function that the emulator does not have is `None`.
pub fn table() -> ascend_sys::Functions {
    let mut table = ascend_sys::Functions::default();
    abi::fill(&mut table);
    table
}
