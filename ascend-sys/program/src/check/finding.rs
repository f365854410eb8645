//! What the checker has to say.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use crate::declared::Core;
use crate::program::Program;
use crate::show;
use crate::step::Source;

/// One thing to say about a kernel.
///
/// Its `Display` is like the compiler's: what, where, on which core, and what to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The rule, as a short name.
    pub rule: &'static str,
    /// What, with both numbers.
    pub message: String,
    /// The file of the kernel; empty if it is not known.
    pub file: String,
    /// From 1; 0 if it is not known.
    pub line: u32,
    /// From 1; 0 if it is not known.
    pub column: u32,
    /// Which core it was first seen on, and on how many more. None: it is about all of them.
    pub cores: Option<String>,
    /// What to change.
    pub help: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The kernel must not run.
    Error,
    /// The checker could not look, or what it found is usual but fragile.
    Note,
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Note => "note",
        };
        write!(f, "{severity}[{}]: {}", self.rule, self.message)?;
        if self.line != 0 {
            let file = if self.file.is_empty() { "?" } else { &self.file };
            write!(f, "\n  --> {file}:{}:{}", self.line, self.column)?;
        }
        if let Some(cores) = &self.cores {
            write!(f, "\n   = on {cores}")?;
        }
        write!(f, "\n   = help: {}", self.help)
    }
}

/// A core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CoreName {
    pub kind: Core,
    /// Among its kind.
    pub index: u32,
}

impl Display for CoreName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", show::kind(self.kind), self.index)
    }
}

/// What has been found so far: each rule once a line, however many cores and turns break it.
#[derive(Debug, Default)]
pub(super) struct Report {
    entries: BTreeMap<(u32, u32, u32, &'static str), Entry>,
}

#[derive(Debug)]
struct Entry {
    severity: Severity,
    message: String,
    help: String,
    cores: Vec<CoreName>,
}

impl Report {
    pub(super) fn add(
        &mut self,
        severity: Severity,
        rule: &'static str,
        source: Source,
        core: Option<CoreName>,
        words: impl FnOnce() -> (String, String),
    ) {
        let key = (source.file, source.line, source.column, rule);
        let entry = self.entries.entry(key).or_insert_with(|| {
            let (message, help) = words();
            Entry { severity, message, help, cores: Vec::new() }
        });
        if let Some(core) = core
            && entry.cores.last() != Some(&core)
            && !entry.cores.contains(&core)
        {
            entry.cores.push(core);
        }
    }

    /// Errors first, each kind in the order of the source.
    pub(super) fn into_findings(self, program: &Program) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self
            .entries
            .into_iter()
            .map(|((file, line, column, rule), entry)| Finding {
                severity: entry.severity,
                rule,
                message: entry.message,
                file: program.files.get(file as usize).cloned().unwrap_or_default(),
                line,
                column,
                cores: match &entry.cores[..] {
                    [] => None,
                    [one] => Some(one.to_string()),
                    [first, rest @ ..] => Some(format!("{first} and {} more", rest.len())),
                },
                help: entry.help,
            })
            .collect();
        findings.sort_by_key(|finding| finding.severity);
        findings
    }
}
