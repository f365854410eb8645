//! See the package description.

pub mod reduce;
