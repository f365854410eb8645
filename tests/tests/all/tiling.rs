//! Tiling structs: their bytes, the C++ that is written for them, and the settings of
//! communication.
//!
//! Texts that people read are compared with files beside this one. After a change that is meant,
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all tiling::` writes them anew, and the
//! difference is for a person to read.

mod bytes;
mod config;
mod cpp;
mod cube;
mod names;
mod structs;
mod texts;
