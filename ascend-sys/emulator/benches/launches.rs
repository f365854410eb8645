//! Measures the cost of a launch and the throughput of the kernel server. Run `cargo bench -p
//! ascend-emulator --bench launches`, or a part of it with `-- launch`, `-- bytes` or `--
//! timelines`.

use ascend_emulator_testing::kernel::*;
use ascend_emulator_testing::ranks::{FP32, Rank, SUM, on_ranks};
use ascend_emulator_testing::{hccl, ok};
use ascend_program::layout::Number;
use ascend_sys::HcclDataType;
use std::time::{Duration, Instant};

/// The times of many runs, sorted.
struct Times(Vec<Duration>);

impl Times {
    /// Calls `one` this many times, after a tenth as many calls that do not count.
    fn of(times: usize, mut one: impl FnMut()) -> Times {
        let mut run = || {
            let start = Instant::now();
            one();
            start.elapsed()
        };
        for _ in 0..times / 10 {
            run();
        }
        let mut times: Vec<_> = (0..times).map(|_| run()).collect();
        times.sort();
        Times(times)
    }

    fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_secs_f64() * 1e6
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} us ({:.0} at p10)", self.at(50), self.at(10))
    }
}

/// Returns the number of times that this thread has gone to sleep, or 0 if the system does not
/// report it.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

const FP16: HcclDataType = HcclDataType(3);
const RUNS: usize = 1000;

/// Returns the calls of the documentation's kernel: 300 elements in turns of 128, 128 and 44.
fn calls() -> [Call; 2] {
    [Call::new(REDUCE_SCATTER, 0, 128, 300, 2), Call::new(REDUCE_SCATTER, 256, 44, 300, 1)]
}

fn on_each(ranks: u32) {
    let times = on_ranks(ranks, |rank| {
        let ready = Ready::new(rank, &kernel(&calls(), Number::F16, 3), &[REDUCE_SCATTER]);
        let (x, y) = (rank.upload(&[0; 9600]), rank.upload(&[0; 600]));
        let before = sleeps();
        let times = Times::of(RUNS, || ready.run_all(rank, 8, &[x, y]));
        let slept = (sleeps() - before) as f64 / (RUNS + RUNS / 10) as f64;
        ready.end();
        (times, slept)
    });
    let host = on_ranks(ranks, |rank| {
        let (x, y) = (rank.upload(&[0; 9600]), rank.upload(&[0; 600]));
        Times::of(RUNS, || {
            for count in [128, 128, 44] {
                hccl!(HcclReduceScatter(x, y, count, FP16, SUM, rank.comm, rank.stream));
                rank.sync();
            }
        })
    });
    let (times, slept) = &times[0];
    println!(
        "launch of 8 blocks, 3 turns of reduce-scatter, {ranks} ranks, a thread each: {times}, {slept:.1} sleeps; the host's three: {}",
        host[0]
    );
}

/// Measures launches of all ranks by one thread, which also waits for them, so that no thread waits
/// for another.
fn by_one_thread(ranks: u32) {
    let program = kernel(&calls(), Number::F16, 3);
    let together = Together::new(ranks, &program, &[REDUCE_SCATTER], 9600);
    let times = Times::of(RUNS, || together.run_all(8));
    println!("the same, {ranks} ranks, one thread for all: {times}");
    together.end();
}

/// Measures 16 MiB for each rank in one turn, in four turns and as the host's operation, in
/// alternation.
fn bytes(ranks: u32) {
    let count = (16 << 20) / 4 / u64::from(ranks);
    let times = on_ranks(ranks, |rank: &mut Rank| {
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
        all.map(|mut times| {
            times.sort();
            Times(times)
        })
    });
    let [one, four, host] = &times[0];
    println!(
        "reduce-scatter of 16 MiB, {ranks} ranks: one turn {one}, four turns {four}, host {host}: {:.2} and {:.2} of the host's",
        one.at(50) / host.at(50),
        four.at(50) / host.at(50)
    );
}

/// Measures the same launches before any timeline is recorded, while one is recorded, and after it
/// was stopped.
fn timelines() {
    let program = kernel(&calls(), Number::F16, 3);
    let together = Together::new(4, &program, &[REDUCE_SCATTER], 9600);
    let measure = || Times::of(RUNS, || together.run_all(8));
    let never = measure();
    ok!(ascendExtTimelineRecord(together.block.number, 1));
    let on = measure();
    ok!(ascendExtTimelineRecord(together.block.number, 0));
    let off = measure();
    println!(
        "4 ranks by one thread, no timeline: {never}; one is recorded: {on}; it was stopped: {off}"
    );
    together.end();
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == part);
    if is_wanted("launch") {
        [1, 2, 4, 8].into_iter().for_each(on_each);
        [1, 2, 4, 8].into_iter().for_each(by_one_thread);
    }
    if is_wanted("bytes") {
        [2, 4].into_iter().for_each(bytes);
    }
    if is_wanted("timelines") {
        timelines();
    }
}
