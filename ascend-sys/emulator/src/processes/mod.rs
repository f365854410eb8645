//! Other processes of the machine: how this one hears of them, what it says to them, and the memory
//! that they share.
//!
//! Two kinds of things go between processes. What an operation does goes through words in [shared
//! memory](region), as it does between threads, and its data is read and written where it lies:
//! each process maps the device memory of the others. Everything else (who joins, who has called
//! what for the first time, who is gone and why) is said, in [frames](line), to a
//! [thread](listener) that each process has for this; what it does about it is the affair of
//! `fabric`. Processes that know nothing of one another meet at a [rendezvous].
//!
//! Nothing has a name in a file system. A process that ends, in whatever way, leaves nothing
//! behind, and the others hear of it at once.

pub(crate) mod line;
pub(crate) mod listener;
pub(crate) mod peer;
pub(crate) mod region;
pub(crate) mod rendezvous;
