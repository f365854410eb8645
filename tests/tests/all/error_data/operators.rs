//! Errors of custom operators whose peers do not take part.

use std::time::Duration;

use ascend_emulator_testing::barrier::Barrier;
use hccl::operator::Engine;
use hccl::prelude::*;
use hccl::{Error, ErrorKind, Result};

use super::timed_out;
use crate::operators::algorithms::mesh_all_reduce;
use hccl_tests::{own_devices, runtime_with};

const ENGINES: [Engine; 2] = [Engine::CpuTs, Engine::AicpuTs];

#[test]
fn a_wait_for_an_operator_has_the_ranks_that_do_not_take_part() {
    for engine in ENGINES {
        let together = Barrier::new(3);
        let ranks = runtime_with(3).run_ranks(3, |rank| -> Result<_> {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let mut x = rank.device().zeros::<f32>(4, &stream)?;
            let operator = mesh_all_reduce(Sum);
            let mut run = || comm.run(&operator).engine(engine).in_place(&mut x).submit(&stream);
            run()?.wait()?;
            let error = match rank.index() {
                2 => None,
                _ => Some(timed_out(&run()?, &[2])),
            };
            together.wait();
            if rank.index() == 2 {
                run()?;
            }
            stream.synchronize()?;
            Ok(error)
        });
        for error in ranks.unwrap().into_iter().flatten() {
            assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
            assert_eq!(error.missing_ranks(), [2], "{engine:?}: {error}");
            assert_eq!(error.is_communicator_usable(), Some(true));
        }
    }
}

/// Returns the error of rank 0 for the first run of an operator in which rank 2 does not take part,
/// and then the result of a barrier of all ranks.
fn first_run(limit: Duration, leaves: bool) -> (Error, Result<()>) {
    let runtime = own_devices().devices(3).connect_timeout(limit).build().unwrap();
    let together = Barrier::new(3);
    let ranks = runtime.run_ranks(3, |rank| -> Result<_> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        comm.connect().wait()?;
        let mut x = rank.device().zeros::<f32>(4, &stream)?;
        let error = match rank.index() {
            2 if leaves => {
                drop(comm);
                together.wait();
                return Ok(None);
            }
            2 => None,
            _ => {
                let run = comm.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream);
                Some(run.and_then(|run| run.wait()).unwrap_err())
            }
        };
        together.wait();
        let barrier = comm.barrier(&stream).and_then(|work| work.wait());
        Ok(error.map(|error| (error, barrier)))
    });
    ranks.unwrap().remove(0).unwrap()
}

#[test]
fn a_first_run_that_fails_by_a_time_limit_has_the_ranks_that_do_not_take_part() {
    let (error, barrier) = first_run(Duration::from_secs(3), false);
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(error.missing_ranks(), [2], "{error}");
    let context = error.context().unwrap();
    assert_eq!((context.operation, context.rank), ("mesh_all_reduce", Some(0)));
    assert_eq!(error.is_communicator_usable(), barrier.is_ok().then_some(true), "{barrier:?}");
}

#[test]
fn a_first_run_has_the_rank_that_is_gone() {
    let (error, barrier) = first_run(Duration::from_secs(20), true);
    assert_eq!(error.kind(), ErrorKind::RankGone, "{error}");
    assert_eq!(error.gone_ranks(), [2], "{error}");
    assert!(barrier.is_err());
    assert_eq!(error.is_communicator_usable(), Some(false));
}
