//! What the tests of the emulator share: the table called as a C program would call it, devices, ranks, kernels and operators.
#![allow(missing_docs, reason = "test helpers")]

pub mod captures;
pub mod common;
pub mod kernel;
pub mod operator;
pub mod ranks;
