//! Measures copies between host and device, and compares them with plain `memcpy`s of the same
//! bytes.
//!
//!     cargo bench -p hccl --bench host_copies
//!
//! Two ranks of one process copy at the same time, each tied to one core. Pinned and registered
//! memory needs one `memcpy` of the bytes. Ordinary memory needs two, because it is copied through
//! a pinned block. The pages of a new `Vec` are also touched for the first time. Operations and
//! `memcpy`s take turns within each round. The result is the best round, with the time of its
//! slower rank.
//!
//! Registered memory is measured twice: a `Vec`, which begins in the middle of a page, so that its
//! ends are copied apart from its pages; and memory that consists of whole pages.

mod pin;

use std::hint::black_box;
use std::ptr::NonNull;
use std::time::Instant;

use hccl::memory::{HostMemory, HostMemoryMut};
use hccl::prelude::*;
use pin::pin;

/// The sizes of a copy, in bytes.
const SIZES: &[usize] = &[64 << 10, 1 << 20, 4 << 20, 32 << 20];
const ROUNDS: usize = 5;

/// The names of the plain copies. `OPERATIONS` has the names of the operations, each with the index
/// of the plain copy that it is compared with.
const PLAIN: [&str; 3] = ["one memcpy", "two memcpys", "two memcpys, to a new Vec"];
const OPERATIONS: [(&str, usize); 9] = [
    ("copy_from_host", 0),
    ("copy_to", 0),
    ("from a registered Vec", 0),
    ("to a registered Vec", 0),
    ("from registered pages", 0),
    ("to registered pages", 0),
    ("upload", 1),
    ("download_into", 1),
    ("to_vec", 2),
];
const ALL: usize = PLAIN.len() + OPERATIONS.len();

type Nanoseconds = [f64; ALL];

fn main() -> hccl::Result<()> {
    for &bytes in SIZES {
        let runtime = Runtime::emulator(2)?;
        let ranks = runtime.run_ranks(2, |rank| {
            pin(rank.index() as usize);
            measure(&rank, bytes / 4)
        })?;
        let mut best = [f64::MAX; ALL];
        for round in 0..ROUNDS {
            for (at, best) in best.iter_mut().enumerate() {
                let slower = ranks.iter().map(|rounds| rounds[round][at]).fold(0.0, f64::max);
                *best = best.min(slower);
            }
        }
        println!("{bytes} bytes");
        for (name, time) in PLAIN.iter().zip(best) {
            println!("{name:>28} {:>10.1} us", time / 1e3);
        }
        for ((name, plain), time) in OPERATIONS.iter().zip(&best[PLAIN.len()..]) {
            println!("{name:>28} {:>10.1} us {:>6.2}", time / 1e3, time / best[*plain]);
        }
        println!();
    }
    Ok(())
}

/// Memory that begins and ends at a page. The vector has room for a page more.
struct Pages {
    memory: Vec<f32>,
    elements: usize,
}

// SAFETY: a vector that nobody changes keeps its elements initialised and at the same address.
unsafe impl HostMemory for Pages {
    type Element = f32;

    fn memory(&mut self) -> NonNull<[f32]> {
        let first = self.memory.as_ptr().align_offset(4096);
        NonNull::from(&mut self.memory[first..first + self.elements])
    }
}

// SAFETY: nobody else reads or writes a vector that was moved into the value.
unsafe impl HostMemoryMut for Pages {}

/// Returns the times of one rank for each round.
fn measure(rank: &Rank, elements: usize) -> hccl::Result<Vec<Nanoseconds>> {
    let stream = rank.device().stream()?;
    let mut comm = rank.communicator()?;
    let repeats = (40_000_000 / (elements + 1000)).clamp(3, 1000);
    // No element is zero, because some machines move zeros faster.
    let data: Vec<f32> = (0..elements).map(|at| at as f32 + 1.0).collect();
    let [mut staged, mut landed] = [(); 2].map(|()| data.clone());
    let mut host = rank.runtime().host_buffer::<f32>(elements)?;
    host.as_mut_slice()?.copy_from_slice(&data);
    let mut mine = rank.runtime().register(data.clone())?;
    let mut pages =
        rank.runtime().register(Pages { memory: vec![1.0; elements + 1024], elements })?;
    let mut on_device = rank.device().upload(&data, &stream)?;
    let mut time = |what: &mut dyn FnMut() -> hccl::Result<()>| -> hccl::Result<f64> {
        what()?;
        comm.barrier(&stream)?.wait()?;
        let since = Instant::now();
        for _ in 0..repeats {
            what()?;
        }
        Ok(since.elapsed().as_nanos() as f64 / repeats as f64)
    };
    (0..ROUNDS)
        .map(|_| {
            Ok([
                time(&mut || {
                    copy(&data, &mut landed);
                    Ok(())
                })?,
                time(&mut || {
                    copy(&data, &mut staged);
                    copy(&staged, &mut landed);
                    Ok(())
                })?,
                time(&mut || {
                    copy(&data, &mut staged);
                    black_box(black_box(&staged).to_vec());
                    Ok(())
                })?,
                time(&mut || on_device.copy_from_host(&host, &stream)?.wait())?,
                time(&mut || on_device.copy_to(&mut host, &stream)?.wait())?,
                time(&mut || on_device.copy_from_host(&mine, &stream)?.wait())?,
                time(&mut || on_device.copy_to(&mut mine, &stream)?.wait())?,
                time(&mut || on_device.copy_from_host(&pages, &stream)?.wait())?,
                time(&mut || on_device.copy_to(&mut pages, &stream)?.wait())?,
                time(&mut || on_device.upload(&data, &stream)?.wait())?,
                time(&mut || on_device.download_into(&mut landed, &stream).wait())?,
                time(&mut || on_device.to_vec(&stream).wait().map(|data| drop(black_box(data))))?,
            ])
        })
        .collect()
}

fn copy(from: &[f32], to: &mut [f32]) {
    to.copy_from_slice(black_box(from));
    black_box(to);
}
