//! Virtual Ascend NPUs: CANN's C ABI in software, with real data movement, real concurrency and real errors.
//!
//! [`table`] gives the functions as an [`ascend_sys::Functions`]. This crate exports no C symbol, so it never captures
//! the calls that a real CANN in the same process makes to itself.
//!
//! Where what is checked: `abi` holds the C functions, which check their arguments and call inward; `memory` knows every
//! allocation and names it in errors; `stream`, `queue` and `executor` run tasks in order without a thread per stream;
//! `capture` keeps what a captured stream would have run, as a graph; `collective` and `batch` are the operations in which ranks meet, `fabric` makes communicators, `issue` puts their operations into streams, `operator` is what programs make their own from; `faults` has them fail; `timeline` records what kernels do;
//! `ending` ends what a program has on a stream, a context, a device or a block.

mod abi;
mod after;
mod batch;
mod bell;
mod callback;
mod capture;
mod check;
mod collective;
mod context;
mod deadlock;
mod ending;
mod event;
mod executor;
mod fabric;
mod failures;
mod faults;
mod issue;
mod kernel;
mod leaf;
mod lent;
mod machine;
mod memory;
mod message;
mod notify;
mod operator;
mod poll;
mod profile;
mod progress;
mod queue;
mod report;
mod slots;
mod step;
mod stream;
mod task;
mod timeline;
mod users;
mod watchers;

pub use ascend_reduce::{self as reduce, copy};

/// The functions of the emulator. What it does not have is `None`.
pub fn table() -> ascend_sys::Functions {
    let mut table = ascend_sys::Functions::default();
    abi::acl::fill(&mut table);
    abi::ext::fill(&mut table);
    abi::hccl::fill(&mut table);
    table
}
