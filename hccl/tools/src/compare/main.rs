//! `hccl-compare-runs A B`: the first operation in which two recorded runs differ.

mod read;
mod value;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use read::{Line, Member, RankFile, Record};

/// Names the first operation, and if it can the element, in which two runs differ.
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
    /// The record of the other one.
    b: PathBuf,
}

fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Help and version are no errors.
            let status = if error.use_stderr() { 2 } else { 0 };
            // Nobody is left to tell when this fails.
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
    part: Part,
    member: &'a Member,
    /// The lines of both runs; `None` where a run has no more.
    lines: [Option<&'a Line>; 2],
    files: [&'a RankFile; 2],
    /// The time when the operation begins on the first of its ranks.
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
            "the runs have other communicators or ranks, so their operations are others, too. Only in the first: {}. Only \
             in the second: {}",
            only(a, b),
            only(b, a)
        ));
    }
    // When an operation begins: on the first of its ranks, in the first run that has it.
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
        let mut pairs = (0..length).map(|at| [file.lines.get(at), other.lines.get(at)]);
        let found = pairs.find_map(|lines| Some((part_of(lines)?, lines)));
        if let Some((part, lines)) = found {
            let begin = |line: &Line| {
                begins.get(&(&*member.title, member.count, &*line.operation)).copied()
            };
            let begins = lines.iter().flatten().filter_map(|line| begin(line)).min().unwrap_or(0);
            differences.push(Difference { part, member, lines, files: [file, other], begins });
        }
    }
    let Some(first) = differences.iter().min_by_key(|it| (it.begins, it.part, it.member.rank))
    else {
        let operations = a.files.values().map(|file| file.lines.len()).sum();
        return Ok(Outcome::Same { operations, ranks: a.files.len() });
    };
    let same = |it: &&Difference<'_>| it.begins == first.begins && it.part == first.part;
    let ranks: Vec<u32> = differences.iter().filter(same).map(|it| it.member.rank).collect();
    Ok(Outcome::Differ(describe(first, &ranks)))
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
        Part::Given => ("in what goes into it", "given", [&a.given, &b.given]),
        _ => ("in what comes out of it, and what went in is the same", "got", [&a.got, &b.got]),
    };
    let mut text = format!("the first difference: `{}`, {what}, on rank {rank}", a.operation);
    if let [_, _, ..] = ranks {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        text += &format!(" (and so on ranks {})", ranks.join(", "));
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
