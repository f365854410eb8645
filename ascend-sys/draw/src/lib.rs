//! Pictures as SVG: what the pictures of operators, races and timelines have in common.

pub mod svg;
