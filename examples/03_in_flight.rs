//! 3. Several collectives in flight.
//!
//! Issuing does not wait, so a program may have as many collectives under way as it likes. Those on one
//! stream run one after the other. Two streams run side by side, each with a communicator of its own: one
//! communicator does one thing at a time. The handles are futures, and `futures` puts them together.
//!
//!     cargo run --example 03_in_flight

use futures::executor::block_on;
use futures::future::{try_join, try_join_all};
use futures::stream::{FuturesUnordered, TryStreamExt};
use hccl::prelude::*;

const RANKS: u32 = 4;

fn main() -> hccl::Result<()> {
    let runtime = Runtime::auto()?;
    let results = runtime.run_ranks(RANKS, |rank| {
        block_on(async { try_join(one_stream(&rank), two_communicators(&rank)).await })
    })?;

    let (powers, (total, largest)) = &results[0];
    println!("one stream, five sums: {powers:?}");
    println!("two streams: the sum of the ranks is {total}, the largest of them {largest}");
    for (powers, pair) in results {
        // 0^p + 1^p + 2^p + 3^p
        assert_eq!(powers, [4, 6, 14, 36, 98]);
        assert_eq!(pair, (6.0, 3.0));
    }
    Ok(())
}

/// Five sums, all issued before the first is awaited.
async fn one_stream(rank: &Rank) -> hccl::Result<Vec<i32>> {
    let device = rank.device();
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;

    let mut sums = Vec::new();
    let mut works = Vec::new();
    for power in 0..5 {
        let mut x = device.upload(&[(rank.index() as i32).pow(power)], &stream)?;
        works.push(comm.all_reduce_in_place(&mut x, Sum, &stream)?);
        sums.push(x);
    }
    // The first error, should there be one, and otherwise all of them.
    try_join_all(works).await?;
    // The copies back, too, are under way together.
    let hosts = try_join_all(sums.iter().map(|sum| sum.to_vec(&stream))).await?;
    Ok(hosts.concat())
}

/// A sum and a maximum that need not wait for each other.
async fn two_communicators(rank: &Rank) -> hccl::Result<(f32, f32)> {
    let device = rank.device();
    let (left, right) = (device.stream()?, device.stream()?);
    // Every rank makes its communicators in the same order, and issues in the same order.
    let (mut sums, mut maxima) = (rank.communicator()?, rank.communicator()?);

    let mut total = device.upload(&[rank.index() as f32], &left)?;
    let mut largest = device.upload(&[rank.index() as f32], &right)?;
    let works = FuturesUnordered::new();
    works.push(sums.all_reduce_in_place(&mut total, Sum, &left)?);
    works.push(maxima.all_reduce_in_place(&mut largest, Max, &right)?);
    // Whichever is done first comes first.
    works.try_collect::<()>().await?;

    let (total, largest) = try_join(total.to_vec(&left), largest.to_vec(&right)).await?;
    Ok((total[0], largest[0]))
}
