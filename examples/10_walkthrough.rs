//! 10. From a formula to a kernel.
//!
//! The walk-through of the book (`docs/src/learn/kernel-walkthrough.md`): four ranks compute
//! `y = sum of weight * x`. The first try has a mistake, which is found before a core runs. The
//! second one is launched, compared with the formula, drawn as a timeline, and printed as the
//! Ascend C of the same kernel with the operator project around it:
//!
//!     cargo run --release --example 10_walkthrough -- [folder]
//!
//! All files go into the given folder or else into `kernel-out`.

use std::path::PathBuf;

use clap::Parser;
use hccl::kernel::{Project, Recorded, Tiling};
use hccl::prelude::*;
use hccl_examples::kernels::weighted_sum::{
    LENGTH, WeightedSumTiling, launch, tiling, weighted_sum, weighted_sum_at_first,
};

/// A kernel from its formula to its source: checked, launched on four emulated ranks, drawn, and
/// printed for an NPU.
#[derive(Parser)]
struct Options {
    /// The folder for the timeline and the operator project.
    #[arg(default_value = "kernel-out")]
    folder: PathBuf,
}

const WEIGHTS: [f32; 4] = [0.5, 0.25, 0.125, 0.125];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Options { folder } = Options::parse();
    let runtime = Runtime::emulator_builder().devices(4).product(Product::A3).build()?;

    match on_all_ranks(&runtime, &weighted_sum_at_first::record()?) {
        Ok(_) => println!("the first try has gone well by chance"),
        Err(error) => println!("the first try: {error}\n"),
    }

    let kernel = weighted_sum::record()?;
    println!("{kernel}");
    let recording = runtime.record_timeline()?;
    let found = on_all_ranks(&runtime, &kernel)?;
    let timeline = recording.finish()?;

    // Element i of rank r is r + i % 100, so all sums are exact.
    let expected = |i: usize| (0..4).map(|rank| WEIGHTS[rank] * number(rank, i)).sum::<f32>();
    let expected: Vec<f32> = (0..LENGTH).map(expected).collect();
    assert!(found.iter().all(|y| *y == expected));
    println!("all ranks have {}, {}, {}, ..\n", expected[0], expected[1], expected[2]);

    let example = tiling(WEIGHTS[0], "group")?;
    let project = Project { blocks: 4, ..Project::new(example.as_bytes()) };
    let mut files = kernel.project(&project)?;
    for (path, _) in &mut files {
        path.insert_str(0, "project/");
    }
    files.push(("timeline.svg".into(), timeline.svg()));
    files.push(("timeline.json".into(), timeline.trace()));
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        std::fs::write(&path, text)?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

/// Launches a kernel on four ranks.
fn on_all_ranks(
    runtime: &Runtime,
    kernel: &Recorded<WeightedSumTiling>,
) -> hccl::Result<Vec<Vec<f32>>> {
    runtime.run_ranks(4, |rank| {
        let index = rank.index() as usize;
        let x: Vec<f32> = (0..LENGTH).map(|i| number(index, i)).collect();
        launch(&rank, kernel, &x, WEIGHTS[index])
    })
}

fn number(rank: usize, i: usize) -> f32 {
    (rank + i % 100) as f32
}
