//! Operators move and reduce the right elements.

use hccl::operator::*;
use hccl::prelude::*;
use hccl_tests::{Devices, both_backends, full, own_devices, products, runtime_with};

use crate::operators::algorithms::*;

const RANKS: &[u32] = &[1, 2, 3, 4, 5, 8];

/// An element type with small numbers, of which sums of eight are exact in every type.
pub trait Number: Element + From<i8> {
    fn of(value: usize) -> Self {
        Self::from((value % 13) as i8 - 6)
    }
}

impl<E: Element + From<i8>> Number for E {}

/// Returns the input of rank `rank`: `length` elements.
pub fn input<E: Number>(rank: u32, length: usize) -> Vec<E> {
    (0..length).map(|at| E::of(7 * rank as usize + 5 * at + at / 13)).collect()
}

/// Runs an operator on the inputs, and returns the output of each rank.
fn run<E: Number>(
    runtime: &Runtime,
    ranks: u32,
    operator: &Operator,
    lengths: impl Fn(u32) -> (usize, usize) + Sync,
    config: &CommConfig,
) -> Vec<Vec<E>> {
    let outputs = runtime.run_ranks(ranks, |rank| -> hccl::Result<Vec<E>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator_with(config.clone())?;
        let (give, get) = lengths(comm.rank());
        let x = device.upload(&input::<E>(comm.rank(), give), &stream)?;
        let mut y = device.upload(&vec![E::of(3); get], &stream)?;
        let mut run = comm.run(operator);
        if give > 0 || get == 0 {
            run = run.input(&x);
        }
        if get > 0 || give == 0 {
            run = run.output(&mut y);
        }
        run.submit(&stream)?.wait()?;
        y.to_vec(&stream).wait()
    });
    let outputs = outputs.unwrap();
    let found: Vec<String> = runtime.findings().iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}: {}", operator.name(), found.join("\n"));
    outputs
}

fn all_inputs<E: Number>(ranks: u32, length: usize) -> Vec<Vec<E>> {
    (0..ranks).map(|rank| input(rank, length)).collect()
}

/// Returns the greatest number at each place.
fn greatest<E: Number + PartialOrd>(inputs: &[Vec<E>]) -> Vec<E> {
    let length = inputs[0].len();
    let greater = |a: E, b: E| if b > a { b } else { a };
    (0..length).map(|at| inputs.iter().map(|x| x[at]).reduce(greater).unwrap()).collect()
}

/// Returns the sum at each place, for small numbers.
fn sums<E: Number + std::ops::Add<Output = E>>(inputs: &[Vec<E>]) -> Vec<E> {
    let length = inputs[0].len();
    (0..length).map(|at| inputs.iter().map(|x| x[at]).reduce(|a, b| a + b).unwrap()).collect()
}

fn lengths(ranks: u32) -> Vec<usize> {
    let all = [0, 1, 2, 7, 33, 1000, 70_001];
    if full() { all.to_vec() } else { vec![0, 7, [1, 33, 1000, 70_001][ranks as usize % 4]] }
}

/// Runs all algorithms on `ranks` ranks.
fn everything<E: Number + PartialOrd + std::ops::Add<Output = E>>(runtime: &Runtime, ranks: u32) {
    let config = CommConfig::builder().buffer_mib(16).build();
    let p = ranks as usize;
    for n in lengths(ranks) {
        let inputs = all_inputs::<E>(ranks, n);
        let all = |outputs: Vec<Vec<E>>, expected: &[E], name: &str| {
            for (rank, output) in outputs.iter().enumerate() {
                assert!(output == expected, "{name} of {n} {} on rank {rank} of {p}", E::DTYPE);
            }
        };
        let gathered = run::<E>(runtime, ranks, &mesh_all_gather(), |_| (n, p * n), &config);
        all(gathered, &inputs.concat(), "mesh_all_gather");
        let expected = sums(&inputs);
        for operator in [ring_all_reduce(Sum, 500), mesh_all_reduce(Sum)] {
            let reduced = run::<E>(runtime, ranks, &operator, |_| (n, n), &config);
            all(reduced, &expected, operator.name());
        }
        let reduced = run::<E>(runtime, ranks, &ring_all_reduce(Max, 1 << 20), |_| (n, n), &config);
        all(reduced, &greatest(&inputs), "ring_all_reduce");
        let root = ranks - 1;
        let from_root = |rank| if rank == root { (n, n) } else { (0, n) };
        let sent = run::<E>(runtime, ranks, &chain_broadcast(root), from_root, &config);
        all(sent, &inputs[root as usize], "chain_broadcast");

        let inputs = all_inputs::<E>(ranks, p * n);
        let exchanged = run::<E>(runtime, ranks, &mesh_all_to_all(), |_| (p * n, p * n), &config);
        for (rank, output) in exchanged.iter().enumerate() {
            let blocks = inputs.iter().map(|input| &input[rank * n..(rank + 1) * n]);
            let expected = blocks.collect::<Vec<_>>().concat();
            assert!(*output == expected, "mesh_all_to_all of {n} {} on rank {rank}", E::DTYPE);
        }
    }
}

#[test]
fn results_are_right_for_any_number_of_ranks() {
    let runtime = runtime_with(8);
    for ranks in RANKS {
        everything::<f32>(&runtime, *ranks);
    }
}

#[test]
fn results_are_right_for_any_type() {
    let runtime = runtime_with(4);
    everything::<f16>(&runtime, 3);
    everything::<bf16>(&runtime, 4);
    everything::<i8>(&runtime, 2);
    everything::<i16>(&runtime, 3);
    everything::<i32>(&runtime, 4);
}

#[test]
fn results_are_right_on_every_product_with_every_engine() {
    for product in products() {
        let runtime = Devices::new(3).product(product).runtime();
        let (gather, sum) = (mesh_all_gather(), ring_all_reduce(Sum, 4));
        use Engine::{AicpuTs, CpuTs};
        for engines in [[CpuTs, CpuTs], [AicpuTs, AicpuTs], [CpuTs, AicpuTs]] {
            let got = runtime.run_ranks(3, |rank| -> hccl::Result<Vec<i32>> {
                let (device, stream) = (rank.device(), rank.device().stream()?);
                let mut comm = rank.communicator()?;
                let x = device.upload(&[comm.rank() as i32; 2], &stream)?;
                let mut y = device.zeros::<i32>(6, &stream)?;
                for engine in engines {
                    let run = comm.run(&gather).engine(engine);
                    run.input(&x).output(&mut y).submit(&stream)?;
                    comm.run(&sum).engine(engine).in_place(&mut y).submit(&stream)?;
                }
                let run = comm.run(&gather).engine(engines[0]);
                run.input(&x).output(&mut y).submit(&stream)?;
                comm.run(&sum).engine(engines[1]).in_place(&mut y).submit(&stream)?;
                y.to_vec(&stream).wait()
            });
            assert_eq!(got.unwrap(), [[0, 0, 3, 3, 6, 6]; 3], "{product} {engines:?}");
        }
    }
}

#[test]
fn nothing_is_found_in_checked_mode() {
    let build = || own_devices().devices(4).checked(true).build().unwrap();
    everything::<i32>(&build(), 4);
    everything::<f32>(&build(), 2);
}

#[test]
fn what_is_larger_than_the_communication_buffer_goes_in_rounds() {
    let runtime = runtime_with(3);
    let config = CommConfig::builder().buffer_mib(1).build();
    // The buffer has 2 MiB: twice the size that the setting gives.
    let n = 1_300_001;
    let inputs = all_inputs::<i16>(3, n);
    let gathered = run::<i16>(&runtime, 3, &mesh_all_gather(), |_| (n, 3 * n), &config);
    assert!(gathered.iter().all(|output| *output == inputs.concat()));
    let reduced = run::<i16>(&runtime, 3, &ring_all_reduce(Sum, usize::MAX), |_| (n, n), &config);
    assert!(reduced.iter().all(|output| *output == sums(&inputs)));
}

#[test]
fn an_input_may_lie_in_the_output() {
    let runtime = runtime_with(3);
    let got = runtime.run_ranks(3, |rank| -> hccl::Result<_> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let (mut comm, me) = (rank.communicator()?, rank.index() as i32);
        let mut gathered = device.upload(&[me; 6], &stream)?;
        comm.run(&mesh_all_gather()).in_place(&mut gathered).submit(&stream)?;
        let mut sum = device.upload(&[me, 1], &stream)?;
        comm.run(&mesh_all_reduce(Sum)).in_place(&mut sum).submit(&stream)?;
        let mut root = device.upload(&[me; 3], &stream)?;
        comm.run(&chain_broadcast(1)).in_place(&mut root).submit(&stream)?;
        let mut all = device.upload(&[10 * me, 10 * me + 1, 10 * me + 2], &stream)?;
        comm.run(&mesh_all_to_all()).in_place(&mut all).submit(&stream)?;
        Ok((
            gathered.to_vec(&stream).wait()?,
            sum.to_vec(&stream).wait()?,
            root.to_vec(&stream).wait()?,
            all.to_vec(&stream).wait()?,
        ))
    });
    for (me, (gathered, sum, root, all)) in got.unwrap().into_iter().enumerate() {
        assert_eq!(gathered, [0, 0, 1, 1, 2, 2]);
        assert_eq!(sum, [3, 3]);
        assert_eq!(root, [1; 3]);
        assert_eq!(all, [0, 10, 20].map(|from| from + me as i32));
    }
}

#[test]
fn operators_and_collectives_take_turns_on_one_communicator() {
    both_backends(|runtime| {
        let got = runtime.run_ranks(2, |rank| -> hccl::Result<_> {
            let device = rank.device();
            let (stream, other) = (device.stream()?, device.stream()?);
            let (mut comm, me) = (rank.communicator()?, rank.index() as i32);
            let (gather, ring) = (mesh_all_gather(), ring_all_reduce(Sum, 100));
            let hand_over = [hand_over(0, 1), hand_over(1, 0)];
            let x = device.upload(&[me + 1; 300], &stream)?;
            let mut all = device.zeros::<i32>(600, &stream)?;
            let mut sum = device.zeros::<i32>(600, &stream)?;
            for round in 0..20 {
                let stream = if round % 3 == 0 { &other } else { &stream };
                comm.run(&gather).input(&x).output(&mut all).submit(stream)?;
                comm.all_reduce(&all, &mut sum, Sum, stream)?;
                comm.run(&ring).input(&sum).output(&mut all).submit(stream)?;
                for (from, operator) in hand_over.iter().enumerate() {
                    let run = comm.run(operator);
                    match from == me as usize {
                        true => run.input(&all).submit(stream)?,
                        false => run.output(&mut sum).submit(stream)?,
                    };
                }
                comm.barrier(stream)?;
            }
            Ok((all.to_vec(&stream).wait()?, sum.to_vec(&stream).wait()?))
        });
        for (all, sum) in got.unwrap() {
            assert_eq!(all, [[4; 300], [8; 300]].concat());
            assert_eq!(sum, all);
        }
    });
}

#[test]
fn a_rank_without_buffers_helps() {
    // The elements go through rank 1, which has neither an input nor an output.
    let relay = Operator::send("relay", 0, 2, |op, main| {
        let shared = ..op.count();
        let own = op.buffer().slice(shared);
        match op.rank() {
            0 => main.copy(op.input(), own),
            previous => {
                let access = main.enter(op.channel(previous - 1));
                main.read(access.buffer().slice(shared), own);
                main.leave(access);
            }
        }
        if op.rank() < 2 {
            let exposed = main.expose(op.channel(op.rank() + 1));
            main.reclaim(exposed);
        } else {
            main.copy(own, op.output());
        }
    });
    let runtime = runtime_with(3);
    let got = runtime.run_ranks(3, |rank| -> hccl::Result<Vec<i8>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let (mut comm, me) = (rank.communicator()?, rank.index() as i8);
        let mut x = device.upload(&[me; 5], &stream)?;
        let run = comm.run(&relay);
        match me {
            0 => run.input(&x).submit(&stream)?,
            1 => run.count::<i8>(5).submit(&stream)?,
            _ => run.output(&mut x).submit(&stream)?,
        };
        x.to_vec(&stream).wait()
    });
    assert_eq!(got.unwrap(), [[0; 5], [1; 5], [0; 5]]);
}

#[test]
fn many_operators_share_threads_and_channels() {
    let runtime = runtime_with(4);
    let sums = runtime.run_ranks(4, |rank| -> hccl::Result<Vec<i32>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let mut x = device.upload(&[1; 40], &stream)?;
        // If each run took new threads, these runs would need more than the 200 of a communicator.
        for round in 0..150 {
            let operator = match round % 3 {
                0 => mesh_all_reduce(Max),
                1 => ring_all_reduce(Min, 7),
                _ => chain_broadcast(round % 4),
            };
            comm.run(&operator).in_place(&mut x).submit(&stream)?;
        }
        x.to_vec(&stream).wait()
    });
    assert_eq!(sums.unwrap(), [[1; 40]; 4]);
}

#[test]
fn a_part_of_a_communicator_runs_operators_of_its_own() {
    let runtime = runtime_with(4);
    let got = runtime.run_ranks(4, |rank| -> hccl::Result<Vec<i32>> {
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let (mut comm, me) = (rank.communicator()?, rank.index() as i32);
        let half = comm.split(Some(rank.index() % 2), rank.index()).wait()?;
        let mut half = half.expect("every rank has a color");
        let mut x = device.upload(&[me, 1], &stream)?;
        half.run(&mesh_all_reduce(Sum)).in_place(&mut x).submit(&stream)?;
        comm.run(&mesh_all_reduce(Max)).in_place(&mut x).submit(&stream)?;
        x.to_vec(&stream).wait()
    });
    assert_eq!(got.unwrap(), [[4, 2]; 4]);
}
