//! Data-parallel training of a small network on real handwritten digits: the example `train`.
//!
//! So far the parts that need no ranks: the data, the network, and the pictures.

pub mod data;
pub mod network;
pub mod output;
pub mod plot;
pub mod svg;
pub mod timeline;
pub mod trace;
