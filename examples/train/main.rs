//! A neural network learns to read handwritten digits, data-parallel on Ascend NPUs.
//!
//!     cargo run --release --example train
//!
//! The gradients of each layer are summed over all ranks by HCCL while the backward pass is still
//! running. The program is in `examples/src/train/`, as a library, so that tests can call it; begin
//! with `parallel.rs`, the training loop of one rank.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    ExitCode::from(hccl_examples::train::command::run(std::env::args_os(), &mut out, &mut err))
}
