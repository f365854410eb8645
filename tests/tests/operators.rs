//! Communication operators of one's own, run on the emulator.

#[path = "operators/algorithms.rs"]
mod algorithms;
#[path = "operators/data.rs"]
mod data;
#[path = "operators/lives.rs"]
mod lives;
#[path = "operators/refused.rs"]
mod refused;
