//! The program `train` as a function.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::time::Instant;

use hccl::Backend;
use hccl::job::JobEnv;
use indicatif::{ProgressBar, ProgressStyle};

use super::data::{Digits, Split};
use super::loss_plot::loss_picture;
use super::options::{Instead, Options};
use super::output::{File, Output};
use super::overlap::{Overlap, Timeline};
use super::parallel::train;
use super::timeline_plot::timeline_picture;
use super::trace::chrome_trace;

/// The number of steps that `timeline.svg` shows.
const SHOWN_STEPS: usize = 2;

/// Runs the whole program: reads the arguments (the first is the program's name), writes its output
/// to `out` and its errors to `err`, and returns the exit status.
pub fn run(
    arguments: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let told = match Options::parse_from_arguments(arguments) {
        Ok(options) => story(options, out),
        Err(Instead::Answer(answer)) => writeln!(out, "{}", answer.trim_end()).map_err(one_line),
        Err(Instead::Mistake(problem)) => Err(problem),
    };
    match told {
        Ok(()) => 0,
        Err(problem) => {
            // If this fails, the exit status still reports the error.
            let _ = writeln!(err, "error: {problem}");
            1
        }
    }
}

fn story(mut options: Options, out: &mut dyn Write) -> Result<(), String> {
    // If a launcher has started the ranks as processes, it gives their number, and only the process
    // of rank 0 prints.
    let job = JobEnv::from_env().map_err(one_line)?;
    options.ranks = job.as_ref().map_or(options.ranks, |job| job.world_size as usize);
    let options = &options;
    let tells = job.as_ref().is_none_or(|job| job.rank == 0);
    let mut say = |topic: &str, text: String| match tells {
        true => writeln!(out, "{topic:<9} {text}")
            .map_err(|error| format!("cannot write to standard output: {error}")),
        false => Ok(()),
    };
    let digits = Digits::read(&options.data).map_err(one_line)?;
    let output = if tells { Some(Output::prepare(&options.out)?) } else { None };
    let runtime = options.runtime()?;
    let recording = options.record(&runtime)?;

    say("digits", format!("{} images of 8 x 8 pixels", digits.len()))?;
    let split = digits.split(options.seed);
    say("split", describe(&split, options.seed))?;
    let recipe = options.recipe();
    let steps_per_epoch = recipe.steps_per_epoch(split.training.len());
    let network = recipe.widths().iter().map(usize::to_string).collect::<Vec<_>>().join("-");
    let batch = recipe.batch;
    let optimiser = "gradient descent with momentum";
    say("network", format!("{network}, ReLU, softmax; {optimiser}, batch {batch}"))?;
    let apart = if job.is_some() { ", a process each," } else { "" };
    let ranks = format!("{}{apart} on {}", count(options.ranks, "rank"), place(runtime.backend()));
    let length = format!("{} of {steps_per_epoch} steps", count(options.epochs, "epoch"));
    say("training", format!("{ranks}, {length}"))?;

    let bar = match tells {
        true => progress_bar((options.epochs * steps_per_epoch) as u64),
        false => ProgressBar::hidden(),
    };
    let start = Instant::now();
    let outcomes = train(&runtime, &split.training, &recipe, |loss| {
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
    });
    bar.finish_and_clear();
    let outcomes = outcomes.map_err(one_line)?;
    if let Some(recording) = recording {
        recording.finish().map_err(one_line)?;
    }
    let seconds = start.elapsed().as_secs_f64();

    let first = outcomes.first().ok_or("no rank came back")?;
    let (Some(output), 0) = (output, first.rank) else { return Ok(()) };
    let last_epoch = first.losses.rchunks(steps_per_epoch).next().unwrap_or_default();
    let final_loss = last_epoch.iter().sum::<f32>() / last_epoch.len() as f32;
    let initial_loss = first.losses.first().copied().unwrap_or_default();
    say("loss", format!("{initial_loss:.3} in the first step, {final_loss:.5} in the last epoch"))?;
    let timeline = Timeline::new(first.steps.iter().map(Vec::as_slice).collect());
    let overlap = match recipe.logical_shards {
        None => sentences(timeline.overlap(), options.ranks),
        Some(shards) => vec![format!(
            "of {shards} shards of each batch, added in one order on any number of ranks"
        )],
    };
    for (topic, sentence) in ["gradients", ""].into_iter().zip(&overlap) {
        say(topic, sentence.clone())?;
    }

    // The held-out rows are used here for the first time.
    let held_out = &split.held_out;
    let accuracy = first.network.accuracy(held_out.images.view(), &held_out.labels);

    let setting = format!("{ranks}, network {network}, batch {batch}");
    let subtitle = format!("{setting}; {:.1} % right on the rows held out", accuracy * 100.0);
    output.write(File::Loss, &loss_picture(&first.losses, steps_per_epoch, &subtitle, &[]))?;
    output.write(File::Timeline, &draw(&timeline, steps_per_epoch, &setting, &overlap))?;
    output.write(File::Trace, &chrome_trace(&timeline))?;
    for (topic, file) in ["wrote", "", ""].into_iter().zip(File::ALL) {
        say(topic, output.path(file).display().to_string())?;
    }
    if options.reproducible {
        say("weights", format!("hash {:016x}", first.network.hash()))?;
    }
    writeln!(
        out,
        "accuracy={accuracy:.4} epochs={} ranks={} backend={} seconds={seconds:.2}",
        options.epochs,
        options.ranks,
        runtime.backend().to_string().to_lowercase(),
    )
    .map_err(one_line)
}

fn describe(split: &Split, seed: u64) -> String {
    let rows: Vec<String> = split.held_out_rows.iter().take(3).map(usize::to_string).collect();
    format!(
        "{} rows to learn from, {} held out by a shuffle with seed {seed} (rows {}, ...)",
        split.training.len(),
        split.held_out.len(),
        rows.join(", "),
    )
}

/// Describes the backend. Virtual NPUs compute on the cores of the host, so the number of cores
/// explains a good part of a timeline.
fn place(backend: Backend) -> String {
    match (backend, std::thread::available_parallelism()) {
        (Backend::Emulator, Ok(cores)) => format!("the emulator ({})", count(cores.get(), "core")),
        (Backend::Emulator, Err(_)) => "the emulator".to_owned(),
        (other, _) => other.to_string(),
    }
}

/// Describes how the time was spent while gradients were in flight.
fn sentences(overlap: Overlap, ranks: usize) -> Vec<String> {
    let milliseconds = |seconds: f64| format!("{:.0} ms", seconds * 1e3 / ranks as f64);
    let Overlap { moving, waiting } = overlap;
    let hidden = format!("{:.0} % of it hidden behind computation", moving.hidden_percent());
    if ranks == 1 {
        let time = milliseconds(moving.seconds());
        return vec![format!(
            "{time} to the device and back, {hidden}; a single rank has nothing to add"
        )];
    }
    vec![
        format!("{} a rank moving, {hidden}", milliseconds(moving.seconds())),
        format!(
            "{} a rank waiting for the last rank, {:.0} % of it hidden",
            milliseconds(waiting.seconds()),
            waiting.hidden_percent(),
        ),
    ]
}

/// Makes a progress bar on standard error. It draws nothing if standard error is not a terminal.
fn progress_bar(steps: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("          {bar:40.cyan/blue} {pos}/{len} steps  {msg}");
    let bar = ProgressBar::new(steps);
    // The template is a constant. If it had a mistake, the plain bar would be shown.
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// Draws typical steps of the last epoch, in which everything has warmed up.
fn draw(timeline: &Timeline, steps_per_epoch: usize, setting: &str, overlap: &[String]) -> String {
    let all = timeline.len();
    let last_epoch = all.saturating_sub(steps_per_epoch)..all;
    let shown = timeline.typical(last_epoch, SHOWN_STEPS);
    let (title, choice) = if shown.len() == SHOWN_STEPS {
        let choice = "the two in a row in the last epoch that took the median time";
        let steps = format!("Steps {} and {} of {all}", shown.start + 1, shown.end);
        ("What each rank did in two steps", format!("{steps}: {choice}"))
    } else {
        ("What each rank did in the last step", format!("Step {all} of {all}"))
    };
    // One line each, since both together are wider than the picture in some fonts.
    let gradients = format!("Gradients in all steps: {}", overlap.join(";\n"));
    let mut subtitles = vec![setting.to_owned(), choice];
    subtitles.extend(gradients.lines().map(str::to_owned));
    timeline_picture(timeline, shown, title, &subtitles)
}

/// Returns a number and the noun that it counts, as text.
fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Returns the text of an error as one line.
fn one_line(error: impl Display) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
