//! The class of an error, and methods that help a program to decide what to do after an error.

mod class;

use hccl_job::JobError;

use super::peers::{Claim, CommCause, PeerReport, Presence};
use super::{Code, Error, OpContext};

pub use class::ErrorKind;

impl Error {
    /// Returns the class of the error. For an error of `run_ranks`, it is the class of the error of
    /// the rank that failed first. If that rank panicked, the class is [`ErrorKind::Panicked`]. If
    /// its closure returned an error that is not of this crate, the class is
    /// [`ErrorKind::RankGone`].
    pub fn kind(&self) -> ErrorKind {
        use ErrorKind as Kind;
        match self.root_cause() {
            Error::NoBackend { .. } => Kind::NoBackend,
            Error::MissingSymbol { .. } | Error::NotSupported { .. } | Error::NotReduced { .. } => {
                Kind::Unsupported
            }
            Error::Call { code, .. } | Error::Failed { code, .. } => {
                let kind = kind_of(*code);
                let differs = ["HCCL_E_PARA", "ACL_ERROR_RT_AICPU_EXCEPTION"];
                // The cause decides only if the code is the one that the communicator returns for
                // this cause.
                match self.peers().and_then(|peers| peers.cause) {
                    Some(CommCause::Mismatch)
                        if code.name().is_some_and(|name| differs.contains(&name)) =>
                    {
                        Kind::Mismatch
                    }
                    Some(CommCause::Deadlock) if kind == Kind::Timeout => Kind::Deadlock,
                    Some(CommCause::Aborted) if kind == Kind::RankGone => Kind::Aborted,
                    _ => kind,
                }
            }
            Error::Forgotten { last } => last.as_ref().map_or(Kind::Device, |last| last.kind()),
            Error::HostFunctionPanicked { .. } => Kind::Panicked,
            Error::Timeout { .. } => Kind::Timeout,
            Error::OutOfMemory { .. } => Kind::OutOfMemory,
            Error::Refused { cause, .. } | Error::OperatorFailed { cause, .. } => cause.kind(),
            Error::Aborted { .. } => Kind::Aborted,
            Error::RankGone { .. } => Kind::RankGone,
            Error::Job(error) => match error {
                JobError::Unreachable { .. } | JobError::Late { .. } => Kind::Timeout,
                JobError::Gone { .. } | JobError::Lost { .. } => Kind::RankGone,
                _ => Kind::Misuse,
            },
            Error::Found { .. } => Kind::Race,
            Error::Rank(rank) if rank.panicked() => Kind::Panicked,
            // A closure has returned an error that is not of this crate.
            Error::Rank(_) => Kind::RankGone,
            Error::WrongDevice { .. }
            | Error::WrongRuntime { .. }
            | Error::WrongLength { .. }
            | Error::WrongType { .. }
            | Error::OutOfRange { .. }
            | Error::Empty { .. }
            | Error::TooLarge { .. }
            | Error::Overlap { .. }
            | Error::NoSuchDevice { .. }
            | Error::TooFewDevices { .. }
            | Error::NoSuchRank { .. }
            | Error::TooManyElements { .. }
            | Error::RootOnly { .. }
            | Error::OwnMessage { .. }
            | Error::Uneven { .. }
            | Error::Counts(_)
            | Error::Config(_)
            | Error::Batch(_)
            | Error::Tiling(_)
            | Error::Record(_)
            | Error::Operator(_)
            | Error::Invalid { .. } => Kind::Misuse,
        }
    }

    /// Returns the function of this crate that was called, or the operation that failed. Returns
    /// `None` if the error names neither: for example, an error of an allocation, of an index or a
    /// range, or of a list that many operations use.
    ///
    /// ```
    /// # fn main() -> hccl::Result<()> {
    /// let runtime = hccl::Runtime::emulator(1)?;
    /// let refused = runtime.device(1).unwrap_err();
    /// assert_eq!(refused.operation(), Some("device"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn operation(&self) -> Option<&'static str> {
        if let Some(context) = self.context().filter(|context| !context.is_unknown()) {
            return Some(context.operation);
        }
        match self.root_cause() {
            Error::WrongDevice { operation, .. }
            | Error::WrongRuntime { operation, .. }
            | Error::WrongLength { operation, .. }
            | Error::WrongType { operation, .. }
            | Error::Empty { operation, .. }
            | Error::Overlap { operation, .. }
            | Error::Invalid { operation, .. } => Some(operation),
            Error::NoSuchDevice { .. } => Some("device"),
            Error::TooFewDevices { .. } => Some("run_ranks"),
            _ => None,
        }
    }

    /// Returns the operation that the error belongs to, if it belongs to one.
    pub fn context(&self) -> Option<&OpContext> {
        match self.root_cause() {
            Error::Call { context, .. }
            | Error::MissingSymbol { context, .. }
            | Error::Timeout { context, .. }
            | Error::Aborted { context } => context.as_deref(),
            Error::Failed { context, .. }
            | Error::HostFunctionPanicked { context, .. }
            | Error::Refused { context, .. } => Some(context),
            _ => None,
        }
    }

    /// Returns the states of the ranks of the communicator, if the error is about ranks and the
    /// backend reports the states.
    pub fn peers(&self) -> Option<&PeerReport> {
        self.context()?.peers.as_deref()
    }

    /// Returns the ranks that have not arrived, as far as the backend or the store of the job
    /// reports them.
    pub fn missing_ranks(&self) -> Vec<u32> {
        match self.innermost() {
            Error::Job(JobError::Late { missing, .. }) => missing.clone(),
            _ => {
                self.peers().map_or_else(Vec::new, |peers| peers.ranks_that_are(Presence::Missing))
            }
        }
    }

    /// Returns the ranks that are gone, as far as they are known.
    pub fn gone_ranks(&self) -> Vec<u32> {
        match self.innermost() {
            Error::RankGone { rank, .. } | Error::Job(JobError::Gone { rank, .. }) => vec![*rank],
            _ => self.peers().map_or_else(Vec::new, |peers| peers.ranks_that_are(Presence::Gone)),
        }
    }

    /// Returns both sides of a mismatch: the calls of the ranks. The list is empty if the ranks
    /// agree, or if the backend does not report their calls.
    pub fn claims(&self) -> Vec<Claim> {
        let claims = self.peers().map_or_else(Vec::new, PeerReport::claims);
        if claims.len() > 1 { claims } else { Vec::new() }
    }

    /// Returns whether the communicator of the operation can still be used. Returns `None` if there
    /// is no communicator. Also returns `None` if the answer is not known, because CANN returned
    /// only a code.
    pub fn is_communicator_usable(&self) -> Option<bool> {
        let error = self.root_cause();
        let context = error.context()?;
        context.communicator.as_ref()?;
        if context.peers.as_ref().is_some_and(|peers| peers.failed) {
            return Some(false);
        }
        match error {
            // The communicator was not made, or the call is not one of its operations.
            Error::Refused { .. } if context.sequence == 0 => None,
            Error::Refused { cause, .. } => {
                Some(!matches!(**cause, Error::Aborted { .. } | Error::OperatorFailed { .. }))
            }
            Error::MissingSymbol { .. } | Error::Timeout { .. } => Some(true),
            Error::Aborted { .. } | Error::Failed { .. } => Some(false),
            // The backend reports the ranks, and the communicator has not failed.
            Error::Call { .. } if context.peers.is_some() => Some(self.gone_ranks().is_empty()),
            _ => None,
        }
    }

    /// Returns whether the same call can succeed if it is tried again. A wait that reached its time
    /// limit can succeed later. An allocation can succeed after the program has dropped some
    /// memory. A call for which CANN returned `HCCL_E_AGAIN` can succeed too. An operation that
    /// failed on the device cannot succeed. A call with an argument that does not fit cannot
    /// succeed either.
    pub fn is_retryable(&self) -> bool {
        match self.innermost() {
            Error::Timeout { .. } | Error::OutOfMemory { .. } => true,
            Error::Call { code: Code::Hccl(code), .. } => {
                *code == ascend_sys::HcclResult::HCCL_E_AGAIN.0
            }
            _ => false,
        }
    }
}

/// Returns the class of a code, as far as CANN distinguishes classes.
fn kind_of(code: Code) -> ErrorKind {
    match code.name() {
        Some(
            "HCCL_E_TIMEOUT" | "ACL_ERROR_RT_TASK_TIMEOUT" | "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT",
        ) => ErrorKind::Timeout,
        Some("HCCL_E_REMOTE" | "ACL_ERROR_RT_SUSPECT_REMOTE_ERROR") => ErrorKind::RankGone,
        Some("HCCL_E_NOT_SUPPORT" | "ACL_ERROR_RT_FEATURE_NOT_SUPPORT") => ErrorKind::Unsupported,
        Some("HCCL_E_MEMORY" | "ACL_ERROR_RT_MEMORY_ALLOCATION") => ErrorKind::OutOfMemory,
        Some(
            "HCCL_E_PARA" | "HCCL_E_PTR" | "ACL_ERROR_RT_PARAM_INVALID" | "ACL_ERROR_INVALID_PARAM",
        ) => ErrorKind::Misuse,
        _ => ErrorKind::Device,
    }
}
