//! 12. A custom all-gather, first wrong, then right.
//!
//! Every rank gets the elements of all others. On a full mesh each rank can talk to all others at
//! the same time, with a thread for each. It puts its elements into its communication buffer, and
//! the others read them there.
//!
//! The first version forgets something that no test on one machine would show for sure. The checker
//! finds it before anything has run, with the two lines. The second version is right, is drawn, and
//! gathers the same elements as the built-in collective.
//!
//!     cargo run --release --example 12_own_all_gather -- [folder]
//!
//! It writes `all_gather_tasks.svg` and `all_gather_time.svg`, and the latter as `.json` for
//! <https://ui.perfetto.dev>, into the folder `operators` unless told.

use std::path::{Path, PathBuf};

use clap::Parser;
use hccl::operator::{Engine, Model, Operator, Recorded};
use hccl::prelude::*;
use hccl_examples::operators::all_gather::{hasty, mesh};

/// An all-gather of one's own: checked, drawn and run.
#[derive(Parser)]
struct Options {
    /// Where the pictures go.
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

/// The tasks of all ranks, and when each would run if a byte took as long on every link.
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
