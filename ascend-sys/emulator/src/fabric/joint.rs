//! The part of a communicator that is in other processes, and the news that its processes exchange.
//!
//! Each process has a [`Comm`] of its own. Their meetings, jobs and messages use the same words, in
//! shared memory. Each process keeps the rest of a `Comm` for itself: the first calls of the ranks,
//! the ranks that are gone, and the error of the communicator. When the rest changes, the process
//! sends news to the other processes. News about one rank arrives in the order in which it was
//! sent.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::comm::Comm;
use super::joint_subs;
use super::news::{CommNews, News};
use super::parts::Unheard;
use crate::collective::account::Account;
use crate::collective::comm_error::{Cause, CommError, Origin, Presence};
use crate::collective::sleeper::Sleeper;
use crate::executor::cores;
use crate::processes::listener::as_bytes;
use crate::processes::peer::{Peer, PeerMemory};
use crate::processes::region::SharedMemory;
use ascend_sync::lock_std as lock;

/// The part of a communicator that is in other processes; see the [module](self).
pub(crate) struct Joint {
    /// The key by which the processes identify the communicator.
    pub(super) key: u64,
    /// The ranks of other processes, by rank; `None` for a rank of this process.
    ranks: Box<[Option<Abroad>]>,
    /// The other processes, each once.
    peers: Box<[Arc<Peer>]>,
    /// A flag that is set when one of the other processes is gone.
    has_lost: OnceLock<()>,
    /// The shared memory, and the offset after the words of this communicator. The words of the
    /// communicator [beside](super::beside) it follow there. `None` if this communicator is itself
    /// beside another one.
    pub(super) rest: Option<(Arc<SharedMemory>, usize)>,
    unheard: Unheard,
    /// Whether this process has reported to the others that the communicator has failed.
    said_broken: AtomicBool,
}

/// A rank in another process.
#[derive(Clone)]
pub(super) struct Abroad {
    pub(super) peer: Arc<Peer>,
    /// The memory of the rank's device.
    pub(super) memory: PeerMemory,
    /// Whether checked mode watches the device.
    pub(super) checked: bool,
}

/// The number of joint communicators. If there are none, callers need not search for one.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Returns whether some communicator of this process has ranks in other processes.
#[inline]
pub(crate) fn is_any_joint() -> bool {
    LIVE.load(Ordering::Relaxed) != 0
}

/// All joint communicators of this process.
static JOINTS: Mutex<Vec<(u64, Weak<Comm>)>> = Mutex::new(Vec::new());

impl Joint {
    pub(super) fn new(
        key: u64,
        ranks: Vec<Option<Abroad>>,
        rest: Option<(Arc<SharedMemory>, usize)>,
    ) -> Self {
        let mut peers: Vec<Arc<Peer>> = Vec::new();
        for Abroad { peer, .. } in ranks.iter().flatten() {
            if !peers.iter().any(|known| Arc::ptr_eq(known, peer)) {
                peers.push(Arc::clone(peer));
            }
        }
        LIVE.fetch_add(1, Ordering::Relaxed);
        let (ranks, peers) = (ranks.into(), peers.into());
        Self {
            key,
            ranks,
            peers,
            has_lost: OnceLock::new(),
            rest,
            unheard: Unheard::default(),
            said_broken: AtomicBool::new(false),
        }
    }

    pub(super) fn abroad(&self, rank: usize) -> Option<&Abroad> {
        self.ranks.get(rank)?.as_ref()
    }

    /// Returns whether a rank is in this process.
    pub(crate) fn is_own(&self, rank: usize) -> bool {
        self.abroad(rank).is_none()
    }

    pub(super) fn ranks(&self) -> &[Option<Abroad>] {
        &self.ranks
    }

    fn own_ranks(&self) -> impl Iterator<Item = usize> {
        (0..self.ranks.len()).filter(|rank| self.is_own(*rank))
    }

    /// Finds bytes in the device memory of a rank of another process. Returns that process, and the
    /// offset of the bytes in the file of its device memory. `None` if the rank is in this process,
    /// or if the bytes do not all lie in the memory of the rank's device.
    pub(crate) fn in_file(
        &self,
        rank: usize,
        address: usize,
        bytes: usize,
    ) -> Option<(&Arc<Peer>, usize)> {
        let Abroad { peer, memory, .. } = self.abroad(rank)?;
        memory.find(address, bytes)?;
        Some((peer, peer.offset_of(address)?))
    }

    /// Finds pinned host memory in the process of a rank of another process. Returns that process,
    /// and the offset of the bytes in the file of its host memory. `None` if the rank is in this
    /// process, or if the bytes are not all pinned host memory.
    pub(crate) fn in_file_of_host(
        &self,
        rank: usize,
        address: usize,
        bytes: usize,
    ) -> Option<(&Arc<Peer>, usize)> {
        let Abroad { peer, .. } = self.abroad(rank)?;
        Some((peer, peer.offset_of_host(address, bytes)?))
    }

    /// Returns the address in this process of bytes that a rank has at `address` in its own
    /// process. `None` if that is another process, and the bytes do not all lie in the memory of
    /// the rank's device.
    pub(crate) fn find(&self, rank: usize, address: usize, bytes: usize) -> Option<*mut u8> {
        match self.abroad(rank) {
            Some(Abroad { memory, .. }) => memory.find(address, bytes),
            None => Some(std::ptr::with_exposed_provenance_mut(address)),
        }
    }

    /// Returns the names of the other processes, except those that are known to have ended.
    pub(super) fn names(&self) -> impl Iterator<Item = u64> {
        let is_over = |peer: &Arc<Peer>| self.has_lost() && peer.gone().is_some();
        self.peers.iter().filter(move |peer| !is_over(peer)).map(|peer| peer.home.name)
    }

    /// Returns true at the first call, whose caller reports the failure.
    pub(super) fn says_first_that_it_is_broken(&self) -> bool {
        !self.said_broken.swap(true, Ordering::Relaxed)
    }

    pub(super) fn has_unheard(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// Returns whether one of the other processes is gone.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.get().is_some()
    }

    /// Returns the ranks whose processes are gone, and the reason why the process of the first of
    /// these ranks is gone. `None` if no process is gone.
    pub(crate) fn lost(&self) -> Option<(Vec<usize>, &str)> {
        let ranks: Vec<usize> = (0..self.ranks.len()).filter(|rank| self.is_lost(*rank)).collect();
        let why = self.abroad(*ranks.first()?)?.peer.gone()?;
        Some((ranks, why))
    }

    /// Returns whether the process of a rank is gone.
    pub(crate) fn is_lost(&self, rank: usize) -> bool {
        self.abroad(rank).is_some_and(|abroad| abroad.peer.gone().is_some())
    }

    /// Returns the process that keeps the register of sub-communicators, with its rank. This is the
    /// process of the lowest rank that is not gone. Returns `None` if it is this process.
    pub(super) fn registrar(&self) -> Option<(usize, Arc<Peer>)> {
        let rank = (0..self.ranks.len()).find(|rank| !self.is_lost(*rank))?;
        Some((rank, Arc::clone(&self.abroad(rank)?.peer)))
    }

    /// Sends news about the communicator with the key `comm` to all other processes of this
    /// communicator.
    pub(super) fn tell(&self, comm: u64, news: CommNews) {
        let bytes = as_bytes(&News::Comm { comm, news });
        self.peers.iter().for_each(|peer| peer.say(&bytes, Vec::new()));
    }
}

impl Comm {
    /// Returns whether a rank is in this process.
    #[inline]
    pub(crate) fn is_own(&self, rank: usize) -> bool {
        self.joint.as_ref().is_none_or(|joint| joint.is_own(rank))
    }

    /// Returns whether checked mode in another process watches a rank of that process.
    pub(crate) fn is_checked_abroad(&self, rank: usize) -> bool {
        let joint = self.joint.as_ref();
        joint.and_then(|joint| joint.abroad(rank)).is_some_and(|abroad| abroad.checked)
    }

    /// Returns whether frames to another process of the communicator still wait to be sent.
    pub(crate) fn is_behind(&self) -> bool {
        let joint = self.joint.as_ref();
        joint.is_some_and(|joint| joint.peers.iter().any(|peer| peer.is_waiting()))
    }

    /// Returns whether the process of a rank is gone.
    pub(crate) fn is_lost(&self, rank: usize) -> bool {
        self.joint.as_ref().is_some_and(|joint| joint.is_lost(rank))
    }

    /// Returns whether some ranks of the communicator are in other processes.
    #[inline]
    pub(crate) fn is_joint(&self) -> bool {
        self.joint.is_some()
    }

    /// Returns the key that all processes share, if the ranks are in several processes.
    pub(crate) fn job_key(&self) -> Option<u64> {
        self.joint.as_ref().map(|joint| joint.key)
    }

    /// Returns the lowest rank that is in the same process as `rank`.
    pub(crate) fn first_of_process(&self, rank: usize) -> usize {
        let process = self.process_of(rank);
        (0..self.ranks()).find(|other| self.process_of(*other) == process).unwrap_or(rank)
    }

    /// Returns the id of the process that has a rank.
    pub(crate) fn process_of(&self, rank: usize) -> u32 {
        let abroad = self.joint.as_ref().and_then(|joint| joint.abroad(rank));
        abroad.map_or_else(std::process::id, |abroad| abroad.peer.home.process)
    }

    /// Registers the communicator: from now on, news from other processes reaches it.
    pub(super) fn publish(self: &Arc<Self>) {
        let Some(joint) = &self.joint else { return };
        for (rank, abroad) in joint.ranks.iter().enumerate() {
            if let Some(Abroad { peer, .. }) = abroad {
                let process = || Sleeper::Process(peer.bell.clone());
                self.meeting.set_waker(rank, process());
                self.exchange.party(rank).set_waker(process());
            }
        }
        let mut joints = lock(&JOINTS);
        joints.retain(|(_, comm)| comm.strong_count() > 0);
        joints.push((joint.key, Arc::downgrade(self)));
        drop(joints);
        share_cores();
        // Handles the processes that ended before this communicator was registered.
        for peer in &joint.peers {
            if let Some(why) = peer.gone() {
                lose(peer, why);
            }
        }
    }

    /// Sends news to the other processes, if there are any.
    pub(super) fn tell(&self, news: impl FnOnce() -> CommNews) {
        if let Some(joint) = &self.joint {
            joint.tell(joint.key, news());
        }
    }

    /// Sends news to one of the other processes.
    pub(super) fn tell_one(&self, peer: &Peer, news: CommNews, file: Option<Arc<OwnedFd>>) {
        if let Some(Joint { key, .. }) = &self.joint {
            say(peer, *key, news, file);
        }
    }

    /// Repeats the earlier news to a process that has just made its side.
    fn repeat(&self, joint: &Joint, peer: &Peer) {
        let board = self.board.lock();
        let mut said = Vec::new();
        for rank in joint.own_ranks() {
            let slot = &board.slots[rank];
            if let Some((number, request)) = slot.posted {
                said.push(CommNews::Posted { rank, number, request, waits: slot.waits });
            }
            for (purpose, call) in &board.shared {
                if let Some(told) = call.said[rank].clone() {
                    let (purpose, function) = (purpose.clone(), call.function.to_string());
                    said.push(CommNews::CallsWithAll { rank, purpose, said: told, function });
                }
            }
            for ((_, to), function) in board.wanted.iter().filter(|((from, _), _)| *from == rank) {
                said.push(CommNews::Wants {
                    rank,
                    peers: vec![*to],
                    function: function.to_string(),
                });
            }
            said.extend(slot.gone.clone().map(|why| CommNews::Left { rank, why }));
        }
        drop(board);
        let error = self.meeting.error();
        said.extend(error.map(|error| CommNews::Broken { error: (*error).clone() }));
        said.into_iter().for_each(|news| say(peer, joint.key, news, None));
        for (rank, abroad) in joint.ranks.iter().enumerate() {
            if abroad.as_ref().is_some_and(|abroad| abroad.peer.home == peer.home) {
                self.parts.all().for_each(|part| part.repeat(self, rank));
            }
        }
    }

    /// Notes that another process has ended its side of the communicator, or has not made it yet.
    /// Only the words of that process in shared memory show what its ranks have done.
    fn note_absence(&self, joint: &Joint, peer: &Arc<Peer>) {
        for (rank, abroad) in joint.ranks.iter().enumerate() {
            let is_theirs = abroad.as_ref().is_some_and(|abroad| Arc::ptr_eq(&abroad.peer, peer));
            if is_theirs && self.meeting.left_after(rank).is_some() {
                self.leave_here(rank, "it has ended its communicator".into());
            }
        }
        if self.meeting.is_broken() {
            let text = String::from("a rank of the communicator has failed earlier");
            self.fail_here(CommError::new(Origin::Call, Cause::Gone, text));
        }
    }

    /// Delivers the news of other processes to the parts of the communicator.
    pub(super) fn deliver(&self) {
        if let Some(joint) = &self.joint
            && let Some(error) = joint.unheard.deliver(self, &self.parts)
        {
            self.fail(error);
        }
    }

    /// Fails the communicator, because the process of some of its ranks is gone. Reports this to
    /// every process: otherwise a process that notices the loss later could first learn that
    /// another rank has left.
    pub(crate) fn end_for(&self, ranks: &[usize], why: &str) -> Arc<CommError> {
        ranks.iter().for_each(|rank| self.board.note_departure(*rank, why.to_owned()));
        let first = ranks.first().copied().unwrap_or_default();
        let text = format!("rank {first} is gone ({why})");
        let error = CommError::new(Origin::Call, Cause::Gone, text);
        // These ranks count as gone even if they have come to the operation before.
        let mut states = self.rank_states(&error);
        for (rank, state) in states.iter_mut().enumerate() {
            if ranks.contains(&rank) {
                (state.presence, state.text) = (Presence::Gone, why.to_owned());
            }
        }
        self.fail(CommError { ranks: states, ..error })
    }
}

fn say(peer: &Peer, comm: u64, news: CommNews, file: Option<Arc<OwnedFd>>) {
    peer.say(&as_bytes(&News::Comm { comm, news }), file.into_iter().collect());
}

/// Returns the communicator with a key, if this process has it.
pub(super) fn find(key: u64) -> Option<Arc<Comm>> {
    lock(&JOINTS).iter().find(|(known, _)| *known == key)?.1.upgrade()
}

/// Returns the key of the newest living communicator.
#[cfg(all(any(test, fuzzing), not(loom), not(miri)))]
pub(super) fn newest() -> Option<u64> {
    lock(&JOINTS).iter().rev().find(|(_, comm)| comm.strong_count() > 0).map(|(key, _)| *key)
}

/// Informs the executor how many ranks of other processes may wait at the same time as those of
/// this process. This is the largest number of ranks of other processes in one communicator.
fn share_cores() {
    let comms = all();
    let joints = comms.iter().filter_map(|comm| comm.joint.as_ref());
    let abroad = |joint: &Joint| joint.ranks.iter().flatten().count();
    match joints.max_by_key(|joint| abroad(joint)) {
        Some(joint) => {
            let processes = joint.peers.iter().map(|peer| peer.home.process);
            cores::share_with(abroad(joint), processes);
        }
        None => cores::share_with(0, std::iter::empty()),
    }
}

impl Drop for Joint {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        share_cores();
    }
}

fn all() -> Vec<Arc<Comm>> {
    lock(&JOINTS).iter().filter_map(|(_, comm)| comm.upgrade()).collect()
}

/// Wakes the ranks of this process, which may be able to go on.
pub(super) fn wake_own() {
    for comm in all() {
        let Some(joint) = &comm.joint else { continue };
        for rank in joint.own_ranks() {
            comm.meeting.wake_rank(rank);
            comm.exchange.party(rank).wake();
        }
    }
}

/// Handles news from another process about a communicator.
pub(super) fn hear(from: &Arc<Peer>, key: u64, news: CommNews, file: Option<OwnedFd>) {
    let Some(comm) = find(key) else {
        match news {
            CommNews::Asks => say(from, key, CommNews::NotHere, None),
            CommNews::Part { rank, news } => {
                if let Some((rank, news)) = news.answer_of_nobody(rank) {
                    say(from, key, CommNews::Part { rank, news }, None);
                }
            }
            _ => {}
        }
        return;
    };
    let Some(joint) = &comm.joint else { return };
    // A process may only speak for its own ranks.
    let is_theirs =
        |rank: usize| joint.abroad(rank).is_some_and(|abroad| Arc::ptr_eq(&abroad.peer, from));
    match news {
        CommNews::Broken { error } => {
            comm.fail_here(error);
            joint_subs::let_go();
        }
        CommNews::Left { rank, why } if is_theirs(rank) => {
            comm.leave_here(rank, why);
            joint_subs::let_go();
        }
        CommNews::Posted { rank, number, request, waits } if is_theirs(rank) => {
            comm.board.note_post(rank, number, request, waits);
        }
        CommNews::Asks => comm.repeat(joint, from),
        // A communicator beside another one is not used before all processes have made it. So this
        // answer does not mean that the process has left it: the answer may have been sent before
        // the process made its side.
        CommNews::NotHere if joint.rest.is_some() => comm.note_absence(joint, from),
        CommNews::WantsSub { rank, turn, wish } if is_theirs(rank) => {
            comm.hear_wish(joint, from, rank, turn, wish);
        }
        CommNews::SubIs { rank, turn, name, key } if joint.is_own(rank) => {
            comm.hear_answer(rank, turn, name, Ok((key, file)));
        }
        CommNews::SubDiffers { rank, turn, name, text, said } if joint.is_own(rank) => {
            comm.hear_answer(rank, turn, name, Err(Account { text, said }));
        }
        CommNews::Goes { rank } if is_theirs(rank) => comm.board.note_goes(rank),
        CommNews::Wants { rank, peers, function } if is_theirs(rank) => {
            let peers: Vec<usize> = peers.into_iter().filter(|peer| *peer < comm.ranks()).collect();
            comm.board.note_wanted(rank, &peers, Cow::Owned(function));
        }
        CommNews::CallsWithAll { rank, purpose, said, function } if is_theirs(rank) => {
            comm.board.note_shared(rank, purpose, said, Cow::Owned(function));
        }
        CommNews::Part { rank, news } if is_theirs(rank) => {
            joint.unheard.add(rank, news);
            comm.deliver();
        }
        _ => {}
    }
}

/// Handles the loss of a process: its ranks are gone, and operations of other ranks with them fail.
pub(super) fn lose(lost: &Arc<Peer>, why: &str) {
    for comm in all() {
        let Some(joint) = &comm.joint else { continue };
        let theirs = |rank: &usize| {
            joint.abroad(*rank).is_some_and(|abroad| Arc::ptr_eq(&abroad.peer, lost))
        };
        let ranks: Vec<usize> = (0..comm.ranks()).filter(theirs).collect();
        if ranks.is_empty() {
            continue;
        }
        // If all these ranks left earlier, they reported any failure then, so their end breaks
        // nothing.
        if ranks.iter().any(|rank| comm.board.departure(*rank).is_none()) {
            comm.end_for(&ranks, why);
        }
        let _ = joint.has_lost.set(());
        for part in comm.parts.all() {
            ranks.iter().for_each(|rank| part.lost(&comm, *rank));
        }
        comm.wake_all();
    }
    joint_subs::let_go();
}
