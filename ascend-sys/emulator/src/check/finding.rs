//! Findings, and their text: first what is wrong and where, then both sides, then what to do.

use super::shadow::CheckedOperation;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The name of the host in texts.
pub(super) const HOST_NAME: &str = "the host";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FindingKind {
    /// Two accesses to a byte, at least one of them a write.
    Race,
    /// A free while an access may be under way.
    Free,
    /// An access that may come after the free.
    Freed,
    /// A read of bytes that nobody wrote.
    Unwritten,
    /// Two parts of one operation.
    Overlap,
    /// Two operations of a communicator.
    Shared,
    /// A notify is set again while it is set.
    SetTwice,
    /// A notify is set again, and nothing says that its last wait is over.
    SetEarly,
    /// A kernel that has ended breaks a rule of kernels, in a part that the check before its launch
    /// had to leave out.
    Kernel(Box<ascend_program::check::Finding>),
}

/// One of the two operations of a finding.
#[derive(Clone, Debug)]
pub(crate) struct FindingSide {
    /// "read", "write", "reduce", "set", "wait".
    pub(crate) verb: &'static str,
    pub(crate) operation: Arc<CheckedOperation>,
    /// Its step in its component.
    pub(crate) time: u64,
    /// The bytes of the allocation that it touches.
    pub(crate) bytes: Option<Range<usize>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// The name of the allocation, or of another thing that must not be shared.
    pub(crate) memory: Arc<str>,
    /// The size in bytes; 0 when it is no memory.
    pub(crate) size: usize,
    /// The bytes of it that the finding is about.
    pub(crate) bytes: Option<Range<usize>>,
    /// The first and the second operation, or the only one.
    pub(crate) sides: Vec<FindingSide>,
    /// The step up to which the second knew the component of the first.
    pub(crate) knew: u64,
}

impl FindingSide {
    pub(crate) fn plain(
        verb: &'static str,
        operation: &Arc<CheckedOperation>,
        time: u64,
    ) -> FindingSide {
        FindingSide { verb, operation: operation.clone(), time, bytes: None }
    }

    /// Returns a text that is equal for two findings of which only one need be told.
    pub(crate) fn kind(&self) -> String {
        format!("{} {} {}", self.verb, self.operation.what, self.place())
    }

    /// "stream 5 of device 2 of process 4711".
    pub(crate) fn place(&self) -> String {
        let CheckedOperation { place, process, .. } = &*self.operation;
        match process {
            None => place.clone(),
            Some(process) => format!("{place} of process {process}"),
        }
    }

    /// Where it ran: the host has no tasks.
    fn ran_at(&self) -> String {
        let place = self.place();
        if self.is_host() { place } else { format!("task {} of {place}", self.time) }
    }

    /// Whether a host did it, of this process or of another one.
    pub(crate) fn is_host(&self) -> bool {
        self.operation.place == HOST_NAME
    }

    fn is_abroad(&self) -> bool {
        self.operation.process.is_some()
    }
}

impl fmt::Display for FindingSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CheckedOperation { what, member, issued, .. } = &*self.operation;
        write!(f, "{}: {what}", self.verb)?;
        if let Some(member) = member {
            write!(f, " {member}")?;
        }
        write!(f, ", {}", self.ran_at())?;
        if let Some(bytes) = &self.bytes {
            write!(f, ", bytes {}..{}", bytes.start, bytes.end)?;
        }
        write!(f, "; {issued}")
    }
}

impl Finding {
    /// The first line.
    pub(crate) fn headline(&self) -> String {
        let memory = &self.memory;
        let bytes = match &self.bytes {
            Some(bytes) => format!("bytes {}..{} of {memory}", bytes.start, bytes.end),
            None => memory.to_string(),
        };
        match &self.kind {
            FindingKind::Kernel(found) => format!("kernel: {}", found.message),
            FindingKind::Race => {
                let how = if self.sides.iter().all(|side| side.verb != "read") {
                    "written twice"
                } else {
                    "read and written"
                };
                format!("race: {bytes} are {how}, and nothing orders the two")
            }
            FindingKind::Free => {
                format!("free in flight: {memory} is freed, and nothing says that it is not in use")
            }
            FindingKind::Freed => {
                format!(
                    "use after free: {bytes} are used by an operation that may run after the free"
                )
            }
            FindingKind::Unwritten => {
                format!("unwritten: {bytes} are read, and nobody has written them")
            }
            FindingKind::Overlap => format!("overlap: {bytes} are touched twice by one operation"),
            FindingKind::Shared => {
                format!(
                    "communicator: two operations of {memory} are on two streams, and nothing orders them"
                )
            }
            FindingKind::SetTwice => {
                format!("notify: {memory} is recorded while it is set; the second record is lost")
            }
            FindingKind::SetEarly => format!(
                "notify: {memory} is recorded again, and nothing says that the last wait for it is over"
            ),
        }
    }

    /// For a finding in a kernel: the rule, the place, and the order of steps in which it goes
    /// wrong.
    pub(crate) fn places(&self) -> Vec<String> {
        let FindingKind::Kernel(found) = &self.kind else { return Vec::new() };
        let place = format!("rule {}, {}:{}:{}", found.rule, found.file, found.line, found.column);
        let cores = found.cores.iter().map(|cores| format!("on {cores}"));
        let witness = found.witness.iter().map(|witness| format!("witness: {}", witness.text));
        [place].into_iter().chain(found.calls.iter().cloned()).chain(cores).chain(witness).collect()
    }

    /// Returns why the two operations are not ordered.
    pub(crate) fn reason(&self) -> Option<String> {
        let [first, second] = &self.sides[..] else { return None };
        match &self.kind {
            FindingKind::Overlap | FindingKind::SetTwice => return None,
            _ if self.crosses() => {}
            _ if first.is_host() && second.is_host() => return None,
            _ => {}
        }
        Some(if first.is_host() && !self.crosses() {
            "2 was enqueued before 1 was called, and was not waited for".into()
        } else if self.knew == 0 {
            format!("{} knew nothing of {}", second.place(), first.place())
        } else if first.is_host() {
            format!("{} did not know of that call of {}", second.place(), first.place())
        } else {
            let (b, a) = (second.place(), first.place());
            format!("{b} knew {a} up to task {}, and 1 is task {}", self.knew, first.time)
        })
    }

    /// Whether one of the sides is in another process.
    fn crosses(&self) -> bool {
        self.sides.iter().any(FindingSide::is_abroad)
    }

    /// Returns the advice to the user.
    pub(crate) fn help(&self) -> &str {
        let by_host = self.sides.last().is_some_and(FindingSide::is_host);
        match &self.kind {
            FindingKind::Kernel(found) => &found.help,
            FindingKind::Race if self.crosses() => {
                "let the rank of 1 record a notify of the channel behind 1, and the rank of 2 wait for it before 2; or let both take part in an operation in between"
            }
            FindingKind::Race if self.sides.iter().any(FindingSide::is_host) && !by_host => {
                "wait for 2 (aclrtSynchronizeStream, or an event) before 1 is called"
            }
            FindingKind::Race if by_host => {
                "wait for 1 before 2 is called: aclrtSynchronizeStream, aclrtSynchronizeEvent, or a query that says complete"
            }
            FindingKind::Race => {
                "record an event behind 1 (aclrtRecordEvent), and let the stream of 2 wait for it before 2 (aclrtStreamWaitEvent)"
            }
            FindingKind::Free | FindingKind::Freed if self.crosses() => {
                "let the rank that frees wait for a notify, or for an operation of the communicator, that comes behind the access"
            }
            FindingKind::Free | FindingKind::Freed => {
                "wait for the operation before the free (aclrtSynchronizeStream), or free with aclrtFreeWithDevSync"
            }
            FindingKind::Unwritten => {
                "write the bytes first: a copy, aclrtMemsetAsync, or an operation that has them as its destination"
            }
            FindingKind::Overlap => {
                "give the parts bytes of their own, or make them two operations"
            }
            FindingKind::Shared => {
                "keep to one stream, or let the second stream wait for an event behind the first operation"
            }
            FindingKind::SetTwice | FindingKind::SetEarly => {
                "let the stream that records wait for an event behind the wait, or take turns with two notifies"
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        for (number, side) in (1..).zip(&self.sides) {
            write!(f, "\n  {number} {side}")?;
        }
        for place in self.places() {
            write!(f, "\n  {place}")?;
        }
        if let Some(reason) = self.reason() {
            write!(f, "\n  {reason}")?;
        }
        write!(f, "\n  help: {}", self.help())
    }
}
