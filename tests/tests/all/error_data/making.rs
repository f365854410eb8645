//! Errors of communicators that cannot be made.

use std::sync::Mutex;
use std::time::Duration;

use ascend_emulator_testing::alone;
use ascend_emulator_testing::barrier::Barrier;
use hccl::prelude::*;
use hccl::{CommConfig, Error, ErrorKind, Pending, Result};
use hccl_tests::{own_devices, runtime_with};

use super::said;

/// Returns the results of ranks that join at about the same time, each with its own number of ranks
/// and settings.
fn joins<const N: usize>(
    limit: Duration,
    ranks: [(u32, u32, CommConfig); N],
) -> [Result<Communicator>; N] {
    let runtime = own_devices().devices(4).connect_timeout(limit).build().unwrap();
    let root_info = RootInfo::new(&runtime.device(0).unwrap()).unwrap();
    let begun = ranks.map(|(rank, world_size, config)| {
        let builder = Communicator::builder().runtime(&runtime).rank(rank).world_size(world_size);
        builder.root_info(&root_info).config(config).build()
    });
    begun.map(Pending::wait)
}

#[test]
fn a_communicator_that_is_not_made_has_the_ranks_that_are_missing() {
    let joined = joins(
        Duration::from_secs(3),
        [0, 2].map(|rank| (rank, 4, CommConfig::builder().name("dp0").build())),
    );
    for (outcome, rank) in joined.into_iter().zip([0, 2]) {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert_eq!(error.missing_ranks(), [1, 3], "{error}");
        assert!(error.gone_ranks().is_empty() && error.claims().is_empty());
        let context = error.context().unwrap();
        assert_eq!((context.rank, context.world_size), (Some(rank), Some(4)));
        assert_eq!(context.communicator.as_deref(), Some("dp0"));
        assert_eq!(error.is_communicator_usable(), Some(false));
    }
}

#[test]
fn a_communicator_that_is_not_made_has_both_sides_of_what_differs() {
    let sized = |megabytes| CommConfig::builder().buffer_mib(megabytes).build();
    let cases = [
        ([(0, 2, sized(200)), (2, 3, sized(200))], ["2 ranks", "3 ranks"]),
        (
            [(0, 2, sized(200)), (1, 2, sized(64))],
            ["name \"\", buffer 200 MB", "name \"\", buffer 64 MB"],
        ),
    ];
    for (ranks, expected) in cases {
        let second = ranks[1].0;
        for outcome in joins(Duration::from_secs(20), ranks) {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
            assert_eq!(
                said(&error),
                [(vec![0], expected[0].into()), (vec![second], expected[1].into())]
            );
            assert!(error.to_string().contains("EI00"), "{error}");
        }
    }
}

#[test]
fn a_part_that_is_not_made_has_both_sides_of_what_differs() {
    let together = Barrier::new(3);
    let outcomes = runtime_with(3).run_ranks(3, |rank| -> Result<_> {
        let mut world = rank.communicator()?;
        let stream = rank.device().stream()?;
        let config = CommConfig::builder().buffer_mib(1 + rank.index()).build();
        let members = if rank.index() == 0 { [2, 0] } else { [0, 2] };
        let mut part = || world.subset_with(&members, 5, config.clone()).wait();
        // Rank 0 comes first.
        let part = match rank.index() {
            0 => {
                let part = part();
                together.wait();
                part
            }
            _ => {
                together.wait();
                part()
            }
        };
        together.wait();
        let outcome = part.and_then(|part| {
            part.map_or(Ok(()), |mut part| part.barrier(&stream).and_then(|work| work.wait()))
        });
        // A later failure for another reason does not mention this one.
        let own = |world: &mut Communicator| world.subset(&[rank.index()], 7).wait();
        let _part = own(&mut world)?;
        let taken = own(&mut world).unwrap_err();
        assert_eq!((taken.kind(), taken.claims()), (ErrorKind::Misuse, Vec::new()), "{taken}");
        // The whole communicator still works.
        world.barrier(&stream)?.wait()?;
        Ok(outcome)
    });
    let [zero, _, two] = <[_; 3]>::try_from(outcomes.unwrap()).unwrap();
    let sides = |first: u32, second: u32| {
        [(first, "ranks 2, 0, buffers of 1 MB"), (second, "ranks 0, 2, buffers of 3 MB")]
            .map(|(rank, said)| (vec![rank], said.to_owned()))
    };
    // The ranks in the error are those of the part or, for the error of making it, of the whole.
    for (outcome, mut expected) in [(two, sides(0, 2)), (zero, sides(1, 0))] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        expected.sort();
        assert_eq!(said(&error), expected, "{error}");
    }
}

#[test]
fn a_communicator_that_is_not_made_has_the_rank_that_is_gone() {
    let runtime = runtime_with(3);
    let outcomes = Mutex::new(Vec::new());
    let failed = runtime.run_ranks(
        3,
        |rank| -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
            if rank.index() == 1 {
                return Err("no data".into());
            }
            let error = rank.communicator().unwrap_err();
            outcomes.lock().unwrap().push(error.clone());
            Err(error.into())
        },
    );
    for error in outcomes.into_inner().unwrap() {
        assert_eq!(error.kind(), ErrorKind::RankGone, "{error}");
        assert_eq!(error.gone_ranks(), [1], "{error}");
        assert_ne!(error.is_communicator_usable(), Some(true));
    }
    let Err(Error::Rank(first)) = failed else { panic!("{failed:?}") };
    assert_eq!(first.rank(), 1, "{first}");
}

#[test]
fn a_communicator_that_nobody_is_left_to_join_is_told_at_once_as_a_deadlock() {
    alone!();
    let runtime = runtime_with(2);
    let failed = runtime.run_ranks(2, |rank| -> Result<()> {
        let mut world = rank.communicator()?;
        let stream = rank.device().stream()?;
        if rank.index() == 1 {
            return world.barrier(&stream)?.wait();
        }
        rank.communicator().map(drop)
    });
    let error = failed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
}

/// Checks calls that issue an operation under another name.
#[test]
fn links_and_splits_that_fail_are_named_as_the_program_called_them() {
    let builder = own_devices().devices(2);
    let runtime = builder.connect_timeout(Duration::from_millis(100)).build().unwrap();
    let devices = [0, 1].map(|index| runtime.device(index).unwrap());
    type Begin<'a> = &'a dyn Fn(&mut Communicator) -> Result<()>;
    let cases: [(&str, Begin); 3] = [
        ("connect", &|comm| comm.connect().wait()),
        ("connect_to", &|comm| comm.connect_to(&[1]).wait()),
        ("split", &|comm| comm.split(Some(0), 0).wait().map(drop)),
    ];
    for (name, begin) in cases {
        let mut comms = Communicator::init_all(&devices).wait().unwrap();
        for _ in 0..2 {
            // Rank 1 does not take part, so the communicator fails.
            let error = begin(&mut comms[0]).unwrap_err();
            let context = error.context().unwrap();
            assert_eq!((context.operation, context.rank), (name, Some(0)), "{error}");
            assert!(error.to_string().contains(&format!("[{name} #")), "{error}");
            assert_eq!(error.is_communicator_usable(), Some(false), "{error}");
        }
        comms[1].abort().unwrap();
        let refused = begin(&mut comms[1]).unwrap_err();
        assert_eq!(refused.context().map(|context| context.operation), Some(name), "{refused}");
    }
}
