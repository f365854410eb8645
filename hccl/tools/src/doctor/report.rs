//! The report: one text with all that was found, to be read by a person and by a program.
//!
//! Each line of the sample begins with the outcome, and its words are at fixed places. The file is
//! written while the sample runs, so that the results so far remain if the machine fails.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::child::{self, End};
use crate::examine::Found;
use crate::fact::Fact;
use crate::page::{Mark, Section};
use crate::privacy::Secrets;
use crate::sample::HANGS;
use crate::{Part, environment};

/// The additional time for a child that is late: the longest case and the end of its communicator.
const GRACE: Duration = Duration::from_secs(60);
/// The time limit for the questions, which are a few calls each.
const QUESTIONS: Duration = Duration::from_secs(300);
/// The number of children of the sample that may die.
const MOST_CHILDREN: usize = 5;

/// A report file. It replaces private words in the text that it writes.
struct ReportFile<'a> {
    file: File,
    path: &'a Path,
    secrets: Secrets,
}

impl ReportFile<'_> {
    fn line(&mut self, text: &str) -> Result<(), String> {
        let text = self.secrets.remove(text) + "\n";
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// The numbers of cases by outcome.
#[derive(Default)]
struct Counts {
    tried: usize,
    ok: usize,
    differ: usize,
    failed: usize,
    /// The number of cases.
    all: usize,
    ranks: String,
    /// The reason why the rest was not tried.
    rest: Option<String>,
}

/// Runs the sample and writes the file. Returns the section to be printed about it.
pub(crate) fn write(path: &Path, found: &Found, seconds: u64) -> Result<Section, String> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut file = ReportFile { file, path, secrets: Secrets::here() };
    head(&mut file, found)?;
    let mut section = Section::new("Report");
    if found.runs {
        let counts = sample(&mut file, seconds)?;
        let Counts { tried, ok, differ, failed, all, ranks, rest } = counts;
        let mark = if differ + failed == 0 { Mark::Good } else { Mark::Bad };
        let mut text = format!(
            "{tried} of {all} cases on {ranks} ranks: {ok} right, {differ} with a difference, {failed} with an error"
        );
        if let Some(rest) = rest {
            text += &format!("\n{rest}");
        }
        section.row(mark, "sample", text);
        let answers = questions(&mut file)?;
        section.row(Mark::Plain, "questions", format!("{answers} answers"));
    } else {
        file.line("\n== sample\nnot run: a program with Runtime::cann() would not run here")?;
        section.row(Mark::Note, "sample", "not run: there is no device on which it could");
    }
    file.line("\n== end")?;
    section.row(Mark::Plain, "written", path.display().to_string());
    Ok(section)
}

fn head(file: &mut ReportFile<'_>, found: &Found) -> Result<(), String> {
    file.line(&format!("hccl-doctor report, format 1, version {}", env!("CARGO_PKG_VERSION")))?;
    let whose =
        if found.is_emulator { "of the emulator: no hardware" } else { "not of the emulator" };
    file.line(&format!("libraries: {whose}"))?;
    file.line(&format!("runs: {}\n", if found.runs { "yes" } else { "no" }))?;
    for section in &found.sections {
        let section = match section.title {
            // Values of unlisted variables must not leave the machine.
            "Environment" => &environment::section(true),
            _ => section,
        };
        file.line(&section.print(false))?;
    }
    file.line("== missing functions: name, library, first release")?;
    for [name, library, since] in &found.missing {
        file.line(&format!("missing {name}, {library}, {since}"))?;
    }
    Ok(())
}

/// Runs the cases. If a child dies, another child continues with the next case.
fn sample(file: &mut ReportFile<'_>, seconds: u64) -> Result<Counts, String> {
    file.line("\n== sample: outcome, number, operation, reduction, type, elements, ranks, and")?;
    file.line("   for ok: microseconds of the first call to its end, and of the second")?;
    file.line("   for difference: the rank, the first element that differs, what was expected, what came, how many differ")?;
    file.line("   for error: the rank, and the text")?;
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut counts = Counts::default();
    let mut first = 0;
    for child in 0..MOST_CHILDREN {
        let left = until.saturating_duration_since(Instant::now());
        let arguments = Part::Sample.arguments(first, left.as_secs());
        let mut now: Option<(usize, String)> = None;
        let mut problem = Ok(());
        let told = child::run(&arguments, left + GRACE, |fact| {
            if problem.is_ok() {
                problem = one(file, fact, &mut counts, &mut now);
            }
        });
        problem?;
        if told.end == End::Done {
            return Ok(counts);
        }
        // A child with a hanging rank has reported the case itself before it ended.
        if told.end != End::Status(HANGS) {
            let words = told.last_words.lines().last().unwrap_or_default();
            let text = format!("{} {words}", told.end);
            match &now {
                Some((number, case)) => {
                    counts.failed += 1;
                    file.line(&format!("error {number:>4} {case} rank=? {}", text.trim()))?;
                }
                None => {
                    counts.rest = Some(format!("the sample has ended: {}", text.trim()));
                    file.line(&format!("ended: {}", text.trim()))?;
                    return Ok(counts);
                }
            }
        }
        let Some((number, _)) = now else { return Ok(counts) };
        first = number + 1;
        let is_over = Instant::now() >= until;
        if is_over || child + 1 == MOST_CHILDREN {
            let why = if is_over { "the time was over" } else { "too many processes have died" };
            counts.rest = Some(format!("{why} before case {first}"));
            file.line(&format!("not tried: from case {first} on, since {why}"))?;
            return Ok(counts);
        }
    }
    Ok(counts)
}

/// Counts one fact of the sample, and writes its line.
fn one(
    file: &mut ReportFile<'_>,
    fact: &Fact,
    counts: &mut Counts,
    now: &mut Option<(usize, String)>,
) -> Result<(), String> {
    let number = fact.word(1);
    let case = now.as_ref().map_or("", |(_, case)| case).to_owned();
    match fact.kind() {
        "cases" => {
            counts.all = number.parse().unwrap_or(0);
            counts.ranks = fact.word(2).to_owned();
            Ok(())
        }
        "case" => {
            counts.tried += 1;
            *now = Some((number.parse().unwrap_or(0), fact.word(2).to_owned()));
            Ok(())
        }
        "ok" => {
            counts.ok += 1;
            file.line(&format!(
                "ok    {number:>4} {case} {:>10} us {:>10} us",
                fact.word(2),
                fact.word(3)
            ))
        }
        "difference" => {
            counts.differ += 1;
            let [rank, element, expected, got, count] = [2, 3, 4, 5, 6].map(|word| fact.word(word));
            file.line(&format!(
                "difference {number:>4} {case} rank={rank} element={element} expected={expected} got={got} differ={count}"
            ))
        }
        "error" => {
            counts.failed += 1;
            let text = fact.word(3).lines().map(str::trim).collect::<Vec<_>>().join(" | ");
            file.line(&format!("error {number:>4} {case} rank={} {text}", fact.word(2)))
        }
        "time-out" => {
            counts.rest =
                Some(format!("the time was over before case {number}; --seconds gives more"));
            file.line(&format!("not tried: from case {number} on, since the time was over"))
        }
        "given-up" => {
            counts.rest = Some(format!("too many errors before case {number}"));
            file.line(&format!(
                "not tried: from case {number} on, since there were too many errors"
            ))
        }
        "no-communicator" | "no-cann" => {
            let text =
                fact.words().join(" ").lines().map(str::trim).collect::<Vec<_>>().join(" | ");
            counts.rest = Some(format!("the ranks cannot meet: {text}"));
            file.line(&format!("not tried: the ranks cannot meet: {text}"))
        }
        _ => Ok(()),
    }
}

/// Writes the answers, and returns their number.
fn questions(file: &mut ReportFile<'_>) -> Result<usize, String> {
    file.line("\n== questions that documents leave open")?;
    let (mut count, mut open, mut problem) = (0, None, Ok(()));
    let told = child::run(&Part::Questions.arguments(0, 1), QUESTIONS, |fact| {
        let text = fact.word(2).lines().map(str::trim).collect::<Vec<_>>().join(" | ");
        let line = match fact.kind() {
            "question" => {
                open = Some(fact.word(1).to_owned());
                format!("question {}: {text}", fact.word(1))
            }
            "answer" => {
                count += 1;
                open = None;
                format!("answer {}: {text}", fact.word(1))
            }
            _ => fact.words().join(" "),
        };
        if problem.is_ok() {
            problem = file.line(&line);
        }
    });
    problem?;
    if told.end != End::Done {
        let id = open.unwrap_or_default();
        file.line(&format!("answer {id}: {}; the rest was not asked", told.end))?;
    }
    Ok(count)
}
