//! 2. A ring of eight ranks, awaited.
//!
//! This is the example of HcclBatchSendRecv in CANN's documentation. Each rank sends eight numbers
//! to the next rank and receives eight from the previous one. Both messages are in one batch, so
//! that no rank waits for a neighbour that waits for its own neighbour. After seven rounds every
//! rank has had the numbers of all ranks. Ring attention passes keys and values around in this way,
//! because no rank has room for all of them.
//!
//!     cargo run --release --example 02_ring

use futures::executor::block_on;
use hccl::prelude::*;

const RANKS: u32 = 8;

fn main() -> hccl::Result<()> {
    let runtime = Runtime::auto()?;
    let seen = runtime.run_job(RANKS, |rank| -> hccl::Result<(u32, Vec<f32>)> {
        Ok((rank.index(), block_on(travel(&rank))?))
    })?;

    for (rank, visitors) in seen {
        let visitors: Vec<String> = visitors.iter().map(f32::to_string).collect();
        println!("rank {rank} was visited by the numbers of ranks {}", visitors.join(", "));
        let expected = (1..RANKS).map(|round| ((rank + RANKS - round) % RANKS) as f32);
        assert!(expected.map(|number| number.to_string()).eq(visitors));
    }
    Ok(())
}

/// Returns the numbers that arrived at this rank, round by round.
async fn travel(rank: &Rank) -> hccl::Result<Vec<f32>> {
    let device = rank.device();
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;
    let (me, size) = (comm.rank(), comm.world_size());
    let (next, previous) = ((me + 1) % size, (me + size - 1) % size);

    let mut mine = device.upload(&[me as f32; 8], &stream)?;
    let mut theirs = device.zeros::<f32>(8, &stream)?;
    let mut visitors = Vec::new();
    for _ in 1..size {
        let batch = comm.batch().send(&mine, next).recv(&mut theirs, previous).submit(&stream)?;
        // The batch was submitted above; `await` only waits for its completion.
        batch.await?;
        visitors.push(theirs.to_vec(&stream).await?[0]);
        std::mem::swap(&mut mine, &mut theirs);
    }
    Ok(visitors)
}
