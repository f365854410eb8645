//! Operations on elements whose type is known only at run time, for communicators and groups.

use super::op::CollectiveOp;
use super::partition::DESTINATION;
use super::{CheckedReduction, CountMatrix, Partition};
use crate::comm::Member;
use crate::comm::scratch::ScratchBlock;
use crate::dtype::{DType, ReduceKind};
use crate::error::batch::Direction;
use crate::error::{Error, Result};
use crate::memory::allocation::Region;
use crate::memory::{DynSlice, DynSliceMut};

/// A builder of a communicator's operations on elements whose type is known only at run time. It
/// makes the checks that the compiler makes for elements of known types.
pub(crate) struct DynOps<'m>(&'m Member);

impl Member {
    pub(crate) fn dynamic(&self) -> DynOps<'_> {
        DynOps(self)
    }
}

impl CollectiveOp<'_> {
    /// Stores the error that `mistake` returns, if any, as the outcome of the checks. This error
    /// replaces the error of other checks, which would be misleading.
    fn unless(mut self, mistake: impl FnOnce(&'static str) -> Result<()>) -> Self {
        if let Err(error) = mistake(self.name()) {
            self.checked = Err(error);
        }
        self
    }

    /// Checks that source and destination have elements of one type.
    fn of_types(self, send: DType, recv: DType) -> Self {
        self.unless(|operation| {
            if send == recv {
                return Ok(());
            }
            Err(Error::WrongType { operation, what: DESTINATION, expected: send, found: recv })
        })
    }

    /// Checks that some product supports this reduction of this type.
    fn reduced(self, what: CheckedReduction) -> Self {
        let CheckedReduction { dtype, kind } = what;
        self.unless(|_| match dtype.is_reduced_by(kind) {
            true => Ok(()),
            false => Err(Error::NotReduced { dtype, kind }),
        })
    }
}

impl DynOps<'_> {
    /// Makes an operation that has a source and a destination. Checks that both have elements of
    /// one type.
    fn moving<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        make: impl FnOnce(&Member, DType, &Region<'a>, &Region<'a>) -> CollectiveOp<'a>,
    ) -> CollectiveOp<'a> {
        let operation = make(self.0, send.dtype(), &send.region(), &recv.region());
        operation.of_types(send.dtype(), recv.dtype())
    }

    /// Makes a reduction that has a source and a destination. Checks the types, and that some
    /// product supports the reduction.
    fn reducing<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        kind: ReduceKind,
        make: impl FnOnce(&Member, CheckedReduction, &Region<'a>, &Region<'a>) -> CollectiveOp<'a>,
    ) -> CollectiveOp<'a> {
        self.moving(send, recv, |member, dtype, from, to| {
            let what = CheckedReduction { dtype, kind };
            make(member, what, from, to).reduced(what)
        })
    }

    fn reducing_in_place<'a>(
        &self,
        buffer: &DynSliceMut<'a>,
        kind: ReduceKind,
        make: impl FnOnce(&Member, CheckedReduction, &Region<'a>) -> CollectiveOp<'a>,
    ) -> CollectiveOp<'a> {
        let what = CheckedReduction { dtype: buffer.dtype(), kind };
        make(self.0, what, &buffer.region()).reduced(what)
    }

    pub(crate) fn all_reduce<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        self.reducing(send, recv, op, Member::all_reduce)
    }

    pub(crate) fn all_reduce_in_place<'a>(
        &self,
        buffer: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        self.reducing_in_place(buffer, op, Member::all_reduce_in_place)
    }

    /// Makes a reduce. Ranks other than the root receive into `scratch`, and nothing reads it.
    pub(crate) fn reduce<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: Option<&DynSliceMut<'a>>,
        op: ReduceKind,
        root: u32,
        scratch: &'a mut ScratchBlock,
    ) -> CollectiveOp<'a> {
        let what = CheckedReduction { dtype: send.dtype(), kind: op };
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
        self.reducing_in_place(buffer, op, |member, what, region| {
            member.reduce_in_place(what, region, root, scratch)
        })
    }

    pub(crate) fn reduce_scatter<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        self.reducing(send, recv, op, Member::reduce_scatter)
    }

    pub(crate) fn reduce_scatter_in_place<'a>(
        &self,
        buffer: &DynSliceMut<'a>,
        op: ReduceKind,
    ) -> CollectiveOp<'a> {
        self.reducing_in_place(buffer, op, Member::reduce_scatter_in_place)
    }

    pub(crate) fn reduce_scatter_v<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        op: ReduceKind,
        parts: &'a Partition,
    ) -> CollectiveOp<'a> {
        self.reducing(send, recv, op, |member, what, from, to| {
            member.reduce_scatter_v(what, from, to, parts)
        })
    }

    pub(crate) fn broadcast<'a>(&self, buffer: &DynSliceMut<'a>, root: u32) -> CollectiveOp<'a> {
        self.0.broadcast(buffer.dtype(), &buffer.region(), root)
    }

    pub(crate) fn all_gather<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
    ) -> CollectiveOp<'a> {
        self.moving(send, recv, Member::all_gather)
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
        self.moving(send, recv, |member, dtype, from, to| {
            member.all_gather_v(dtype, from, to, false, parts)
        })
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
        self.moving(send, recv, Member::all_to_all)
    }

    pub(crate) fn all_to_all_v<'a>(
        &self,
        (send, sent): (&DynSlice<'a>, &'a Partition),
        (recv, received): (&DynSliceMut<'a>, &'a Partition),
    ) -> CollectiveOp<'a> {
        self.moving(send, recv, |member, dtype, from, to| {
            member.all_to_all_v(dtype, (from, sent), (to, received), false)
        })
    }

    pub(crate) fn all_to_all_vc<'a>(
        &self,
        send: &DynSlice<'a>,
        recv: &DynSliceMut<'a>,
        counts: &'a CountMatrix,
    ) -> CollectiveOp<'a> {
        self.moving(send, recv, |member, dtype, from, to| {
            member.all_to_all_vc(dtype, from, to, counts)
        })
    }

    pub(crate) fn send<'a>(&self, source: &DynSlice<'a>, to: u32) -> CollectiveOp<'a> {
        self.0.message(Direction::Send, source.dtype(), &source.region(), to)
    }

    pub(crate) fn recv<'a>(&self, destination: &DynSliceMut<'a>, from: u32) -> CollectiveOp<'a> {
        self.0.message(Direction::Receive, destination.dtype(), &destination.region(), from)
    }
}
