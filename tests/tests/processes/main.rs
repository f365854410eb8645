//! Communicators whose ranks are in several processes.

/// Operators of one's own, as between threads.
#[path = "../all/operators/algorithms.rs"]
#[expect(dead_code, reason = "one of them is enough here")]
mod algorithms;
/// The same operations as between threads, against the same references.
#[path = "../all/collectives"]
mod collectives {
    pub mod reference;
    pub mod tester;
}
mod deaths;
mod failures;
mod joining;
mod operations;
mod parts;
mod ranks;
mod strangers;
