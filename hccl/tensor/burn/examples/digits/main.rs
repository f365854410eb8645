//! burn's training loop learns to read handwritten digits, on 1, 2 and 4 emulated Ascend NPUs.
//!
//!     cargo run --manifest-path hccl/tensor/Cargo.toml --example burn_digits
//!
//! Each rank computes a part of each batch, and the gradients are summed over all ranks. The
//! columns of the table show the same numbers, because a divided step gives the same result as a
//! whole one.

mod train;

use std::error::Error;

use hccl_tensor_digits::{Table, WIDTHS, split};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let split = split()?;
    let (learned, held_out) = (split.training.len(), split.held_out.len());
    println!("burn reads digits: a network {WIDTHS:?}, {learned} rows, {held_out} held out");
    println!("The losses are those of the rows held out, after each epoch.\n");
    let mut curves = Vec::new();
    for ranks in [1, 2, 4] {
        curves.push(train::data_parallel(ranks, &split)?);
    }
    print!("{}", Table(&curves));
    Ok(())
}
