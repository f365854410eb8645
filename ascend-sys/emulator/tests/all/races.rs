//! Checked mode finds what nothing orders, and finds nothing in the repaired program.
//!
//! Every race is a small program with a switch: without the repair there must be exactly the finding that explains it, with the
//! repair none. Nothing here depends on what runs at the same time.

mod comms;
mod host;
mod operations;
mod setup;
mod streams;
