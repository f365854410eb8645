//! Kernels: programs for the cores of an NPU.
//!
//! What is here so far is the [tiling](tiling): the structs with which the host tells a kernel what to do.

pub mod tiling;

pub use tiling::{Mc2CcTiling, Mc2InitTiling, TCubeTiling, Tiling};
