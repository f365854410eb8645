//! 4. Four ranks as tasks on two worker threads of tokio.
//!
//! Communicators, streams and buffers may move between threads, and so may a task that holds them
//! while it waits. An awaited operation occupies no thread, so there may be more ranks than
//! threads. Tokio runs the other tasks meanwhile, also while a communicator is made and while the
//! first collective makes links.
//!
//! The ranks count the points with whole coordinates in a circle, which gives pi. Each rank counts
//! every fourth column of a quarter circle, and an all-reduce adds up the counts.
//!
//!     cargo run --release --example 04_tokio

use hccl::prelude::*;

const RANKS: u32 = 4;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::auto()?;
    let root = RootInfo::new(&runtime.device(0)?)?;

    let ranks = (0..RANKS).map(|rank| count(runtime.clone(), rank, root.clone()));
    let tasks: Vec<_> = ranks.map(tokio::spawn).collect();

    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await??);
    }
    for &(radius, points) in &results[0] {
        let pi = points as f64 / (radius * radius) as f64;
        println!("radius {radius:>6}: {points:>11} points, pi is about {pi:.6}");
    }
    assert!(results.iter().all(|other| *other == results[0]), "all ranks have the same sums");
    // Gauss's circle problem: these numbers are known.
    assert_eq!(results[0], [(10, 317), (100, 31_417), (1_000, 3_141_549), (10_000, 314_159_053)]);
    Ok(())
}

/// Counts the points with whole coordinates in circles of several radii. Returns each radius and
/// its count.
async fn count(runtime: Runtime, rank: u32, root: RootInfo) -> hccl::Result<Vec<(i64, i64)>> {
    let comm = Communicator::builder().runtime(&runtime).rank(rank).world_size(RANKS);
    let mut comm = comm.root_info(&root).build().await?;
    let device = comm.device().clone();
    let stream = device.stream()?;
    let mut results = Vec::new();
    for radius in [10, 100, 1_000, 10_000] {
        let columns = (1..=radius).skip(rank as usize).step_by(RANKS as usize);
        // The points of column x from the axis upwards.
        let mine: i64 = columns.map(|x: i64| (radius * radius - x * x).isqrt() + 1).sum();
        let mut points = device.upload(&[mine], &stream)?;
        comm.all_reduce_in_place(&mut points, Sum, &stream)?.await?;
        // The circle has four such quarters, and the centre.
        results.push((radius, 4 * points.to_vec(&stream).await?[0] + 1));
    }
    Ok(results)
}
