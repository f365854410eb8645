//! Operators that fail, or whose peers do not take part.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use ascend_emulator_testing::alone;
use ascend_emulator_testing::barrier::Barrier;
use futures::FutureExt;
use hccl::operator::*;
use hccl::prelude::*;
use hccl::{Error, Result};
use hccl_tests::{both_backends, own_devices, runtime_with};

use crate::operators::algorithms::*;

/// Makes an operator in which each rank waits for the other one to expose its buffer, and none
/// does.
fn nobody_exposes() -> Operator {
    Operator::all_reduce("nobody_exposes", Sum, |op, main| {
        main.fork(2, |threads| {
            let [_, sub] = threads.array();
            let access = sub.enter(op.channel(1 - op.rank()));
            sub.read(access.buffer().slice(..op.count()), op.output());
            sub.leave(access);
        });
    })
}

#[test]
fn a_peer_that_never_exposes_its_buffer_is_a_deadlock_that_says_who_waits_for_what() {
    alone!(beside);
    let runtime = runtime_with(2);
    let since = Instant::now();
    let texts = runtime.run_ranks(2, |rank| -> Result<(String, String)> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.zeros::<f32>(4, &stream)?;
        let work = comm.run(&nobody_exposes()).in_place(&mut x).submit(&stream)?;
        let error = work.wait().expect_err("it hangs");
        assert_eq!(error.context().unwrap().operation, "nobody_exposes", "{error}");
        let next = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream);
        Ok((error.to_string(), next.expect_err("notifies may be set").to_string()))
    });
    for (first, next) in texts.unwrap() {
        for piece in ["notify 0", "rank 0", "rank 1", "channel"] {
            assert!(first.contains(piece), "{piece}: {first}");
        }
        assert!(next.contains("the operator `nobody_exposes` #1 has failed"), "{next}");
        assert!(next.contains("build a new one on all ranks"), "{next}");
    }
    assert!(since.elapsed() < Duration::from_secs(60), "it was not noticed");
}

#[test]
fn a_deadline_ends_a_wait_and_the_operator_goes_on() {
    both_backends(|runtime| {
        let (late, gate) = mpsc::sync_channel::<()>(1);
        let gate = std::sync::Mutex::new(gate);
        let sums = runtime.run_ranks(2, |rank| -> Result<Vec<f32>> {
            let (device, stream) = (rank.device(), rank.device().stream()?);
            let mut comm = rank.communicator()?;
            let mut x = device.upload(&[1.0f32; 4], &stream)?;
            // The operator runs once to its end, so that there are channels.
            comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait()?;
            if rank.index() == 1 {
                gate.lock().unwrap().recv().unwrap();
            }
            let work = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?;
            if rank.index() == 0 {
                let error = work.wait_timeout(Duration::from_millis(30)).expect_err("too early");
                assert!(error.is_timeout(), "{error}");
                late.send(()).unwrap();
            }
            work.wait()?;
            x.to_vec(&stream).wait()
        });
        assert_eq!(sums.unwrap(), [[4.0; 4]; 2]);
    });
}

#[test]
fn a_wait_that_is_cancelled_cancels_nothing() {
    let runtime = runtime_with(2);
    let sums = runtime.run_ranks(2, |rank| -> Result<Vec<i32>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.upload(&[1; 1000], &stream)?;
        for _ in 0..5 {
            let mut work = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?;
            // The work is polled once, and dropped.
            let _ = (&mut work).now_or_never();
        }
        x.to_vec(&stream).wait()
    });
    assert_eq!(sums.unwrap(), [[32; 1000]; 2]);
}

#[test]
fn an_abort_ends_an_operator_that_waits() {
    let runtime = runtime_with(2);
    let since = Instant::now();
    let errors = runtime.run_ranks(2, |rank| -> Result<Option<Error>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.zeros::<i32>(4, &stream)?;
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait()?;
        if rank.index() == 1 {
            std::thread::sleep(Duration::from_millis(50));
            comm.abort_handle().abort()?;
            let next = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream);
            return Ok(next.err());
        }
        // On a slow machine the abort may come before this.
        let run = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream);
        Ok(run.and_then(|work| work.wait()).err())
    });
    let errors = errors.unwrap();
    assert!(errors[0].is_some());
    assert!(
        matches!(
            &errors[1],
            Some(Error::Refused { cause, .. }) if matches!(**cause, Error::Aborted { .. })
        ) || matches!(errors[1], Some(Error::Aborted { .. })),
        "{errors:?}"
    );
    assert!(since.elapsed() < Duration::from_secs(60), "it was not noticed");
}

#[test]
fn a_peer_that_is_gone_ends_an_operator_that_waits_for_it() {
    let runtime = runtime_with(2);
    let since = Instant::now();
    let outcome = runtime.run_ranks(2, |rank| -> Result<()> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.zeros::<i32>(4, &stream)?;
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait()?;
        if rank.index() == 1 {
            return Err(Error::Invalid { operation: "test", problem: "it has had enough".into() });
        }
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait()
    });
    let text = outcome.expect_err("rank 1 is gone").to_string();
    assert!(text.contains("it has had enough"), "{text}");
    assert!(since.elapsed() < Duration::from_secs(60), "it was not noticed");
}

#[test]
fn a_stream_may_go_while_its_operator_runs() {
    let runtime = runtime_with(2);
    let sums = runtime.run_ranks(2, |rank| -> Result<Vec<i32>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.upload(&[1; 1000], &stream)?;
        for _ in 0..5 {
            let passing = device.stream()?;
            drop(comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&passing)?);
        }
        x.to_vec(&stream).wait()
    });
    assert_eq!(sums.unwrap(), [[32; 1000]; 2]);
}

#[test]
fn after_a_failure_nothing_is_written_any_more() {
    // Rank 0 does its own part, but rank 1 does not do its part.
    let half = Operator::all_reduce("half", Sum, |op, main| {
        main.fork(2, |threads| {
            let [main, sub] = threads.array();
            if op.rank() == 0 {
                let access = main.enter(op.channel(1));
                main.leave(access);
                for _ in 0..50 {
                    sub.copy(op.input(), op.output());
                }
            } else {
                let _ = (op.channel(0), sub);
            }
        });
    });
    let runtime = runtime_with(2);
    let submitted = Barrier::new(2);
    let left = runtime.run_ranks(2, |rank| -> Result<bool> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let other = device.stream()?;
        let mut comm = rank.communicator()?;
        let x = device.upload(&vec![1.0f32; 1 << 20], &stream)?;
        let mut y = device.zeros::<f32>(1 << 20, &stream)?;
        let work = comm.run(&half).input(&x).output(&mut y).submit(&stream)?;
        submitted.wait();
        if rank.index() == 1 {
            work.wait()?;
            comm.abort_handle().abort()?;
            return Ok(true);
        }
        let _ = work.wait();
        // This is ordered after everything that the operator does, also on another stream.
        y.upload(&vec![2.0; 1 << 20], &other)?.wait()?;
        std::thread::sleep(Duration::from_millis(20));
        Ok(y.to_vec(&other).wait()?.iter().all(|value| *value == 2.0))
    });
    assert_eq!(left.unwrap(), [true; 2]);
}

#[test]
fn a_failure_does_not_let_an_operator_begin_before_what_its_stream_holds() {
    let copies = Operator::all_reduce("copies", Sum, |op, main| {
        main.fork(2, |threads| threads.get(1).copy(op.input(), op.output()));
    });
    let runtime = runtime_with(2);
    let aborted = Barrier::new(2);
    let read = runtime.run_ranks(2, |rank| -> Result<bool> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut gates = rank.communicator()?;
        let mut comm = gates.split(Some(0), rank.index()).wait()?.expect("all are in it");
        gates.connect().wait()?;
        let x = device.upload(&[1.0f32; 100], &stream)?;
        let mut y = device.upload(&[2.0f32; 100], &stream)?;
        if rank.index() == 1 {
            comm.run(&copies).input(&x).output(&mut y).submit(&stream)?.wait()?;
            gates.barrier(&stream)?.wait()?;
            aborted.wait();
            gates.barrier(&stream)?.wait()?;
            return Ok(true);
        }
        comm.run(&copies).input(&x).output(&mut y).submit(&stream)?.wait()?;
        y.upload(&[2.0; 100], &stream)?.wait()?;
        gates.barrier(&stream)?.wait()?;
        // The gate blocks the stream while the communicator fails.
        gates.barrier(&stream)?;
        let before = y.to_vec(&stream);
        let work = comm.run(&copies).input(&x).output(&mut y).submit(&stream)?;
        comm.abort_handle().abort()?;
        aborted.wait();
        let before = before.wait()?;
        assert!(work.wait().is_err(), "its communicator was aborted");
        Ok(before == [2.0; 100])
    });
    assert_eq!(read.unwrap(), [true; 2], "the operator wrote what was still to be read");
}

#[test]
fn an_operator_whose_peer_has_dropped_the_communicator_fails_and_so_does_the_next() {
    let runtime = runtime_with(2);
    let (gone, wait) = mpsc::sync_channel::<()>(1);
    let wait = std::sync::Mutex::new(wait);
    let texts = runtime.run_ranks(2, |rank| -> Result<[String; 2]> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.upload(&[1.0f32; 4], &stream)?;
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait()?;
        if rank.index() == 1 {
            drop(comm);
            // The next call of the runtime destroys the communicator.
            drop(device.zeros::<f32>(4, &stream)?);
            stream.synchronize()?;
            gone.send(()).unwrap();
            return Ok(Default::default());
        }
        wait.lock().unwrap().recv().unwrap();
        let errors = [(); 2].map(|()| {
            let run = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream);
            run.and_then(|work| work.wait()).expect_err("nobody is there").to_string()
        });
        Ok(errors)
    });
    let [first, next] = &texts.unwrap()[0];
    assert!(first.contains("rank 1"), "{first}");
    assert!(next.contains("`mesh_all_reduce` #2 has failed"), "{next}");
}

#[test]
fn what_is_refused_in_the_midst_is_over_before_its_buffers_are_used() {
    // The copies are enqueued before the lost end of the channel is detected.
    let half = Operator::all_reduce("half", Sum, |op, main| {
        main.fork(2, |threads| {
            for _ in 0..50 {
                threads.get(1).copy(op.input(), op.output());
            }
        });
        main.lend(op.channel(1 - op.rank()));
    });
    let runtime = runtime_with(2);
    let (gone, gate) = mpsc::sync_channel::<()>(1);
    let gate = std::sync::Mutex::new(gate);
    let left = runtime.run_ranks(2, |rank| -> Result<bool> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let other = device.stream()?;
        let mut comm = rank.communicator()?;
        let x = device.upload(&vec![1.0f32; 1 << 20], &stream)?;
        let mut y = device.zeros::<f32>(1 << 20, &stream)?;
        comm.run(&mesh_all_reduce(Sum)).input(&x).output(&mut y).submit(&stream)?.wait()?;
        if rank.index() == 1 {
            drop(comm);
            stream.synchronize()?;
            gone.send(()).unwrap();
            return Ok(true);
        }
        gate.lock().unwrap().recv().unwrap();
        let refused = comm.run(&half).input(&x).output(&mut y).submit(&stream);
        assert!(refused.is_err(), "its peer is gone");
        y.upload(&vec![2.0; 1 << 20], &other)?.wait()?;
        std::thread::sleep(Duration::from_millis(20));
        Ok(y.to_vec(&other).wait()?.iter().all(|value| *value == 2.0))
    });
    assert_eq!(left.unwrap(), [true; 2]);
}

#[test]
fn waits_have_the_time_limit_of_the_devices() {
    let limit = Duration::from_secs(1);
    let runtime = own_devices().devices(2).exec_timeout(limit).build().unwrap();
    let (over, gate) = mpsc::sync_channel::<()>(1);
    let gate = std::sync::Mutex::new(gate);
    let texts = runtime.run_ranks(2, |rank| -> Result<String> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.zeros::<f32>(4, &stream)?;
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait()?;
        if rank.index() == 1 {
            // This rank computes, and may still take part, so there is no deadlock.
            gate.lock().unwrap().recv().unwrap();
            return Ok(String::new());
        }
        let error = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?.wait();
        over.send(()).unwrap();
        Ok(error.expect_err("nobody comes").to_string())
    });
    let text = &texts.unwrap()[0];
    assert!(text.contains("EI0002") && text.contains("for 1.0 s"), "{text}");
    assert!(text.contains("rank 1 did not record it"), "{text}");
}

#[test]
fn an_operator_goes_on_when_its_communicator_is_dropped() {
    both_backends(|runtime| {
        // Without channels, the helper of the device issues the operator.
        for has_channels in [false, true] {
            let sums = runtime.run_ranks(2, |rank| -> Result<Vec<f32>> {
                let (device, stream) = (rank.device(), rank.device().stream()?);
                let mut comm = rank.communicator()?;
                let mut x = device.upload(&[1.0f32; 100], &stream)?;
                if has_channels {
                    let mut before = device.upload(&[1.0f32; 100], &stream)?;
                    comm.run(&mesh_all_reduce(Sum)).in_place(&mut before).submit(&stream)?;
                }
                if rank.index() == 1 {
                    // By now, the drop of rank 0 would have been reported.
                    std::thread::sleep(Duration::from_millis(300));
                }
                let work = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?;
                drop(comm);
                work.wait()?;
                x.to_vec(&stream).wait()
            });
            assert_eq!(sums.unwrap(), [[2.0; 100]; 2], "channels: {has_channels}");
        }
    });
}
