//! What a launch costs, and what the server of kernels moves: `cargo bench -p ascend-emulator --bench launches`.
#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/kernel/mod.rs"]
mod kernel;
#[path = "../tests/ranks/mod.rs"]
mod ranks;

use ascend_program::layout::Number;
use ascend_sys::HcclDataType;
use kernel::*;
use ranks::{FP32, SUM, on_ranks};
use std::time::{Duration, Instant};

/// The median of some runs.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

const FP16: HcclDataType = HcclDataType(3);

/// All ranks launched and waited for by one thread, so that no thread waits for another.
fn by_one_thread(ranks: u32, calls: &[Call]) -> Duration {
    let together = Together::new(ranks, &kernel(calls, Number::F16, 3), &[REDUCE_SCATTER], 4800);
    let one = || {
        let start = Instant::now();
        together.run_all(8);
        start.elapsed()
    };
    let time = median((0..550).map(|_| one()).skip(50).collect());
    together.end();
    time
}

fn main() {
    // The page's kernel, 8 blocks.
    let calls =
        [Call::new(REDUCE_SCATTER, 0, 128, 300, 2), Call::new(REDUCE_SCATTER, 256, 44, 300, 1)];
    for ranks in [1, 2, 4, 8] {
        let times = on_ranks(ranks, |rank| {
            let ready = Ready::new(rank, &kernel(&calls, Number::F16, 3), &[REDUCE_SCATTER]);
            let (x, y) = (rank.upload(&[0; 8000]), rank.upload(&[0; 600]));
            let one = || {
                let start = Instant::now();
                ready.run_all(rank, 8, &[x, y]);
                start.elapsed()
            };
            for _ in 0..50 {
                one();
            }
            let times = (0..500).map(|_| one()).collect();
            ready.end();
            median(times)
        });
        let host = on_ranks(ranks, |rank| {
            let (x, y) = (rank.upload(&[0; 8000]), rank.upload(&[0; 600]));
            let one = || {
                let start = Instant::now();
                for count in [128, 128, 44] {
                    hccl!(HcclReduceScatter(x, y, count, FP16, SUM, rank.comm, rank.stream));
                    rank.sync();
                }
                start.elapsed()
            };
            median((0..550).map(|_| one()).skip(50).collect())
        });
        println!(
            "launch of 8 blocks, 3 turns of reduce-scatter, {ranks} ranks: {:?} (the host's three: {:?})",
            times[0], host[0]
        );
    }
    for ranks in [1, 2, 4, 8] {
        println!("the same, {ranks} ranks, one thread for all: {:?}", by_one_thread(ranks, &calls));
    }
    // 16 MiB a rank in one turn, against the host's operation.
    for ranks in [2, 4] {
        let count = (16 << 20) / 4 / u64::from(ranks);
        let times = on_ranks(ranks, |rank| {
            let of = |stride, turns: u64| {
                let call = Call::new(REDUCE_SCATTER, 0, count / turns, stride, turns);
                Ready::new(rank, &kernel(&[call], Number::F32, 4), &[REDUCE_SCATTER])
            };
            let kernels = [of(0, 1), of(count, 4)];
            let bytes = 16 << 20;
            let (x, y) = (rank.upload(&vec![0; bytes]), rank.upload(&vec![0; bytes]));
            let mut all = [const { Vec::new() }; 3];
            for n in 0..60 {
                for (kernel, times) in kernels.iter().zip(&mut all) {
                    let start = Instant::now();
                    kernel.run_all(rank, 1, &[x, y]);
                    times.push(start.elapsed());
                }
                let start = Instant::now();
                hccl!(HcclReduceScatter(x, y, count, FP32, SUM, rank.comm, rank.stream));
                rank.sync();
                all[2].push(start.elapsed());
                if n == 9 {
                    all.iter_mut().for_each(Vec::clear);
                }
            }
            kernels.into_iter().for_each(Ready::end);
            all.map(median)
        });
        let [one, four, host] = times[0];
        println!(
            "reduce-scatter of 16 MiB, {ranks} ranks: one turn {one:?}, four turns {four:?}, host {host:?} ({:.2} and {:.2})",
            one.as_secs_f64() / host.as_secs_f64(),
            four.as_secs_f64() / host.as_secs_f64()
        );
    }
}
