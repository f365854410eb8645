//! 1. All-reduce in ten lines.
//!
//! Every rank holds a vector; afterwards every rank holds the sum of all of them. This one operation is
//! most of data-parallel training. Without an Ascend device it runs on the emulator:
//!
//!     cargo run --example 01_all_reduce

use hccl::prelude::*;

fn main() -> hccl::Result<()> {
    // CANN where it is installed, the emulator elsewhere.
    let runtime = Runtime::auto()?;

    // A rank is a participant with a device of its own. Here each is a thread of this process.
    let sums = runtime.run_ranks(4, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let mut x = rank.device().upload(&[rank.index() as f32, 1.0], &stream)?;

        // The call enqueues the sum on the stream and returns; `wait` is until it is there.
        comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
        x.to_vec(&stream).wait()
    })?;

    for (rank, sum) in sums.iter().enumerate() {
        println!("rank {rank}: the sum of all indices is {}, of all ones {}", sum[0], sum[1]);
        assert_eq!(sum, &[0.0 + 1.0 + 2.0 + 3.0, 4.0]);
    }
    Ok(())
}
