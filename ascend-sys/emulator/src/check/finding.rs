//! Findings and their texts. A text has the mistake and its place, then both sides, then the
//! remedy.

use super::shadow::CheckedOperation;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The name of the host in the texts.
pub(super) const HOST_NAME: &str = "the host";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FindingKind {
    /// Two accesses to a byte that nothing orders, at least one of them a write.
    Race,
    /// A free while an access may still be running.
    Free,
    /// An access that may come after the free.
    Freed,
    /// A read of bytes that were never written.
    Unwritten,
    /// Two parts of one operation that touch the same bytes.
    Overlap,
    /// Two operations of one rank of a communicator that nothing orders.
    Shared,
    /// A notify that is set again while it is set.
    SetTwice,
    /// A notify that is set again although its last wait may not be over.
    SetEarly,
    /// A kernel that has broken a rule of kernels, in a part that the check before its launch had
    /// to leave out.
    Kernel(Box<ascend_program::check::Finding>),
}

/// One of the two operations of a finding.
#[derive(Clone, Debug)]
pub(crate) struct FindingSide {
    /// The kind of the operation: "read", "write", "reduce", "set", "wait" or "run".
    pub(crate) verb: &'static str,
    pub(crate) operation: Arc<CheckedOperation>,
    /// The number of its step in its component.
    pub(crate) time: u64,
    /// The bytes that it touches, as offsets in the allocation.
    pub(crate) bytes: Option<Range<usize>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: FindingKind,
    /// The name of the allocation, or of another object that the finding is about.
    pub(crate) memory: Arc<str>,
    /// The size of the allocation in bytes; 0 if the finding is not about memory.
    pub(crate) size: usize,
    /// The bytes that the finding is about, as offsets in the allocation.
    pub(crate) bytes: Option<Range<usize>>,
    /// The first and the second operation, or the only operation.
    pub(crate) sides: Vec<FindingSide>,
    /// The last step of the first operation's component that the second operation is ordered after;
    /// 0 if there is none.
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

    /// Returns a text that is equal for the sides of similar findings, of which only one is
    /// reported.
    pub(crate) fn kind(&self) -> String {
        format!("{} {} {}", self.verb, self.operation.what, self.place())
    }

    /// Returns the place of the operation: "stream 5 of device 2 of process 4711".
    pub(crate) fn place(&self) -> String {
        let CheckedOperation { place, process, .. } = &*self.operation;
        match process {
            None => place.clone(),
            Some(process) => format!("{place} of process {process}"),
        }
    }

    /// Returns the place of the operation with its task number. The host has no tasks.
    fn ran_at(&self) -> String {
        let place = self.place();
        if self.is_host() { place } else { format!("task {} of {place}", self.time) }
    }

    /// Returns whether the host of this or another process did the operation.
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
    /// Returns the first line of the text.
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
                format!("free in flight: {memory} is freed, but it may still be in use")
            }
            FindingKind::Freed => {
                format!(
                    "use after free: {bytes} are used by an operation that may run after the free"
                )
            }
            FindingKind::Unwritten => {
                format!("unwritten: {bytes} are read, but were never written")
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
                "notify: {memory} is recorded again, but the last wait for it may not be over"
            ),
        }
    }

    /// Returns lines for a finding in a kernel: the rule and the place, the calls around the place,
    /// the cores, and an order of steps in which the error happens. Returns no line for other
    /// findings.
    pub(crate) fn places(&self) -> Vec<String> {
        let FindingKind::Kernel(found) = &self.kind else { return Vec::new() };
        let place = format!("rule {}, {}:{}:{}", found.rule, found.file, found.line, found.column);
        let cores = found.cores.iter().map(|cores| format!("on {cores}"));
        let witness = found.witness.iter().map(|witness| format!("witness: {}", witness.text));
        [place].into_iter().chain(found.calls.iter().cloned()).chain(cores).chain(witness).collect()
    }

    /// Returns the reason why the two operations are not ordered. Returns `None` for a finding with
    /// one operation, and for a kind that needs no reason.
    pub(crate) fn reason(&self) -> Option<String> {
        let [first, second] = &self.sides[..] else { return None };
        match &self.kind {
            FindingKind::Overlap | FindingKind::SetTwice => return None,
            _ if self.crosses() => {}
            _ if first.is_host() && second.is_host() => return None,
            _ => {}
        }
        Some(if first.is_host() && !self.crosses() {
            "2 was enqueued before 1 was called, and the host did not wait for 2".into()
        } else if self.knew == 0 {
            format!("{} is not ordered after {}", second.place(), first.place())
        } else if first.is_host() {
            format!("{} is not ordered after that call of {}", second.place(), first.place())
        } else {
            let (b, a) = (second.place(), first.place());
            format!(
                "{b} is ordered after {a} up to task {}, but 1 is task {}",
                self.knew, first.time
            )
        })
    }

    /// Returns whether one of the sides is in another process.
    fn crosses(&self) -> bool {
        self.sides.iter().any(FindingSide::is_abroad)
    }

    /// Returns the advice to the user.
    pub(crate) fn help(&self) -> &str {
        let by_host = self.sides.last().is_some_and(FindingSide::is_host);
        match &self.kind {
            FindingKind::Kernel(found) => &found.help,
            FindingKind::Race if self.crosses() => {
                "let the rank of 1 record a notify of the channel after 1, and the rank of 2 wait for it before 2; or let both take part in an operation in between"
            }
            FindingKind::Race if self.sides.iter().any(FindingSide::is_host) && !by_host => {
                "wait for 2 (aclrtSynchronizeStream, or an event) before 1 is called"
            }
            FindingKind::Race if by_host => {
                "wait for 1 before 2 is called: aclrtSynchronizeStream, aclrtSynchronizeEvent, or a query that reports completion"
            }
            FindingKind::Race => {
                "record an event after 1 (aclrtRecordEvent), and let the stream of 2 wait for it before 2 (aclrtStreamWaitEvent)"
            }
            FindingKind::Free | FindingKind::Freed if self.crosses() => {
                "let the rank that frees wait for a notify, or for an operation of the communicator, that comes after the access"
            }
            FindingKind::Free | FindingKind::Freed => {
                "wait for the operation before the free (aclrtSynchronizeStream), or free with aclrtFreeWithDevSync"
            }
            FindingKind::Unwritten => {
                "write the bytes first: a copy, aclrtMemsetAsync, or an operation that has them as its destination"
            }
            FindingKind::Overlap => {
                "let the parts use different bytes, or make them two operations"
            }
            FindingKind::Shared => {
                "use one stream, or let the second stream wait for an event that is recorded after the first operation"
            }
            FindingKind::SetTwice | FindingKind::SetEarly => {
                "let the recording stream wait for an event that is recorded after the wait, or use two notifies in turn"
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
