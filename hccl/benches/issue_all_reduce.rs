//! What the safe call costs over the C call behind it.
//!
//!     cargo bench -p hccl --bench issue_all_reduce
//!
//! Both sides do the same thing on the same handles of the emulator: a safe `all_reduce`, whose `Work` is dropped at once, and the
//! same entry of the table called directly. *Empty stream*: one rank, whose stream has nothing left to do when the next operation comes. *16 in
//! flight*: two ranks, where the other one comes only after 16 operations have been issued. The difference is what checks, stamps, numbers and
//! locks take. Prints nanoseconds an operation, the best of many blocks.

mod pin;

use std::sync::Barrier;
use std::time::Instant;

use ascend_sys::{HcclDataType, HcclReduceOp};
use hccl::prelude::*;
use pin::pin;

const DEPTH: usize = 16;
const BLOCKS: usize = 2000;

/// One rank with what it needs for either kind of call.
struct Side {
    comm: Communicator,
    stream: Stream,
    send: DeviceBuffer<f32>,
    recv: DeviceBuffer<f32>,
}

impl Side {
    fn new(rank: &Rank) -> hccl::Result<Self> {
        pin(rank.index() as usize);
        let stream = rank.device().stream()?;
        let send = rank.device().zeros::<f32>(4, &stream)?;
        let recv = rank.device().zeros::<f32>(4, &stream)?;
        Ok(Side { comm: rank.communicator()?, stream, send, recv })
    }

    fn safe(&mut self) -> hccl::Result<()> {
        drop(self.comm.all_reduce(&self.send, &mut self.recv, Sum, &self.stream)?);
        Ok(())
    }

    /// Waits for everything. An operation of our own comes last, since `hccl` does not know of the raw ones.
    fn settle(&mut self) -> hccl::Result<()> {
        self.comm.barrier(&self.stream)?.wait()
    }

    fn raw(&mut self, table: &ascend_sys::Functions) {
        let all_reduce = table.HcclAllReduce.expect("the emulator has it");
        // SAFETY: live handles and buffers of four elements, which are kept until the stream has been synchronised.
        let code = unsafe {
            all_reduce(
                self.send.as_ptr().cast(),
                self.recv.as_ptr().cast(),
                4,
                HcclDataType::HCCL_DATA_TYPE_FP32,
                HcclReduceOp::HCCL_REDUCE_SUM,
                self.comm.as_raw(),
                self.stream.as_raw(),
            )
        };
        assert_eq!(code.0, 0);
    }
}

/// The best time of one operation over blocks of `DEPTH`, safe and raw, in nanoseconds.
fn measure(side: &mut Side, together: Option<&Barrier>) -> hccl::Result<(f64, f64)> {
    let table = ascend_emulator::table();
    let mut best = [f64::MAX; 2];
    for block in 0..2 * BLOCKS {
        let kind = block % 2;
        let since = Instant::now();
        for _ in 0..DEPTH {
            match kind {
                0 => side.safe()?,
                _ => side.raw(&table),
            }
        }
        let time = since.elapsed().as_nanos() as f64 / DEPTH as f64;
        if let Some(together) = together {
            together.wait();
        }
        side.settle()?;
        // The first blocks warm up.
        if block >= 20 {
            best[kind] = best[kind].min(time);
        }
    }
    Ok((best[0], best[1]))
}

fn main() -> hccl::Result<()> {
    let one = Runtime::emulator(1)?.run_ranks(1, |rank| measure(&mut Side::new(&rank)?, None))?;
    let together = Barrier::new(2);
    let two = Runtime::emulator(2)?.run_ranks(2, |rank| {
        let mut side = Side::new(&rank)?;
        // Links are built, so that no later call waits for the peer.
        side.settle()?;
        if rank.index() == 0 {
            return measure(&mut side, Some(&together));
        }
        for _ in 0..2 * BLOCKS {
            together.wait();
            for _ in 0..DEPTH {
                side.safe()?;
            }
            side.settle()?;
        }
        Ok((0.0, 0.0))
    })?;
    println!("all_reduce of 4 f32, issue only, ns an operation");
    println!("{:<16} {:>8} {:>8} {:>8}", "", "safe", "raw", "added");
    for (name, (safe, raw)) in [("empty stream", one[0]), ("16 in flight", two[0])] {
        println!("{name:<16} {safe:>8.1} {raw:>8.1} {:>8.1}", safe - raw);
    }
    Ok(())
}
