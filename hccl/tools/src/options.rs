//! The options of hcclrun, as its command line gives them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Starts the ranks of a distributed program as processes of this machine.
///
/// Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT in
/// its environment, as under torchrun. In Rust, `Rank::from_env` and `Runtime::run_job` of hccl
/// read them.
#[derive(Clone, Debug, Parser)]
#[command(
    version,
    after_help = "\
Examples:
  hcclrun -n 4 target/release/examples/train --epochs 3
  hcclrun -n 4 --elastic --restarts 2 target/release/examples/16_elastic
  hcclrun -n 4 --timeline job.svg target/release/examples/08_kernels

The status is 0 when all ranks succeeded. Otherwise it is that of the rank that failed first: its
exit status, or 128 plus the number of the signal that ended it. 125: hcclrun itself failed."
)]
pub(crate) struct Options {
    /// The number of ranks.
    #[arg(short = 'n', long = "ranks", value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) ranks: u32,

    /// When a rank fails, the other ranks continue. They form a new generation: see `Rank::regroup`
    /// of hccl.
    #[arg(long)]
    pub(crate) elastic: bool,

    /// With --elastic: the number of times that failed ranks are started again, in total over all
    /// ranks.
    #[arg(long, value_name = "TIMES", default_value_t = 0, requires = "elastic")]
    pub(crate) restarts: u32,

    /// Seconds between the failure of a rank and its next start.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, requires = "elastic", value_parser = seconds)]
    pub(crate) restart_delay: f64,

    /// Seconds between the failure of a rank and SIGTERM to the other ranks, and between SIGTERM
    /// and SIGKILL.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) grace: f64,

    /// Writes a timeline of the kernels and operators of all ranks when the job ends: a picture
    /// (.svg) or a trace for Perfetto (.json). Only emulated devices record.
    #[arg(long, value_name = "FILE", value_parser = timeline_file)]
    pub(crate) timeline: Option<PathBuf>,

    /// Prints lines as they are, without the number of the rank in front.
    #[arg(long)]
    pub(crate) no_label: bool,

    /// When the numbers of the ranks have colours.
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    pub(crate) color: Colour,

    /// The program of each rank, and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// Colours on a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0 to 86400".into()),
    }
}

fn timeline_file(text: &str) -> Result<PathBuf, String> {
    match ascend_timeline::form_of(text.as_ref()) {
        Some(_) => Ok(text.into()),
        None => Err("give a name that ends with .svg or .json".into()),
    }
}

impl Options {
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.grace)
    }

    pub(crate) fn restart_delay(&self) -> Duration {
        Duration::from_secs_f64(self.restart_delay)
    }
}
