//! Tiling structs: their bytes, the C++ that is written for them, and the settings of communication.
//!
//! Texts that people read are compared with files beside this one. After a change that is meant,
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test tiling` writes them anew, and the difference is for a person to read.

#[path = "tiling/bytes.rs"]
mod bytes;
#[path = "tiling/config.rs"]
mod config;
#[path = "tiling/cpp.rs"]
mod cpp;
#[path = "tiling/structs.rs"]
mod structs;
#[path = "tiling/texts.rs"]
mod texts;
