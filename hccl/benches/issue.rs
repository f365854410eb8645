//! Measures how much longer the safe call takes than the C call that it makes, for every operation.
//!
//!     cargo bench -p hccl --bench issue                 # the table
//!     cargo bench -p hccl --bench issue -- all_reduce   # operations with this in their name
//!     cargo bench -p hccl --bench issue -- one raw copy # one call for a profiler: ranks, side, exact name
//!
//! Both sides use the same handles of the emulator. The safe side makes a safe call, whose `Work`
//! is dropped at once. The raw side calls the same entry of the table directly. The difference is
//! the time for checks, stamps, numbers and locks.
//!
//! There are two settings. *Empty stream*: one rank, whose stream is idle when the next operation
//! is issued. *16 in flight*: two ranks. The second rank issues only after the first has issued 16
//! operations.
//!
//! The output is nanoseconds for one operation, the best of many blocks. Safe and raw blocks take
//! turns, and so do operations, so that a change of the machine's speed affects all of them.

mod operations;
mod pin;

use std::sync::Barrier;
use std::time::Instant;

use hccl::prelude::*;
use operations::{OPERATIONS, Operation, Side};
use pin::pin;

const DEPTH: usize = 16;
const ROUNDS: usize = 20;
/// The number of safe blocks of one operation in a round, and of raw blocks.
const BLOCKS: usize = 50;
/// The number of calls in a run for a profiler.
const PROFILED: usize = 20_000_000;

/// The best times of one operation over blocks of `DEPTH`, safe and raw, in nanoseconds.
#[derive(Clone, Copy)]
struct Best([f64; 2]);

fn kind(block: usize) -> fn(&Operation) -> operations::Call {
    if block.is_multiple_of(2) { |operation| operation.safe } else { |operation| operation.raw }
}

fn measure(
    side: &mut Side,
    chosen: &[&Operation],
    together: Option<&Barrier>,
) -> hccl::Result<Vec<Best>> {
    let mut best = vec![Best([f64::MAX; 2]); chosen.len()];
    for _ in 0..ROUNDS {
        for (operation, best) in chosen.iter().zip(&mut best) {
            for block in 0..2 * BLOCKS {
                let call = kind(block)(operation);
                let since = Instant::now();
                for _ in 0..DEPTH {
                    call(side)?;
                }
                let time = since.elapsed().as_nanos() as f64 / DEPTH as f64;
                if let Some(together) = together {
                    together.wait();
                }
                side.settle()?;
                best.0[block % 2] = best.0[block % 2].min(time);
            }
        }
    }
    Ok(best)
}

/// Runs the other rank, which issues its block after the first rank has issued one.
fn follow(side: &mut Side, chosen: &[&Operation], together: &Barrier) -> hccl::Result<()> {
    for _ in 0..ROUNDS {
        for operation in chosen {
            for _ in 0..2 * BLOCKS {
                together.wait();
                for _ in 0..DEPTH {
                    (operation.safe)(side)?;
                }
                side.settle()?;
            }
        }
    }
    Ok(())
}

fn empty_stream(chosen: &[&Operation]) -> hccl::Result<Vec<Best>> {
    let best = Runtime::emulator(1)?.run_ranks(1, |rank| {
        pin(0);
        measure(&mut Side::new(&rank)?, chosen, None)
    })?;
    Ok(best.into_iter().next().unwrap_or_default())
}

fn in_flight(chosen: &[&Operation]) -> hccl::Result<Vec<Best>> {
    let together = Barrier::new(2);
    let best = Runtime::emulator(2)?.run_ranks(2, |rank| {
        pin(rank.index() as usize);
        let mut side = Side::new(&rank)?;
        // Makes the links, so that no later call waits for the peer.
        for operation in chosen {
            (operation.safe)(&mut side)?;
        }
        side.settle()?;
        if rank.index() == 0 {
            return measure(&mut side, chosen, Some(&together));
        }
        follow(&mut side, chosen, &together)?;
        Ok(Vec::new())
    })?;
    Ok(best.into_iter().next().unwrap_or_default())
}

/// Issues one operation on one rank again and again.
fn profile(call: operations::Call) -> hccl::Result<()> {
    Runtime::emulator(1)?.run_ranks(1, |rank| {
        pin(0);
        let mut side = Side::new(&rank)?;
        for _ in 0..PROFILED {
            call(&mut side)?;
        }
        side.settle()
    })?;
    Ok(())
}

fn main() -> hccl::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [one, kind, name] = &arguments[..]
        && one == "one"
        && let Some(operation) = OPERATIONS.iter().find(|operation| operation.name == name)
    {
        return profile(if kind == "raw" { operation.raw } else { operation.safe });
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|a| name.contains(&**a));
    let chosen: Vec<_> = OPERATIONS.iter().filter(|operation| wanted(operation.name)).collect();
    let alone: Vec<_> = chosen.iter().copied().filter(|o| !o.needs_peer).collect();
    println!("issue only, ns for each operation");
    print("empty stream", &alone, empty_stream(&alone)?);
    print("16 in flight", &chosen, in_flight(&chosen)?);
    Ok(())
}

fn print(title: &str, operations: &[&Operation], best: Vec<Best>) {
    println!("{title:<18} {:>8} {:>8} {:>8}", "raw", "safe", "added");
    for (operation, Best([safe, raw])) in operations.iter().zip(best) {
        println!("{:<18} {raw:>8.1} {safe:>8.1} {:>8.1}", operation.name, safe - raw);
    }
}
