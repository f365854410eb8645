//! The texts of errors, for `Display` and for `Debug`.
//!
//! A text begins with the cause. The place follows in brackets: the operation with its number, the
//! communicator, the rank, and the code. The lines below show both sides of a mismatch and say what
//! to do. Each fact appears once. So the first line of the backend's text ([`Error::Call`],
//! [`Error::Failed`]) comes before the brackets, and its other lines come below.
//!
//! `Display` and `{:?}` are for people: `unwrap` and `fn main() -> hccl::Result<()>` print `{:?}`,
//! which is the name of the variant and the text. `{:#?}` is the structure.

use std::fmt::{self, Display, Formatter, Write as _};

use ascend_sys::{Library, MissingSymbol};

use super::counted::counted;
use super::finding::Finding;
use super::peers::MOST_RANKS;
use super::{Code, Error, OpContext};

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some((context, sides)) = self.mismatch() {
            return self.both_sides(f, context, &sides);
        }
        self.cause(f)?;
        let mut brackets = Brackets { f: &mut *f, open: false };
        match self.place() {
            ErrorSite::Nowhere => {}
            ErrorSite::Function(name) => brackets.put(format_args!("{name}"))?,
            ErrorSite::Operation(context) => brackets.put(format_args!("{context}"))?,
        }
        match self {
            Error::Call { function, code, message: Some(message), .. } => {
                // The message may already name the function.
                if !message.contains(function) {
                    brackets.put(format_args!("{function} returned {code}"))?;
                } else {
                    brackets.put(format_args!("{code}"))?;
                }
            }
            Error::Failed { code, message: Some(_), .. } => brackets.put(format_args!("{code}"))?,
            Error::Refused { .. } => brackets.put(format_args!("not issued"))?,
            _ => {}
        }
        brackets.close()?;
        self.below(f)
    }
}

/// The place that the text of an error shows in brackets.
enum ErrorSite<'a> {
    Nowhere,
    Function(&'static str),
    Operation(&'a OpContext),
}

impl Error {
    /// Returns the operation, and the text that shows both sides, if the ranks have made different
    /// calls.
    fn mismatch(&self) -> Option<(&OpContext, String)> {
        let (Error::Call { context: Some(context), .. } | Error::Failed { context, .. }) = self
        else {
            return None;
        };
        Some((context, context.peers.as_ref()?.sides()?))
    }

    fn both_sides(&self, f: &mut Formatter<'_>, context: &OpContext, sides: &str) -> fmt::Result {
        let name = context.communicator.as_deref().unwrap_or_default();
        let number = context.peers.as_ref().map_or(0, |peers| peers.number());
        write!(f, "collective mismatch on `{name}`, operation {number}:\n  {sides}")?;
        if let Error::Call { code, message, .. } | Error::Failed { code, message, .. } = self {
            let message = message.as_deref().unwrap_or_default();
            let (headline, rest) = first_line(message);
            let headline = without_task(headline);
            let semicolon = if headline.is_empty() { "" } else { "; " };
            write!(f, "\n  [{headline}{semicolon}{context}; {code}]")?;
            // The last line says what to do. The lines before it show the sides again, so they are
            // left out.
            let remedy = rest.and_then(|rest| rest.lines().last());
            remedy.map_or(Ok(()), |remedy| write!(f, "\n{remedy}"))?;
        }
        Ok(())
    }

    fn place(&self) -> ErrorSite<'_> {
        match self {
            Error::WrongDevice { operation, .. }
            | Error::WrongRuntime { operation, .. }
            | Error::WrongLength { operation, .. }
            | Error::WrongType { operation, .. }
            | Error::Empty { operation, .. }
            | Error::Overlap { operation, .. }
            | Error::Invalid { operation, .. } => ErrorSite::Function(operation),
            // The text of the cause already names the place.
            Error::Rank(_) | Error::Timeout { .. } => ErrorSite::Nowhere,
            _ => match self.context() {
                Some(context) if !context.is_unknown() => ErrorSite::Operation(context),
                _ => ErrorSite::Nowhere,
            },
        }
    }

    /// Writes what happened. This is one line for most variants. It has more lines if the text
    /// comes from another library or lists mistakes.
    fn cause(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoBackend { reason } => write!(f, "no backend: {reason}"),
            Error::MissingSymbol { function, .. } => write!(f, "the backend has no `{function}`"),
            Error::Call { message: Some(message), .. } => f.write_str(first_line(message).0),
            Error::Failed { context, message: Some(message), .. } => {
                let cause = first_line(message).0;
                // If the operation is no longer known, the brackets do not name it, so the line
                // keeps the task.
                let is_known = context.communicator.is_some();
                f.write_str(if is_known { without_task(cause) } else { cause })
            }
            Error::Call { function, code, .. } => write!(f, "{function} returned {code}"),
            Error::Failed { code, .. } => write!(f, "the operation failed on the device: {code}"),
            Error::Forgotten { .. } => f.write_str(
                "the operation failed, or cannot be distinguished from a failed operation of its \
                 stream: there were too many failures to keep the details; do not use its results, \
                 and correct the cause of the first failures",
            ),
            Error::HostFunctionPanicked { message, .. } => {
                write!(f, "the closure panicked: {message}")
            }
            Error::Timeout { after, context: Some(context), .. }
                if context.communicator.is_some() =>
            {
                write!(f, "{context}: timed out after {:.1} s", after.as_secs_f64())
            }
            Error::Timeout { what, after, .. } => {
                write!(f, "waited {:.1} s for {what}", after.as_secs_f64())
            }
            Error::WrongDevice { what, expected, found, .. } => {
                write!(f, "{what} belongs to device {found}, but the call uses device {expected}")
            }
            Error::WrongRuntime { what, .. } => {
                write!(f, "{what} belongs to another Runtime than the other objects of the call")
            }
            Error::WrongLength { what, expected, found, .. } => {
                let (found, verb) =
                    (counted(*found, "element"), if *expected == 1 { "is" } else { "are" });
                let needed = counted(*expected, "element");
                write!(f, "{what} has {found}, but {expected} {verb} needed: use exactly {needed}")
            }
            Error::WrongType { what, expected, found, .. } => {
                write!(
                    f,
                    "{what} has elements of type {found}, but {expected} are needed: use the same \
                     type for both"
                )
            }
            Error::OutOfRange { range, length } => {
                let (start, end) = (range.start, range.end);
                write!(
                    f,
                    "the range {start}..{end} does not lie in {}: use a range inside 0..{length}",
                    counted(*length, "element")
                )
            }
            Error::Empty { what, .. } => write!(f, "{what} is empty: give at least one element"),
            Error::TooLarge { elements, element } => {
                let element = counted(*element, "byte");
                write!(
                    f,
                    "{elements} elements of {element} are more than an address space holds: ask \
                     for fewer"
                )
            }
            Error::Overlap { bytes, .. } => {
                write!(f, "the source and the destination overlap by {}", counted(*bytes, "byte"))
            }
            Error::OutOfMemory { requested, place, .. } => {
                let bytes = counted(*requested, "byte");
                write!(
                    f,
                    "out of memory: {place} cannot give {bytes}; drop buffers, or ask for less"
                )
            }
            Error::NoSuchDevice { index, count } => {
                let devices = counted(*count, "device");
                write!(
                    f,
                    "there is no device {index}: this runtime has {devices}, numbered from 0; pass \
                     a lower index, or use a runtime with more devices"
                )
            }
            Error::TooFewDevices { ranks, devices } => {
                let (ranks, devices) =
                    (counted(*ranks as usize, "rank"), counted(*devices, "device"));
                let verb = if ranks == "1 rank" { "needs" } else { "need" };
                write!(f, "{ranks} {verb} a device each, but this runtime has {devices}")
            }
            Error::Refused { cause, .. } => cause.cause(f),
            Error::NoSuchRank { what, rank, world_size } => {
                let ranks = counted(*world_size as usize, "rank");
                write!(
                    f,
                    "{what} is {rank}, but the communicator has {ranks}, numbered from 0: pass a \
                     rank below {world_size}"
                )
            }
            Error::TooManyElements { count } => {
                let most = super::counts::MOST_ELEMENTS;
                write!(f, "{count} elements are more than HCCL takes in one operation ({most})")
            }
            Error::NotSupported { dtype, kind, product, who, .. } => {
                write!(f, "this operation does not reduce {dtype} ({kind}) on the {product}; {who}")
            }
            Error::NotReduced { dtype, kind } => {
                write!(f, "no Ascend product reduces {dtype} ({kind})")
            }
            Error::RootOnly { what, root, rank } if root == rank => {
                write!(f, "rank {rank} is the root, but has not passed {what}")
            }
            Error::RootOnly { what, root, rank } => {
                write!(
                    f,
                    "rank {rank} has passed {what}, but only the root, rank {root}, may pass it"
                )
            }
            Error::OwnMessage { rank } => {
                write!(f, "the peer is {rank}, which is this rank itself")
            }
            Error::Uneven { what, length, world_size } => {
                let (elements, ranks) =
                    (counted(*length, "element"), counted(*world_size as usize, "rank"));
                write!(f, "{what} has {elements}, which {ranks} cannot share evenly")
            }
            Error::Counts(error) => error.fmt(f),
            Error::Config(error) => error.fmt(f),
            Error::Batch(error) => error.fmt(f),
            Error::Tiling(error) => error.fmt(f),
            Error::Record(error) => error.fmt(f),
            Error::Operator(error) => f.write_str(first_line(&error.to_string()).0),
            Error::Aborted { .. } => f.write_str("the communicator was aborted"),
            Error::OperatorFailed { operator, sequence, cause } => {
                let cause = cause.to_string();
                let cause = first_line(&cause).0;
                write!(f, "the operator `{operator}` #{sequence} has failed before: {cause}")
            }
            Error::Rank(error) => error.fmt(f),
            Error::Job(error) => error.fmt(f),
            Error::RankGone { rank, reason } => {
                write!(f, "rank {rank} is gone, so correct that rank first: {reason}")
            }
            Error::Found { findings } => {
                let first = findings.first().map(Finding::to_string).unwrap_or_default();
                f.write_str(first_line(&first).0)
            }
            Error::Invalid { problem, .. } => f.write_str(problem),
        }
    }

    /// Writes the lines below the first one: details, and what to do.
    fn below(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Error::Call { message: Some(message), .. }
            | Error::Failed { message: Some(message), .. } => match first_line(message).1 {
                Some(rest) => write!(f, "\n{rest}"),
                None => Ok(()),
            },
            Error::Timeout { message, context, .. } => {
                let peers = context.as_ref().and_then(|context| context.peers.as_ref());
                let all = context.as_ref().and_then(|context| context.world_size).unwrap_or(0);
                if let Some(peers) = peers {
                    write!(f, "\n  {}", peers.attendance())?;
                } else if all > MOST_RANKS {
                    write!(f, "\n  {all} ranks: missing ranks are listed for up to {MOST_RANKS}")?;
                }
                // The backend's own message, unless it is about the missing ranks, which are
                // already listed.
                let own = context.as_ref().and_then(|context| context.rank);
                let is_about = peers.is_some_and(|it| it.sequence != 0 && it.lacks_others(own));
                if let Some(message) = message.as_ref().filter(|_| !is_about) {
                    write!(f, "\n  {message}")?;
                }
                f.write_str("\nThe operation goes on, and its memory stays reserved. Wait again, or set a longer deadline.")
            }
            Error::Forgotten { last: Some(last) } => {
                write!(f, "\nThe last failure that is known: {last}")
            }
            Error::WrongDevice { found, .. } => {
                write!(
                    f,
                    "\nUse a stream and objects of one device, for example of device {found}."
                )
            }
            Error::WrongRuntime { .. } => {
                f.write_str("\nMake one Runtime and clone it: objects of two Runtimes do not mix.")
            }
            Error::MissingSymbol { function, tried, .. } => {
                let missing = MissingSymbol::named(function);
                write!(f, "\n  {missing}\n  looked in {}", tried.join(", "))?;
                match missing.library {
                    Library::None | Library::Extension => Ok(()),
                    _ => f.write_str("\nInstall a release of CANN that has it."),
                }
            }
            Error::OutOfMemory { free, total, .. } if *total != 0 => {
                write!(f, "\n  {free} of {total} bytes are free")
            }
            Error::TooFewDevices { ranks, .. } => write!(
                f,
                "\nRun fewer ranks, or get more devices: `Runtime::emulator({ranks})` has as many as are needed here; with CANN, \
                 ASCEND_RT_VISIBLE_DEVICES says which are used."
            ),
            Error::Overlap { .. } => f.write_str(
                "\nUse ranges that have no byte in common, or the method `.._in_place` if the operation has one.",
            ),
            Error::TooManyElements { .. } => f.write_str("\nIssue several operations over slices."),
            Error::NotSupported { instead, .. } => write!(f, "\n{instead}"),
            Error::NotReduced { .. } => write!(
                f,
                "\nConvert before reducing, for example u8, u16 or i16 to i32, u32 to i64, bf16 to f32."
            ),
            Error::Operator(error) => match first_line(&error.to_string()).1 {
                Some(rest) => write!(f, "\n{rest}"),
                None => Ok(()),
            },
            Error::Found { findings } => {
                for (number, finding) in findings.iter().enumerate() {
                    let text = finding.to_string();
                    match first_line(&text) {
                        (_, rest) if number == 0 => write!(f, "\n{}", rest.unwrap_or_default())?,
                        _ => write!(f, "\n{text}")?,
                    }
                }
                Ok(())
            }
            Error::RootOnly { .. } => {
                f.write_str("\nPass `Some(..)` on the root, and `None` on the other ranks.")
            }
            Error::OwnMessage { .. } => {
                f.write_str("\nUse `DeviceBuffer::copy_from`, or a batch with send and receive.")
            }
            Error::Uneven { world_size, .. } => write!(
                f,
                "\nUse a multiple of {world_size}, or the operation with a `Partition`, whose parts may differ."
            ),
            Error::Aborted { .. } => {
                f.write_str("\nDrop the communicator, and build a new one on all ranks.")
            }
            Error::OperatorFailed { .. } => f.write_str(
                "\nThe state of the communicator's notifies is undefined: drop the communicator, \
                 and build a new one on all ranks.",
            ),
            Error::Refused { cause, .. } => cause.below(f),
            _ => Ok(()),
        }
    }
}

/// Returns a line without the task in brackets that the backend may have put at its end.
fn without_task(line: &str) -> &str {
    let own = line.strip_suffix(']').and_then(|line| line.rsplit_once(" ["));
    own.map_or(line, |(line, _)| line)
}

/// Returns the first line of a text, and the other lines if there are any.
fn first_line(text: &str) -> (&str, Option<&str>) {
    text.split_once('\n').map_or((text, None), |(first, rest)| (first, Some(rest)))
}

/// A writer of facts in brackets, for example ` [fact; fact]`. Without facts it writes nothing.
struct Brackets<'a, 'f> {
    f: &'a mut Formatter<'f>,
    open: bool,
}

impl Brackets<'_, '_> {
    fn put(&mut self, what: fmt::Arguments<'_>) -> fmt::Result {
        self.f.write_str(if self.open { "; " } else { " [" })?;
        self.open = true;
        self.f.write_fmt(what)
    }

    fn close(self) -> fmt::Result {
        if self.open { self.f.write_char(']') } else { Ok(()) }
    }
}

impl Display for OpContext {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        if self.sequence != 0 {
            write!(f, " #{}", self.sequence)?;
        }
        if let Some(communicator) = &self.communicator {
            write!(f, " on `{communicator}`")?;
        }
        match (self.rank, self.world_size) {
            (Some(rank), Some(all)) => write!(f, " (rank {rank} of {all})"),
            (Some(rank), None) => write!(f, " (rank {rank})"),
            (None, _) => Ok(()),
        }
    }
}

impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let number: &dyn Display = match self {
            Code::Acl(code) => code,
            Code::Hccl(code) => code,
        };
        match self.name() {
            Some(name) => write!(f, "{name} ({number})"),
            None => write!(f, "unknown code {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(message: Option<&str>) -> Error {
        Error::Call {
            function: "HcclAllReduce",
            code: Code::Hccl(1),
            message: message.map(Into::into),
            context: None,
        }
        .in_operation(|| OpContext {
            communicator: Some("world".into()),
            rank: Some(2),
            world_size: Some(8),
            ..OpContext::new("all_reduce", 7)
        })
    }

    #[test]
    fn the_cause_comes_first_then_where_then_the_rest_and_each_once() {
        let place = "[all_reduce #7 on `world` (rank 2 of 8)";
        assert_eq!(
            failed(None).to_string(),
            format!("HcclAllReduce returned HCCL_E_PARA (1) {place}]")
        );
        assert_eq!(
            failed(Some("EI0005: the counts differ\n  rank 0\nMake them equal.")).to_string(),
            format!(
                "EI0005: the counts differ {place}; HcclAllReduce returned HCCL_E_PARA (1)]\n  rank 0\nMake them equal."
            )
        );
        assert_eq!(
            failed(Some("HcclAllReduce: sendBuf is NULL")).to_string(),
            format!("HcclAllReduce: sendBuf is NULL {place}; HCCL_E_PARA (1)]")
        );
    }

    #[test]
    fn a_communicator_that_is_too_large_for_lists_says_so() {
        let text = |world_size| {
            let context =
                OpContext { world_size: Some(world_size), ..OpContext::new("barrier", 3) };
            let (what, after) = ("barrier #3".into(), std::time::Duration::from_secs(5));
            let context = Some(Box::new(context));
            Error::Timeout { what, after, message: None, context }.to_string()
        };
        assert!(text(1025).contains("1025 ranks: missing ranks are listed for up to 1024"));
        assert!(!text(1024).contains("missing ranks"));
    }

    #[test]
    fn a_task_in_the_words_of_the_backend_is_shown_only_when_there_are_no_own() {
        let failed = |context| Error::Failed {
            context: Box::new(context),
            code: Code::Hccl(9),
            message: Some("EI0002: rank 1 did not come [HcclBarrier #3]\nLook.".into()),
        };
        let known = OpContext { communicator: Some("w".into()), ..OpContext::new("barrier", 3) };
        assert_eq!(
            failed(known).to_string(),
            "EI0002: rank 1 did not come [barrier #3 on `w`; HCCL_E_TIMEOUT (9)]\nLook."
        );
        assert_eq!(
            failed(OpContext::unknown()).to_string(),
            "EI0002: rank 1 did not come [HcclBarrier #3] [HCCL_E_TIMEOUT (9)]\nLook."
        );
    }

    #[test]
    fn a_refused_call_is_told_once() {
        let cause = Error::WrongLength {
            operation: "all_reduce",
            what: "the destination",
            expected: 4,
            found: 1,
        };
        assert_eq!(
            cause.to_string(),
            "the destination has 1 element, but 4 are needed: use exactly 4 elements [all_reduce]"
        );
        let context = OpContext::new("all_reduce", 3);
        let refused = Error::Refused { context: Box::new(context), cause: Box::new(cause) };
        assert_eq!(
            refused.to_string(),
            "the destination has 1 element, but 4 are needed: use exactly 4 elements [all_reduce \
             #3; not issued]"
        );
    }

    #[test]
    fn a_mismatch_shows_what_each_rank_has_called() {
        use crate::error::{CommCause, ErrorKind, PeerCall, PeerReport, PeerState, Presence};
        let state = |operation: &str| PeerState {
            presence: Presence::Arrived,
            sequence: 42,
            call: Some(PeerCall {
                operation: operation.into(),
                dtype: Some(crate::dtype::DType::F16),
                count: Some(4096),
                reduction: None,
                root: None,
            }),
            note: Box::default(),
            quiet: None,
        };
        let ranks = [state("all_gather"), state("all_to_all")].into();
        let report =
            PeerReport { failed: true, cause: Some(CommCause::Mismatch), sequence: 42, ranks };
        let context = OpContext {
            communicator: Some("tp1".into()),
            rank: Some(1),
            world_size: Some(2),
            peers: Some(std::sync::Arc::new(report)),
            ..OpContext::new("all_to_all", 42)
        };
        let error = Error::Failed {
            context: Box::new(context),
            code: Code::Hccl(1),
            message: Some("EI0005: they differ\n  here\nMake them equal.".into()),
        };
        assert_eq!(
            error.to_string(),
            "collective mismatch on `tp1`, operation 42:\n  \
             rank 0: all_gather(f16, 4096)     rank 1: all_to_all(f16, 4096)\n  \
             [EI0005: they differ; all_to_all #42 on `tp1` (rank 1 of 2); HCCL_E_PARA (1)]\nMake them equal."
        );
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert_eq!(error.claims().len(), 2);
        assert_eq!(error.is_communicator_usable(), Some(false));
        assert!(!error.is_retryable());
    }

    #[test]
    fn debug_is_the_text_with_the_variant_or_the_structure() {
        let error = Error::NoSuchDevice { index: 2, count: 1 };
        assert_eq!(
            format!("{error:?}"),
            "NoSuchDevice: there is no device 2: this runtime has 1 device, numbered from 0; pass \
             a lower index, or use a runtime with more devices"
        );
        let structure = format!("{error:#?}");
        assert!(structure.contains("index: 2") && structure.contains("count: 1"), "{structure}");
    }
}
