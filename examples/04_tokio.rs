//! 4. Two ranks as tasks of a multi-thread tokio runtime.
//!
//! Communicators, streams and buffers may move between threads, and so may a task that holds them while it
//! waits. An awaited collective occupies no thread: tokio runs other tasks meanwhile.
//!
//! The two ranks count the points with whole coordinates in a circle, which gives pi: each counts every
//! other column of a quarter, and the sums meet in an all-reduce.
//!
//!     cargo run --release --example 04_tokio

use hccl::prelude::*;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::auto()?;
    let devices = [runtime.device(0)?, runtime.device(1)?];
    // Making communicators meets the other ranks and blocks until they are there. Here all are made at
    // once; in a program whose ranks start one by one, `tokio::task::spawn_blocking` is the place.
    let comms = Communicator::init_all(&devices)?;

    let tasks: Vec<_> = devices
        .into_iter()
        .zip(comms)
        .map(|(device, comm)| tokio::spawn(count(device, comm)))
        .collect();

    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await??);
    }
    for &(radius, points) in &results[0] {
        let pi = points as f64 / (radius * radius) as f64;
        println!("radius {radius:>6}: {points:>11} points, pi is about {pi:.6}");
    }
    assert_eq!(results[0], results[1], "both ranks have the same sums");
    // Gauss's circle problem: these numbers are known.
    assert_eq!(results[0], [(10, 317), (100, 31_417), (1_000, 3_141_549), (10_000, 314_159_053)]);
    Ok(())
}

/// For several radii, how many points with whole coordinates lie in the circle.
async fn count(device: Device, mut comm: Communicator) -> hccl::Result<Vec<(i64, i64)>> {
    let stream = device.stream()?;
    let (rank, ranks) = (comm.rank() as usize, comm.world_size() as usize);
    let mut results = Vec::new();
    for radius in [10, 100, 1_000, 10_000] {
        let columns = (1..=radius).skip(rank).step_by(ranks);
        // The points of column x from the axis upwards.
        let mine: i64 = columns.map(|x: i64| (radius * radius - x * x).isqrt() + 1).sum();
        let mut points = device.upload(&[mine], &stream)?;
        comm.all_reduce_in_place(&mut points, Sum, &stream)?.await?;
        // The quarter turned four times, and the centre.
        results.push((radius, 4 * points.to_vec(&stream).await?[0] + 1));
    }
    Ok(results)
}
