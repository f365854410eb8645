//! Tiling structs: their bytes, their C++ declarations, and the settings of communication.
//!
//! Texts for readers are compared with files beside this one. After an intended change,
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all tiling::` writes them anew, and a person
//! reads the difference.

mod bytes;
mod config;
mod cpp;
mod cube;
mod names;
mod structs;
mod texts;
