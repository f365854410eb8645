//! Deadlocks between processes are reported at once, in all of them. Programs that can continue are
//! not affected.

use std::time::{Duration, Instant};

use hccl::prelude::*;
use hccl::{Error, ErrorKind};

use crate::ranks::{Place, Processes, is_rank, run, signal, until_says};

/// Asserts that an error is a deadlock and lists the wait of each of these ranks. With CANN's time
/// limits it would be reported only after half an hour.
#[track_caller]
fn is_deadlock(error: &Error, waits: &[String]) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{text}");
    assert!(text.contains("every thread and every stream of processes "), "{text}");
    for wait in waits {
        assert!(text.contains(wait.as_str()), "{wait} is not in: {text}");
    }
}

/// Returns a communicator whose ranks have met.
fn met(place: &Place) -> (Communicator, Stream) {
    let stream = place.device.stream().unwrap();
    let mut comm = place.communicator();
    comm.barrier(&stream).unwrap().wait().unwrap();
    (comm, stream)
}

/// Waits until all ranks have got the error: a rank that leaves earlier would be reported as gone.
fn all_are_told(mut comm: Communicator, stream: &Stream) {
    comm.barrier(stream).unwrap().wait().unwrap();
}

/// Lets each rank send to the next one and receive from the one before. Then all ranks only
/// receive.
#[test]
fn ranks_that_all_receive_are_told_at_once() {
    const NAME: &str = "deadlocks::ranks_that_all_receive_are_told_at_once";
    for each in [&[1, 1][..], &[1, 1, 1], &[2, 1]] {
        run(NAME, each, |place| {
            let (end, _) = met(&place);
            let (mut comm, stream) = met(&place);
            let last = |rank| (rank + place.ranks - 1) % place.ranks;
            let (next, previous) = ((place.rank + 1) % place.ranks, last(place.rank));
            let x = place.device.upload(&[1u8; 64], &stream).unwrap();
            let mut y = place.device.zeros::<u8>(64, &stream).unwrap();
            let batch = comm.batch().send(&x, next).recv(&mut y, previous);
            batch.submit(&stream).unwrap().wait().unwrap();
            let began = Instant::now();
            let error = comm.recv(&mut y, previous, &stream).and_then(|it| it.wait()).unwrap_err();
            println!("rank {} was told after {} ms", place.rank, began.elapsed().as_millis());
            let waits = (0..place.ranks).map(|rank| {
                format!(
                    "of rank {rank} of communicator \"world\", waiting for rank {} to send",
                    last(rank)
                )
            });
            is_deadlock(&error, &waits.collect::<Vec<_>>());
            all_are_told(end, &stream);
        });
    }
}

/// Lets rank 1 call the first collective of a communicator, which the other ranks have not called.
/// The other ranks are in a later collective of another communicator, which rank 1 has not called.
#[test]
fn two_communicators_in_different_orders_are_told_at_once() {
    run("deadlocks::two_communicators_in_different_orders_are_told_at_once", &[1, 2], |place| {
        let (end, _) = met(&place);
        let (mut one, stream) = met(&place);
        let mut other = place.communicator();
        let mut x = place.device.upload(&[1.0f32; 64], &stream).unwrap();
        let comm = if place.rank == 1 { &mut other } else { &mut one };
        let error =
            comm.all_reduce_in_place(&mut x, Sum, &stream).and_then(|it| it.wait()).unwrap_err();
        // The first operation of a communicator waits in the call, later ones in their streams.
        let waits = [
            "on rank 0, waiting for rank 1 (last: #1 HcclBarrier; it has not issued this one)",
            "on rank 2, waiting for rank 1 (last: #1 HcclBarrier; it has not issued this one)",
            "rank 1 of communicator",
        ];
        is_deadlock(&error, &waits.map(String::from));
        all_are_told(end, &stream);
    });
}

/// Lets all other ranks wait in a collective for a rank whose thread waits in a receive.
#[test]
fn a_rank_that_receives_while_the_others_meet_is_told_with_them() {
    run(
        "deadlocks::a_rank_that_receives_while_the_others_meet_is_told_with_them",
        &[1, 1, 1],
        |place| {
            let (end, _) = met(&place);
            let (mut comm, stream) = met(&place);
            let x = place.device.upload(&[1u8; 64], &stream).unwrap();
            let mut y = place.device.zeros::<u8>(64, &stream).unwrap();
            // After this message, the next one does not wait in the call.
            match place.rank {
                0 => comm.send(&x, 1, &stream).unwrap().wait().unwrap(),
                1 => comm.recv(&mut y, 0, &stream).unwrap().wait().unwrap(),
                _ => {}
            }
            let error = match place.rank {
                1 => comm.recv(&mut y, 0, &stream).and_then(|it| it.wait()).unwrap_err(),
                _ => comm.barrier(&stream).and_then(|it| it.wait()).unwrap_err(),
            };
            let waits = [
                "of rank 1 of communicator \"world\", waiting for rank 0 to send",
                "on rank 2, waiting for rank 1 (",
            ];
            is_deadlock(&error, &waits.map(String::from));
            all_are_told(end, &stream);
        },
    );
}

/// Checks that ranks wait for a process with a running thread, however long it takes. That thread
/// may still end their waits.
#[test]
fn a_rank_that_is_at_something_else_is_waited_for() {
    run("deadlocks::a_rank_that_is_at_something_else_is_waited_for", &[1, 1, 1], |place| {
        let (mut comm, stream) = met(&place);
        let mut x = place.device.upload(&[1.0f32; 64], &stream).unwrap();
        if place.rank == 1 {
            std::thread::sleep(Duration::from_secs(4));
        }
        comm.all_reduce_in_place(&mut x, Sum, &stream).unwrap().wait().unwrap();
        assert_eq!(x.to_vec(&stream).wait().unwrap(), [3.0; 64]);
    });
}

/// Lets all ranks wait in each round for one that comes late.
#[test]
fn ranks_that_come_in_the_last_moment_are_in_time() {
    run("deadlocks::ranks_that_come_in_the_last_moment_are_in_time", &[1, 1, 1], |place| {
        let (mut comm, stream) = met(&place);
        for round in 0..5 {
            // The ranks wait in the call of the first operation of another communicator, or in a
            // stream. The delays are near the times at which processes report that they are idle,
            // query the others, and answer.
            let mut fresh = (round < 2).then(|| place.communicator());
            if place.rank == round % 3 {
                std::thread::sleep(Duration::from_millis(900 + 150 * u64::from(round)));
            }
            let comm = fresh.as_mut().unwrap_or(&mut comm);
            comm.barrier(&stream).unwrap().wait().unwrap();
        }
    });
}

/// Lets two ranks wait for each other after a third one has ended normally.
#[test]
fn ranks_that_have_ended_before_are_in_no_deadlock() {
    run("deadlocks::ranks_that_have_ended_before_are_in_no_deadlock", &[1, 1, 1], |place| {
        let (mut comm, stream) = met(&place);
        if place.rank == 2 {
            return;
        }
        let other = 1 - place.rank;
        let x = place.device.upload(&[1u8; 64], &stream).unwrap();
        let mut y = place.device.zeros::<u8>(64, &stream).unwrap();
        let batch = comm.batch().send(&x, other).recv(&mut y, other);
        batch.submit(&stream).unwrap().wait().unwrap();
        let error = comm.recv(&mut y, other, &stream).and_then(|it| it.wait()).unwrap_err();
        let wait = "of rank 0 of communicator \"world\", waiting for rank 1 to send";
        is_deadlock(&error, &[wait.into()]);
    });
}

/// Stops a rank while it waits in its first operation. Meanwhile the other rank arrives, and
/// queries whether any process can continue. The stopped rank cannot check whether its wait is over
/// before it is continued.
#[test]
fn a_rank_that_was_stopped_while_the_other_came_goes_on() {
    const NAME: &str = "deadlocks::a_rank_that_was_stopped_while_the_other_came_goes_on";
    let body = |place: Place| {
        let stream = place.device.stream().unwrap();
        let mut comm = place.communicator();
        if place.rank == 0 {
            println!("rank 0 waits");
        } else {
            std::thread::sleep(Duration::from_secs(2));
        }
        comm.barrier(&stream).unwrap().wait().unwrap();
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let mut processes = Processes::start(NAME, &[1, 1]);
    until_says(&mut processes.children[0], "rank 0 waits");
    // The process has reported that it is idle, and has checked since.
    std::thread::sleep(Duration::from_millis(1600));
    signal(&processes.children[0], libc::SIGSTOP);
    // The other process is idle, too, and queries the first one.
    std::thread::sleep(Duration::from_millis(2500));
    signal(&processes.children[0], libc::SIGCONT);
    for (rank, output) in processes.outputs().iter().enumerate() {
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank}: {err}");
    }
}
