//! Tests that a thousand ranks in one process can be made, compute a sum, and end, within two GiB.
//! `cargo test -p ascend-emulator --test alone --release thousand:: -- --nocapture` prints how long
//! each step takes.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::{self, Block, message};
use ascend_emulator_testing::ranks::{FP32, Rank, SUM, root_info};
use ascend_emulator_testing::{alone, call, hccl, ok};
use ascend_sys::*;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const RANKS: u32 = 1024;
const COUNT: usize = 1000;
const MOST_KIB: u64 = 2 << 20;

/// The right of a test to run. Only one test runs at a time, because the tests measure the memory
/// of the process.
static TURN: Mutex<()> = Mutex::new(());

fn block() -> Block {
    Block::with(AscendExtBlockConfig {
        deviceCount: RANKS,
        memoryBytes: 1 << 20,
        ..Block::config()
    })
}

/// Returns the values of a rank. They are larger by one than those of the rank before it, and their
/// sum over all ranks is exact.
fn values(rank: u32) -> Vec<u8> {
    (0..COUNT).flat_map(|i| ((rank as usize + i % 7) as f32).to_ne_bytes()).collect()
}

fn sum() -> Vec<u8> {
    let ranks = RANKS as usize;
    let all = |i| (0..ranks).map(|rank| rank + i % 7).sum::<usize>() as f32;
    (0..COUNT).flat_map(|i| all(i).to_ne_bytes()).collect()
}

/// A stopwatch that prints the time of each step. The fields are the beginning of the test and that
/// of the current step.
struct Steps(Instant, Instant);

impl Steps {
    fn new() -> Steps {
        Steps(Instant::now(), Instant::now())
    }

    fn done(&mut self, what: &str) {
        println!("{what:>12}: {:7.1} ms", self.1.elapsed().as_secs_f64() * 1e3);
        self.1 = Instant::now();
    }

    fn end(self) {
        let took = self.0.elapsed();
        let peak = peak_kib();
        println!("{:>12}: {:7.1} ms, at most {} MiB", "all", took.as_secs_f64() * 1e3, peak >> 10);
        assert!(peak < MOST_KIB, "it took {peak} KiB");
    }
}

/// Returns the peak memory of the process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[cfg_attr(debug_assertions, ignore = "says what it takes: with --release")]
fn from_one_thread() {
    alone!();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let expected = sum();
    let mut steps = Steps::new();
    let block = block();
    steps.done("block");
    let mut devices: Vec<i32> = (0..RANKS as i32).map(|rank| block.first + rank).collect();
    let mut comms = vec![null_mut(); RANKS as usize];
    hccl!(HcclCommInitAll(RANKS, devices.as_mut_ptr(), comms.as_mut_ptr()));
    steps.done("init all");
    let ranks: Vec<_> = (0..RANKS)
        .map(|rank| {
            ok!(aclrtSetDevice(devices[rank as usize]));
            let buffer = common::malloc(COUNT * 4);
            common::write(buffer, &values(rank));
            (buffer, common::stream())
        })
        .collect();
    steps.done("buffers");
    for round in ["first sum", "second sum"] {
        hccl!(HcclGroupStart());
        for (rank, (buffer, stream)) in ranks.iter().enumerate() {
            ok!(aclrtSetDevice(devices[rank]));
            let (comm, count) = (comms[rank], COUNT as u64);
            hccl!(HcclAllReduce(*buffer, *buffer, count, FP32, SUM, comm, *stream));
        }
        hccl!(HcclGroupEnd());
        steps.done(round);
        if round == "first sum" {
            for (rank, (buffer, _)) in ranks.iter().enumerate() {
                assert_eq!(common::read(*buffer, COUNT * 4), expected, "rank {rank}");
            }
            steps.done("check");
        }
    }
    for comm in comms {
        hccl!(HcclCommDestroy(comm));
    }
    steps.done("destroy");
    drop(block);
    steps.done("block ends");
    steps.end();
}

#[test]
#[cfg_attr(debug_assertions, ignore = "says what it takes: with --release")]
fn from_a_thousand_threads() {
    alone!();
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let expected = sum();
    let mut steps = Steps::new();
    let block = block();
    steps.done("block");
    let info = root_info();
    let gate = Barrier::new(RANKS as usize + 1);
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let (block, info, gate, expected) = (&block, &info, &gate, &expected);
            let run = move || {
                let mut rank = Rank::without_comm(block, info, rank, RANKS);
                let buffer = rank.upload(&values(rank.rank));
                let mut first = true;
                gate.wait();
                rank.join();
                gate.wait();
                for _ in 0..2 {
                    let (comm, stream) = (rank.comm, rank.stream);
                    hccl!(HcclAllReduce(buffer, buffer, COUNT as u64, FP32, SUM, comm, stream));
                    let code = call!(aclrtSynchronizeStream(stream));
                    assert_eq!(code, 0, "{}", message());
                    gate.wait();
                    if first {
                        assert_eq!(rank.download(buffer, COUNT * 4), *expected);
                        first = false;
                        gate.wait();
                    }
                }
                hccl!(HcclCommDestroy(rank.comm));
                gate.wait();
            };
            std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, run).unwrap();
        }
        for step in ["threads", "join", "first sum", "check", "second sum", "destroy"] {
            gate.wait();
            steps.done(step);
        }
    });
    drop(block);
    steps.done("block ends");
    steps.end();
}
