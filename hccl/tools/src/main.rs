//! `hcclrun`: starts the ranks of a job as processes of this machine.
//!
//! hcclrun serves the store at which the ranks meet, labels their output, and forwards signals to
//! them. If a rank fails, hcclrun ends the other ranks, unless the job is elastic, and prints which
//! rank failed first and why.

mod options;
mod output;
mod ranks;
mod run;
mod timeline;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

use crate::options::Options;

/// The exit status when hcclrun itself fails, as env(1) and docker(1) have it.
const OWN_FAILURE: u8 = 125;

fn main() -> ExitCode {
    let mut options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Help and version are no errors.
            let status = if error.use_stderr() { OWN_FAILURE } else { 0 };
            // If printing fails, there is no other place to report it.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    let asked = match options.timeline.take() {
        None => timeline::from_environment(),
        file => Ok(file),
    };
    let done = asked.and_then(|file| {
        options.timeline = file;
        run::run(&options)
    });
    match done {
        Ok(status) => ExitCode::from(status),
        Err(problem) => {
            eprintln!("hcclrun: {problem}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}
