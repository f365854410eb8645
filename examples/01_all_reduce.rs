//! 1. All-reduce in ten lines.
//!
//! Each of four ranks has tested a network on its part of the images. A rank holds two numbers: its
//! right answers and its images. After an all-reduce every rank holds the sums over all ranks. This
//! one operation is most of the communication in data-parallel training. Without an Ascend device
//! it runs on the emulator:
//!
//!     cargo run --release --example 01_all_reduce

use hccl::prelude::*;

/// The number of right answers and the number of images, by rank.
const TESTED: [[i64; 2]; 4] = [[438, 450], [441, 450], [436, 450], [432, 447]];

fn main() -> hccl::Result<()> {
    // Uses CANN where it is installed, and the emulator elsewhere.
    let runtime = Runtime::auto()?;

    // A rank is a participant with a device of its own: here a thread, under a launcher a process.
    let sums = runtime.run_job(4, |rank| -> hccl::Result<(usize, Vec<i64>)> {
        let index = rank.index() as usize;
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let mut x = rank.device().upload(&TESTED[index], &stream)?;

        // The call enqueues the sum on the stream and returns; `wait` blocks until the sum is
        // there.
        comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
        Ok((index, x.to_vec(&stream).wait()?))
    })?;

    for (rank, sum) in sums {
        let [right, seen] = TESTED[rank];
        println!("rank {rank}: {right} of {seen} right, over all ranks {} of {}", sum[0], sum[1]);
        assert_eq!(sum, [1747, 1797]);
    }
    Ok(())
}
