//! `abi-calls`: calls every function of the C ABI at random, in child processes.

use std::process::ExitCode;

use abi_calls::children::{self, End, Job};
use abi_calls::functions::FUNCTIONS;
use abi_calls::modes::{MODES, Mode, works};
use abi_calls::trace::Trace;
use clap::{Parser, Subcommand};

/// Call every function of the C ABI at random.
#[derive(Parser)]
#[command(version, about)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a mode with many seeds, each in a process of its own
    Many {
        /// The mode; all modes, if none is given
        mode: Option<Mode>,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        first: u64,
        /// The number of seeds of a tour and a sweep; a fifteenth of it for leaks, half of it for
        /// other modes
        #[arg(long, default_value_t = 90)]
        seeds: u64,
        /// The number of processes at a time
        #[arg(long, default_value_t = 4)]
        beside: usize,
        /// Print the functions that work but have not succeeded
        #[arg(long)]
        missing: bool,
    },
    /// Run one seed of a mode
    One {
        /// The mode
        mode: Mode,
        /// The seed, which decides everything else
        seed: u64,
        /// Run it in this process, for a debugger
        #[arg(long)]
        here: bool,
    },
}

fn main() -> ExitCode {
    let (jobs, beside, missing) = match Options::parse().command {
        Command::One { mode, seed, here: true } => {
            children::here(Job { mode, seed }, Trace::shared());
            return ExitCode::SUCCESS;
        }
        Command::One { mode, seed, .. } => (vec![Job { mode, seed }], 1, false),
        Command::Many { mode, first, seeds, beside, missing } => {
            let modes = mode.map_or(MODES.to_vec(), |mode| vec![mode]);
            let of = |mode| {
                let count = match mode {
                    Mode::Tour | Mode::Sweep => seeds,
                    // A seed of this mode has nine rounds.
                    Mode::Leaks => seeds.div_ceil(15),
                    _ => seeds.div_ceil(2),
                };
                (first..first + count).map(move |seed| Job { mode, seed })
            };
            (modes.into_iter().flat_map(of).collect(), beside, missing)
        }
    };
    let (mut bad, mut given_up) = (0, 0);
    let traces = children::run(&jobs, beside, |_, end| match end {
        End::Well | End::NoWorld => {}
        End::GivenUp => given_up += 1,
        End::Badly(report) => {
            bad += 1;
            println!("{report}");
        }
    });
    let traces = match traces {
        Ok(traces) => traces,
        Err(error) => {
            eprintln!("no process can be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let sum = |index: usize| {
        traces.iter().map(|trace| trace.of(index)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    };
    let working: Vec<usize> = (0..FUNCTIONS.len()).filter(|&index| works(index)).collect();
    let reached = working.iter().filter(|&&index| sum(index).1 > 0).count();
    let calls: u32 = (0..FUNCTIONS.len()).map(|index| sum(index).0).sum();
    println!(
        "{} processes, {calls} calls, {bad} ended badly, {given_up} in a call that may wait, {reached} of {} \
         functions that work have succeeded",
        jobs.len(),
        working.len()
    );
    if missing {
        for &index in working.iter().filter(|&&index| sum(index).1 == 0) {
            println!("{} ({} calls)", FUNCTIONS[index].name, sum(index).0);
        }
    }
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
