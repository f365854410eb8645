//! Communication operators of one's own.

pub mod all_gather;
pub mod line;
pub mod point_to_point;
