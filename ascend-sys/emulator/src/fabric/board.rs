//! The board of a communicator: the facts that its ranks tell each other on the host before they
//! are linked. It records the calls of each rank, and the ranks that are gone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::collective::account::Account;
use crate::collective::comm_error::Cause;
use crate::collective::request::CollectiveRequest;
use crate::collective::sides::Sides;

/// The board of a communicator; see the [module](self).
pub(crate) struct Board {
    state: Mutex<LinksState>,
}

pub(super) struct LinksState {
    pub(super) slots: Vec<LinkSlot>,
    /// The function that exchanges the first messages of a rank with a peer, by (rank, peer).
    pub(super) wanted: HashMap<(usize, usize), Cow<'static, str>>,
    /// The calls in which each rank waits for all others, by purpose. The purpose is the same text
    /// on every rank.
    pub(super) shared: BTreeMap<String, SharedCall>,
}

/// A call that all ranks make, and in which each waits for the others.
pub(super) struct SharedCall {
    /// The function that the ranks call.
    pub(super) function: Cow<'static, str>,
    /// The part of the call that must be the same on every rank, by rank. `None` if the rank has
    /// not made the call.
    pub(super) said: Vec<Option<String>>,
    /// The number of ranks of this process that have gone on from the call.
    passed: usize,
}

impl SharedCall {
    /// Returns the ranks that have not made the call, for which the others wait.
    pub(super) fn absent(&self) -> impl Iterator<Item = usize> {
        self.said.iter().enumerate().filter(|(_, said)| said.is_none()).map(|(rank, _)| rank)
    }

    /// Returns the differences between the calls of the ranks, or `None` if all ranks that have
    /// made the call agree.
    fn disagreement(&self, purpose: &str) -> Option<Account> {
        let mut said = self.said.iter().flatten();
        let first = said.next()?;
        if said.all(|other| other == first) {
            return None;
        }
        let mut sides = Sides::default();
        for (rank, said) in self.said.iter().enumerate() {
            match said {
                Some(said) => sides.says(rank, vec![self.function.to_string(), said.clone()]),
                None => sides.silent(rank),
            }
        }
        Some(sides.under(&format!(
            "the ranks disagree about {purpose}; pass the same arguments on every rank"
        )))
    }
}

#[derive(Clone, Default)]
pub(super) struct LinkSlot {
    /// The first collective that the rank has called: its number and its request. `None` if the
    /// rank has called none.
    pub(super) posted: Option<(u64, CollectiveRequest)>,
    /// Whether the rank waits for others in that call.
    pub(super) waits: bool,
    /// The reason why the rank is gone; `None` if it is not gone.
    pub(super) gone: Option<String>,
}

impl Board {
    pub(super) fn new(ranks: usize) -> Self {
        let (wanted, shared) = (HashMap::new(), BTreeMap::new());
        let state = LinksState { slots: vec![LinkSlot::default(); ranks], wanted, shared };
        Self { state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LinksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a rank has called its first collective.
    pub(super) fn note_post(
        &self,
        rank: usize,
        number: u64,
        request: CollectiveRequest,
        waits: bool,
    ) {
        let slot = &mut self.lock().slots[rank];
        (slot.posted, slot.waits) = (Some((number, request)), waits);
    }

    /// Notes that the rank no longer waits in its first collective.
    pub(super) fn note_goes(&self, rank: usize) {
        self.lock().slots[rank].waits = false;
    }

    /// Notes that a rank exchanges its first messages with these peers.
    pub(super) fn note_wanted(&self, rank: usize, peers: &[usize], function: Cow<'static, str>) {
        let wanted = peers.iter().map(|peer| ((rank, *peer), function.clone()));
        self.lock().wanted.extend(wanted);
    }

    /// Notes that a rank makes a call that all ranks make. Returns true if the rank has not made
    /// this call before.
    pub(super) fn note_shared(
        &self,
        rank: usize,
        purpose: String,
        said: String,
        function: Cow<'static, str>,
    ) -> bool {
        let mut state = self.lock();
        let ranks = state.slots.len();
        let none = || SharedCall { function, said: vec![None; ranks], passed: 0 };
        let call = state.shared.entry(purpose).or_insert_with(none);
        call.said[rank].replace(said).is_none()
    }

    /// Returns whether all ranks have made a call.
    pub(super) fn have_all_called(&self, purpose: &str) -> bool {
        let call = self.lock().shared.get(purpose).map(|call| call.absent().next().is_none());
        call == Some(true)
    }

    /// Notes that a rank of this process has gone on from a call that is made once. Forgets the
    /// call when all ranks of this process, `own` in number, have gone on.
    pub(super) fn note_passed(&self, purpose: &str, own: usize) {
        let mut state = self.lock();
        if let Some(call) = state.shared.get_mut(purpose) {
            call.passed += 1;
            if call.passed >= own {
                state.shared.remove(purpose);
            }
        }
    }

    pub(super) fn note_departure(&self, rank: usize, why: String) {
        self.lock().slots[rank].gone.get_or_insert(why);
    }

    /// Returns the reason why a rank is gone; `None` if it is not gone.
    pub(crate) fn departure(&self, rank: usize) -> Option<String> {
        self.lock().slots[rank].gone.clone()
    }

    pub(crate) fn why_gone(&self, rank: usize) -> String {
        self.departure(rank).unwrap_or_else(|| "for an unknown reason".into())
    }
}

/// The next step of a waiting call.
pub(super) enum LinkStep {
    Linked,
    Wait,
    /// The communicator must fail, for this reason.
    Fail(Cause, Account),
}

impl LinksState {
    /// Returns the next step of the first collective of a rank.
    pub(super) fn look(&self, rank: usize, number: u64, request: &CollectiveRequest) -> LinkStep {
        let mut missing = false;
        let mut gone = None;
        for (peer, slot) in self.slots.iter().enumerate().filter(|(peer, _)| *peer != rank) {
            match &slot.posted {
                Some((n, said)) if *n == number && said.links_with(request) => continue,
                Some((n, _)) if *n >= number => return self.differ(rank, number, request),
                _ if self.waits_for(peer, rank) => return self.differ(rank, number, request),
                _ => {
                    missing = true;
                    gone = gone.or(slot.gone.is_some().then_some(peer));
                }
            }
        }
        match gone {
            Some(peer) => LinkStep::Fail(Cause::Gone, self.gone_text(peer).into()),
            None if missing => LinkStep::Wait,
            None => LinkStep::Linked,
        }
    }

    #[cold]
    fn differ(&self, rank: usize, number: u64, request: &CollectiveRequest) -> LinkStep {
        let mut sides = Sides::default();
        sides.called(rank, *request, None);
        for (peer, slot) in self.slots.iter().enumerate().filter(|(peer, _)| *peer != rank) {
            match &slot.posted {
                Some((n, said)) if *n == number => sides.called(peer, *said, None),
                _ if self.waits_for(peer, rank) => {
                    sides.says(peer, vec![self.wants(peer, rank)]);
                }
                _ => sides.silent(peer),
            }
        }
        LinkStep::Fail(Cause::Mismatch, sides.compare())
    }

    /// Returns the next step of the first batch of a rank with these peers.
    pub(super) fn look_for_peers(&self, rank: usize, peers: &[usize]) -> LinkStep {
        let mut missing = false;
        for peer in self.unanswered(rank, peers) {
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
                return LinkStep::Fail(Cause::Gone, self.gone_text(peer).into());
            }
            missing = true;
        }
        if missing { LinkStep::Wait } else { LinkStep::Linked }
    }

    /// Returns the peers that have made no call to exchange messages with `rank`.
    pub(super) fn unanswered(&self, rank: usize, peers: &[usize]) -> Vec<usize> {
        let is_silent = |peer: &usize| !self.wanted.contains_key(&(*peer, rank));
        peers.iter().copied().filter(is_silent).collect()
    }

    /// Returns the next step of a call that all ranks make.
    pub(super) fn look_for_all(&self, purpose: &str) -> LinkStep {
        let call = self.shared.get(purpose);
        if let Some(differs) = call.and_then(|call| call.disagreement(purpose)) {
            return LinkStep::Fail(Cause::Mismatch, differs);
        }
        let absent = self.absent_from(purpose);
        match absent.iter().find(|rank| self.slots[**rank].gone.is_some()) {
            Some(rank) => LinkStep::Fail(Cause::Gone, self.gone_text(*rank).into()),
            None if absent.is_empty() => LinkStep::Linked,
            None => LinkStep::Wait,
        }
    }

    /// Returns the ranks that have not made the call of this purpose.
    pub(super) fn absent_from(&self, purpose: &str) -> Vec<usize> {
        self.shared.get(purpose).into_iter().flat_map(SharedCall::absent).collect()
    }

    fn gone_text(&self, rank: usize) -> String {
        let why = self.slots[rank].gone.as_deref().unwrap_or_default();
        format!("rank {rank} is gone ({why})")
    }

    /// Names the call by which `rank` exchanges its first messages with `peer`.
    #[cold]
    fn wants(&self, rank: usize, peer: usize) -> String {
        let function = self.wanted.get(&(rank, peer)).map_or("nothing", |function| function);
        format!("{function} with rank {peer}")
    }

    /// Describes the calls of `rank` that other ranks have not answered. The text is empty if there
    /// are none.
    pub(super) fn waits_of(&self, rank: usize) -> String {
        let all =
            self.wanted.keys().filter(|(from, to)| *from == rank && self.waits_for(rank, *to));
        let mut peers: Vec<usize> = all.map(|(_, peer)| *peer).collect();
        peers.sort_unstable();
        let messages = peers.into_iter().map(|peer| self.wants(rank, peer));
        let is_open =
            |call: &SharedCall| call.said[rank].is_some() && call.absent().next().is_some();
        let calls = self.shared.iter().filter(|(_, call)| is_open(call));
        let calls = calls.map(|(purpose, call)| format!("{} for {purpose}", call.function));
        let said: Vec<String> = messages.chain(calls).collect();
        said.join(", ")
    }

    /// Returns the ranks that have not answered a first exchange, or have not made a call that all
    /// ranks make.
    pub(super) fn awaited(&self) -> BTreeSet<usize> {
        let open = self.wanted.keys().filter(|(rank, peer)| self.waits_for(*rank, *peer));
        let absent = self.shared.values().flat_map(SharedCall::absent);
        open.map(|(_, peer)| *peer).chain(absent).collect()
    }

    /// Returns whether a batch of `rank` waits for the first batch of `peer` with `rank`.
    pub(super) fn waits_for(&self, rank: usize, peer: usize) -> bool {
        self.wanted.contains_key(&(rank, peer)) && !self.wanted.contains_key(&(peer, rank))
    }
}
