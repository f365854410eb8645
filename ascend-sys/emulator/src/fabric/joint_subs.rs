//! Sub-communicators of ranks in several processes.
//!
//! One process keeps the register: the process of the lowest rank of the parent that is not gone. A
//! rank that makes a sub-communicator sends its request to that process, and gets the words that
//! the ranks will share. The first request decides. If the request of another rank differs, that
//! rank gets an error, and the sub-communicator fails for the ranks that have it. So a rank waits
//! only for the answer of that process, and not for other ranks.
//!
//! The register stays when all ranks of that process have left the parent, because ranks of other
//! processes may still send requests. The process keeps the parent until these ranks have left it
//! or are gone, or until the parent has failed.
//!
//! The k-th sub-communicator of a name that one rank makes is the same as the k-th of that name on
//! the other ranks.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use super::comm::Comm;
use super::joint::{self, Abroad, Joint};
use super::news::{CommNews, SubCommRequest};
use super::parts::CommPart;
use super::subs::NotMade;
use crate::collective::account::Account;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::sides::{Sides, list};
use crate::executor;
use crate::message::{Failure, refuse};
use crate::processes::peer::{Peer, random};
use crate::processes::region::{Ground, SharedMemory, memory_file};
use ascend_sync::lock_std as lock;

/// The parents whose register this process keeps although its own ranks have left them.
static KEPT: Mutex<Vec<Arc<Comm>>> = Mutex::new(Vec::new());

/// Returns whether this process keeps the register of `comm`, and ranks of other processes may
/// still send requests to it.
fn is_asked(comm: &Comm) -> bool {
    let Some(joint) = comm.joint.as_ref().filter(|joint| joint.rest.is_some()) else {
        return false;
    };
    let may_ask = |rank: usize| {
        !joint.is_own(rank) && !joint.is_lost(rank) && comm.board.departure(rank).is_none()
    };
    joint.registrar().is_none() && !comm.meeting.is_broken() && (0..comm.ranks()).any(may_ask)
}

/// Keeps the register of a communicator that a rank of this process has left, as long as other
/// ranks may send requests to it.
pub(super) fn keep(comm: &Comm) {
    if !is_asked(comm) {
        return;
    }
    let Some(found) = comm.joint.as_ref().and_then(|joint| joint::find(joint.key)) else { return };
    let mut kept = lock(&KEPT);
    if !kept.iter().any(|known| Arc::ptr_eq(known, &found)) {
        kept.push(found);
    }
}

/// Drops the registers that no rank can send requests to any more. Called when ranks of other
/// processes have left or are gone, or when a communicator has failed.
pub(super) fn let_go() {
    let over: Vec<Arc<Comm>> = {
        let mut kept = lock(&KEPT);
        let (stay, over) = kept.drain(..).partition(|comm| is_asked(comm));
        *kept = stay;
        over
    };
    // Dropped without the lock, because this may drop the communicators themselves.
    drop(over);
}

/// This process's data about the sub-communicators of a parent.
#[derive(Default)]
pub(crate) struct JointSubs(Mutex<KnownSubs>);

#[derive(Default)]
struct KnownSubs {
    /// The number of sub-communicators that each rank of this process has made, by rank and name.
    turns: BTreeMap<(usize, String), u64>,
    /// The register, in the process that keeps it.
    register: BTreeMap<(String, u64), Registered>,
    /// The requests of ranks of this process that wait for their answer, and the answers that have
    /// come. An answer that nobody waits for any more is dropped.
    answers: BTreeMap<(usize, String, u64), Option<SubAnswer>>,
}

/// A sub-communicator in the register.
struct Registered {
    /// The request of the first rank.
    wish: SubCommRequest,
    first: usize,
    key: u64,
    file: Arc<OwnedFd>,
    /// The ranks of the parent that have requested the sub-communicator.
    asked: Vec<usize>,
}

/// The answer to a request: the key and the file of the shared words, or the reason why there is no
/// sub-communicator. The reason is the difference between this request and that of other ranks, or
/// that there is no memory for the shared words.
type SubAnswer = Result<(u64, Arc<OwnedFd>), Account>;

impl CommPart for JointSubs {
    fn left(&self, _: usize, _: &str) {}
}

impl Comm {
    fn joint_subs(&self) -> &JointSubs {
        self.part(JointSubs::default)
    }

    /// Makes a sub-communicator, some of whose ranks are in other processes, as seen from its rank
    /// `own`. Waits for the process that keeps the register.
    pub(super) fn make_joint_sub(
        &self,
        joint: &Joint,
        own: usize,
        wish: &SubCommRequest,
    ) -> Result<Arc<Self>, NotMade> {
        let rank = wish.ranks[own];
        let turn = {
            let mut known = lock(&self.joint_subs().0);
            let turn = known.turns.entry((rank, wish.name.clone())).or_default();
            *turn += 1;
            *turn
        };
        let answer = match joint.registrar() {
            None => self.register(joint, rank, turn, wish),
            Some((keeper, peer)) => {
                self.ask(keeper, &peer, rank, turn, wish).map_err(NotMade::Fails)?
            }
        };
        let (key, file) = answer.map_err(NotMade::Differs)?;
        self.side_of_sub(joint, key, &file, wish).map_err(NotMade::Fails)
    }

    /// Sends a request to the process of rank `keeper`, which keeps the register, and waits for the
    /// answer.
    fn ask(
        &self,
        keeper: usize,
        peer: &Peer,
        rank: usize,
        turn: u64,
        wish: &SubCommRequest,
    ) -> Result<SubAnswer, Failure> {
        let key = (rank, wish.name.clone(), turn);
        lock(&self.joint_subs().0).answers.insert(key.clone(), None);
        self.tell_one(peer, CommNews::WantsSub { rank, turn, wish: wish.clone() }, None);
        let is_answered = || {
            let has_come =
                lock(&self.joint_subs().0).answers.get(&key).is_some_and(Option::is_some);
            has_come || peer.gone().is_some()
        };
        executor::goals::wait_until(Some(self.connect_timeout), is_answered);
        let answer = lock(&self.joint_subs().0).answers.remove(&key).flatten();
        match (answer, peer.gone()) {
            (Some(answer), _) => Ok(answer),
            (None, Some(why)) => refuse!(
                HCCL_E_REMOTE,
                "EI0012: the sub-communicator \"{}\" cannot be made: rank {keeper} is gone \
                 ({why}). Make a new communicator on the ranks that remain",
                wish.name
            ),
            (None, None) => refuse!(
                HCCL_E_TIMEOUT,
                "EI0006: rank {keeper}, in process {}, did not answer within {:.1} s about the \
                 sub-communicator \"{}\"; check that its process is not stopped",
                peer.home.process,
                self.connect_timeout.as_secs_f64(),
                wish.name
            ),
        }
    }

    /// Handles the request of a rank in the register, which this process keeps.
    fn register(&self, joint: &Joint, rank: usize, turn: u64, wish: &SubCommRequest) -> SubAnswer {
        let mut known = lock(&self.joint_subs().0);
        let place = (wish.name.clone(), turn);
        if !known.register.contains_key(&place) {
            let bytes = Comm::measure(|ground| self.new_sub_on(ground, wish));
            let file = memory_file(bytes).map_err(|e| {
                Account::from(format!(
                    "cannot make {bytes} bytes of shared memory: {e}. Check the limits on memory \
                     and open files (ulimit -v, ulimit -n)"
                ))
            })?;
            let key = random();
            let new = Registered {
                wish: wish.clone(),
                first: rank,
                key,
                file: Arc::new(file),
                asked: Vec::new(),
            };
            known.register.insert(place.clone(), new);
        }
        let Some(found) = known.register.get_mut(&place) else {
            return Err(Account::from(String::from("internal error: the register has no entry")));
        };
        found.asked.push(rank);
        let is_same =
            found.wish.ranks == wish.ranks && found.wish.buffer_megabytes == wish.buffer_megabytes;
        let answer = match is_same {
            true => Ok((found.key, Arc::clone(&found.file))),
            false => {
                let account = self.differ(found, rank, wish);
                end_sub(joint, found, account.clone());
                Err(account)
            }
        };
        // All ranks have their answers, so the entry is no longer needed.
        if found.wish.ranks.iter().all(|rank| found.asked.contains(rank)) {
            known.register.remove(&place);
        }
        answer
    }

    #[cold]
    fn differ(&self, known: &Registered, rank: usize, wish: &SubCommRequest) -> Account {
        let said = |wish: &SubCommRequest| {
            vec![list(&wish.ranks), format!("buffers of {} MB", wish.buffer_megabytes)]
        };
        let mut sides = Sides::default();
        sides.says(known.first, said(&known.wish));
        sides.says(rank, said(wish));
        sides.under(&format!(
            "the ranks of \"{}\" disagree about the sub-communicator \"{}\"",
            self.title(),
            wish.name
        ))
    }

    /// Returns this process's side of a sub-communicator. The first rank of the sub-communicator in
    /// this process makes the side.
    fn side_of_sub(
        &self,
        joint: &Joint,
        key: u64,
        file: &OwnedFd,
        wish: &SubCommRequest,
    ) -> Result<Arc<Self>, Failure> {
        // The lock is held so that the side is made only once.
        let _known = lock(&self.joint_subs().0);
        if let Some(comm) = joint::find(key) {
            return Ok(comm);
        }
        let bytes = Comm::measure(|ground| self.new_sub_on(ground, wish));
        let memory = file.try_clone().and_then(|file| SharedMemory::map(file, 0, bytes));
        let memory = match memory {
            Ok(memory) => memory,
            Err(e) => {
                return refuse!(
                    HCCL_E_MEMORY,
                    "the shared memory of the sub-communicator \"{}\" cannot be mapped: {e}. \
                     Check the limits on address space and open files (ulimit -v, ulimit -n)",
                    wish.name
                );
            }
        };
        let ground = Ground::shared(Arc::new(memory));
        let mut comm = self.new_sub_on(&ground, wish);
        let abroad: Vec<Option<Abroad>> =
            wish.ranks.iter().map(|rank| joint.abroad(*rank).cloned()).collect();
        comm.joint = Some(Joint::new(key, abroad, ground.rest()));
        let comm = Arc::new(comm);
        comm.publish();
        // Requests the news that the other processes sent before this side existed.
        comm.tell(|| CommNews::Asks);
        for (sub_rank, rank) in wish.ranks.iter().enumerate() {
            if joint.is_own(*rank)
                && let Some(why) = self.board.departure(*rank)
            {
                comm.leave(sub_rank, why);
            }
        }
        Ok(comm)
    }

    /// Handles the request of a rank of another process to the register, which this process keeps.
    pub(super) fn hear_wish(
        &self,
        joint: &Joint,
        from: &Peer,
        rank: usize,
        turn: u64,
        wish: SubCommRequest,
    ) {
        // The register takes memory for each rank of a request, so it accepts only ranks of the
        // parent.
        let within =
            wish.ranks.len() <= self.ranks() && wish.ranks.iter().all(|rank| *rank < self.ranks());
        if !within || !wish.ranks.contains(&rank) {
            return;
        }
        let name = wish.name.clone();
        let (news, file) = match self.register(joint, rank, turn, &wish) {
            Ok((key, file)) => (CommNews::SubIs { rank, turn, name, key }, Some(file)),
            Err(Account { text, said }) => {
                (CommNews::SubDiffers { rank, turn, name, text, said }, None)
            }
        };
        self.tell_one(from, news, file);
    }

    /// Handles the answer of the process that keeps the register.
    pub(super) fn hear_answer(
        &self,
        rank: usize,
        turn: u64,
        name: String,
        answer: Result<(u64, Option<OwnedFd>), Account>,
    ) {
        let answer = match answer {
            Ok((key, Some(file))) => Ok((key, Arc::new(file))),
            Ok((_, None)) => return,
            Err(account) => Err(account),
        };
        if let Some(place) = lock(&self.joint_subs().0).answers.get_mut(&(rank, name, turn)) {
            *place = Some(answer);
        }
    }
}

/// Ends a sub-communicator for the ranks that have made it, because another rank requested a
/// different one.
#[cold]
fn end_sub(parent: &Joint, known: &Registered, account: Account) {
    // Converts a rank of the parent into a rank of the sub-communicator.
    let own = |rank: &usize| known.wish.ranks.iter().position(|other| other == rank);
    let Account { text, said } = account;
    let said = said.into_iter().filter_map(|(rank, said)| Some((own(&rank)?, said))).collect();
    let error = CommError::new(Origin::Call, Cause::Mismatch, Account { text, said });
    match joint::find(known.key) {
        Some(comm) => drop(comm.fail(error)),
        None => parent.tell(known.key, CommNews::Broken { error }),
    }
}
