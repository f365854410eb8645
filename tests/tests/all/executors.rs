//! Ranks as tasks: an awaited operation never holds the thread of its executor.
//!
//! If a call blocked, the peers for which it waits would have no thread, and the test would end at
//! a time limit.

mod lives;

use std::future::Future;
use std::time::{Duration, Instant};

use ascend_emulator_testing::alone;
use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use half::f16;
use hccl::operator::Operator;
use hccl::prelude::*;
use hccl::{Backend, Error, Partition};
use hccl_examples::kernels::vadd;
use hccl_tests::{Devices, both_with, from_the_left, own_devices, runtime_with};

const RANKS: u32 = 8;
/// A limit that is long enough for everything that ends by itself.
const LONG: Duration = Duration::from_secs(60);
/// The time limit for a completion that cannot come yet.
const SHORT: Duration = Duration::from_millis(50);

fn both(test: impl Fn(&Runtime)) {
    both_with(Devices::new(RANKS as usize).memory(64 << 20), LONG, test);
}

fn making(runtime: &Runtime, rank: u32, ranks: u32, root: &RootInfo) -> Pending<Communicator> {
    let builder = Communicator::builder().runtime(runtime).rank(rank);
    // The devices of these tests have little memory.
    let config = CommConfig::builder().buffer_mib(1).build();
    builder.world_size(ranks).root_info(root).config(config).build()
}

fn root(runtime: &Runtime) -> RootInfo {
    RootInfo::new(&runtime.device(0).unwrap()).unwrap()
}

/// Waits for `future` on a thread that has nothing else to do. Returns `None` if it is not ready
/// after [`SHORT`].
fn within<T>(future: impl Future<Output = T>) -> Option<T> {
    within_limit(SHORT, future)
}

fn within_limit<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut future = std::pin::pin!(future);
    // A limit fires late if the thread is in a poll at that time. A poll that blocks delays it in
    // every try, but a poll during which another program takes the core does not.
    for _ in 0..20 {
        let (since, mut polls) = (Instant::now(), Duration::ZERO);
        let measured = std::future::poll_fn(|context| {
            let before = Instant::now();
            let outcome = future.as_mut().poll(context);
            polls += before.elapsed();
            outcome
        });
        let outcome = tokio.block_on(async { tokio::time::timeout(limit, measured).await.ok() });
        if outcome.is_some() || polls < since.elapsed() / 2 {
            return outcome;
        }
    }
    panic!("its polls take the whole time, again and again");
}

/// An operation that one rank begins at once and the other rank later.
type Begin<'a> = &'a dyn Fn(&mut Communicator, &Stream) -> BoxFuture<'static, hccl::Result<()>>;

#[test]
fn time_limits_fire_whatever_is_awaited() {
    // `subset` is missing, because CANN waits for no other rank in it.
    let begin: [(&str, Begin); 5] = [
        ("split", &|comm, _| comm.split(Some(0), 0).map_ok(drop).boxed()),
        ("connect_to", &|comm, _| comm.connect_to(&[1 - comm.rank()]).boxed()),
        ("an operator", &|comm, stream| {
            let device = comm.device().clone();
            let x = device.upload(&[1], stream).unwrap();
            let mut y = device.zeros::<i32>(1, stream).unwrap();
            let shift = Operator::other("shift", 1, 1, from_the_left);
            comm.run(&shift).input(&x).output(&mut y).submit(stream).unwrap().boxed()
        }),
        ("connect", &|comm, _| comm.connect().boxed()),
        ("a replay", &|comm, stream| {
            let capture = comm.device().begin_capture().unwrap();
            comm.barrier(&capture).unwrap();
            capture.end().unwrap().replay(stream).unwrap().boxed()
        }),
    ];
    both(|runtime| {
        let root = root(runtime);
        let pending = [0, 1].map(|rank| making(runtime, rank, 2, &root));
        let [mut zero, mut one] = pending.map(|pending| pending.wait().unwrap());
        let (stream, other) = (zero.device().stream().unwrap(), one.device().stream().unwrap());
        for (name, begin) in begin {
            let mut first = begin(&mut zero, &stream);
            let early = within(&mut first);
            assert!(early.is_none(), "{name}: rank 1 has not come: {early:?}");
            let second = begin(&mut one, &other);
            let outcome = within_limit(LONG, async { futures::try_join!(first, second) });
            outcome.expect(name).unwrap();
        }
    });
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

/// Calls `test` with two ranks and their streams. The second rank issues only when the test does
/// so.
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
            // Another stream of the device continues.
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
fn a_replay_follows_first_operations_in_the_order_of_the_program() {
    both(|runtime| {
        for _ in 0..5 {
            let found = runtime.run_ranks(4, |rank| -> hccl::Result<_> {
                let (device, me) = (rank.device(), rank.index());
                let stream = device.stream()?;
                let config = CommConfig::builder().buffer_mib(1).build();
                let mut comm = rank.communicator_with(config)?;
                comm.connect().wait()?;
                let mut word = device.upload(&[me], &stream)?;
                let capture = device.begin_capture()?;
                comm.broadcast(&mut word, 2, &capture)?;
                let mut graph = capture.end()?;
                // Two operations without links follow each other, and the replay follows them.
                let x = device.upload(&[me], &stream)?;
                let (mut y, mut z) = (device.zeros::<u32>(1, &stream)?, device.zeros(1, &stream)?);
                comm.batch().send(&x, (me + 1) % 4).recv(&mut y, (me + 3) % 4).submit(&stream)?;
                let shift = Operator::other("shift", 1, 1, from_the_left);
                comm.run(&shift).input(&y).output(&mut z).submit(&stream)?;
                graph.replay(&stream)?;
                drop(graph);
                comm.barrier(&stream)?.wait()?;
                Ok([z.to_vec(&stream).wait()?, word.to_vec(&stream).wait()?].concat())
            });
            assert_eq!(found.unwrap(), [[2, 2], [3, 2], [0, 2], [1, 2]]);
        }
    });
}

#[test]
fn an_operator_whose_peer_opens_no_channel_fails_with_its_work_when_that_one_leaves() {
    let runtime = runtime_with(2);
    late(&runtime, |[mut zero, one], [stream, _]| {
        // Rank 1 does not take part.
        let lonely = Operator::other("lonely", 1, 1, |op, main| {
            let access = main.enter(op.channel(op.peer(1)));
            main.leave(access);
        });
        let device = zero.device().clone();
        let x = device.upload(&[1], &stream).unwrap();
        let mut y = device.zeros::<i32>(1, &stream).unwrap();
        let run = zero.run(&lonely).input(&x).output(&mut y).submit(&stream).unwrap();
        assert!(!run.is_done());
        drop(one);
        let error = run.wait().unwrap_err();
        assert_eq!(error.context().map(|context| context.operation), Some("lonely"), "{error}");
        assert!(
            error.to_string().contains("rank 1 is gone (it has dropped its communicator)"),
            "{error}"
        );
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
                    zero.all_to_all_v(&send, room, &sent, &come, &stream).unwrap();
                drop(work);
                received
            };
            let send = one.device().upload(&[4, 5, 6, 7], &other).unwrap();
            let mut theirs = one.device().zeros::<i32>(4, &other).unwrap();
            one.all_to_all_v(&send, &mut theirs, &parts([2, 2]), &parts([2, 2]), &other).unwrap();
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
                for name in [["HcclAllReduce", "all_reduce("], ["HcclBroadcast", "broadcast("]] {
                    assert!(name.iter().any(|name| text.contains(name)), "{text}");
                }
            }
        });
        // A buffer that was passed by value is returned.
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let x = zero.device().upload(&[1.0f32; 4], &stream).unwrap();
            let room = zero.device().alloc::<f32>(8).unwrap();
            let (mut all, work) = zero.all_gather(&x, room, &stream).unwrap();
            let theirs = one.barrier(&other).unwrap();
            work.wait().unwrap_err();
            theirs.wait().unwrap_err();
            all.upload(&[3.0; 8], &stream).unwrap();
            assert_eq!(all.to_vec(&stream).wait().unwrap(), [3.0; 8]);
        });
        // If the work was dropped, the next call of the stream returns the error.
        late(runtime, |[mut zero, mut one], [stream, other]| {
            let mut x = zero.device().upload(&[1.0f32; 4], &stream).unwrap();
            drop(zero.all_reduce_in_place(&mut x, Sum, &stream).unwrap());
            drop(one.barrier(&other).unwrap());
            for stream in [&stream, &other] {
                let text = stream.synchronize().unwrap_err().to_string();
                for name in [["HcclAllReduce", "all_reduce("], ["HcclBarrier", "barrier("]] {
                    assert!(name.iter().any(|name| text.contains(name)), "{text}");
                }
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
            // The call of the first rank has failed, too, and earlier work still runs.
            assert!(!work.is_done() && !before.is_done());
            go_on.send(()).unwrap();
            assert!(work.wait().is_err());
            assert_eq!(x.to_vec(&stream).wait().unwrap(), [1.0; 4]);
        });
    });
}

#[test]
fn what_a_first_operation_has_held_is_free_when_it_is_complete() {
    // The test counts the memory of devices, and without optional entries all tests use the same
    // devices.
    alone!(beside);
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
            let until = Instant::now() + LONG;
            while free() + (1 << 20) <= before {
                assert!(Instant::now() < until, "round {round}: memory is held");
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
            let mut x = zero.device().zeros::<i8>(2, &stream).unwrap();
            let refused = |outcome: hccl::Result<hccl::Captured>| {
                let error = outcome.unwrap_err();
                assert!(matches!(error, Error::Refused { .. }), "{error:?}");
                let remedy = "await `connect`, or `connect_to` for messages";
                assert!(error.to_string().contains(remedy), "{error}");
            };
            refused(zero.barrier(&capture));
            refused(zero.broadcast(&mut x, 0, &capture));
            refused(zero.all_reduce_in_place(&mut x, Sum, &capture));
            refused(zero.send(&x, 1, &capture));
            refused(zero.recv(&mut x, 1, &capture));
            refused(zero.batch().send(&x, 1).submit(&capture));
            let both = |pending: [Pending<()>; 2]| pending.map(|pending| pending.wait().unwrap());
            both([zero.connect(), one.connect()]);
            refused(zero.send(&x, 1, &capture));
            both([zero.connect_to(&[1]), one.connect_to(&[0])]);
            let theirs = one.device().begin_capture().unwrap();
            let mut y = one.device().zeros::<i8>(2, &other).unwrap();
            zero.barrier(&capture).unwrap();
            one.barrier(&theirs).unwrap();
            zero.batch().send(&x, 1).submit(&capture).unwrap();
            one.batch().recv(&mut y, 0).submit(&theirs).unwrap();
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
fn communicators_in_another_order_on_another_device_are_made_before_the_time_limit() {
    const MANY: usize = 24;
    let builder = own_devices().devices(2);
    let runtime = builder.connect_timeout(LONG).build().unwrap();
    let roots: Vec<RootInfo> = (0..MANY).map(|_| root(&runtime)).collect();
    let forwards: Vec<_> = roots.iter().map(|root| making(&runtime, 0, 2, root)).collect();
    let backwards: Vec<_> = roots.iter().rev().map(|root| making(&runtime, 1, 2, root)).collect();
    for pending in forwards.into_iter().chain(backwards) {
        pending.wait().unwrap();
    }
}

#[test]
fn a_communicator_that_nobody_awaits_any_more_is_made_and_dropped_and_its_peers_are_told() {
    // Without the optional entries the peers get no report.
    let told = |runtime: &Runtime, comm: &mut Communicator| {
        if runtime.backend() == Backend::Emulator {
            let stream = comm.device().stream().unwrap();
            let text = comm.barrier(&stream).unwrap().wait().unwrap_err().to_string();
            assert!(text.contains("rank 0") && text.contains("dropped"), "{text}");
        }
    };
    both(|runtime| {
        let root = root(runtime);
        drop(making(runtime, 0, 2, &root));
        told(runtime, &mut making(runtime, 1, 2, &root).wait().unwrap());
        late(runtime, |[mut zero, mut one], streams| {
            drop(zero.split(Some(0), 0));
            told(runtime, &mut one.split(Some(0), 0).wait().unwrap().unwrap());
            drop(zero.subset(&[0, 1], 3));
            told(runtime, &mut one.subset(&[0, 1], 3).wait().unwrap().unwrap());
            // The parent communicator still works.
            drop(zero.connect());
            one.connect().wait().unwrap();
            let _theirs = zero.barrier(&streams[0]).unwrap();
            one.barrier(&streams[1]).unwrap().wait().unwrap();
        });
    });
}

#[test]
fn a_rank_that_fails_ends_what_another_rank_awaits() {
    both(|runtime| {
        for on_worker in [false, true] {
            let ended = std::sync::Mutex::new(None);
            let outcome = runtime.run_ranks(2, |rank| -> hccl::Result<()> {
                let mut comm = rank.communicator()?;
                if rank.index() == 1 {
                    // The other rank waits by then. The communicator is forgotten, because dropping
                    // it would end the wait, too.
                    std::thread::sleep(SHORT);
                    std::mem::forget(comm);
                    return Err(Error::Invalid { operation: "test", problem: "as asked".into() });
                }
                let half = comm.split(Some(0), 0);
                // With `on_worker`, the future runs on another thread, as on a worker of an
                // executor.
                let half = match on_worker {
                    false => within_limit(LONG, half),
                    true => std::thread::spawn(|| within_limit(LONG, half)).join().unwrap(),
                };
                *ended.lock().unwrap() = Some(half.map(|half| half.unwrap_err().to_string()));
                Ok(())
            });
            assert!(outcome.unwrap_err().to_string().contains("as asked"));
            let ended = ended.into_inner().unwrap().flatten().expect("it was not ended");
            assert!(ended.contains("rank 1"), "{ended}");
        }
    });
}

/// Checks waits on a thread that is not that of the rank. No dropped communicator reports that a
/// rank is gone.
#[test]
fn a_rank_that_fails_ends_what_the_workers_of_another_rank_await() {
    type Await = fn(Communicator, Rank) -> BoxFuture<'static, hccl::Result<()>>;
    let awaits: [(&str, Await); 4] = [
        ("an operation", |mut comm, rank| {
            async move { comm.barrier(&rank.device().stream()?)?.await }.boxed()
        }),
        ("links", |mut comm, _| async move { comm.connect().await }.boxed()),
        ("a part", |mut comm, _| async move { comm.split(Some(0), 0).await.map(drop) }.boxed()),
        ("a communicator", |_, rank| {
            let root = root(rank.runtime());
            let builder = Communicator::builder().device(rank.device()).rank(0).world_size(2);
            let config = CommConfig::builder().buffer_mib(1).build();
            builder.root_info(&root).config(config).build().map_ok(drop).boxed()
        }),
    ];
    both(|runtime| {
        for (what, begin) in awaits {
            let ended = std::sync::Mutex::new(None);
            let outcome = runtime.run_ranks(2, |rank| -> hccl::Result<()> {
                let config = CommConfig::builder().buffer_mib(1).build();
                let mut comm = rank.communicator_with(config)?;
                comm.connect().wait()?;
                if rank.index() == 1 {
                    std::thread::sleep(SHORT);
                    // Dropping the communicator would report the end of the rank.
                    std::mem::forget(comm);
                    return Err(Error::Invalid { operation: "test", problem: "as asked".into() });
                }
                let mut pool = tokio::runtime::Builder::new_multi_thread();
                let pool = pool.worker_threads(2).enable_time().build().unwrap();
                let awaited = async move { begin(comm, rank).await };
                let limit = async { tokio::time::timeout(LONG / 2, awaited).await };
                let outcome = pool.block_on(pool.spawn(limit)).unwrap();
                *ended.lock().unwrap() = Some(outcome.map(|it| it.unwrap_err().to_string()));
                Ok(())
            });
            assert!(outcome.unwrap_err().to_string().contains("as asked"));
            let ended = ended.into_inner().unwrap().unwrap();
            let text = ended.unwrap_or_else(|_| panic!("{what} was not ended"));
            assert!(text.contains("rank 1"), "{what}: {text}");
        }
    });
}

#[test]
fn a_kernel_that_talks_to_nobody_does_not_wait_for_first_operations() {
    both(|runtime| {
        let root = root(runtime);
        let pending = [0, 1].map(|rank| making(runtime, rank, 2, &root));
        let [mut zero, mut one] = pending.map(|pending| pending.wait().unwrap());
        let device = zero.device().clone();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let mut sum = device.upload(&[1], &stream).unwrap();
        // Rank 1 has not called the operation yet.
        let work = zero.all_reduce_in_place(&mut sum, Sum, &stream).unwrap();
        let mut kernel = vadd::vadd::record().unwrap().load(&device).unwrap();
        let tiling = vadd::VaddTiling { total: 32, tile: 16 };
        let x = device.upload(&[f16::ONE; 32], &other).unwrap();
        let mut z = device.zeros::<f16>(32, &other).unwrap();
        let launch = kernel.launch(1).tiling(&tiling).input(&x).input(&x).output(&mut z);
        launch.submit(&other).unwrap().wait().unwrap();
        assert_eq!(z.to_vec(&other).wait().unwrap(), [f16::from_f32(2.0); 32]);
        assert!(!work.is_done());
        let theirs = one.device().stream().unwrap();
        let mut y = one.device().upload(&[2], &theirs).unwrap();
        one.all_reduce_in_place(&mut y, Sum, &theirs).unwrap();
        work.wait().unwrap();
    });
}

#[test]
fn communicators_that_nobody_awaits_any_more_leave_nothing_behind() {
    // The test counts the memory of devices, as the one above.
    alone!(beside);
    both(|runtime| {
        let devices = [0, 1].map(|index| runtime.device(index).unwrap());
        let free = || devices.each_ref().map(|device| device.memory_info().unwrap().free);
        let meet = |comms: Vec<Communicator>| {
            let mut works = Vec::new();
            for (mut comm, device) in comms.into_iter().zip(&devices) {
                works.push(comm.barrier(&device.stream().unwrap()).unwrap());
            }
            works.iter().for_each(|work| work.wait().unwrap());
        };
        meet(Communicator::init_all(&devices).wait().unwrap());
        let before = free();
        for _ in 0..3 {
            drop(Communicator::init_all(&devices));
        }
        // These operations come after the dropped communicators, whose memory is freed in between.
        meet(Communicator::init_all(&devices).wait().unwrap());
        let since = Instant::now();
        while free() != before {
            assert!(since.elapsed() < LONG, "{:?} of {before:?} are free", free());
            devices.iter().for_each(|device| drop(device.alloc::<u8>(1)));
        }
    });
}
