//! Communicators of some of the ranks: `subset` and `split`.

use std::time::Duration;

use ascend_emulator_testing::barrier::Barrier;
use hccl::prelude::*;
use hccl::{Error, Result};
use hccl_tests::{Devices, both_with, runtime_with};

/// Runs four ranks, with the optional entries and without, and compares their results with the
/// expected ones.
fn on_four_ranks<T: Send + PartialEq + std::fmt::Debug>(
    run: impl Fn(Rank) -> Result<T> + Sync,
    expected: &[T],
) {
    both_with(Devices::new(4), Duration::from_secs(60), |runtime| {
        assert_eq!(runtime.run_ranks(4, &run).unwrap(), expected);
    });
}

/// Gathers the number that each member of a communicator passes.
fn members(comm: &mut Communicator, own: u32, stream: &Stream) -> Result<Vec<u32>> {
    let x = comm.device().upload(&[own], stream)?;
    let all = comm.device().alloc(comm.world_size() as usize)?;
    let (all, _) = comm.all_gather(&x, all, stream)?;
    all.to_vec(stream).wait()
}

#[test]
fn a_subset_is_made_by_its_members_alone() {
    let run = |rank: Rank| {
        let stream = rank.device().stream()?;
        let mut world = rank.communicator()?;
        let me = world.rank();
        if me == 1 {
            // This rank never calls `subset`.
            return Ok(vec![]);
        }
        let Some(mut part) = world.subset(&[3, 0], 7).wait()? else { return Ok(vec![me]) };
        assert_eq!(part.name(), format!("{}_sub_7", world.name()));
        assert_eq!((part.world_size(), part.rank()), (2, if me == 3 { 0 } else { 1 }));
        members(&mut part, me, &stream)
    };
    on_four_ranks(run, &[vec![3, 0], vec![], vec![2], vec![3, 0]]);
}

#[test]
fn a_split_orders_by_key_and_then_by_rank() {
    let run = |rank: Rank| {
        let stream = rank.device().stream()?;
        let mut world = rank.communicator()?;
        let me = world.rank();
        // Ranks 0 and 2 have equal keys, and 1 and 3 have them in reverse order.
        let mut part =
            world.split(Some(10 * (me % 2)), if me == 1 { 5 } else { 2 }).wait()?.unwrap();
        assert_eq!(part.name(), format!("{}_split1_{}", world.name(), me % 2));
        let first = members(&mut part, me, &stream)?;
        // The second split has some ranks without a color.
        let again = world.split((me < 3).then_some(4), 9 - me).wait()?;
        let second = match again {
            Some(mut part) => members(&mut part, me, &stream)?,
            None => vec![],
        };
        Ok((first, second))
    };
    let expected = [vec![0, 2], vec![3, 1], vec![0, 2], vec![3, 1]];
    let three = vec![2, 1, 0];
    let second = [three.clone(), three.clone(), three, vec![]];
    let expected: Vec<_> = expected.into_iter().zip(second).collect();
    on_four_ranks(run, &expected);
}

#[test]
fn the_same_id_serves_again_and_the_whole_may_go_first() {
    let run = |rank: Rank| {
        let stream = rank.device().stream()?;
        let mut world = rank.communicator()?;
        let me = world.rank();
        for _ in 0..3 {
            let mut part = world.subset(&[0, 1, 2, 3], 1).wait()?.unwrap();
            assert_eq!(members(&mut part, me, &stream)?, [0, 1, 2, 3]);
            drop(part);
            // No rank makes the next communicator before all ranks have dropped this one.
            world.barrier(&stream)?.wait()?;
        }
        let mut part = world.subset(&[0, 1, 2, 3], 2).wait()?.unwrap();
        drop(world);
        // This call destroys dropped communicators, if that is possible.
        drop(rank.device().zeros::<u8>(1, &stream)?);
        stream.synchronize()?;
        members(&mut part, me, &stream)
    };
    on_four_ranks(run, &[vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
}

#[test]
fn the_whole_may_go_while_a_part_is_made() {
    let run = |rank: Rank| {
        let stream = rank.device().stream()?;
        let mut made = Vec::new();
        for _ in 0..3 {
            let mut world = rank.communicator()?;
            let split = world.split(Some(0), world.rank());
            drop(world);
            // This call destroys dropped communicators, if that is possible.
            drop(rank.device().zeros::<u8>(1, &stream)?);
            let mut part = split.wait()?.unwrap();
            let me = part.rank();
            made = members(&mut part, me, &stream)?;
        }
        Ok(made)
    };
    on_four_ranks(run, &[vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
}

#[test]
fn what_cann_would_refuse_is_refused() {
    let runtime = runtime_with(2);
    let devices = [runtime.device(0).unwrap(), runtime.device(1).unwrap()];
    let mut world = Communicator::init_all(&devices).wait().unwrap().remove(0);
    assert!(matches!(world.subset(&[], 1).wait(), Err(Error::Empty { .. })));
    assert!(matches!(world.subset(&[0, 2], 1).wait(), Err(Error::NoSuchRank { rank: 2, .. })));
    let text = |outcome: Result<Option<Communicator>>| outcome.map(drop).unwrap_err().to_string();
    assert_eq!(
        text(world.subset(&[0, 1, 0], 1).wait()),
        "rank 0 is named twice: name it once [subset]"
    );
    assert!(
        text(world.subset(&[0], u32::MAX).wait()).starts_with("CANN reserves the id 4294967295")
    );
    let mut part = world.subset(&[0], 1).wait().unwrap().unwrap();
    let again = text(part.subset(&[0], 2).wait());
    assert!(again.starts_with("CANN does not divide a part of a communicator"), "{again}");
    assert_eq!(again.replace("subset", "split"), text(part.split(None, 0).wait()));
    // The name of this part is in use.
    let error = world.subset(&[0], 1).wait().map(drop).unwrap_err();
    assert!(matches!(error, Error::Call { function: "HcclCreateSubCommConfig", .. }), "{error}");
    // A rank that is no member makes no call.
    assert!(world.subset(&[1], 3).wait().unwrap().is_none());
}

#[test]
fn a_rank_that_is_gone_ends_the_waiting_of_its_parts() {
    let runtime = runtime_with(2);
    let outcome = runtime.run_ranks(2, |rank| -> Result<()> {
        let stream = rank.device().stream()?;
        let mut world = rank.communicator()?;
        let mut part = world.subset(&[0, 1], 1).wait()?.unwrap();
        part.barrier(&stream)?.wait()?;
        if rank.index() == 1 { Ok(()) } else { part.barrier(&stream)?.wait() }
    });
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("rank 1 is gone") || text.contains("rank 1"), "{text}");
}

/// Checks that only the ranks of a part get an error after its abort. After an abort of the whole,
/// the ranks of all parts get an error.
#[test]
fn an_abort_of_a_part_leaves_the_whole_and_one_of_the_whole_ends_its_parts() {
    let runtime = runtime_with(2);
    runtime.set_deadline(Duration::from_secs(60));
    let issued = Barrier::new(2);
    let outcome = runtime.run_ranks(2, |rank| -> Result<()> {
        let stream = rank.device().stream()?;
        let mut world = rank.communicator()?;
        let mut parts =
            [world.subset(&[0, 1], 1).wait()?.unwrap(), world.subset(&[0, 1], 2).wait()?.unwrap()];
        for part in &mut parts {
            part.barrier(&stream)?.wait()?;
        }
        if rank.index() == 0 {
            parts[0].abort_handle().abort()?;
            let refused = parts[0].barrier(&stream).unwrap_err();
            assert!(refused.to_string().contains("aborted"), "{refused}");
        }
        parts[1].barrier(&stream)?.wait()?;
        world.barrier(&stream)?.wait()?;
        if rank.index() == 0 {
            issued.wait();
            return world.abort_handle().abort();
        }
        let aborted = parts[0].barrier(&stream).and_then(|work| work.wait()).unwrap_err();
        let work = world.barrier(&stream)?;
        issued.wait();
        for text in [aborted.to_string(), work.wait().unwrap_err().to_string()] {
            assert!(text.contains("rank 0 has aborted the communicator"), "{text}");
        }
        Ok(())
    });
    outcome.unwrap();
}
