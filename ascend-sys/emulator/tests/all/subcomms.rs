//! Tests of sub-communicators: each rank makes its end alone, and then uses the communicator like
//! any other.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::{self, Block, message};
use ascend_emulator_testing::ranks::{
    FP32, Rank, SUM, config, impatient_to_meet, limit, name_of, on_block, on_ranks,
};
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

const NOT_A_MEMBER: u64 = 0xffff_ffff;

/// Returns a sub-communicator of these ranks. `rank` must be one of them.
fn make(rank: &Rank, ranks: &[u32], id: u64, config: HcclCommConfig) -> HcclComm {
    let (mut comm, mut sub, mut config, mut ranks) =
        (rank.comm, null_mut(), config, ranks.to_vec());
    let own = ranks.iter().position(|other| *other == rank.rank).unwrap() as u32;
    let count = ranks.len() as u32;
    hccl!(HcclCreateSubCommConfig(
        &mut comm,
        count,
        ranks.as_mut_ptr(),
        id,
        own,
        &mut config,
        &mut sub
    ));
    sub
}

/// Returns the sum of the values that the ranks of a communicator pass.
fn sum(rank: &Rank, comm: HcclComm, value: f32) -> f32 {
    let buffer = rank.upload(&value.to_ne_bytes());
    hccl!(HcclAllReduce(buffer, buffer, 1, FP32, SUM, comm, rank.stream));
    rank.sync();
    let sum = f32::from_ne_bytes(rank.download(buffer, 4).try_into().unwrap());
    rank.free(buffer);
    sum
}

#[test]
fn a_world_is_cut_into_parts_that_work_side_by_side() {
    on_ranks(7, |rank| {
        let name = name_of(rank.comm);
        // The odd and the even ranks are listed backwards. The last rank is in neither list.
        let (odd, even) = (vec![5, 3, 1], vec![4, 2, 0]);
        let own = if rank.rank % 2 == 1 { &odd } else { &even };
        if rank.rank == 6 {
            let mut sub = 77 as HcclComm;
            let (null, no_config) = (null_mut(), null_mut());
            hccl!(HcclCreateSubCommConfig(
                &mut rank.comm,
                0,
                null,
                NOT_A_MEMBER,
                0,
                no_config,
                &mut sub
            ));
            assert_eq!(sub, 77 as HcclComm, "a rank outside gets no communicator");
            assert_eq!(sum(rank, rank.comm, 1.0), 7.0);
            return;
        }
        let sub = make(rank, own, 3, config(""));
        assert_eq!(name_of(sub), format!("{name}_sub_3"));
        let (mut ranks, mut id) = (0, 99);
        hccl!(HcclGetRankSize(sub, &mut ranks));
        hccl!(HcclGetRankId(sub, &mut id));
        assert_eq!((ranks, own[id as usize]), (3, rank.rank));
        let expected: u32 = own.iter().sum();
        assert_eq!(sum(rank, sub, rank.rank as f32), expected as f32);
        assert_eq!(sum(rank, rank.comm, 1.0), 7.0);
        assert_eq!(sum(rank, sub, 1.0), 3.0);
        hccl!(HcclCommDestroy(sub));
    });
}

#[test]
fn parts_fail_alone() {
    on_ranks(3, |rank| {
        let [first, second] = [0, 1].map(|id| make(rank, &[0, 1, 2], id, config("")));
        let buffer = rank.upload(&[0; 16]);
        let count = 1 + u64::from(rank.rank);
        let code = call!(HcclAllReduce(buffer, buffer, count, FP32, SUM, first, rank.stream));
        let text = message();
        assert_eq!(code, HcclResult::HCCL_E_PARA, "{text}");
        assert!(text.contains("the counts differ"), "{text}");
        assert_eq!(sum(rank, second, 1.0), 3.0);
        assert_eq!(sum(rank, rank.comm, 1.0), 3.0);
        hccl!(HcclCommDestroy(first));
        hccl!(HcclCommDestroy(second));
    });
}

#[test]
fn a_rank_that_is_far_behind_gets_them_in_order() {
    let met = Barrier::new(2);
    on_ranks(2, |rank| {
        if rank.rank == 1 {
            met.wait();
        }
        let first = make(rank, &[0, 1], 9, config(""));
        hccl!(HcclCommDestroy(first));
        let second = make(rank, &[0, 1], 9, config(""));
        if rank.rank == 0 {
            met.wait();
        }
        assert_eq!(sum(rank, second, 2.0), 4.0);
        hccl!(HcclCommDestroy(second));
    });
}

#[test]
fn arguments_are_checked_before_anything_is_made() {
    on_ranks(2, |rank| {
        let mut own = rank.comm;
        let comm = &raw mut own;
        let mut ids = [0, 1];
        let ranks = ids.as_mut_ptr();
        let mut good = config("");
        let good = &raw mut good;
        let mut result = null_mut();
        let sub = &raw mut result;
        let me = rank.rank;
        let null = null_mut();
        // A rank outside must pass both marks. Nothing else is checked before this.
        refuses!(
            HCCL_E_PARA,
            ["0xffffffff"],
            HcclCreateSubCommConfig(null_mut(), 0, null, 1, 0, null_mut(), null_mut())
        );
        refuses!(
            HCCL_E_PARA,
            ["0xffffffff"],
            HcclCreateSubCommConfig(comm, 2, ranks, NOT_A_MEMBER, me, good, sub)
        );
        hccl!(HcclCreateSubCommConfig(
            null_mut(),
            0,
            null,
            NOT_A_MEMBER,
            9,
            null_mut(),
            null_mut()
        ));
        refuses!(
            HCCL_E_PTR,
            ["comm"],
            HcclCreateSubCommConfig(null_mut(), 0, ranks, 1, 9, null_mut(), null_mut())
        );
        let mut none = null_mut();
        refuses!(
            HCCL_E_PTR,
            ["comm"],
            HcclCreateSubCommConfig(&mut none, 2, ranks, 1, me, good, sub)
        );
        refuses!(
            HCCL_E_PTR,
            ["config"],
            HcclCreateSubCommConfig(comm, 0, ranks, 1, 9, null_mut(), sub)
        );
        refuses!(
            HCCL_E_PTR,
            ["subComm"],
            HcclCreateSubCommConfig(comm, 0, ranks, 1, 9, good, null_mut())
        );
        refuses!(
            HCCL_E_PARA,
            ["rankNum is 0"],
            HcclCreateSubCommConfig(comm, 0, ranks, 1, 9, good, sub)
        );
        refuses!(
            HCCL_E_PARA,
            ["subCommRankId 2"],
            HcclCreateSubCommConfig(comm, 2, ranks, 1, 2, good, sub)
        );
        refuses!(
            HCCL_E_PARA,
            ["rankIds", "this rank"],
            HcclCreateSubCommConfig(comm, 2, ranks, 1, 1 - me, good, sub)
        );
        let mut wrong = [me, 2];
        refuses!(
            HCCL_E_PARA,
            ["rank 2", "pass ranks below that number"],
            HcclCreateSubCommConfig(comm, 2, wrong.as_mut_ptr(), 1, 0, good, sub)
        );
        wrong[1] = me;
        refuses!(
            HCCL_E_PARA,
            ["twice"],
            HcclCreateSubCommConfig(comm, 2, wrong.as_mut_ptr(), 1, 0, good, sub)
        );
        let mut unreadable = config("");
        unreadable.reserved[8] = 0;
        refuses!(
            HCCL_E_PARA,
            ["magic"],
            HcclCreateSubCommConfig(comm, 2, ranks, 1, me, &mut unreadable, sub)
        );
        assert!(result.is_null());

        let part = make(rank, &[0, 1], 1, config("part"));
        let again = &mut config("part");
        refuses!(
            HCCL_E_PARA,
            ["already has a communicator named \"part\""],
            HcclCreateSubCommConfig(comm, 2, ranks, 2, me, again, sub)
        );
        let mut of_part = part;
        refuses!(
            HCCL_E_NOT_SUPPORT,
            ["a sub-communicator itself"],
            HcclCreateSubCommConfig(&mut of_part, 2, ranks, 2, me, good, sub)
        );
        assert_eq!(sum(rank, part, 1.0), 2.0);
        hccl!(HcclCommDestroy(part));
    });
}

#[test]
fn ranks_that_disagree_are_told_both_sides() {
    let turn = Barrier::new(3);
    on_ranks(3, |rank| {
        let mut sub = null_mut();
        if rank.rank == 0 {
            sub = make(rank, &[0, 1], 4, config(""));
            turn.wait();
        } else {
            turn.wait();
        }
        let sides = ["EI0005", "ranks 0, 1 ", "ranks 0, 1, 2 ", "disagree"];
        let [code, one, two, what] = sides;
        if rank.rank == 1 {
            let (mut ids, mut config) = ([0, 1, 2], config(""));
            let comm = &mut rank.comm;
            refuses!(
                HCCL_E_PARA,
                [code, one, two, what],
                HcclCreateSubCommConfig(comm, 3, ids.as_mut_ptr(), 4, 1, &mut config, &mut sub)
            );
        }
        turn.wait();
        if rank.rank == 0 {
            // Rank 0 made its communicator first, so it gets the error when it uses the
            // communicator.
            refuses!(HCCL_E_PARA, [code, one, two, what], HcclBarrier(sub, rank.stream));
            hccl!(HcclCommDestroy(sub));
        }
    });
}

#[test]
fn a_rank_that_never_makes_it_is_missed_by_name() {
    let made = Barrier::new(3);
    let waited = on_block(impatient_to_meet(3), |rank| {
        rank.join();
        let mut sub = null_mut();
        if rank.rank != 2 {
            sub = make(rank, &[2, 1, 0], 1, config(""));
        }
        made.wait();
        let began = Instant::now();
        if rank.rank != 2 {
            refuses!(HCCL_E_TIMEOUT, ["EI0006", "rank 0 did not"], HcclBarrier(sub, rank.stream));
            hccl!(HcclCommDestroy(sub));
        }
        let waited = began.elapsed();
        made.wait();
        hccl!(HcclCommDestroy(rank.comm));
        waited
    });
    // One of the two ranks may call later than the other, and it gets the error when the first one
    // gives up. So only the longer wait is checked.
    let longest = waited.iter().max().unwrap();
    assert!(*longest >= Duration::from_millis(u64::from(limit()) - 100), "{waited:?}");
}

#[test]
fn a_rank_that_leaves_leaves_its_parts() {
    let made = Barrier::new(2);
    on_ranks(2, |rank| {
        // Rank 1 has made its end of the first communicator, but it never makes its end of the
        // second one.
        let both = make(rank, &[0, 1], 1, config(""));
        if rank.rank == 0 {
            let alone = make(rank, &[0, 1], 2, config(""));
            made.wait();
            refuses!(HCCL_E_REMOTE, ["rank 1 is gone", "tired"], HcclBarrier(both, rank.stream));
            refuses!(HCCL_E_REMOTE, ["rank 1 is gone", "tired"], HcclBarrier(alone, rank.stream));
            let late = make(rank, &[0, 1], 3, config(""));
            refuses!(HCCL_E_REMOTE, ["rank 1 is gone", "tired"], HcclBarrier(late, rank.stream));
            for comm in [both, alone, late] {
                hccl!(HcclCommDestroy(comm));
            }
        } else {
            hccl!(ascendExtRankLeave(&rank.info, 1, c"tired".as_ptr()));
            made.wait();
            hccl!(HcclCommDestroy(both));
        }
    });
}

#[test]
fn a_part_outlives_its_parent() {
    on_ranks(2, |rank| {
        let part = make(rank, &[1, 0], 1, config(""));
        hccl!(HcclCommDestroy(rank.comm));
        rank.comm = null_mut();
        assert_eq!(sum(rank, part, 1.5), 3.0);
        hccl!(HcclCommDestroy(part));
    });
}

#[test]
fn one_thread_cuts_and_uses_all_ranks() {
    let block = Block::new(4);
    let mut devices = [0, 1, 2, 3].map(|rank| block.first + rank);
    let mut comms = [null_mut(); 4];
    hccl!(HcclCommInitAll(4, devices.as_mut_ptr(), comms.as_mut_ptr()));
    let mut parts = [null_mut(); 4];
    let mut streams = [null_mut(); 4];
    let mut buffers = [null_mut(); 4];
    for rank in 0..4 {
        ok!(aclrtSetDevice(devices[rank]));
        streams[rank] = common::stream();
        buffers[rank] = common::malloc(4);
        common::write(buffers[rank], &(rank as f32).to_ne_bytes());
        let half = rank as u32 / 2;
        let (mut ids, mut config) = ([2 * half, 2 * half + 1], config(""));
        let (comm, part) = (&mut comms[rank], &mut parts[rank]);
        let own = rank as u32 % 2;
        hccl!(HcclCreateSubCommConfig(
            comm,
            2,
            ids.as_mut_ptr(),
            half.into(),
            own,
            &mut config,
            part
        ));
    }
    hccl!(HcclGroupStart());
    for rank in 0..4 {
        ok!(aclrtSetDevice(devices[rank]));
        let buffer = buffers[rank];
        hccl!(HcclAllReduce(buffer, buffer, 1, FP32, SUM, parts[rank], streams[rank]));
    }
    hccl!(HcclGroupEnd());
    for (buffer, expected) in buffers.into_iter().zip([1f32, 1.0, 5.0, 5.0]) {
        assert_eq!(common::read(buffer, 4), expected.to_ne_bytes());
    }
}
