//! Collectives of two ranks on two threads, beside what the memory of this machine allows in the same run.
//!
//! `cargo bench -p ascend-emulator --bench collectives [-- quick]`. Every figure is the best of many short batches, in microseconds for
//! one call with its synchronisation: on a machine that others use too, only a batch that is shorter than a time slice can go undisturbed.
//!
//! The bound is two threads that do exactly the necessary reads and writes of an all-reduce (each half is reduced once and written
//! to both results) and meet twice at a spinning barrier, with plain or with streaming stores, whichever is faster. Three things make it one:
//! all buffers hold the same bytes; a thread that has done its half takes pieces of the other's, as the emulator's do, so that neither
//! waits for one whose core was taken away; and bound and operation are measured in turn, because the bandwidth that other users
//! leave changes by a factor of two within seconds.
#![allow(missing_docs, reason = "a program")]

use ascend_emulator::reduce::{DataType, ReduceOp, Store, reduce_chunk};
use ascend_sys::*;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const FP32: HcclDataType = HcclDataType::HCCL_DATA_TYPE_FP32;
const SUM: HcclReduceOp = HcclReduceOp::HCCL_REDUCE_SUM;
/// What all buffers hold. Not zero: the machine that this was written on moves zeros up to three times as fast.
const FILL: u8 = 1;
/// Batches of one measurement.
const ROUNDS: usize = 5;
/// How often operation and bound are measured in turn.
const PASSES: usize = 20;

/// Pins the calling thread, so that two spinning ranks never share a core.
fn pin(core: usize) {
    // SAFETY: a zeroed set is empty; the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// Two threads, each runs `body(rank)` to make a step and times a batch of steps; the slower counts.
fn two<S>(
    iterations: usize,
    prepare: impl Fn(usize) -> S + Sync,
    step: impl Fn(&mut S) + Sync,
) -> f64 {
    let barrier = Barrier::new(2);
    let best = |rank: usize| {
        pin(rank);
        let mut state = prepare(rank);
        let mut times = [0.0; ROUNDS];
        for time in &mut times {
            barrier.wait();
            let began = Instant::now();
            (0..iterations).for_each(|_| step(&mut state));
            *time = began.elapsed().as_secs_f64() * 1e6 / iterations as f64;
        }
        times
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| best(1));
        let mine = best(0);
        let other = other.join().unwrap();
        mine.iter().zip(other).map(|(a, b)| a.max(b)).fold(f64::MAX, f64::min)
    })
}

struct Rank {
    api: &'static Functions,
    comm: HcclComm,
    stream: aclrtStream,
    send: *mut c_void,
    recv: *mut c_void,
    rank: usize,
}

trait Code {
    fn is_success(&self) -> bool;
}

impl Code for aclError {
    fn is_success(&self) -> bool {
        *self == 0
    }
}

impl Code for HcclResult {
    fn is_success(&self) -> bool {
        self.0 == 0
    }
}

/// The code must be 0.
macro_rules! ok {
    ($api:expr, $name:ident($($argument:expr),*)) => {{
        // SAFETY: the arguments keep to the C contract.
        let code = unsafe { $api.$name.unwrap()($($argument),*) };
        assert!(code.is_success(), "{}", stringify!($name));
    }};
}

fn rank(
    api: &'static Functions,
    first: i32,
    info: &HcclRootInfo,
    rank: usize,
    bytes: usize,
) -> Rank {
    let null = std::ptr::null_mut();
    let mut r = Rank { api, comm: null, stream: null, send: null, recv: null, rank };
    let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
    ok!(api, aclrtSetDevice(first + rank as i32));
    ok!(api, aclrtCreateStream(&mut r.stream));
    ok!(api, aclrtMalloc(&mut r.send, bytes, policy));
    ok!(api, aclrtMalloc(&mut r.recv, bytes, policy));
    ok!(api, aclrtMemset(r.send, bytes, FILL.into(), bytes));
    ok!(api, aclrtMemset(r.recv, bytes, FILL.into(), bytes));
    ok!(api, HcclCommInitRootInfo(2, info, rank as u32, &mut r.comm));
    r
}

fn measure(bytes: usize, iterations: usize, step: impl Fn(&mut Rank) + Sync) -> f64 {
    let api: &'static Functions = Box::leak(Box::new(ascend_emulator::table()));
    let config = AscendExtBlockConfig {
        size: size_of::<AscendExtBlockConfig>() as u32,
        deviceCount: 2,
        product: 3,
        memoryBytes: 1 << 30,
        ..Default::default()
    };
    let (mut block, mut first) = (0, 0);
    ok!(api, ascendExtBlockCreate(&config, &mut block, &mut first));
    let mut info = HcclRootInfo::default();
    ok!(api, HcclGetRootInfo(&mut info));
    let time = two(iterations, |r| rank(api, first, &info, r, bytes.max(64)), step);
    ok!(api, ascendExtBlockDestroy(block));
    time
}

#[repr(align(128))]
struct Line(AtomicU64);

/// A two-thread barrier: each writes its own line.
fn meet(lines: &[Line; 2], rank: usize, turn: &mut u64) {
    *turn += 1;
    lines[rank].0.store(*turn, Ordering::Release);
    while lines[1 - rank].0.load(Ordering::Acquire) < *turn {
        spin_loop();
    }
}

fn one_way() -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let step = |state: &mut (usize, u64)| {
        let (rank, turn) = state;
        *turn += 1;
        if *rank == 0 {
            lines[0].0.store(*turn, Ordering::Release);
        }
        while lines[1 - *rank].0.load(Ordering::Acquire) < *turn {}
        if *rank == 1 {
            lines[1].0.store(*turn, Ordering::Release);
        }
    };
    two(1_000, |rank| (rank, 0u64), step) / 2.0
}

/// Populated memory, in huge pages if the system gives them.
fn map(bytes: usize) -> usize {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, advised and written within its length. It is never given back: this is a short program.
    unsafe {
        let length = bytes.next_multiple_of(2 << 20);
        let address = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
        assert_ne!(address, libc::MAP_FAILED);
        libc::madvise(address, length, libc::MADV_HUGEPAGE);
        address.cast::<u8>().write_bytes(FILL, length);
        address as usize
    }
}

/// Bytes of a piece of the bound.
const PIECE: usize = 32 << 10;

fn bound(bytes: usize, iterations: usize, pointers: [usize; 4]) -> f64 {
    let plain = least_work(bytes, iterations, pointers, Store::Plain);
    least_work(bytes, iterations, pointers, Store::Streaming).min(plain)
}

fn least_work(bytes: usize, iterations: usize, pointers: [usize; 4], store: Store) -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    // How many pieces of each half are taken.
    let taken = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    // A half is whole elements, and begins at a cache line.
    let first = (bytes / 2).next_multiple_of(64).min(bytes);
    let halves = [0..first, first..bytes];
    let step = |(rank, turn): &mut (usize, u64)| {
        meet(&lines, *rank, turn);
        for half in [*rank, 1 - *rank] {
            loop {
                let piece = taken[half].0.fetch_add(1, Ordering::Relaxed) as usize;
                let begin = halves[half].start + piece * PIECE;
                if begin >= halves[half].end {
                    break;
                }
                let count = (halves[half].end - begin).min(PIECE) / 4;
                let at = |buffer: usize| (pointers[buffer] + begin) as *mut u8;
                // SAFETY: the mappings stay, and a piece is taken by one of the two.
                unsafe {
                    let inputs = [at(0).cast_const(), at(1).cast_const()];
                    let (dtype, op) = (DataType::Fp32, ReduceOp::Sum);
                    reduce_chunk(dtype, op, &inputs, &[at(2), at(3)], count, store);
                }
            }
        }
        meet(&lines, *rank, turn);
        // Nobody takes anything before both have come to the next step.
        taken[*rank].0.store(0, Ordering::Relaxed);
    };
    two(iterations, |rank| (rank, 0u64), step)
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "quick");
    println!("one-way latency between the cores: {:.1} ns", one_way() * 1e3);
    println!(
        "| bytes | all-reduce us | bound us | ratio | broadcast us | exchange us | barrier us |"
    );
    println!("|---|---|---|---|---|---|---|");
    let sizes = [8, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20];
    for bytes in sizes.into_iter().filter(|bytes| !quick || *bytes <= 16 << 20) {
        // About 100 microseconds, or one.
        let iterations = ((1 << 20) / bytes.max(2048)).max(1);
        let count = bytes as u64 / 4;
        let pointers = [(); 4].map(|()| map(bytes));
        let (mut all_reduce, mut least) = (f64::MAX, f64::MAX);
        for _ in 0..PASSES {
            let time = measure(bytes, iterations, |r| {
                ok!(r.api, HcclAllReduce(r.send, r.recv, count, FP32, SUM, r.comm, r.stream));
                ok!(r.api, aclrtSynchronizeStream(r.stream));
            });
            all_reduce = all_reduce.min(time);
            least = least.min(bound(bytes, iterations, pointers));
        }
        let broadcast = measure(bytes, iterations, |r| {
            ok!(r.api, HcclBroadcast(r.send, count, FP32, 0, r.comm, r.stream));
            ok!(r.api, aclrtSynchronizeStream(r.stream));
        });
        let exchange = measure(bytes, iterations, |r| {
            let item = |kind, buf| HcclSendRecvItem {
                sendRecvType: kind,
                buf,
                count,
                dataType: FP32,
                remoteRank: 1 - r.rank as u32,
            };
            let (send, receive) = (HcclSendRecvType::HCCL_SEND, HcclSendRecvType::HCCL_RECV);
            let mut items = [item(send, r.send), item(receive, r.recv)];
            ok!(r.api, HcclBatchSendRecv(items.as_mut_ptr(), 2, r.comm, r.stream));
            ok!(r.api, aclrtSynchronizeStream(r.stream));
        });
        let barrier = measure(64, 500, |r| {
            ok!(r.api, HcclBarrier(r.comm, r.stream));
            ok!(r.api, aclrtSynchronizeStream(r.stream));
        });
        println!(
            "| {bytes} | {all_reduce:.3} | {least:.3} | {:.2} | {broadcast:.3} | {exchange:.3} | {barrier:.3} |",
            all_reduce / least
        );
    }
}
