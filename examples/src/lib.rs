//! What the examples share.

pub mod kernels;
pub mod train;
