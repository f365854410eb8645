//! Checks every collective whose blocks all have one size against a naive reference. With
//! `HCCL_TEST_FULL=1`, it tests every combination of operation, type, reduction and number of
//! ranks; otherwise it tests a sample, which is the same in each run.

use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::hccl;
use ascend_emulator_testing::ranks::values::{MOVABLE, REDUCIBLE, Random, reduce, sample, size};
use ascend_emulator_testing::ranks::{Rank, full, on_block, on_ranks, slow};
use ascend_sys::*;
use std::ffi::c_void;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    AllReduce(u32),
    Reduce(u32, u32),
    Broadcast(u32),
    AllGather,
    ReduceScatter(u32),
    Scatter(u32),
    AlltoAll,
}

impl Op {
    fn reduction(self) -> Option<u32> {
        match self {
            Op::AllReduce(op) | Op::Reduce(op, _) | Op::ReduceScatter(op) => Some(op),
            _ => None,
        }
    }

    /// Returns the number of blocks that a rank sends, and the number that it receives.
    fn blocks(self, rank: u32, ranks: u32) -> (usize, usize) {
        let at = |root: u32, blocks: u32| if root == rank { blocks } else { 0 };
        let (send, recv) = match self {
            Op::AllReduce(_) => (1, 1),
            Op::Reduce(_, root) => (1, at(root, 1)),
            Op::Broadcast(root) => (at(root, 1), 1 - at(root, 1)),
            Op::AllGather => (1, ranks),
            Op::ReduceScatter(_) => (ranks, 1),
            Op::Scatter(root) => (at(root, ranks), 1),
            Op::AlltoAll => (ranks, ranks),
        };
        (send as usize, recv as usize)
    }

    /// Returns the block that both buffers share when the operation is in place, as an index into
    /// the larger buffer. Returns none if the rank cannot work in place.
    fn in_place(self, rank: u32) -> Option<usize> {
        match self {
            Op::AllReduce(_) | Op::Reduce(..) => Some(0),
            Op::AllGather | Op::ReduceScatter(_) => Some(rank as usize),
            Op::Scatter(root) if root == rank => Some(rank as usize),
            _ => None,
        }
    }

    /// Returns the data that a rank receives.
    fn expected(self, dtype: u32, inputs: &[Vec<u8>], rank: u32, block: usize) -> Vec<u8> {
        let part = |from: usize, at: usize| inputs[from][at * block..(at + 1) * block].to_vec();
        let all = 0..inputs.len();
        let me = rank as usize;
        match self {
            Op::AllReduce(op) => reduce(dtype, op, inputs),
            Op::Reduce(op, root) if root == rank => reduce(dtype, op, inputs),
            Op::Broadcast(root) if root != rank => inputs[root as usize].clone(),
            Op::Reduce(..) | Op::Broadcast(_) => Vec::new(),
            Op::AllGather => inputs.concat(),
            Op::ReduceScatter(op) => {
                reduce(dtype, op, &all.map(|from| part(from, me)).collect::<Vec<_>>())
            }
            Op::Scatter(root) => part(root as usize, me),
            Op::AlltoAll => all.flat_map(|from| part(from, me)).collect(),
        }
    }

    fn issue(self, rank: &Rank, dtype: u32, count: usize, send: *mut c_void, recv: *mut c_void) {
        let (n, t, comm, stream) = (count as u64, HcclDataType(dtype), rank.comm, rank.stream);
        let o = HcclReduceOp(self.reduction().unwrap_or(0));
        match self {
            Op::AllReduce(_) => hccl!(HcclAllReduce(send, recv, n, t, o, comm, stream)),
            Op::Reduce(_, root) => hccl!(HcclReduce(send, recv, n, t, o, root, comm, stream)),
            Op::Broadcast(root) => {
                let buffer = if root == rank.rank { send } else { recv };
                hccl!(HcclBroadcast(buffer, n, t, root, comm, stream));
            }
            Op::AllGather => hccl!(HcclAllGather(send, recv, n, t, comm, stream)),
            Op::ReduceScatter(_) => hccl!(HcclReduceScatter(send, recv, n, t, o, comm, stream)),
            Op::Scatter(root) => hccl!(HcclScatter(send, recv, n, t, root, comm, stream)),
            Op::AlltoAll => hccl!(HcclAlltoAll(send, n, t, recv, n, t, comm, stream)),
        }
    }
}

/// The position of the two buffers of a rank relative to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Apart,
    InPlace,
}

/// The number of bytes after each buffer that the operation must not change.
const GUARD: usize = 128;

/// Runs an operation with all ranks, and checks every byte of this rank's memory.
fn check(rank: &Rank, op: Op, dtype: u32, count: usize, layout: Layout, seed: u64) {
    let (me, block) = (rank.rank, count * size(dtype));
    let inputs: Vec<_> = (0..rank.ranks)
        .map(|r| {
            let blocks = op.blocks(r, rank.ranks).0;
            sample(dtype, count * blocks, seed ^ u64::from(r) << 40)
        })
        .collect();
    let (sends, receives) = op.blocks(me, rank.ranks);
    let (sends, receives) = (sends * block, receives * block);
    let what =
        format!("{op:?}, type {dtype}, {count} elements, {layout:?}, rank {me} of {}", rank.ranks);
    // One allocation contains both buffers, placed as the layout says.
    let (send_at, recv_at) = match (layout, op.in_place(me)) {
        (Layout::InPlace, Some(own)) if receives > sends => (own * block, 0),
        (Layout::InPlace, Some(own)) => (0, own * block),
        _ => (0, sends.next_multiple_of(64) + GUARD),
    };
    let length = (send_at + sends).max(recv_at + receives) + GUARD;
    let mut memory = vec![0xcc; length];
    memory[send_at..send_at + sends].copy_from_slice(&inputs[me as usize]);
    let area = rank.upload(&memory);
    op.issue(rank, dtype, count, area.wrapping_byte_add(send_at), area.wrapping_byte_add(recv_at));
    rank.sync();
    let expected = op.expected(dtype, &inputs, me, block);
    memory[recv_at..recv_at + receives].copy_from_slice(&expected);
    let found = rank.download(area, length);
    assert!(found[recv_at..recv_at + receives] == expected, "{what}");
    assert!(found == memory, "{what}: something else has changed");
    rank.free(area);
}

/// Returns all operations, with each reduction that the data type supports.
fn operations(dtype: u32, ranks: u32, random: &mut Random) -> Vec<Op> {
    let root = random.below(ranks.into()) as u32;
    let mut all = vec![Op::Broadcast(root), Op::AllGather, Op::Scatter(root), Op::AlltoAll];
    for op in
        (0..4).filter(|op| REDUCIBLE.contains(&dtype) && (*op != 1 || !matches!(dtype, 1 | 11)))
    {
        all.extend([Op::AllReduce(op), Op::ReduceScatter(op), Op::Reduce(op, root)]);
    }
    all
}

#[test]
fn every_operation_type_and_reduction_on_any_number_of_ranks() {
    let sizes: &[u32] = if full() { &[1, 2, 3, 4, 5, 7, 8, 12, 17] } else { &[1, 2, 3, 5, 8] };
    for &ranks in sizes {
        // The product 950 supports all the types that any product supports.
        let config = AscendExtBlockConfig { deviceCount: ranks, product: 950, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            // The seed makes all ranks choose the same values.
            let mut random = Random(u64::from(ranks));
            for dtype in MOVABLE {
                for op in operations(dtype, ranks, &mut random) {
                    // Only some numbers of ranks use counts of many chunks, because all of them
                    // together would take minutes.
                    let most: &[u64] = if full() && [1, 2, 3, 4, 5, 8, 17].contains(&ranks) {
                        &[40, 700, 9000, 60_000]
                    } else {
                        &[40, 700, 9000]
                    };
                    let chosen = random.below(most.len() as u64) as usize;
                    for (n, most) in most.iter().enumerate() {
                        let count = 1 + random.below(*most) as usize;
                        let layout = [Layout::Apart, Layout::InPlace][random.below(2) as usize];
                        let seed = random.next();
                        if full() || n == chosen {
                            check(rank, op, dtype, count, layout, seed);
                        }
                    }
                }
            }
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn counts_around_the_slot_and_the_chunk() {
    let sizes: &[u32] = if full() { &[2, 3, 4, 8, 17] } else { &[2, 3, 5] };
    for &ranks in sizes {
        on_ranks(ranks, |rank| {
            let mut random = Random(1);
            for op in operations(4, ranks, &mut random)
                .into_iter()
                .filter(|op| op.reduction().is_none_or(|op| op == 0))
            {
                // The slot has 1024 bytes, either for all blocks together or for one block. A chunk
                // has at most 64 KiB.
                for edge in [1024 / 4 / ranks as usize, 256, 1024, 4096 / ranks as usize, 16_384] {
                    for count in [edge - 1, edge, edge + 1] {
                        check(rank, op, 4, count, Layout::Apart, count as u64);
                        check(rank, op, 4, count, Layout::InPlace, count as u64 + 1);
                    }
                }
            }
        });
    }
}

#[test]
fn large_operations() {
    on_ranks(3, |rank| {
        let mut random = Random(2);
        for op in operations(4, 3, &mut random)
            .into_iter()
            .filter(|op| op.reduction().is_none_or(|op| op == 0))
        {
            for layout in [Layout::Apart, Layout::InPlace] {
                check(rank, op, 4, if slow() { 70_001 } else { 700_001 }, layout, 3);
            }
        }
    });
}

#[test]
fn buffers_that_overlap_in_ways_that_mean_nothing() {
    for ranks in [2, 3] {
        on_ranks(ranks, |rank| {
            let mut random = Random(3);
            for op in operations(2, ranks, &mut random)
                .into_iter()
                .filter(|op| op.reduction().is_none_or(|op| op == 0))
            {
                for (count, by) in [(20, 3), (5000, 16), (5000, 4999), (40_000, 12_345)] {
                    // The received data overwrites a part of the data to send.
                    let (me, block) = (rank.rank, count * 4);
                    let inputs: Vec<_> = (0..ranks)
                        .map(|r| sample(2, count * op.blocks(r, ranks).0, u64::from(r)))
                        .collect();
                    let (sends, receives) = op.blocks(me, ranks);
                    let length = (by * 4 + sends * block).max(receives * block);
                    let mut memory = vec![0xcc; length];
                    memory[by * 4..by * 4 + sends * block].copy_from_slice(&inputs[me as usize]);
                    let area = rank.upload(&memory);
                    op.issue(rank, 2, count, area.wrapping_byte_add(by * 4), area);
                    rank.sync();
                    let expected = op.expected(2, &inputs, me, block);
                    assert!(
                        rank.download(area, receives * block) == expected,
                        "{op:?}, {count} elements, by {by}"
                    );
                    rank.free(area);
                }
            }
        });
    }
}

#[test]
fn operations_in_flight_one_behind_the_other() {
    on_ranks(4, |rank| {
        // Each operation uses the result of the one before. Each of the 30 rounds of an all-gather
        // and a reduce-scatter multiplies the values by 4.
        let count = 3000;
        let one = [1i64.to_ne_bytes(); 3000].concat();
        let small = rank.upload(&one);
        let large = rank.upload(&vec![0; 4 * count * 8]);
        for _ in 0..30 {
            Op::AllGather.issue(rank, 5, count, small, large);
            Op::ReduceScatter(0).issue(rank, 5, count, large, small);
        }
        rank.sync();
        let expected = [(1i64 << 60).to_ne_bytes(); 3000].concat();
        assert!(rank.download(small, count * 8) == expected);
        [small, large].into_iter().for_each(|buffer| rank.free(buffer));
    });
}

#[test]
fn zeros_on_all_ranks_succeed_with_any_other_arguments() {
    on_ranks(3, |rank| {
        let (null, comm, stream) = (std::ptr::null_mut(), rank.comm, rank.stream);
        let (t, o) = (HcclDataType(99), HcclReduceOp(99));
        for _ in 0..3 {
            hccl!(HcclReduce(null, null, 0, t, o, 99, comm, stream));
            hccl!(HcclAllGather(null, null, 0, t, comm, stream));
            hccl!(HcclReduceScatter(null, null, 0, t, o, comm, stream));
            hccl!(HcclScatter(null, null, 0, t, 99, comm, stream));
            hccl!(HcclAlltoAll(null, 0, t, null, 0, t, comm, stream));
            hccl!(HcclSend(null, 0, t, 99, comm, stream));
            hccl!(HcclRecv(null, 0, t, 99, comm, stream));
            hccl!(HcclAllGather(null, null, 0, t, null, null));
            check(rank, Op::AlltoAll, 4, 700, Layout::Apart, 1);
        }
    });
}

#[test]
fn random_operations_in_a_row() {
    for ranks in [2, 4] {
        on_ranks(ranks, |rank| {
            let mut random = Random(u64::from(ranks));
            let turns = if full() {
                5000
            } else if slow() {
                60
            } else {
                200
            };
            for seed in 0..turns {
                let dtype = [0, 1, 2, 3, 4, 5, 7, 11][random.below(8) as usize];
                let ops = operations(dtype, ranks, &mut random);
                let op = ops[random.below(ops.len() as u64) as usize];
                let most = [30, 300, 5000, 40_000][random.below(4) as usize];
                let count = 1 + random.below(most) as usize;
                let layout = [Layout::Apart, Layout::InPlace][random.below(2) as usize];
                check(rank, op, dtype, count, layout, seed);
            }
        });
    }
}
