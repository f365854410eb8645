//! Random calls of every function of the C ABI, with arguments that may succeed and with wrong
//! ones. The calls come from one thread and from several, before the initialisation and after the
//! end, after a fork, and from callbacks.
//!
//! The functions and their parameters come from the table of `ascend-sys`, so a new one is called
//! as soon as it is there. Each run is a child process with a mode and a seed. A crash, a panic or
//! a hang is reported with the calls that led to it, and the same mode and seed repeat it.

pub mod callbacks;
pub mod caller;
pub mod children;
pub mod functions;
mod hostile;
pub mod leaks;
pub mod memory;
pub mod modes;
pub mod objects;
mod plausible;
mod structures;
pub mod trace;
pub mod world;
