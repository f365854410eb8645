//! Other processes of the machine: the messages from and to them, and the memory that they share.
//!
//! Processes exchange two kinds of things. Operations use words in [shared memory](region), as they
//! do between threads. They read and write their data in place: each process maps the device memory
//! of the others. Everything else is sent in [frames](line) to a [thread](listener) that each
//! process has for this: which rank joins, which rank has called what for the first time, which
//! rank is gone and why. `fabric` decides how to react. Processes that have no address of one
//! another meet at a [rendezvous].
//!
//! Nothing has a name in a file system. So a process leaves nothing behind, however it ends, and
//! the other processes notice its end at once.

pub(crate) mod line;
pub(crate) mod listener;
pub(crate) mod peer;
pub(crate) mod region;
pub(crate) mod rendezvous;
