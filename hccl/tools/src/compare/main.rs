//! `hccl-compare-runs A B`: finds the first operation in which two recorded runs differ.

mod read;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use read::{Line, Member, RankFile, Record};

/// Names the first operation in which two runs differ and, if possible, the element.
///
/// A and B are directories in which runs with the same number of ranks were recorded:
/// Runtime::record_run of hccl, or `train --record`.
#[derive(Debug, Parser)]
#[command(
    name = "hccl-compare-runs",
    version,
    after_help = "\
The status is 0 when the runs are the same, 1 when they differ, and 2 when they cannot be compared."
)]
struct Options {
    /// The record of one run.
    a: PathBuf,
    /// The record of the other run.
    b: PathBuf,
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Help and version are no errors.
            let status = if error.use_stderr() { 2 } else { 0 };
            // If printing fails, there is no other place to report it.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    let compared = Record::read(&options.a)
        .and_then(|a| Ok((a, Record::read(&options.b)?)))
        .and_then(|(a, b)| compare(&a, &b));
    match compared {
        Ok(Outcome::Same { operations, ranks }) => {
            println!("the same: {operations} operations of {ranks} ranks of communicators");
            ExitCode::SUCCESS
        }
        Ok(Outcome::Differ(text)) => {
            println!("{text}");
            ExitCode::from(1)
        }
        Err(problem) => {
            eprintln!("hccl-compare-runs: {problem}");
            ExitCode::from(2)
        }
    }
}

enum Outcome {
    Same { operations: usize, ranks: usize },
    Differ(String),
}

/// The part of an operation that differs on a rank. An earlier variant is a likelier cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// The two runs call different operations.
    Called,
    Given,
    Got,
}

/// The first difference of a rank of a communicator.
struct Difference<'a> {
    /// The place of the lines in their files.
    place: usize,
    part: Part,
    member: &'a Member,
    /// The lines of both runs; `None` where a run has no more.
    lines: [Option<&'a Line>; 2],
    files: [&'a RankFile; 2],
    /// The smallest place of the operation among the operations of its process, over all ranks.
    begins: u64,
}

fn compare(a: &Record, b: &Record) -> Result<Outcome, String> {
    if !a.files.keys().eq(b.files.keys()) {
        let only = |one: &Record, other: &Record| {
            let only: Vec<String> = one
                .files
                .keys()
                .filter(|it| !other.files.contains_key(it))
                .map(Member::to_string)
                .collect();
            if only.is_empty() { "nothing".to_owned() } else { only.join("; ") }
        };
        return Err(format!(
            "the two runs have different communicators or ranks, so they cannot be compared: \
             record both with the same program and the same ranks. Only in the first: {}. Only \
             in the second: {}",
            only(a, b),
            only(b, a)
        ));
    }
    // The smallest place of each operation among those of its process, over all ranks and both
    // runs.
    let mut begins: BTreeMap<(&str, usize, &str), u64> = BTreeMap::new();
    for record in [b, a] {
        for (member, file) in &record.files {
            for line in &file.lines {
                let at = begins
                    .entry((&*member.title, member.count, &*line.operation))
                    .or_insert(line.at);
                *at = line.at.min(*at);
            }
        }
    }
    let mut differences = Vec::new();
    for (member, file) in &a.files {
        let Some(other) = b.files.get(member) else { continue };
        let length = file.lines.len().max(other.lines.len());
        let mut pairs = (0..length).map(|at| (at, [file.lines.get(at), other.lines.get(at)]));
        let found = pairs.find_map(|(place, lines)| Some((place, part_of(lines)?, lines)));
        if let Some((place, part, lines)) = found {
            let begin = |line: &Line| {
                begins.get(&(&*member.title, member.count, &*line.operation)).copied()
            };
            let begins = lines.iter().flatten().filter_map(|line| begin(line)).min().unwrap_or(0);
            let files = [file, other];
            differences.push(Difference { place, part, member, lines, files, begins });
        }
    }
    let given = given_otherwise(a, b);
    let causes: Vec<_> = differences.iter().filter(|it| !follows(it, [a, b], &given)).collect();
    // Every difference has a cause unless the records do not fit together. Then all count as
    // causes.
    let causes = if causes.is_empty() { differences.iter().collect() } else { causes };
    let Some(first) = causes.iter().min_by_key(|it| (it.begins, it.part, it.member.rank)) else {
        let operations = a.files.values().map(|file| file.lines.len()).sum();
        return Ok(Outcome::Same { operations, ranks: a.files.len() });
    };
    let same = |it: &&&Difference<'_>| it.begins == first.begins && it.part == first.part;
    let ranks: Vec<u32> = causes.iter().filter(same).map(|it| it.member.rank).collect();
    Ok(Outcome::Differ(describe(first, &ranks)))
}

/// The name of an operation: the title and the number of its communicator, and its own title.
type Named<'a> = (&'a str, usize, &'a str);

/// Returns the operations for which some rank has different input in the two runs.
fn given_otherwise<'a>(a: &'a Record, b: &Record) -> BTreeSet<Named<'a>> {
    let mut given = BTreeSet::new();
    for (member, file) in &a.files {
        let Some(other) = b.files.get(member) else { continue };
        for (line, other) in file.lines.iter().zip(&other.lines) {
            if line.operation == other.operation && line.given != other.given {
                given.insert((&*member.title, member.count, &*line.operation));
            }
        }
    }
    given
}

/// Returns whether a result differs only because another rank has given different input.
///
/// The order of the lines does not show this: a rank may begin to receive before the sender begins
/// to send.
fn follows(it: &Difference<'_>, records: [&Record; 2], given: &BTreeSet<Named<'_>>) -> bool {
    let Some(line) = it.lines[0].filter(|_| it.part == Part::Got) else { return false };
    let Member { title, count, rank, .. } = it.member;
    let Some(("recv from", sender)) = message(title, line) else {
        return given.contains(&(&**title, *count, &*line.operation));
    };
    // The k-th message that a rank receives from a peer is the k-th that the peer sends to the
    // rank.
    let earlier = it.files[0].lines[..it.place].iter();
    let k = earlier.filter(|line| message(title, line) == Some(("recv from", sender))).count();
    let senders = records[0].files.keys().filter(|it| it.title == *title && it.count == *count);
    let mut senders = senders.filter(|it| it.rank == sender);
    senders.any(|sender| {
        let [a, b] = records.map(|record| {
            let lines = record.files.get(sender)?.lines.iter();
            let mut sent = lines.filter(|line| message(title, line) == Some(("send to", *rank)));
            Some(&*sent.nth(k)?.given)
        });
        matches!((a, b), (Some(a), Some(b)) if a != b)
    })
}

/// Returns the direction and the peer of a message on the communicator with this title. The message
/// is a single one or a part of a batch.
fn message<'a>(title: &str, line: &'a Line) -> Option<(&'a str, u32)> {
    let operation = line.operation.strip_prefix(title)?.strip_prefix(' ')?;
    let message = operation.strip_prefix("batch ").unwrap_or(operation);
    let (rest, _number) = message.rsplit_once(' ')?;
    let (direction, peer) = rest.rsplit_once(' ')?;
    Some((direction, peer.parse().ok()?))
}

fn part_of([a, b]: [Option<&Line>; 2]) -> Option<Part> {
    match (a, b) {
        (Some(a), Some(b)) if a.operation != b.operation || a.dtype != b.dtype => {
            Some(Part::Called)
        }
        (Some(a), Some(b)) if a.given != b.given => Some(Part::Given),
        (Some(a), Some(b)) if a.got != b.got => Some(Part::Got),
        (Some(_), Some(_)) | (None, None) => None,
        _ => Some(Part::Called),
    }
}

fn describe(difference: &Difference<'_>, ranks: &[u32]) -> String {
    let Difference { part, member, lines: [a, b], files, .. } = difference;
    let rank = member.rank;
    let (Some(a), Some(b)) = (a, b) else {
        let (which, line) = if a.is_some() { ("second", a) } else { ("first", b) };
        let operation = line.map_or("", |line| &*line.operation);
        return format!("the {which} run ends on rank {rank} of {member}, before `{operation}`");
    };
    if *part == Part::Called {
        return format!(
            "rank {rank} calls another operation: `{}` of {} in the first run, `{}` of {} in the second",
            a.operation, a.dtype, b.operation, b.dtype
        );
    }
    let (what, name, given) = match part {
        Part::Given => ("in its input", "given", [&a.given, &b.given]),
        _ => ("in its result, although its input is the same", "got", [&a.got, &b.got]),
    };
    let mut text = format!("the first difference: `{}`, {what}, on rank {rank}", a.operation);
    if let [_, _, ..] = ranks {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        text += &format!(" (and on ranks {})", ranks.join(", "));
    }
    if member.count > 1 {
        text += &format!("\nof {member}");
    }
    let failed = given.map(|it| it == "failed");
    if failed[0] != failed[1] {
        let which = if failed[0] { "first" } else { "second" };
        return text + &format!("\nthe operation has failed in the {which} run");
    }
    match value::first_difference(files, &a.operation, name, &a.dtype) {
        Ok(Some(value)) => text + "\n" + &value,
        Ok(None) => {
            text + &format!(
                "\nto see the element, record both runs again with this operation whole (RunRecord::whole, `train \
                 --record-whole`): {}",
                a.operation
            )
        }
        Err(problem) => text + &format!("\nthe element is not known: {problem}"),
    }
}
