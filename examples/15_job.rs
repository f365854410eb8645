//! 15. One program, with or without a launcher.
//!
//! Without a launcher the program runs its ranks as threads. Under a launcher each process is one
//! rank.
//!
//!     cargo run --release --example 15_job
//!     hcclrun -n 4 target/release/examples/15_job

use hccl::prelude::*;

fn main() -> hccl::Result<()> {
    // Uses CANN if it is installed, and the emulator otherwise. Ranks on the emulator can meet only
    // if they are on one machine.
    let runtime = Runtime::auto()?;
    runtime.run_job(4, |rank| -> hccl::Result<()> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let own = rank.device().upload(&[rank.index() as f32; 8], &stream)?;
        let mut sum = rank.device().zeros::<f32>(8, &stream)?;
        comm.all_reduce(&own, &mut sum, Sum, &stream)?.wait()?;
        let sum = sum.to_vec(&stream).wait()?;
        let place = match rank.launcher() {
            Some(launcher) => format!("process {}, started by {launcher}", std::process::id()),
            None => format!("a thread of process {}", std::process::id()),
        };
        println!("rank {} of {} ({place}): {}", rank.index(), rank.world_size(), sum[0]);
        stream.synchronize()
    })?;
    Ok(())
}
