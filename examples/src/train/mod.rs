//! Data-parallel training of a small network on real handwritten digits: the example `train`.
//!
//! Read [`parallel`] first: it is the part to copy. [`command`] is the program around it.

pub mod command;
pub mod data;
pub mod device_clock;
pub mod loss_plot;
pub mod network;
pub mod options;
pub mod output;
pub mod overlap;
pub mod parallel;
pub mod svg;
pub mod timeline;
pub mod timeline_plot;
pub mod trace;
