//! What the checker has to say.

use crate::task::Task;
use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::panic::Location;

/// Places that are printed of one finding; a cycle may have more.
const PRINTED: usize = 12;

/// A task that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the operators, from 0, if several were checked.
    pub operator: Option<u32>,
    /// The rank.
    pub rank: u32,
    /// The thread of it.
    pub thread: u32,
    /// The place in that thread of that operator, from 0.
    pub position: u32,
    /// The line that recorded it.
    pub source: &'static Location<'static>,
    /// What it does.
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

/// One thing to say about an operator.
///
/// Its `Display` is like the compiler's: what, where, on which rank and thread, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule, as a short name.
    pub rule: &'static str,
    /// What, with both sides.
    pub message: String,
    /// The tasks that it is about; none, if it is about a rank or about all of them.
    pub places: Vec<Place>,
    /// What to change.
    pub help: String,
    /// How many more there are of this rule in the same lines.
    pub more: u64,
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.rule, self.message)?;
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

/// What was looked at, and what was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was found, each rule once for the same lines.
    pub findings: Vec<Finding>,
    /// Rules that could not be looked at, or not to the end, because of what was found: they follow when that is mended.
    pub skipped: Vec<&'static str>,
    /// How many operators there are.
    pub operators: u64,
    /// How many ranks they have.
    pub ranks: u64,
    /// How many threads all ranks have.
    pub threads: u64,
    /// How many tasks all threads have.
    pub tasks: u64,
}

impl Report {
    /// Whether nothing was found.
    pub fn is_good(&self) -> bool {
        self.findings.is_empty()
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
        match self.findings.len() {
            0 => write!(f, "no finding")?,
            several => write!(f, "{}", counted(several as u64, "finding"))?,
        }
        if !self.skipped.is_empty() {
            write!(f, "; until then nothing more is said of {}", self.skipped.join(", "))?;
        }
        Ok(())
    }
}

/// The rule, what else tells findings apart, and the lines.
type Key = (&'static str, &'static str, Vec<(&'static str, u32, u32)>);

/// What has been found so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    findings: Vec<Finding>,
    seen: HashMap<Key, usize>,
}

impl Notes {
    /// Notes a finding; of what breaks the same rule in the same lines, only how often.
    pub(super) fn add(
        &mut self,
        rule: &'static str,
        kind: &'static str,
        places: Vec<Place>,
        words: impl FnOnce() -> (String, String),
    ) {
        let line = |place: &Place| {
            let source = place.source;
            (source.file(), source.line(), source.column())
        };
        let key = (rule, kind, places.iter().map(line).collect());
        if let Some(known) = self.seen.get(&key) {
            self.findings[*known].more += 1;
            return;
        }
        self.seen.insert(key, self.findings.len());
        let (message, help) = words();
        self.findings.push(Finding { rule, message, places, help, more: 0 });
    }

    /// Whether one of these rules was broken.
    pub(super) fn has(&self, rules: &[&str]) -> bool {
        self.findings.iter().any(|finding| rules.contains(&finding.rule))
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }
}
