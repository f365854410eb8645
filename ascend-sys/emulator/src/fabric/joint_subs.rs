//! Sub-communicators of ranks in several processes.
//!
//! One process keeps the register: that of the lowest rank of the parent which is not gone. A rank
//! that makes a sub-communicator asks it for the words that the ranks will share, and says what it
//! wants. The first request decides; a rank whose request differs is told so. So a rank waits for
//! an answer of that process, and for no other rank.
//!
//! The register stays when all ranks of that process have left the parent: ranks of others may
//! still ask. The process keeps the parent until they have left it too, are gone, or the parent has
//! failed.
//!
//! The k-th sub-communicator of a name that a rank makes is the same as the k-th of that name on
//! the others.

use std::cell::OnceCell;
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

/// Parents whose register this process keeps, though its own ranks have left them.
static KEPT: Mutex<Vec<Arc<Comm>>> = Mutex::new(Vec::new());

/// Whether ranks of other processes may still ask the register, which this process keeps.
fn is_asked(comm: &Comm) -> bool {
    let Some(joint) = comm.joint.as_ref().filter(|joint| joint.rest.is_some()) else {
        return false;
    };
    let may_ask = |rank: usize| {
        !joint.is_own(rank) && !joint.is_lost(rank) && comm.board.departure(rank).is_none()
    };
    joint.registrar().is_none() && !comm.meeting.is_broken() && (0..comm.ranks()).any(may_ask)
}

/// A rank of this process has left a communicator: its register stays as long as others may ask.
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

/// Ranks of other processes have left or are gone, or something has failed.
pub(super) fn let_go() {
    let over: Vec<Arc<Comm>> = {
        let mut kept = lock(&KEPT);
        let (stay, over) = kept.drain(..).partition(|comm| is_asked(comm));
        *kept = stay;
        over
    };
    // Dropped without the lock: this may be the end of these communicators.
    drop(over);
}

/// The sub-communicators of a parent, as this process knows them.
#[derive(Default)]
pub(crate) struct JointSubs(Mutex<KnownSubs>);

#[derive(Default)]
struct KnownSubs {
    /// How many sub-communicators of a name each rank of this process has made.
    turns: BTreeMap<(usize, String), u64>,
    /// The register, in the process that keeps it.
    register: BTreeMap<(String, u64), Registered>,
    /// Answers to ranks of this process, which take them.
    answers: BTreeMap<(usize, String, u64), SubAnswer>,
}

/// A sub-communicator in the register.
struct Registered {
    /// The request of the first rank.
    wish: SubCommRequest,
    first: usize,
    key: u64,
    file: Arc<OwnedFd>,
    /// The ranks of the parent that have asked for it.
    asked: Vec<usize>,
}

/// The key and the words; or how the request differs from that of other ranks.
type SubAnswer = Result<(u64, Arc<OwnedFd>), Account>;

impl CommPart for JointSubs {
    fn left(&self, _: usize, _: &str) {}
}

impl Comm {
    fn joint_subs(&self) -> &JointSubs {
        self.part(JointSubs::default)
    }

    /// Makes a sub-communicator as seen from rank `own` of it, some of whose ranks are in other
    /// processes.
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

    /// Asks the process of a rank, which keeps the register.
    fn ask(
        &self,
        keeper: usize,
        peer: &Peer,
        rank: usize,
        turn: u64,
        wish: &SubCommRequest,
    ) -> Result<SubAnswer, Failure> {
        self.tell_one(peer, CommNews::WantsSub { rank, turn, wish: wish.clone() }, None);
        let key = (rank, wish.name.clone(), turn);
        let found = OnceCell::new();
        let is_answered = || {
            if let Some(answer) = lock(&self.joint_subs().0).answers.remove(&key) {
                let _ = found.set(answer);
            }
            found.get().is_some() || peer.gone().is_some()
        };
        executor::wait_until(Some(self.connect_timeout), is_answered);
        match (found.into_inner(), peer.gone()) {
            (Some(answer), _) => Ok(answer),
            (None, Some(why)) => refuse!(
                HCCL_E_REMOTE,
                "EI0012: the sub-communicator \"{}\" cannot be made: rank {keeper} is gone ({why})",
                wish.name
            ),
            (None, None) => refuse!(
                HCCL_E_TIMEOUT,
                "EI0006: rank {keeper}, in process {}, did not answer within {:.1} s about the sub-communicator \"{}\"",
                peer.home.process,
                self.connect_timeout.as_secs_f64(),
                wish.name
            ),
        }
    }

    /// A rank asks the register, which this process keeps.
    fn register(&self, joint: &Joint, rank: usize, turn: u64, wish: &SubCommRequest) -> SubAnswer {
        let mut known = lock(&self.joint_subs().0);
        let place = (wish.name.clone(), turn);
        if !known.register.contains_key(&place) {
            let bytes = Comm::measure(|ground| self.new_sub_on(ground, wish));
            let file = memory_file(bytes).map_err(|e| {
                Account::from(format!("there is no memory to share, {bytes} bytes: {e}"))
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
            return Err(Account::from(String::from("the register has lost it")));
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
        // All ranks have it.
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

    /// Returns this process's side of a sub-communicator; the first of its ranks that comes here
    /// makes it.
    fn side_of_sub(
        &self,
        joint: &Joint,
        key: u64,
        file: &OwnedFd,
        wish: &SubCommRequest,
    ) -> Result<Arc<Self>, Failure> {
        // Under the lock, so that it is made once.
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
                    "the words of the sub-communicator \"{}\" cannot be mapped: {e}",
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
        // Asks for the news that the others sent before this side existed.
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

    /// A rank of another process asks the register, which this process keeps.
    pub(super) fn hear_wish(
        &self,
        joint: &Joint,
        from: &Peer,
        rank: usize,
        turn: u64,
        wish: SubCommRequest,
    ) {
        // Each rank takes memory here, so a peer must not invent more ranks than there are.
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
        lock(&self.joint_subs().0).answers.insert((rank, name, turn), answer);
    }
}

/// Ends a sub-communicator for the ranks that have made it, because others asked for something
/// else.
#[cold]
fn end_sub(parent: &Joint, known: &Registered, account: Account) {
    // In the numbers of the sub-communicator.
    let own = |rank: &usize| known.wish.ranks.iter().position(|other| other == rank);
    let Account { text, said } = account;
    let said = said.into_iter().filter_map(|(rank, said)| Some((own(&rank)?, said))).collect();
    let error = CommError::new(Origin::Call, Cause::Mismatch, Account { text, said });
    match joint::find(known.key) {
        Some(comm) => drop(comm.fail(error)),
        None => parent.tell(known.key, CommNews::Broken { error }),
    }
}
