//! Runs of several ranks: their results, and that no rank waits for a rank that is gone.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ascend_emulator_testing::barrier::Barrier;
use hccl::prelude::*;
use hccl_tests::{both_backends, runtime_with, without_extensions};

/// A time far below every time limit of the emulator and of `hccl`, and far above the time that a
/// busy machine needs.
const SOON: Duration = Duration::from_secs(100);

/// Runs ranks, one of which fails. Returns the rank that the error names, and the text of the
/// error.
fn first_failure<T: Send>(
    runtime: &Runtime,
    ranks: u32,
    f: impl Fn(Rank) -> hccl::Result<T> + Sync,
) -> (u32, String) {
    let since = Instant::now();
    let outcome = runtime.run_ranks(ranks, f);
    assert!(since.elapsed() < SOON, "the others waited {:?}", since.elapsed());
    match outcome {
        Err(hccl::Error::Rank(error)) => (error.rank(), error.cause().to_string()),
        Err(other) => panic!("not about a rank: {other}"),
        Ok(_) => panic!("a failure was lost"),
    }
}

fn problem<T>(text: &str) -> hccl::Result<T> {
    Err(hccl::Error::Invalid { operation: "test", problem: text.into() })
}

#[test]
fn an_abort_of_another_rank_gives_way_to_its_error() {
    let runtime = runtime_with(2);
    let (rank, text) = first_failure(&runtime, 2, |rank| -> hccl::Result<()> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        comm.barrier(&stream)?.wait()?;
        if rank.index() == 0 {
            return comm.barrier(&stream)?.wait();
        }
        comm.abort()?;
        // The other rank ends first.
        std::thread::sleep(Duration::from_millis(200));
        problem("bad data")
    });
    assert_eq!((rank, text.as_str()), (1, "bad data [test]"));
}

#[test]
fn an_error_about_another_rank_gives_way_to_the_error_of_that_rank() {
    let runtime = runtime_with(3);
    let told = Barrier::new(2);
    let (rank, text) = first_failure(&runtime, 3, |rank| -> hccl::Result<()> {
        match rank.index() {
            // This rank sees that rank 1 is gone before the reason is known.
            0 => Err(hccl::Error::RankGone { rank: 1, reason: "it is not there".into() }),
            1 => {
                let stream = rank.device().stream()?;
                // This fails, because the error of rank 0 has been recorded as the first by now.
                let failed = rank.communicator().and_then(|mut comm| comm.barrier(&stream)?.wait());
                assert!(failed.is_err());
                told.wait();
                problem("the cause")
            }
            _ => {
                told.wait();
                std::thread::sleep(Duration::from_millis(50));
                problem("what came later")
            }
        }
    });
    assert_eq!((rank, &*text), (1, "the cause [test]"));
}

#[test]
fn values_come_back_in_the_order_of_the_ranks() {
    let runtime = runtime_with(5);
    let borrowed = AtomicU32::new(0);
    let names = runtime
        .run_ranks(5, |rank| -> hccl::Result<_> {
            borrowed.fetch_add(rank.index(), Ordering::Relaxed);
            assert_eq!((rank.device().index(), rank.world_size()), (rank.index() as usize, 5));
            Ok(std::thread::current().name().unwrap().to_owned())
        })
        .unwrap();
    assert_eq!(names, ["rank 0", "rank 1", "rank 2", "rank 3", "rank 4"]);
    assert_eq!(borrowed.into_inner(), 10);
}

#[test]
fn a_rank_may_return_any_error() {
    let runtime = runtime_with(1);
    let outcome: hccl::Result<Vec<()>> = runtime.run_ranks(1, |_| Err("no such file"));
    assert_eq!(outcome.unwrap_err().to_string(), "rank 0: no such file");
}

/// Checks that an error and its sources, printed one after the other, contain no text twice.
#[test]
fn a_chain_of_errors_says_everything_once() {
    let runtime = runtime_with(1);
    let outcome: hccl::Result<Vec<()>> = runtime.run_ranks(1, |_| Err(Layer));
    let error = outcome.unwrap_err();
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    let mut texts = Vec::new();
    while let Some(error) = source {
        texts.push(error.to_string());
        source = error.source();
    }
    assert_eq!(texts, ["rank 0: the layer", "below it"]);
}

/// An error with a source.
#[derive(Debug)]
struct Layer;

impl std::fmt::Display for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the layer")
    }
}

impl std::error::Error for Layer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&Below)
    }
}

#[derive(Debug)]
struct Below;

impl std::fmt::Display for Below {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("below it")
    }
}

impl std::error::Error for Below {}

#[test]
fn more_ranks_than_devices_are_refused() {
    let runtime = runtime_with(2);
    let outcome = runtime.run_ranks(3, |_| Ok::<_, hccl::Error>(()));
    assert!(matches!(outcome, Err(hccl::Error::TooFewDevices { ranks: 3, devices: 2 })));
    assert!(runtime.run_ranks(0, |_| Ok::<_, hccl::Error>(())).is_err());
}

#[test]
fn an_error_before_the_communicator() {
    let runtime = runtime_with(4);
    let (rank, text) = first_failure(&runtime, 4, |rank| {
        if rank.index() == 2 {
            return problem("out of luck");
        }
        rank.communicator().map(drop)
    });
    assert_eq!((rank, text.as_str()), (2, "out of luck [test]"));
}

#[test]
fn a_panic_before_the_communicator() {
    let runtime = runtime_with(3);
    let (rank, text) = first_failure(&runtime, 3, |rank| {
        if rank.index() == 0 {
            panic!("number {}", 7);
        }
        rank.communicator().map(drop)
    });
    assert_eq!((rank, text.as_str()), (0, "panicked: number 7"));
}

#[test]
fn a_late_error_while_the_others_build_the_communicator() {
    let runtime = runtime_with(3);
    let (rank, _) = first_failure(&runtime, 3, |rank| {
        if rank.index() == 1 {
            // The other ranks are inside the call by then.
            std::thread::sleep(Duration::from_millis(100));
            return problem("late");
        }
        rank.communicator().map(drop)
    });
    assert_eq!(rank, 1);
}

#[test]
fn a_panic_between_communicator_and_first_operation() {
    let runtime = runtime_with(3);
    let (rank, text) = first_failure(&runtime, 3, |rank| {
        let mut comm = rank.communicator()?;
        let stream = rank.device().stream()?;
        if rank.index() == 1 {
            panic!("before links are built");
        }
        comm.barrier(&stream)?.wait()
    });
    assert_eq!((rank, text.as_str()), (1, "panicked: before links are built"));
}

/// Makes a rank fail in the middle of a collective. Links exist, so the other ranks wait on their
/// streams and not in a call.
fn fails_in_mid_collective(runtime: &Runtime, panics: bool) {
    let (rank, _) = first_failure(runtime, 3, |rank| {
        let mut comm = rank.communicator()?;
        let stream = rank.device().stream()?;
        let mut x = rank.device().zeros::<f32>(100_000, &stream)?;
        for round in 0..10 {
            if rank.index() == 2 && round == 5 {
                assert!(!panics, "in mid-collective");
                return problem("in mid-collective");
            }
            comm.all_reduce_in_place(&mut x, Sum, &stream)?.wait()?;
        }
        Ok(())
    });
    assert_eq!(rank, 2);
}

#[test]
fn an_error_in_mid_collective() {
    fails_in_mid_collective(&runtime_with(3), false);
}

#[test]
fn a_panic_in_mid_collective() {
    fails_in_mid_collective(&runtime_with(3), true);
}

#[test]
fn a_failure_in_mid_collective_without_optional_entries() {
    let runtime = without_extensions();
    fails_in_mid_collective(&runtime, false);
    fails_in_mid_collective(&runtime, true);
}

#[test]
fn a_rank_that_returns_early_does_not_leave_the_others_waiting() {
    let runtime = runtime_with(2);
    let (rank, text) = first_failure(&runtime, 2, |rank| {
        if rank.index() == 1 {
            return Ok(());
        }
        rank.communicator().map(drop)
    });
    assert_eq!(rank, 0);
    assert!(text.contains('1'), "it must name the rank that has left: {text}");

    let (rank, _) = first_failure(&runtime, 2, |rank| {
        let mut comm = rank.communicator()?;
        let stream = rank.device().stream()?;
        comm.barrier(&stream)?.wait()?;
        if rank.index() == 1 {
            return Ok(());
        }
        comm.barrier(&stream)?.wait()
    });
    assert_eq!(rank, 0);
}

#[test]
fn a_communicator_that_is_returned_goes_on() {
    let runtime = runtime_with(2);
    let comms = runtime.run_ranks(2, |rank| rank.communicator()).unwrap();
    std::thread::scope(|scope| {
        for mut comm in comms {
            scope.spawn(move || {
                let stream = comm.device().stream().unwrap();
                comm.barrier(&stream).unwrap().wait().unwrap();
            });
        }
    });
}

#[test]
fn several_communicators_of_one_run() {
    let runtime = runtime_with(2);
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let (mut first, mut second) = (rank.communicator()?, rank.communicator()?);
            assert_ne!(first.name(), second.name());
            let stream = rank.device().stream()?;
            first.barrier(&stream)?.wait()?;
            second.barrier(&stream)?.wait()
        })
        .unwrap();
}

/// Gives each device two threads with a communicator each. The first operations come in opposite
/// orders, and each waits for its peer inside the call. If the threads took strict turns, this
/// would never end.
#[test]
fn opposite_orders_on_two_devices_do_not_lock_up() {
    let runtime = runtime_with(2);
    let since = Instant::now();
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            let comms = [rank.communicator()?, rank.communicator()?];
            let first = rank.index();
            let line = Barrier::new(2);
            std::thread::scope(|scope| {
                let threads = (0..).zip(comms).map(|(number, mut comm)| {
                    let (rank, line) = (&rank, &line);
                    scope.spawn(move || -> hccl::Result<()> {
                        let stream = rank.device().stream()?;
                        line.wait();
                        if number != first {
                            std::thread::sleep(Duration::from_millis(100));
                        }
                        comm.barrier(&stream)?.wait()
                    })
                });
                let threads: Vec<_> = threads.collect();
                threads.into_iter().try_for_each(|thread| thread.join().unwrap())
            })
        })
        .unwrap();
    assert!(since.elapsed() < SOON);
}

#[test]
fn a_communicator_that_was_refused_may_be_asked_for_again() {
    let runtime = runtime_with(2);
    runtime
        .run_ranks(2, |rank| -> hccl::Result<()> {
            if rank.index() == 1 {
                return Ok(());
            }
            // The call waits inside until the other rank has left, and then it is refused.
            for _ in 0..3 {
                assert!(rank.communicator().is_err());
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn several_threads_of_one_rank_make_communicators() {
    let runtime = runtime_with(1);
    for _ in 0..20 {
        runtime
            .run_ranks(1, |rank| -> hccl::Result<()> {
                let start = Barrier::new(4);
                let make = || {
                    start.wait();
                    rank.clone().communicator().map(|comm| comm.name().to_owned())
                };
                let mut names = std::thread::scope(|scope| {
                    let threads = [(); 4].map(|()| scope.spawn(make));
                    threads
                        .into_iter()
                        .map(|thread| thread.join().unwrap())
                        .collect::<hccl::Result<Vec<_>>>()
                })?;
                names.sort();
                names.dedup();
                assert_eq!(names.len(), 4);
                Ok(())
            })
            .unwrap();
    }
}

/// A value that panics when it is dropped.
struct Trap;

impl Drop for Trap {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_panic_whose_payload_panics_when_dropped() {
    let runtime = runtime_with(2);
    let (rank, text) = first_failure::<()>(&runtime, 2, |rank| {
        if rank.index() == 1 {
            std::panic::panic_any(Trap);
        }
        rank.communicator()?;
        problem("nobody came")
    });
    assert_eq!((rank, &*text), (1, "panicked: the panic payload is not a text"));
}

#[derive(Debug)]
struct Mute;

impl std::fmt::Display for Mute {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("no words");
    }
}

impl std::error::Error for Mute {}

#[test]
fn an_error_whose_text_panics() {
    let runtime = runtime_with(2);
    let outcome =
        runtime.run_ranks(2, |rank| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            if rank.index() == 1 {
                return Err(Mute.into());
            }
            rank.communicator()?;
            Ok(())
        });
    let Err(hccl::Error::Rank(error)) = outcome else { panic!("a failure was lost") };
    assert_eq!(error.rank(), 1);
    assert!(error.cause().is::<Mute>());
    assert!(
        error.to_string().ends_with("an error whose text is not available: panicked: no words")
    );
}

struct Stubborn;

impl From<Stubborn> for Box<dyn std::error::Error + Send + Sync> {
    fn from(_: Stubborn) -> Self {
        panic!("not an error")
    }
}

#[test]
fn an_error_whose_conversion_panics() {
    let runtime = runtime_with(2);
    let outcome = runtime.run_ranks(2, |rank| {
        if rank.index() == 0 && rank.communicator().is_ok() {
            return Ok(());
        }
        Err(Stubborn)
    });
    let Err(hccl::Error::Rank(error)) = outcome else { panic!("a failure was lost") };
    assert_eq!((error.rank(), error.panicked()), (1, true));
}

#[test]
fn a_rank_that_returns_has_issued_what_it_has_begun() {
    both_backends(|runtime| {
        let sums = runtime.run_ranks(2, |rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let mut x = rank.device().upload(&[1], &stream)?;
            if rank.index() == 1 {
                // By then the peer would have returned from the closure, if it returned too early.
                std::thread::sleep(Duration::from_millis(50));
            }
            comm.all_reduce_in_place(&mut x, Sum, &stream)?;
            if rank.index() == 1 { x.to_vec(&stream).wait() } else { Ok(Vec::new()) }
        });
        assert_eq!(sums.unwrap(), [vec![], vec![2]]);
    });
}
