//! The meeting of the two ends of a channel.
//!
//! A call that needs new channels to a peer posts a *request*. The request has the wanted channels,
//! the ends that the call has made, and the memory that it exchanges. The oldest request of a rank
//! to a peer meets the oldest request of the peer to that rank. Each side compares the two requests
//! itself and gets the same result, so they need not exchange it. A request that finds no
//! counterpart in time is withdrawn, as if it had never been made.

use super::abroad;
use super::channel::{Channel, Exchanged};
use super::engine::name_of;
use crate::collective::comm_error::{Cause, CommError, Origin, Presence, RankState};
use crate::collective::sides::list;
use crate::executor;
use crate::fabric::{ChannelNews, Comm, Member, OfferedEnd, attempt};
use crate::message::{Failure, refuse};
use crate::stream::Stream;
use ascend_sync::lock_std as lock;
use ascend_sys::CommProtocol;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The requests of the ranks of a communicator.
#[derive(Default)]
pub(crate) struct Pairs {
    /// The waiting requests of each pair of ranks. The lower rank comes first in the key.
    waiting: HashMap<(usize, usize), Pair>,
    /// The requests of this process that meet in another process, by their numbers.
    asked: BTreeMap<u64, AskedRequest>,
    last_asked: u64,
    /// The highest request number received from each rank of another process.
    heard: HashMap<usize, u64>,
    /// Ends of ranks of other processes that are not connected yet, but whose requests have met a
    /// request of this process. The key is the rank and the end. The value is true if the end no
    /// longer exists.
    met: HashMap<(usize, u64), bool>,
}

/// The unmet requests of each side, the oldest first. At least one of the two lists is empty.
#[derive(Default)]
struct Pair([VecDeque<Arc<PostedRequest>>; 2]);

/// A request that meets in the process of its peer.
struct AskedRequest {
    rank: usize,
    peer: usize,
    posted: Arc<PostedRequest>,
}

/// A request that was posted, and the request that it has met, if any.
pub(super) struct PostedRequest {
    request: Arc<LinkRequest>,
    pub(super) met: OnceLock<Arc<LinkRequest>>,
}

/// The request of a rank to a peer.
pub(super) struct LinkRequest {
    /// The requests for channels, in an order that is the same on both sides.
    pub(super) channel_requests: Vec<ChannelRequest>,
    pub(super) function: &'static str,
    /// The message to the other process, if the peer is in another process.
    pub(super) offer: Vec<OfferedEnd>,
    /// The number of the request in its process, from 1, if it comes from another process; else 0.
    pub(super) number: u64,
}

/// A wanted channel, and the end that was made for it.
pub(super) struct ChannelRequest {
    pub(super) protocol: CommProtocol,
    pub(super) notifies: u32,
    pub(super) end: u64,
    pub(super) memories: Vec<Exchanged>,
}

impl Pairs {
    /// Posts a request of a rank to a peer. The request meets the oldest unmet request of the peer,
    /// if there is one.
    pub(super) fn post(
        &mut self,
        rank: usize,
        peer: usize,
        request: &Arc<LinkRequest>,
    ) -> Arc<PostedRequest> {
        let (key, side) = key(rank, peer);
        let waiting = &mut self.waiting.entry(key).or_default().0;
        let posted = PostedRequest::new(request);
        match waiting[1 - side].pop_front() {
            Some(theirs) => {
                // Each of the two meets the other.
                let _ = theirs.met.set(Arc::clone(&posted.request));
                let _ = posted.met.set(Arc::clone(&theirs.request));
                self.note_met(rank, request);
                self.note_met(peer, &theirs.request);
            }
            None => waiting[side].push_back(Arc::clone(&posted)),
        }
        posted
    }

    /// Posts a request that meets in the process of the peer, and sends it to that process.
    fn ask(
        &mut self,
        comm: &Comm,
        rank: usize,
        peer: usize,
        request: &Arc<LinkRequest>,
    ) -> Arc<PostedRequest> {
        let posted = PostedRequest::new(request);
        self.last_asked += 1;
        let asked = AskedRequest { rank, peer, posted: Arc::clone(&posted) };
        asked.tell(comm, self.last_asked);
        self.asked.insert(self.last_asked, asked);
        posted
    }

    /// Sends the open requests to a rank of another process once more, because that process may not
    /// have received them.
    pub(super) fn ask_again(&self, comm: &Comm, peer: usize) {
        let asked = self.asked.iter().filter(|(_, asked)| asked.peer == peer);
        asked.for_each(|(number, asked)| asked.tell(comm, *number));
    }

    /// Notes the number of a request of a rank of another process. Returns whether the request is
    /// new.
    pub(super) fn is_new(&mut self, rank: usize, number: u64) -> bool {
        let last = self.heard.entry(rank).or_default();
        let is_new = number > *last;
        *last = number.max(*last);
        is_new
    }

    /// Handles the report of another process that a request has met the request `theirs`. Returns
    /// false if the request was withdrawn.
    pub(super) fn answer(&mut self, rank: usize, number: u64, theirs: &Arc<LinkRequest>) -> bool {
        if self.asked.get(&number).is_none_or(|asked| asked.peer != rank) {
            return false;
        }
        let Some(AskedRequest { posted, .. }) = self.asked.remove(&number) else { return false };
        self.note_met(rank, theirs);
        posted.met.set(Arc::clone(theirs)).is_ok()
    }

    fn note_met(&mut self, rank: usize, request: &LinkRequest) {
        if request.is_abroad() {
            self.met.extend(request.ends().map(|end| ((rank, end), false)));
        }
    }

    /// Withdraws a request that was not met, as if it had never been made. Returns true if the
    /// request was not sent to another process.
    fn withdraw(&mut self, rank: usize, peer: usize, posted: &Arc<PostedRequest>) -> bool {
        let asked = self.asked.iter().find(|(_, asked)| Arc::ptr_eq(&asked.posted, posted));
        if let Some(number) = asked.map(|(number, _)| *number) {
            self.asked.remove(&number);
            return false;
        }
        let (key, side) = key(rank, peer);
        if let Some(Pair(waiting)) = self.waiting.get_mut(&key) {
            waiting[side].retain(|known| !Arc::ptr_eq(known, posted));
        }
        true
    }

    /// Handles the destruction of an end of a rank of another process. If its request is unmet, the
    /// whole request is withdrawn. Returns all ends of a withdrawn request.
    pub(super) fn ended(&mut self, rank: usize, peer: usize, end: u64) -> Vec<u64> {
        if let Some(has_ended) = self.met.get_mut(&(rank, end)) {
            *has_ended = true;
            return Vec::new();
        }
        let (key, side) = key(rank, peer);
        let Some(Pair(waiting)) = self.waiting.get_mut(&key) else { return Vec::new() };
        let has_it = |it: &Arc<PostedRequest>| it.request.ends().any(|other| other == end);
        let at = waiting[side].iter().position(has_it);
        let withdrawn = at.and_then(|at| waiting[side].remove(at));
        withdrawn.iter().flat_map(|it| it.request.ends()).collect()
    }

    /// Notes that an end of a rank of another process is connected now, or never will be. Returns
    /// true if the end no longer exists, and `None` if this was noted before.
    pub(super) fn settle(&mut self, rank: usize, end: u64) -> Option<bool> {
        self.met.remove(&(rank, end))
    }

    /// Removes the requests and the ends of a rank whose process is gone.
    pub(super) fn forget(&mut self, rank: usize) {
        self.met.retain(|(of, _), _| *of != rank);
        for (key, Pair(waiting)) in &mut self.waiting {
            let sides = [key.0 == rank, key.1 == rank];
            for (waiting, _) in waiting.iter_mut().zip(sides).filter(|(_, is_theirs)| *is_theirs) {
                waiting.retain(|posted| !posted.request.is_abroad());
            }
        }
    }
}

impl PostedRequest {
    fn new(request: &Arc<LinkRequest>) -> Arc<Self> {
        Arc::new(Self { request: Arc::clone(request), met: OnceLock::new() })
    }
}

impl LinkRequest {
    fn ends(&self) -> impl Iterator<Item = u64> {
        self.channel_requests.iter().map(|it| it.end)
    }

    /// Returns whether the request comes from a rank of another process.
    pub(super) fn is_abroad(&self) -> bool {
        self.number != 0
    }
}

impl AskedRequest {
    fn tell(&self, comm: &Comm, number: u64) {
        let ends = self.posted.request.offer.clone();
        comm.tell_channel_of(self.rank, self.peer, ChannelNews::Asks { number, ends });
    }
}

fn key(rank: usize, peer: usize) -> ((usize, usize), usize) {
    ((rank.min(peer), rank.max(peer)), usize::from(rank > peer))
}

/// Posts a request to each peer, and blocks until each peer has posted its own. Returns the
/// requests of the peers. If it fails, it withdraws the requests that were not met.
pub(super) fn meet(
    member: &Member,
    requests: &[(usize, Arc<LinkRequest>)],
) -> Result<Vec<Arc<LinkRequest>>, Failure> {
    let Member { comm, rank, .. } = member;
    let began = Instant::now();
    let posted: Vec<(usize, Arc<PostedRequest>)> = {
        let mut pairs = lock(&comm.resources().pairs);
        let post = |(peer, request): &(usize, _)| {
            let posted = match comm.is_own(*peer) || rank < peer {
                true => pairs.post(*rank, *peer, request),
                false => pairs.ask(comm, *rank, *peer, request),
            };
            if let Some(theirs) = posted.met.get().filter(|theirs| theirs.is_abroad()) {
                abroad::tell_met(comm, *rank, *peer, request, theirs);
            }
            (*peer, posted)
        };
        requests.iter().map(post).collect()
    };
    executor::announce();
    let missing = || posted.iter().filter(|(_, it)| it.met.get().is_none()).map(|(peer, _)| *peer);
    let is_hopeless = || {
        comm.meeting.error().is_some() || missing().any(|peer| comm.board.departure(peer).is_some())
    };
    let what = || {
        let peers = list(&missing().collect::<Vec<usize>>());
        let function = function_of(requests);
        format!(
            "rank {rank} of communicator \"{}\" in {function}: waiting for {peers}",
            comm.title()
        )
    };
    let over = || missing().next().is_none() || is_hopeless();
    let waited = executor::goals::await_others(comm.connect_timeout, comm.enders(), what, over);
    // From here on, a request that has met one counts as met, because the other side has seen it.
    let mut pairs = lock(&comm.resources().pairs);
    let (mut met, mut absent) = (Vec::new(), Vec::new());
    for (peer, it) in &posted {
        match it.met.get() {
            Some(theirs) => met.push(Arc::clone(theirs)),
            None => {
                if pairs.withdraw(*rank, *peer, it) {
                    abroad::take_back(&it.request);
                }
                absent.push(*peer);
            }
        }
    }
    drop(pairs);
    if absent.is_empty() {
        return Ok(met);
    }
    let (cause, when) = match waited {
        Ok(_) => (Cause::Timeout, format!("within {:.1} s", began.elapsed().as_secs_f64())),
        Err(text) => (Cause::Deadlock, format!("and no thread is left to do it: deadlock: {text}")),
    };
    let failure = not_met(member, requests, &absent, (cause, &when));
    abandon(member, posted.iter().filter_map(|(peer, it)| Some((*peer, &**it.met.get()?))));
    Err(failure)
}

/// Returns the name of the call that makes the requests.
fn function_of(requests: &[(usize, Arc<LinkRequest>)]) -> &'static str {
    requests.first().map_or("HcclChannelAcquire", |(_, request)| request.function)
}

/// Notifies the peers of these requests that a call which met them has failed, so that its ends are
/// gone.
pub(super) fn abandon<'a>(member: &Member, met: impl Iterator<Item = (usize, &'a LinkRequest)>) {
    for (peer, request) in met {
        for theirs in &request.channel_requests {
            if request.is_abroad() {
                abroad::decline(member, peer, theirs.end);
            } else if let Ok(end) = Channel::named(theirs.end) {
                end.note_left();
                end.waiters().for_each(Stream::wake);
            }
        }
    }
}

#[cold]
fn not_met(
    member: &Member,
    requests: &[(usize, Arc<LinkRequest>)],
    absent: &[usize],
    (cause, when): (Cause, &str),
) -> Failure {
    let Member { comm, rank, .. } = member;
    if let Err(failure) = comm.check(Origin::Call) {
        return failure;
    }
    let (function, list) = (function_of(requests), list(absent));
    let gone = absent.iter().find_map(|peer| Some((peer, comm.board.departure(*peer)?)));
    let (cause, report, text) = match gone {
        Some((peer, why)) => (
            Cause::Gone,
            "EI0012",
            format!(
                "rank {peer} is gone ({why})\n  rank {rank} was making a channel to it in {function}"
            ),
        ),
        None => (
            cause,
            "EI0006",
            format!(
                "{list} made no channel to rank {rank} {when}\n  rank {rank} was waiting in {function}: both ends of a \
                 channel have to acquire it. Check that the peer makes the call, with this rank as remoteRank, and does not wait for \
                 something else first"
            ),
        ),
    };
    let failure = Failure::new(cause.hccl_result(), format!("{report}: {text}"));
    let state = |at: usize| {
        let gone = comm.board.departure(at).filter(|_| absent.contains(&at));
        let presence = match &gone {
            Some(_) => Presence::Gone,
            None if absent.contains(&at) => Presence::Missing,
            None if at == *rank || requests.iter().any(|(peer, _)| *peer == at) => {
                Presence::Arrived
            }
            None => Presence::Apart,
        };
        RankState { presence, number: 0, request: None, text: gone.unwrap_or_default() }
    };
    let error = CommError::new(Origin::Call, cause, text);
    let ranks = (0..comm.ranks()).map(state).collect();
    attempt::fail(Arc::new(CommError { ranks, ..error }));
    failure
}

/// Checks that both sides request the same channels. The error text shows both requests.
pub(super) fn compare(
    member: &Member,
    peer: usize,
    ours: &LinkRequest,
    theirs: &LinkRequest,
) -> Result<(), Failure> {
    let said = |request: &LinkRequest| -> Vec<(CommProtocol, u32)> {
        request
            .channel_requests
            .iter()
            .map(|channel_request| (channel_request.protocol, channel_request.notifies))
            .collect()
    };
    if said(ours) == said(theirs) {
        return Ok(());
    }
    let say = |request: &LinkRequest| {
        let each = request.channel_requests.iter().map(|channel_request| {
            format!(
                "{} with notifyNum {}",
                name_of(channel_request.protocol),
                channel_request.notifies
            )
        });
        each.collect::<Vec<_>>().join(", ")
    };
    refuse!(
        HCCL_E_PARA,
        "EI0005: the two ends of a channel differ\n  rank {}: to rank {peer}: {}\n  rank {peer}: to rank {}: {}\nBoth ranks must ask for \
         the same channels: protocol, notifyNum, and how many at a time.",
        member.rank,
        say(ours),
        member.rank,
        say(theirs)
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn request(number: u64, ends: &[u64]) -> Arc<LinkRequest> {
        let protocol = CommProtocol(0);
        let one = |end| ChannelRequest { protocol, notifies: 1, end, memories: Vec::new() };
        let channel_requests = ends.iter().copied().map(one).collect();
        Arc::new(LinkRequest { channel_requests, function: "a test", offer: Vec::new(), number })
    }

    #[test]
    fn a_request_of_another_process_is_withdrawn_with_all_its_ends() {
        let mut pairs = Pairs::default();
        pairs.post(1, 0, &request(1, &[7, 8]));
        assert_eq!(pairs.ended(1, 0, 8), [7, 8]);
        assert!(pairs.ended(1, 0, 7).is_empty());
        // Later requests do not meet the withdrawn request.
        assert!(pairs.post(0, 1, &request(0, &[3])).met.get().is_none());
        let met = pairs.post(1, 0, &request(2, &[9]));
        assert!(met.met.get().is_some() && pairs.ended(1, 0, 9).is_empty());
        assert_eq!(pairs.settle(1, 9), Some(true), "it ended before it was connected");
        assert_eq!(pairs.settle(1, 9), None);
    }

    #[test]
    fn a_request_that_is_asked_again_is_heard_once() {
        let mut pairs = Pairs::default();
        assert!(pairs.is_new(1, 1) && pairs.is_new(1, 2));
        assert!(!pairs.is_new(1, 1) && !pairs.is_new(1, 2) && !pairs.is_new(1, 0));
        assert!(pairs.is_new(2, 1) && pairs.is_new(1, 3));
    }
}
