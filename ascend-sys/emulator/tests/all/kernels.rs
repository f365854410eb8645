//! Tests of kernels that communicate on several ranks: the examples of the documentation, and a
//! check of every address rule against a naive implementation.

use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ranks;
use ascend_program::layout::Number;
use half::f16;

const FP16: u32 = 3;
const INT32: u32 = 2;

fn halves(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(|n| f16::from_f32(n).to_le_bytes()).collect()
}

/// Runs a kernel on ranks with these inputs, and returns their outputs.
fn run(
    calls: &[Vec<Call>],
    number: Number,
    dtype: u32,
    inputs: &[Vec<u8>],
    out: usize,
) -> Vec<Vec<u8>> {
    run_on(A3, calls, (number, dtype), inputs, out, 1)
}

/// Checks a ReduceScatter of 300 half floats per rank, in one round and in rounds of 128, 128 and
/// 44.
#[test]
fn reduce_scatter_as_on_its_page() {
    let input = |rank: usize| halves((0..1200).map(|n| ((n * 7 + rank * 3) % 32) as f32));
    let inputs: Vec<_> = (0..4).map(input).collect();
    let sum = |n: usize| (0..4).map(|rank| ((n * 7 + rank * 3) % 32) as f32).sum::<f32>();
    let expected: Vec<_> =
        (0..4).map(|rank| halves((0..300).map(|n| sum(rank * 300 + n)))).collect();
    let once = vec![Call::new(REDUCE_SCATTER, 0, 300, 0, 1)];
    assert_eq!(run(&[once], Number::F16, FP16, &inputs, 600), expected);
    let rounds =
        vec![Call::new(REDUCE_SCATTER, 0, 128, 300, 2), Call::new(REDUCE_SCATTER, 256, 44, 300, 1)];
    for blocks in [1, 8] {
        let rounds = std::slice::from_ref(&rounds);
        let found = run_on(A3, rounds, (Number::F16, FP16), &inputs, 600, blocks);
        assert_eq!(found, expected, "{blocks} blocks");
    }
}

/// Checks an AlltoAll of 128 elements per block, and one of 356 in rounds of 128, 128 and 100.
#[test]
fn all_to_all_as_on_its_page() {
    for (calls, each) in [
        (vec![Call::new(ALL_TO_ALL, 0, 128, 0, 1)], 128),
        (vec![Call::new(ALL_TO_ALL, 0, 128, 356, 2), Call::new(ALL_TO_ALL, 256, 100, 356, 1)], 356),
    ] {
        let value =
            |from: usize, to: usize, n: usize| (from * 10 + to) as f32 + (n % 64) as f32 / 64.0;
        let of = |pairs: &dyn Fn(usize) -> (usize, usize)| {
            halves((0..4 * each).map(|n| {
                let (from, to) = pairs(n / each);
                value(from, to, n % each)
            }))
        };
        let inputs: Vec<_> = (0..4).map(|rank| of(&|block| (rank, block))).collect();
        let expected: Vec<_> = (0..4).map(|rank| of(&|block| (block, rank))).collect();
        assert_eq!(run(&[calls], Number::F16, FP16, &inputs, 8 * each), expected);
    }
}

/// Checks an AlltoAllV with uneven counts. Row i of `sends` has the counts that rank i sends to
/// each rank.
#[test]
fn uneven_all_to_all_v() {
    let sends = [[3, 3, 3, 3], [2, 2, 3, 2], [1, 4, 4, 4], [3, 3, 3, 3]];
    let packed = |counts: [u64; 4]| {
        let mut at = 0;
        counts.map(|count| {
            at += count;
            at - count
        })
    };
    let calls: Vec<Vec<Call>> = (0..4)
        .map(|rank| {
            let receives = sends.map(|row: [u64; 4]| row[rank]);
            let (send, recv) = (sends[rank], receives);
            let lists = [send, packed(send), recv, packed(recv)].map(|list| list.to_vec());
            vec![Call { lists, ..Call::new(ALL_TO_ALL_V, 0, 0, 0, 1) }]
        })
        .collect();
    let inputs: Vec<_> = (0..4).map(|rank| ints((0..16).map(|n| rank * 100 + n))).collect();
    let outputs = run(&calls, Number::I32, INT32, &inputs, 64);
    for rank in 0..4 {
        let mut expected = Vec::new();
        for (from, row) in sends.iter().enumerate() {
            let at = packed(*row)[rank];
            let numbers = (0..row[rank]).map(|n| (from as u64 * 100 + at + n) as i32);
            expected.extend(numbers);
        }
        assert_eq!(to_ints(&outputs[rank])[..expected.len()], expected, "rank {rank}");
    }
}

#[test]
fn every_address_rule_is_the_naive_one() {
    let mut random = fastrand::Rng::with_seed(4);
    let rounds = if ranks::full() { 200 } else { 24 };
    for round in 0..rounds {
        let ranks = 1 + round % 8;
        let command = [ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL][round / 2 % 4];
        let count = random.u64(1..200) * if round % 5 == 0 { 37 } else { 1 };
        let repeat = random.u64(1..5);
        let stride =
            if repeat == 1 && random.bool() { 0 } else { count * repeat + random.u64(0..9) };
        let commit = random.bool();
        let call = Call { commit, ..Call::new(command, random.u64(0..20), count, stride, repeat) };
        let blocks = if stride == 0 { count } else { stride };
        let length = (call.at + count * repeat + ranks as u64 * blocks) as usize;
        let inputs: Vec<Vec<i32>> =
            (0..ranks).map(|_| (0..length).map(|_| random.i32(-99..99)).collect()).collect();
        is_naive(A3, &call, &inputs);
    }
}

#[test]
fn repeats_are_calls_and_equal_counts_are_an_all_to_all() {
    let inputs: Vec<_> = (0..4).map(|rank| ints((0..600).map(|n| rank * 1000 + n))).collect();
    let of = |calls: Vec<Call>| run(&[calls], Number::I32, INT32, &inputs, 2400);
    for command in [ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL] {
        let repeated = of(vec![Call::new(command, 0, 40, 130, 3)]);
        let called = of((0..3).map(|n| Call::new(command, 40 * n, 40, 130, 1)).collect());
        assert_eq!(repeated, called, "{command}");
    }
    let blocks = [vec![50; 4], vec![0, 150, 300, 450]];
    let lists = [blocks[0].clone(), blocks[1].clone(), blocks[0].clone(), blocks[1].clone()];
    let with_counts = of(vec![Call { lists, ..Call::new(ALL_TO_ALL_V, 0, 0, 0, 3) }]);
    assert_eq!(with_counts, of(vec![Call::new(ALL_TO_ALL, 0, 50, 150, 3)]));
}
