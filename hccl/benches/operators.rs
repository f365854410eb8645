//! Measures operators of the program: the cost of recording a task, and a mesh all-gather compared
//! with the collective.
//!
//!     cargo bench -p hccl --bench operators
//!     cargo bench -p hccl --bench operators -- gather    # only the second part
//!     SLICE=16384 cargo bench -p hccl --bench operators  # with 16384 elements in a round
//!
//! The two all-gathers take turns in one run, on the same ranks and buffers, so that a change of
//! the machine's speed affects both. The best time of each is printed.

mod pin;

use std::hint::black_box;
use std::time::Instant;

use hccl::operator::*;
use hccl::prelude::*;
use pin::pin;

const ROUNDS: usize = 12;
/// The sizes of one rank's input, in bytes.
const SIZES: &[usize] = &[4 << 10, 256 << 10, 1 << 20, 16 << 20];
const RANKS: &[u32] = &[2, 4, 8];
/// The number of elements of a round: 2 MiB. These elements stay in a cache from the write to the
/// read, and copying them takes long compared with a notify.
const SLICE: usize = 1 << 19;

fn main() -> hccl::Result<()> {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if wanted.is_none() {
        recording();
    }
    gathers()
}

/// Returns an operator in which each rank reads from all others, in rounds of one slice.
fn mesh_all_gather(slice: usize) -> Operator {
    Operator::all_gather("mesh_all_gather", move |op, main| {
        let n = op.count();
        let own = op.output().block(op.rank(), n);
        let round = op.buffer().len().min(slice);
        for (at, input) in (0..).step_by(round.max(1)).zip(op.input().chunks(round)) {
            let (part, shared) = (at..at + input.len(), ..input.len());
            main.copy(input, op.buffer().slice(shared));
            main.fork(op.ranks() - 1, |threads| {
                for (thread, peer) in threads.iter().zip(op.others()) {
                    let channel = op.channel(peer);
                    let exposed = thread.expose(channel);
                    let access = thread.enter(channel);
                    let to = op.output().block(peer, n).slice(part.clone());
                    thread.read(access.buffer().slice(shared), to);
                    thread.leave(access);
                    thread.reclaim(exposed);
                }
            });
            main.copy(input, own.slice(part));
        }
    })
}

/// Prints the nanoseconds to record a task. Each attempt makes a new recording.
fn recording() {
    let many = Operator::all_gather("many", |op, main| {
        let n = op.count();
        for _ in 0..1000 {
            main.copy(op.input(), op.buffer().slice(..n));
        }
        let channel = op.channel(op.peer(1));
        for _ in 0..500 {
            let access = main.enter(channel);
            main.read(access.buffer().slice(..n), op.output().slice(..n));
            main.leave(access);
        }
    });
    let mut best = f64::MAX;
    for _ in 0..200 {
        let since = Instant::now();
        let recorded = black_box(many.record::<f32>(2, 1000));
        let time = since.elapsed().as_nanos() as f64;
        let tasks = recorded.map_or(0, |recorded| recorded.tasks().tasks());
        best = best.min(time / tasks as f64);
    }
    println!("recording a task: {best:.1} ns\n");
}

fn gathers() -> hccl::Result<()> {
    println!(
        "{:>6} {:>10} {:>14} {:>14} {:>7}",
        "ranks", "bytes", "all_gather us", "operator us", "ratio"
    );
    for &ranks in RANKS {
        for &bytes in SIZES {
            let [collective, operator] = measure(ranks, bytes)?;
            let (us, ratio) = (|time: f64| time / 1e3, operator / collective);
            println!(
                "{ranks:>6} {bytes:>10} {:>14.1} {:>14.1} {ratio:>7.2}",
                us(collective),
                us(operator)
            );
        }
    }
    Ok(())
}

/// Returns the nanoseconds of the collective and of the operator: the best of some rounds.
fn measure(ranks: u32, bytes: usize) -> hccl::Result<[f64; 2]> {
    let slice = std::env::var("SLICE").ok().and_then(|slice| slice.parse().ok());
    let gather = mesh_all_gather(slice.unwrap_or(SLICE));
    let repeats = (100_000_000 / (bytes * ranks as usize * ranks as usize + 50_000)).max(1);
    let runtime = Runtime::emulator(ranks as usize)?;
    let best = runtime.run_ranks(ranks, |rank| -> hccl::Result<[f64; 2]> {
        pin(rank.index() as usize);
        let (device, stream) = (rank.device(), rank.device().stream()?);
        let mut comm = rank.communicator()?;
        let n = bytes / 4;
        let x = device.upload(&vec![rank.index() as f32 + 1.0; n], &stream)?;
        let mut y = device.zeros::<f32>(n * ranks as usize, &stream)?;
        let mut best = [f64::MAX; 2];
        // The first round is a warm-up: it makes the channels and touches the pages.
        for round in 0..ROUNDS {
            for (which, best) in best.iter_mut().enumerate() {
                comm.barrier(&stream)?.wait()?;
                let since = Instant::now();
                for _ in 0..repeats {
                    match which {
                        0 => comm.all_gather(&x, &mut y, &stream)?,
                        _ => comm.run(&gather).input(&x).output(&mut y).submit(&stream)?,
                    }
                    .wait()?;
                }
                comm.barrier(&stream)?.wait()?;
                let time = since.elapsed().as_nanos() as f64 / repeats as f64;
                if round > 0 {
                    *best = best.min(time);
                }
            }
        }
        Ok(best)
    })?;
    Ok(best[0])
}
