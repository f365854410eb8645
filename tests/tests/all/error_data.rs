//! The data of an error for a program: its class, its ranks, both sides of a mismatch, and the
//! calls that still work.

mod making;
mod operators;
mod printed;

use std::sync::Mutex;
use std::time::Duration;

use ascend_emulator_testing::barrier::Barrier;
use hccl::dtype::{DType, ReduceKind};
use hccl::error::{CommCause, Presence};
use hccl::prelude::*;
use hccl::{Error, ErrorKind, Result};
use hccl_tests::{own_devices, runtime_with};

/// Runs a closure on three ranks with a communicator on which all have met, and returns the
/// results.
fn outcomes(
    body: impl Fn(&mut Communicator, &Stream, &Barrier) -> Result<()> + Sync,
) -> Vec<Result<()>> {
    let together = Barrier::new(3);
    let ranks = runtime_with(3).run_ranks(3, |rank| -> Result<_> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        comm.barrier(&stream)?.wait()?;
        let outcome = body(&mut comm, &stream, &together);
        // A rank that returns counts as gone, so the ranks return together.
        together.wait();
        Ok(outcome)
    });
    ranks.unwrap()
}

/// Waits until a wait ends by its time limit and only the ranks `late` are missing, and returns the
/// error. The other ranks may arrive later than the first tries.
fn timed_out(work: &hccl::Work, late: &[u32]) -> Error {
    let error = || work.wait_timeout(Duration::from_millis(100)).unwrap_err();
    let mut errors = std::iter::repeat_with(error).take(600);
    let found = errors.find(|error| error.missing_ranks() == late);
    found.unwrap_or_else(|| panic!("for a minute others than {late:?} are missing too"))
}

#[test]
fn a_mismatch_has_what_each_rank_has_called() {
    let outcomes = outcomes(|comm, stream, _| {
        let mut x = comm.device().upload(&[1.0f32; 8], stream)?;
        match comm.rank() {
            2 => comm.broadcast(&mut x, 1, stream)?.wait(),
            _ => comm.all_reduce_in_place(&mut x, Sum, stream)?.wait(),
        }
    });
    for (rank, outcome) in (0..).zip(outcomes) {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        let context = error.context().unwrap();
        assert_eq!((context.rank, context.world_size, context.sequence), (Some(rank), Some(3), 2));
        assert_eq!(context.communicator.as_deref(), Some("world"));
        let peers = error.peers().unwrap();
        assert_eq!((peers.cause, peers.sequence), (Some(CommCause::Mismatch), 2));
        let claims = error.claims();
        assert_eq!(claims.len(), 2, "{claims:?}");
        // The error comes as soon as rank 2 and one of the ranks 0 and 1 have arrived.
        let mut sums = [&claims[0].ranks[..], &error.missing_ranks()].concat();
        sums.sort_unstable();
        assert_eq!(sums, [0, 1], "{error}");
        assert_eq!(&*claims[0].call.operation, "all_reduce");
        assert_eq!(claims[0].call.reduction, Some(ReduceKind::Sum));
        assert_eq!((claims[0].call.dtype, claims[0].call.count), (Some(DType::F32), Some(8)));
        assert_eq!((&claims[1].ranks[..], claims[1].call.root), (&[2][..], Some(1)));
        assert_eq!(error.is_communicator_usable(), Some(false));
        assert!(!error.is_retryable());
        assert!(error.code().unwrap().name().is_some());
    }
}

#[test]
fn a_wait_that_is_too_long_names_the_missing_and_can_be_repeated() {
    let outcomes = outcomes(|comm, stream, together| {
        if comm.rank() == 1 {
            together.wait();
            return comm.barrier(stream)?.wait();
        }
        let work = comm.barrier(stream)?;
        let error = timed_out(&work, &[1]);
        together.wait();
        work.wait()?;
        Err(error)
    });
    for rank in [0, 2] {
        let error = outcomes[rank].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.is_timeout() && error.is_retryable());
        assert_eq!(error.missing_ranks(), [1], "{error}");
        assert_eq!(error.is_communicator_usable(), Some(true));
        let late = &error.peers().unwrap().ranks[1];
        assert_eq!((late.presence, late.sequence), (Presence::Missing, 1));
        assert_eq!(late.call.as_ref().map(|call| &*call.operation), Some("barrier"));
        assert!(error.claims().is_empty());
    }
}

#[test]
fn a_rank_that_is_gone_or_has_aborted_is_told_from_one_that_is_late() {
    let runtime = runtime_with(2);
    let devices = [0, 1].map(|index| runtime.device(index).unwrap());
    for aborts in [false, true] {
        let [mut one, mut two] =
            <[_; 2]>::try_from(Communicator::init_all(&devices).wait().unwrap()).unwrap();
        let stream = devices[0].stream().unwrap();
        let work = one.barrier(&stream).unwrap();
        if aborts {
            two.abort().unwrap();
            let other = devices[1].stream().unwrap();
            let own = two.barrier(&other).unwrap_err();
            assert_eq!(own.kind(), ErrorKind::Aborted, "{own}");
            assert_eq!((own.is_communicator_usable(), own.is_retryable()), (Some(false), false));
        } else {
            drop(two);
        }
        let error = work.wait().unwrap_err();
        let kind = if aborts { ErrorKind::Aborted } else { ErrorKind::RankGone };
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.gone_ranks(), [1], "{error}");
        let why = &error.peers().unwrap().ranks[1].note;
        let expected =
            if aborts { "it has aborted the communicator" } else { "dropped its communicator" };
        assert!(why.contains(expected), "{why}");
        assert_eq!(error.is_communicator_usable(), Some(false));
    }
}

#[test]
fn a_deadlock_is_of_its_own_kind() {
    let runtime = runtime_with(2);
    let failed = runtime.run_ranks(2, |rank| -> Result<()> {
        let stream = rank.device().stream()?;
        let (mut one, mut two) = (rank.communicator()?, rank.communicator()?);
        one.barrier(&stream)?.wait()?;
        two.barrier(&stream)?.wait()?;
        let [first, then] =
            if rank.index() == 0 { [&mut one, &mut two] } else { [&mut two, &mut one] };
        let works = [first.barrier(&stream)?, then.barrier(&stream)?];
        works.iter().try_for_each(Work::wait)
    });
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
    let text = error.to_string();
    assert!(text.contains("\"world\"") && text.contains("\"world 2\""), "{text}");
    assert!(text.contains("device 0") && text.contains("device 1"), "{text}");
}

#[test]
fn a_mistake_leaves_the_communicator_as_it_was() {
    for outcome in outcomes(|comm, stream, _| {
        let x = comm.device().zeros::<f32>(8, stream)?;
        let mut y = comm.device().zeros::<f32>(7, stream)?;
        let error = comm.all_reduce(&x, &mut y, Sum, stream).unwrap_err();
        comm.barrier(stream)?.wait()?;
        Err(error)
    }) {
        let error: Error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
        assert_eq!(error.is_communicator_usable(), Some(true));
        assert!(error.peers().is_none() && !error.is_retryable());
    }
}

/// Lets rank 0 of three exchange messages with ranks 1 and 2, while rank 2 does not make its call.
/// The test runs without links and with links.
#[test]
fn a_message_that_waits_too_long_has_the_rank_whose_side_is_missing() {
    let outcomes = outcomes(|comm, stream, together| {
        for linked in [false, true] {
            let device = comm.device().clone();
            let x = device.upload(&[comm.rank()], stream)?;
            let mut y = device.zeros::<u32>(2, stream)?;
            let mut parts = y.slice_mut(..)?.chunks_mut(1)?;
            let (mut one, mut two) = (parts.next().unwrap(), parts.next().unwrap());
            let missing = |work: &hccl::Work| {
                let error = timed_out(work, &[2]);
                assert_eq!(error.kind(), ErrorKind::Timeout, "linked {linked}: {error}");
                let text = error.to_string();
                assert!(text.contains("arrived: 0    missing: 2"), "{text}");
                // The text has no name of an entry that is neither CANN's nor this crate's.
                assert!(!text.contains("ascendExt"), "{text}");
                let ranks = &error.peers().unwrap().ranks;
                assert_eq!(ranks[1].presence, Presence::Apart);
            };
            match comm.rank() {
                0 => {
                    let work = comm.recv(&mut two, 2, stream)?;
                    missing(&work);
                    together.wait();
                    work.wait()?;
                    together.wait();
                    let batch = comm.batch().recv(&mut one, 1).recv(&mut two, 2);
                    let work = batch.submit(stream)?;
                    if linked {
                        missing(&work);
                    }
                    together.wait();
                    work.wait()?;
                }
                1 => {
                    together.wait();
                    together.wait();
                    let work = comm.batch().send(&x, 0).submit(stream)?;
                    together.wait();
                    work.wait()?;
                }
                _ => {
                    together.wait();
                    comm.send(&x, 0, stream)?.wait()?;
                    together.wait();
                    together.wait();
                    comm.batch().send(&x, 0).submit(stream)?.wait()?;
                }
            }
            comm.barrier(stream)?.wait()?;
        }
        Ok(())
    });
    for outcome in outcomes {
        outcome.unwrap();
    }
}

#[test]
fn a_message_that_fails_by_a_time_limit_has_the_rank_whose_side_is_missing() {
    let limit = Duration::from_millis(300);
    let runtime = own_devices().devices(2).exec_timeout(limit).build().unwrap();
    let together = Barrier::new(2);
    let outcomes = runtime.run_ranks(2, |rank| -> Result<_> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        comm.connect_to(&[1 - rank.index()]).wait()?;
        let mut x = rank.device().upload(&[1], &stream)?;
        let outcome = match rank.index() {
            0 => comm.recv(&mut x, 1, &stream)?.wait(),
            _ => Ok(()),
        };
        together.wait();
        Ok(outcome)
    });
    let error = outcomes.unwrap().remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(error.missing_ranks(), [1], "{error}");
}

#[test]
fn a_rank_that_is_missing_is_told_with_how_long_it_has_been_quiet() {
    let outcomes = outcomes(|comm, stream, together| {
        if comm.rank() == 2 {
            together.wait();
            return comm.barrier(stream)?.wait();
        }
        let work = comm.barrier(stream)?;
        // Long enough that the wait looks at the ranks a first time before it ends, also on a
        // machine with much to do.
        let limit = Duration::from_secs(3);
        timed_out(&work, &[2]);
        let error = match comm.rank() {
            0 => work.wait_timeout(limit).unwrap_err(),
            _ => {
                let before = comm.device().runtime().deadline();
                comm.device().runtime().set_deadline(limit);
                let error = futures::executor::block_on(work).unwrap_err();
                comm.device().runtime().set_deadline(before);
                error
            }
        };
        let state = &error.peers().unwrap().ranks[2];
        assert!(state.presence == Presence::Missing && state.quiet.is_some(), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("missing: 2 (last seen in barrier #1, ")
                && text.contains(" s ago or more)"),
            "{text}"
        );
        together.wait();
        stream.synchronize()
    });
    for outcome in outcomes {
        outcome.unwrap();
    }
}

/// Checks a message to a rank that is gone, after a collective, without links and with links.
#[test]
fn a_message_to_a_rank_that_is_gone_has_that_rank() {
    let runtime = runtime_with(2);
    let devices = [0, 1].map(|index| runtime.device(index).unwrap());
    for linked in [false, true] {
        let comms = Communicator::init_all(&devices).wait().unwrap();
        let [mut one, mut two] = <[_; 2]>::try_from(comms).unwrap();
        let (stream, other) = (devices[0].stream().unwrap(), devices[1].stream().unwrap());
        let theirs = two.barrier(&other).unwrap();
        one.barrier(&stream).unwrap().wait().unwrap();
        theirs.wait().unwrap();
        if linked {
            for pending in [one.connect_to(&[1]), two.connect_to(&[0])] {
                pending.wait().unwrap();
            }
        }
        let mut x = devices[0].zeros::<u8>(8, &stream).unwrap();
        let work = one.recv(&mut x, 1, &stream).unwrap();
        drop(two);
        let error = work.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RankGone, "linked {linked}: {error}");
        assert_eq!(error.gone_ranks(), [1], "linked {linked}: {error}");
    }
}

#[test]
fn a_first_message_that_fails_by_a_time_limit_names_its_peer_alone() {
    let builder = own_devices().devices(4);
    let runtime = builder.connect_timeout(Duration::from_millis(300)).build().unwrap();
    let devices: Vec<Device> = (0..4).map(|index| runtime.device(index).unwrap()).collect();
    let mut comms = Communicator::init_all(&devices).wait().unwrap();
    let stream = devices[0].stream().unwrap();
    let x = devices[0].zeros::<u8>(8, &stream).unwrap();
    let error = comms[0].send(&x, 2, &stream).unwrap().wait().unwrap_err();
    assert!(error.to_string().contains(": rank 2 did not make the matching call"), "{error}");
    assert_eq!(error.missing_ranks(), [2], "{error}");
}

/// Returns the claims of an error: ranks with the text of their call.
fn said(error: &Error) -> Vec<(Vec<u32>, String)> {
    error.claims().into_iter().map(|claim| (claim.ranks, claim.call.to_string())).collect()
}

/// Checks mismatches of messages, of tables of counts, and of a collective with a message.
#[test]
fn a_mismatch_of_anything_has_what_each_side_has_said() {
    let outcomes = |body: &(dyn Fn(&mut Communicator, &Stream) -> Result<()> + Sync)| {
        let outcomes = outcomes(|comm, stream, _| body(comm, stream));
        outcomes.into_iter().filter_map(Result::err).collect::<Vec<_>>()
    };
    let messages = outcomes(&|comm, stream| {
        let mut x = comm.device().zeros::<f32>(8, stream)?;
        match comm.rank() {
            0 => comm.send(&x, 1, stream)?.wait(),
            1 => comm.recv(&mut x.slice_mut(..4)?, 0, stream)?.wait(),
            _ => Ok(()),
        }
    });
    let counts = outcomes(&|comm, stream| {
        // Rank 1 has a smaller count for rank 0.
        let counts = [if comm.rank() == 1 { 3 } else { 4 }, 2, 2];
        let x = comm.device().zeros::<f32>(counts[comm.rank() as usize], stream)?;
        let mut all = comm.device().zeros::<f32>(counts.iter().sum(), stream)?;
        comm.all_gather_v(&x, &mut all, &Partition::packed(counts)?, stream)?.wait()
    });
    // Here the ranks have no links yet.
    let first_contact = Mutex::new(Vec::new());
    let failed = runtime_with(2).run_ranks(2, |rank| {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let mut x = rank.device().zeros::<f32>(8, &stream)?;
        let outcome = match comm.rank() {
            0 => comm.barrier(&stream)?.wait(),
            _ => comm.recv(&mut x, 0, &stream)?.wait(),
        };
        first_contact.lock().unwrap().extend(outcome.as_ref().err().cloned());
        outcome
    });
    failed.unwrap_err();
    let first_contact = first_contact.into_inner().unwrap();
    for (errors, expected) in [
        (messages, &[(0, "sends, count 8, FP32"), (1, "receives, count 4, FP32")][..]),
        (counts, &[(1, "HcclAllGatherV, count 3 of rank 0, FP32")]),
        (first_contact, &[(0, "HcclBarrier"), (1, "HcclRecv with rank 0")]),
    ] {
        assert!(errors.len() >= 2, "{errors:?}");
        for error in errors {
            // A rank with a claim is not missing.
            let missing = error.missing_ranks();
            let has_come = |rank: &u32| !missing.contains(rank);
            let claims = error.claims();
            assert!(claims.iter().flat_map(|claim| &claim.ranks).all(has_come), "{error}");
            for (rank, words) in expected {
                assert!(
                    said(&error).contains(&(vec![*rank], (*words).into())),
                    "{:?}",
                    said(&error)
                );
            }
        }
    }
}

/// Checks that the data of an error names the call: one that was issued, one that was refused, and
/// one without a number.
#[test]
fn an_error_says_what_was_called() {
    let runtime = runtime_with(2);
    let device = runtime.device(0).unwrap();
    let stream = device.stream().unwrap();
    let mut x = device.zeros::<i32>(4, &stream).unwrap();
    let other = device.zeros::<i32>(5, &stream).unwrap();
    let far = runtime.device(1).unwrap().stream().unwrap();
    let root = RootInfo::new(&device).unwrap();
    let builder = || Communicator::builder().device(&device).world_size(1).root_info(&root);
    let config = CommConfig::builder().buffer_mib(0).build();
    let built = "Communicator::builder";
    for (error, operation) in [
        (runtime.device(2).unwrap_err(), "device"),
        (x.copy_from(&other, &stream).unwrap_err(), "copy_from"),
        (x.fill_zero(&far).unwrap_err(), "fill_zero"),
        (builder().rank(1).build().wait().unwrap_err(), built),
        (builder().rank(0).config(config).build().wait().unwrap_err(), built),
        (runtime.run_ranks(3, |_| -> hccl::Result<()> { Ok(()) }).unwrap_err(), "run_ranks"),
    ] {
        assert_eq!(error.operation(), Some(operation), "{error}");
    }
}
