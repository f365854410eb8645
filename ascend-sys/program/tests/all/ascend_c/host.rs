//! Runs printed kernels on the host, and checks the requests of their clients and the results. With
//! `HCCL_TEST_FULL=1` it runs all of them, otherwise some. The emulator's tests run other kernels
//! and compare their results with the emulator's.

use ascend_program::Program;

use ascend_program_testing::compiler::full;
use ascend_program_testing::kernels;
use ascend_program_testing::run::{Launch, Outcome, bytes, numbers, run, tiling};

const RANKS: usize = 4;

/// Returns the input of a rank: numbers that show their origin.
fn mine(rank: usize, length: usize) -> Vec<f32> {
    (0..length).map(|at| (rank * 512 + at % 509) as f32).collect()
}

/// Returns small numbers, whose sums are exact.
fn small(rank: usize, length: usize) -> Vec<f32> {
    (0..length).map(|at| ((rank * 7 + at * 3) % 11) as f32 - 5.0).collect()
}

fn for_all(length: usize, of: impl Fn(usize, usize) -> Vec<f32>, ranks: usize) -> Vec<Vec<u8>> {
    (0..ranks).map(|rank| bytes(of(rank, length))).collect()
}

/// Runs one of the communicating kernels and checks its calls.
fn communicate(
    program: &Program,
    operation: u32,
    input: Vec<Vec<u8>>,
    output: usize,
    calls: &[&str],
) -> Option<Vec<Vec<f32>>> {
    let tilings = vec![tiling(program.tiling.as_ref().unwrap(), operation, &[])];
    let outputs = vec![2 * output];
    let launch = Launch { ranks: RANKS, blocks: 2, tilings, inputs: vec![input], outputs };
    let outcome = run(program, &launch)?;
    for of_rank in outcome.calls {
        assert_eq!(of_rank, calls);
    }
    Some(outcome.outputs[0].iter().map(|bytes| numbers(bytes)).collect())
}

fn exchanged(blocks: usize) -> Vec<Vec<f32>> {
    let sent =
        |from: usize, to: usize| mine(from, RANKS * blocks)[to * blocks..][..blocks].to_vec();
    (0..RANKS).map(|to| (0..RANKS).flat_map(|from| sent(from, to)).collect()).collect()
}

fn scattered(block: usize) -> Vec<Vec<f32>> {
    let sum = |at: usize| (0..RANKS).map(|rank| small(rank, RANKS * block)[at]).sum();
    (0..RANKS).map(|to| (to * block..(to + 1) * block).map(sum).collect()).collect()
}

#[test]
fn all_to_all_makes_the_calls_of_its_page() {
    if !full() {
        return;
    }
    let calls = [
        "InitV2 group=0",
        "SetCcTilingV2 offset=64",
        "AlltoAll commit=1 send=x+0 recv=y+0 count=128 dtype=3 op=0 stride=0 repeat=1 handle=0",
        "Wait handle=0",
        "SyncAll<true>",
        "Finalize",
    ];
    let input = for_all(RANKS * 128, mine, RANKS);
    let output = communicate(&kernels::all_to_all(), 10, input, RANKS * 128, &calls);
    assert!(output.is_none_or(|output| output == exchanged(128)));
}

#[test]
fn all_to_all_in_rounds_makes_the_calls_of_its_page() {
    let calls = [
        "InitV2 group=0",
        "SetCcTilingV2 offset=64",
        "AlltoAll commit=1 send=x+0 recv=y+0 count=128 dtype=3 op=0 stride=356 repeat=2 handle=0",
        "AlltoAll commit=1 send=x+512 recv=y+512 count=100 dtype=3 op=0 stride=356 repeat=1 handle=1",
        "Wait handle=0",
        "Wait handle=0",
        "Wait handle=1",
        "SyncAll<true>",
        "Finalize",
    ];
    let input = for_all(RANKS * 356, mine, RANKS);
    let output = communicate(&kernels::all_to_all_in_rounds(), 10, input, RANKS * 356, &calls);
    assert!(output.is_none_or(|output| output == exchanged(356)));
}

#[test]
fn reduce_scatter_makes_the_calls_of_its_page() {
    if !full() {
        return;
    }
    let calls = [
        "InitV2 group=0",
        "SetCcTilingV2 offset=64",
        "ReduceScatter commit=1 send=x+0 recv=y+0 count=300 dtype=3 op=0 stride=0 repeat=1 handle=0",
        "Wait handle=0",
        "SyncAll<true>",
        "Finalize",
    ];
    let input = for_all(RANKS * 300, small, RANKS);
    let output = communicate(&kernels::reduce_scatter(), 7, input, 300, &calls);
    assert!(output.is_none_or(|output| output == scattered(300)));
}

#[test]
fn reduce_scatter_in_rounds_makes_the_calls_of_its_page() {
    if !full() {
        return;
    }
    let calls = [
        "InitV2 group=0",
        "SetCcTilingV2 offset=64",
        "ReduceScatter commit=1 send=x+0 recv=y+0 count=128 dtype=3 op=0 stride=300 repeat=2 handle=0",
        "ReduceScatter commit=1 send=x+512 recv=y+512 count=44 dtype=3 op=0 stride=300 repeat=1 handle=1",
        "Wait handle=0",
        "Wait handle=0",
        "Wait handle=1",
        "SyncAll<true>",
        "Finalize",
    ];
    let input = for_all(RANKS * 300, small, RANKS);
    let output = communicate(&kernels::reduce_scatter_in_rounds(), 7, input, 300, &calls);
    assert!(output.is_none_or(|output| output == scattered(300)));
}

#[test]
fn an_uneven_all_to_all_v_sends_what_its_tiling_says() {
    if !full() {
        return;
    }
    let sent: [[u64; RANKS]; RANKS] = [[3, 3, 3, 3], [2, 2, 3, 2], [1, 4, 4, 4], [3, 3, 3, 3]];
    let received = |rank: usize| sent.map(|counts| counts[rank]);
    let starts = |counts: [u64; RANKS]| {
        let mut next = 0;
        counts.map(|count| {
            next += count;
            next - count
        })
    };
    let program = kernels::all_to_all_v();
    let layout = program.tiling.as_ref().unwrap();
    let tilings = (0..RANKS)
        .map(|rank| {
            let lists: [(&str, &[u64]); 4] = [
                ("sendCounts", &sent[rank]),
                ("sdispls", &starts(sent[rank])),
                ("recvCounts", &received(rank)),
                ("rdispls", &starts(received(rank))),
            ];
            tiling(layout, 8, &lists)
        })
        .collect();
    let inputs = vec![for_all(16, mine, RANKS)];
    let launch = Launch { ranks: RANKS, blocks: 1, tilings, inputs, outputs: vec![32] };
    let Some(outcome) = run(&program, &launch) else { return };
    assert_eq!(
        outcome.calls[1],
        [
            "InitV2 group=0",
            "SetCcTilingV2 offset=64",
            "AlltoAllV commit=1 send=x+0 recv=y+0 count=0 dtype=3 op=0 stride=0 repeat=1 \
             sendCounts=2,2,3,2 sdispls=0,2,4,7 recvCounts=3,2,4,3 rdispls=0,3,5,9 handle=0",
            "Wait handle=0",
            "SyncAll<true>",
            "Finalize",
        ]
    );
    for (to, output) in outcome.outputs[0].iter().enumerate() {
        let mut expected = Vec::new();
        for (from, counts) in sent.iter().enumerate() {
            let start = starts(*counts)[to] as usize;
            expected.extend(&mine(from, 16)[start..start + counts[to] as usize]);
        }
        expected.resize(16, 0.0);
        assert_eq!(numbers(output), expected, "rank {to}");
    }
}

/// In the form of older releases, the client reads the struct in global memory.
#[test]
fn an_older_client_is_given_addresses() {
    let mut program = kernels::all_to_all_in_rounds();
    program.clients[0].what.by_address = true;
    let calls = [
        "Init group=0",
        "SetCcTiling offset=64",
        "AlltoAll commit=1 send=x+0 recv=y+0 count=128 dtype=3 op=0 stride=356 repeat=2 handle=0",
        "AlltoAll commit=1 send=x+512 recv=y+512 count=100 dtype=3 op=0 stride=356 repeat=1 handle=1",
        "Wait handle=0",
        "Wait handle=0",
        "Wait handle=1",
        "SyncAll<true>",
        "Finalize",
    ];
    let input = for_all(RANKS * 356, mine, RANKS);
    let output = communicate(&program, 10, input, RANKS * 356, &calls);
    assert!(output.is_none_or(|output| output == exchanged(356)));
}

#[test]
fn blocks_for_windows_are_asked_of_the_client_of_the_950() {
    let program = kernels::all_to_all_v_write();
    let numbers_of = [("windowOffset", &[256][..]), ("localSize", &[8][..])];
    let tilings = vec![tiling(program.tiling.as_ref().unwrap(), 20, &numbers_of)];
    let words = |words: [u64; 2]| vec![words.into_iter().flat_map(u64::to_le_bytes).collect(); 2];
    let inputs = vec![vec![vec![7; 64]; 2], words([0, 32]), words([24, 32])];
    let launch = Launch { ranks: 2, blocks: 2, tilings, inputs, outputs: vec![8] };
    let Some(outcome) = run(&program, &launch) else { return };
    for calls in outcome.calls {
        let prepared = "AlltoAllvWrite commit=1 send=x+0 recv=offsets+0 count=8 dtype=7 op=0 stride=0 \
                        repeat=1 windowOffset=256 sizes=sizes+0 handle=0";
        assert_eq!(calls[2], prepared);
    }
}

#[test]
fn vectors_are_added_in_tiles_with_a_tail() {
    if !full() {
        return;
    }
    let program = kernels::vadd();
    let numbers_of = [("total", &[1000][..]), ("tile", &[64][..])];
    let tilings = vec![tiling(program.tiling.as_ref().unwrap(), 0, &numbers_of)];
    let inputs = vec![for_all(1000, small, 1), vec![bytes(small(5, 1000))]];
    let launch = Launch { ranks: 1, blocks: 3, tilings, inputs, outputs: vec![2000] };
    let Some(outcome) = run(&program, &launch) else { return };
    let sums: Vec<f32> = small(0, 1000).iter().zip(small(5, 1000)).map(|(x, y)| x + y).collect();
    assert_eq!(numbers(&outcome.outputs[0][0]), sums);
}

const M: usize = 40;
const N: usize = 24;
const K: usize = 8;

/// Returns the rows of a product.
fn product(a: &[f32], b: &[f32]) -> Vec<f32> {
    let element = |at: usize| (0..K).map(|k| a[at / N * K + k] * b[k * N + at % N]).sum();
    (0..a.len() / K * N).map(element).collect()
}

/// Runs a product of two tiles of 16 rows and one of 8, on two ranks.
fn multiply(program: &Program, operation: u32, outputs: Vec<usize>) -> Option<Outcome> {
    let numbers: [(&str, &[u64]); 7] = [
        ("m", &[M as u64]),
        ("n", &[N as u64]),
        ("k", &[K as u64]),
        ("tileRows", &[16]),
        ("tileCount", &[2]),
        ("tailRows", &[8]),
        ("tailCount", &[1]),
    ];
    let tilings = vec![tiling(program.tiling.as_ref().unwrap(), operation, &numbers)];
    let inputs = vec![for_all(M * K, small, 2), for_all(K * N, |rank, n| small(rank + 3, n), 2)];
    run(program, &Launch { ranks: 2, blocks: 2, tilings, inputs, outputs })
}

#[test]
fn matmul_all_reduce_sums_the_products_of_all_ranks() {
    if !full() {
        return;
    }
    let Some(outcome) = multiply(&kernels::matmul_all_reduce(), 2, vec![2 * M * N]) else { return };
    let of = |rank| product(&small(rank, M * K), &small(rank + 3, K * N));
    let expected: Vec<f32> = of(0).iter().zip(of(1)).map(|(a, b)| a + b).collect();
    for rank in 0..2 {
        assert!(numbers(&outcome.outputs[0][rank]) == expected, "rank {rank}");
        let commits = outcome.calls[rank].iter().filter(|call| call.starts_with("Commit"));
        assert_eq!(commits.count(), 3);
    }
}

#[test]
fn all_gather_matmul_multiplies_the_rows_of_all_ranks() {
    let outputs = vec![2 * 2 * M * N, 2 * 2 * M * K];
    let Some(outcome) = multiply(&kernels::all_gather_matmul(), 6, outputs) else { return };
    let rows: Vec<f32> = (0..2).flat_map(|rank| small(rank, M * K)).collect();
    for rank in 0..2 {
        let expected = product(&rows, &small(rank + 3, K * N));
        assert!(numbers(&outcome.outputs[0][rank]) == expected, "rank {rank}");
        assert!(numbers(&outcome.outputs[1][rank]) == rows, "rank {rank}");
    }
}
