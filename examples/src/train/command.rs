//! The command line, and the story that it tells.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use hccl::prelude::*;
use indicatif::{ProgressBar, ProgressStyle};

use super::data::{Digits, Split};
use super::output::{FILES, Output};
use super::parallel::{Outcome, Recipe, train};
use super::plot::{loss_picture, timeline_picture};
use super::timeline::{Overlap, Step};
use super::trace::chrome_trace;

/// Trains a neural network on handwritten digits, data-parallel on Ascend NPUs.
///
/// Every rank takes its shard of each batch. The gradients of a layer are summed over all ranks while the
/// layers before it are still being computed.
#[derive(Debug, Parser)]
#[command(
    name = "train",
    version,
    after_help = "\
Writes into the folder of --out:
  loss.svg      the loss of every step
  timeline.svg  who computed and who communicated when, for a few steps in the middle
  trace.json    the same for all steps, for https://ui.perfetto.dev"
)]
struct Options {
    /// How many NPUs share the work, from 1 to 8.
    #[arg(long, value_name = "N", default_value_t = 4)]
    ranks: usize,
    /// How often every digit is looked at.
    #[arg(long, value_name = "N", default_value_t = Recipe::new(1).epochs)]
    epochs: usize,
    /// What the ranks run on; `auto` takes CANN where it is installed.
    #[arg(long, value_enum, default_value_t = Choice::Auto)]
    backend: Choice,
    /// The folder for the results; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "train-out")]
    out: PathBuf,
    /// Decides the split, the first weights and the order of the digits.
    #[arg(long, value_name = "N", default_value_t = Recipe::new(1).seed)]
    seed: u64,
    /// The digits: 64 pixels from 0 to 16 and the label on each line, separated by commas.
    #[arg(long, value_name = "FILE", default_value = DIGITS)]
    data: PathBuf,
}

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv");

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Choice {
    Auto,
    Emulator,
    Cann,
}

impl Options {
    fn check(&self) -> Result<(), String> {
        if !(1..=8).contains(&self.ranks) {
            return Err(format!("--ranks {}: must be from 1 to 8", self.ranks));
        }
        if self.epochs == 0 {
            return Err("--epochs 0: must be at least 1".to_owned());
        }
        Ok(())
    }

    fn runtime(&self) -> Result<Runtime, String> {
        let runtime = match self.backend {
            Choice::Auto => Runtime::auto(),
            Choice::Emulator => Runtime::emulator(self.ranks),
            Choice::Cann => Runtime::cann(),
        }
        .map_err(one_line)?;
        let devices = runtime.device_count();
        if devices < self.ranks {
            return Err(format!("--ranks {}: there are {devices} devices", self.ranks));
        }
        Ok(runtime)
    }

    fn recipe(&self) -> Recipe {
        Recipe { epochs: self.epochs, seed: self.seed, ..Recipe::new(self.ranks) }
    }
}

/// The whole program: reads the arguments (the first is the program's name), tells its story on `out`,
/// complains in one line on `err`, and returns the exit status.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let told = match Options::try_parse_from(arguments) {
        Ok(options) => story(&options, out),
        Err(help) if !help.use_stderr() => write!(out, "{help}").map_err(one_line),
        // What follows the first empty line is about usage.
        Err(error) => {
            let text = error.to_string();
            let problem = text.split("\n\n").next().unwrap_or_default();
            Err(one_line(problem.trim_start_matches("error: ")))
        }
    };
    match told {
        Ok(()) => 0,
        Err(problem) => {
            // Nobody is left to tell when this fails, and the status says it anyway.
            let _ = writeln!(err, "error: {problem}");
            1
        }
    }
}

fn story(options: &Options, out: &mut dyn Write) -> Result<(), String> {
    let mut say = |topic: &str, text: String| {
        writeln!(out, "{topic:<9} {text}").map_err(|error| format!("standard output: {error}"))
    };
    options.check()?;
    let digits = Digits::read(&options.data).map_err(one_line)?;
    let output = Output::prepare(&options.out)?;
    let runtime = options.runtime()?;
    let backend = runtime.backend().to_string().to_lowercase();

    say("digits", format!("{} images of 8 x 8 pixels", digits.len()))?;
    let split = digits.split(options.seed);
    say("split", describe(&split, options.seed))?;
    let recipe = options.recipe();
    let steps_per_epoch = recipe.steps_per_epoch(split.training.len());
    let widths = recipe.widths().iter().map(usize::to_string).collect::<Vec<_>>().join("-");
    say(
        "network",
        format!("{widths}, ReLU, softmax; gradient descent with momentum, batch {}", recipe.batch),
    )?;
    say(
        "ranks",
        format!(
            "{} on {backend}; {} epochs of {steps_per_epoch} steps",
            options.ranks, options.epochs
        ),
    )?;

    let bar = progress_bar((options.epochs * steps_per_epoch) as u64);
    let start = Instant::now();
    let outcomes = train(&runtime, &split.training, &recipe, |loss| {
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
    })
    .map_err(one_line)?;
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();

    let first = outcomes.first().ok_or("no rank came back")?;
    let last_epoch = first.losses.rchunks(steps_per_epoch).next().unwrap_or_default();
    let final_loss = last_epoch.iter().sum::<f32>() / last_epoch.len() as f32;
    let initial_loss = first.losses.first().copied().unwrap_or_default();
    say("loss", format!("{initial_loss:.3} in the first step, {final_loss:.5} in the last epoch"))?;
    let overlap = Overlap::of(outcomes.iter().flat_map(|outcome| &outcome.steps));
    say(
        "overlap",
        format!(
            "{:.0} % of the communication hidden behind computation ({:.0} ms of {:.0} ms a rank)",
            overlap.share() * 100.0,
            overlap.hidden * 1e3 / options.ranks as f64,
            (overlap.hidden + overlap.exposed) * 1e3 / options.ranks as f64,
        ),
    )?;

    // Only now does anything look at the rows that were held out.
    let held_out = &split.held_out;
    let accuracy = first.network.accuracy(held_out.images.view(), &held_out.labels);

    let setting =
        format!("{} ranks on {backend}, network {widths}, batch {}", options.ranks, recipe.batch);
    draw(&output, &outcomes, steps_per_epoch, &setting, accuracy)?;
    say("wrote", format!("{} in {}", FILES.join(", "), options.out.display()))?;
    writeln!(
        out,
        "accuracy={accuracy:.4} epochs={} ranks={} backend={backend} seconds={seconds:.2}",
        options.epochs, options.ranks,
    )
    .map_err(one_line)
}

fn describe(split: &Split, seed: u64) -> String {
    let rows: Vec<String> = split.held_out_rows.iter().take(6).map(usize::to_string).collect();
    format!(
        "{} rows to learn from, {} held out by a shuffle with seed {seed} (rows {}, ...)",
        split.training.len(),
        split.held_out.len(),
        rows.join(", "),
    )
}

/// On standard error; draws nothing when that is no terminal.
fn progress_bar(steps: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("training  {bar:40.cyan/blue} {pos}/{len} steps  {msg}");
    let bar = ProgressBar::new(steps);
    // The template is a constant; should it ever be broken, the plain bar will do.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

fn draw(
    output: &Output,
    outcomes: &[Outcome],
    steps_per_epoch: usize,
    setting: &str,
    accuracy: f64,
) -> Result<(), String> {
    let Some(first) = outcomes.first() else { return Ok(()) };
    let subtitle = format!("{setting}; {:.1} % right on the rows held out", accuracy * 100.0);
    output.write("loss.svg", &loss_picture(&first.losses, steps_per_epoch, &subtitle))?;

    let middle = first.steps.len() / 2;
    let shown = middle..(middle + 3).min(first.steps.len());
    let window: Vec<&[Step]> = outcomes.iter().map(|o| &o.steps[shown.clone()]).collect();
    let overlap = Overlap::of(outcomes.iter().flat_map(|outcome| &outcome.steps));
    let subtitle = format!(
        "{setting}; steps {} to {} of {}, the share is that of all steps",
        shown.start + 1,
        shown.end,
        first.steps.len()
    );
    output.write("timeline.svg", &timeline_picture(&window, overlap, &subtitle))?;

    let steps: Vec<&[Step]> = outcomes.iter().map(|outcome| outcome.steps.as_slice()).collect();
    output.write("trace.json", &chrome_trace(&steps))
}

/// Errors are one line here, however many they were.
fn one_line(error: impl Display) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
