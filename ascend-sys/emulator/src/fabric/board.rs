//! What the ranks of a communicator say to each other on the host, before they are linked: who has called what, and who is gone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::collective::account::Account;
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
    pub(super) wanted: HashMap<(usize, usize), Cow<'static, str>>,
    /// Contexts for kernels, by how these communicate.
    pub(super) contexts: BTreeMap<String, AskedContext>,
}

/// A context that ranks have asked for, each for its kernels.
pub(super) struct AskedContext {
    /// What they called to get it.
    pub(super) function: Cow<'static, str>,
    pub(super) has_asked: Vec<bool>,
}

impl AskedContext {
    /// The ranks that have not, where some others wait for them.
    pub(super) fn absent(&self) -> impl Iterator<Item = usize> {
        self.has_asked.iter().enumerate().filter(|(_, asked)| !**asked).map(|(rank, _)| rank)
    }
}

#[derive(Clone, Default)]
pub(super) struct LinkSlot {
    /// The collective that the rank has called, if it was not linked yet.
    pub(super) posted: Option<(u64, CollectiveRequest)>,
    /// It waits for others in that call.
    pub(super) waits: bool,
    /// Why it is gone.
    pub(super) gone: Option<String>,
}

impl Board {
    pub(super) fn new(ranks: usize) -> Self {
        let (wanted, contexts) = (HashMap::new(), BTreeMap::new());
        let state = LinksState { slots: vec![LinkSlot::default(); ranks], wanted, contexts };
        Self { state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, LinksState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rank has called its first collective.
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

    /// It does not wait there any more.
    pub(super) fn note_goes(&self, rank: usize) {
        self.lock().slots[rank].waits = false;
    }

    /// A rank exchanges its first messages with others.
    pub(super) fn note_wanted(&self, rank: usize, peers: &[usize], function: Cow<'static, str>) {
        let wanted = peers.iter().map(|peer| ((rank, *peer), function.clone()));
        self.lock().wanted.extend(wanted);
    }

    /// A rank asks for a context of kernels that communicate like this. True if that is new.
    pub(super) fn note_asked(
        &self,
        rank: usize,
        config: String,
        function: Cow<'static, str>,
    ) -> bool {
        let mut state = self.lock();
        let ranks = state.slots.len();
        let none = || AskedContext { function, has_asked: vec![false; ranks] };
        let asked = state.contexts.entry(config).or_insert_with(none);
        !std::mem::replace(&mut asked.has_asked[rank], true)
    }

    /// Whether all ranks have asked for it.
    pub(super) fn have_all_asked(&self, config: &str) -> bool {
        let asked = self.lock().contexts.get(config).map(|asked| asked.absent().next().is_none());
        asked == Some(true)
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
    Fail(Cause, Account),
}

impl LinksState {
    /// The first collective of a rank.
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

    /// The first batch of a rank with these peers.
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

    /// Those of the peers that have called nothing to exchange something with `rank`.
    pub(super) fn unanswered(&self, rank: usize, peers: &[usize]) -> Vec<usize> {
        let is_silent = |peer: &usize| !self.wanted.contains_key(&(*peer, rank));
        peers.iter().copied().filter(is_silent).collect()
    }

    /// A context for kernels that communicate like this.
    pub(super) fn look_for_context(&self, config: &str) -> LinkStep {
        let absent = self.absent_from(config);
        match absent.iter().find(|rank| self.slots[**rank].gone.is_some()) {
            Some(rank) => LinkStep::Fail(Cause::Gone, self.gone_text(*rank).into()),
            None if absent.is_empty() => LinkStep::Linked,
            None => LinkStep::Wait,
        }
    }

    /// The ranks that have not asked for it.
    pub(super) fn absent_from(&self, config: &str) -> Vec<usize> {
        self.contexts.get(config).into_iter().flat_map(AskedContext::absent).collect()
    }

    fn gone_text(&self, rank: usize) -> String {
        let why = self.slots[rank].gone.as_deref().unwrap_or_default();
        format!("rank {rank} is gone ({why})")
    }

    /// What `rank` has called to exchange something with `peer`.
    #[cold]
    fn wants(&self, rank: usize, peer: usize) -> String {
        let function = self.wanted.get(&(rank, peer)).map_or("nothing", |function| function);
        format!("{function} with rank {peer}")
    }

    /// What `rank` has called and ranks have not answered; empty when nothing.
    pub(super) fn waits_of(&self, rank: usize) -> String {
        let all =
            self.wanted.keys().filter(|(from, to)| *from == rank && self.waits_for(rank, *to));
        let mut peers: Vec<usize> = all.map(|(_, peer)| *peer).collect();
        peers.sort_unstable();
        let messages = peers.into_iter().map(|peer| self.wants(rank, peer));
        let open = |asked: &AskedContext| asked.has_asked[rank] && asked.absent().next().is_some();
        let contexts = self.contexts.iter().filter(|(_, asked)| open(asked));
        let contexts = contexts.map(|(config, asked)| format!("{} for {config}", asked.function));
        let said: Vec<String> = messages.chain(contexts).collect();
        said.join(", ")
    }

    /// The ranks that have not answered a first contact.
    pub(super) fn awaited(&self) -> BTreeSet<usize> {
        let open = self.wanted.keys().filter(|(rank, peer)| self.waits_for(*rank, *peer));
        let contexts = self.contexts.values().flat_map(AskedContext::absent);
        open.map(|(_, peer)| *peer).chain(contexts).collect()
    }

    /// Whether a batch of `rank` waits for the first one of `peer` with it.
    pub(super) fn waits_for(&self, rank: usize, peer: usize) -> bool {
        self.wanted.contains_key(&(rank, peer)) && !self.wanted.contains_key(&(peer, rank))
    }
}
