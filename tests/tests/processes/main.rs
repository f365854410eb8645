//! Communicators whose ranks are in several processes.

/// Custom operators, as between threads.
#[path = "../all/operators/algorithms.rs"]
mod algorithms;
/// The same operations as between threads, against the same references.
#[path = "../all/collectives"]
mod collectives {
    pub mod reference;
    pub mod tester;
}
mod aimed;
mod channels;
mod checked;
mod deadlocks;
mod deaths;
mod failures;
mod host_channels;
mod ipc;
mod joining;
mod kernels;
mod one_sided;
mod operations;
mod operators;
mod parts;
/// The same random programs as between threads.
#[path = "../all/programs"]
#[expect(dead_code, reason = "programs are not shrunk here")]
mod programs {
    use crate::collectives::reference;

    pub mod buffers;
    pub mod execute;
    pub mod generate;
    pub mod group;
    pub mod interpret;
    pub mod program;
    pub mod shrink;
}
mod random_programs;
mod ranks;
mod resets;
mod rounds;
mod soak;
mod strangers;
mod tables;
mod timelines;
mod tracer;
mod windows;
