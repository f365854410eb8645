//! Checked mode finds what nothing orders, and finds nothing in the repaired program.
//!
//! Every race is a small program with a switch: without the repair there must be exactly the finding that explains it, with the
//! repair none. Nothing here depends on what runs at the same time.
#![allow(missing_docs, reason = "tests")]

mod common;
mod races {
    pub mod comms;
    pub mod host;
    pub mod operations;
    pub mod setup;
    pub mod streams;
}
mod ranks;
