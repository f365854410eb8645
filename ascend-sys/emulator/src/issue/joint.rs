//! The extra steps of a collective some of whose ranks are in other processes.
//!
//! The contributions are copied out and checked first. And each rank lets the others see whether it
//! may hold a chunk: a process can end in the middle of a chunk, which then nobody finishes. The
//! others give the operation up, and are complete when no living rank holds a chunk any more. A
//! process that is only stopped lives: until it goes on, or is ended, the operation is not
//! complete, and its buffers are not free.

use super::collective::PendingCollective;
use crate::collective::comm_error::{Cause, CommError};
use crate::collective::gathered::Gathered;
use crate::collective::plan::Plan;
use crate::fabric::{Joint, Member};
use crate::step::Step;

impl PendingCollective {
    /// Copies out the contributions of all ranks, where some are in other processes. All have
    /// arrived. The error is a rank whose contribution is impossible.
    pub(super) fn gather(&mut self) -> Result<(), usize> {
        let comm = &self.member.comm;
        if let Some(joint) = &comm.joint {
            let find = |rank, address, bytes| joint.find(rank, address, bytes);
            // SAFETY: all have arrived, and this rank is not complete.
            let gathered =
                unsafe { Gathered::new(&comm.meeting, self.place, &self.call.request, find) }?;
            self.aside.get_or_insert_default().gathered = Some(gathered);
        }
        Ok(())
    }

    /// A rank has brought memory that its device does not have. Others may have begun already,
    /// since that rank can tell each something else. So the operation is abandoned: this rank takes
    /// no chunk, and is complete when nobody holds one.
    #[cold]
    pub(super) fn give_up_on(&mut self, rank: usize) {
        let comm = &self.member.comm;
        comm.job.abandon(self.place.number);
        let text = format!("rank {rank} has brought memory that its device does not have");
        comm.fail(CommError::new(self.origin(), Cause::Gone, text));
        self.join_in();
    }

    /// Whether the rank may take a chunk: always, where all ranks are in one process. Otherwise the
    /// others can see from now on that it may hold one, until it [says](Self::hold_nothing) that it
    /// does not.
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

    /// Whether no living rank touches the memory of an operation that was abandoned.
    pub(super) fn is_untouched(&self) -> bool {
        let comm = &self.member.comm;
        let is_lost = |rank| comm.joint.as_ref().is_some_and(|joint| joint.is_lost(rank));
        let holds = |rank| comm.job.is_held_by(rank, self.place.number) && !is_lost(rank);
        !(0..comm.ranks()).any(holds)
    }

    /// The operation was abandoned, because a process is gone that may hold a chunk. It is over
    /// when nobody else holds one.
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
            // Another process has heard of the loss first.
            (None, None) => return Step::Park,
        };
        Step::Done(Err(self.failure(&error)))
    }
}
