//! The mistakes in the function of an operator.

use std::fmt;
use std::panic::Location;

use super::debug_text::debug_as_text;

/// One mistake in the function of an operator, with its line.
///
/// ```
/// use hccl::operator::*;
///
/// let beyond = Operator::all_gather("beyond", |op: &Recorder<'_>, main: &mut MainThread<'_>| {
///     main.copy(op.input(), op.output().block(op.ranks(), op.count())); // there is no such block
/// });
/// let error = beyond.record::<f32>(2, 10).unwrap_err();
/// for (mistake, ranks) in error.mistakes() {
///     eprintln!("line {}, ranks {ranks:?}: {}", mistake.source().line(), mistake.text());
/// }
/// # assert!(error.mistakes().count() > 0);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    text: Box<str>,
    source: &'static Location<'static>,
}

impl Mistake {
    pub(crate) fn new(text: String, source: &'static Location<'static>) -> Self {
        Mistake { text: text.into(), source }
    }

    /// Returns the text of the mistake, which says what is wrong and what to do.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place of the mistake in the source.
    pub fn source(&self) -> &'static Location<'static> {
        self.source
    }
}

/// The error for an operator that cannot be recorded. It has the mistakes in the function of the
/// operator, at most one for each place (line and column) in the source.
///
/// ```
/// use hccl::operator::*;
///
/// let beyond = Operator::all_gather("beyond", |op: &Recorder<'_>, main: &mut MainThread<'_>| {
///     main.copy(op.input(), op.output().block(op.ranks(), op.count())); // there is no such block
/// });
/// let error = beyond.record::<f32>(2, 10).unwrap_err();
/// assert_eq!(error.operator(), "beyond");
/// eprintln!("{error}"); // each mistake, its line, and the ranks that make it
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RecordError {
    operator: Box<str>,
    mistakes: Vec<(Mistake, Vec<u32>)>,
}

impl RecordError {
    pub(crate) fn new(operator: &str) -> Self {
        RecordError { operator: operator.into(), mistakes: Vec::new() }
    }

    /// Adds the mistakes of a rank. If an earlier mistake has the same place, only adds the rank to
    /// that mistake.
    pub(crate) fn add(&mut self, rank: u32, mistakes: &[Mistake]) {
        for mistake in mistakes {
            match self.mistakes.iter_mut().find(|(known, _)| known.source == mistake.source) {
                Some((_, ranks)) if ranks.last() == Some(&rank) => {}
                Some((_, ranks)) => ranks.push(rank),
                None => self.mistakes.push((mistake.clone(), vec![rank])),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.mistakes.is_empty()
    }

    /// Returns the name of the operator.
    pub fn operator(&self) -> &str {
        &self.operator
    }

    /// Returns the mistakes in the order in which they were found, each with the ranks that made
    /// it. If one place (line and column) has several mistakes, only the first one is returned.
    pub fn mistakes(&self) -> impl Iterator<Item = (&Mistake, &[u32])> {
        self.mistakes.iter().map(|(mistake, ranks)| (mistake, &**ranks))
    }
}

debug_as_text! { RecordError { operator, mistakes } }

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the operator `{}` cannot be recorded", self.operator)?;
        for (Mistake { text, source }, ranks) in &self.mistakes {
            write!(f, "\n{text}\n  --> {source}\n   = on rank {}", ranks[0])?;
            match ranks.len() - 1 {
                0 => {}
                1 => write!(f, " and {}", ranks[1])?,
                more => write!(f, " and {more} more")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for RecordError {}
