//! How ranks meet inside a call: the first operation that needs a link waits, on the host, until the peer makes the matching
//! call. Mistakes that show here come back from the call, and nothing is enqueued.
//!
//! The first collective of a communicator links all its ranks. A batch links the pairs that exchange messages for the first time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::comm::Comm;
use crate::collective::meeting::{Cause, CommError, Origin};
use crate::collective::request::CollectiveRequest;
use crate::collective::sides::Sides;
use crate::collective::validate::Refusal;
use crate::executor;

/// The host-side meeting place of a communicator.
pub(crate) struct Board {
    state: Mutex<LinksState>,
}

struct LinksState {
    slots: Vec<LinkSlot>,
    /// (rank, peer): the function by which the rank was the first to exchange something with the peer.
    wanted: HashMap<(usize, usize), &'static str>,
}

#[derive(Clone, Default)]
struct LinkSlot {
    /// The collective that the rank has called, if it was not linked yet.
    posted: Option<(u64, CollectiveRequest)>,
    /// It waits for others in that call.
    waits: bool,
    /// Why it is gone.
    gone: Option<String>,
}

impl Board {
    pub(super) fn new(ranks: usize) -> Self {
        let state = LinksState { slots: vec![LinkSlot::default(); ranks], wanted: HashMap::new() };
        Self { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, LinksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note_departure(&self, rank: usize, why: String) {
        self.lock().slots[rank].gone.get_or_insert(why);
    }

    /// Why a rank is gone, if it is.
    pub(crate) fn departure(&self, rank: usize) -> Option<String> {
        self.lock().slots[rank].gone.clone()
    }

    pub(crate) fn why_gone(&self, rank: usize) -> String {
        self.departure(rank).unwrap_or_else(|| "for an unknown reason".into())
    }
}

/// What a waiting call does next.
enum LinkStep {
    Linked,
    Wait,
    /// The communicator ends.
    Fail(Cause, String),
}

impl Comm {
    /// The first collective of `rank`: waits until all ranks call it too. A count of zero says so to the others and waits
    /// for nobody. Returns whether the rank is linked now.
    #[cold]
    pub(crate) fn meet(
        &self,
        rank: usize,
        number: u64,
        request: CollectiveRequest,
    ) -> Result<bool, Refusal> {
        self.post(rank, number, request);
        self.await_all(rank, number, request, Instant::now())
    }

    /// The first half of [`meet`](Self::meet): says what the rank calls, and waits for nobody.
    #[cold]
    pub(crate) fn post(&self, rank: usize, number: u64, request: CollectiveRequest) {
        let mut state = self.board.lock();
        state.slots[rank].posted = Some((number, request));
        state.slots[rank].waits = !request.is_void();
    }

    /// The second half: the rank has waited since `began`.
    #[cold]
    pub(crate) fn await_all(
        &self,
        rank: usize,
        number: u64,
        request: CollectiveRequest,
        began: Instant,
    ) -> Result<bool, Refusal> {
        let void = request.is_void();
        let what = || format!("{request} #{number}");
        let limit = (!void).then(|| self.connect_timeout.saturating_sub(began.elapsed()));
        let look = |state: &LinksState| state.look(rank, number, &request);
        // Who waits here, waits for the last rank; what differs is found by whoever comes later.
        if matches!(look(&self.board.lock()), LinkStep::Linked) {
            executor::announce();
        }
        let linked = self.link(rank, what, limit, look);
        self.board.lock().slots[rank].waits = false;
        // Who waits for nobody has not seen that all are there.
        linked.map(|linked| linked && !void)
    }

    /// The rank reaches nobody, because its device was told so: waits as long as it would for others, and fails.
    #[cold]
    pub(crate) fn never_meet(&self, rank: usize) -> Result<(), Refusal> {
        executor::wait_until(Some(self.connect_timeout), || self.meeting.error().is_some());
        self.check(Origin::Call)?;
        let text = format!(
            "rank {rank} reached nobody within {:.1} s\n  its device was told to have this fault",
            self.connect_timeout.as_secs_f64()
        );
        let error = self.fail(CommError { origin: Origin::Call, cause: Cause::Timeout, text });
        Err(refusal(&error, Origin::Call))
    }

    /// The first messages that `rank` exchanges with `peers`: waits until each of them makes a call that exchanges with it.
    #[cold]
    pub(crate) fn meet_peers(
        &self,
        rank: usize,
        peers: &[usize],
        function: &'static str,
    ) -> Result<(), Refusal> {
        self.post_peers(rank, peers, function);
        self.await_peers(rank, peers, function, Instant::now())
    }

    /// The first half of [`meet_peers`](Self::meet_peers): waits for nobody.
    #[cold]
    pub(crate) fn post_peers(&self, rank: usize, peers: &[usize], function: &'static str) {
        let wanted = peers.iter().map(|peer| ((rank, *peer), function));
        self.board.lock().wanted.extend(wanted);
        executor::announce();
    }

    /// The second half: the rank has waited since `began`.
    #[cold]
    pub(crate) fn await_peers(
        &self,
        rank: usize,
        peers: &[usize],
        function: &'static str,
        began: Instant,
    ) -> Result<(), Refusal> {
        let what = || format!("{function} with {}", list(peers));
        let limit = Some(self.connect_timeout.saturating_sub(began.elapsed()));
        self.link(rank, what, limit, |state| state.look_for_peers(rank, peers)).map(|_| ())
    }

    /// Waits for others, or only looks, without a limit.
    fn link(
        &self,
        rank: usize,
        what: impl Fn() -> String,
        limit: Option<Duration>,
        look: impl Fn(&LinksState) -> LinkStep,
    ) -> Result<bool, Refusal> {
        let decided = || {
            self.meeting.error().is_some() || !matches!(look(&self.board.lock()), LinkStep::Wait)
        };
        if limit.is_some() {
            executor::wait_until(limit, decided);
        }
        self.check(Origin::Call)?;
        let next = look(&self.board.lock());
        let (cause, text) = match next {
            LinkStep::Linked => return Ok(true),
            LinkStep::Fail(cause, text) => (cause, text),
            LinkStep::Wait if limit.is_none() => return Ok(false),
            LinkStep::Wait => (Cause::Timeout, self.timeout_text(rank, &what())),
        };
        let error = self.fail(CommError { origin: Origin::Call, cause, text });
        Err(refusal(&error, Origin::Call))
    }

    #[cold]
    fn timeout_text(&self, rank: usize, what: &str) -> String {
        let state = self.board.lock();
        let absent = |peer: &usize| {
            *peer != rank && state.slots[*peer].posted.is_none() && !state.waits_for(*peer, rank)
        };
        let absent: Vec<_> = (0..self.ranks()).filter(absent).collect();
        format!(
            "{} did not make the matching call within {:.1} s\n  rank {rank} was waiting in {what}, its first contact with them",
            list(&absent),
            self.connect_timeout.as_secs_f64(),
        )
    }

    /// Refuses if the communicator is broken already.
    #[inline]
    pub(crate) fn check(&self, asks: Origin) -> Result<(), Refusal> {
        match self.meeting.error() {
            None => Ok(()),
            Some(error) => Err(refusal(&error, asks)),
        }
    }
}

/// What a call returns when the communicator is broken.
#[cold]
fn refusal(error: &CommError, asks: Origin) -> Refusal {
    let cause = error.cause;
    let report = match (cause, error.origin) {
        // Inside a call, while links are made.
        (Cause::Timeout, Origin::Call) => "EI0006",
        _ => cause.report_code(),
    };
    Refusal { code: cause.hccl_result(), text: error.told(report, asks) }
}

impl LinksState {
    /// The first collective of a rank.
    fn look(&self, rank: usize, number: u64, request: &CollectiveRequest) -> LinkStep {
        let mut missing = false;
        let mut gone = None;
        for (peer, slot) in self.slots.iter().enumerate().filter(|(peer, _)| *peer != rank) {
            match &slot.posted {
                Some((n, said)) if *n == number && said.links_with(request) => continue,
                // It has passed this one with a count of zero too.
                Some((n, _)) if *n > number && request.is_void() => continue,
                Some((n, _)) if *n >= number => return self.differ(rank, number, request),
                _ if self.waits_for(peer, rank) => return self.differ(rank, number, request),
                _ => {
                    missing = true;
                    gone = gone.or(slot.gone.is_some().then_some(peer));
                }
            }
        }
        match gone {
            Some(peer) => LinkStep::Fail(Cause::Gone, self.gone_text(peer)),
            None if missing => LinkStep::Wait,
            None => LinkStep::Linked,
        }
    }

    #[cold]
    fn differ(&self, rank: usize, number: u64, request: &CollectiveRequest) -> LinkStep {
        let mut sides = Sides::default();
        let mut passed = false;
        sides.called(rank, *request, None);
        for (peer, slot) in self.slots.iter().enumerate().filter(|(peer, _)| *peer != rank) {
            match &slot.posted {
                Some((n, said)) if *n == number => sides.called(peer, *said, None),
                Some((n, _)) if *n > number => {
                    passed = true;
                    sides.says(peer, vec![format!("a count of 0; it has gone on to #{n}")]);
                }
                _ if self.waits_for(peer, rank) => {
                    sides.says(peer, vec![self.wants(peer, rank)]);
                }
                _ => sides.says(peer, vec!["nothing yet".into()]),
            }
        }
        let text = if passed { sides.under("the counts differ") } else { sides.compare() };
        LinkStep::Fail(Cause::Mismatch, text)
    }

    /// The first batch of a rank with these peers.
    fn look_for_peers(&self, rank: usize, peers: &[usize]) -> LinkStep {
        let mut missing = false;
        for peer in peers.iter().copied().filter(|peer| !self.wanted.contains_key(&(*peer, rank))) {
            let slot = &self.slots[peer];
            if let (true, Some((n, said))) = (slot.waits, slot.posted)
                && self.slots[rank].posted.is_none_or(|(mine, _)| mine < n)
            {
                let mut sides = Sides::default();
                sides.says(rank, vec![self.wants(rank, peer)]);
                sides.called(peer, said, None);
                return LinkStep::Fail(Cause::Mismatch, sides.compare());
            }
            if slot.gone.is_some() {
                return LinkStep::Fail(Cause::Gone, self.gone_text(peer));
            }
            missing = true;
        }
        if missing { LinkStep::Wait } else { LinkStep::Linked }
    }

    fn gone_text(&self, rank: usize) -> String {
        let why = self.slots[rank].gone.as_deref().unwrap_or_default();
        format!("rank {rank} is gone ({why})")
    }

    /// What `rank` has called to exchange something with `peer`.
    #[cold]
    fn wants(&self, rank: usize, peer: usize) -> String {
        let function = self.wanted.get(&(rank, peer)).unwrap_or(&"nothing");
        format!("{function} with rank {peer}")
    }

    /// Whether a batch of `rank` waits for the first one of `peer` with it.
    fn waits_for(&self, rank: usize, peer: usize) -> bool {
        self.wanted.contains_key(&(rank, peer)) && !self.wanted.contains_key(&(peer, rank))
    }
}

/// "rank 3" or "ranks 1, 2".
pub(crate) fn list(ranks: &[usize]) -> String {
    const MENTIONED: usize = 16;
    let names: Vec<_> = ranks.iter().take(MENTIONED).map(usize::to_string).collect();
    let more = match ranks.len().saturating_sub(MENTIONED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}{more}", names.join(", "))
}
