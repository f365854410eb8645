//! The effects of a task, for checked mode. The tasks themselves contain no checks.

use ascend_operator::shadow::Mode;
use std::ops::Range;

/// The effects of a task, as they are known when it is submitted.
pub(crate) enum Effects {
    /// The task has no effect with which other work could race.
    None,
    /// The task accesses memory. The fields are the name of the task, and the bytes. The parts of
    /// the task must not share a byte.
    Touches(String, Vec<Touch>),
    /// The task sets a signal. The fields are the number and the name of the signal.
    Sets(u64, String),
    /// The task sends another process a message, which also orders the work that was complete
    /// before it.
    Tells,
    /// The task writes a word at this address, for which others may wait. That orders the work that
    /// was complete before it. Accesses to the word itself are not checked.
    WritesWord(usize),
    /// The task issues operations, which are ordered after the earlier work of its stream.
    Issues,
    /// Code of the host runs. If `returns` is true, later work of the stream waits for its end.
    RunsOnHost { returns: bool },
}

/// Bytes that an operation reads or writes, by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) range: Range<usize>,
    pub(crate) mode: Mode,
}

impl Touch {
    pub(crate) fn read(start: usize, bytes: usize) -> Touch {
        Touch { range: start..start.saturating_add(bytes), mode: Mode::Read }
    }

    pub(crate) fn write(start: usize, bytes: usize) -> Touch {
        Touch { range: start..start.saturating_add(bytes), mode: Mode::Write }
    }

    /// Makes the access of a reduction. Two reductions of the same `kind` may overlap.
    pub(crate) fn reduce(start: usize, bytes: usize, kind: u32) -> Touch {
        Touch { range: start..start.saturating_add(bytes), mode: Mode::Reduce(kind) }
    }
}

/// The reason why the work after a task is ordered after other work. The reason is known when the
/// task is over. `O` is the type of streams.
pub(crate) enum Passed<O: 'static> {
    /// The task has waited for this ticket of another stream.
    Ticket(&'static O, u64),
    /// The task has waited for a signal, and taken it. The fields are the number and the name of
    /// the signal, and the function that waits.
    Signal { number: u64, name: String, call: &'static str },
    /// The task was ordered after work of a process from which checked mode gets no news.
    Told,
}
