//! Kernels for Ascend NPUs as data.
//!
//! A kernel that communicates is written once, in Rust, and then *recorded*: it runs a single time
//! and produces a [`Program`]. A program is a small typed form in which loops, branches and sizes
//! are still symbols of the tiling struct. All other parts read it:
//!
//! * the checker uses the actual tiling and the number of ranks to check a launch before its first
//!   block runs;
//! * the emulator interprets it on its cores;
//! * the printer writes it as Ascend C.
//!
//! [`Program::to_bytes`] returns the bytes that a loader accepts as a binary. `hccl` records
//! programs, and `ascend-emulator` interprets them. This crate has the parts that both share: the
//! form and its encoding, and the walk of a core through it ([`flow`]).

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
