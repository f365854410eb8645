//! What the ranks of a communicator say to each other on the host, before they are linked: who has called what, and who is gone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::collective::comm_error::Cause;
use crate::collective::request::CollectiveRequest;
use crate::collective::sides::Sides;

/// The host-side meeting place of a communicator.
pub(crate) struct Board {
    state: Mutex<LinksState>,
}

pub(super) struct LinksState {
    pub(super) slots: Vec<LinkSlot>,
    /// (rank, peer): the function by which the rank was the first to exchange something with the peer.
    pub(super) wanted: HashMap<(usize, usize), &'static str>,
}

#[derive(Clone, Default)]
pub(super) struct LinkSlot {
    /// The collective that the rank has called, if it was not linked yet.
    pub(super) posted: Option<(u64, CollectiveRequest)>,
    /// It waits for others in that call.
    pub(super) waits: bool,
    /// Why it is gone.
    gone: Option<String>,
}

impl Board {
    pub(super) fn new(ranks: usize) -> Self {
        let state = LinksState { slots: vec![LinkSlot::default(); ranks], wanted: HashMap::new() };
        Self { state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LinksState> {
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
pub(super) enum LinkStep {
    Linked,
    Wait,
    /// The communicator ends.
    Fail(Cause, String),
}

impl LinksState {
    /// The first collective of a rank.
    pub(super) fn look(&self, rank: usize, number: u64, request: &CollectiveRequest) -> LinkStep {
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
    pub(super) fn look_for_peers(&self, rank: usize, peers: &[usize]) -> LinkStep {
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
    pub(super) fn waits_for(&self, rank: usize, peer: usize) -> bool {
        self.wanted.contains_key(&(rank, peer)) && !self.wanted.contains_key(&(peer, rank))
    }
}
