//! Whole lives of ranks on executors with fewer threads than ranks.

use futures::future::join_all;
use hccl::operator::Operator;
use hccl::prelude::*;
use hccl_tests::from_the_left;

use super::{RANKS, both, making, root};

/// Runs, as one rank, each operation whose first call waits for other ranks. Returns the received
/// values.
async fn life(runtime: Runtime, rank: u32, root: RootInfo) -> hccl::Result<Vec<i64>> {
    let mut world = making(&runtime, rank, RANKS, &root).await?;
    let device = world.device().clone();
    let stream = device.stream()?;
    let mut x = device.upload(&[i64::from(rank)], &stream)?;
    world.all_reduce_in_place(&mut x, Sum, &stream)?.await?;
    let mut found = x.to_vec(&stream).await?;

    let (next, last) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
    let mut from_last = device.zeros::<i64>(1, &stream)?;
    let own = device.upload(&[i64::from(rank)], &stream)?;
    world.batch().send(&own, next).recv(&mut from_last, last).submit(&stream)?;
    let shift = Operator::other("shift", 1, 1, from_the_left);
    let mut from_before = device.zeros::<i64>(1, &stream)?;
    world.run(&shift).input(&from_last).output(&mut from_before).submit(&stream)?;
    found.extend(from_before.to_vec(&stream).await?);

    let mut half = world.split(Some(rank % 2), rank).await?.expect("every rank has a color");
    half.connect().await?;
    let mut y = device.upload(&[i64::from(rank)], &stream)?;
    half.all_reduce_in_place(&mut y, Max, &stream)?.await?;
    found.extend(y.to_vec(&stream).await?);

    if let Some(mut pair) = world.subset(&[5, 2], 1).await? {
        pair.connect_to(&[1 - pair.rank()]).await?;
        if pair.rank() == 0 {
            pair.send(&own, 1, &stream)?.await?;
        } else {
            pair.recv(&mut from_last, 0, &stream)?.await?;
            found.extend(from_last.to_vec(&stream).await?);
        }
    }
    world.barrier(&stream)?.await?;
    Ok(found)
}

fn check_lives(found: Vec<hccl::Result<Vec<i64>>>) {
    for (rank, found) in (0..).zip(found) {
        let mut expected = vec![28, (rank + 6) % 8, 6 + rank % 2];
        expected.extend((rank == 2).then_some(5));
        assert_eq!(found.unwrap(), expected, "rank {rank}");
    }
}

#[test]
fn eight_ranks_live_on_two_workers_of_tokio_and_on_one() {
    both(|runtime| {
        for workers in [2, 1] {
            let pool = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).build();
            let found = pool.unwrap().block_on(async {
                let root = root(runtime);
                let ranks = (0..RANKS).map(|rank| life(runtime.clone(), rank, root.clone()));
                let tasks: Vec<_> = ranks.map(tokio::spawn).collect();
                join_all(tasks).await.into_iter().map(Result::unwrap).collect()
            });
            check_lives(found);
        }
    });
}

/// Runs the ranks on threads that only poll tasks and belong to no library with a pool of its own.
#[test]
fn eight_ranks_live_on_two_plain_threads() {
    both(|runtime| {
        let executor = smol::Executor::new();
        let (running, ended) = smol::channel::bounded::<()>(1);
        let root = root(runtime);
        let ranks =
            (0..RANKS).map(|rank| executor.spawn(life(runtime.clone(), rank, root.clone())));
        let tasks: Vec<_> = ranks.collect();
        std::thread::scope(|scope| {
            // Each worker runs until the sender is dropped.
            let worker = || smol::block_on(executor.run(ended.recv()));
            let workers = [scope.spawn(worker), scope.spawn(worker)];
            check_lives(futures::executor::block_on(join_all(tasks)));
            drop(running);
            // The sender was dropped, so there was nothing to receive.
            let _ = workers.map(|worker| worker.join().unwrap().unwrap_err());
        });
    });
}

#[test]
fn eight_ranks_live_on_the_calling_thread() {
    both(|runtime| {
        let lives = |root: RootInfo| {
            join_all((0..RANKS).map(move |rank| life(runtime.clone(), rank, root.clone())))
        };
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let local = tokio::task::LocalSet::new();
        check_lives(local.block_on(&tokio, async {
            let root = root(runtime);
            let ranks = (0..RANKS).map(|rank| life(runtime.clone(), rank, root.clone()));
            let tasks: Vec<_> = ranks.map(tokio::task::spawn_local).collect();
            join_all(tasks).await.into_iter().map(Result::unwrap).collect()
        }));
        check_lives(futures::executor::block_on(lives(root(runtime))));
        check_lives(smol::block_on(lives(root(runtime))));
        let executor = smol::LocalExecutor::new();
        let root = root(runtime);
        let ranks =
            (0..RANKS).map(|rank| executor.spawn(life(runtime.clone(), rank, root.clone())));
        let tasks: Vec<_> = ranks.collect();
        check_lives(smol::block_on(executor.run(join_all(tasks))));
    });
}
