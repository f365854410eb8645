//! Helpers for tests of kernels, in this package and in other packages: a builder, programs, and a
//! C++ compiler for printed sources.
#![allow(missing_docs, reason = "test helpers")]

pub mod build;
pub mod compiler;
pub mod kernels;
pub mod random;
pub mod run;
