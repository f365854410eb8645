//! Suspending communicators while their devices are repaired.

use std::marker::PhantomData;

use ascend_sys::HcclComm;

use super::{Active, Communicator, Member, Suspended};
use crate::api::call;
use crate::device::Device;
use crate::error::{Code, Error, Result};
use crate::order::awaiting;

impl Communicator {
    /// Stops the communicator, so that devices can be repaired after a memory error. Blocks until
    /// every operation of the device that waits for its links has been issued. CANN:
    /// `HcclCommSuspend` (A2 and A3).
    ///
    /// The returned communicator issues no operations until [`resume`](Communicator::resume) is
    /// called. It can be queried and [aborted](Communicator::abort) meanwhile.
    ///
    /// # Errors
    ///
    /// The error of CANN, [`Error::Aborted`] after an abort, or [`Error::Timeout`] if the wait for
    /// links reaches the runtime's deadline. The error contains the unchanged communicator.
    pub fn suspend(self) -> Result<Communicator<Suspended>, Unchanged<Active>> {
        let result = self.member.call("suspend", |raw, device| {
            // SAFETY: a live handle, and no operation is being issued on it.
            match unsafe { call!(device.table(), HcclCommSuspend, raw) } {
                // CANN returns this code when the device has stopped, if operations are unfolded on
                // the device.
                Err(Error::Call { code: Code::Hccl(code), .. })
                    if code == ascend_sys::HcclResult::HCCL_E_SUSPENDING.0 =>
                {
                    Ok(())
                }
                other => other,
            }
        });
        self.into_state(result)
    }
}

impl Communicator<Suspended> {
    /// Resumes the communicator, after all ranks have suspended it and the devices have been
    /// repaired. Blocks as [`suspend`](Communicator::suspend) does. CANN: `HcclCommResume`.
    ///
    /// # Errors
    ///
    /// The same errors as those of [`suspend`](Communicator::suspend). The error contains the
    /// communicator, which is still suspended.
    pub fn resume(self) -> Result<Communicator, Unchanged<Suspended>> {
        let result = self.member.call("resume", |raw, device| {
            // SAFETY: a live handle, and no operation is being issued on it.
            unsafe { call!(device.table(), HcclCommResume, raw) }
        });
        self.into_state(result)
    }
}

impl<S> Communicator<S> {
    fn into_state<N>(self, result: Result<()>) -> Result<Communicator<N>, Unchanged<S>> {
        match result {
            Ok(()) => Ok(Communicator { member: self.member, state: PhantomData }),
            Err(error) => Err(Unchanged { communicator: self, error }),
        }
    }
}

impl Member {
    /// Makes a call of CANN that issues no operation. First waits until all operations on a detour
    /// have been issued.
    fn call(
        &self,
        operation: &'static str,
        call: impl FnOnce(HcclComm, &Device) -> Result<()>,
    ) -> Result<()> {
        let device = &self.device;
        awaiting::blocks(operation);
        self.let_detours_pass(operation, 0)?;
        let context = || self.label.context(operation, 0);
        let _bound = device.bind()?;
        let Some(raw) = self.handle.calling() else {
            return Err(Error::Aborted { context: Some(Box::new(context())) });
        };
        call(raw, device).map_err(|error| error.in_operation(context))
    }
}

/// A communicator whose state could not be changed, and the reason.
///
/// ```
/// use hccl::comm::Communicator;
///
/// /// Stops a communicator, or keeps it as it is.
/// fn try_suspend(comm: Communicator) -> Option<Communicator> {
///     match comm.suspend() {
///         Ok(suspended) => suspended.resume().ok(),
///         Err(refused) => {
///             eprintln!("goes on: {}", refused.error);
///             Some(refused.communicator)
///         }
///     }
/// }
/// # let runtime = hccl::Runtime::emulator(1)?;
/// # runtime.run_ranks(1, |rank| Ok::<_, hccl::Error>(assert!(try_suspend(rank.communicator()?).is_some())))?;
/// # Ok::<(), hccl::Error>(())
/// ```
#[derive(thiserror::Error)]
#[error("{error}")]
pub struct Unchanged<S> {
    /// The communicator, as it was.
    pub communicator: Communicator<S>,
    /// The reason: the error of CANN, [`Error::Aborted`] or [`Error::Timeout`].
    pub error: Error,
}

impl<S> std::fmt::Debug for Unchanged<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Unchanged: {}", self.error)
    }
}

impl<S> From<Unchanged<S>> for Error {
    fn from(unchanged: Unchanged<S>) -> Self {
        unchanged.error
    }
}
