//! `TCubeTiling`: the division of a product of matrices among the cube cores.
//!
//! [`Tiles`] has its 50 numbers. [`Tiles::problem`] checks them against the rules that CANN
//! documents for `MatmulImpl` with `CFG_MDL`, which is the form that the printer prints.
//! [`Shape::tiles`] computes numbers that satisfy these rules.

mod rules;
mod shape;
mod tiles;

pub use rules::Problem;
pub use shape::{Refused, Shape};
pub use tiles::{Chip, Field, Tiles};
