//! The classes of errors.

/// The class of an [`Error`](crate::Error). It is for programs that handle some classes and pass on the others.
///
/// ```
/// use hccl::{ErrorKind, Runtime};
///
/// # let runtime = Runtime::emulator(1)?;
/// let error = runtime.device(5).unwrap_err();
/// match error.kind() {
///     ErrorKind::Misuse => eprintln!("a mistake in the program: {error}"),
///     ErrorKind::RankGone | ErrorKind::Timeout => eprintln!("begin again without: {error}"),
///     _ => return Err(error),
/// }
/// # assert_eq!(error.kind(), ErrorKind::Misuse);
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no usable backend.
    NoBackend,
    /// The backend or the product does not support the call.
    Unsupported,
    /// An argument or a state does not fit the call. Nothing was issued, unless the error is
    /// [`Error::Failed`](crate::Error::Failed).
    Misuse,
    /// The device memory or the pinned host memory is full.
    OutOfMemory,
    /// A wait reached its time limit, or the backend gave up because ranks did not arrive.
    Timeout,
    /// Every rank waits for another rank.
    Deadlock,
    /// The ranks of a communicator made different calls.
    Mismatch,
    /// Another rank is gone, or the store of the job does not answer any more.
    RankGone,
    /// The communicator was aborted.
    Aborted,
    /// Code of the program panicked.
    Panicked,
    /// Checked mode found a race: accesses to memory that nothing orders.
    Race,
    /// An operation failed on the device, or a call of CANN failed, for another reason.
    Device,
}
