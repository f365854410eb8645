//! What the pictures of operators, races and timelines have in common: SVG for people who look, and
//! traces for Perfetto.

pub mod svg;
pub mod trace;
