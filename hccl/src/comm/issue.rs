//! Issuing for a communicator: the part that collectives, batches, kernel launches and operators have in common.

#![forbid(unsafe_code)]

use ascend_sys::{HcclComm, aclrtStream};

use super::Member;
use super::label::Takes;
use crate::api::Table;
use crate::device::{Stream, StreamState};
use crate::error::{Error, Result};
use crate::order::issue::{Issued, MemoryPlace, Operation, Touch};
use crate::order::stamps::AccessKind;

impl Member {
    /// What every operation writes: the communicator itself.
    #[inline]
    pub(crate) fn touch(&self) -> Touch<'_> {
        Touch {
            stamps: &self.stamps,
            range: 0..1,
            access: AccessKind::Write,
            place: MemoryPlace::Device(&self.device),
            what: "the communicator",
        }
    }

    /// Issues an operation, in the issue order of the device.
    #[inline(always)]
    pub(crate) fn issue<S: StreamState>(
        &self,
        (name, sequence, takes): (&'static str, u64, Takes<'_>),
        stream: &Stream<S>,
        touches: &[Touch<'_>],
        enqueue: impl FnOnce(&Table, HcclComm, aclrtStream) -> Result<()>,
    ) -> Result<Issued> {
        let communicator = Some((&self.label, sequence));
        let operation = Operation { name, communicator, takes };
        let slot = stream.slot();
        S::issue(stream, operation, touches, |stream| {
            let device = &self.device;
            device.issue_order().take(slot);
            let Some(raw) = self.handle.calling() else {
                return Err(Error::Aborted { context: None });
            };
            enqueue(device.table(), raw, stream)
        })
        .map_err(|error| self.explain(name, sequence, error))
    }

    /// Says which operation an error is about, unless it says so itself.
    #[cold]
    pub(crate) fn explain(&self, operation: &'static str, sequence: u64, error: Error) -> Error {
        let context = || self.label.context(operation, sequence);
        let error = error.in_operation(context);
        if error.context().is_some() {
            return error;
        }
        Error::Refused { context: Box::new(context()), cause: Box::new(error) }
    }
}
