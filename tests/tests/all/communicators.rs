//! Communicators: order across streams, end of life, abort, and mistakes that are found before the
//! call.

use std::time::{Duration, Instant};

use ascend_emulator_testing::barrier::Barrier;
use ascend_sys::{Api, Functions};
use hccl::prelude::*;
use hccl_tests::{Devices, both_backends, own_devices, products, runtime_with, without_extensions};

#[test]
fn drop_communicator_in_flight() {
    both_backends(|runtime| {
        let gate = Barrier::new(2);
        let sums = runtime.run_ranks(2, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            // The links exist, so the next call returns before the peer has made its own call.
            comm.barrier(&stream)?.wait()?;
            let mut x = rank.device().upload(&vec![1i32; 50_000], &stream)?;
            if rank.index() == 1 {
                gate.wait();
            }
            drop(comm.all_reduce_in_place(&mut x, Sum, &stream)?);
            let since = Instant::now();
            drop(comm);
            // A wait would last until the deadline, which is a minute.
            assert!(since.elapsed() < Duration::from_secs(30), "drop must not wait for the peer");
            if rank.index() == 0 {
                gate.wait();
            }
            x.to_vec(&stream).wait()
        });
        assert!(sums.unwrap().iter().flatten().all(|&x| x == 2));
    });
}

#[test]
fn forget_communicator_in_flight() {
    both_backends(|runtime| {
        let sums = runtime.run_ranks(2, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let mut x = rank.device().upload(&vec![1i32; 50_000], &stream)?;
            std::mem::forget(comm.all_reduce_in_place(&mut x, Sum, &stream)?);
            std::mem::forget(comm);
            x.to_vec(&stream).wait()
        });
        assert!(sums.unwrap().iter().flatten().all(|&x| x == 2));
    });
}

/// Runs long and short operations in turn on two streams, which only the communicator connects.
#[test]
fn operations_on_two_streams_are_ordered() {
    both_backends(|runtime| {
        runtime
            .run_ranks(2, |rank| -> hccl::Result<()> {
                let streams = [rank.device().stream()?, rank.device().stream()?];
                let mut comm = rank.communicator()?;
                let mut large = rank.device().upload(&vec![1i64; 200_000], &streams[0])?;
                let mut small = rank.device().upload(&[1i64], &streams[1])?;
                for _ in 0..10 {
                    drop(comm.all_reduce_in_place(&mut large, Sum, &streams[0])?);
                    drop(comm.all_reduce_in_place(&mut small, Sum, &streams[1])?);
                }
                assert_eq!(small.to_vec(&streams[1]).wait()?, [1024]);
                assert!(large.to_vec(&streams[0]).wait()?.iter().all(|&x| x == 1024));
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn nothing_is_an_operation_too() {
    both_backends(|runtime| {
        runtime
            .run_ranks(2, |rank| -> hccl::Result<()> {
                let stream = rank.device().stream()?;
                let mut comm = rank.communicator()?;
                let peer = 1 - comm.rank();
                for _ in 0..3 {
                    let mut nothing = rank.device().zeros::<f32>(0, &stream)?;
                    comm.all_reduce_in_place(&mut nothing, Max, &stream)?.wait()?;
                    comm.broadcast(&mut nothing, 1, &stream)?.wait()?;
                    let source = rank.device().zeros::<f32>(0, &stream)?;
                    let batch = comm.batch().send(&source, peer).recv(&mut nothing, peer);
                    batch.submit(&stream)?.wait()?;
                    comm.batch().submit(&stream)?.wait()?;
                    let mut one = rank.device().upload(&[1.0f32], &stream)?;
                    comm.all_reduce_in_place(&mut one, Sum, &stream)?.wait()?;
                    assert_eq!(one.to_vec(&stream).wait()?, [2.0]);
                }
                Ok(())
            })
            .unwrap();
    });
}

#[test]
fn a_lone_operation_of_nothing_is_a_mismatch_on_both_ranks() {
    for linked in [false, true] {
        let runtime = runtime_with(2);
        let texts = runtime.run_ranks(2, |rank| -> hccl::Result<String> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            if linked {
                comm.barrier(&stream)?.wait()?;
            }
            let length = 3 * rank.index() as usize;
            let mut x = rank.device().zeros::<f32>(length, &stream)?;
            let outcome =
                comm.all_reduce_in_place(&mut x, Sum, &stream).and_then(|work| work.wait());
            Ok(outcome.unwrap_err().to_string())
        });
        for text in texts.unwrap() {
            for piece in ["rank 0: all_reduce(f32, 0, sum)", "rank 1: all_reduce(f32, 3, sum)"] {
                assert!(text.contains(piece), "{piece} is not in: {text}");
            }
        }
    }
}

#[test]
fn without_the_entry_the_operation_of_the_others_pairs_with_the_next_one() {
    let runtime = without_extensions();
    let sums = runtime.run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        comm.barrier(&stream)?.wait()?;
        if rank.index() == 0 {
            let mut nothing = rank.device().zeros::<f32>(0, &stream)?;
            comm.all_reduce_in_place(&mut nothing, Sum, &stream)?.wait()?;
        }
        let mut one = rank.device().upload(&[1.0f32], &stream)?;
        comm.all_reduce_in_place(&mut one, Sum, &stream)?.wait()?;
        one.to_vec(&stream).wait()
    });
    assert_eq!(sums.unwrap(), [[2.0], [2.0]]);
}

#[test]
fn abort_ends_an_operation_in_flight() {
    let runtime = runtime_with(2);
    let gate = Barrier::new(2);
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            comm.barrier(&stream)?.wait()?;
            gate.wait();
            if rank.index() == 1 {
                // This rank never issues its half of the operation.
                gate.wait();
                return Ok(());
            }
            let work = comm.barrier(&stream)?;
            let aborted = comm.abort_handle().abort();
            let outcome = work.wait_timeout(Duration::from_secs(20));
            let later = comm.barrier(&stream);
            // The gate opens only now, so that a failure does not leave the other rank waiting.
            gate.wait();
            aborted?;
            assert!(outcome.is_err_and(|error| !error.is_timeout()));
            says(&later.unwrap_err().to_string(), &["barrier #3", "aborted"]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn abort_handle_outlives_its_communicator() {
    let runtime = runtime_with(1);
    let handle = runtime
        .run_ranks(1, |rank| Ok::<_, hccl::Error>(rank.communicator()?.abort_handle()))
        .unwrap()
        .remove(0);
    handle.abort().unwrap();
    handle.abort().unwrap();
    assert!(handle.is_aborted());
}

#[test]
fn communicators_are_send_and_sync() {
    fn both<T: Send + Sync>() {}
    both::<Communicator>();
    both::<Communicator<Suspended>>();
    both::<AbortHandle>();
    both::<RootInfo>();
    both::<Rank>();
}

/// Runs the future of two operations on another thread than the one that made it.
#[test]
fn a_future_that_holds_a_communicator_goes_to_another_thread() {
    async fn two(mut comm: Communicator, stream: &Stream) -> hccl::Result<()> {
        comm.barrier(stream)?.await?;
        comm.barrier(stream)?.await
    }
    let runtime = runtime_with(2);
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let future = two(rank.communicator()?, &stream);
            std::thread::scope(|scope| {
                scope.spawn(|| futures::executor::block_on(future)).join().unwrap()
            })
        })
        .unwrap();
}

/// Runs a mistake on the only rank of a communicator, and returns the text of the error. Checks
/// that the communicator still works afterwards.
fn refused(
    mistake: impl Fn(&mut Communicator, &Device, &Stream) -> Option<hccl::Error> + Sync,
) -> String {
    let runtime = runtime_with(1);
    let texts = runtime.run_ranks(1, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator_with(CommConfig::builder().name("world").build())?;
        comm.barrier(&stream)?.wait()?;
        let error = mistake(&mut comm, rank.device(), &stream).expect("it must be refused");
        // A refused operation takes no number and harms nothing.
        comm.barrier(&stream)?.wait()?;
        Ok::<_, hccl::Error>(error.to_string())
    });
    texts.unwrap().remove(0)
}

#[track_caller]
fn says(text: &str, phrases: &[&str]) {
    for phrase in phrases {
        assert!(text.contains(phrase), "`{phrase}` is missing in: {text}");
    }
}

#[test]
fn lengths_must_agree() {
    let text = refused(|comm, device, stream| {
        let x = device.zeros::<f32>(8, stream).unwrap();
        let mut y = device.zeros::<f32>(7, stream).unwrap();
        comm.all_reduce(&x, &mut y, Sum, stream).err()
    });
    says(&text, &["all_reduce #2", "on `world` (rank 0 of 1)", "8", "7"]);
}

#[test]
fn a_refused_destination_comes_back() {
    let text = refused(|comm, device, stream| {
        let x = device.zeros::<f32>(8, stream).unwrap();
        let y = device.alloc::<f32>(7).unwrap();
        let refused = comm.all_reduce(&x, y, Sum, stream).err()?;
        assert_eq!(refused.buffer.as_ref().map(|buffer| buffer.len()), Some(7));
        Some(refused.into())
    });
    says(&text, &["all_reduce #2", "8", "7"]);
}

#[test]
fn the_root_must_exist() {
    let text = refused(|comm, device, stream| {
        let mut x = device.zeros::<f32>(8, stream).unwrap();
        comm.broadcast(&mut x, 1, stream).err()
    });
    says(&text, &["broadcast #2", "on `world` (rank 0 of 1)", "root", "1"]);
}

#[test]
fn buffers_must_be_on_the_device() {
    let other = runtime_with(2);
    let elsewhere = other.device(1).unwrap();
    let text = refused(|comm, _, stream| {
        let foreign = elsewhere.stream().unwrap();
        let mut x = elsewhere.zeros::<f32>(8, &foreign).unwrap();
        comm.all_reduce_in_place(&mut x, Sum, stream).err()
    });
    says(&text, &["all_reduce", "another Runtime"]);
    let text = refused(|comm, _, _| {
        let foreign = elsewhere.stream().unwrap();
        comm.barrier(&foreign).err()
    });
    says(&text, &["barrier", "another Runtime"]);
}

#[test]
fn types_are_checked_by_product() {
    let text = refused(|comm, device, stream| {
        let mut x = device.zeros::<f64>(8, stream).unwrap();
        comm.all_reduce_in_place(&mut x, Sum, stream).err()
    });
    says(&text, &["all_reduce #2", "f64", "sum", "A3", "f32"]);
}

#[test]
fn batches_are_checked_by_name() {
    let text = refused(|comm, device, stream| {
        let x = device.zeros::<f32>(8, stream).unwrap();
        comm.batch().send(&x, 3).submit(stream).err()
    });
    says(&text, &["batch", "item 0", "rank 3", "on `world`", "1 rank"]);
    let text = refused(|comm, device, stream| {
        let x = device.zeros::<f32>(8, stream).unwrap();
        comm.batch().send(&x, 0).send(&x, 0).submit(stream).err()
    });
    says(&text, &["batch", "items 0 and 1", "send to rank 0"]);
    let text = refused(|comm, device, stream| {
        let x = device.zeros::<f32>(8, stream).unwrap();
        comm.batch().send(&x, 0).submit(stream).err()
    });
    says(&text, &["batch", "item 0", "counterpart is missing"]);
}

#[test]
fn settings_are_checked_before_the_call() {
    let runtime = runtime_with(1);
    let device = runtime.device(0).unwrap();
    let root = RootInfo::new(&device).unwrap();
    let build = |rank, config| {
        Communicator::builder()
            .runtime(&runtime)
            .rank(rank)
            .world_size(1)
            .root_info(&root)
            .config(config)
            .build()
            .wait()
    };
    let error = build(0, CommConfig::builder().buffer_mib(0).build()).unwrap_err().to_string();
    says(&error, &["buffer_mib", "0", "at least 1"]);
    let error = build(1, CommConfig::default()).unwrap_err().to_string();
    says(&error, &["rank", "1"]);
    build(0, CommConfig::default()).unwrap();
}

#[test]
fn a_communicator_of_somebody_else_is_used_and_left_alone() {
    both_backends(|runtime| {
        let sums = runtime.run_ranks(2, |rank| {
            let stream = rank.device().stream()?;
            let mut theirs = rank.communicator()?;
            theirs.barrier(&stream)?.wait()?;
            let mut x = rank.device().upload(&[1i32], &stream)?;
            for _ in 0..2 {
                // SAFETY: `theirs` lives longer, and issues nothing until the operations here are
                // complete.
                let mut comm = unsafe { Communicator::from_raw(rank.device(), theirs.as_raw())? };
                assert_eq!((comm.rank(), comm.world_size()), (rank.index(), 2));
                assert_eq!(comm.name(), theirs.name());
                comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
            }
            // This call would destroy dropped communicators.
            rank.device().memory_info()?;
            theirs.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
            x.to_vec(&stream).wait()
        });
        assert_eq!(sums.unwrap(), [[8], [8]]);
    });
    let device = runtime_with(1).device(0).unwrap();
    // SAFETY: null is refused before anything is called with it.
    let none = unsafe { Communicator::from_raw(&device, std::ptr::null_mut()) };
    assert!(none.is_err());
}

#[test]
fn init_all_makes_one_communicator_for_each_device() {
    let runtime = runtime_with(3);
    let devices: Vec<Device> = (0..3).map(|i| runtime.device(i).unwrap()).collect();
    let comms = Communicator::init_all(&devices).wait().unwrap();
    std::thread::scope(|scope| {
        for mut comm in comms {
            scope.spawn(move || {
                let stream = comm.device().stream().unwrap();
                let mut x = comm.device().upload(&[comm.rank() as i32], &stream).unwrap();
                comm.all_reduce_in_place(&mut x, Sum, &stream).unwrap().wait().unwrap();
                assert_eq!(x.to_vec(&stream).wait().unwrap(), [3]);
            });
        }
    });
    assert!(Communicator::init_all(&[]).wait().is_err());
    assert!(Communicator::init_all(&[devices[0].clone(), devices[0].clone()]).wait().is_err());
}

#[test]
fn a_suspended_communicator_goes_on_after_it_has_resumed() {
    // The A3 confirms with a code that means success, and the A2 with the code 0.
    for product in products().into_iter().filter(|&it| it != Product::Ascend950) {
        let runtime = Devices::new(2).product(product).runtime();
        let sums = runtime.run_ranks(2, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator_with(CommConfig::builder().name("world").build())?;
            let mut x = rank.device().upload(&[1i32; 4], &stream)?;
            comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
            let suspended = comm.suspend()?;
            assert_eq!((suspended.name(), suspended.rank()), ("world", rank.index()));
            let mut comm = suspended.resume()?;
            let work = comm.all_reduce_in_place(&mut x, Sum, &stream)?;
            work.wait()?;
            x.to_vec(&stream).wait()
        });
        assert_eq!(sums.unwrap(), [[4; 4], [4; 4]]);
    }
}

#[test]
fn a_product_that_does_not_suspend_gives_the_communicator_back() {
    let runtime = own_devices().devices(1).product(Product::Ascend950).build().unwrap();
    runtime
        .run_ranks(1, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let Err(refused) = rank.communicator()?.suspend() else { panic!("it has suspended") };
            says(&refused.to_string(), &["HcclCommSuspend", "HCCL_E_NOT_SUPPORT"]);
            let mut comm = refused.communicator;
            comm.barrier(&stream)?.wait()
        })
        .unwrap();
}

#[test]
fn a_communicator_that_does_not_resume_stays_suspended() {
    let table = Functions { HcclCommResume: None, ..ascend_emulator::table() };
    // SAFETY: the remaining functions of the emulator's table do what CANN documents.
    let runtime = Runtime::from_api(unsafe { Api::from_table(table) }).unwrap();
    let comm = Communicator::init_all(&[runtime.device(0).unwrap()]).wait().unwrap().remove(0);
    let suspended: Communicator<Suspended> = comm.suspend().unwrap();
    let Err(refused) = suspended.resume() else { panic!("it has resumed") };
    assert!(matches!(refused.error, hccl::Error::MissingSymbol { .. }), "{refused}");
    let still: Communicator<Suspended> = refused.communicator;
    assert_eq!(still.world_size(), 1);
}

/// Checks failures that are older than the last 64 of a stream. The emulator has lost their
/// details, but none counts as a success.
#[test]
fn more_failures_than_the_backend_remembers_are_failures_all_the_same() {
    const MANY: usize = 100;
    let runtime = runtime_with(2);
    let gate = Barrier::new(2);
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator_with(CommConfig::builder().name("world").build())?;
            let well = comm.barrier(&stream)?;
            well.wait()?;
            gate.wait();
            if rank.index() == 1 {
                // This rank never issues its half of the operation.
                gate.wait();
                return Ok(());
            }
            let issued: hccl::Result<Vec<Work>> =
                (0..MANY).map(|_| comm.barrier(&stream)).collect();
            let aborted = comm.abort_handle().abort();
            // Before the last work is complete, a wait may end because of the abort alone.
            let last = issued.as_ref().ok().and_then(|works| works.last());
            while last.is_some_and(|work| !work.is_done()) {
                std::thread::yield_now();
            }
            let synchronised = stream.synchronize();
            // The gate opens only now, so that a failure does not leave the other rank waiting.
            gate.wait();
            let works = issued?;
            aborted?;
            synchronised.unwrap_err();
            for (at, work) in works.iter().enumerate() {
                let error = work.wait().unwrap_err();
                let forgotten = matches!(error, hccl::Error::Forgotten { .. });
                assert_eq!(forgotten, at < MANY - 64, "{at}: {error}");
                if !forgotten {
                    says(&error.to_string(), &[&format!("arrier #{} ", at + 2), "world", "rank 0"]);
                }
            }
            well.wait()?;
            // The stream continues without the communicator.
            while stream.synchronize().is_err() {}
            rank.device().zeros::<u8>(1, &stream)?.fill_zero(&stream)?.wait()
        })
        .unwrap();
}
