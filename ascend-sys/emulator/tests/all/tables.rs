//! Checks the collectives with counts and displacements against a naive reference.

use ascend_emulator_testing::common::Block;
use ascend_emulator_testing::hccl;
use ascend_emulator_testing::ranks::values::{MOVABLE, Random, reduce, sample, size};
use ascend_emulator_testing::ranks::{Rank, full, on_block, on_ranks, slow};
use ascend_sys::*;
use std::ffi::c_void;

/// Places blocks in a buffer in a random order, with holes between them. Returns their
/// displacements and the end of the last block, in elements.
fn scattered(counts: &[u64], random: &mut Random) -> (Vec<u64>, usize) {
    let mut order: Vec<_> = (0..counts.len()).map(|block| (random.next(), block)).collect();
    order.sort_unstable();
    let mut displacements = vec![0; counts.len()];
    let mut end = 0;
    for (_, block) in order {
        end += random.below(3) * random.below(20);
        displacements[block] = end;
        end += counts[block];
    }
    (displacements, end as usize)
}

/// Returns random counts, some of them zero.
fn counts(blocks: u32, most: u64, random: &mut Random) -> Vec<u64> {
    (0..blocks).map(|_| if random.below(4) == 0 { 0 } else { random.below(most) }).collect()
}

fn numbers(list: &[u64]) -> *const c_void {
    list.as_ptr().cast()
}

/// The value of the bytes of a buffer that no block covers. An operation must not change them.
const HOLE: u8 = 0xcc;

fn put(memory: &mut [u8], at: u64, element: usize, block: &[u8]) {
    let at = at as usize * element;
    memory[at..at + block.len()].copy_from_slice(block);
}

fn all_gather_v(rank: &Rank, dtype: u32, counts: &[u64], seed: u64) {
    let (me, element) = (rank.rank as usize, size(dtype));
    let blocks: Vec<_> = counts
        .iter()
        .zip(0u64..)
        .map(|(n, r)| sample(dtype, *n as usize, seed ^ r << 40))
        .collect();
    // Each rank chooses its own displacements for the blocks.
    let (displacements, end) = scattered(counts, &mut Random(seed + me as u64));
    let mut memory = vec![HOLE; end * element];
    let (send, recv) = (rank.upload(&blocks[me]), rank.upload(&memory));
    let (lists, t) = ((numbers(counts), numbers(&displacements)), HcclDataType(dtype));
    hccl!(HcclAllGatherV(send, counts[me], recv, lists.0, lists.1, t, rank.comm, rank.stream));
    rank.sync();
    for (block, at) in blocks.iter().zip(&displacements) {
        put(&mut memory, *at, element, block);
    }
    assert!(rank.download(recv, memory.len()) == memory, "rank {me}, type {dtype}, {counts:?}");
    [send, recv].into_iter().for_each(|buffer| rank.free(buffer));
}

fn reduce_scatter_v(rank: &Rank, dtype: u32, op: u32, counts: &[u64], seed: u64) {
    let (me, element) = (rank.rank as usize, size(dtype));
    let block = |from: u64, to: u64| {
        sample(dtype, counts[to as usize] as usize, seed ^ from << 40 ^ to << 20)
    };
    let (displacements, end) = scattered(counts, &mut Random(seed + me as u64));
    let mut memory = vec![HOLE; end * element];
    for (to, at) in displacements.iter().enumerate() {
        put(&mut memory, *at, element, &block(me as u64, to as u64));
    }
    let bytes = counts[me] as usize * element;
    let (send, recv) = (rank.upload(&memory), rank.upload(&vec![0; bytes]));
    let (lists, t, o) =
        ((numbers(counts), numbers(&displacements)), HcclDataType(dtype), HcclReduceOp(op));
    hccl!(HcclReduceScatterV(
        send,
        lists.0,
        lists.1,
        recv,
        counts[me],
        t,
        o,
        rank.comm,
        rank.stream
    ));
    rank.sync();
    let inputs: Vec<_> = (0..u64::from(rank.ranks)).map(|from| block(from, me as u64)).collect();
    let expected = reduce(dtype, op, &inputs);
    assert!(rank.download(recv, bytes) == expected, "rank {me}, type {dtype}, op {op}, {counts:?}");
    assert!(rank.download(send, memory.len()) == memory);
    [send, recv].into_iter().for_each(|buffer| rank.free(buffer));
}

/// Runs an all-to-all with a matrix of counts that all ranks have, and checks it. Calls
/// `HcclAlltoAllVC` if `packed` is set, and otherwise `HcclAlltoAllV` with scattered blocks.
fn all_to_all(rank: &Rank, dtype: u32, matrix: &[u64], packed: bool, seed: u64) {
    let (me, p, element) = (rank.rank as usize, rank.ranks as usize, size(dtype));
    let block = |from: usize, to: usize| {
        let count = matrix[from * p + to] as usize;
        sample(dtype, count, seed ^ (from as u64) << 40 ^ (to as u64) << 20)
    };
    let sends: Vec<u64> = (0..p).map(|to| matrix[me * p + to]).collect();
    let receives: Vec<u64> = (0..p).map(|from| matrix[from * p + me]).collect();
    let place = |counts: &[u64], seed| {
        if packed {
            let starts = (0..p).map(|at| counts[..at].iter().sum()).collect();
            (starts, counts.iter().sum::<u64>() as usize)
        } else {
            scattered(counts, &mut Random(seed))
        }
    };
    let (send_places, send_end) = place(&sends, seed + me as u64);
    let (recv_places, recv_end) = place(&receives, seed + 77 * me as u64);
    let mut outgoing = vec![HOLE; send_end * element];
    (0..p).for_each(|to| put(&mut outgoing, send_places[to], element, &block(me, to)));
    let mut incoming = vec![HOLE; recv_end * element];
    let (send, recv) = (rank.upload(&outgoing), rank.upload(&incoming));
    let t = HcclDataType(dtype);
    if packed {
        hccl!(HcclAlltoAllVC(send, numbers(matrix), t, recv, t, rank.comm, rank.stream));
    } else {
        let (sc, sd) = (numbers(&sends), numbers(&send_places));
        let (rc, rd) = (numbers(&receives), numbers(&recv_places));
        hccl!(HcclAlltoAllV(send, sc, sd, t, recv, rc, rd, t, rank.comm, rank.stream));
    }
    rank.sync();
    (0..p).for_each(|from| put(&mut incoming, recv_places[from], element, &block(from, me)));
    assert!(rank.download(recv, incoming.len()) == incoming, "rank {me}, type {dtype}, {matrix:?}");
    assert!(rank.download(send, outgoing.len()) == outgoing);
    [send, recv].into_iter().for_each(|buffer| rank.free(buffer));
}

#[test]
fn every_operation_and_type_on_any_number_of_ranks() {
    let sizes: Vec<u32> = if full() {
        vec![1, 2, 3, 4, 5, 7, 8, 12, 17, 33]
    } else if slow() {
        vec![1, 3, 8]
    } else {
        vec![1, 2, 3, 5, 8]
    };
    for ranks in sizes {
        let config = AscendExtBlockConfig { deviceCount: ranks, product: 950, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let mut random = Random(u64::from(ranks));
            // Only some numbers of ranks use large blocks, because all of them together would take
            // long.
            let most: &[u64] = if full() && [1, 2, 3, 4, 5, 8, 17].contains(&ranks) {
                &[4, 60, 3000, 40_000]
            } else {
                &[4, 60, 3000]
            };
            for dtype in MOVABLE {
                for most in most {
                    all_gather_v(rank, dtype, &counts(ranks, *most, &mut random), random.next());
                    let matrix = counts(ranks * ranks, *most, &mut random);
                    let packed = random.below(2) == 0;
                    all_to_all(rank, dtype, &matrix, packed, random.next());
                    if full() {
                        all_to_all(rank, dtype, &matrix, !packed, random.next());
                    }
                    for op in 0..4 {
                        let has = [0, 2, 3, 4, 5].contains(&dtype)
                            || (op != 1 && matches!(dtype, 1 | 11));
                        if has && (full() || op == random.below(4) as u32) {
                            let counts = counts(ranks, *most, &mut random);
                            reduce_scatter_v(rank, dtype, op, &counts, random.next());
                        }
                    }
                }
            }
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn large_blocks() {
    on_ranks(3, |rank| {
        let mut random = Random(5);
        for most in [100_000, 900_000].into_iter().take(if slow() { 1 } else { 2 }) {
            all_gather_v(rank, 4, &counts(3, most, &mut random), random.next());
            reduce_scatter_v(rank, 4, 0, &counts(3, most, &mut random), random.next());
            all_to_all(rank, 4, &counts(9, most, &mut random), false, random.next());
            all_to_all(rank, 4, &counts(9, most, &mut random), true, random.next());
        }
    });
}

#[test]
fn one_rank_has_everything_and_the_others_nothing() {
    on_ranks(4, |rank| {
        for owner in 0..4 {
            let mut counts = vec![0; 4];
            counts[owner] = 5000;
            all_gather_v(rank, 4, &counts, 1);
            reduce_scatter_v(rank, 4, 2, &counts, 2);
            let mut matrix = vec![0; 16];
            matrix[owner * 4 + 2] = 7000;
            all_to_all(rank, 4, &matrix, false, 3);
            all_to_all(rank, 4, &matrix, true, 4);
        }
    });
}

#[test]
fn zeros_everywhere_succeed() {
    on_ranks(3, |rank| {
        let (null, zeros) = (std::ptr::null_mut(), [0u64; 9]);
        let (comm, stream, t, o) = (rank.comm, rank.stream, HcclDataType(4), HcclReduceOp(0));
        let zeros = numbers(&zeros);
        for round in 0..4 {
            hccl!(HcclAllGatherV(null, 0, null, zeros, null, t, comm, stream));
            hccl!(HcclReduceScatterV(null, zeros, null, null, 0, t, o, comm, stream));
            hccl!(HcclAlltoAllVC(null, zeros, t, null, t, comm, stream));
            hccl!(HcclAlltoAllV(null, zeros, zeros, t, null, zeros, zeros, t, comm, stream));
            rank.sync();
            all_gather_v(rank, 4, &[1, 2, 3 + round], round);
        }
    });
}

#[test]
fn what_has_no_elements_may_lie_anywhere() {
    const FAR: u64 = u64::MAX;
    for check in [0, 1] {
        let config = AscendExtBlockConfig { deviceCount: 2, check, ..Block::config() };
        on_block(config, |rank| {
            rank.join();
            let (comm, stream, t, o) = (rank.comm, rank.stream, HcclDataType(2), HcclReduceOp(0));
            let me = rank.rank as usize;
            for count in [3u64, 100_000] {
                let bytes = count as usize * 4;
                // All data belongs to rank 1.
                let (counts, places) = ([0, count], [FAR, 0]);
                let lists = (numbers(&counts), numbers(&places));
                let of = |r: u64| sample(2, count as usize, r);
                let (send, recv) = (rank.upload(&of(me as u64)), rank.upload(&vec![0; bytes]));
                hccl!(HcclAllGatherV(send, counts[me], recv, lists.0, lists.1, t, comm, stream));
                rank.sync();
                assert!(rank.download(recv, bytes) == of(1), "{count} elements");
                let (to, own) = (recv, counts[me]);
                hccl!(HcclReduceScatterV(send, lists.0, lists.1, to, own, t, o, comm, stream));
                rank.sync();
                let sum = if me == 1 { reduce(2, 0, &[of(0), of(1)]) } else { of(1) };
                assert!(rank.download(recv, bytes) == sum, "{count} elements");
                // Each rank sends to the other rank, and nothing to itself.
                let (mut counts, mut places) = ([count; 2], [0; 2]);
                (counts[me], places[me]) = (0, FAR);
                let (c, d) = (numbers(&counts), numbers(&places));
                hccl!(HcclAlltoAllV(send, c, d, t, recv, c, d, t, comm, stream));
                rank.sync();
                assert!(rank.download(recv, bytes) == of(1 - me as u64), "{count} elements");
                [send, recv].into_iter().for_each(|buffer| rank.free(buffer));
            }
            hccl!(HcclCommDestroy(comm));
        });
    }
}

#[test]
fn buffers_that_overlap_in_part() {
    on_ranks(2, |rank| {
        for count in [50u64, 30_000] {
            let bytes = count as usize * 4;
            let of = |r: u32| sample(2, count as usize, u64::from(r));
            let area = rank.upload(&[of(rank.rank), vec![0; 3 * bytes]].concat());
            let recv = area.wrapping_byte_add(bytes / 2 / 4 * 4);
            let (counts, places, t) = ([count; 2], [0, count], HcclDataType(2));
            let lists = (numbers(&counts), numbers(&places));
            hccl!(HcclAllGatherV(area, count, recv, lists.0, lists.1, t, rank.comm, rank.stream));
            rank.sync();
            assert!(rank.download(recv, 2 * bytes) == [of(0), of(1)].concat(), "{count} elements");
            rank.free(area);
        }
    });
}

#[test]
fn many_in_flight_before_anybody_waits() {
    on_ranks(3, |rank| {
        // In every round, the data of rank r goes to rank r + 1.
        let (me, next) = (rank.rank as usize, (rank.rank as usize + 1) % 3);
        let (mut sends, mut receives) = ([0u64; 3], [0u64; 3]);
        (sends[next], receives[(me + 2) % 3]) = (2000, 2000);
        let (a, b) = (rank.upload(&sample(5, 2000, me as u64)), rank.upload(&[0; 16_000]));
        let (sc, rc, places) = (numbers(&sends), numbers(&receives), [0u64; 3]);
        let (places, t) = (numbers(&places), HcclDataType(5));
        for round in 0..60 {
            let (from, to) = if round % 2 == 0 { (a, b) } else { (b, a) };
            hccl!(HcclAlltoAllV(from, sc, places, t, to, rc, places, t, rank.comm, rank.stream));
        }
        rank.sync();
        assert!(rank.download(a, 16_000) == sample(5, 2000, me as u64));
    });
}
