//! A failure between processes is reported in all of them, with the names of ranks.

use std::time::{Duration, Instant};

use hccl::ErrorKind;
use hccl::prelude::*;

use crate::ranks::{
    Place, Processes, is_rank, names_the_dead, run, until_says, wait_for_a_process_that_is_killed,
};

/// Checks that the other ranks get an error for a rank whose process was killed in a collective.
#[test]
fn a_process_that_was_killed_is_named_to_all_others() {
    const NAME: &str = "failures::a_process_that_was_killed_is_named_to_all_others";
    let body = |place: Place| {
        let stream = place.device.stream().unwrap();
        let mut comm = place.communicator();
        let mut x = place.device.upload(&vec![1.0f32; 1 << 18], &stream).unwrap();
        comm.barrier(&stream).unwrap().wait().unwrap();
        if place.rank == 0 {
            println!("all are there");
        }
        let error = (0..)
            .find_map(|_| {
                comm.all_reduce_in_place(&mut x, Sum, &stream).and_then(|it| it.wait()).err()
            })
            .unwrap();
        names_the_dead(&error, 1);
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let mut processes = Processes::start(NAME, &[1, 1, 1]);
    until_says(&mut processes.children[0], "all are there");
    std::thread::sleep(Duration::from_millis(30));
    processes.children[1].kill().unwrap();
    let began = Instant::now();
    let outputs = processes.outputs();
    for rank in [0, 2] {
        let err = String::from_utf8_lossy(&outputs[rank].stderr);
        assert!(outputs[rank].status.success(), "rank {rank}: {err}");
    }
    println!("the others ended {} ms after", began.elapsed().as_millis());
}

#[test]
fn a_mismatch_shows_both_sides_in_all_processes() {
    run("failures::a_mismatch_shows_both_sides_in_all_processes", &[1, 1], |place| {
        for warm in [false, true] {
            let stream = place.device.stream().unwrap();
            let mut comm = place.communicator();
            if warm {
                comm.barrier(&stream).unwrap().wait().unwrap();
            }
            let error = match place.rank {
                0 => {
                    let mut x = place.device.zeros::<f32>(7, &stream).unwrap();
                    comm.all_reduce_in_place(&mut x, Sum, &stream).and_then(|it| it.wait())
                }
                _ => {
                    let mut x = place.device.zeros::<i32>(8, &stream).unwrap();
                    comm.all_reduce_in_place(&mut x, Max, &stream).and_then(|it| it.wait())
                }
            };
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
            let text = error.to_string();
            for piece in ["rank 0: all_reduce(f32, 7, sum)", "rank 1: all_reduce(i32, 8, max)"] {
                assert!(text.contains(piece), "{piece}: {text}");
            }
        }
    });
}

#[test]
fn a_rank_that_leaves_is_named_with_its_last_operation() {
    run("failures::a_rank_that_leaves_is_named_with_its_last_operation", &[1, 1], |place| {
        let stream = place.device.stream().unwrap();
        let mut comm = place.communicator();
        comm.barrier(&stream).unwrap().wait().unwrap();
        if place.rank == 1 {
            return;
        }
        let error = comm.barrier(&stream).and_then(|work| work.wait()).unwrap_err();
        assert_eq!((error.kind(), error.gone_ranks()), (ErrorKind::RankGone, vec![1]), "{error}");
    });
}

#[test]
fn ranks_that_say_different_things_are_told_so_in_all_processes() {
    run(
        "failures::ranks_that_say_different_things_are_told_so_in_all_processes",
        &[1, 1],
        |place| {
            let builder = Communicator::builder().device(&place.device).rank(place.rank);
            let joined = builder.world_size(2 + place.rank).root_info(&place.root()).build().wait();
            let text = joined.err().unwrap().to_string();
            assert!(text.contains("disagree about their number"), "{text}");
            assert!(text.contains("says 2") && text.contains("says 3"), "{text}");
        },
    );
}

#[test]
fn two_ranks_on_one_card_are_refused_in_all_processes() {
    run("failures::two_ranks_on_one_card_are_refused_in_all_processes", &[1, 1], |place| {
        let runtime = Runtime::emulator(2).unwrap();
        let device = runtime.device(0).unwrap();
        let builder = Communicator::builder().device(&device).rank(place.rank);
        let joined = builder.world_size(2).root_info(&place.root()).build().wait();
        let text = joined.err().unwrap().to_string();
        assert!(text.contains("both on device 0"), "{text}");
    });
}

#[test]
fn a_rank_that_never_comes_is_named_in_all_processes() {
    run("failures::a_rank_that_never_comes_is_named_in_all_processes", &[1, 1], |place| {
        place.meet();
        let limit = Duration::from_secs(2);
        let builder = Runtime::emulator_builder().devices(3).connect_timeout(limit);
        let device = builder.build().unwrap().device(place.rank as usize).unwrap();
        let builder = Communicator::builder().device(&device).rank(place.rank);
        let error = builder.world_size(3).root_info(&place.root()).build().wait().err().unwrap();
        let text = error.to_string();
        assert!(text.contains("rank 2 of 3 did not call"), "{text}");
        assert_eq!(error.missing_ranks(), [2], "{text}");
    });
}

#[test]
fn a_root_info_whose_process_is_gone_says_so() {
    const NAME: &str = "failures::a_root_info_whose_process_is_gone_says_so";
    let body = |place: Place| {
        // The process of the root info is killed, which this process cannot prevent.
        let error = place.joined().err().unwrap().to_string();
        assert!(error.contains("process") && error.contains("has ended"), "{error}");
    };
    if is_rank(body) {
        std::process::exit(0);
    }
    let output = wait_for_a_process_that_is_killed(NAME);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Checks that a sender that ends at once, with its communicator and its device, either withdraws
/// its message or delivers it. The receiver never gets other data.
#[test]
fn a_message_whose_sender_ends_at_once_is_there_or_an_error() {
    const NAME: &str = "failures::a_message_whose_sender_ends_at_once_is_there_or_an_error";
    run(NAME, &[1, 1], |place| {
        for bytes in [1 << 22, 1 << 14, 100] {
            let data: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
            let runtime = Runtime::emulator(2).unwrap();
            let device = runtime.device(place.rank as usize).unwrap();
            let stream = device.stream().unwrap();
            let builder = Communicator::builder().device(&device).rank(place.rank).world_size(2);
            let mut comm = builder.root_info(&place.root()).build().wait().unwrap();
            comm.barrier(&stream).unwrap().wait().unwrap();
            if place.rank == 0 {
                let send = device.upload(&data, &stream).unwrap();
                drop(comm.send(&send, 1, &stream).unwrap());
            } else {
                let mut found = device.zeros::<u8>(bytes, &stream).unwrap();
                let received = comm.recv(&mut found, 0, &stream).and_then(|work| work.wait());
                match received {
                    Ok(_) => assert!(found.to_vec(&stream).wait().unwrap() == data),
                    Err(error) => assert_eq!(error.gone_ranks(), [0], "{error}"),
                }
            }
        }
    });
}
