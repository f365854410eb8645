//! Custom communication operators, run on the emulator.

pub mod algorithms;
mod data;
mod lives;
mod refused;
mod told;
