//! The errors of this crate. Nearly all functions return the enum [`Error`]. If two values do not
//! match, the error has both. Use [`Error::kind`] to decide what to do next, and match the variants
//! of [`Error`] only if their fields are needed. To print an error, no match is needed: its text
//! says what happened, where, and what to do.
//!
//! The crate checks a call before it calls CANN, and reports mistakes with advice
//! ([`Error::WrongLength`], [`Error::WrongDevice`], ...). If CANN returns a code, the error has the
//! name of the code, the function, CANN's own text and the operation ([`Error::Call`]). A later
//! failure on the device is [`Error::Failed`].
//!
//! Errors are `Clone`, because one failed operation is reported to every task or thread that awaits
//! it. If no task or thread awaits the operation, the stream reports the error.

#![forbid(unsafe_code)]

pub(crate) mod batch;
mod code;
pub(crate) mod config;
mod context;
pub(crate) mod counted;
pub(crate) mod counts;
mod debug;
mod debug_text;
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

/// The result type of the functions of this crate that can fail.
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
/// `Display` writes the cause, then the place in brackets, then lines that show both sides of a
/// mismatch and say what to do. `{:?}` writes the name of the variant and the same text, so that
/// `unwrap` and a `main` that returns an error print readable text. `{:#?}` shows the structure.
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
        /// The backends that were tried, and what to do.
        reason: Box<str>,
    },
    /// The backend does not have a function that the call needs. The text names the library of the
    /// function, and the first release that has the function.
    MissingSymbol {
        /// The C function.
        function: &'static str,
        /// The files of the libraries that were loaded and searched.
        tried: Box<[String]>,
        /// The operation that needed the function.
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
    /// An operation that had been issued failed on the device. The contents of its destinations are
    /// unspecified.
    Failed {
        /// The operation, as far as it is known.
        context: Box<OpContext>,
        /// CANN's code.
        code: Code,
        /// CANN's text.
        message: Option<Box<str>>,
    },
    /// An operation failed, or cannot be distinguished from operations that failed. Its stream had
    /// more failures than are kept one by one, and the operation is one of the older operations for
    /// which only a range is kept.
    Forgotten {
        /// The last of the older failures whose details were known.
        last: Option<Box<Error>>,
    },
    /// A closure given to [`Stream::host_fn`](crate::Stream::host_fn) panicked.
    HostFunctionPanicked {
        /// The operation.
        context: Box<OpContext>,
        /// The message of the panic.
        message: Box<str>,
    },
    /// A wait for an operation or for another rank reached its time limit. The operation goes on,
    /// and its memory stays reserved.
    Timeout {
        /// The operation or the rank that was waited for.
        what: Box<str>,
        /// The duration of the wait.
        after: Duration,
        /// The backend's own message about the wait.
        message: Option<Box<str>>,
        /// The operation and the states of its ranks, if the wait was for an operation.
        context: Option<Box<OpContext>>,
    },
    /// An argument belongs to another device: for example a buffer, a stream, an event or a
    /// communicator.
    WrongDevice {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The name of the argument.
        what: &'static str,
        /// The index of the device that the call uses: that of the stream, or of the first event.
        expected: usize,
        /// The index of the argument's device.
        found: usize,
    },
    /// An argument belongs to another [`Runtime`](crate::Runtime): for example a buffer, a stream,
    /// an event or a communicator.
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
        /// The number of elements that are needed.
        expected: usize,
        /// The number of elements that the argument has.
        found: usize,
    },
    /// The elements of an argument have the wrong type. This error occurs only for types that are
    /// not known before run time.
    WrongType {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The name of the argument.
        what: &'static str,
        /// The type that is needed.
        expected: crate::dtype::DType,
        /// The type that the argument has.
        found: crate::dtype::DType,
    },
    /// A range does not lie inside the buffer.
    OutOfRange {
        /// The range, in elements.
        range: Range<usize>,
        /// The length of the buffer in elements.
        length: usize,
    },
    /// An argument that must have at least one element has none.
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
        /// The size of one element in bytes.
        element: usize,
    },
    /// The source and the destination share memory.
    Overlap {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The number of bytes that they share.
        bytes: usize,
    },
    /// The device memory, or the pinned host memory, is full. The crate has already freed dropped
    /// memory, except for memory that was still in use at the runtime's deadline.
    OutOfMemory {
        /// The number of bytes that were requested.
        requested: usize,
        /// The memory that is full, as text: a device, or pinned host memory.
        place: Box<str>,
        /// The number of bytes that are free now; 0 if unknown.
        free: usize,
        /// The total number of bytes; 0 if unknown.
        total: usize,
    },
    /// The runtime has no device with the index that was requested.
    NoSuchDevice {
        /// The index that was requested.
        index: usize,
        /// The number of devices.
        count: usize,
    },
    /// There are more ranks than devices, but each rank needs its own device.
    TooFewDevices {
        /// The number of ranks.
        ranks: u32,
        /// The number of devices that the runtime has.
        devices: usize,
    },
    /// The crate refused an operation of a communicator before it was issued, or refused to make a
    /// communicator. The operation took no number and did not touch the buffers.
    Refused {
        /// The operation, with the number that it would have had. The number is 0 for a call that
        /// makes a communicator.
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
    /// An operation has more elements than HCCL takes in one operation.
    TooManyElements {
        /// The number of elements that were given.
        count: usize,
    },
    /// The product does not reduce this type in this operation, though another product or another
    /// operation does.
    NotSupported {
        /// The type of the elements.
        dtype: crate::dtype::DType,
        /// The reduction.
        kind: crate::dtype::ReduceKind,
        /// The product in use.
        product: product::Product,
        /// The products or operations that reduce the type, as text.
        who: &'static str,
        /// The advice: what to do instead.
        instead: &'static str,
    },
    /// No product reduces this type with this reduction. This error occurs only for types that are
    /// not known before run time.
    NotReduced {
        /// The type of the elements.
        dtype: crate::dtype::DType,
        /// The reduction.
        kind: crate::dtype::ReduceKind,
    },
    /// The root lacks an argument that only the root gives, or another rank gives it.
    RootOnly {
        /// The name of the argument.
        what: &'static str,
        /// The rank of the root.
        root: u32,
        /// The number of this rank.
        rank: u32,
    },
    /// A send or a receive that is not part of a batch names this rank itself as the peer.
    OwnMessage {
        /// The number of this rank.
        rank: u32,
    },
    /// The length of an argument is not a multiple of the number of ranks.
    Uneven {
        /// The name of the argument.
        what: &'static str,
        /// The length of the argument in elements.
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
        /// refused. It is `None` for a refused replay of a graph, and for the cause of an
        /// [`Error::Refused`], which has the call itself.
        context: Option<Box<OpContext>>,
    },
    /// An earlier [operator](crate::operator) has failed on this communicator. The state of the
    /// communicator's notifies is undefined, so it runs no more operators.
    OperatorFailed {
        /// The name of the operator.
        operator: &'static str,
        /// The number of the operator in the communicator.
        sequence: u64,
        /// The error of the operator.
        cause: Box<Error>,
    },
    /// A rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) or
    /// [`Runtime::run_job`](crate::Runtime::run_job) failed. This is the error of the rank that
    /// failed first, or of the rank of this process under a launcher.
    Rank(rank::RankError),
    /// Another rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) is gone, so a wait for it
    /// would never end.
    RankGone {
        /// The rank that is gone.
        rank: u32,
        /// The reason.
        reason: Box<str>,
    },
    /// Every rank of [`Runtime::run_ranks`](crate::Runtime::run_ranks) or
    /// [`Runtime::run_job`](crate::Runtime::run_job) in this process was successful, but checked
    /// mode has findings: for example accesses that nothing orders.
    Found {
        /// The findings of checked mode.
        findings: Box<[finding::Finding]>,
    },
    /// A job whose ranks a launcher has started as processes has failed. For example, an
    /// environment variable is wrong, the ranks could not meet, or the store of the job does not
    /// answer.
    Job(hccl_job::JobError),
    /// A call fails for a reason that no other variant describes. For example, an argument or a
    /// state does not fit the call, or a thread cannot be started.
    Invalid {
        /// The name of the operation that was called.
        operation: &'static str,
        /// The mistake, and what to do.
        problem: Box<str>,
    },
}

impl Error {
    /// Adds the operation to an [`Error::Call`] or [`Error::MissingSymbol`] that does not name one
    /// yet. Keeps the states of ranks that the error already has, unless the operation has states.
    /// Returns every other error unchanged.
    pub(crate) fn in_operation(mut self, operation: impl FnOnce() -> OpContext) -> Self {
        if let Error::Call { context, .. } | Error::MissingSymbol { context, .. } = &mut self
            && context.as_ref().is_none_or(|context| context.operation == UNKNOWN)
        {
            let before = context.take().and_then(|context| context.peers);
            let operation = operation();
            // The states in the operation come from the failure of the communicator, which says
            // more than the outcome of the call.
            let peers = operation.peers.clone().or(before);
            *context = Some(Box::new(OpContext { peers, ..operation }));
        }
        self
    }

    /// Replaces the name of the operation by the name of the method that the program called.
    /// Methods whose operation has another name use this. Returns the error unchanged if it names
    /// no operation of a communicator.
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
    /// crate. Otherwise returns this error itself.
    pub fn root_cause(&self) -> &Error {
        match self {
            Error::Rank(rank) => {
                rank.cause().downcast_ref::<Error>().map_or(self, Error::root_cause)
            }
            _ => self,
        }
    }

    /// Returns the cause inside the [root cause](Self::root_cause), if a call was refused because
    /// of another error.
    pub(crate) fn innermost(&self) -> &Error {
        match self.root_cause() {
            Error::Refused { cause, .. } => cause.innermost(),
            error => error,
        }
    }

    /// Returns the code of CANN, if CANN returned one. For an error of `run_ranks`, this is the
    /// code that CANN returned to the rank that failed first.
    pub fn code(&self) -> Option<Code> {
        match self.root_cause() {
            Error::Call { code, .. } | Error::Failed { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Returns whether a wait of this crate reached its time limit. The operation or the rank of
    /// that wait goes on. If the *backend* gave up an operation, the operation has failed instead,
    /// and its [`code`](Self::code) says so (`HCCL_E_TIMEOUT`, `ACL_ERROR_RT_TASK_TIMEOUT`).
    pub fn is_timeout(&self) -> bool {
        matches!(self.innermost(), Error::Timeout { .. })
    }
}

// The text of an error includes the text of its cause. So `source` returns the source of the cause,
// and a program that prints the chain prints nothing twice.
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
