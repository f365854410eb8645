//! Other processes of the machine: the messages from and to them, and the memory that they share.
//!
//! Processes communicate in two ways. Operations use words in [shared memory](region), as they do
//! between threads. They read and write their data in place: each process maps the device memory of
//! the others. All other information is sent in [frames](line) to the [listener], a thread of each
//! process. Frames report for example that a rank joins, makes its first calls, or is gone.
//! `fabric` decides how to react. Processes that have no address of one another meet at a
//! [rendezvous].
//!
//! Nothing has a name in a file system. So a process leaves nothing behind, however it ends, and
//! the other processes notice its end at once.

pub(crate) mod line;
pub(crate) mod listener;
pub(crate) mod peer;
pub(crate) mod region;
pub(crate) mod rendezvous;
