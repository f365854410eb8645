//! Emulated devices with injected faults: the error that the program gets on each side, and the
//! release of all resources afterwards.

use std::time::{Duration, Instant};

use ascend_emulator_testing::alone;
use ascend_emulator_testing::ranks::slow;
use hccl::prelude::*;
use hccl::{Error, Fault};
use hccl_tests::{own_devices, runtime_with};

const RANKS: u32 = 3;
/// The limit for failures that only a time limit reports.
const LIMIT: Duration = Duration::from_secs(3);

/// Time limits of ranks: for connecting, for an operation on the device, and for a wait of the
/// host.
struct Limits {
    connect: Duration,
    exec: Duration,
    deadline: Duration,
}

/// The limits for failures that must be reported without a limit, however slow the machine is.
const PATIENT: Limits = Limits {
    connect: Duration::from_secs(120),
    exec: Duration::from_secs(120),
    deadline: Duration::from_secs(120),
};

/// Runs three ranks with a fault, and returns how each ended. No rank gets a report of the failure
/// of another one, so each must detect the fault itself.
fn outcomes(
    fault: Fault,
    run: impl Fn(&Device, &mut Communicator) -> hccl::Result<()> + Sync,
) -> Vec<hccl::Result<()>> {
    outcomes_within(PATIENT, fault, run)
}

fn outcomes_within(
    limits: Limits,
    fault: Fault,
    run: impl Fn(&Device, &mut Communicator) -> hccl::Result<()> + Sync,
) -> Vec<hccl::Result<()>> {
    let runtime = own_devices()
        .devices(RANKS as usize)
        .memory(64 << 20)
        .connect_timeout(limits.connect)
        .exec_timeout(limits.exec)
        .deadline(limits.deadline)
        .fault(fault)
        .build()
        .unwrap();
    let root = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
    let ids: Vec<i32> =
        (0..RANKS as usize).map(|index| runtime.device(index).unwrap().id()).collect();
    let rank = |rank: u32| {
        let device = runtime.device(rank as usize)?;
        let mut comm = Communicator::builder()
            .runtime(&runtime)
            .rank(rank)
            .world_size(RANKS)
            .root_info(&root)
            .build()
            .wait()?;
        run(&device, &mut comm)
    };
    let outcomes = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..RANKS).map(|index| scope.spawn(move || rank(index))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    // After any outcome, everything drains once the faults are over.
    for index in 0..RANKS as usize {
        runtime.clear_faults(index).unwrap();
        let device = runtime.device(index).unwrap();
        let since = Instant::now();
        loop {
            // The next allocation frees dropped memory, so that afterwards only this one exists.
            drop(device.alloc::<u8>(1));
            let memory = device.memory_info().unwrap();
            if memory.total - memory.free < 128 {
                break;
            }
            assert!(since.elapsed() < Duration::from_secs(20), "memory of device {index} is left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    drop(runtime);
    // No other test of this process uses devices with these numbers.
    let set_device = ascend_emulator::table().aclrtSetDevice.unwrap();
    let since = Instant::now();
    for id in ids {
        // SAFETY: the call takes a number only.
        while unsafe { set_device(id) } == 0 {
            assert!(since.elapsed() < Duration::from_secs(20), "device {id} is not given back");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    outcomes
}

/// Sums, waits, and sums again. A fault at 2 hits the second sum.
fn two_sums(device: &Device, comm: &mut Communicator) -> hccl::Result<()> {
    let stream = device.stream()?;
    let mut x = device.upload(&[1.0f32; 100], &stream)?;
    comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
    comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
    assert_eq!(x.to_vec(&stream).wait()?, [9.0; 100]);
    Ok(())
}

/// Asserts that an issued operation has failed, with CANN's text. A rank that comes after the
/// failure gets it from the call.
fn failed(outcome: &hccl::Result<()>, pieces: &[&str]) {
    let error = outcome.as_ref().unwrap_err();
    assert!(matches!(error, Error::Failed { .. } | Error::Call { .. }), "{error:?}");
    said(error, pieces);
}

fn said(error: &Error, pieces: &[&str]) {
    let text = error.to_string();
    for piece in pieces {
        assert!(text.contains(piece), "{piece} is not in {text}");
    }
}

#[test]
fn a_delayed_rank_is_waited_for() {
    alone!(beside);
    let since = Instant::now();
    let outcomes = outcomes(Fault::delay(1, Duration::from_millis(150)).at(2), two_sums);
    for outcome in outcomes {
        outcome.unwrap();
    }
    assert!(since.elapsed() >= Duration::from_millis(150));
}

#[test]
fn a_stopped_rank_times_out_on_both_sides() {
    alone!(beside);
    // The faulty rank itself waits until its deadline, whatever it waits with.
    let deadline = Duration::from_secs(if slow() { 20 } else { 8 });
    let limits = Limits { exec: LIMIT, deadline, ..PATIENT };
    let outcomes = outcomes_within(limits, Fault::stop(2).at(2), two_sums);
    for peer in &outcomes[..2] {
        failed(
            peer,
            &["EI0002", "ACL_ERROR_RT_TASK_TIMEOUT", "rank 2 did not come", "all_reduce #2"],
        );
    }
    let own = outcomes[2].as_ref().unwrap_err();
    assert!(matches!(own, Error::Timeout { .. }), "{own:?}");
    said(own, &["all_reduce", "told to stop"]);
}

#[test]
fn a_rank_that_leaves_is_gone_for_its_peers() {
    alone!(beside);
    let outcomes = outcomes(Fault::leave(0).at(2), two_sums);
    let own = outcomes[0].as_ref().unwrap_err();
    assert!(matches!(own, Error::Call { .. }), "{own:?}");
    said(own, &["HCCL_E_UNAVAIL", "rank 0 has left", "all_reduce #2"]);
    for peer in &outcomes[1..] {
        failed(peer, &["EI0012", "rank 0 is gone"]);
    }
}

#[test]
fn a_wrong_count_shows_both_sides() {
    alone!(beside);
    let outcomes = outcomes(Fault::wrong_count(1).at(2), two_sums);
    for outcome in &outcomes {
        failed(
            outcome,
            &[
                "EI0005",
                "the counts differ",
                "all_reduce(f32, 100, sum)",
                "rank 1: all_reduce(f32, 99, sum)",
            ],
        );
    }
}

#[test]
fn memory_that_runs_out_is_an_error_of_the_rank() {
    alone!(beside);
    let outcomes = outcomes(Fault::out_of_memory(1).at(2), |device, _| {
        let stream = device.stream()?;
        let kept = device.upload(&[1i32; 8], &stream)?;
        let more = device.upload(&[2i32; 8], &stream)?;
        assert_eq!(kept.to_vec(&stream).wait()?, [1; 8]);
        assert_eq!(more.to_vec(&stream).wait()?, [2; 8]);
        Ok(())
    });
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    let error = outcomes[1].as_ref().unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { requested: 32, .. }), "{error:?}");
}

#[test]
fn links_that_do_not_come_up_are_an_error_of_the_call() {
    alone!(beside);
    let since = Instant::now();
    let limits = Limits { connect: LIMIT, ..PATIENT };
    let outcomes = outcomes_within(limits, Fault::link_timeout(1), two_sums);
    for outcome in &outcomes {
        let error = outcome.as_ref().unwrap_err();
        assert!(matches!(error, Error::Call { .. }), "{error:?}");
        said(error, &["HCCL_E_TIMEOUT", "EI0006", "rank 1"]);
    }
    assert!(since.elapsed() >= LIMIT);
}

#[test]
fn faults_that_make_no_sense_are_refused() {
    let with = |fault| own_devices().devices(2).fault(fault).build().unwrap_err();
    assert!(matches!(with(Fault::stop(2)), Error::NoSuchDevice { index: 2, count: 2 }));
    said(&with(Fault::delay(0, Duration::from_secs(1 << 40))), &["a delay of"]);
    let runtime = runtime_with(1);
    assert!(matches!(runtime.clear_faults(1), Err(Error::NoSuchDevice { .. })));
    let cann = hccl_tests::without_extensions();
    assert!(matches!(cann.clear_faults(0), Err(Error::MissingSymbol { .. })));
}
