//! Communicators whose ranks are in several processes.

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
