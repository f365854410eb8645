//! The collectives: operations in which every rank of a communicator takes part.
//!
//! They return at once. What they return, a [`Work`], is a future that watches: dropping it neither cancels nor blocks, and
//! awaiting it is needed only to learn when the operation is complete on this rank, and how it ended. Everything that uses the same
//! buffers later, on whatever stream, is ordered behind it without waiting on the host.
//!
//! All ranks must issue the same collectives, in the same order, with the same number of elements, the same type, reduction and root;
//! what a rank does differently is an error that names both sides where the backend compares (the emulator always
//! does; CANN when links are built), and otherwise a wait until a deadline. A length of zero is an operation like any
//! other and moves nothing.
//!
//! # Errors
//!
//! A collective is checked before CANN is called, and a refused one takes no number and leaves the buffers alone; all of these come as
//! [`Error::Refused`] with the operation, the communicator, the rank and the number the operation would have had:
//!
//! * [`Error::WrongDevice`] and [`Error::WrongRuntime`] when a buffer or the communicator is not where the stream is;
//! * [`Error::WrongLength`] when two lengths differ that must be equal;
//! * [`Error::Overlap`] when source and destination share memory, which only foreign memory can;
//! * [`Error::NoSuchRank`] when the root is not a rank of the communicator;
//! * [`Error::NotSupported`] when the product does not reduce the type (see [`dtype`](crate::dtype));
//! * [`Error::TooManyElements`] beyond 34,359,738,367 elements;
//! * [`Error::Aborted`] after [`AbortHandle::abort`](crate::comm::AbortHandle::abort).
//!
//! [`Error::Call`] is what CANN itself says, among others that a peer did not come while links were being built, and [`Error::Failed`]
//! is about an earlier operation of the stream whose [`Work`] was dropped. What goes wrong later is for the [`Work`] to tell.

mod barrier;
mod check;
mod movement;
mod reduction;

pub(crate) use check::check_count;

use ascend_sys::{HcclComm, aclrtStream};

use crate::api::Table;
use crate::comm::Member;
use crate::device::Stream;
use crate::device::issue::{Issued, Operation, Place, Touch, issue_number};
use crate::error::{Error, OpContext, Result};
use crate::memory::stamps::Access;
use crate::work::Work;

/// The largest number of elements that HCCL takes.
pub const MOST_ELEMENTS: usize = 0x7_ffff_ffff;

/// What every operation of a communicator has in common.
impl Member {
    /// A collective that was issued has taken its number.
    #[inline]
    fn counted(
        &mut self,
        outcome: Result<Issued>,
        name: &'static str,
        stream: &Stream,
    ) -> Result<Work> {
        let issued = outcome?;
        self.collectives += 1;
        Ok(Work::new(stream.lane().clone(), issued, name))
    }

    /// What every operation writes: the communicator itself.
    #[inline]
    pub(crate) fn touch(&self) -> Touch<'_> {
        Touch {
            stamps: &self.stamps,
            range: 0..1,
            access: Access::Write,
            place: Place::Device(&self.device),
            what: "the communicator",
        }
    }

    /// Issues an operation, in its turn on the device.
    #[inline]
    pub(crate) fn issue(
        &self,
        name: &'static str,
        sequence: u64,
        stream: &Stream,
        touches: &[Touch<'_>],
        enqueue: impl FnOnce(&Table, HcclComm, aclrtStream) -> Result<()>,
    ) -> Result<Issued> {
        let operation = Operation { name, communicator: Some((&self.label, sequence)) };
        let lane = stream.lane();
        issue_number(stream, operation, touches, |stream| {
            let device = &self.device;
            device.turn().take(lane);
            let Some(raw) = self.handle.calling() else {
                return Err(Error::Aborted { context: None });
            };
            enqueue(device.table(), raw, stream)
        })
        .map_err(|error| self.explain(name, sequence, error))
    }

    /// The error of a collective that was not issued.
    #[cold]
    fn refuse(&self, operation: &'static str, error: Error) -> Error {
        self.explain(operation, self.collectives + 1, error)
    }

    /// Says which operation an error is about, unless it says so itself.
    #[cold]
    pub(crate) fn explain(&self, operation: &'static str, sequence: u64, error: Error) -> Error {
        if error.context().is_some() {
            return error;
        }
        let context = OpContext {
            operation,
            communicator: Some(self.label.communicator.clone()),
            rank: Some(self.label.rank),
            sequence,
        };
        Error::Refused { context: Box::new(context), cause: Box::new(error) }
    }
}
