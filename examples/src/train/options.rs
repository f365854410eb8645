//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ContextKind;
use clap::{Parser, ValueEnum};
use hccl::prelude::*;
use hccl::record::{RunRecord, RunRecording};

use super::parallel::Recipe;

/// Trains a neural network to read handwritten digits, data-parallel on Ascend NPUs: every rank
/// takes its share of each batch, and the gradients of a layer are summed over all ranks while the
/// layers before it are still being computed.
#[derive(Debug, Parser)]
#[command(
    name = "train",
    version,
    after_help = "\
Files in the folder of --out:
  loss.svg      the loss of every step
  timeline.svg  when each rank computed and communicated, in two typical steps
  trace.json    the same for all steps, for https://ui.perfetto.dev"
)]
pub struct Options {
    /// The number of NPUs that share the work, from 1 to 8
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub ranks: usize,
    /// The number of times that every digit is learned
    #[arg(long, value_name = "N", default_value_t = Recipe::new(1).epochs)]
    pub epochs: usize,
    /// The backend of the ranks; `auto` takes CANN where it is installed
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    backend: Choice,
    /// The folder for the results; it is made if it does not exist
    #[arg(long, value_name = "DIR", default_value = "train-out")]
    pub out: PathBuf,
    /// The seed for the split, the first weights and the order of the digits
    #[arg(long, value_name = "N", default_value_t = Recipe::new(1).seed)]
    pub seed: u64,
    /// Gives the same weights, to the last bit, on 1, 2, 4 and 8 ranks; costs time
    #[arg(long)]
    pub reproducible: bool,
    /// Records checksums of the data that every operation reads and writes, for hccl-compare-runs;
    /// costs time
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// With --record: keeps all bytes of one operation, such as `world all_reduce 17`
    #[arg(long, value_name = "OPERATION", requires = "record")]
    record_whole: Option<String>,
    /// A file with digits to use instead of the included ones: on each line 64 pixels from 0 to 16
    /// and the label, separated by commas
    #[arg(long, value_name = "FILE", default_value = DIGITS, hide_default_value = true)]
    pub data: PathBuf,
}

/// The number of shards into which `--reproducible` cuts each batch.
const LOGICAL_SHARDS: usize = 8;
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    Auto,
    Emulator,
    Cann,
}

/// The reason why parsing gives no options.
#[derive(Debug)]
pub enum Instead {
    /// The text of the help or of the version, which the user has requested.
    Answer(String),
    /// A mistake of the user, described in one line.
    Mistake(String),
}

impl Options {
    /// Parses the arguments, of which the first is the program's name.
    pub fn parse_from_arguments(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, Instead> {
        let options = Self::try_parse_from(arguments).map_err(|error| {
            if !error.use_stderr() {
                return Instead::Answer(error.to_string());
            }
            // Text after the first empty line is about usage in general.
            let text = error.to_string();
            let problem = text.split("\n\n").next().unwrap_or_default().trim();
            let problem: Vec<&str> = problem.lines().map(str::trim).collect();
            let similar =
                error.get(ContextKind::SuggestedArg).map(|argument| format!("{argument} or "));
            Instead::Mistake(format!(
                "{} (try {}--help)",
                problem.join(" ").trim_start_matches("error: "),
                similar.unwrap_or_default()
            ))
        })?;
        options.check().map_err(Instead::Mistake)?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=8).contains(&self.ranks) {
            return Err(format!("--ranks {}: must be from 1 to 8", self.ranks));
        }
        if self.reproducible && !LOGICAL_SHARDS.is_multiple_of(self.ranks) {
            return Err(format!("--reproducible --ranks {}: must be 1, 2, 4 or 8", self.ranks));
        }
        if self.epochs == 0 {
            return Err("--epochs 0: must be at least 1".to_owned());
        }
        Ok(())
    }

    /// Starts the backend, with at least one device for each rank.
    pub fn runtime(&self) -> Result<Runtime, String> {
        let runtime = match self.backend {
            Choice::Auto => Runtime::auto(),
            Choice::Emulator => Runtime::emulator(self.ranks),
            Choice::Cann => Runtime::cann(),
        }
        .map_err(|error| error.to_string())?;
        let devices = runtime.device_count();
        if devices < self.ranks {
            return Err(format!(
                "--ranks {}: more than there are devices ({devices}); use fewer ranks",
                self.ranks
            ));
        }
        Ok(runtime)
    }

    /// Starts the record of the run, if the user has requested one.
    pub fn record(&self, runtime: &Runtime) -> Result<Option<RunRecording>, String> {
        let Some(directory) = &self.record else { return Ok(None) };
        let record = RunRecord::new(directory);
        let record = match &self.record_whole {
            Some(operation) => record.whole(operation),
            None => record,
        };
        runtime.record_run(record).map(Some).map_err(|error| error.to_string())
    }

    /// Returns the recipe that these options choose.
    pub fn recipe(&self) -> Recipe {
        let logical_shards = self.reproducible.then_some(LOGICAL_SHARDS);
        Recipe { epochs: self.epochs, seed: self.seed, logical_shards, ..Recipe::new(self.ranks) }
    }
}
