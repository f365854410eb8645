//! Recording: what the kernels of the examples become, and what every item of `hccl::kernel` records.
//!
//! `HCCL_TEST_BLESS=1 cargo test -p hccl-tests --test kernels` rewrites the texts.

#[path = "kernels/checked.rs"]
mod checked;
#[path = "kernels/golden.rs"]
mod golden;
#[path = "kernels/mistakes.rs"]
mod mistakes;
#[path = "kernels/operations.rs"]
mod operations;
#[path = "kernels/printed.rs"]
mod printed;
#[path = "kernels/recorder.rs"]
mod recorder;
