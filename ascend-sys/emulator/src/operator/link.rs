//! How the two ends of a channel meet.
//!
//! A call that needs new channels to a peer posts a *request*: what it wants, the ends that it has made, and the memory that it exchanges. The k-th
//! request of a rank to a peer goes with the k-th request of the peer to the rank. Each side compares the two by itself and comes to
//! the same result, so nobody has to tell anybody. A request that finds no counterpart in time is withdrawn, as if it had never been made.

use super::channel::{Channel, Exchanged};
use super::engine::name_of;
use crate::collective::comm_error::{Cause, CommError, Origin, Presence, RankState};
use crate::collective::sides::list;
use crate::executor;
use crate::fabric::{Member, attempt};
use crate::message::{Failure, refuse};
use crate::stream::Stream;
use ascend_sync::lock_std as lock;
use ascend_sys::CommProtocol;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// The meetings of every pair of ranks, the lower first.
#[derive(Default)]
pub(crate) struct Pairs(HashMap<(usize, usize), Pair>);

#[derive(Default)]
struct Pair {
    /// The number of the first meeting that is kept.
    first: u64,
    meetings: VecDeque<LinkMeeting>,
    /// How many requests each side has made.
    made: [u64; 2],
}

#[derive(Default)]
struct LinkMeeting {
    requests: [Option<Arc<LinkRequest>>; 2],
    seen: [bool; 2],
}

/// What a rank wants of a peer.
pub(super) struct LinkRequest {
    /// In an order that is the same on both sides.
    pub(super) channel_requests: Vec<ChannelRequest>,
    pub(super) function: &'static str,
}

/// One channel, and the end that was made for it.
pub(super) struct ChannelRequest {
    pub(super) protocol: CommProtocol,
    pub(super) notifies: u32,
    pub(super) end: u64,
    pub(super) memories: Vec<Exchanged>,
}

impl Pair {
    fn meeting(&mut self, number: u64) -> Option<&mut LinkMeeting> {
        self.meetings.get_mut(number.checked_sub(self.first)? as usize)
    }

    fn post(&mut self, side: usize, request: Arc<LinkRequest>) -> u64 {
        let number = self.made[side];
        self.made[side] += 1;
        if self.meeting(number).is_none() {
            self.meetings.push_back(LinkMeeting::default());
        }
        if let Some(meeting) = self.meeting(number) {
            meeting.requests[side] = Some(request);
        }
        number
    }

    /// The other side's request; from then on this side needs it no more.
    fn take(&mut self, side: usize, number: u64) -> Option<Arc<LinkRequest>> {
        let meeting = self.meeting(number)?;
        let other = meeting.requests[1 - side].clone()?;
        meeting.seen[side] = true;
        while self.meetings.front().is_some_and(|meeting| meeting.seen == [true; 2]) {
            self.meetings.pop_front();
            self.first += 1;
        }
        Some(other)
    }

    fn withdraw(&mut self, side: usize, number: u64) {
        if let Some(meeting) = self.meeting(number) {
            meeting.requests[side] = None;
            self.made[side] -= 1;
        }
    }
}

fn key(rank: usize, peer: usize) -> ((usize, usize), usize) {
    ((rank.min(peer), rank.max(peer)), usize::from(rank > peer))
}

/// Posts a request to each peer, and waits until each of them has made one. Returns theirs, or withdraws what was not met.
pub(super) fn meet(
    member: &Member,
    requests: &[(usize, Arc<LinkRequest>)],
) -> Result<Vec<Arc<LinkRequest>>, Failure> {
    let Member { comm, rank, .. } = member;
    comm.in_one_process("a channel of an operator")?;
    let began = Instant::now();
    let mut open = Vec::new();
    {
        let mut pairs = lock(&comm.resources().pairs);
        for (peer, request) in requests {
            let (key, side) = key(*rank, *peer);
            let number = pairs.0.entry(key).or_default().post(side, Arc::clone(request));
            open.push(number);
        }
    }
    executor::announce();
    let there = |peer: usize, number: u64| {
        let (key, side) = key(*rank, peer);
        let mut pairs = lock(&comm.resources().pairs);
        let meeting = pairs.0.get_mut(&key).and_then(|pair| pair.meeting(number));
        meeting.is_some_and(|meeting| meeting.requests[1 - side].is_some())
    };
    let missing = || {
        let open = requests.iter().zip(&open).map(|((peer, _), number)| (*peer, *number));
        open.filter(|(peer, number)| !there(*peer, *number)).map(|(peer, _)| peer)
    };
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
    let waited = executor::await_others(comm.connect_timeout, false, what, over);
    // Whoever is there now counts: the other side has seen this one.
    let mut pairs = lock(&comm.resources().pairs);
    let (mut met, mut absent) = (Vec::new(), Vec::new());
    for ((peer, _), number) in requests.iter().zip(&open) {
        let (key, side) = key(*rank, *peer);
        let Some(pair) = pairs.0.get_mut(&key) else { continue };
        match pair.take(side, *number) {
            Some(theirs) => met.push(theirs),
            None => {
                pair.withdraw(side, *number);
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
        Err(text) => (Cause::Deadlock, format!("and nobody is left who could: deadlock: {text}")),
    };
    let failure = not_met(member, requests, &absent, (cause, &when));
    abandon(&met);
    Err(failure)
}

/// The call that makes the requests.
fn function_of(requests: &[(usize, Arc<LinkRequest>)]) -> &'static str {
    requests.first().map_or("HcclChannelAcquire", |(_, request)| request.function)
}

/// A call that met these requests has failed after all, so what it requested is gone: those who count on it learn so.
pub(super) fn abandon(met: &[Arc<LinkRequest>]) {
    for channel_request in met.iter().flat_map(|request| &request.channel_requests) {
        if let Ok(end) = Channel::named(channel_request.end) {
            end.note_left();
            end.waiters().for_each(Stream::wake);
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
                 channel have to acquire it. See whether the peer makes the call, with this rank as remoteRank, and does not wait for \
                 something else before"
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

/// Whether both sides want the same; the error shows both.
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
