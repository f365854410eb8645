//! Measures `comm.all_reduce(..)?.wait()?` of `f32` on two ranks of one process, and compares it
//! with the fastest time that this machine allows.
//!
//!     cargo bench -p hccl --bench all_reduce
//!
//! For each line the operation and the bound (see [`bound`]) are measured in turns, several times.
//! The line has the best time of each. On a machine with other users a best time can be reproduced,
//! but a mean cannot. Each of the two ranks is tied to one core.

mod bound;
mod pin;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hccl::prelude::*;
use pin::pin;

/// The sizes of one rank's input, in bytes.
const SIZES: &[usize] = &[
    8,
    64,
    1 << 10,
    8 << 10,
    64 << 10,
    512 << 10,
    1 << 20,
    4 << 20,
    16 << 20,
    64 << 20,
    128 << 20,
];

/// The number of turns of operation and bound for each size.
const ROUNDS: usize = 4;

fn main() -> hccl::Result<()> {
    let signal = bound::one_way_latency();
    println!("one-way latency of a cache line: {signal:.0} ns\n");
    println!(
        "{:>10} {:>14} {:>14} {:>7} {:>12}",
        "bytes", "all_reduce us", "bound us", "ratio", "kernel"
    );
    for &bytes in SIZES {
        let elements = bytes / 4;
        // Chosen so that a measurement takes about 20 ms.
        let repeats = (200_000_000 / (bytes + 4000)).clamp(3, 20_000);
        let mut buffers = bound::Buffers::new(elements);
        let (mut measured, mut least, mut best_kernel) = (f64::MAX, f64::MAX, bound::KERNELS[0]);
        for _ in 0..ROUNDS {
            measured = measured.min(operation(elements, repeats)?);
            for kernel in bound::KERNELS {
                let time = bound::least_work(&mut buffers, kernel, 3, repeats.min(2000));
                if time < least {
                    (least, best_kernel) = (time, kernel);
                }
            }
        }
        let bound = least + signal;
        println!(
            "{bytes:>10} {:>14.3} {:>14.3} {:>7.2} {:>12}",
            measured / 1e3,
            bound / 1e3,
            measured / bound,
            format!("{best_kernel:?}")
        );
    }
    Ok(())
}

/// Returns the nanoseconds for each operation: the best average of a few blocks.
fn operation(elements: usize, repeats: usize) -> hccl::Result<f64> {
    let runtime = Runtime::emulator(2)?;
    let best = AtomicU64::new(u64::MAX);
    runtime.run_ranks(2, |rank| -> hccl::Result<()> {
        pin(rank.index() as usize);
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        // No element is zero, as in the bound, because some machines move zeros faster.
        let send = rank.device().upload(&vec![rank.index() as f32 + 1.0; elements], &stream)?;
        let mut recv = rank.device().zeros::<f32>(elements, &stream)?;
        // The first block is a warm-up: it makes the links and touches the pages.
        for block in 0..4 {
            comm.barrier(&stream)?.wait()?;
            let since = Instant::now();
            for _ in 0..repeats {
                comm.all_reduce(&send, &mut recv, Sum, &stream)?.wait()?;
            }
            if block > 0 {
                let time = since.elapsed().as_nanos() as u64 * 1000 / repeats as u64;
                best.fetch_min(time, Ordering::Relaxed);
            }
        }
        Ok(())
    })?;
    Ok(best.into_inner() as f64 / 1000.0)
}
