//! Compiles printed kernels for the host, runs their cores and their server there, and compares the
//! results with those of the emulator. With `HCCL_TEST_FULL=1` it tests all kernels, otherwise some
//! of them.

use ascend_emulator_testing::common;
use ascend_emulator_testing::kernel::{Given, Ready, context, function, launch, load, server};
use ascend_emulator_testing::ok;
use ascend_emulator_testing::ranks::{name_of, on_ranks};
use ascend_program::Program;
use ascend_program_testing::{compiler, kernels, run};
use run::{Launch, bytes, tiling};
use std::ptr::null_mut;

/// Returns inputs of half floats whose sums and products are exact. They differ for every rank and
/// every input.
fn inputs(program: &Program, ranks: usize, lengths: &[usize]) -> Vec<Vec<Vec<u8>>> {
    let count = program.parameters.iter().filter(|parameter| !parameter.output).count();
    assert_eq!(count, lengths.len());
    let small = |seed: usize, length: usize| {
        bytes((0..length).map(|at| ((seed * 7 + at * 3) % 11) as f32 - 5.0))
    };
    let of =
        |input: usize| (0..ranks).map(|rank| small(rank + 5 * input, lengths[input])).collect();
    (0..count).map(of).collect()
}

/// Returns the outputs on the emulator: first by output, then by rank.
fn emulate(program: &Program, given: &Launch) -> Vec<Vec<Vec<u8>>> {
    let of_ranks = on_ranks(given.ranks as u32, |rank| {
        let at = rank.rank as usize;
        let mut tiling = given.tilings.get(at).unwrap_or(&given.tilings[0]).clone();
        let name = name_of(rank.comm);
        let communicates = program.groups > 0 && !program.clients.is_empty();
        if communicates {
            tiling[64 + 3] = 1;
            tiling[64 + 16..][..name.len()].copy_from_slice(name.as_bytes());
        }
        let (mut next_in, mut next_out) = (given.inputs.iter(), given.outputs.iter());
        let tensors: Vec<_> = (program.parameters.iter())
            .map(|parameter| match parameter.output {
                false => (rank.upload(&next_in.next().unwrap()[at]), 0),
                true => {
                    let length = *next_out.next().unwrap();
                    (rank.upload(&vec![0; length]), length)
                }
            })
            .collect();
        let pointers: Vec<_> = tensors.iter().map(|tensor| tensor.0).collect();
        let binary = load(program);
        let kernel = function(binary, &program.name);
        if communicates {
            let context = context(rank, &tiling);
            let (library, server) = server();
            let stream = common::stream();
            let ready =
                Ready { binaries: [binary, library], kernel, server, tiling, context, stream };
            ready.run_all(rank, given.blocks, &pointers);
            ready.end();
        } else {
            let mut arguments: Vec<_> =
                pointers.iter().map(|pointer| Given::Pointer(*pointer)).collect();
            arguments.extend([Given::Pointer(null_mut()), Given::Bytes(&tiling)]);
            launch(kernel, given.blocks, &arguments, rank.stream);
            rank.sync();
            ok!(aclrtBinaryUnLoad(binary));
        }
        let outputs = tensors.iter().filter(|tensor| tensor.1 > 0);
        outputs.map(|(pointer, length)| rank.download(*pointer, *length)).collect::<Vec<_>>()
    });
    let outputs = given.outputs.len();
    (0..outputs).map(|output| of_ranks.iter().map(|rank| rank[output].clone()).collect()).collect()
}

/// Runs a kernel on the host and on the emulator, and compares the outputs. Checks nothing without
/// a compiler.
fn both(program: &Program, given: &Launch) {
    let Some(outcome) = run::run(program, given) else { return };
    let emulated = emulate(program, given);
    for (output, (host, emulated)) in outcome.outputs.iter().zip(&emulated).enumerate() {
        for (rank, (host, emulated)) in host.iter().zip(emulated).enumerate() {
            let differs = host.iter().zip(emulated).position(|(a, b)| a != b);
            assert!(host == emulated, "output {output} of rank {rank} differs in byte {differs:?}");
            assert!(host.iter().any(|byte| *byte != 0), "output {output} of rank {rank} is empty");
        }
    }
}

fn communicate(program: &Program, operation: u32, input: usize, output: usize) {
    let inputs = inputs(program, 4, &[input]);
    let tilings = vec![tiling(program.tiling.as_ref().unwrap(), operation, &[])];
    both(program, &Launch { ranks: 4, blocks: 2, tilings, inputs, outputs: vec![2 * output] });
}

#[test]
fn the_kernels_of_the_pages() {
    if compiler::full() {
        communicate(&kernels::all_to_all(), 10, 4 * 128, 4 * 128);
        communicate(&kernels::all_to_all_in_rounds(), 10, 4 * 356, 4 * 356);
        communicate(&kernels::reduce_scatter(), 7, 4 * 300, 300);
    }
    communicate(&kernels::reduce_scatter_in_rounds(), 7, 4 * 300, 300);
}

#[test]
fn an_uneven_all_to_all_v() {
    let program = kernels::all_to_all_v();
    let sent: [[u64; 4]; 4] = [[3, 3, 3, 3], [2, 2, 3, 2], [1, 4, 4, 4], [3, 3, 3, 3]];
    let starts = |counts: [u64; 4]| {
        let mut next = 0;
        counts.map(|count| {
            next += count;
            next - count
        })
    };
    let of = |rank: usize| {
        let received = sent.map(|counts| counts[rank]);
        let lists: [(&str, &[u64]); 4] = [
            ("sendCounts", &sent[rank]),
            ("sdispls", &starts(sent[rank])),
            ("recvCounts", &received),
            ("rdispls", &starts(received)),
        ];
        tiling(program.tiling.as_ref().unwrap(), 8, &lists)
    };
    let tilings = (0..4).map(of).collect();
    let inputs = inputs(&program, 4, &[16]);
    both(&program, &Launch { ranks: 4, blocks: 1, tilings, inputs, outputs: vec![32] });
}

#[test]
fn vectors_in_tiles() {
    let program = kernels::vadd();
    let numbers = [("total", &[1000][..]), ("tile", &[64][..])];
    let tilings = vec![tiling(program.tiling.as_ref().unwrap(), 0, &numbers)];
    let inputs = inputs(&program, 1, &[1000, 1000]);
    both(&program, &Launch { ranks: 1, blocks: 3, tilings, inputs, outputs: vec![2000] });
}

#[test]
fn fused_operators() {
    let (m, n, k) = (40, 24, 8);
    let numbers: [(&str, &[u64]); 7] = [
        ("m", &[m as u64]),
        ("n", &[n as u64]),
        ("k", &[k as u64]),
        ("tileRows", &[16]),
        ("tileCount", &[2]),
        ("tailRows", &[8]),
        ("tailCount", &[1]),
    ];
    for (program, operation, outputs) in [
        (kernels::matmul_all_reduce(), 2, vec![2 * m * n]),
        (kernels::all_gather_matmul(), 6, vec![2 * 2 * m * n, 2 * 2 * m * k]),
    ] {
        if operation == 2 && !compiler::full() {
            continue;
        }
        let tilings = vec![tiling(program.tiling.as_ref().unwrap(), operation, &numbers)];
        let inputs = inputs(&program, 2, &[m * k, k * n]);
        both(&program, &Launch { ranks: 2, blocks: 2, tilings, inputs, outputs });
    }
}
