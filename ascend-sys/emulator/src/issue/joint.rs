//! The additional steps of a collective with ranks in other processes.
//!
//! First, the contributions are copied and checked. Also, each rank announces whether it may hold a
//! chunk. A process can end in the middle of a chunk, which is then never finished. In that case,
//! the other ranks abandon the operation, and are complete when no living rank holds a chunk any
//! more. A process that is only stopped counts as living. Until it continues or is ended, the
//! operation is not complete, and its buffers stay in use.

use super::collective::PendingCollective;
use crate::collective::comm_error::{Cause, CommError};
use crate::collective::gathered::Gathered;
use crate::collective::plan::Plan;
use crate::fabric::{Joint, Member};
use crate::step::Step;

impl PendingCollective {
    /// Copies and checks the contributions of all ranks, if some are in other processes. All ranks
    /// have arrived. The error is a rank whose contribution is invalid.
    pub(super) fn gather(&mut self) -> Result<(), usize> {
        let comm = &self.member.comm;
        if let Some(joint) = &comm.joint {
            let find = |rank, address, bytes| joint.find(rank, address, bytes);
            // SAFETY: all ranks have arrived, and this rank has not completed the operation.
            let gathered =
                unsafe { Gathered::new(&comm.meeting, self.place, &self.call.request, find) }?;
            self.aside.get_or_insert_default().gathered = Some(gathered);
        }
        Ok(())
    }

    /// Abandons the operation, because a rank has brought memory that its device does not have.
    /// Other ranks may have begun already, since the faulty rank may show each rank different data.
    /// This rank claims no chunk, and is complete when no rank holds a chunk.
    #[cold]
    pub(super) fn give_up_on(&mut self, rank: usize) {
        let comm = &self.member.comm;
        comm.job.abandon(self.place.number);
        let text = format!(
            "rank {rank} has brought memory that its device does not have; check its process for \
             writes to wrong addresses"
        );
        comm.fail(CommError::new(self.origin(), Cause::Gone, text));
        self.join_in();
    }

    /// Returns whether the rank may claim a chunk. If all ranks are in one process, it always may.
    /// Otherwise this first announces that the rank may hold a chunk, until
    /// [`hold_nothing`](Self::hold_nothing) withdraws that.
    #[inline]
    pub(super) fn may_hold(&self) -> bool {
        let Member { comm, rank, .. } = &*self.member;
        match &comm.joint {
            None => true,
            Some(joint) => {
                if joint.has_lost() {
                    comm.job.abandon(self.place.number);
                }
                comm.job.hold(self.place.number, *rank)
            }
        }
    }

    #[inline]
    pub(super) fn hold_nothing(&self) {
        let Member { comm, rank, .. } = &*self.member;
        if comm.is_joint() {
            comm.job.let_go(*rank);
            if comm.job.is_abandoned(self.place.number) {
                comm.meeting.wake(self.place);
            }
        }
    }

    /// Returns whether no living rank touches the memory of an abandoned operation any more.
    pub(super) fn is_untouched(&self) -> bool {
        let comm = &self.member.comm;
        let is_lost = |rank| comm.joint.as_ref().is_some_and(|joint| joint.is_lost(rank));
        let holds = |rank| comm.job.is_held_by(rank, self.place.number) && !is_lost(rank);
        !(0..comm.ranks()).any(holds)
    }

    /// Ends an operation that was abandoned because a process that may hold a chunk is gone. The
    /// operation is over when no living rank holds a chunk.
    #[cold]
    pub(super) fn wind_up(&self, plan: Plan) -> Step {
        let comm = &self.member.comm;
        let participants = &self.participants();
        if comm.job.complete(self.place.number, |of| plan.chunks(of, participants)) {
            return Step::Done(self.outcome());
        }
        if !self.is_untouched() {
            return Step::Park;
        }
        let error = match (comm.meeting.error(), comm.joint.as_ref().and_then(Joint::lost)) {
            (Some(error), _) => error,
            (None, Some((ranks, why))) => comm.end_for(&ranks, why),
            // Another process has noticed the loss first; the reason has not arrived here yet.
            (None, None) => return Step::Park,
        };
        Step::Done(Err(self.failure(&error)))
    }
}
