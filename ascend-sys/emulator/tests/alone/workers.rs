//! Tests that work runs even if no thread waits for it, on as many cores as are free.

use ascend_emulator_testing::barrier::Barrier;
use ascend_emulator_testing::common::*;
use ascend_emulator_testing::ranks::on_ranks;
use ascend_emulator_testing::{alone, hccl, ok};
use ascend_sys::*;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const BIG: usize = 128 << 20;

/// Returns the number of each thread of the emulator, with the nanoseconds that the thread has run
/// so far.
fn own_threads() -> Vec<(i32, u64)> {
    let threads = fs::read_dir("/proc/self/task").unwrap().filter_map(|entry| {
        let path = entry.ok()?.path();
        let own = fs::read_to_string(path.join("comm")).ok()?.starts_with("ascend-");
        let number: i32 = path.file_name()?.to_str()?.parse().ok()?;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: on Linux this number names the CPU clock of a thread, and the call only writes
        // `time`.
        let code = unsafe { libc::clock_gettime(!number << 3 | 6, &raw mut time) };
        (own && code == 0)
            .then_some((number, time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
    });
    threads.collect()
}

/// Returns the number of threads of the emulator that have run for at least a millisecond since
/// `before`.
fn at_work_since(before: &[(i32, u64)]) -> usize {
    let since = |(number, time): &(i32, u64)| {
        time - before.iter().find(|(other, _)| other == number).map_or(0, |(_, time)| *time)
    };
    own_threads().iter().filter(|thread| since(thread) >= 1_000_000).count()
}

/// Sleeps until all tasks of the stream are complete, so that this thread runs none of them.
fn look_on(stream: aclrtStream) {
    let mut progress = std::ptr::null();
    ok!(ascendExtStreamProgress(stream, &mut progress));
    // SAFETY: the counters live as long as the stream.
    let progress: &AscendExtProgress = unsafe { &*progress };
    // SAFETY: as above; the counters are words that only change by atomic stores.
    let word = |counter: *const u64| unsafe {
        std::sync::atomic::AtomicU64::from_ptr(counter.cast_mut()).load(Ordering::Acquire)
    };
    let began = Instant::now();
    while word(&raw const progress.completed) < word(&raw const progress.submitted) {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody runs the stream");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs one round of work, and returns whether two of the emulator's threads have worked on it. The
/// machine may have no free core for a while, so callers repeat the round. The call panics if a
/// minute has passed since `began`. On a machine with one core it runs nothing and returns true.
fn two_threads_work(what: &str, began: Instant, round: impl FnOnce()) -> bool {
    if thread::available_parallelism().is_ok_and(|n| n.get() == 1) {
        eprintln!("{what}: one core only, so there are no workers");
        return true;
    }
    let (before, since) = (own_threads(), Instant::now());
    round();
    println!("{what}: {:.1} ms", since.elapsed().as_secs_f64() * 1e3);
    assert!(began.elapsed() < Duration::from_secs(60), "{what}: one thread ran it all");
    at_work_since(&before) >= 2
}

/// Checks everything in one test, because the threads belong to the process.
#[test]
fn what_nobody_waits_for_runs_on_several_threads() {
    alone!();
    {
        let _block = Block::one();
        let jobs = [(); 2].map(|()| (stream(), malloc(BIG), malloc(BIG)));
        let copies = || {
            for (stream, from, to) in jobs {
                ok!(aclrtMemcpyAsync(to, BIG, from, BIG, D2D, stream));
            }
            jobs.iter().for_each(|(stream, ..)| look_on(*stream));
        };
        // The first round makes the pages of the buffers resident.
        copies();
        let began = Instant::now();
        while !two_threads_work("two copies", began, copies) {}
    }
    let (turn, done) = (Barrier::new(2), AtomicBool::new(false));
    on_ranks(2, |rank| {
        let (send, recv) = (malloc(BIG), malloc(BIG));
        let (fp32, sum, count) = (HcclDataType(4), HcclReduceOp(0), (BIG / 4) as u64);
        let all_reduce = || {
            turn.wait();
            hccl!(HcclAllReduce(send, recv, count, fp32, sum, rank.comm, rank.stream));
            look_on(rank.stream);
            turn.wait();
        };
        all_reduce();
        let began = Instant::now();
        while !done.load(Ordering::Acquire) {
            if rank.rank == 0 {
                let two = two_threads_work("an all-reduce", began, all_reduce);
                done.store(two, Ordering::Release);
            } else {
                all_reduce();
            }
            turn.wait();
        }
    });
}
