//! Collectives through the table, compared with a naive reference. Each rank is on its own thread.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::ranks::{
    self,
    values::{REDUCIBLE, Random, reduce, sample, size},
};
use ascend_emulator_testing::ranks::{Rank, on_block, on_ranks};
use ascend_emulator_testing::{hccl, ok};
use ascend_sys::*;

fn all_reduce(rank: &Rank, dtype: u32, op: u32, count: usize, in_place: bool, seed: u64) {
    let inputs: Vec<_> =
        (0..rank.ranks).map(|r| sample(dtype, count, seed ^ u64::from(r) << 40)).collect();
    let send = rank.upload(&inputs[rank.rank as usize]);
    let recv = if in_place { send } else { rank.upload(&vec![0xcc; count * size(dtype)]) };
    let (n, t, o) = (count as u64, HcclDataType(dtype), HcclReduceOp(op));
    hccl!(HcclAllReduce(send, recv, n, t, o, rank.comm, rank.stream));
    rank.sync();
    let result = rank.download(recv, count * size(dtype));
    let what = format!("{} ranks, type {dtype}, op {op}, {count} elements", rank.ranks);
    assert!(result == reduce(dtype, op, &inputs), "{what}, in place: {in_place}");
    if !in_place {
        assert!(rank.download(send, count * size(dtype)) == inputs[rank.rank as usize], "{what}");
        rank.free(recv);
    }
    rank.free(send);
}

#[test]
fn every_type_and_operator_on_any_number_of_ranks() {
    // The 950 reduces all types that any product reduces.
    for ranks in [1, 2, 3, 4, 5, 8, 16] {
        let config = AscendExtBlockConfig { deviceCount: ranks, product: 950, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let mut random = Random(u64::from(ranks));
            for dtype in REDUCIBLE {
                for op in (0..4).filter(|op| *op != 1 || !matches!(dtype, 1 | 11)) {
                    let most = [40, 700, 9000][random.below(3) as usize];
                    let count = 1 + random.below(most) as usize;
                    all_reduce(rank, dtype, op, count, random.below(2) == 0, random.next());
                }
            }
        });
    }
}

#[test]
fn counts_around_the_slot_the_chunk_and_beyond() {
    for ranks in [2, 3, 16] {
        on_ranks(ranks, |rank| {
            for count in [1, 255, 256, 257, 1023, 4096, 16_384, 16_385, 100_003, 1_000_001] {
                all_reduce(rank, 4, 0, count, count % 2 == 0, count as u64);
            }
        });
    }
}

#[test]
fn sends_and_receives_that_overlap_in_part() {
    on_ranks(3, |rank| {
        for (count, shift) in [(100usize, 10usize), (50_000, 16), (200_000, 70_000)] {
            let inputs: Vec<_> =
                (0..3).map(|r| sample(2, count, count as u64 + u64::from(r as u8))).collect();
            let own = &inputs[rank.rank as usize];
            let area = rank.upload(&[own.as_slice(), &vec![0; shift * 4]].concat());
            let recv = area.wrapping_byte_add(shift * 4);
            let (t, o) = (HcclDataType(2), HcclReduceOp(0));
            hccl!(HcclAllReduce(area, recv, count as u64, t, o, rank.comm, rank.stream));
            rank.sync();
            assert!(rank.download(recv, count * 4) == reduce(2, 0, &inputs));
            rank.free(area);
        }
    });
}

#[test]
fn broadcasts_of_every_type_from_every_root() {
    for ranks in [1, 2, 3, 5, 16] {
        let config = AscendExtBlockConfig { deviceCount: ranks, product: 950, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            for (n, dtype) in (0..12).chain(14..18).enumerate() {
                let root = n as u32 % ranks;
                for count in [1, 1000, 70_001] {
                    let bytes = count * size(dtype);
                    let of = |r: u32| sample(7, bytes, u64::from(r) * 77 + u64::from(dtype));
                    let buffer = rank.upload(&of(rank.rank));
                    let (c, t) = (count as u64, HcclDataType(dtype));
                    hccl!(HcclBroadcast(buffer, c, t, root, rank.comm, rank.stream));
                    rank.sync();
                    assert!(rank.download(buffer, bytes) == of(root), "{ranks} ranks, {dtype}");
                    rank.free(buffer);
                }
            }
        });
    }
}

#[test]
fn a_barrier_is_passed_when_all_have_reached_it() {
    use std::sync::atomic::{AtomicU32, Ordering};
    for ranks in [1, 2, 7] {
        let reached = AtomicU32::new(0);
        on_ranks(ranks, |rank| {
            for round in 1..=20 {
                reached.fetch_add(1, Ordering::SeqCst);
                hccl!(HcclBarrier(rank.comm, rank.stream));
                rank.sync();
                assert!(reached.load(Ordering::SeqCst) >= round * ranks);
            }
        });
    }
}

#[test]
fn zeros_on_all_ranks_succeed_and_keep_the_order() {
    on_ranks(3, |rank| {
        let null = std::ptr::null_mut();
        let (t, o) = (HcclDataType(4), HcclReduceOp(0));
        for round in 0..5 {
            hccl!(HcclAllReduce(null, null, 0, t, o, rank.comm, rank.stream));
            hccl!(HcclBroadcast(null, 0, t, 1, rank.comm, rank.stream));
            all_reduce(rank, 4, 0, 300 * (round + 1), false, 1);
        }
    });
}

#[test]
fn many_in_flight_before_anybody_waits() {
    on_ranks(2, |rank| {
        let count = 5000usize;
        let buffer = rank.upload(&[1.0f32.to_ne_bytes(); 5000].concat());
        for _ in 0..20 {
            let (n, t, o) = (count as u64, HcclDataType(4), HcclReduceOp(0));
            hccl!(HcclAllReduce(buffer, buffer, n, t, o, rank.comm, rank.stream));
        }
        rank.sync();
        let expected = [1_048_576.0f32.to_ne_bytes(); 5000].concat();
        assert!(rank.download(buffer, count * 4) == expected);
        rank.free(buffer);
    });
}

#[test]
fn two_streams_of_one_communicator_run_one_after_the_other() {
    on_ranks(2, |rank| {
        let other = common::stream();
        let count = 40_000usize;
        let buffer = rank.upload(&[1.0f32.to_ne_bytes(); 40_000].concat());
        for n in 0..10 {
            let stream = if n % 2 == 0 { rank.stream } else { other };
            let (n, t, o) = (count as u64, HcclDataType(4), HcclReduceOp(0));
            hccl!(HcclAllReduce(buffer, buffer, n, t, o, rank.comm, stream));
        }
        rank.sync();
        ok!(aclrtSynchronizeStream(other));
        assert!(rank.download(buffer, count * 4) == [1024.0f32.to_ne_bytes(); 40_000].concat());
        ok!(aclrtDestroyStream(other));
    });
}

#[test]
fn random_operations_on_many_communicators() {
    let config = AscendExtBlockConfig { deviceCount: 4, ..Block::config() };
    const COMMS: usize = 5;
    let infos: Vec<_> = (0..COMMS).map(|_| ranks::root_info()).collect();
    on_block(config, |rank| {
        let mut comms = Vec::new();
        for info in &infos {
            let mut comm = std::ptr::null_mut();
            hccl!(HcclCommInitRootInfo(4, info, rank.rank, &mut comm));
            comms.push((comm, common::stream()));
        }
        // All ranks make the same choices.
        let mut random = Random(7);
        for round in 0..if ranks::slow() { 50 } else { 150 } {
            let (comm, stream) = comms[random.below(COMMS as u64) as usize];
            (rank.comm, rank.stream) = (comm, stream);
            let dtype = [0, 2, 3, 4, 11][random.below(5) as usize];
            let op = [0, 2, 3][random.below(3) as usize];
            let most = [50, 3000, 60_000][random.below(3) as usize];
            let count = 1 + random.below(most) as usize;
            match random.below(8) {
                0 => hccl!(HcclBarrier(comm, stream)),
                1 => {
                    let null = std::ptr::null_mut();
                    let (t, o) = (HcclDataType(4), HcclReduceOp(0));
                    hccl!(HcclAllReduce(null, null, 0, t, o, comm, stream));
                }
                _ => all_reduce(rank, dtype, op, count, random.below(2) == 0, round),
            }
        }
        for (comm, stream) in comms {
            ok!(aclrtSynchronizeStream(stream));
            hccl!(HcclCommDestroy(comm));
        }
    });
}
