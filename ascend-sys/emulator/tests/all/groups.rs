//! Tests of groups: one thread makes the calls of several ranks, and a group refuses some calls.

mod messages;
mod world;

use ascend_emulator_testing::common::{self, Block, message};
use ascend_emulator_testing::ranks::{FP32, SUM, group_result, on_ranks, root_info};
use ascend_emulator_testing::{call, hccl, ok, refuses};
use ascend_sys::*;
use std::ptr::null_mut;
use std::time::{Duration, Instant};
use world::World;

#[test]
fn one_thread_makes_uses_and_ends_all_ranks() {
    const RANKS: u32 = 5;
    let mut world =
        World::without_comms(AscendExtBlockConfig { deviceCount: RANKS, ..Block::config() });
    let info = root_info();
    hccl!(HcclGroupStart());
    for rank in world.ranks() {
        world.set(rank);
        world.comms[rank] = 77 as HcclComm;
        hccl!(HcclCommInitRootInfo(RANKS, &info, rank as u32, &mut world.comms[rank]));
        assert!(world.comms[rank].is_null(), "the communicator is there before the end");
    }
    hccl!(HcclGroupEnd());
    for rank in world.ranks() {
        let mut id = 99;
        hccl!(HcclGetRankId(world.comms[rank], &mut id));
        assert_eq!(id as usize, rank);
        assert_eq!(group_result(rank as u32).0, 0);
    }
    refuses!(
        HCCL_E_NOT_FOUND,
        ["last group of this thread is 5", "index 5"],
        ascendExtGroupResult(5, &mut HcclResult(0), null_mut(), 0)
    );

    // The ranks meet in the first round. The later rounds find them connected.
    for count in [3, 70_000, 1] {
        let buffers: Vec<_> =
            world.ranks().map(|rank| world.upload(rank, &vec![rank as f32; count])).collect();
        hccl!(HcclGroupStart());
        for rank in world.ranks() {
            assert_eq!(world.all_reduce(rank, buffers[rank], count).0, 0, "{}", message());
        }
        hccl!(HcclGroupEnd());
        for rank in world.ranks() {
            // The end of the group waited for the work.
            world.set(rank);
            assert!(common::idle(world.streams[rank]));
            assert_eq!(world.download(rank, buffers[rank], count), vec![10.0; count]);
        }
    }

    hccl!(HcclGroupStart());
    for comm in &world.comms {
        hccl!(HcclCommDestroy(*comm));
        hccl!(HcclGetRankSize(*comm, &mut 0));
    }
    hccl!(HcclGroupEnd());
    for comm in &world.comms {
        refuses!(HCCL_E_PARA, ["communicator"], HcclGetRankSize(*comm, &mut 0));
    }
}

#[test]
fn groups_nest_and_belong_to_their_thread() {
    let is_open = || {
        let mut open = false;
        hccl!(HcclGroupStatusGet(&mut open));
        open
    };
    refuses!(HCCL_E_NOT_SUPPORT, ["this thread has no group"], HcclGroupEnd());
    refuses!(HCCL_E_PTR, ["isGroupEnabled"], HcclGroupStatusGet(null_mut()));
    let world = World::of(2);
    let buffers: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[2.0])).collect();
    assert!(!is_open());
    hccl!(HcclGroupStart());
    hccl!(HcclGroupStart());
    assert!(is_open());
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(!is_open()));
    });
    for rank in world.ranks() {
        assert_eq!(world.all_reduce(rank, buffers[rank], 1).0, 0);
    }
    hccl!(HcclGroupEnd());
    assert!(is_open());
    assert_eq!(world.download(0, buffers[0], 1), [2.0], "the inner end lets nothing go");
    hccl!(HcclGroupEnd());
    assert!(!is_open());
    assert_eq!(world.download(0, buffers[0], 1), [4.0]);
    refuses!(HCCL_E_NOT_SUPPORT, ["this thread has no group"], HcclGroupEnd());
}

#[test]
fn the_larger_go_first_so_ranks_may_list_them_in_any_order() {
    let world = World::of(2);
    let (small, large) = (5, 3000);
    let buffers: Vec<_> = world
        .ranks()
        .map(|rank| (world.upload(rank, &vec![1.0; small]), world.upload(rank, &vec![2.0; large])))
        .collect();
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, buffers[0].0, small).0, 0);
    assert_eq!(world.all_reduce(0, buffers[0].1, large).0, 0);
    assert_eq!(world.all_reduce(1, buffers[1].1, large).0, 0);
    assert_eq!(world.all_reduce(1, buffers[1].0, small).0, 0);
    hccl!(HcclGroupEnd());
    for rank in world.ranks() {
        assert_eq!(world.download(rank, buffers[rank].0, small), [2.0; 5]);
        assert_eq!(world.download(rank, buffers[rank].1, large), vec![4.0; large]);
    }
}

#[test]
fn a_group_of_one_rank_meets_the_groups_of_others() {
    on_ranks(3, |rank| {
        let buffer = rank.upload(&1f32.to_ne_bytes());
        hccl!(HcclGroupStart());
        for _ in 0..4 {
            hccl!(HcclAllReduce(buffer, buffer, 1, FP32, SUM, rank.comm, rank.stream));
        }
        hccl!(HcclBarrier(rank.comm, rank.stream));
        hccl!(HcclGroupEnd());
        assert_eq!(rank.download(buffer, 4), 81f32.to_ne_bytes());
    });
}

#[test]
fn numbered_zeros_in_a_group_meet_like_any_operation() {
    let world = World::of(2);
    world.comms.iter().for_each(|comm| hccl!(ascendExtCommNumbersZeros(*comm)));
    let buffers: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[3.0])).collect();
    hccl!(HcclGroupStart());
    for rank in world.ranks() {
        assert_eq!(world.all_reduce(rank, buffers[rank], 0).0, 0);
    }
    hccl!(HcclGroupEnd());
    // The group had no operation in which the ranks meet. In this one, they meet for the first
    // time.
    hccl!(HcclGroupStart());
    for rank in world.ranks() {
        assert_eq!(world.all_reduce(rank, buffers[rank], 0).0, 0);
        assert_eq!(world.all_reduce(rank, buffers[rank], 1).0, 0);
    }
    hccl!(HcclGroupEnd());
    assert_eq!(world.download(1, buffers[1], 1), [6.0]);
    // The counts differ: rank 1 passes no elements, and rank 0 passes one.
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, buffers[0], 1).0, 0);
    assert_eq!(world.all_reduce(1, buffers[1], 0).0, 0);
    hccl!(HcclGroupEnd());
    world.set(0);
    let code = call!(aclrtSynchronizeStream(world.streams[0]));
    let text = message();
    assert_eq!(code, ACL_ERROR_RT_AICPU_EXCEPTION, "{text}");
    assert!(text.contains("the counts differ"), "{text}");
}

#[test]
fn what_goes_wrong_at_the_end_is_told_call_by_call() {
    let world = World::of(2);
    let buffers: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[1.0; 8])).collect();
    let _ = message();
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, buffers[0], 8).0, 0);
    assert_eq!(world.all_reduce(1, buffers[1], 7).0, 0);
    // In CANN the end of the group returns success here, so this one does too.
    hccl!(HcclGroupEnd());
    let texts = message();
    for piece in ["EI0005", "count 8", "count 7", "[HcclAllReduce, call 1 of the group]"] {
        assert!(texts.contains(piece), "{piece} is not in {texts}");
    }
    for index in 0..2 {
        let (code, text) = group_result(index);
        assert_eq!(HcclResult(code), HcclResult::HCCL_E_PARA);
        assert!(text.contains("the counts differ"), "{text}");
    }
}

#[test]
fn a_call_that_is_refused_is_not_in_the_group() {
    let world = World::of(2);
    let buffers: Vec<_> = world.ranks().map(|rank| world.upload(rank, &[1.0])).collect();
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, null_mut(), 1), HcclResult::HCCL_E_PTR);
    assert_eq!(world.all_reduce(0, buffers[1], 1), HcclResult::HCCL_E_PARA);
    for rank in world.ranks() {
        assert_eq!(world.all_reduce(rank, buffers[rank], 1).0, 0);
    }
    hccl!(HcclGroupEnd());
    assert_eq!((group_result(0).0, group_result(1).0), (0, 0));
    assert_eq!(world.download(1, buffers[1], 1), [2.0]);
}

#[test]
fn what_a_call_names_must_stay_until_the_end() {
    let world = World::of(2);
    let [gone, ..] = [0, 1].map(|rank| world.upload(rank, &[1.0]));
    let kept = world.upload(1, &[1.0]);
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, gone, 1).0, 0);
    assert_eq!(world.all_reduce(1, kept, 1).0, 0);
    world.set(0);
    ok!(aclrtFree(gone));
    // Rank 1 has already met rank 0, so only the stream of rank 1 can report the missing operation.
    let destroyed = world.comms[0] as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            hccl!(HcclCommDestroy(destroyed as HcclComm));
        });
        hccl!(HcclGroupEnd());
    });
    let (code, text) = group_result(0);
    assert_eq!(HcclResult(code), HcclResult::HCCL_E_PARA, "{text}");
    assert!(text.contains("until the end of the group"), "{text}");
    world.set(1);
    assert_eq!(call!(aclrtSynchronizeStream(world.streams[1])), ACL_ERROR_RT_SUSPECT_REMOTE_ERROR);

    let world = World::of(1);
    let buffer = world.upload(0, &[1.0]);
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, buffer, 1).0, 0);
    let destroyed = world.comms[0] as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| hccl!(HcclCommDestroy(destroyed as HcclComm)));
    });
    hccl!(HcclGroupEnd());
    assert_eq!(HcclResult(group_result(0).0), HcclResult::HCCL_E_PARA);
}

#[test]
fn ranks_that_are_missing_cost_one_time_limit() {
    const ONE: Duration = Duration::from_secs(3);
    let limit = AscendExtBlockConfig { connectTimeoutMs: 3000, ..Block::config() };
    let three = AscendExtBlockConfig { deviceCount: 3, ..limit };
    let worlds: [_; 20] = std::array::from_fn(|_| World::with(three));
    let buffers = worlds.each_ref().map(|world| world.upload(0, &[1.0]));
    hccl!(HcclGroupStart());
    for (world, buffer) in worlds.iter().zip(buffers) {
        assert_eq!(world.all_reduce(0, buffer, 1).0, 0);
    }
    let began = Instant::now();
    hccl!(HcclGroupEnd());
    let took = began.elapsed();
    assert!((ONE..20 * ONE).contains(&took), "{took:?}");
    for index in 0..20 {
        let (code, text) = group_result(index);
        assert_eq!(HcclResult(code), HcclResult::HCCL_E_TIMEOUT);
        assert!(text.contains("EI0006") && text.contains("ranks 1, 2"), "{text}");
    }

    let mut world = World::without_comms(AscendExtBlockConfig { deviceCount: 20, ..limit });
    let infos: [_; 20] = std::array::from_fn(|_| root_info());
    hccl!(HcclGroupStart());
    for (rank, info) in infos.iter().enumerate() {
        world.set(rank);
        hccl!(HcclCommInitRootInfo(2, info, 0, &mut world.comms[rank]));
    }
    let began = Instant::now();
    hccl!(HcclGroupEnd());
    let took = began.elapsed();
    assert!((ONE..20 * ONE).contains(&took), "{took:?}");
    for index in 0..20 {
        let (code, text) = group_result(index);
        assert_eq!(HcclResult(code), HcclResult::HCCL_E_TIMEOUT);
        assert!(text.contains("EI0015") && text.contains("rank 1"), "{text}");
        assert!(world.comms[index as usize].is_null());
    }
}

#[test]
fn a_group_has_one_purpose_and_takes_no_batch() {
    let world = World::of(1);
    let buffer = world.upload(0, &[1.0]);
    let info = root_info();
    hccl!(HcclGroupStart());
    assert_eq!(world.all_reduce(0, buffer, 1).0, 0);
    let mut comm = null_mut();
    let what = ["one purpose", "collectives", "HcclCommInitRootInfo"];
    let [one, two, three] = what;
    refuses!(HCCL_E_NOT_SUPPORT, [one, two, three], HcclCommInitRootInfo(1, &info, 0, &mut comm));
    refuses!(HCCL_E_NOT_SUPPORT, [one, two, "HcclCommDestroy"], HcclCommDestroy(world.comms[0]));
    let mut item = HcclSendRecvItem {
        sendRecvType: HcclSendRecvType::HCCL_SEND,
        buf: buffer,
        count: 1,
        dataType: FP32,
        remoteRank: 0,
    };
    let (comm, stream) = (world.comms[0], world.streams[0]);
    refuses!(
        HCCL_E_NOT_SUPPORT,
        ["in the group instead"],
        HcclBatchSendRecv(&mut item, 1, comm, stream)
    );
    hccl!(HcclGroupEnd());
    assert_eq!(world.download(0, buffer, 1), [1.0]);
    hccl!(HcclGroupStart());
    refuses!(HCCL_E_PARA, ["communicator"], HcclCommDestroy(99 as HcclComm));
    hccl!(HcclCommDestroy(null_mut()));
    hccl!(HcclGroupEnd());
}

#[test]
fn on_950_neither_collectives_nor_communicators_go_into_a_group() {
    let world = World::with(AscendExtBlockConfig { product: 950, ..Block::config() });
    let buffer = world.upload(0, &[1.0]);
    let (comm, stream) = (world.comms[0], world.streams[0]);
    let info = root_info();
    hccl!(HcclGroupStart());
    let text = "groups sends and receives only";
    refuses!(
        HCCL_E_NOT_SUPPORT,
        [text, "collectives"],
        HcclAllReduce(buffer, buffer, 1, FP32, SUM, comm, stream)
    );
    refuses!(HCCL_E_NOT_SUPPORT, [text], HcclCommDestroy(comm));
    refuses!(HCCL_E_NOT_SUPPORT, [text], HcclCommInitRootInfo(1, &info, 0, &mut null_mut()));
    hccl!(HcclGroupEnd());
    hccl!(HcclAllReduce(buffer, buffer, 1, FP32, SUM, comm, stream));
}
