//! 12. A custom all-gather, first wrong, then right.
//!
//! Every rank gets the elements of all ranks. On a full mesh each rank can exchange data with all
//! other ranks at the same time, on a thread for each peer. A rank puts its elements into its
//! communication buffer, and the other ranks read them there.
//!
//! The first version has a mistake that a test on one machine may not show. The checker finds it
//! before anything has run, and prints the two lines of code that conflict. The second version is
//! right. It is drawn, and it gathers the same elements as the built-in collective.
//!
//!     cargo run --release --example 12_own_all_gather -- [folder]
//!
//! It writes `all_gather_tasks.svg` and `all_gather_time.svg`, and the second one also as `.json`
//! for <https://ui.perfetto.dev>, into the given folder or else into `operators`.

use std::path::{Path, PathBuf};

use clap::Parser;
use hccl::operator::{Engine, Model, Operator, Recorded};
use hccl::prelude::*;
use hccl_examples::operators::all_gather::{hasty, mesh};

/// A custom all-gather: checked, drawn and run.
#[derive(Parser)]
struct Options {
    /// The folder for the pictures.
    #[arg(default_value = "operators")]
    folder: PathBuf,
}

const RANKS: u32 = 4;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let Options { folder } = Options::parse();
    let wrong = Operator::all_gather("hasty", hasty).record::<f32>(RANKS, 1000)?.check();
    println!("the first version:\n{wrong}\n");
    assert!(!wrong.is_good());

    let gather = Operator::all_gather("mesh", mesh);
    let recorded = gather.record::<f32>(RANKS, 1000)?;
    let report = recorded.check();
    println!("the second version: {report}\n");
    assert!(report.is_good());
    println!("{}\n", recorded.plan(Engine::CpuTs));
    draw(&recorded, &folder)?;

    let runtime = Runtime::auto()?;
    let same = runtime.run_job(RANKS, |rank| -> hccl::Result<bool> {
        let stream = rank.device().stream()?;
        let mut comm = rank.communicator()?;
        let own: Vec<f32> = (0..1000).map(|i| (rank.index() * 1000 + i) as f32).collect();
        let own = rank.device().upload(&own, &stream)?;
        let mut mine = rank.device().zeros::<f32>(4000, &stream)?;
        let mut theirs = rank.device().zeros::<f32>(4000, &stream)?;
        comm.run(&gather).input(&own).output(&mut mine).submit(&stream)?;
        comm.all_gather(&own, &mut theirs, &stream)?;
        Ok(mine.to_vec(&stream).wait()? == theirs.to_vec(&stream).wait()?)
    })?;
    assert!(same.iter().all(|same| *same));
    println!("gathers what the built-in collective gathers");
    Ok(())
}

/// Draws the tasks of all ranks, and the times at which they would run if all links were equally
/// fast.
fn draw(recorded: &Recorded, folder: &Path) -> Outcome<()> {
    std::fs::create_dir_all(folder)?;
    let model = Model::default();
    for (name, text) in [
        ("all_gather_tasks.svg", recorded.graph()),
        ("all_gather_time.svg", recorded.timeline(&model)),
        ("all_gather_time.json", recorded.trace(&model)),
    ] {
        std::fs::write(folder.join(name), text)?;
        println!("{}", folder.join(name).display());
    }
    Ok(())
}
