//! Errors: one structured enum, with both values wherever two things do not match. Use
//! [`Error::kind`] to choose what to do next, and the variants of [`Error`] only where their fields
//! are needed. Printing an error takes no match: its text says what happened, where, and what to
//! do.
//!
//! The checks find mistakes in a call before CANN is called, and say what to do
//! ([`Error::WrongLength`], [`Error::WrongDevice`], ...). A code that CANN returns comes with its
//! name, the function, CANN's own text and the operation it belongs to ([`Error::Call`]). A failure
//! later, on the device, is [`Error::Failed`].
//!
//! Errors are `Clone`: one failed operation is reported to every task or thread that awaits it and,
//! when nobody does, by the stream.

#![forbid(unsafe_code)]

pub(crate) mod batch;
mod code;
pub(crate) mod config;
mod context;
pub(crate) mod counts;
mod debug;
pub(crate) mod finding;
pub(crate) mod kernel;
pub(crate) mod kind;
mod names;
pub(crate) mod operator;
pub(crate) mod peers;
pub(crate) mod product;
pub(crate) mod rank;
mod text;
pub(crate) mod tiling;

pub use code::Code;
pub use context::OpContext;
use context::UNKNOWN;
pub use kind::ErrorKind;
pub use peers::{Claim, CommCause, PeerCall, PeerReport, PeerState, Presence};
pub(crate) use rank::panic_text;

use std::ops::Range;
use std::time::Duration;

/// The result of everything in this crate that can fail.
///
/// ```
/// use hccl::prelude::*;
///
/// fn sum(rank: &Rank, stream: &Stream) -> hccl::Result<Vec<f32>> {
///     let mut x = rank.device().upload(&[1.0, 2.0], stream)?;
///     rank.communicator()?.all_reduce_in_place(&mut x, Sum, stream)?;
///     x.to_vec(stream).wait()
/// }
/// # let runtime = Runtime::emulator(2)?;
/// # let sums = runtime.run_ranks(2, |rank| sum(&rank, &rank.device().stream()?))?;
/// # assert_eq!(sums[1], [2.0, 4.0]);
/// # Ok::<(), hccl::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
///
/// `Display` gives the cause, then in brackets where it happened, then lines that show both sides
/// of what does not match and say what to do. `{:?}` is the same with the name of the variant in
/// front, so that `unwrap` and a `main` that returns an error print something to read; `{:#?}` is
/// the structure.
///
/// ```
/// use hccl::prelude::*;
///
/// use hccl::Error;
///
/// # let runtime = Runtime::emulator(1)?;
/// # runtime.run_ranks(1, |rank| {
/// # let device = rank.device();
/// # let stream = device.stream()?;
/// # let mut comm = rank.communicator()?;
/// let x = device.upload(&[1.0_f32; 4], &stream)?;
/// let mut y = device.zeros::<f32>(3, &stream)?;
/// let error: Error = comm.all_reduce(&x, &mut y, Sum, &stream).unwrap_err();
/// assert_eq!((error.kind(), error.operation()), (hccl::ErrorKind::Misuse, Some("all_reduce")));
/// eprintln!("{error}"); // 4 elements to 3, where it happened, and what to do
/// # Ok::<_, Error>(())
/// # })?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Error {
    /// No usable backend was found.
    NoBackend {
        /// The backends that were tried, and the ways out.
        reason: Box<str>,
    },
    /// The backend does not have a function that the call needs. The text names its library and the
    /// first release that has it.
    MissingSymbol {
        /// The C function.
        function: &'static str,
        /// The files of the libraries that were loaded and searched.
        tried: Box<[String]>,
        /// The operation that needed it.
        context: Option<Box<OpContext>>,
    },
    /// A CANN function returned a code.
    Call {
        /// The C function.
        function: &'static str,
        /// The code that it returned.
        code: Code,
        /// CANN's text (`aclGetRecentErrMsg`), read on the thread of the call.
        message: Option<Box<str>>,
        /// The operation that made the call.
        context: Option<Box<OpContext>>,
    },
    /// An operation that had been issued failed on the device. Contents of its destinations are
    /// unspecified.
    Failed {
        /// The operation, as far as it is known.
        context: Box<OpContext>,
        /// CANN's code.
        code: Code,
        /// CANN's text.
        message: Option<Box<str>>,
    },
    /// An operation failed, or cannot be told from those that did: its stream had more failures
    /// than are remembered one by one, and the operation lies among the old ones.
    Forgotten {
        /// The last of these failures whose details were known.
        last: Option<Box<Error>>,
    },
    /// A closure given to [`Stream::host_fn`](crate::Stream::host_fn) panicked.
    HostFunctionPanicked {
        /// The operation.
        context: Box<OpContext>,
        /// The message of the panic.
        message: Box<str>,
    },
    /// An operation or another rank did not come in time. It goes on, and its memory stays
    /// reserved.
    Timeout {
        /// The operation or the rank that was waited for.
        what: Box<str>,
        /// The time that was waited.
        after: Duration,
        /// The backend's own message about it.
        message: Option<Box<str>>,
        /// The operation that was waited for, if it was one, and the states of its ranks.
        context: Option<Box<OpContext>>,
    },
    /// A buffer, stream, event or communicator belongs to another device.
    WrongDevice {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The name of the argument.
        what: &'static str,
        /// Index of the stream's device.
        expected: usize,
        /// Index of the argument's device.
        found: usize,
    },
    /// A buffer, stream, event or communicator belongs to another [`Runtime`](crate::Runtime).
    WrongRuntime {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The name of the argument.
        what: &'static str,
    },
    /// Two lengths that must be equal are not.
    WrongLength {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The name of the argument.
        what: &'static str,
        /// Elements needed.
        expected: usize,
        /// Elements found.
        found: usize,
    },
    /// The elements are of another type, which only shows at run time.
    WrongType {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The name of the argument.
        what: &'static str,
        /// The type needed.
        expected: crate::dtype::DType,
        /// The type found.
        found: crate::dtype::DType,
    },
    /// A range does not lie inside the buffer.
    OutOfRange {
        /// The range, in elements.
        range: Range<usize>,
        /// Length of the buffer in elements.
        length: usize,
    },
    /// Something that must have at least one element has none.
    Empty {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The name of the argument.
        what: &'static str,
    },
    /// A size in bytes does not fit the address space.
    TooLarge {
        /// The number of elements.
        elements: usize,
        /// The size of one in bytes.
        element: usize,
    },
    /// The source and the destination share memory.
    Overlap {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The number of bytes that they share.
        bytes: usize,
    },
    /// The device (or pinned host memory) is full. Dropped memory has been freed, unless it was
    /// still in use at the deadline.
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
    NoSuchDevice {
        /// The index asked for.
        index: usize,
        /// The number of devices.
        count: usize,
    },
    /// More ranks than devices: each rank needs one of its own.
    TooFewDevices {
        /// The number of ranks.
        ranks: u32,
        /// The number of devices that the runtime has.
        devices: usize,
    },
    /// The crate refused an operation of a communicator before it was issued: it took no number and
    /// left the buffers alone.
    Refused {
        /// The operation, with the number it would have had.
        context: Box<OpContext>,
        /// The reason.
        cause: Box<Error>,
    },
    /// A rank was named that the communicator does not have.
    NoSuchRank {
        /// The name of the argument.
        what: &'static str,
        /// The rank that was named.
        rank: u32,
        /// The number of ranks.
        world_size: u32,
    },
    /// More elements than HCCL takes in one operation.
    TooManyElements {
        /// The number of elements that were given.
        count: usize,
    },
    /// The product does not reduce this type in this operation, though another product or another
    /// operation does.
    NotSupported {
        /// Type of the elements.
        dtype: crate::dtype::DType,
        /// The reduction.
        kind: crate::dtype::ReduceKind,
        /// The product at hand.
        product: product::Product,
        /// The product or the operation that reduces it, in words.
        who: &'static str,
        /// The advice: what to do instead.
        instead: &'static str,
    },
    /// No product reduces this type with this reduction, which only shows at run time.
    NotReduced {
        /// Type of the elements.
        dtype: crate::dtype::DType,
        /// The reduction.
        kind: crate::dtype::ReduceKind,
    },
    /// An argument of the root only: the root lacks it, or another rank gives it.
    RootOnly {
        /// The name of the argument.
        what: &'static str,
        /// The root.
        root: u32,
        /// This rank.
        rank: u32,
    },
    /// A single message to or from oneself.
    OwnMessage {
        /// This rank.
        rank: u32,
    },
    /// Elements that the ranks cannot share evenly.
    Uneven {
        /// The name of the argument.
        what: &'static str,
        /// Its length in elements.
        length: usize,
        /// The number of ranks.
        world_size: u32,
    },
    /// Counts or displacements that do not fit one another, the buffers or the communicator.
    Counts(counts::CountsError),
    /// A setting of a communicator that CANN would refuse, ignore or misread.
    Config(config::ConfigError),
    /// A list of messages that CANN would refuse, leave waiting or deliver wrongly.
    Batch(batch::BatchError),
    /// Bytes or settings of tiling data that CANN, or the kernel, would refuse or misread.
    Tiling(tiling::TilingError),
    /// A kernel that cannot be recorded.
    Record(kernel::RecordError),
    /// A communication operator that cannot be recorded.
    Operator(operator::RecordError),
    /// [`AbortHandle::abort`](crate::comm::AbortHandle::abort) has ended the communicator.
    Aborted {
        /// The operation that was waited for, which may still be in flight, or the call that was
        /// refused.
        context: Option<Box<OpContext>>,
    },
    /// An operator of one's own has failed on this communicator, so the state of its notifies is
    /// undefined, and no other operator runs on it.
    OperatorFailed {
        /// The name of the operator.
        operator: &'static str,
        /// Its number in the communicator.
        sequence: u64,
        /// The error of the operator.
        cause: Box<Error>,
    },
    /// A rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) failed: the first one that did.
    Rank(rank::RankError),
    /// Another rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) is gone, so there is
    /// nothing to wait for.
    RankGone {
        /// The rank that is gone.
        rank: u32,
        /// The reason.
        reason: Box<str>,
    },
    /// Every rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) was successful, but checked
    /// mode has found accesses that nothing orders.
    Found {
        /// The findings of checked mode.
        findings: Box<[finding::Finding]>,
    },
    /// The ranks of a job, which a launcher has started as processes, could not meet.
    Job(hccl_job::JobError),
    /// An argument that is none of the above.
    Invalid {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The mistake, and what to do.
        problem: Box<str>,
    },
}

impl Error {
    /// Adds the operation that the error belongs to, unless it has one already. It may have the
    /// states of the ranks already.
    pub(crate) fn in_operation(mut self, operation: impl FnOnce() -> OpContext) -> Self {
        if let Error::Call { context, .. } | Error::MissingSymbol { context, .. } = &mut self
            && context.as_ref().is_none_or(|context| context.operation == UNKNOWN)
        {
            let before = context.take().and_then(|context| context.peers);
            let operation = operation();
            // The failure of a communicator says more than the outcome of the call.
            let peers = operation.peers.clone().or(before);
            *context = Some(Box::new(OpContext { peers, ..operation }));
        }
        self
    }

    /// Names the method in the error of an operation that the method issues under another name: the
    /// method is what the program called.
    #[cold]
    pub(crate) fn called(mut self, method: &'static str) -> Self {
        let context = match &mut self {
            Error::Call { context, .. } | Error::Aborted { context } => context.as_deref_mut(),
            Error::Timeout { context: Some(context), what, .. } => {
                *what = what.replacen(context.operation, method, 1).into();
                Some(&mut **context)
            }
            Error::Failed { context, .. } | Error::Refused { context, .. } => Some(&mut **context),
            _ => None,
        };
        if let Some(context) = context.filter(|context| context.communicator.is_some()) {
            context.operation = method;
        }
        self
    }

    /// Returns the error of the rank that failed first, if this error comes from
    /// [`Runtime::run_ranks`](crate::Runtime::run_ranks) and the rank returned an error of this
    /// crate; else the error itself.
    pub fn root_cause(&self) -> &Error {
        match self {
            Error::Rank(rank) => {
                rank.cause().downcast_ref::<Error>().map_or(self, Error::root_cause)
            }
            _ => self,
        }
    }

    /// Returns the code of CANN, if that is what went wrong. For an error of `run_ranks` it is the
    /// code that CANN returned to the rank that failed first.
    pub fn code(&self) -> Option<Code> {
        match self.root_cause() {
            Error::Call { code, .. } | Error::Failed { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether a wait of this crate has reached its limit: the operation or rank that it waited for
    /// goes on. An operation that the *backend* gave up has failed, and its [`code`](Self::code)
    /// says so (`HCCL_E_TIMEOUT`, `ACL_ERROR_RT_TASK_TIMEOUT`).
    pub fn is_timeout(&self) -> bool {
        matches!(self.root_cause(), Error::Timeout { .. })
    }
}

// A text includes the text of its cause, so the chain goes on behind that: nothing is printed
// twice.
impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Rank(error) => error.source(),
            _ => None,
        }
    }
}

impl From<kernel::RecordError> for Error {
    fn from(error: kernel::RecordError) -> Self {
        Error::Record(error)
    }
}

impl From<operator::RecordError> for Error {
    fn from(error: operator::RecordError) -> Self {
        Error::Operator(error)
    }
}

impl From<tiling::TilingError> for Error {
    fn from(error: tiling::TilingError) -> Self {
        Error::Tiling(error)
    }
}

impl From<config::ConfigError> for Error {
    fn from(error: config::ConfigError) -> Self {
        Error::Config(error)
    }
}

impl From<counts::CountsError> for Error {
    fn from(error: counts::CountsError) -> Self {
        Error::Counts(error)
    }
}

impl From<batch::BatchError> for Error {
    fn from(error: batch::BatchError) -> Self {
        Error::Batch(error)
    }
}
