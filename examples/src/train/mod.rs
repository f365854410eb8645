//! Data-parallel training of a small network on real handwritten digits: the example `train`.
//!
//! Read [`parallel`] first: it is the part to copy. [`command`] tells the story around it.

pub mod command;
pub mod data;
pub mod network;
pub mod output;
pub mod parallel;
pub mod plot;
pub mod svg;
pub mod timeline;
pub mod trace;
