//! A network for candle learns to read handwritten digits, on 1, 2 and 4 emulated Ascend NPUs.
//!
//!     cargo run --manifest-path hccl/tensor/Cargo.toml --example candle_digits
//!
//! In data-parallel training each rank computes a part of each batch, and gradients are sent during
//! the backward pass. In tensor-parallel training each rank has a part of two layers. The columns
//! of the table show the same numbers, because a divided step gives the same result as a whole one.

mod train;

use std::error::Error;

use hccl_tensor_digits::{Table, WIDTHS, split};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let split = split()?;
    let (learned, held_out) = (split.training.len(), split.held_out.len());
    println!("candle reads digits: a network {WIDTHS:?}, {learned} rows, {held_out} held out\n");
    let mut curves = Vec::new();
    for ranks in [1, 2, 4] {
        curves.push(train::data_parallel(ranks, &split)?);
    }
    for ranks in [1, 2, 4] {
        curves.push(train::tensor_parallel(ranks, &split)?);
    }
    print!("{}", Table(&curves));
    Ok(())
}
