//! Other processes of the machine: the messages from and to them, and the memory that they share.
//!
//! Two kinds of things go between processes. Operations work through words in [shared
//! memory](region), as between threads, and their data is read and written in place: each process
//! maps the device memory of the others. Everything else is sent in [frames](line) to a
//! [thread](listener) that each process has for this: which rank joins, which has called what for
//! the first time, which is gone and why. `fabric` decides what to do about it. Processes that know
//! nothing of one another meet at a [rendezvous].
//!
//! Nothing has a name in a file system. A process that ends in any way leaves nothing behind, and
//! the others hear of it at once.

pub(crate) mod line;
pub(crate) mod listener;
pub(crate) mod peer;
pub(crate) mod region;
pub(crate) mod rendezvous;
