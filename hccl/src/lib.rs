//! See the package description.

pub mod dtype;
