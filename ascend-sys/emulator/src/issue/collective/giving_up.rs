//! The ways in which a collective fails. The rank gives up, finds a reason to end the communicator,
//! or leaves a communicator that has failed. An operation that has begun still runs to its end,
//! because other ranks may touch the rank's memory until then.

use super::{PendingCollective, PendingState};
use crate::collective::account::Account;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::job::Phase;
use crate::collective::meeting::MeetingView;
use crate::collective::plan::Plan;
use crate::message::{Failure, PANICKED};
use crate::step::{Reason, Step};
use ascend_reduce::Store;

impl PendingCollective {
    /// Ends the communicator after a panic in a chunk, which is a defect of the emulator.
    #[cold]
    pub(super) fn spoil(&self) {
        let text = format!("rank {} gave up: {PANICKED}", self.member.rank);
        let origin = self.origin();
        self.member.comm.fail(CommError::new(origin, Cause::Gone, text));
    }

    /// Returns the result of an operation that has run. A rank that gives up cannot end an
    /// operation that runs, so an error with this origin comes from a chunk.
    pub(in crate::issue) fn outcome(&self) -> Result<(), Failure> {
        match self.member.comm.meeting.error() {
            Some(error) if error.origin == self.origin() => Err(self.failure(&error)),
            _ => Ok(()),
        }
    }

    /// Leaves the operation of a broken communicator, unless the operation runs.
    #[cold]
    pub(super) fn leave(&mut self) -> Step {
        if self.runs_anyway() {
            return Step::Again;
        }
        match self.member.comm.meeting.error() {
            Some(error) => Step::Done(Err(self.failure(&error))),
            // The rank that has closed the operation is about to report the reason. From another
            // process, the reason arrives as a message.
            None if self.member.comm.is_joint() => Step::Park,
            None => Step::Again,
        }
    }

    /// Ends the communicator for a reason that this rank has found, unless the operation runs.
    #[cold]
    pub(super) fn fail(&mut self, cause: Cause, account: impl Into<Account>) -> Step {
        if self.runs_anyway() {
            return Step::Again;
        }
        let error = CommError::new(self.origin(), cause, account);
        let error = self.member.comm.fail(error);
        Step::Done(Err(self.failure(&error)))
    }

    /// Closes the operation for all ranks. If the operation has already begun, returns true, and
    /// this rank continues with it.
    fn runs_anyway(&mut self) -> bool {
        if matches!(self.state, PendingState::Arrived)
            && !self.is_small()
            && self.member.comm.job.close(self.place.number) == Phase::Running
        {
            self.begin_late();
            return true;
        }
        false
    }

    fn begin_late(&mut self) {
        match self.gather() {
            Ok(()) => self.join_in(),
            Err(rank) => self.give_up_on(rank),
        }
    }

    pub(in crate::issue) fn join_in(&mut self) {
        let plan = Plan::new(&self.call.request, self.member.comm.meeting.ranks());
        self.state = PendingState::Running(plan, Store::Plain);
    }

    pub(in crate::issue) fn origin(&self) -> Origin {
        Origin::Collective(self.place.number)
    }

    pub(in crate::issue) fn failure(&self, error: &CommError) -> Failure {
        let Self { member, place, call, .. } = self;
        let task = format!(
            "{} #{} of communicator \"{}\", rank {}",
            call.request.function(),
            place.number,
            member.comm.title(),
            member.rank
        );
        let text = error.told(error.cause.report_code(), self.origin());
        Failure::new(error.cause.acl_error(), text).of_task(task)
    }

    /// Fails the operation, unless it already runs or all ranks have arrived in the meantime.
    pub(crate) fn expire(&mut self, why: &Reason) -> Step {
        match self.state {
            PendingState::Running(plan, store) => return self.work(plan, store),
            PendingState::Arrived if !matches!(why, Reason::Panicked) => {
                let look = self.look();
                if !matches!(look, MeetingView::Waiting(_)) {
                    return self.go_on(look);
                }
            }
            PendingState::Ready | PendingState::Staging(..) | PendingState::Arrived => {}
        }
        let (comm, number) = (&self.member.comm, self.place.number);
        let (cause, text) = match why {
            Reason::Timeout(limit) => (Cause::Timeout, comm.absent(number, *limit)),
            Reason::Deadlock(_) => (Cause::Deadlock, why.text().to_string()),
            why => {
                let rank = self.member.rank;
                (Cause::Gone, format!("rank {rank} gave up: {}", why.text()))
            }
        };
        match self.fail(cause, text) {
            Step::Done(Err(failure)) => Step::Done(Err(failure.with_code(why.code()))),
            step => step,
        }
    }
}
