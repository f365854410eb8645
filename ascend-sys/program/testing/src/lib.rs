//! What tests of kernels share, in this package and in others: a builder, programs, and a C++
//! compiler for what is printed.
#![allow(missing_docs, reason = "test helpers")]

pub mod build;
pub mod compiler;
pub mod kernels;
pub mod random;
pub mod run;
