//! Links between ranks. The first operation that needs a link waits, on the host and inside the
//! call, until the peer makes the matching call. If an error is found here, the call returns it,
//! and nothing is enqueued.
//!
//! The first collective of a communicator links all its ranks. A batch links the pairs that
//! exchange messages for the first time. A context for kernels links all ranks, once for each way
//! in which kernels communicate. The registration of memory that all ranks share with one another
//! also links all ranks.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use super::board::{LinkStep, LinksState};
use super::comm::Comm;
use super::news::CommNews;
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::collective::request::CollectiveRequest;
use crate::collective::sides::list;
use crate::executor;
use crate::message::Failure;

impl Comm {
    /// Waits until every other rank has made the call that matches the first collective of `rank`.
    #[cold]
    pub(crate) fn meet(
        &self,
        rank: usize,
        number: u64,
        request: CollectiveRequest,
    ) -> Result<(), Failure> {
        self.post(rank, number, request);
        self.await_all(rank, number, request, Instant::now())
    }

    /// Does the first half of [`meet`](Self::meet): publishes the call of the rank, and does not
    /// wait.
    #[cold]
    pub(crate) fn post(&self, rank: usize, number: u64, request: CollectiveRequest) {
        self.board.note_post(rank, number, request, true);
        self.tell(|| CommNews::Posted { rank, number, request, waits: true });
    }

    /// Does the second half of [`meet`](Self::meet): waits. The rank has waited since `began`.
    #[cold]
    pub(crate) fn await_all(
        &self,
        rank: usize,
        number: u64,
        request: CollectiveRequest,
        began: Instant,
    ) -> Result<(), Failure> {
        let what = || format!("{request} #{number}");
        let limit = self.connect_timeout.saturating_sub(began.elapsed());
        let look = |state: &LinksState| state.look(rank, number, &request);
        // The waiters can go on only when the last rank has come, so they are woken only then. A
        // rank that comes later finds any difference itself.
        if matches!(look(&self.board.lock()), LinkStep::Linked) {
            executor::announce();
        }
        let linked = self.link(rank, what, limit, look, |state| self.silent(state, rank));
        self.board.note_goes(rank);
        self.tell(|| CommNews::Goes { rank });
        linked
    }

    /// Fails the first operation of a rank whose device has the fault that it reaches no other
    /// rank. Waits first, as long as the rank would wait for others.
    #[cold]
    pub(crate) fn never_meet(&self, rank: usize) -> Result<(), Failure> {
        executor::goals::wait_until(Some(self.connect_timeout), || self.meeting.error().is_some());
        self.check(Origin::Call)?;
        let text = format!(
            "rank {rank} reached nobody within {:.1} s\n  this fault was set for its device",
            self.connect_timeout.as_secs_f64()
        );
        let error = self.fail(CommError::new(Origin::Call, Cause::Timeout, text));
        Err(failure(&error, Origin::Call))
    }

    /// Waits until each of `peers` makes a call that exchanges messages with `rank`. Called before
    /// the first messages between them.
    #[cold]
    pub(crate) fn meet_peers(
        &self,
        rank: usize,
        peers: &[usize],
        function: &'static str,
    ) -> Result<(), Failure> {
        self.post_peers(rank, peers, function);
        self.await_peers(rank, peers, function, Instant::now())
    }

    /// Does the first half of [`meet_peers`](Self::meet_peers): publishes the call, and does not
    /// wait.
    #[cold]
    pub(crate) fn post_peers(&self, rank: usize, peers: &[usize], function: &'static str) {
        self.board.note_wanted(rank, peers, Cow::Borrowed(function));
        let (all, name) = (|| peers.to_vec(), || function.to_owned());
        self.tell(|| CommNews::Wants { rank, peers: all(), function: name() });
        executor::announce();
    }

    /// Does the second half of [`meet_peers`](Self::meet_peers): waits. The rank has waited since
    /// `began`.
    #[cold]
    pub(crate) fn await_peers(
        &self,
        rank: usize,
        peers: &[usize],
        function: &'static str,
        began: Instant,
    ) -> Result<(), Failure> {
        let what = || format!("{function} with {}", list(peers));
        let limit = self.connect_timeout.saturating_sub(began.elapsed());
        let look = |state: &LinksState| state.look_for_peers(rank, peers);
        let absent = |state: &LinksState| state.unanswered(rank, peers);
        self.link(rank, what, limit, look, absent)
    }

    /// Waits until all ranks request a context for kernels that communicate like `config`. Later
    /// calls only check whether the communicator has failed.
    pub(crate) fn meet_for_context(
        &self,
        rank: usize,
        config: &str,
        function: &'static str,
    ) -> Result<(), Failure> {
        // Every launch calls this, but only the first ones wait.
        if self.board.have_all_called(config) {
            return self.check(Origin::Call);
        }
        self.meet_all(rank, config, String::new(), function)
    }

    /// Waits until all ranks have made the call of this purpose, which each rank makes once. All
    /// ranks must pass the same `said`.
    pub(crate) fn meet_once(
        &self,
        rank: usize,
        purpose: &str,
        said: String,
        function: &'static str,
    ) -> Result<(), Failure> {
        self.meet_all(rank, purpose, said, function)?;
        let own = (0..self.ranks()).filter(|rank| self.is_own(*rank)).count();
        self.board.note_passed(purpose, own);
        Ok(())
    }

    fn meet_all(
        &self,
        rank: usize,
        purpose: &str,
        said: String,
        function: &'static str,
    ) -> Result<(), Failure> {
        if self.board.note_shared(rank, purpose.to_owned(), said.clone(), Cow::Borrowed(function)) {
            self.tell(|| {
                let (purpose, function) = (purpose.to_owned(), function.to_owned());
                CommNews::CallsWithAll { rank, purpose, said, function }
            });
            executor::announce();
        }
        let what = || format!("{function} for {purpose}");
        let look = |state: &LinksState| state.look_for_all(purpose);
        let absent = |state: &LinksState| state.absent_from(purpose);
        self.link(rank, what, self.connect_timeout, look, absent)
    }

    /// Waits until `look` no longer returns `Wait`. `absent` returns the ranks that have not come.
    fn link(
        &self,
        rank: usize,
        what: impl Fn() -> String,
        limit: Duration,
        look: impl Fn(&LinksState) -> LinkStep,
        absent: impl Fn(&LinksState) -> Vec<usize>,
    ) -> Result<(), Failure> {
        let decided = || {
            self.meeting.error().is_some() || !matches!(look(&self.board.lock()), LinkStep::Wait)
        };
        let said = || format!("rank {rank} of communicator \"{}\" in {}", self.title(), what());
        let hopeless = executor::goals::await_others(limit, self.enders(), said, decided).err();
        self.check(Origin::Call)?;
        let next = look(&self.board.lock());
        let (cause, account) = match (next, hopeless) {
            (LinkStep::Linked, _) => return Ok(()),
            (_, Some(text)) => (Cause::Deadlock, format!("deadlock: {text}").into()),
            (LinkStep::Fail(cause, account), None) => (cause, account),
            (LinkStep::Wait, None) => {
                let absent = absent(&self.board.lock());
                (Cause::Timeout, self.timeout_text(rank, &what(), &absent).into())
            }
        };
        let error = self.fail(CommError::new(Origin::Call, cause, account));
        Err(failure(&error, Origin::Call))
    }

    #[cold]
    fn timeout_text(&self, rank: usize, what: &str, absent: &[usize]) -> String {
        format!(
            "{} did not make the matching call within {:.1} s\n  rank {rank} was waiting in {what}, its first contact with them",
            list(absent),
            self.connect_timeout.as_secs_f64(),
        )
    }

    /// Returns the ranks that have made no call which could end the wait of `rank` in its first
    /// collective.
    fn silent(&self, state: &LinksState, rank: usize) -> Vec<usize> {
        let is_silent = |peer: &usize| {
            *peer != rank && state.slots[*peer].posted.is_none() && !state.waits_for(*peer, rank)
        };
        (0..self.ranks()).filter(is_silent).collect()
    }

    /// Returns an error if the communicator has already failed.
    #[inline]
    pub(crate) fn check(&self, asks: Origin) -> Result<(), Failure> {
        match self.meeting.error() {
            None => Ok(()),
            Some(error) => Err(failure(&error, asks)),
        }
    }
}

/// Returns the failure of a call whose communicator has failed.
#[cold]
fn failure(error: &CommError, asks: Origin) -> Failure {
    let cause = error.cause;
    let report = match (cause, error.origin) {
        // These waits ended inside a call that makes links.
        (Cause::Timeout | Cause::Deadlock, Origin::Call) => "EI0006",
        _ => cause.report_code(),
    };
    Failure::new(cause.hccl_result(), error.told(report, asks))
}
