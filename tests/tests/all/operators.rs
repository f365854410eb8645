//! Communication operators of one's own, run on the emulator.

pub mod algorithms;
mod data;
mod lives;
mod refused;
mod told;
