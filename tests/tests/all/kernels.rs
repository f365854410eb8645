//! Recording: the programs of the examples' kernels, and the records of every item of
//! `hccl::kernel`.
//!
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test all kernels::` rewrites the texts.

mod again;
pub(crate) mod checked;
mod functions;
mod golden;
mod mistakes;
mod operations;
mod printed;
mod recorder;
mod reports;
mod windows;
