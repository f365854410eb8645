//! What the examples share.

pub mod train;
