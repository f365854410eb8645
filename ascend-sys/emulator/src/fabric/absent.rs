//! Handles processes that end, or cannot be reached, while their ranks join a communicator.

use super::between::Side;
use super::formation::cannot_be_made;
use super::gathering::Gathering;
use super::news::Formation;
use crate::collective::comm_error::Cause;
use crate::processes::peer::{Home, Peer};

impl Gathering {
    /// Gives up on the ranks of a process that cannot be reached, and fails the gathering.
    /// `process` is the number of the process in the formation.
    pub(super) fn give_up_on_process(&mut self, formation: &Formation, process: usize, why: &str) {
        let ranks = (0..).zip(&formation.ranks).filter(|(_, (of, _))| *of == process);
        self.ranks = formation.ranks.len() as u32;
        self.give_up_on(ranks.map(|(rank, _)| rank), why);
        if self.outcome.is_none() {
            self.fail(Cause::Gone, cannot_be_made(why));
        }
    }

    /// Gives up on the applicants of a process that is lost.
    pub(super) fn lose_guests(&mut self, lost: &Peer, why: &str) {
        self.give_up_on_applicants(|applicant| applicant.is_of(lost), why);
    }

    /// Handles the loss of a process. If the lost process is the home of the gathering, gives up on
    /// the ranks of the home and fails the gathering.
    pub(super) fn lose_home(&mut self, lost: &Home, why: &str) {
        let Side::Away(away) = &self.side else { return };
        if away.home != *lost || self.outcome.is_some() {
            return;
        }
        self.give_up_on(away.at_home.clone(), why);
        if self.outcome.is_none() {
            let text = format!(
                "EI0015: {why}. The ranks met in that process, so the communicator cannot be made. \
                 Join again on all ranks, with a new root info (HcclGetRootInfo) if they had one"
            );
            self.fail(Cause::Gone, text);
        }
    }
}
