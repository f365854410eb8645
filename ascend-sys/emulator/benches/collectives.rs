//! Collectives of two ranks on two threads, beside what the memory of this machine allows in the same run.
//!
//! `cargo bench -p ascend-emulator --bench collectives [-- quick]`. Every figure is the best of several rounds, in microseconds for one
//! call with its synchronisation. The bound is two threads that do exactly the necessary reads and writes of an all-reduce (each reduces
//! half and writes it to both results) and meet twice at a spinning barrier.
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
const ROUNDS: usize = 7;

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
    ok!(api, aclrtMemset(r.send, bytes, 0, bytes));
    ok!(api, aclrtMemset(r.recv, bytes, 0, bytes));
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
    two(100_000, |rank| (rank, 0u64), step) / 2.0
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
        address.cast::<u8>().write_bytes(1, length);
        address as usize
    }
}

fn bound(bytes: usize, iterations: usize) -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let pointers = [(); 4].map(|()| map(bytes));
    let store = if bytes * 4 > 24 << 20 { Store::Streaming } else { Store::Plain };
    let step = |(rank, turn): &mut (usize, u64)| {
        meet(&lines, *rank, turn);
        let count = bytes / 4;
        let (start, count) =
            if *rank == 0 { (0, count / 2) } else { (count / 2, count - count / 2) };
        for begin in (start..start + count).step_by(8 * 1024) {
            let piece = (start + count - begin).min(8 * 1024);
            let at = |buffer: usize| (pointers[buffer] + begin * 4) as *mut u8;
            // SAFETY: the mappings stay, and the two ranks write different halves.
            unsafe {
                let inputs = [at(0).cast_const(), at(1).cast_const()];
                let (dtype, op) = (DataType::Fp32, ReduceOp::Sum);
                reduce_chunk(dtype, op, &inputs, &[at(2), at(3)], piece, store);
            }
        }
        meet(&lines, *rank, turn);
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
        let iterations = ((64 << 20) / bytes.max(1024)).clamp(3, 50_000);
        let count = bytes as u64 / 4;
        let all_reduce = measure(bytes, iterations, |r| {
            ok!(r.api, HcclAllReduce(r.send, r.recv, count, FP32, SUM, r.comm, r.stream));
            ok!(r.api, aclrtSynchronizeStream(r.stream));
        });
        let bound = bound(bytes, iterations);
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
        let barrier = measure(64, 50_000, |r| {
            ok!(r.api, HcclBarrier(r.comm, r.stream));
            ok!(r.api, aclrtSynchronizeStream(r.stream));
        });
        println!(
            "| {bytes} | {all_reduce:.3} | {bound:.3} | {:.2} | {broadcast:.3} | {exchange:.3} | {barrier:.3} |",
            all_reduce / bound
        );
    }
}
