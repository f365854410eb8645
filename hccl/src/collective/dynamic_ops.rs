//! The operations on elements whose type is known at run time only, for communicators and groups.

use super::op::CollectiveOp;
use super::partition::DESTINATION;
use super::{CheckedReduction, CountMatrix, Partition};
use crate::comm::Member;
use crate::comm::scratch::ScratchBlock;
use crate::dtype::{DType, ReduceKind};
use crate::error::batch::Direction;
use crate::error::{Error, Result};
use crate::memory::{DynSlice, DynSliceMut};

/// Makes the operations of a communicator on such elements, and checks what the compiler checks for
/// those of known types.
pub(crate) struct DynOps<'m>(&'m Member);

impl Member {
    pub(crate) fn dynamic(&self) -> DynOps<'_> {
        DynOps(self)
    }
}

impl CollectiveOp<'_> {
    /// Refuses the operation for a mistake that makes what its other checks say pointless.
    fn unless(mut self, mistake: impl FnOnce(&'static str) -> Result<()>) -> Self {
        if let Err(error) = mistake(self.name()) {
            self.checked = Err(error);
        }
        self
    }

    /// Both sides have elements of one type.
    fn of_types(self, send: DType, recv: DType) -> Self {
        self.unless(|operation| {
            if send == recv {
                return Ok(());
            }
            Err(Error::WrongType { operation, what: DESTINATION, expected: send, found: recv })
        })
    }

    /// Some product reduces them.
    fn reduced(self, what: CheckedReduction) -> Self {
        let CheckedReduction { dtype, kind } = what;
        self.unless(|_| match dtype.is_reduced_by(kind) {
            true => Ok(()),
            false => Err(Error::NotReduced { dtype, kind }),
        })
    }
}

fn reduction(dtype: DType, kind: ReduceKind) -> CheckedReduction {
    CheckedReduction { dtype, kind }
}

impl DynOps<'_> {
    pub(crate) fn all_reduce<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        let what = reduction(send.dtype(), op);
        let operation = self.0.all_reduce(what, &send.region(), &recv.region());
        operation.reduced(what).of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn all_reduce_in_place<'a>(
        &self,
        buffer: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        let what = reduction(buffer.dtype(), op);
        self.0.all_reduce_in_place(what, &buffer.region()).reduced(what)
    }

    /// `scratch` is where the ranks that are not the root get what they do not keep.
    pub(crate) fn reduce<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: Option<&DynSliceMut<'a>>,
        op: ReduceKind,
        root: u32,
        scratch: &'a mut ScratchBlock,
    ) -> CollectiveOp<'a> {
        let what = reduction(send.dtype(), op);
        let to = recv.map(DynSliceMut::region);
        let operation = self.0.reduce(what, &send.region(), to.as_ref(), root, scratch);
        operation
            .reduced(what)
            .of_types(send.dtype(), recv.map_or(send.dtype(), DynSliceMut::dtype))
    }

    pub(crate) fn reduce_in_place<'a>(
        &self,
        buffer: &DynSliceMut<'a>,
        op: ReduceKind,
        root: u32,
        scratch: &'a mut ScratchBlock,
    ) -> CollectiveOp<'a> {
        let what = reduction(buffer.dtype(), op);
        self.0.reduce_in_place(what, &buffer.region(), root, scratch).reduced(what)
    }

    pub(crate) fn reduce_scatter<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        let what = reduction(send.dtype(), op);
        let operation = self.0.reduce_scatter(what, &send.region(), &recv.region());
        operation.reduced(what).of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn reduce_scatter_in_place<'a>(
        &self,
        buffer: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        let what = reduction(buffer.dtype(), op);
        self.0.reduce_scatter_in_place(what, &buffer.region()).reduced(what)
    }

    pub(crate) fn reduce_scatter_v<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        op: ReduceKind,
        parts: &'a Partition,
    ) -> CollectiveOp<'a> {
        let what = reduction(send.dtype(), op);
        let operation = self.0.reduce_scatter_v(what, &send.region(), &recv.region(), parts);
        operation.reduced(what).of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn broadcast<'a>(&self, buffer: &DynSliceMut<'a>, root: u32) -> CollectiveOp<'a> {
        self.0.broadcast(buffer.dtype(), &buffer.region(), root)
    }

    pub(crate) fn all_gather<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
    ) -> CollectiveOp<'a> {
        let operation = self.0.all_gather(send.dtype(), &send.region(), &recv.region());
        operation.of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn all_gather_in_place<'a>(&self, buffer: &DynSliceMut<'a>) -> CollectiveOp<'a> {
        self.0.all_gather_in_place(buffer.dtype(), &buffer.region())
    }

    pub(crate) fn all_gather_v<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        parts: &'a Partition,
    ) -> CollectiveOp<'a> {
        let (from, to) = (send.region(), recv.region());
        let operation = self.0.all_gather_v(send.dtype(), &from, &to, false, parts);
        operation.of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn scatter<'a>(
        &self,
        send: Option<&DynSlice<'a>>,
        recv: &DynSliceMut<'a>,
        root: u32,
    ) -> CollectiveOp<'a> {
        let from = send.map(DynSlice::region);
        let operation = self.0.scatter(recv.dtype(), from.as_ref(), &recv.region(), root);
        operation.of_types(send.map_or(recv.dtype(), DynSlice::dtype), recv.dtype())
    }

    pub(crate) fn all_to_all<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
    ) -> CollectiveOp<'a> {
        let operation = self.0.all_to_all(send.dtype(), &send.region(), &recv.region());
        operation.of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn all_to_all_v<'a>(
        &self,
        (send, sent): (&DynSlice<'a>, &'a Partition),
        (recv, received): (&DynSliceMut<'a>, &'a Partition),
    ) -> CollectiveOp<'a> {
        let (from, to) = (send.region(), recv.region());
        let operation = self.0.all_to_all_v(send.dtype(), (&from, sent), (&to, received), false);
        operation.of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn all_to_all_vc<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        counts: &'a CountMatrix,
    ) -> CollectiveOp<'a> {
        let (from, to) = (send.region(), recv.region());
        let operation = self.0.all_to_all_vc(send.dtype(), &from, &to, counts);
        operation.of_types(send.dtype(), recv.dtype())
    }

    pub(crate) fn send<'a>(&self, source: &DynSlice<'a>, to: u32) -> CollectiveOp<'a> {
        self.0.message(Direction::Send, source.dtype(), &source.region(), to)
    }

    pub(crate) fn recv<'a>(&self, destination: &DynSliceMut<'a>, from: u32) -> CollectiveOp<'a> {
        self.0.message(Direction::Receive, destination.dtype(), &destination.region(), from)
    }
}
