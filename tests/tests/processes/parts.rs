//! Sub-communicators of ranks in several processes.

use hccl::ErrorKind;
use hccl::prelude::*;

use crate::ranks::{Place, run};

/// Gathers the number that each member of a communicator passes.
fn members(comm: &mut Communicator, own: u32, stream: &Stream) -> Vec<u32> {
    let x = comm.device().upload(&[own], stream).unwrap();
    let all = comm.device().alloc(comm.world_size() as usize).unwrap();
    let (all, _) = comm.all_gather(&x, all, stream).unwrap();
    all.to_vec(stream).wait().unwrap()
}

/// Returns the sum of the numbers that the members pass. It sums many elements, so that the ranks
/// share chunks.
fn sums(comm: &mut Communicator, own: u32, stream: &Stream) -> f32 {
    let mut x = comm.device().upload(&vec![own as f32; 100_000], stream).unwrap();
    comm.all_reduce_in_place(&mut x, Sum, stream).unwrap().wait().unwrap();
    x.to_vec(stream).wait().unwrap()[99_999]
}

#[test]
fn a_split_has_the_ranks_of_a_color_wherever_they_are() {
    for each in [&[1, 1, 1][..], &[2, 2], &[1, 3]] {
        run("parts::a_split_has_the_ranks_of_a_color_wherever_they_are", each, |place: Place| {
            let stream = place.device.stream().unwrap();
            let (me, mut world) = (place.rank, place.communicator());
            // The same split again and again makes a new part each time.
            for _ in 0..3 {
                let part = world.split(Some(me % 2), 9 - me).wait().unwrap();
                let mut part = part.unwrap();
                let all: Vec<u32> =
                    (0..place.ranks).rev().filter(|rank| rank % 2 == me % 2).collect();
                assert_eq!(members(&mut part, me, &stream), all);
                assert_eq!(sums(&mut part, me, &stream), all.iter().sum::<u32>() as f32);
                let whole = (0..place.ranks).sum::<u32>() as f32;
                assert_eq!(sums(&mut world, me, &stream), whole);
            }
        });
    }
}

/// Checks the names of parts whose parents have root infos of two processes. Each process numbers
/// the root infos that it makes, and a part is named after its parent.
#[test]
fn parts_of_communicators_by_root_infos_of_two_processes_have_names_of_their_own() {
    const NAME: &str =
        "parts::parts_of_communicators_by_root_infos_of_two_processes_have_names_of_their_own";
    run(NAME, &[1, 1], |place| {
        let stream = place.device.stream().unwrap();
        let (me, mut all) = (place.rank, place.communicator());
        let mut parts = Vec::new();
        for by in 0..2 {
            let mut bytes = vec![0; RootInfo::BYTES];
            if me == by {
                bytes.copy_from_slice(RootInfo::new(&place.device).unwrap().to_bytes());
            }
            let mut shared = place.device.upload(&bytes, &stream).unwrap();
            all.broadcast(&mut shared, by, &stream).unwrap().wait().unwrap();
            let root = RootInfo::from_bytes(&shared.to_vec(&stream).wait().unwrap()).unwrap();
            let builder = Communicator::builder().device(&place.device).rank(me).world_size(2);
            let mut world = builder.root_info(&root).build().wait().unwrap();
            let part = world.split(Some(0), me).wait().unwrap().unwrap();
            parts.push((world, part));
        }
        assert_ne!(parts[0].1.name(), parts[1].1.name());
        for (_, part) in &mut parts {
            assert_eq!(members(part, me, &stream), [0, 1]);
        }
        all.barrier(&stream).unwrap().wait().unwrap();
    });
}

/// Lets ranks leave after a first operation without elements. A rank that leaves after it may be
/// gone before another process has seen it.
#[test]
fn a_rank_that_leaves_after_a_count_of_zero_has_taken_part() {
    const NAME: &str = "parts::a_rank_that_leaves_after_a_count_of_zero_has_taken_part";
    run(NAME, &[1, 2], |place| {
        let stream = place.device.stream().unwrap();
        let (me, mut world) = (place.rank, place.communicator());
        for _ in 0..200 {
            let mut part = world.split(Some(0), me).wait().unwrap().unwrap();
            let mut nothing = place.device.zeros::<f32>(0, &stream).unwrap();
            let group = hccl::group(|group| {
                group.on(&mut part, &stream).broadcast(&mut nothing, 0);
                Ok(())
            });
            group.unwrap().wait().unwrap();
        }
        world.barrier(&stream).unwrap().wait().unwrap();
    });
}

/// Makes parts after rank 0 has left, whose process keeps the register of parts.
#[test]
fn ranks_make_parts_after_the_rank_that_keeps_the_register_has_left() {
    const NAME: &str = "parts::ranks_make_parts_after_the_rank_that_keeps_the_register_has_left";
    for each in [&[1, 1, 1][..], &[2, 2]] {
        run(NAME, each, |place: Place| {
            let stream = place.device.stream().unwrap();
            let (me, mut world, mut end) = (place.rank, place.communicator(), place.communicator());
            let (early, late): (Vec<u32>, Vec<u32>) =
                (0..place.ranks).partition(|rank| rank + 2 < place.ranks);
            if early.contains(&me) {
                assert!(world.subset(&early, 7).wait().unwrap().is_some());
                drop(world);
                end.barrier(&stream).unwrap().wait().unwrap();
            } else {
                // The other ranks are gone by now.
                end.barrier(&stream).unwrap().wait().unwrap();
                for _ in 0..2 {
                    let mut part = world.subset(&late, 8).wait().unwrap().unwrap();
                    assert_eq!(members(&mut part, me, &stream), late);
                }
            }
            end.barrier(&stream).unwrap().wait().unwrap();
        });
    }
}

#[test]
fn a_subset_is_made_by_its_members_alone() {
    run("parts::a_subset_is_made_by_its_members_alone", &[1, 1, 1], |place| {
        let stream = place.device.stream().unwrap();
        let (me, mut world) = (place.rank, place.communicator());
        if me != 1 {
            // One rank comes late, when the other one already waits for it.
            std::thread::sleep(std::time::Duration::from_millis(u64::from(me) * 100));
            let mut part = world.subset(&[2, 0], 7).wait().unwrap().unwrap();
            assert_eq!(members(&mut part, me, &stream), [2, 0]);
            let mut y = place.device.zeros::<u32>(1000, &stream).unwrap();
            let x = place.device.upload(&vec![me; 1000], &stream).unwrap();
            let other = 1 - part.rank();
            part.batch()
                .send(&x, other)
                .recv(&mut y, other)
                .submit(&stream)
                .unwrap()
                .wait()
                .unwrap();
            assert_eq!(y.to_vec(&stream).wait().unwrap(), vec![2 - me; 1000]);
        }
        world.barrier(&stream).unwrap().wait().unwrap();
    });
}

#[test]
fn a_part_learns_of_a_rank_that_has_left_it_before_it_was_made_elsewhere() {
    const NAME: &str =
        "parts::a_part_learns_of_a_rank_that_has_left_it_before_it_was_made_elsewhere";
    run(NAME, &[1, 1], |place| {
        let stream = place.device.stream().unwrap();
        let mut world = place.communicator();
        if place.rank == 0 {
            // This makes the part and drops it.
            drop(world.subset(&[0, 1], 3).wait().unwrap().unwrap());
            world.barrier(&stream).unwrap().wait().unwrap();
        } else {
            world.barrier(&stream).unwrap().wait().unwrap();
            let mut part = world.subset(&[0, 1], 3).wait().unwrap().unwrap();
            let error = part.barrier(&stream).and_then(|work| work.wait()).unwrap_err();
            assert_eq!(
                (error.kind(), error.gone_ranks()),
                (ErrorKind::RankGone, vec![0]),
                "{error}"
            );
        }
        world.barrier(&stream).unwrap().wait().unwrap();
    });
}

#[test]
fn ranks_that_mean_different_parts_are_told_so() {
    run("parts::ranks_that_mean_different_parts_are_told_so", &[1, 1, 1], |place| {
        let (me, mut world) = (place.rank, place.communicator());
        let stream = place.device.stream().unwrap();
        let mut part = None;
        if me == 0 {
            part = world.subset(&[0, 1], 5).wait().unwrap();
        }
        // Rank 0 has chosen its way before this barrier.
        world.barrier(&stream).unwrap().wait().unwrap();
        match (me, &mut part) {
            (0, Some(part)) => {
                let error = part.barrier(&stream).and_then(|work| work.wait()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
            }
            (1, _) => {
                let error = world.subset(&[0, 1, 2], 5).wait().err().unwrap();
                let text = error.to_string();
                for piece in ["disagree about the sub-communicator", "ranks 0, 1, 2", "ranks 0, 1"]
                {
                    assert!(text.contains(piece), "{piece}: {text}");
                }
            }
            _ => {}
        }
        world.barrier(&stream).unwrap().wait().unwrap();
    });
}
