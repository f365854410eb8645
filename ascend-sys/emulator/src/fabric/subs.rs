//! Sub-communicators that each of their ranks makes alone, without waiting for the others.
//!
//! Ranks find each other by the name and the list of ranks that they give. The parent keeps the
//! sub-communicators that some of their ranks have made and others have not made yet, in the order
//! of making. A rank gets the first of these that it has not made. So two communicators that have
//! the same name one after the other are never mixed up, even if a rank is far behind.
//!
//! No rank waits here. If the request of a rank differs, that rank gets an error at once. The ranks
//! that made the sub-communicator before learn of it in their next operation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attempt;
use super::comm::Comm;
use super::news::SubCommRequest;
use super::parts::CommPart;
use crate::collective::account::Account;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::sides::{Sides, list};
use crate::message::{Failure, refuse};
use crate::processes::region::Ground;

/// The reason why a sub-communicator could not be made.
pub(super) enum NotMade {
    Differs(Account),
    Fails(Failure),
}

/// The sub-communicators of a parent that not all of their ranks have made so far.
#[derive(Default)]
pub(crate) struct Subs(Mutex<Vec<Sub>>);

struct Sub {
    wish: SubCommRequest,
    comm: Arc<Comm>,
    /// Whether each rank of the sub-communicator has made it.
    made: Vec<bool>,
}

impl Subs {
    fn lock(&self) -> MutexGuard<'_, Vec<Sub>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Comm {
    /// Makes a sub-communicator as seen from its rank `own`, whose rank in this communicator is
    /// `wish.ranks[own]`. If some of its ranks are in other processes, waits for the process that
    /// keeps the [register](super::joint_subs).
    pub(crate) fn make_sub(&self, own: usize, wish: SubCommRequest) -> Result<Arc<Comm>, Failure> {
        if let Some(joint) = &self.joint
            && !wish.ranks.iter().all(|rank| joint.is_own(*rank))
        {
            return self.make_joint_sub(joint, own, &wish).or_else(|why| match why {
                NotMade::Fails(failure) => Err(failure),
                NotMade::Differs(account) => self.refuse_sub(account),
            });
        }
        let rank = wish.ranks[own];
        let mut subs = self.part(Subs::default).lock();
        for index in 0..subs.len() {
            let sub = &mut subs[index];
            let Some(sub_rank) = sub.wish.ranks.iter().position(|other| *other == rank) else {
                continue;
            };
            if sub.wish.name != wish.name || sub.made[sub_rank] {
                continue;
            }
            sub.made[sub_rank] = true;
            let (made, known) = (Arc::clone(&sub.comm), sub.wish.ranks.clone());
            let disagreement = sub.disagreement(self, rank, &wish);
            if sub.made.iter().all(|made| *made) {
                subs.remove(index);
            }
            drop(subs);
            return match disagreement {
                None => Ok(made),
                Some(account) => {
                    let text = account.text.clone();
                    // The account has ranks of the parent. In the error of the sub-communicator,
                    // they become its own ranks, numbered as in the first request.
                    let own = |rank| known.iter().position(|other| *other == rank);
                    let said =
                        account.said.iter().map(|(rank, said)| Some((own(*rank)?, said.clone())));
                    let said = said.flatten().collect();
                    let error = |account| CommError::new(Origin::Call, Cause::Mismatch, account);
                    made.fail(error(Account { text, said }));
                    self.refuse_sub(account)
                }
            };
        }
        let comm = self.new_sub_on(&Ground::Heap, &wish);
        let comm = Arc::new(comm);
        let mut made = vec![false; wish.ranks.len()];
        made[own] = true;
        for (sub_rank, other) in
            wish.ranks.iter().enumerate().filter(|(sub_rank, _)| *sub_rank != own)
        {
            if let Some(why) = self.board.departure(*other) {
                comm.leave(sub_rank, why);
            }
        }
        if made.len() > 1 {
            subs.push(Sub { wish, comm: Arc::clone(&comm), made });
        }
        Ok(comm)
    }
}

impl Comm {
    /// Records for the calling rank that its request differs from that of the others, and returns
    /// the failure.
    #[cold]
    fn refuse_sub<T>(&self, account: Account) -> Result<T, Failure> {
        let text = account.text.clone();
        let error = CommError::new(Origin::Call, Cause::Mismatch, account);
        let ranks = (0..self.ranks()).map(|rank| error.side_of(rank)).collect();
        attempt::fail(Arc::new(CommError { ranks, ..error }));
        refuse!(HCCL_E_PARA, "EI0005: {text}")
    }
}

impl CommPart for Subs {
    /// Handles a rank of the parent that will make no more sub-communicators.
    fn left(&self, rank: usize, why: &str) {
        let mut left = Vec::new();
        for Sub { wish, comm, made } in &*self.lock() {
            let sub_rank = wish.ranks.iter().position(|other| *other == rank);
            left.extend(
                sub_rank
                    .filter(|sub_rank| !made[*sub_rank])
                    .map(|sub_rank| (Arc::clone(comm), sub_rank)),
            );
        }
        for (comm, sub_rank) in left {
            comm.leave(sub_rank, why.to_owned());
        }
    }
}

impl Sub {
    /// Returns how a rank's request differs from those of the earlier ranks; `None` if they agree.
    fn disagreement(&self, parent: &Comm, rank: usize, wish: &SubCommRequest) -> Option<Account> {
        if self.wish.ranks == wish.ranks && self.wish.buffer_megabytes == wish.buffer_megabytes {
            return None;
        }
        let said = |wish: &SubCommRequest| {
            vec![list(&wish.ranks), format!("buffers of {} MB", wish.buffer_megabytes)]
        };
        let mut sides = Sides::default();
        let made =
            self.made.iter().zip(&self.wish.ranks).filter(|(made, of)| **made && **of != rank);
        made.for_each(|(_, of)| sides.says(*of, said(&self.wish)));
        sides.says(rank, said(wish));
        // A sub-communicator without a name of its own is named after its parent, whose title is
        // shown.
        let name = match wish.name.strip_prefix(&*parent.name) {
            Some(rest) => format!("{}{rest}", parent.title()),
            None => wish.name.clone(),
        };
        let parent = parent.title();
        Some(sides.under(&format!(
            "the ranks of \"{parent}\" disagree about the sub-communicator \"{name}\""
        )))
    }
}
