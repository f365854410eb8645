//! What can go wrong: one enum, structured, with both values wherever two things do not match.
//!
//! Mistakes in a call are found before CANN is called and say what to do ([`Error::WrongLength`], [`Error::WrongDevice`], ...).
//! A code that CANN returns comes with its name, the function, CANN's own text and the operation it belongs to
//! ([`Error::Call`]). What goes wrong later, on the device, is [`Error::Failed`].
//!
//! Errors are `Clone`: one failed operation is reported to whoever awaits it and, when nobody does, by the stream.

#![forbid(unsafe_code)]

mod names;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No usable backend was found.
    #[error("no backend: {reason}")]
    NoBackend {
        /// What was tried, and the ways out.
        reason: Box<str>,
    },
    /// The backend does not have a function that is needed here.
    #[error("the backend has no `{function}`{}", OfOperation(context))]
    MissingSymbol {
        /// The C function.
        function: &'static str,
        /// The operation that needed it.
        context: Option<Box<OpContext>>,
    },
    /// A CANN function returned a code.
    #[error("{function} returned {code}{}{}", OfOperation(context), Text(message))]
    Call {
        /// The C function.
        function: &'static str,
        /// What it returned.
        code: Code,
        /// CANN's text (`aclGetRecentErrMsg`), read on the thread of the call.
        message: Option<Box<str>>,
        /// The operation that made the call.
        context: Option<Box<OpContext>>,
    },
    /// An operation that had been issued failed on the device. Contents of its destinations are unspecified.
    #[error("{context} failed with {code}{}", Text(message))]
    Failed {
        /// The operation, as far as it is known.
        context: Box<OpContext>,
        /// CANN's code.
        code: Code,
        /// CANN's text.
        message: Option<Box<str>>,
    },
    /// An operation failed, or cannot be told from those that did: its stream had more failures than are remembered one by
    /// one, and it lies among the old ones.
    #[error(
        "failed, or cannot be told from operations of its stream that did; the details are gone{}",
        LastKnown(last)
    )]
    Forgotten {
        /// The last of these failures whose details were known.
        last: Option<Box<Error>>,
    },
    /// A closure given to [`Stream::host_fn`](crate::Stream::host_fn) panicked.
    #[error("{context}: the closure panicked: {message}")]
    HostFunctionPanicked {
        /// The operation.
        context: Box<OpContext>,
        /// What it panicked with.
        message: Box<str>,
    },
    /// Something did not happen in time. What was waited for goes on and its memory stays reserved.
    #[error("waited {after:?} for {what}{}", Text(message))]
    Timeout {
        /// What was waited for.
        what: Box<str>,
        /// How long.
        after: Duration,
        /// What the backend says about it.
        message: Option<Box<str>>,
    },
    /// A buffer, stream, event or communicator belongs to another device.
    #[error("{operation}: {what} belongs to device {found}, the stream to device {expected}")]
    WrongDevice {
        /// The operation.
        operation: &'static str,
        /// Which argument.
        what: &'static str,
        /// Index of the stream's device.
        expected: usize,
        /// Index of the argument's device.
        found: usize,
    },
    /// A buffer, stream, event or communicator belongs to another [`Runtime`](crate::Runtime).
    #[error("{operation}: {what} belongs to another Runtime than the stream")]
    WrongRuntime {
        /// The operation.
        operation: &'static str,
        /// Which argument.
        what: &'static str,
    },
    /// Two lengths that must be equal are not.
    #[error("{operation}: {what} has {found} elements, {expected} are needed")]
    WrongLength {
        /// The operation.
        operation: &'static str,
        /// Which argument.
        what: &'static str,
        /// Elements needed.
        expected: usize,
        /// Elements found.
        found: usize,
    },
    /// A range does not lie inside the buffer.
    #[error("range {}..{} does not lie in a buffer of {length} elements", range.start, range.end)]
    OutOfRange {
        /// The range, in elements.
        range: Range<usize>,
        /// Length of the buffer in elements.
        length: usize,
    },
    /// Something that must have at least one element has none.
    #[error("{operation}: {what} is empty")]
    Empty {
        /// The operation.
        operation: &'static str,
        /// Which argument.
        what: &'static str,
    },
    /// A size in bytes does not fit the address space.
    #[error("{elements} elements of {element} bytes are more than an address space holds")]
    TooLarge {
        /// How many elements.
        elements: usize,
        /// Bytes of one.
        element: usize,
    },
    /// The source and the destination share memory.
    #[error("{operation}: source and destination overlap by {bytes} bytes")]
    Overlap {
        /// The operation.
        operation: &'static str,
        /// How many bytes they share.
        bytes: usize,
    },
    /// The device (or pinned host memory) is full, also after everything that was dropped has been freed.
    #[error("out of memory: {requested} bytes on {place}; {free} of {total} bytes are free")]
    OutOfMemory {
        /// Bytes asked for.
        requested: usize,
        /// The device, or pinned host memory.
        place: Box<str>,
        /// Bytes free now (0 when unknown).
        free: usize,
        /// Bytes in all (0 when unknown).
        total: usize,
    },
    /// There is no such device.
    #[error("there is no device {index}: this runtime has {count}, numbered from 0")]
    NoSuchDevice {
        /// The index asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// An operation of a communicator was refused before it was issued: it took no number and left the buffers alone.
    #[error("{context} was refused: {cause}")]
    Refused {
        /// The operation, with the number it would have had.
        context: Box<OpContext>,
        /// Why.
        cause: Box<Error>,
    },
    /// A rank was named that the communicator does not have.
    #[error("{what} is {rank}, but the communicator has {} (numbered from 0)", Ranks(*world_size))]
    NoSuchRank {
        /// Which argument.
        what: &'static str,
        /// The rank that was named.
        rank: u32,
        /// How many ranks there are.
        world_size: u32,
    },
    /// More elements than HCCL takes in one operation.
    #[error(
        "{count} elements are more than HCCL takes in one operation ({}): issue several over slices",
        crate::collective::MOST_ELEMENTS
    )]
    TooManyElements {
        /// How many were given.
        count: usize,
    },
    /// The product does not reduce this type, though another one does.
    #[error(
        "the {product} does not reduce {dtype} ({kind}), only the Ascend 950 does: convert to {instead}"
    )]
    NotSupported {
        /// Type of the elements.
        dtype: crate::dtype::DType,
        /// The reduction.
        kind: crate::dtype::ReduceKind,
        /// The product at hand.
        product: crate::runtime::Product,
        /// The nearest type that it reduces.
        instead: crate::dtype::DType,
    },
    /// A setting of a communicator that CANN would refuse, ignore or misread.
    #[error(transparent)]
    Config(#[from] crate::comm::ConfigError),
    /// A list of messages that CANN would refuse, leave waiting or deliver wrongly.
    #[error(transparent)]
    Batch(#[from] crate::batch::BatchError),
    /// The communicator was ended by [`AbortHandle::abort`](crate::comm::AbortHandle::abort).
    #[error(
        "the communicator was aborted{}: drop it, and build a new one on all ranks",
        OfOperation(context)
    )]
    Aborted {
        /// The operation that was waited for. It may still be in flight.
        context: Option<Box<OpContext>>,
    },
    /// A rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) failed: the first that did.
    #[error(transparent)]
    Rank(crate::ranks::RankError),
    /// Another rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) is gone, so there is nothing to wait for.
    #[error("rank {rank} is gone: {reason}")]
    RankGone {
        /// The rank that is gone.
        rank: u32,
        /// Why.
        reason: Box<str>,
    },
    /// An argument that is none of the above.
    #[error("{operation}: {problem}")]
    Invalid {
        /// The operation.
        operation: &'static str,
        /// What is wrong and what to do.
        problem: Box<str>,
    },
}

/// Names an operation in an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpContext {
    /// What was called, for example `all_reduce`.
    pub operation: &'static str,
    /// The communicator's name.
    pub communicator: Option<Box<str>>,
    /// This process's rank in the communicator.
    pub rank: Option<u32>,
    /// The number of the operation: in its communicator, or in its stream when it has none. From 1.
    pub sequence: u64,
}

impl OpContext {
    /// An operation without a communicator.
    pub(crate) fn new(operation: &'static str, sequence: u64) -> Self {
        Self { operation, communicator: None, rank: None, sequence }
    }
}

impl fmt::Display for OpContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        if self.sequence != 0 {
            write!(f, " #{}", self.sequence)?;
        }
        if let Some(communicator) = &self.communicator {
            write!(f, " of communicator {communicator}")?;
        }
        if let Some(rank) = self.rank {
            write!(f, ", rank {rank}")?;
        }
        Ok(())
    }
}

/// A code of CANN with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// An AscendCL code (`aclError`).
    Acl(i32),
    /// An HCCL or HCOMM code (`HcclResult`).
    Hccl(u32),
}

impl Code {
    /// CANN's name for the code, for example `ACL_ERROR_RT_CONTEXT_NULL` or `HCCL_E_TIMEOUT`.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Code::Acl(code) => names::acl(code),
            Code::Hccl(code) => names::hccl(code),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number: &dyn fmt::Display = match self {
            Code::Acl(code) => code,
            Code::Hccl(code) => code,
        };
        match self.name() {
            Some(name) => write!(f, "{name} ({number})"),
            None => write!(f, "unknown code {number}"),
        }
    }
}

impl Error {
    /// Says which operation the error belongs to, unless it says so already.
    pub(crate) fn in_operation(mut self, operation: impl FnOnce() -> OpContext) -> Self {
        if let Error::Call { context, .. } | Error::MissingSymbol { context, .. } = &mut self
            && context.is_none()
        {
            *context = Some(Box::new(operation()));
        }
        self
    }

    /// The code that CANN returned, when that is what went wrong.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Call { code, .. } | Error::Failed { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The operation it belongs to, when it belongs to one.
    pub fn context(&self) -> Option<&OpContext> {
        match self {
            Error::Call { context, .. }
            | Error::MissingSymbol { context, .. }
            | Error::Aborted { context } => context.as_deref(),
            Error::Failed { context, .. }
            | Error::HostFunctionPanicked { context, .. }
            | Error::Refused { context, .. } => Some(context),
            _ => None,
        }
    }

    /// Whether something did not happen in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout { .. })
    }
}

/// A number of ranks in words.
struct Ranks(u32);

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 1 { f.write_str("1 rank") } else { write!(f, "{} ranks", self.0) }
    }
}

struct OfOperation<'a>(&'a Option<Box<OpContext>>);

impl fmt::Display for OfOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |context| write!(f, " in {context}"))
    }
}

struct Text<'a>(&'a Option<Box<str>>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

struct LastKnown<'a>(&'a Option<Box<Error>>);

impl fmt::Display for LastKnown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |last| write!(f, "; the last known of them: {last}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_its_name() {
        assert_eq!(Code::Acl(107002).to_string(), "ACL_ERROR_RT_CONTEXT_NULL (107002)");
        assert_eq!(Code::Hccl(9).to_string(), "HCCL_E_TIMEOUT (9)");
        assert_eq!(Code::Acl(1).to_string(), "unknown code 1");
    }

    #[test]
    fn an_error_names_function_operation_and_text() {
        let error = Error::Call {
            function: "HcclAllReduce",
            code: Code::Hccl(1),
            message: Some("count".into()),
            context: None,
        };
        let error = error.in_operation(|| OpContext {
            operation: "all_reduce",
            communicator: Some("world".into()),
            rank: Some(2),
            sequence: 7,
        });
        assert_eq!(
            error.to_string(),
            "HcclAllReduce returned HCCL_E_PARA (1) in all_reduce #7 of communicator world, rank 2: count"
        );
    }
}
