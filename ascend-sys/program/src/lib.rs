//! Kernels for Ascend NPUs as data.
//!
//! A kernel that communicates is written once, in Rust, and *recorded*: run a single time, it
//! leaves a [`Program`] behind. A program is a small typed form in which loops, branches and sizes
//! are still symbols of the tiling struct. All other parts read it:
//!
//! * the checker, which knows the actual tiling and the number of ranks, and checks before the
//!   first block runs,
//! * the emulator, whose cores interpret it,
//! * the printer, which writes it as Ascend C.
//!
//! [`Program::to_bytes`] gives the bytes that a loader takes for a binary. Recording lives in
//! `hccl`, interpreting in `ascend-emulator`. This crate has the parts that both share: the form
//! and its encoding, and the walk of a core through it ([`flow`]).

pub mod ascend_c;
pub mod check;
mod comment;
pub mod cube;
mod declared;
pub mod dtype;
pub mod flow;
pub mod layout;
mod program;
mod show;
pub mod step;
mod validate;
pub mod waits;

pub use declared::*;
pub use program::*;
