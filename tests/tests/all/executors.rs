//! Ranks as tasks: nothing that is awaited holds the thread of its executor.
//!
//! Where a call blocked, the peers that it waits for would have no thread, and the test would end at a
//! time limit.

use std::future::Future;
use std::time::Duration;

use futures::future::join_all;
use hccl::prelude::*;
use hccl::{Backend, Error, Partition};
use hccl_tests::without_extensions;

const RANKS: u32 = 8;
/// Long enough for whatever ends by itself.
const LONG: Duration = Duration::from_secs(60);
/// For what cannot come yet.
const SHORT: Duration = Duration::from_millis(50);

fn both(test: impl Fn(&Runtime)) {
    let small = Runtime::emulator_builder().devices(RANKS as usize).memory(64 << 20);
    for runtime in [small.build().unwrap(), without_extensions()] {
        runtime.set_deadline(LONG);
        test(&runtime);
    }
}

fn making(runtime: &Runtime, rank: u32, ranks: u32, root: &RootInfo) -> Pending<Communicator> {
    let builder = Communicator::builder().runtime(runtime).rank(rank);
    builder.world_size(ranks).root_info(root).build()
}

/// A life: everything that meets other ranks, for the first time.
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
    world.batch().send(&own, next).recv(&mut from_last, last).submit(&stream)?.await?;
    found.extend(from_last.to_vec(&stream).await?);

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
        let mut expected = vec![28, (rank + 7) % 8, 6 + rank % 2];
        expected.extend((rank == 2).then_some(5));
        assert_eq!(found.unwrap(), expected, "rank {rank}");
    }
}

fn root(runtime: &Runtime) -> RootInfo {
    RootInfo::new(&runtime.device(0).unwrap()).unwrap()
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

/// Waits for `future` on a thread that has nothing else to do; `None` when it was not ready after [`SHORT`].
fn within<T>(future: impl Future<Output = T>) -> Option<T> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    tokio.block_on(async { tokio::time::timeout(SHORT, future).await.ok() })
}

#[test]
fn time_limits_of_the_executor_fire_while_a_rank_builds_links_and_waits() {
    both(|runtime| {
        let (first, root) = (runtime.device(0).unwrap(), root(runtime));
        let stream = first.stream().unwrap();
        let mut building = making(runtime, 0, 2, &root);
        assert!(within(&mut building).is_none(), "rank 1 has not come");
        let second = making(runtime, 1, 2, &root);
        let mut comms = [building.wait().unwrap(), second.wait().unwrap()];

        let [zero, one] = &mut comms;
        let other = runtime.device(1).unwrap().stream().unwrap();
        let mut x = first.upload(&[1], &stream).unwrap();
        let mut y = runtime.device(1).unwrap().upload(&[2], &other).unwrap();
        for what in ["links", "the operation"] {
            let mut work = zero.all_reduce_in_place(&mut x, Sum, &stream).unwrap();
            assert!(within(&mut work).is_none(), "{what}: rank 1 has not come");
            let theirs = one.all_reduce_in_place(&mut y, Sum, &other).unwrap();
            futures::executor::block_on(async { futures::try_join!(work, theirs) }).unwrap();
        }
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [6]);
    });
}

#[test]
fn an_operation_that_nobody_awaits_any_more_goes_on() {
    both(|runtime| {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let root = root(runtime);
        let rank = async |me: u32| -> hccl::Result<Vec<i32>> {
            let mut comm = making(runtime, me, 2, &root).await?;
            let stream = comm.device().stream()?;
            let mut x = comm.device().upload(&[1], &stream)?;
            if me == 1 {
                tokio::time::sleep(SHORT).await;
            }
            let work = comm.all_reduce_in_place(&mut x, Sum, &stream)?;
            tokio::select! {
                outcome = work => outcome?,
                () = tokio::time::sleep(SHORT / 5) => {}
            }
            comm.barrier(&stream)?.await?;
            x.to_vec(&stream).await
        };
        let sums = tokio.block_on(async { tokio::try_join!(rank(0), rank(1)) });
        assert_eq!(sums.unwrap(), (vec![2], vec![2]));
    });
}

/// Two ranks of which the second one issues when it is told.
fn late(runtime: &Runtime, test: impl FnOnce([Communicator; 2], [Stream; 2])) {
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let comms = Communicator::init_all(&devices).wait().unwrap();
    let streams = devices.map(|device| device.stream().unwrap());
    test(<[_; 2]>::try_from(comms).unwrap(), streams);
}

#[test]
fn what_is_behind_a_first_operation_on_its_stream_waits_for_it_and_nothing_else_does() {
    both(|runtime| {
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let device = zero.device().clone();
            let mut x = device.upload(&[1], &stream).unwrap();
            let first = zero.all_reduce_in_place(&mut x, Sum, &stream).unwrap();
            let mut copy = device.zeros::<i32>(1, &stream).unwrap();
            let behind = copy.copy_from(&x, &stream).unwrap();
            let second = zero.all_reduce_in_place(&mut copy, Sum, &stream).unwrap();
            // Another stream of the device goes on.
            let aside = device.stream().unwrap();
            let y = device.upload(&[7], &aside).unwrap();
            assert_eq!(y.to_vec(&aside).wait().unwrap(), [7]);
            assert!(!first.is_done() && !behind.is_done() && !second.is_done());
            let mut z = one.device().upload(&[2], &other).unwrap();
            one.all_reduce_in_place(&mut z, Sum, &other).unwrap();
            one.all_reduce_in_place(&mut z, Sum, &other).unwrap();
            second.wait().unwrap();
            assert_eq!(x.to_vec(&stream).wait().unwrap(), [3]);
            assert_eq!(copy.to_vec(&stream).wait().unwrap(), [6]);
        });
    });
}

#[test]
fn a_first_operation_keeps_its_tables_and_its_memory() {
    both(|runtime| {
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let parts = |counts: [usize; 2]| Partition::packed(counts).unwrap();
            let received = {
                let send = zero.device().upload(&[1, 2, 3], &stream).unwrap();
                let room = zero.device().alloc::<i32>(3).unwrap();
                let (sent, come) = (parts([1, 2]), parts([1, 2]));
                let (received, work) =
                    zero.all_to_all_v(&send, &sent, room, &come, &stream).unwrap();
                drop(work);
                received
            };
            let send = one.device().upload(&[4, 5, 6, 7], &other).unwrap();
            let mut theirs = one.device().zeros::<i32>(4, &other).unwrap();
            one.all_to_all_v(&send, &parts([2, 2]), &mut theirs, &parts([2, 2]), &other).unwrap();
            assert_eq!(received.to_vec(&stream).wait().unwrap(), [1, 4, 5]);
            assert_eq!(theirs.to_vec(&other).wait().unwrap(), [2, 3, 6, 7]);
        });
    });
}

#[test]
fn what_is_wrong_with_a_first_operation_comes_with_its_work() {
    both(|runtime| {
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let mut x = zero.device().upload(&[1.0f32; 4], &stream).unwrap();
            let mut y = one.device().upload(&[1.0f32; 4], &other).unwrap();
            let works = [
                zero.all_reduce_in_place(&mut x, Sum, &stream).unwrap(),
                one.broadcast(&mut y, 0, &other).unwrap(),
            ];
            for work in works {
                let text = work.wait().unwrap_err().to_string();
                assert!(text.contains("HcclAllReduce") && text.contains("HcclBroadcast"), "{text}");
            }
        });
        // Nobody has the work: then the next call of the stream says it.
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let mut x = zero.device().upload(&[1.0f32; 4], &stream).unwrap();
            drop(zero.all_reduce_in_place(&mut x, Sum, &stream).unwrap());
            drop(one.barrier(&other).unwrap());
            for stream in [&stream, &other] {
                let text = stream.synchronize().unwrap_err().to_string();
                assert!(text.contains("HcclAllReduce") && text.contains("HcclBarrier"), "{text}");
            }
        });
    });
}

#[test]
fn a_call_that_fails_leaves_the_order_of_its_stream() {
    both(|runtime| {
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let (go_on, wait) = std::sync::mpsc::channel::<()>();
            let before = stream.host_fn(move || wait.recv().unwrap()).unwrap();
            let mut x = zero.device().upload(&[1.0f32; 4], &stream).unwrap();
            let work = zero.all_reduce_in_place(&mut x, Sum, &stream).unwrap();
            let theirs = one.barrier(&other).unwrap();
            assert!(theirs.wait().is_err(), "the two differ");
            // The call of the first rank has failed, too, and what is before it still runs.
            assert!(!work.is_done() && !before.is_done());
            go_on.send(()).unwrap();
            assert!(work.wait().is_err());
            assert_eq!(x.to_vec(&stream).wait().unwrap(), [1.0; 4]);
        });
    });
}

#[test]
fn what_a_first_operation_has_held_is_free_when_it_is_complete() {
    both(|runtime| {
        let device = runtime.device(0).unwrap();
        let stream = device.stream().unwrap();
        let free = || {
            drop(device.alloc::<u8>(1));
            device.memory_info().unwrap().free
        };
        let before = free();
        for round in 0..3 {
            let root = root(runtime);
            let config = CommConfig::builder().name("same name").build();
            let ranks = [0, 1].map(|rank| {
                let builder = Communicator::builder().runtime(runtime).rank(rank).world_size(2);
                builder.root_info(&root).config(config.clone()).build()
            });
            let mut comms = ranks.map(|rank| rank.wait().unwrap());
            let other = comms[1].device().stream().unwrap();
            let mut x = device.zeros::<u8>(1 << 20, &stream).unwrap();
            let mut y = comms[1].device().zeros::<u8>(1 << 20, &other).unwrap();
            drop(comms[0].broadcast(&mut x, 1, &stream).unwrap());
            comms[1].broadcast(&mut y, 1, &other).unwrap().wait().unwrap();
            drop((x, comms));
            let until = std::time::Instant::now() + LONG;
            while before - free() >= 1 << 20 {
                assert!(std::time::Instant::now() < until, "round {round}: memory is held");
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_capture_refuses_what_has_no_links_and_names_the_remedy() {
    both(|runtime| {
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let capture = zero.device().begin_capture().unwrap();
            let error = zero.barrier(&capture).unwrap_err();
            assert!(matches!(error, Error::Refused { .. }), "{error:?}");
            assert!(error.to_string().contains("await `connect`"), "{error}");
            let pending = [zero.connect(), one.connect()];
            for pending in pending {
                pending.wait().unwrap();
            }
            let theirs = one.device().begin_capture().unwrap();
            zero.barrier(&capture).unwrap();
            one.barrier(&theirs).unwrap();
            let mut graphs = [capture.end().unwrap(), theirs.end().unwrap()];
            let [mine, theirs] = &mut graphs;
            let replayed = mine.replay(&stream).unwrap();
            theirs.replay(&other).unwrap();
            replayed.wait().unwrap();
        });
    });
}

#[test]
fn first_operations_in_another_order_on_another_device_come_to_an_end() {
    both(|runtime| {
        let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
        let mut pairs = [(); 2].map(|()| Communicator::init_all(&devices).wait().unwrap());
        let mut works = Vec::new();
        for (rank, device) in devices.iter().enumerate() {
            for at in [rank, 1 - rank] {
                let stream = device.stream().unwrap();
                works.push(pairs[at][rank].barrier(&stream).unwrap());
            }
        }
        works.iter().for_each(|work| work.wait().unwrap());
    });
}

#[test]
fn a_communicator_that_nobody_awaits_any_more_is_made_and_dropped_and_its_peers_are_told() {
    both(|runtime| {
        let root = root(runtime);
        drop(making(runtime, 0, 2, &root));
        let mut comm = making(runtime, 1, 2, &root).wait().unwrap();
        // Without the optional entries nobody can be told.
        if runtime.backend() == Backend::Emulator {
            let stream = comm.device().stream().unwrap();
            let text = comm.barrier(&stream).unwrap().wait().unwrap_err().to_string();
            assert!(text.contains("rank 0") && text.contains("dropped"), "{text}");
        }
    });
}
