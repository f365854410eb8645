//! The bound of an operation: two threads, one on each core, make exactly the reads and writes that
//! the operation needs, and meet twice at a spinning barrier.
//!
//! These are the reads and writes that an operation needs, for N bytes and p ranks:
//!
//! - all-reduce: every input is read once, and every output is written once, p N bytes each;
//! - reduce, reduce-scatter: p N bytes are read, and N bytes (or p parts of N / p bytes) are
//!   written;
//! - broadcast, all-gather: N bytes are read once, and written to every rank that does not have
//!   them;
//! - scatter, all-to-all, messages: every byte is read once and written once.
//!
//! The work is cut into pieces that fit the first-level caches. It is done with plain and with
//! streaming stores, and the faster of the two counts. Three rules make it a bound. All buffers
//! hold the same bytes. A thread that has done its half takes pieces of the other half, as the
//! emulator's threads do, so that no thread waits for a thread that has lost its core. Bound and
//! operation are measured in turn, because the bandwidth that other users leave changes by a factor
//! of two within seconds.

use super::Op;
use ascend_emulator::copy::copy;
use ascend_emulator::reduce::{DataType, ReduceOp, Store, reduce_chunk};
use std::ffi::c_void;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};

/// The byte that fills all buffers. It is not zero, because some machines move zeros up to three
/// times as fast.
pub const FILL: u8 = 1;
/// The number of bytes of a piece of the bound.
const PIECE: usize = 32 << 10;

/// A piece of the least work: the addresses that are read, the addresses that are written, and the
/// number of bytes of each.
pub struct Piece {
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    bytes: usize,
}

/// Returns the least work as a list of pieces. The two threads take pieces from its two ends.
/// `memory` has a send buffer and a receive buffer for each rank.
pub fn pieces(op: Op, bytes: usize, memory: &[[usize; 2]]) -> Vec<Piece> {
    let ranks = memory.len();
    let part = bytes / ranks / 64 * 64;
    let part = if part == 0 { bytes / ranks } else { part };
    let send = |rank: usize, at: usize| memory[rank][0] + at;
    let recv = |rank: usize, at: usize| memory[rank][1] + at;
    let all = || 0..ranks;
    let mut list = Vec::new();
    // Adds pieces for a run of bytes that all get the same work.
    let mut add = |length: usize, work: &dyn Fn(usize) -> (Vec<usize>, Vec<usize>)| {
        for at in (0..length).step_by(PIECE) {
            let (inputs, outputs) = work(at);
            list.push(Piece { inputs, outputs, bytes: (length - at).min(PIECE) });
        }
    };
    match op {
        Op::AllReduce => add(bytes, &|at| {
            (all().map(|r| send(r, at)).collect(), all().map(|r| recv(r, at)).collect())
        }),
        Op::Reduce => add(bytes, &|at| (all().map(|r| send(r, at)).collect(), vec![recv(0, at)])),
        Op::Broadcast | Op::BroadcastFromEach => {
            add(bytes, &|at| (vec![send(0, at)], (1..ranks).map(|r| send(r, at)).collect()));
        }
        Op::ReduceScatter | Op::ReduceScatterV => all().for_each(|to| {
            add(part, &|at| (all().map(|r| send(r, to * part + at)).collect(), vec![recv(to, at)]));
        }),
        Op::AllGather | Op::AllGatherV => all().for_each(|from| {
            add(part, &|at| {
                (vec![send(from, at)], all().map(|r| recv(r, from * part + at)).collect())
            });
        }),
        Op::Scatter => all().for_each(|to| {
            add(part, &|at| (vec![send(0, to * part + at)], vec![recv(to, at)]));
        }),
        Op::AlltoAll | Op::AlltoAllV | Op::AlltoAllVC => all().for_each(|to| {
            for from in all() {
                add(part, &|at| {
                    (vec![send(from, to * part + at)], vec![recv(to, from * part + at)])
                });
            }
        }),
        Op::Exchange => all().for_each(|to| {
            add(bytes, &|at| (vec![send((to + ranks - 1) % ranks, at)], vec![recv(to, at)]));
        }),
        Op::Send => add(bytes, &|at| (vec![send(0, at)], vec![recv(1, at)])),
        Op::Barrier => {}
    }
    // There is at least one piece for each thread, unless that would cut an element.
    if let [only] = &mut list[..]
        && only.bytes >= 128
    {
        let half = only.bytes / 128 * 64;
        let shift = |list: &[usize]| list.iter().map(|at| at + half).collect();
        let second = Piece {
            inputs: shift(&only.inputs),
            outputs: shift(&only.outputs),
            bytes: only.bytes - half,
        };
        only.bytes = half;
        list.push(second);
    }
    list
}

/// Does the work of one piece.
fn run(piece: &Piece, dtype: DataType, store: Store) {
    let count = piece.bytes / dtype.size();
    let inputs: &[*const u8] =
        // SAFETY: an address has the representation of a pointer.
        unsafe { std::slice::from_raw_parts(piece.inputs.as_ptr().cast(), piece.inputs.len()) };
    // SAFETY: as above.
    let outputs: &[*mut u8] =
        unsafe { std::slice::from_raw_parts(piece.outputs.as_ptr().cast(), piece.outputs.len()) };
    // SAFETY: the mappings stay and have these bytes, and only one of the two threads takes the
    // piece.
    unsafe {
        match (inputs, outputs) {
            ([input], [output]) => copy(*output, *input, piece.bytes, store),
            ([_], _) => {
                reduce_chunk(DataType::Int8, ReduceOp::Sum, inputs, outputs, piece.bytes, store);
            }
            _ => {
                reduce_chunk(dtype, ReduceOp::Sum, inputs, outputs, count, store);
            }
        }
    }
}

#[repr(align(128))]
pub struct Line(pub AtomicU64);

/// The two threads of the bound.
pub struct Bound {
    lines: [Line; 2],
    /// The number of taken pieces of each half.
    taken: [Line; 2],
}

impl Bound {
    pub fn new() -> Self {
        let two = || [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
        Self { lines: two(), taken: two() }
    }

    /// Waits at a barrier, at which each thread writes its own line.
    fn meet(&self, thread: usize, turn: &mut u64) {
        *turn += 1;
        self.lines[thread].0.store(*turn, Ordering::Release);
        while self.lines[1 - thread].0.load(Ordering::Acquire) < *turn {
            spin_loop();
        }
    }

    pub fn step(
        &self,
        thread: usize,
        turn: &mut u64,
        pieces: &[Piece],
        dtype: DataType,
        store: Store,
    ) {
        self.meet(thread, turn);
        let middle = pieces.len().div_ceil(2);
        let halves = [&pieces[..middle], &pieces[middle..]];
        for half in [thread, 1 - thread] {
            loop {
                let piece = self.taken[half].0.fetch_add(1, Ordering::Relaxed) as usize;
                let Some(piece) = halves[half].get(piece) else { break };
                run(piece, dtype, store);
            }
        }
        self.meet(thread, turn);
        // No thread takes a piece before both have reached the next step.
        self.taken[thread].0.store(0, Ordering::Relaxed);
    }
}

/// Returns populated memory, in huge pages if the system provides them.
pub fn map(bytes: usize) -> usize {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the mapping is new, and it is advised and written within its length.
    unsafe {
        let length = bytes.next_multiple_of(2 << 20);
        let address = libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0);
        assert_ne!(address, libc::MAP_FAILED);
        libc::madvise(address, length, libc::MADV_HUGEPAGE);
        address.cast::<u8>().write_bytes(FILL, length);
        address as usize
    }
}

pub fn unmap(address: usize, bytes: usize) {
    // SAFETY: the mapping comes from `map`, and no thread uses it any more.
    unsafe { libc::munmap(address as *mut c_void, bytes.next_multiple_of(2 << 20)) };
}
