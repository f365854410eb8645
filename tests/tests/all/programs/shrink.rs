//! Tests whether a program fails, and shortens a program that fails.

use std::fmt;
use std::time::{Duration, Instant};

use hccl::Runtime;

use super::execute::execute;
use super::interpret::{Bits, interpret};
use super::program::{Ending, Program, Side};

/// The problem that a program has shown.
#[derive(Debug)]
pub enum Failure {
    /// The program returned an error.
    Refused(String),
    Differs {
        rank: usize,
        buffer: usize,
        at: usize,
        found: u64,
        expected: u64,
        more: usize,
    },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(text) => write!(f, "an operation failed: {text}"),
            Failure::Differs { rank, buffer, at, found, expected, more } => write!(
                f,
                "rank {rank} has the bits {found:#x} instead of {expected:#x} in b{buffer}[{at}], and {more} more \
                 elements of that buffer differ"
            ),
        }
    }
}

/// Runs a program and compares its buffers.
pub fn attempt(program: &Program, runtime: &Runtime) -> Result<(), Failure> {
    let found = execute(program, runtime).map_err(|error| Failure::Refused(error.to_string()))?;
    let expected = interpret(program);
    let mut ranks = found.iter().zip(&expected).enumerate();
    ranks.try_for_each(|(rank, (found, expected))| compare(rank, found, expected))
}

/// Compares the buffers of a rank with the expected contents.
pub fn compare(rank: usize, found: &[Bits], expected: &[Bits]) -> Result<(), Failure> {
    for (buffer, (found, expected)) in found.iter().zip(expected).enumerate() {
        let mut wrong = (0..expected.len()).filter(|&at| found.get(at) != Some(&expected[at]));
        if let Some(at) = wrong.next() {
            let (found, expected) = (found[at], expected[at]);
            let more = wrong.count();
            return Err(Failure::Differs { rank, buffer, at, found, expected, more });
        }
    }
    Ok(())
}

/// Returns the shortest failing program that is found in a minute. Each program is tried several
/// times, because it may fail only now and then.
pub fn shrink(
    mut program: Program,
    mut failure: Failure,
    fresh: impl Fn() -> Runtime,
) -> (Program, Failure) {
    let begin = Instant::now();
    let is_late = || begin.elapsed() > Duration::from_secs(60);
    let fails = |program: &Program| {
        let tries = if is_late() { 0 } else { 3 };
        // A runtime in which something has failed is no use for another try.
        (0..tries).find_map(|_| attempt(program, &fresh()).err())
    };
    let mut size = program.steps.len();
    while size > 0 {
        let mut at = 0;
        while at < program.steps.len() {
            let mut shorter = program.clone();
            shorter.steps.drain(at..(at + size).min(program.steps.len()));
            match fails(&shorter) {
                Some(found) => (program, failure) = (shorter, found),
                None => at += size,
            }
        }
        size /= 2;
    }
    let operations = program.steps.iter().enumerate();
    let operations =
        operations.flat_map(|(s, step)| (0..step.operations.len()).map(move |o| (s, o)));
    for (step, operation) in operations.collect::<Vec<_>>().into_iter().rev() {
        let mut shorter = program.clone();
        shorter.steps[step].operations.remove(operation);
        if let Some(found) = fails(&shorter) {
            (program, failure) = (shorter, found);
        }
    }
    for simplify in [on_one_stream, waited, without_fresh_buffers, without_early_ends] {
        let mut simpler = program.clone();
        simplify(&mut simpler);
        if let Some(found) = fails(&simpler) {
            (program, failure) = (simpler, found);
        }
    }
    (program, failure)
}

fn sides(program: &mut Program) -> impl Iterator<Item = &mut Side> {
    let operations = program.steps.iter_mut().flat_map(|step| &mut step.operations);
    operations.flat_map(|operation| &mut operation.sides)
}

/// Moves all operations to one stream. Groups keep their streams: each of their communicators needs
/// its own.
fn on_one_stream(program: &mut Program) {
    for step in program.steps.iter_mut().filter(|step| !step.is_group) {
        let sides = step.operations.iter_mut().flat_map(|operation| &mut operation.sides);
        sides.for_each(|side| side.stream = 0);
    }
}

fn waited(program: &mut Program) {
    sides(program).for_each(|side| side.ending = Ending::Waited);
}

fn without_fresh_buffers(program: &mut Program) {
    sides(program).for_each(|side| side.fresh = false);
}

fn without_early_ends(program: &mut Program) {
    program.teams.iter_mut().for_each(|team| team.is_brief = false);
}
