//! Code that the examples share.

pub mod kernels;
pub mod operators;
pub mod train;
