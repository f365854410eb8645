//! 3. Several collectives in flight.
//!
//! Issuing does not wait, so a program may have as many collectives in flight as it likes.
//! Collectives on one stream run one after the other. Two streams run at the same time, each with a
//! communicator of its own, because a communicator does one operation at a time. The handles are
//! futures, and the functions of the crate `futures` combine them.
//!
//!     cargo run --release --example 03_in_flight

use futures::executor::block_on;
use futures::future::{try_join, try_join_all};
use futures::stream::{FuturesUnordered, TryStreamExt};
use hccl::prelude::*;

const RANKS: u32 = 4;
const LAYERS: usize = 5;

fn main() -> hccl::Result<()> {
    let runtime = Runtime::auto()?;
    let results = runtime.run_job(RANKS, |rank| {
        block_on(async { try_join(one_stream(&rank), two_communicators(&rank)).await })
    })?;

    let (gradients, (loss, seconds)) = &results[0];
    println!("one stream: the gradients of {LAYERS} layers, summed over the ranks: {gradients:?}");
    println!(
        "two communicators: the sum of the losses is {loss}, the slowest rank took {seconds} s"
    );
    for (gradients, pair) in results {
        assert_eq!(gradients, [6.0, 10.0, 14.0, 18.0, 22.0]);
        assert_eq!(pair, (3.0, 0.75));
    }
    Ok(())
}

/// Returns the sums of all layers' gradients (here one number each). All sums are issued before the
/// first is awaited.
async fn one_stream(rank: &Rank) -> hccl::Result<Vec<f32>> {
    let device = rank.device();
    let stream = device.stream()?;
    let mut comm = rank.communicator()?;

    let mut gradients = Vec::new();
    let mut works = Vec::new();
    for layer in 0..LAYERS {
        let mut gradient = device.upload(&[rank.index() as f32 + layer as f32], &stream)?;
        works.push(comm.all_reduce_in_place(&mut gradient, Sum, &stream)?);
        gradients.push(gradient);
    }
    // Waits until all works are complete, or until one has failed.
    try_join_all(works).await?;
    // The copies back to the host are in flight together, too.
    let hosts = try_join_all(gradients.iter().map(|gradient| gradient.to_vec(&stream))).await?;
    Ok(hosts.concat())
}

/// Returns the total loss and the time of the slowest rank: a sum and a maximum that do not wait
/// for each other.
async fn two_communicators(rank: &Rank) -> hccl::Result<(f32, f32)> {
    let device = rank.device();
    let (left, right) = (device.stream()?, device.stream()?);
    // Every rank makes its communicators in the same order, and issues in the same order.
    let (mut sums, mut maxima) = (rank.communicator()?, rank.communicator()?);

    let mut loss = device.upload(&[0.5 * rank.index() as f32], &left)?;
    let mut seconds = device.upload(&[0.75 / (1.0 + rank.index() as f32)], &right)?;
    let works = FuturesUnordered::new();
    works.push(sums.all_reduce_in_place(&mut loss, Sum, &left)?);
    works.push(maxima.all_reduce_in_place(&mut seconds, Max, &right)?);
    // The works are collected in the order in which they complete.
    works.try_collect::<()>().await?;

    let (loss, seconds) = try_join(loss.to_vec(&left), seconds.to_vec(&right)).await?;
    Ok((loss[0], seconds[0]))
}
