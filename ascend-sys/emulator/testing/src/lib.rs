//! The common parts of the emulator's tests: calls of the table in the way of a C program, devices,
//! ranks, kernels and operators.
#![allow(missing_docs, reason = "test helpers")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "handles and device pointers go to the C functions, which check them"
)]
#![allow(clippy::should_implement_trait, reason = "a source of numbers has no end")]

pub mod alone;
pub mod barrier;
pub mod captures;
pub mod common;
pub mod cpu_kernels;
pub mod kernel;
pub mod operator;
pub mod random_kernel;
pub mod ranks;
pub mod threads;
