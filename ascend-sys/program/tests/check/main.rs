//! The checker: one kernel for each rule that breaks it, and its repaired twin.

#[path = "../common/mod.rs"]
mod common;
mod harness;

mod client;
mod groups;
mod local;
mod operation;
mod sync;
mod traffic;
