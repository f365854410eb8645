//! The findings of the checker.

use crate::task::Task;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::panic::Location;

/// The greatest number of places of one finding that are printed. A cycle may have more.
const PRINTED: usize = 12;

/// A task that a finding is about, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the operator, from 0. `None` if only one operator was checked.
    pub operator: Option<u32>,
    /// The rank that runs the task.
    pub rank: u32,
    /// The thread of the rank.
    pub thread: u32,
    /// The position in that thread of that operator, from 0.
    pub position: u32,
    /// The source line that recorded the task.
    pub source: &'static Location<'static>,
    /// The task at this place.
    pub task: Task,
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Place { operator, rank, thread, position, source, task } = self;
        writeln!(f, "  --> {source}")?;
        write!(f, "   = ")?;
        if let Some(operator) = operator {
            write!(f, "operator {operator}, ")?;
        }
        write!(f, "rank {rank}, thread {thread}, task {position}: {task}")
    }
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The operator must not run.
    Error,
    /// The operator is correct, but its results may surprise.
    Note,
}

/// One finding about an operator.
///
/// Its `Display` has the form of the compiler's messages: the problem, the place, the rank and
/// thread, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity of the finding.
    pub severity: Severity,
    /// The short name of the rule.
    pub rule: &'static str,
    /// The problem. It describes both sides, if there are two.
    pub message: String,
    /// The tasks that the finding is about. Empty if the finding is about a rank or about all
    /// ranks.
    pub places: Vec<Place>,
    /// The source line of a finding without places. It is the line that first uses the channel in
    /// question, else the line that made the operator. `None` if the line is not known.
    pub source: Option<&'static Location<'static>>,
    /// A text that says how to repair the problem.
    pub help: String,
    /// The number of further findings of this rule in the same source lines.
    pub more: u64,
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Note => "note",
        };
        write!(f, "{severity}[{}]: {}", self.rule, self.message)?;
        if let (true, Some(source)) = (self.places.is_empty(), self.source) {
            write!(f, "\n  --> {source}")?;
        }
        for place in self.places.iter().take(PRINTED) {
            write!(f, "\n{place}")?;
        }
        if self.places.len() > PRINTED {
            write!(f, "\n   = and {} more tasks", self.places.len() - PRINTED)?;
        }
        write!(f, "\n   = help: {}", self.help)?;
        if self.more > 0 {
            let of = if self.places.is_empty() { "kind" } else { "lines" };
            write!(f, "\n   = and {} more of the same {of}", self.more)?;
        }
        Ok(())
    }
}

/// The result of a check: its findings and its extent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings, errors first. A rule is reported once for the same source lines.
    pub findings: Vec<Finding>,
    /// The rules that were not checked, or only partly checked, because of the findings. Check
    /// again when those are fixed.
    pub skipped: Vec<&'static str>,
    /// The number of operators that were checked.
    pub operators: u64,
    /// The number of ranks of these operators.
    pub ranks: u64,
    /// The number of threads of all ranks.
    pub threads: u64,
    /// The number of tasks of all threads.
    pub tasks: u64,
}

impl Report {
    /// Returns whether there are no errors. Notes are allowed.
    pub fn is_good(&self) -> bool {
        self.errors().next().is_none()
    }

    /// Returns the findings that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Error)
    }

    /// Returns the findings that are notes.
    pub fn notes(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Note)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{finding}\n")?;
        }
        let counted = |number: u64, what: &str| {
            format!("{number} {what}{}", if number == 1 { "" } else { "s" })
        };
        if self.operators != 1 {
            write!(f, "{}, ", counted(self.operators, "operator"))?;
        }
        let Report { ranks, threads, tasks, .. } = *self;
        let (ranks, threads) = (counted(ranks, "rank"), counted(threads, "thread"));
        write!(f, "{ranks}, {threads}, {}: ", counted(tasks, "task"))?;
        match (self.errors().count() as u64, self.notes().count() as u64) {
            (0, 0) => write!(f, "no finding")?,
            (errors, 0) => write!(f, "{}", counted(errors, "finding"))?,
            (0, notes) => write!(f, "no error, {}", counted(notes, "note"))?,
            (errors, notes) => {
                write!(f, "{}, {}", counted(errors, "error"), counted(notes, "note"))?;
            }
        }
        if !self.skipped.is_empty() {
            write!(f, "; until then not fully checked: {}", self.skipped.join(", "))?;
        }
        Ok(())
    }
}

/// The key of a finding: the rule, the kind of finding within the rule, and the file, line and
/// column of each task.
type Key = (&'static str, &'static str, Vec<(&'static str, u32, u32)>);

/// The findings that the rules have reported so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    findings: Vec<Finding>,
    seen: HashMap<Key, usize>,
}

impl Notes {
    /// Adds an error about tasks. A further finding of the same rule in the same source lines is
    /// only counted.
    pub(super) fn add(
        &mut self,
        rule: &'static str,
        kind: &'static str,
        places: Vec<Place>,
        words: impl FnOnce() -> (String, String),
    ) {
        if !self.again(rule, kind, &places) {
            self.push(Severity::Error, rule, places, None, words());
        }
    }

    /// Adds an error that is not about a task. A further finding of the same kind is only counted.
    pub(super) fn about(
        &mut self,
        rule: &'static str,
        kind: &'static str,
        source: Option<&'static Location<'static>>,
        words: impl FnOnce() -> (String, String),
    ) {
        if !self.again(rule, kind, &[]) {
            self.push(Severity::Error, rule, Vec::new(), source, words());
        }
    }

    /// If the same rule was broken in the same source lines before, counts the finding and returns
    /// true. If it returns false, the caller must [push](Self::push) the finding, with more places
    /// if it has them.
    pub(super) fn again(
        &mut self,
        rule: &'static str,
        kind: &'static str,
        places: &[Place],
    ) -> bool {
        let line = |place: &Place| {
            let source = place.source;
            (source.file(), source.line(), source.column())
        };
        let key = (rule, kind, places.iter().map(line).collect());
        if let Some(known) = self.seen.get(&key) {
            self.findings[*known].more += 1;
            return true;
        }
        self.seen.insert(key, self.findings.len());
        false
    }

    pub(super) fn push(
        &mut self,
        severity: Severity,
        rule: &'static str,
        places: Vec<Place>,
        source: Option<&'static Location<'static>>,
        (message, help): (String, String),
    ) {
        self.findings.push(Finding { severity, rule, message, places, source, help, more: 0 });
    }

    /// Returns whether one of these rules was broken.
    pub(super) fn has(&self, rules: &[&str]) -> bool {
        self.findings.iter().any(|finding| rules.contains(&finding.rule))
    }

    /// Returns the findings, errors first.
    pub(super) fn into_findings(mut self) -> Vec<Finding> {
        self.findings.sort_by_key(|finding| finding.severity);
        self.findings
    }
}
