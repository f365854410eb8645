//! `hccl-doctor`: reports what it finds of CANN on a machine, and which backend a program would
//! get.
//!
//! This process loads no library of CANN. Child processes load them, each with a time limit, and
//! report each fact before they continue. So a library that ends its process costs only one line of
//! the output.

mod backend;
mod child;
mod elf;
mod environment;
mod examine;
mod fact;
mod features;
mod libraries;
mod machine;
mod page;
mod privacy;
mod questions;
mod report;
mod sample;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

use examine::Found;
use fact::Teller;
use page::Section;

/// Reports the state of CANN on this machine, and what a program of hccl would get.
///
/// It searches for CANN's libraries where programs search, loads them, queries versions, functions
/// and devices, and starts Runtime::cann and Runtime::auto as a program does. Libraries are loaded
/// in child processes, so a broken one only adds a line to the output.
#[derive(Debug, Parser)]
#[command(
    name = "hccl-doctor",
    version,
    after_help = "\
Signs: + it works, ! it does not, * worth knowing.

--report FILE runs a sample of the conformance tests on all devices, a thread each: every operation
and type with some sizes. It writes a text that you can read, and that you can send to us. It holds
this page, the versions, the functions that are missing, and for each operation whether the result
was right, the first element that was not, or the error, and how long it took; and answers of CANN to
questions that its documents leave open. The names of the machine and of the user, their directories,
addresses, and values of variables that are not listed are left out. Read it before you send it.

Examples:
  hccl-doctor
  hccl-doctor --report npu.txt --seconds 120

The status is 0 when a program with Runtime::cann() would run, 1 when it would not, and 2 when
hccl-doctor itself could not do its work."
)]
struct Options {
    /// Runs a sample of the conformance tests and writes one file with all that is found.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The time that the sample may take. Cases that do not start by then are not tried, and the
    /// report says so.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Prints the same facts as one JSON object instead of a text.
    #[arg(long)]
    json: bool,

    /// When the output has colours.
    #[arg(long, value_enum, default_value_t = Colour::Auto)]
    color: Colour,

    /// Does this part of the work, as a child process.
    #[arg(long, hide = true)]
    child: Option<Part>,

    /// The number of the place or of the case with which the part begins.
    #[arg(long, hide = true, default_value_t = 0)]
    first: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// Colours on a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

/// The part of the work that a child does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Libraries,
    Backend,
    Sample,
    Questions,
}

impl Part {
    /// Returns the arguments of a child.
    fn arguments(self, first: usize, seconds: u64) -> Vec<String> {
        let name = self.to_possible_value().map(|it| it.get_name().to_owned()).unwrap_or_default();
        let (first, seconds) = (first.to_string(), seconds.max(1).to_string());
        ["--child", &name, "--first", &first, "--seconds", &seconds].map(String::from).into()
    }
}

/// The status when hccl-doctor itself fails.
const OWN_FAILURE: u8 = 2;

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Help and version are no errors.
            let status = if error.use_stderr() { OWN_FAILURE } else { 0 };
            // If printing fails, there is no other place to report it.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    match options.child {
        Some(part) => do_part(part, &options),
        None => examine(&options),
    }
}

fn do_part(part: Part, options: &Options) -> ExitCode {
    let Ok(teller) = Teller::of_standard_output() else { return ExitCode::from(OWN_FAILURE) };
    match part {
        Part::Libraries => libraries::open_all(options.first, &teller),
        Part::Backend => backend::start(&teller),
        Part::Sample => sample::run(options.first, Duration::from_secs(options.seconds), &teller),
        Part::Questions => questions::ask_all(&teller),
    }
    teller.tell(&[child::DONE]);
    // Skips the destructors of libraries: a broken one could still fail there.
    // SAFETY: the call takes a number only, and all facts have been sent.
    unsafe { libc::_exit(0) }
}

fn examine(options: &Options) -> ExitCode {
    let allowed = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let has_colours = match options.color {
        Colour::Auto => allowed && std::io::stdout().is_terminal(),
        Colour::Always => true,
        Colour::Never => false,
    };
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        // If the reader closes the pipe, the user still gets the exit status.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    };
    let show = |section: &Section, end: &str| {
        if !options.json {
            say(&(section.print(has_colours) + end));
        }
    };
    let print_json = |found: &Found| {
        if options.json {
            say(&format!("{:#}\n", to_json(found)));
        }
    };
    let mut found = examine::examine(&mut |section| show(section, "\n"));
    if let Some(file) = &options.report {
        match report::write(file, &found, options.seconds) {
            Ok(section) => {
                show(&section, "");
                found.sections.push(section);
            }
            Err(problem) => {
                print_json(&found);
                eprintln!("hccl-doctor: {problem}");
                return ExitCode::from(OWN_FAILURE);
            }
        }
    }
    print_json(&found);
    ExitCode::from(u8::from(!found.runs))
}

/// Returns the object that `--json` prints.
fn to_json(found: &Found) -> Value {
    let Found { sections, runs, is_emulator, missing } = found;
    let missing = missing
        .iter()
        .map(|[name, library, since]| json!({ "name": name, "library": library, "since": since }));
    json!({
        "format": "hccl-doctor 1",
        "version": env!("CARGO_PKG_VERSION"),
        "runs": runs,
        "is_emulator": is_emulator,
        "missing": missing.collect::<Vec<_>>(),
        "sections": sections.iter().map(Section::to_json).collect::<Vec<_>>(),
    })
}
