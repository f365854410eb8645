//! The findings of the checker.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::core_name::CoreName;
use super::witness::Witness;
use crate::program::Program;
use crate::step::Source;

/// One finding about a kernel.
///
/// Its `Display` has the form of the compiler's messages: the problem, the place, the core, and the
/// remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The severity of the finding.
    pub severity: Severity,
    /// The short name of the rule.
    pub rule: &'static str,
    /// The problem, with the numbers that do not fit.
    pub message: String,
    /// The file of the kernel. Empty if it is not known.
    pub file: String,
    /// The line, from 1; 0 if it is not known.
    pub line: u32,
    /// The column, from 1; 0 if it is not known.
    pub column: u32,
    /// The first way to this line: the calls of functions around it, the innermost first, as "in
    /// `scale`, called at vadd.rs:40:5".
    pub calls: Vec<String>,
    /// The core on which the finding was first seen, and the number of further cores. `None` if the
    /// finding is about all cores.
    pub cores: Option<String>,
    /// An order of units, cores and turns in which the result is wrong. `None` if the rule is not
    /// about order.
    pub witness: Option<Witness>,
    /// A text that says how to repair the problem.
    pub help: String,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The kernel must not run.
    Error,
    /// The kernel may run, but part of its work is lost. The kernel can [allow](crate::Warning)
    /// that.
    Warning,
    /// The checker could not check something, or the code is usual but fragile.
    Note,
}

impl Finding {
    /// Returns whether a mistake elsewhere in the kernel often leads to this finding. For example,
    /// a core does not reach a barrier because it waits for a tensor, or memory is unwritten
    /// because the copy wrote somewhere else.
    pub fn may_be_caused(&self) -> bool {
        let rules =
            ["hang", "unawaited", "freed", "unwritten", "windows", "never-written", "overwritten"];
        rules.contains(&self.rule)
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        write!(f, "{severity}[{}]: {}", self.rule, self.message)?;
        if self.line != 0 {
            let file = if self.file.is_empty() { "?" } else { &self.file };
            write!(f, "\n  --> {file}:{}:{}", self.line, self.column)?;
        }
        for call in &self.calls {
            write!(f, "\n   = {call}")?;
        }
        if let Some(cores) = &self.cores {
            write!(f, "\n   = on {cores}")?;
        }
        if let Some(witness) = &self.witness {
            write!(f, "\n   = witness: {}", witness.text)?;
        }
        write!(f, "\n   = help: {}", self.help)
    }
}

/// The findings so far. A rule is reported once for each line, however many cores and turns break
/// it.
#[derive(Debug, Default)]
pub(super) struct Report {
    entries: BTreeMap<(u32, u32, u32, &'static str), Entry>,
}

#[derive(Debug)]
struct Entry {
    severity: Severity,
    source: Source,
    said: Said,
    cores: Vec<CoreName>,
}

/// The contents of a finding: the message, the help, and the witness of a rule about order.
#[derive(Debug)]
pub(super) struct Said {
    message: String,
    help: String,
    witness: Option<Witness>,
}

impl From<(String, String)> for Said {
    fn from((message, help): (String, String)) -> Self {
        Said { message, help, witness: None }
    }
}

impl From<(String, String, Witness)> for Said {
    fn from((message, help, witness): (String, String, Witness)) -> Self {
        Said { message, help, witness: Some(witness) }
    }
}

impl Report {
    pub(super) fn add<S: Into<Said>>(
        &mut self,
        severity: Severity,
        rule: &'static str,
        source: Source,
        core: Option<CoreName>,
        words: impl FnOnce() -> S,
    ) {
        let key = (source.file, source.line, source.column, rule);
        let entry = self.entries.entry(key).or_insert_with(|| Entry {
            severity,
            source,
            said: words().into(),
            cores: Vec::new(),
        });
        if let Some(core) = core
            && entry.cores.last() != Some(&core)
            && !entry.cores.contains(&core)
        {
            entry.cores.push(core);
        }
    }

    /// Returns the findings, errors first, without the warnings that the program allows. Within a
    /// severity, findings that may have caused others come before findings that may have been
    /// caused. Otherwise they are in the order of the source.
    pub(super) fn into_findings(self, program: &Program) -> Vec<Finding> {
        let is_allowed = |(_, _, _, rule): &(_, _, _, &str)| {
            program.allowed.iter().any(|allowed| allowed.warning.rule() == *rule)
        };
        let mut findings: Vec<Finding> = self
            .entries
            .into_iter()
            .filter(|(place, _)| !is_allowed(place))
            .map(|((file, line, column, rule), entry)| Finding {
                severity: entry.severity,
                rule,
                message: entry.said.message,
                file: program.files.get(file as usize).cloned().unwrap_or_default(),
                line,
                column,
                calls: program.path(entry.source),
                cores: match &entry.cores[..] {
                    [] => None,
                    [one] => Some(one.to_string()),
                    [first, rest @ ..] => Some(format!("{first} and {} more", rest.len())),
                },
                witness: entry.said.witness,
                help: entry.said.help,
            })
            .collect();
        findings.sort_by_key(|finding| (finding.severity, finding.may_be_caused()));
        findings
    }
}
