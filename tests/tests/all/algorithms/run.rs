//! The algorithms run on the emulator, and give the results of a plain loop.

use std::ops::Add;

use hccl::operator::{Goal, Operator};
use hccl::prelude::*;
use hccl_tests::{full, own_devices, runtime_with};

use crate::algorithms::catalogue::{catalogue, even, with_a_matrix};

/// An element type in which sums of 17 of the small inputs here are exact.
trait Number: Element + From<i8> + Add<Output = Self> {}
impl<E: Element + From<i8> + Add<Output = E>> Number for E {}

/// Returns element `at` of the input of a rank.
fn element<E: Number>(rank: u32, at: u64) -> E {
    E::from(((7 * u64::from(rank) + 5 * at + at / 13) % 13) as i8 - 6)
}

/// Returns element `at` of the output of a rank.
fn expected<E: Number>(goal: &Goal, ranks: u32, rank: u32, n: u64, at: u64) -> E {
    let sum = |at| (0..ranks).map(|rank| element(rank, at)).reduce(|a: E, b| a + b).unwrap();
    match goal {
        Goal::AllGather | Goal::Gather { .. } => element((at / n) as u32, at % n),
        Goal::AllReduce(_) | Goal::Reduce { .. } => sum(at),
        Goal::ReduceScatter(_) => sum(u64::from(rank) * n + at),
        Goal::Broadcast { root } => element(*root, at),
        Goal::Scatter { root } => element(*root, u64::from(rank) * n + at),
        Goal::AllToAll => element((at / n) as u32, u64::from(rank) * n + at % n),
        Goal::AllToAllV { counts } => {
            let (mut from, mut at) = (0, at);
            while at >= counts[from][rank as usize] {
                at -= counts[from][rank as usize];
                from += 1;
            }
            element(from as u32, counts[from][..rank as usize].iter().sum::<u64>() + at)
        }
        other => panic!("no algorithm is for {other:?}"),
    }
}

/// Runs operators one after the other on one communicator, and compares their results with the
/// expected ones.
fn run<E: Number>(
    runtime: &Runtime,
    ranks: u32,
    operators: &[(String, Operator)],
    counts: &[usize],
    in_place: bool,
) {
    let config = CommConfig::builder().buffer_mib(1).build();
    let outputs = runtime.run_ranks(ranks, |rank| -> hccl::Result<Vec<Vec<E>>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator_with(config.clone())?;
        let mut outputs = Vec::new();
        for (_, operator) in operators {
            for &n in counts {
                let (rank, n) = (comm.rank(), n as u64);
                let (gives, gets) = operator.goal().sizes(rank, ranks, n);
                let input: Vec<E> = (0..gives).map(|at| element(rank, at)).collect();
                let mut output = vec![E::from(99); gets as usize];
                let has = operator.goal().sizes(rank, ranks, 1);
                let run = comm.run(operator);
                if in_place && has.0 > 0 && has.1 > 0 {
                    let own = matches!(operator.goal(), Goal::AllGather);
                    let start = if own { (u64::from(rank) * n) as usize } else { 0 };
                    output[start..start + input.len()].copy_from_slice(&input);
                    let mut output = device.upload(&output, &stream)?;
                    run.in_place(&mut output).submit(&stream)?;
                    outputs.push(output.to_vec(&stream).wait()?);
                    continue;
                }
                let input = device.upload(&input, &stream)?;
                let mut output = device.upload(&output, &stream)?;
                let run = if has.0 > 0 { run.input(&input) } else { run };
                let run = if has.1 > 0 { run.output(&mut output) } else { run };
                run.submit(&stream)?;
                outputs.push(output.to_vec(&stream).wait()?);
            }
        }
        Ok(outputs)
    });
    for (rank, outputs) in (0..).zip(outputs.unwrap()) {
        let all = operators.iter().flat_map(|operator| counts.iter().map(move |n| (operator, *n)));
        for (((name, operator), n), output) in all.zip(outputs) {
            for (at, found) in (0..).zip(output) {
                let expected = expected::<E>(operator.goal(), ranks, rank, n as u64, at);
                assert!(
                    found == expected,
                    "{name} of {n} {} on rank {rank} of {ranks}: element {at} is {found:?}, expected {expected:?}",
                    E::DTYPE
                );
            }
        }
    }
    let findings: Vec<String> = runtime.findings().iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{ranks} ranks: {}", findings.join("\n"));
}

/// Returns all operators for `ranks` ranks, with the last rank as the root.
fn all(ranks: u32) -> Vec<(String, Operator)> {
    let cases = catalogue(ranks, ranks - 1, even(ranks)).into_iter();
    let named = |case: crate::algorithms::Case| {
        (format!("{} {} {}", case.algorithm, case.collective, case.division), case.operator)
    };
    cases.map(named).collect()
}

#[test]
fn all_give_what_a_plain_loop_gives() {
    let runtime = runtime_with(17);
    let sample = [1, 2, 3, 4, 5, 8];
    for ranks in (1..=17).filter(|ranks| full() || sample.contains(ranks)) {
        let counts = [0, 1, 2 * ranks as usize + 3];
        run::<f32>(&runtime, ranks, &all(ranks), &counts, false);
        run::<f32>(&runtime, ranks, &with_a_matrix(ranks), &[0], false);
        if full() {
            let counts = [ranks as usize - 1, 1000];
            run::<i8>(&runtime, ranks, &all(ranks), &counts, false);
            run::<i32>(&runtime, ranks, &all(ranks), &counts, false);
            run::<f16>(&runtime, ranks, &all(ranks), &counts, false);
        }
    }
}

#[test]
fn nothing_is_found_when_they_run_in_checked_mode() {
    let checked = || own_devices().devices(17).checked(true).build().unwrap();
    for ranks in if full() { 1..=17 } else { 4..=5 } {
        let runtime = checked();
        run::<i32>(&runtime, ranks, &all(ranks), &[11], false);
        run::<i32>(&runtime, ranks, &with_a_matrix(ranks), &[0], false);
    }
}

#[test]
fn more_than_the_communication_buffer_holds_is_right_too() {
    let runtime = runtime_with(3);
    // The buffer has 2 MiB, but the data has nearly three.
    run::<i16>(&runtime, 3, &all(3), &[1_400_001], false);
}

#[test]
fn in_place_they_give_the_same() {
    let runtime = runtime_with(6);
    for ranks in [1, 3, 6] {
        let in_place = ["all-reduce", "all-gather", "all-to-all", "broadcast", "reduce"];
        let mut operators = all(ranks);
        operators.retain(|(_, operator)| in_place.contains(&operator.name()));
        run::<i32>(&runtime, ranks, &operators, &[0, 100], true);
    }
}

/// Checks the bits of sums of numbers whose sums depend on the order.
#[test]
fn an_all_reduce_gives_the_same_bits_everywhere_and_always() {
    let runtime = runtime_with(6);
    let mut operators = all(6);
    operators.retain(|(_, operator)| operator.name() == "all-reduce");
    let sums = runtime.run_ranks(6, |rank| -> hccl::Result<Vec<Vec<u32>>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut random = fastrand::Rng::with_seed(comm.rank().into());
        let input: Vec<f32> = (0..100).map(|_| random.f32() / 3.0).collect();
        let input = device.upload(&input, &stream)?;
        let mut output = device.zeros::<f32>(100, &stream)?;
        let mut sums = Vec::new();
        for (_, operator) in operators.iter().flat_map(|operator| [operator; 3]) {
            comm.run(operator).input(&input).output(&mut output).submit(&stream)?;
            let sum = output.to_vec(&stream).wait()?;
            sums.push(sum.into_iter().map(f32::to_bits).collect());
        }
        Ok(sums)
    });
    let sums = sums.unwrap();
    assert!(sums.iter().all(|others| *others == sums[0]), "two ranks differ");
    for (three, (name, _)) in sums[0].chunks(3).zip(&operators) {
        assert!(three.iter().all(|others| *others == three[0]), "{name}: two runs differ");
    }
}
