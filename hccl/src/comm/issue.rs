//! The steps of issuing an operation for a communicator. Collectives, batches, kernel launches and
//! operators share them.
//!
//! An operation [takes a number](Member::next), by which [errors](Member::explain) name it. Its
//! touches include the [communicator](Member::touch). Its enqueue call begins with
//! [`Member::enter`]. After it has been issued on a stream that is not capturing, it is
//! [counted](Member::count).

#![forbid(unsafe_code)]

use ascend_sys::HcclComm;

use super::Member;
use crate::device::{Stream, StreamState};
use crate::error::{Error, Result};
use crate::order::issue::{MemoryPlace, Operation, Touch};
use crate::order::label::Takes;
use crate::order::stamps::AccessKind;

impl Member {
    /// Returns the number of the next operation that takes a number of this kind. An operation that
    /// takes no number is named by the number of the next collective.
    #[inline]
    pub(crate) fn next(&self, takes: Takes<'_>) -> u64 {
        match takes {
            Takes::Nothing | Takes::Collective => self.label.next(),
            Takes::Message(direction, peer) => self.messages(direction, peer) + 1,
            Takes::Batch(_) => self.batches + self.label.replayed_batches() + 1,
        }
    }

    /// Counts an operation that has been issued.
    #[inline]
    pub(crate) fn count(&mut self, takes: Takes<'_>) {
        match takes {
            Takes::Nothing => {}
            Takes::Collective => self.label.count(),
            Takes::Message(direction, peer) => {
                self.peers.add(direction, peer);
                self.count_recorded(takes);
            }
            Takes::Batch(items) => {
                self.batches += 1;
                self.peers.count(items);
                self.count_recorded(takes);
            }
        }
    }

    /// Counts the operation in the record too. The record needs the count to number the operations
    /// of graphs.
    #[inline]
    fn count_recorded(&self, takes: Takes<'_>) {
        if let Some(record) = &self.record {
            record.count(takes);
        }
    }

    /// Returns the touch that every operation has: a write of the communicator itself.
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

    /// Describes an operation of this communicator for a stream.
    #[inline]
    pub(crate) fn operation<'a>(
        &'a self,
        name: &'static str,
        sequence: u64,
        takes: Takes<'a>,
    ) -> Operation<'a> {
        Operation { name, communicator: Some((&self.label, sequence)), takes }
    }

    /// Takes the issue order of the device for `stream`, and returns the handle for an enqueue call
    /// on that stream. Returns [`Error::Aborted`] after an abort. The caller holds the issue lock
    /// of `stream`.
    #[inline(always)]
    pub(crate) fn enter<S: StreamState>(&self, stream: &Stream<S>) -> Result<HcclComm> {
        self.device.issue_order().take(stream.slot());
        match self.handle.calling() {
            Some(comm) => Ok(comm),
            None => Err(Error::Aborted { context: None }),
        }
    }

    /// Waits until all operations [on a detour](super::detour) on this device have been issued.
    /// Returns [`Error::Timeout`] if this takes longer than the runtime's deadline. A call that
    /// waits for other ranks by contract begins with this, so that it is made in the program's
    /// order.
    pub(crate) fn let_detours_pass(&self, operation: &'static str, sequence: u64) -> Result<()> {
        let deadline = self.device.runtime().deadline();
        let linking = self.device.linking();
        if linking.is_idle() || linking.drain(deadline)? {
            return Ok(());
        }
        let context = self.label.context(operation, sequence);
        let what = context.to_string();
        let message =
            Some("earlier operations of this device wait for links to other ranks".into());
        let context = Some(Box::new(context));
        Err(Error::Timeout { what: what.into(), after: deadline, message, context })
    }

    /// Adds the operation to an error, unless the error already names one.
    #[cold]
    pub(crate) fn explain(&self, operation: &'static str, sequence: u64, error: Error) -> Error {
        self.label.explain(operation, sequence, error)
    }
}
