//! The common parts of the pictures of operators, races and timelines: SVG for people, and traces
//! for Perfetto.

pub mod svg;
pub mod trace;
