//! Reasons that end a wait, blocking or awaited, without a completion: the time limit, a rank that
//! has failed, an abort, and the proof that no completion can come any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ascend_emulator_testing::alone;
use ascend_emulator_testing::barrier::Barrier;
use futures::executor::block_on;
use hccl::prelude::*;
use hccl::{Error, ErrorKind, Result};
use hccl_tests::{both_backends, own_devices, runtime_with};

/// The way in which a rank waits.
#[derive(Clone, Copy)]
enum Wait {
    Blocking,
    Awaited,
}

impl Wait {
    fn of(self, work: Work) -> hccl::Result<()> {
        match self {
            Wait::Blocking => work.wait(),
            Wait::Awaited => block_on(work),
        }
    }
}

/// Makes rank 0 wait for an all-reduce that rank 1 never issues, on links that exist. `meanwhile`
/// is called on rank 1 when rank 0 has issued it, and on rank 0 between issuing and waiting.
fn wait_for_nobody(
    runtime: &Runtime,
    wait: Wait,
    meanwhile: impl Fn(u32, &Communicator) -> hccl::Result<()> + Sync,
) -> hccl::Result<Vec<Option<Error>>> {
    let (issued, over) = (Barrier::new(2), AtomicBool::new(false));
    runtime.run_ranks(2, |rank| -> hccl::Result<_> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        comm.barrier(&stream)?.wait()?;
        if comm.rank() == 1 {
            issued.wait();
            meanwhile(1, &comm)?;
            // The loop has an end, so that a failure of rank 0 is seen.
            for _ in 0..60_000 {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            return Ok(None);
        }
        let mut x = rank.device().zeros::<f32>(10, &stream)?;
        let work = comm.all_reduce_in_place(&mut x, Sum, &stream)?;
        issued.wait();
        meanwhile(0, &comm)?;
        let error = wait.of(work).err();
        over.store(true, Ordering::Relaxed);
        Ok(error)
    })
}

#[test]
fn a_wait_ends_with_its_time_limit() {
    both_backends(|runtime| {
        for wait in [Wait::Blocking, Wait::Awaited] {
            runtime.set_deadline(Duration::from_secs(60));
            let outcome = wait_for_nobody(runtime, wait, |rank, _| {
                if rank == 0 {
                    runtime.set_deadline(Duration::from_millis(300));
                }
                Ok(())
            });
            let error = outcome.unwrap()[0].take().unwrap();
            assert!(error.is_timeout(), "{error}");
            let text = error.to_string();
            assert!(
                text.starts_with("all_reduce #2 on `world` (rank 0 of 2): timed out"),
                "{text}"
            );
            // The ranks are in the data of the error, or in the text of the backend.
            if error.peers().is_some() {
                assert!(text.contains("missing: 1 (last seen in barrier #1"), "{text}");
                assert_eq!(error.missing_ranks(), [1]);
            } else {
                let says = |phrase| text.contains(phrase);
                assert!(says("waiting for rank 1") && says("last: #1 HcclBarrier"), "{text}");
            }
        }
    });
}

#[test]
fn an_operation_that_was_given_up_may_be_awaited_again() {
    both_backends(|runtime| {
        let gate = Barrier::new(2);
        let sums = runtime.run_ranks(2, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            comm.barrier(&stream)?.wait()?;
            runtime.set_deadline(Duration::from_millis(100));
            let mut x = rank.device().zeros::<i32>(10, &stream)?;
            if comm.rank() == 1 {
                gate.wait();
            }
            let mut work = comm.all_reduce_in_place(&mut x, Sum, &stream)?;
            if comm.rank() == 0 {
                let error = block_on(&mut work).unwrap_err();
                assert!(error.is_timeout(), "{error}");
                gate.wait();
            }
            runtime.set_deadline(Duration::from_secs(60));
            block_on(work)?;
            x.to_vec(&stream).wait()
        });
        assert_eq!(sums.unwrap(), [[0; 10], [0; 10]]);
    });
}

#[test]
fn a_wait_ends_when_another_rank_fails() {
    both_backends(|runtime| {
        for wait in [Wait::Blocking, Wait::Awaited] {
            let outcome = wait_for_nobody(runtime, wait, |rank, _| {
                if rank == 0 {
                    return Ok(());
                }
                Err(Error::Invalid { operation: "test", problem: "rank 1 gives up".into() })
            });
            let error = outcome.unwrap_err();
            let Error::Rank(error) = error else { panic!("{error}") };
            assert_eq!(error.rank(), 1);
        }
    });
}

#[test]
fn a_wait_ends_when_its_communicator_is_aborted() {
    both_backends(|runtime| {
        for wait in [Wait::Blocking, Wait::Awaited] {
            let outcome = wait_for_nobody(runtime, wait, |rank, comm| {
                if rank == 0 {
                    let handle = comm.abort_handle();
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(50));
                        handle.abort().unwrap();
                    });
                }
                Ok(())
            });
            let error = outcome.unwrap()[0].take().unwrap();
            // If the backend reports the abort to the peers, the operation itself may fail first.
            let ended = matches!(error, Error::Aborted { .. } | Error::Failed { .. });
            assert!(ended && error.to_string().contains("all_reduce #2"), "{error}");
            assert!(error.to_string().contains("aborted"), "{error}");
        }
    });
}

/// Checks a wait for a replay, which is in flight in all of its communicators. Nothing else ends
/// the wait, because the replay is queued after a host function.
#[test]
fn a_wait_for_a_replay_ends_with_each_of_its_communicators() {
    both_backends(|runtime| {
        runtime.set_deadline(Duration::from_secs(20));
        let device = runtime.device(0).unwrap();
        for (aborted, wait) in
            [(0, Wait::Blocking), (1, Wait::Blocking), (2, Wait::Blocking), (2, Wait::Awaited)]
        {
            let stream = device.stream().unwrap();
            let alone =
                || Communicator::init_all(std::slice::from_ref(&device)).wait().unwrap().remove(0);
            let mut comms = [alone(), alone(), alone()];
            let capture = device.begin_capture().unwrap();
            for comm in &mut comms {
                comm.barrier(&capture).unwrap();
            }
            let mut graph = capture.end().unwrap();
            graph.replay(&stream).unwrap().wait().unwrap();

            let (open, gate) = std::sync::mpsc::channel::<()>();
            drop(stream.host_fn(move || gate.recv().unwrap_or_default()).unwrap());
            let work = graph.replay(&stream).unwrap();
            let handle = comms[aborted].abort_handle();
            let watchdog = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                handle.abort()
            });
            let error = wait.of(work).unwrap_err();
            drop(open);
            watchdog.join().unwrap().unwrap();
            // The wait ends by itself, or together with the operation, which fails if the backend
            // can end it.
            let says = |text: &str| error.to_string().contains(text);
            assert!(says("aborted") && says("replay"), "communicator {aborted}: {error}");
            let mut refused = graph.replay(&stream).unwrap_err();
            if matches!(refused, Error::Failed { .. }) {
                // The wait has ended by itself, so the failure of the operation was not reported
                // yet.
                refused = graph.replay(&stream).unwrap_err();
            }
            assert!(matches!(refused, Error::Aborted { .. }), "{refused}");
        }
    });
}

/// Lets two ranks each wait for a message that the other one would send afterwards, while a third
/// thread waits for something else. A wait counts as long as 30 seconds of its limit are left, so
/// there are ninety seconds to find this deadlock.
#[test]
fn a_deadlock_of_safe_code_is_found() {
    alone!(beside);
    let runtime = runtime_with(2);
    let (_idle, idles) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || idles.recv());
    let errors = runtime.run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let peer = 1 - comm.rank();
        let mut x = rank.device().zeros::<u8>(4, &stream)?;
        let received = comm.batch().recv(&mut x, peer).submit(&stream)?;
        let error = received.wait_timeout(Duration::from_secs(120)).err();
        if error.is_some() {
            return Ok::<_, Error>(error);
        }
        comm.batch().send(&x, peer).submit(&stream)?.wait().map(|()| None)
    });
    let texts: Vec<String> = match errors {
        Ok(errors) => errors.into_iter().flatten().map(|error| error.to_string()).collect(),
        Err(error) => vec![error.to_string()],
    };
    for phrase in ["deadlock", "rank 0", "rank 1"] {
        assert!(texts.iter().any(|text| text.contains(phrase)), "{phrase}: {texts:?}");
    }
}

/// Makes rank 0 of three receive a message that no rank sends. `have_met` tells whether all ranks
/// met before. Returns the error of the run.
fn a_rank_receives_what_nobody_sends(have_met: bool) -> Error {
    let ranks = runtime_with(3).run_ranks(3, |rank| -> Result<()> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        if have_met {
            comm.barrier(&stream)?.wait()?;
        }
        let mut x = rank.device().zeros::<f32>(100, &stream)?;
        match rank.index() {
            0 => comm.recv(&mut x, 1, &stream)?.wait(),
            _ => comm.barrier(&stream)?.wait(),
        }
    });
    ranks.unwrap_err()
}

#[test]
fn a_first_contact_that_nobody_answers_is_told_at_once() {
    alone!(beside);
    let since = Instant::now();
    let text = a_rank_receives_what_nobody_sends(true).to_string();
    for piece in ["deadlock", "HcclRecv with rank 1", "HcclBarrier #2", "waiting for rank 0"] {
        assert!(text.contains(piece), "{piece}: {text}");
    }
    assert!(since.elapsed() < Duration::from_secs(100), "the time limit ended it");
    // This is the very first contact. The two ranks are in different calls, so there is a mismatch,
    // too.
    let error = a_rank_receives_what_nobody_sends(false);
    let text = error.to_string();
    assert!(text.contains("HcclRecv with rank 1") && text.contains("HcclBarrier"), "{text}");
    assert_eq!(error.root_cause().context().map(|it| it.world_size), Some(Some(3)), "{text}");
    assert!(matches!(error.kind(), ErrorKind::Mismatch | ErrorKind::Deadlock), "{text}");
}

/// Checks the report of two sends with receives after them. At the first contact a receive is
/// queued apart from the send before it, and waits for a point of its stream. But the report shows
/// the sends.
#[test]
fn two_sends_with_the_receives_behind_them_are_told_at_once() {
    alone!(beside);
    let failed = runtime_with(2).run_ranks(2, |rank| -> Result<()> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let peer = 1 - comm.rank();
        let x = rank.device().zeros::<f32>(100, &stream)?;
        let mut y = rank.device().zeros::<f32>(100, &stream)?;
        let _sent = comm.send(&x, peer, &stream)?;
        comm.recv(&mut y, peer, &stream)?.wait()
    });
    let text = failed.unwrap_err().to_string();
    for rank in [0, 1] {
        let piece = format!("HcclSend #1 of rank {rank} of communicator \"world\", waiting for");
        assert!(text.contains("deadlock") && text.contains(&piece), "{text}");
    }
}

/// Checks that a missing rank is waited for, because another process may have the root info.
#[test]
fn a_rank_that_nobody_here_will_bring_is_waited_for() {
    alone!(beside);
    let limit = Duration::from_secs(4);
    let runtime = own_devices().devices(2).connect_timeout(limit).build().unwrap();
    let device = runtime.device(0).unwrap();
    let root = RootInfo::new(&device).unwrap();
    let build =
        || Communicator::builder().device(&device).rank(0).world_size(2).root_info(&root).build();
    let error = build().wait().unwrap_err();
    assert_eq!((error.kind(), error.missing_ranks()), (ErrorKind::Timeout, vec![1]), "{error}");
    assert!(!error.to_string().contains("deadlock"), "{error}");
}

/// Checks that no deadlock is reported while a thread sleeps. The first thread of the process, or
/// any other, may be about to issue.
#[test]
fn a_thread_that_sleeps_may_bring_a_rank() {
    alone!(beside);
    let runtime = runtime_with(2);
    let comms = Communicator::init_all(&[0, 1].map(|i| runtime.device(i).unwrap())).wait();
    let comms = comms.unwrap().into_iter().map(|comm| Arc::new(Mutex::new(comm)));
    let [early, late] = <[_; 2]>::try_from(comms.collect::<Vec<_>>()).unwrap();
    let barrier = |comm: &Mutex<Communicator>| {
        let mut comm = comm.lock().unwrap();
        let stream = comm.device().stream()?;
        comm.barrier(&stream)?.wait()
    };
    let sleeper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(2500));
        barrier(&late)
    });
    barrier(&early).unwrap();
    sleeper.join().unwrap().unwrap();
}
