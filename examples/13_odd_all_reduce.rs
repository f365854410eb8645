//! 13. A new all-reduce for an odd topology, from the idea to the proof to the run.
//!
//! Seven NPUs form a line: each is wired only to the NPU before it and to the NPU after it.
//!
//! ```text
//! 0 --- 1 --- 2 --- 3 --- 4 --- 5 --- 6
//! ```
//!
//! A ring needs a wire from 6 to 0, and recursive halving needs wires between nearly all ranks. The
//! idea is that sums flow from both ends to the middle, and the result flows back. If the data is
//! in one piece, the whole data takes both ways one after the other. If the data is cut into
//! slices, slice 1 starts while slice 0 is on its way. So most of the time each wire carries data
//! in both directions.
//!
//! The example answers these questions. Is the algorithm right for any number of ranks? Which links
//! and which other resources does it use? How long does it take, in one slice and in many? Then the
//! operator runs.
//!
//!     cargo run --release --example 13_odd_all_reduce -- [folder]
//!
//! It writes `line_tasks.svg`, `line_time.svg` and `line_time.json` into the given folder or else
//! into `operators`.

use std::path::PathBuf;

use clap::Parser;
use hccl::operator::{Engine, Model, Operator};
use hccl::prelude::*;
use hccl_examples::operators::line::line_all_reduce;

/// A new all-reduce for seven NPUs in a line: proven, drawn and run.
#[derive(Parser)]
struct Options {
    /// The folder for the pictures.
    #[arg(default_value = "operators")]
    folder: PathBuf,
}

const RANKS: u32 = 7;
const COUNT: usize = 70_000;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn line(slices: u32) -> Operator {
    Operator::all_reduce("line_all_reduce", Sum, line_all_reduce(slices))
}

fn main() -> Outcome<()> {
    let Options { folder } = Options::parse();

    println!("is it right?");
    for ranks in 1..=17 {
        for (slices, count) in [(1, 100), (3, 100), (8, 1000), (4, 2), (4, 0)] {
            let report = line(slices).record::<f32>(ranks, count)?.check();
            assert!(report.is_good(), "{ranks} ranks, {slices} slices:\n{report}");
        }
    }
    println!("  nothing is found for 1 to 17 ranks, 1 to 8 slices, fewer elements than slices\n");

    println!("which links does it use, and what does it take?");
    let recorded = line(8).record::<f32>(RANKS, COUNT)?;
    for (rank, tasks) in recorded.tasks().ranks.iter().enumerate() {
        let mut peers: Vec<u32> = tasks.channels.iter().map(|(peer, _)| *peer).collect();
        peers.sort_unstable();
        assert!(peers.iter().all(|peer| peer.abs_diff(rank as u32) == 1));
    }
    println!("  each rank only those to its neighbours\n\n{}\n", recorded.plan(Engine::CpuTs));

    println!("how long would it take? 70,000 floats, 2 us a transfer, 25 GB/s a wire");
    let model = Model::new(2e-6, 1.0 / 25e9, 1.0 / 100e9);
    for slices in [1, 2, 4, 8, 16, 32] {
        let cost = line(slices).record::<f32>(RANKS, COUNT)?.cost(&model);
        println!("  {slices:2} slices  {:6.1} us", cost.time * 1e6);
    }
    println!();
    std::fs::create_dir_all(&folder)?;
    let small = line(3).record::<f32>(RANKS, COUNT)?;
    for (name, text) in [
        ("line_tasks.svg", small.graph()),
        ("line_time.svg", recorded.timeline(&model)),
        ("line_time.json", recorded.trace(&model)),
    ] {
        std::fs::write(folder.join(name), text)?;
        println!("{}", folder.join(name).display());
    }

    let runtime = Runtime::emulator(RANKS as usize)?;
    let operator = line(8);
    let right = runtime.run_job(RANKS, |rank| -> hccl::Result<bool> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let own: Vec<f32> = (0..COUNT).map(|i| (i % 100) as f32 + rank.index() as f32).collect();
        let own = rank.device().upload(&own, &stream)?;
        let mut sum = rank.device().zeros::<f32>(COUNT, &stream)?;
        comm.run(&operator).input(&own).output(&mut sum).submit(&stream)?.wait()?;
        let sum = sum.to_vec(&stream).wait()?;
        Ok(sum.iter().enumerate().all(|(i, x)| *x == 7.0 * (i % 100) as f32 + 21.0))
    })?;
    assert!(right.iter().all(|right| *right));
    println!("\nseven ranks have the sum of {COUNT} floats");
    Ok(())
}
