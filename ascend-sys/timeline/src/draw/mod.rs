//! The common parts of the pictures of operators, races and timelines: SVG pictures for readers,
//! and traces for Perfetto.

pub mod svg;
pub mod trace;
