//! Custom communication operators.

pub mod all_gather;
pub mod line;
pub mod point_to_point;
