//! Measures every collective on ranks that are threads, and what the memory of this machine allows
//! in the same run (`bound`).
//!
//! `cargo bench -p ascend-emulator --bench collectives -- [quick] [ranks=2] [bytes=8] [op=gather] [types] [lines]`.
//! Every figure is the best of many short batches, in microseconds for one call with its
//! synchronisation. On a machine with other users, only a batch that is shorter than a time slice
//! can run undisturbed.
//!
//! Bytes are those of the larger buffer of a rank. `op` takes names, separated by commas. A name
//! that is not the whole name of an operation selects all operations whose names contain it.
//! `types` measures the reducing operations, in every type that can be reduced.
//!
//! `lines` is for programs (`peers/compare`). It prints no bound, but a line `operation bytes best
//! median` for each figure. With `processes` in addition, each rank is a process.
#![allow(missing_docs, reason = "a program")]

mod bound;

use ascend_emulator::reduce::{DataType, Store};
use ascend_sys::*;
use bound::{Bound, FILL, Line, Piece, map, pieces, unmap};
use std::cell::Cell;
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const SUM: HcclReduceOp = HcclReduceOp::HCCL_REDUCE_SUM;
/// The number of batches of one measurement.
const ROUNDS: usize = 5;
/// The number of times that operation and bound are measured in turn.
const PASSES: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    AllReduce,
    Reduce,
    Broadcast,
    /// Broadcasts with a different root each time, so that no rank can run ahead of the others.
    BroadcastFromEach,
    AllGather,
    ReduceScatter,
    Scatter,
    AlltoAll,
    AllGatherV,
    ReduceScatterV,
    AlltoAllV,
    AlltoAllVC,
    /// Every rank sends to the next one, in one batch with its receive.
    Exchange,
    /// Rank 0 sends to rank 1.
    Send,
    Barrier,
}

const OPS: [Op; 15] = {
    use Op::*;
    [
        AllReduce,
        Reduce,
        Broadcast,
        BroadcastFromEach,
        AllGather,
        ReduceScatter,
        Scatter,
        AlltoAll,
        AllGatherV,
        ReduceScatterV,
        AlltoAllV,
        AlltoAllVC,
        Exchange,
        Send,
        Barrier,
    ]
};

/// Pins the calling thread to a core, so that two spinning ranks never share a core.
fn pin(core: usize) {
    // SAFETY: a zeroed set is empty, and the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// Calls a function whose code must be 0. The code is only read as a number, because any other work
/// with it would be measured too.
macro_rules! ok {
    ($name:ident($($argument:expr),*)) => {{
        // SAFETY: the arguments keep to the C contract.
        let code = unsafe { api().$name.unwrap()($($argument),*) };
        assert_eq!(code.number(), 0, "{}", stringify!($name));
    }};
}

/// A code of either API, as a number.
trait Code {
    fn number(self) -> i64;
}

impl Code for aclError {
    fn number(self) -> i64 {
        self.into()
    }
}

impl Code for HcclResult {
    fn number(self) -> i64 {
        self.0.into()
    }
}

fn api() -> &'static Functions {
    static TABLE: std::sync::OnceLock<Functions> = std::sync::OnceLock::new();
    TABLE.get_or_init(ascend_emulator::table)
}

/// A spinning barrier of all threads. If there are more threads than cores, the threads yield.
struct Turnstile {
    threads: usize,
    entered: AtomicU64,
}

impl Turnstile {
    fn new(threads: usize) -> Self {
        Self { threads, entered: AtomicU64::new(0) }
    }

    fn pass(&self) {
        let threads = self.threads as u64;
        let ticket = self.entered.fetch_add(1, Ordering::AcqRel);
        let all = (ticket / threads + 1) * threads;
        while self.entered.load(Ordering::Acquire) < all {
            if threads > 2 {
                std::thread::yield_now();
            } else {
                spin_loop();
            }
        }
    }
}

/// One rank, on its own thread.
struct Rank {
    rank: usize,
    ranks: usize,
    comm: HcclComm,
    stream: aclrtStream,
    send: *mut c_void,
    recv: *mut c_void,
    /// The root of the next broadcast of `BroadcastFromEach`.
    root: Cell<usize>,
}

impl Rank {
    fn new(first: i32, info: &HcclRootInfo, rank: usize, ranks: usize, bytes: usize) -> Rank {
        let null = std::ptr::null_mut();
        let root = Cell::new(0);
        let mut r = Rank { rank, ranks, comm: null, stream: null, send: null, recv: null, root };
        let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
        ok!(aclrtSetDevice(first + rank as i32));
        ok!(aclrtCreateStream(&mut r.stream));
        for buffer in [&mut r.send, &mut r.recv] {
            ok!(aclrtMalloc(buffer, bytes, policy));
            ok!(aclrtMemset(*buffer, bytes, FILL.into(), bytes));
        }
        ok!(HcclCommInitRootInfo(ranks as u32, info, rank as u32, &mut r.comm));
        r
    }

    /// Issues the operation once, and waits for it.
    fn step(&self, case: &Case) {
        let Rank { comm, stream, send, recv, .. } = *self;
        let (t, p) = (HcclDataType(case.dtype as u32), self.ranks as u64);
        let all = (case.bytes / case.dtype.size()) as u64;
        let block = (all / p).max(1);
        let (counts, places) = (vec_of(&case.counts), vec_of(&case.places));
        match case.op {
            Op::AllReduce => ok!(HcclAllReduce(send, recv, all, t, SUM, comm, stream)),
            Op::Reduce => ok!(HcclReduce(send, recv, all, t, SUM, 0, comm, stream)),
            Op::Broadcast => ok!(HcclBroadcast(send, all, t, 0, comm, stream)),
            Op::BroadcastFromEach => {
                let root = self.root.replace((self.root.get() + 1) % self.ranks) as u32;
                ok!(HcclBroadcast(send, all, t, root, comm, stream));
            }
            Op::AllGather => ok!(HcclAllGather(send, recv, block, t, comm, stream)),
            Op::ReduceScatter => ok!(HcclReduceScatter(send, recv, block, t, SUM, comm, stream)),
            Op::Scatter => ok!(HcclScatter(send, recv, block, t, 0, comm, stream)),
            Op::AlltoAll => ok!(HcclAlltoAll(send, block, t, recv, block, t, comm, stream)),
            Op::AllGatherV => {
                ok!(HcclAllGatherV(send, block, recv, counts, places, t, comm, stream))
            }
            Op::ReduceScatterV => {
                ok!(HcclReduceScatterV(send, counts, places, recv, block, t, SUM, comm, stream))
            }
            Op::AlltoAllV => {
                ok!(HcclAlltoAllV(send, counts, places, t, recv, counts, places, t, comm, stream))
            }
            Op::AlltoAllVC => ok!(HcclAlltoAllVC(send, counts, t, recv, t, comm, stream)),
            Op::Exchange => {
                let (next, previous) =
                    ((self.rank + 1) % self.ranks, (self.rank + self.ranks - 1) % self.ranks);
                let item = |kind, buf, peer: usize| HcclSendRecvItem {
                    sendRecvType: kind,
                    buf,
                    count: all,
                    dataType: t,
                    remoteRank: peer as u32,
                };
                let (out, into) = (HcclSendRecvType::HCCL_SEND, HcclSendRecvType::HCCL_RECV);
                let mut items = [item(out, send, next), item(into, recv, previous)];
                ok!(HcclBatchSendRecv(items.as_mut_ptr(), 2, comm, stream));
            }
            Op::Send if self.rank == 0 => ok!(HcclSend(send, all, t, 1, comm, stream)),
            Op::Send if self.rank == 1 => ok!(HcclRecv(recv, all, t, 0, comm, stream)),
            Op::Send => return,
            Op::Barrier => ok!(HcclBarrier(comm, stream)),
        }
        ok!(aclrtSynchronizeStream(stream));
    }
}

fn vec_of(list: &[u64]) -> *const c_void {
    list.as_ptr().cast()
}

/// A measured operation with its sizes, which are the same on all ranks.
struct Case {
    op: Op,
    dtype: DataType,
    bytes: usize,
    /// Equal blocks: a count for each pair of ranks. `places` has the beginnings of the blocks.
    counts: Vec<u64>,
    places: Vec<u64>,
    pieces: Vec<Piece>,
    iterations: usize,
}

impl Case {
    fn new(op: Op, dtype: DataType, bytes: usize, ranks: usize, memory: &[[usize; 2]]) -> Case {
        let block = (bytes / dtype.size() / ranks).max(1) as u64;
        Case {
            op,
            dtype,
            bytes,
            counts: vec![block; ranks * ranks],
            places: (0..ranks as u64).map(|at| at * block).collect(),
            pieces: pieces(op, bytes, memory),
            // The iterations of a batch take about 100 microseconds, or there is only one.
            iterations: ((1 << 20) / (bytes * ranks / 2).max(2048)).max(1),
        }
    }
}

/// The environment variable that makes a process of the bench a rank. It has the number of the rank
/// and the root info.
const RANK: &str = "ASCEND_BENCH_RANK";

/// Returns the number of this process's rank and the root info, or `None` if the process is not a
/// rank.
fn place() -> Option<(usize, HcclRootInfo)> {
    let text = std::env::var(RANK).ok()?;
    let (rank, hex) = text.split_once(' ')?;
    let mut info = HcclRootInfo::default();
    for (at, byte) in info.internal.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()? as _;
    }
    Some((rank.parse().ok()?, info))
}

/// Runs the bench again, with a process for each rank, and waits for all of them. Rank 0 prints.
fn as_processes(ranks: usize, bytes: usize) {
    let mut info = HcclRootInfo::default();
    ok!(HcclGetRootInfo(&mut info));
    let hex: String = info.internal.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    let start = |rank: usize| {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(std::env::args().skip(1).filter(|it| !it.starts_with("bytes=")));
        process.arg(format!("bytes={bytes}")).env(RANK, format!("{rank} {hex}"));
        process.spawn().unwrap()
    };
    let all: Vec<_> = (0..ranks).map(start).collect();
    all.into_iter().for_each(|mut rank| assert!(rank.wait().unwrap().success()));
}

impl Rank {
    /// Waits until all ranks, which are in other processes, have called this.
    fn meet(&self) {
        ok!(HcclBarrier(self.comm, self.stream));
        ok!(aclrtSynchronizeStream(self.stream));
    }

    /// Returns the largest value of the ranks of all processes.
    fn largest(&self, own: f64) -> f64 {
        let (mut value, size) = (own as f32, size_of::<f32>());
        let (up, down) = (
            aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE,
            aclrtMemcpyKind::ACL_MEMCPY_DEVICE_TO_HOST,
        );
        let (t, max) = (HcclDataType(DataType::Fp32 as u32), HcclReduceOp::HCCL_REDUCE_MAX);
        ok!(aclrtMemcpy(self.recv, size, (&raw const value).cast(), size, up));
        ok!(HcclAllReduce(self.recv, self.recv, 1, t, max, self.comm, self.stream));
        ok!(aclrtSynchronizeStream(self.stream));
        ok!(aclrtMemcpy((&raw mut value).cast(), size, self.recv, size, down));
        value.into()
    }
}

/// Returns, for each case, the times of all batches of the operation and, if `bounded`, of its
/// bound.
fn measure(ranks: usize, bytes: usize, cases: &[Case], bounded: bool) -> Vec<[Vec<f64>; 2]> {
    // The buffers have room for a block of one element for each rank.
    let room = bytes.max(8 * ranks * ranks).max(64);
    let place = place();
    let config = AscendExtBlockConfig {
        size: size_of::<AscendExtBlockConfig>() as u32,
        deviceCount: ranks as u32,
        product: 950,
        memoryBytes: 1 << 30,
        ..Default::default()
    };
    let (mut block, mut first) = (0, 0);
    ok!(ascendExtBlockCreate(&config, &mut block, &mut first));
    let mut info = HcclRootInfo::default();
    match &place {
        Some((_, theirs)) => info = *theirs,
        None => ok!(HcclGetRootInfo(&mut info)),
    }
    let times = Mutex::new(vec![[Vec::new(), Vec::new()]; cases.len()]);
    let turnstile = Turnstile::new(ranks);
    let bound = Bound::new();
    // The time of a round is that of its slowest rank.
    let slowest = Mutex::new(0f64);
    let thread = |me: usize| {
        pin(me % 2);
        let rank = Rank::new(first, &info, me, ranks, room);
        let mut turn = 0;
        let timed = |case: &Case, which: usize, index: usize, step: &mut dyn FnMut()| {
            for _ in 0..ROUNDS {
                if place.is_some() {
                    rank.meet()
                } else {
                    turnstile.pass()
                }
                let began = Instant::now();
                (0..case.iterations).for_each(|_| step());
                let time = began.elapsed().as_secs_f64() * 1e6 / case.iterations as f64;
                if place.is_some() {
                    times.lock().unwrap()[index][which].push(rank.largest(time));
                    continue;
                }
                let mut slow = slowest.lock().unwrap();
                *slow = slow.max(time);
                drop(slow);
                turnstile.pass();
                if me == 0 {
                    let time = std::mem::take(&mut *slowest.lock().unwrap());
                    times.lock().unwrap()[index][which].push(time);
                }
                turnstile.pass();
            }
        };
        for _ in 0..PASSES {
            for (index, case) in cases.iter().enumerate() {
                timed(case, 0, index, &mut || rank.step(case));
                for store in [Store::Plain, Store::Streaming].into_iter().filter(|_| bounded) {
                    timed(case, 1, index, &mut || {
                        if me < 2 {
                            bound.step(me, &mut turn, &case.pieces, case.dtype, store);
                        }
                    });
                }
            }
        }
    };
    let own = place.map_or(0..ranks, |(rank, _)| rank..rank + 1);
    std::thread::scope(|scope| own.for_each(|me| drop(scope.spawn(move || thread(me)))));
    ok!(ascendExtBlockDestroy(block));
    times.into_inner().unwrap()
}

/// Returns the best time and the median.
fn best_and_median(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[0], times[times.len() / 2]]
}

/// Returns half of the time of a cache line's round trip between the cores, in microseconds.
fn one_way() -> f64 {
    const TRIPS: u64 = 1000;
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let trips = |me: usize| {
        pin(me);
        let mut best = f64::MAX;
        for round in 0..50 {
            let began = Instant::now();
            for turn in round * TRIPS + 1..=(round + 1) * TRIPS {
                if me == 0 {
                    lines[0].0.store(turn, Ordering::Release);
                }
                while lines[1 - me].0.load(Ordering::Acquire) < turn {}
                if me == 1 {
                    lines[1].0.store(turn, Ordering::Release);
                }
            }
            best = best.min(began.elapsed().as_secs_f64() * 1e6 / TRIPS as f64);
        }
        best
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| trips(1));
        trips(0).max(other.join().unwrap())
    }) / 2.0
}

/// Prints one line for each figure: operation, bytes, and best and median time in microseconds.
fn lines(ranks: usize, bytes: usize, ops: &[(Op, DataType)]) {
    let cases: Vec<_> =
        ops.iter().map(|(op, t)| Case::new(*op, *t, bytes, ranks, &vec![[0; 2]; ranks])).collect();
    let times = measure(ranks, bytes, &cases, false);
    if place().is_some_and(|(rank, _)| rank != 0) {
        return;
    }
    for (case, [times, _]) in cases.iter().zip(times) {
        let [best, median] = best_and_median(times);
        println!("{:?} {bytes} {best:.3} {median:.3}", case.op);
    }
}

fn table(ranks: usize, bytes: usize, ops: &[(Op, DataType)], latency: f64) {
    let memory: Vec<[usize; 2]> = (0..ranks).map(|_| [map(bytes), map(bytes)]).collect();
    let cases: Vec<_> =
        ops.iter().map(|(op, t)| Case::new(*op, *t, bytes, ranks, &memory)).collect();
    let times = measure(ranks, bytes, &cases, true);
    memory.into_iter().flatten().for_each(|address| unmap(address, bytes));
    for (case, times) in cases.iter().zip(times) {
        let [time, bound] = times.map(|times| best_and_median(times)[0]);
        // A barrier has no bytes, so its bound is the time in which two threads meet.
        println!(
            "| {ranks:5} | {bytes:9} | {:17} | {:5} | {time:11.3} | {bound:11.3} | {:6.2} | {:9.1} |",
            format!("{:?}", case.op),
            format!("{:?}", case.dtype),
            time / bound,
            (time - bound) / latency,
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().find_map(|a| a.strip_prefix(name));
    let flag = |name: &str| arguments.iter().any(|argument| argument == name);
    let latency = if flag("lines") { 0.0 } else { one_way() };
    if !flag("lines") {
        println!("one-way latency between the cores: {:.1} ns", latency * 1e3);
        println!(
            "| {:5} | {:9} | {:17} | {:5} | {:>11} | {:>11} | {:>6} | {:>9} |",
            "ranks", "bytes", "operation", "type", "us", "bound us", "ratio", "latencies"
        );
        println!(
            "|------:|----------:|-------------------|-------|------------:|------------:|-------:|----------:|"
        );
    }
    let mut ops: Vec<_> = OPS.iter().map(|op| (*op, DataType::Fp32)).collect();
    if flag("types") {
        use DataType::*;
        let types = [Int8, Int16, Int32, Fp16, Fp32, Int64, Uint64, Fp64, Bfp16];
        ops = [Op::AllReduce, Op::Reduce, Op::ReduceScatter, Op::ReduceScatterV]
            .iter()
            .flat_map(|op| types.map(|t| (*op, t)))
            // No product has these operations.
            .filter(|case| !matches!(case, (Op::ReduceScatterV, Uint64 | Fp64)))
            .collect();
    }
    if let Some(wanted) = option("op=") {
        let name = |op: &Op| format!("{op:?}").to_lowercase();
        let whole = |wanted: &str| OPS.iter().any(|op| name(op) == wanted);
        ops.retain(|(op, _)| {
            wanted
                .split(',')
                .any(|wanted| name(op) == wanted || (!whole(wanted) && name(op).contains(wanted)))
        });
    }
    let sizes = [8, 64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20];
    for ranks in [2, 4, 8] {
        if option("ranks=").is_some_and(|wanted| wanted.parse() != Ok(ranks)) {
            continue;
        }
        let most = if flag("quick") { 1 << 20 } else { 128 << 20 };
        for bytes in sizes.into_iter().filter(|bytes| *bytes <= most) {
            if option("bytes=").is_none_or(|wanted| wanted.parse() == Ok(bytes)) {
                if flag("processes") && place().is_none() {
                    as_processes(ranks, bytes);
                } else if flag("lines") {
                    lines(ranks, bytes, &ops);
                } else {
                    table(ranks, bytes, &ops, latency);
                }
            }
        }
    }
}
