//! A collective as a task of a rank's stream.
//!
//! It arrives when it reaches the head of the stream, and parks until all ranks have. A small operation then needs nothing but the
//! slots. Of a large one it takes chunks, a chunk a poll, until none is left, and is complete when all are done: then nobody touches
//! the rank's memory any more. That also holds when it gives up: either the operation is closed before it began, or it runs to its end.

use std::sync::Arc;
use std::time::Duration;

use super::job::Phase;
use super::meeting::{Breakage, Cause, Look, Origin, PAYLOAD, Place, Wake};
use super::plan::{Plan, run_small, store_for};
use super::request::{Operation, Request};
use crate::deadlock::Helpers;
use crate::fabric::Member;
use crate::lane;
use crate::message::Failure;
use crate::reduce::Store;
use crate::stream::Stream;
use crate::task::{PIECE, Reason, Step};

/// A stream to poll again.
#[derive(Clone, Copy)]
pub(crate) struct Sleeper(pub(crate) &'static Stream);

impl Wake for Sleeper {
    fn wake(&self) {
        self.0.wake();
    }
}

enum State {
    /// Copies the send buffer aside, because it partly overlaps the receive buffer: so many bytes are done.
    Staging(Box<[u8]>, usize),
    /// Has not arrived.
    Ready,
    Arrived,
    Running(Plan, Store),
}

/// One rank's part in a collective.
pub(crate) struct Pending {
    member: Arc<Member>,
    place: Place,
    request: Request,
    send: *const u8,
    recv: *mut u8,
    /// The ranks below have arrived.
    cursor: usize,
    state: State,
    /// Keeps the copy of an overlapping send buffer.
    staged: Option<Box<[u8]>>,
}

// SAFETY: the pointers were resolved at issue and their pages stay until this task is complete; they are touched by the copy and
// reduction kernels only.
unsafe impl Send for Pending {}

impl Pending {
    /// `send` and `recv` are where the data of the rank's buffers is; null where the operation has none.
    pub(crate) fn new(
        member: Arc<Member>,
        place: Place,
        request: Request,
        send: *const u8,
        recv: *mut u8,
    ) -> Self {
        let bytes = request.bytes();
        let distance = (send as usize).abs_diff(recv as usize);
        let state = if bytes > PAYLOAD && distance != 0 && distance < bytes {
            State::Staging(vec![0; bytes].into_boxed_slice(), 0)
        } else {
            State::Ready
        };
        Self { member, place, request, send, recv, cursor: 0, state, staged: None }
    }

    fn is_small(&self) -> bool {
        self.request.bytes() <= PAYLOAD
    }

    /// Makes progress: at most one chunk.
    #[inline]
    pub(crate) fn poll(&mut self) -> Step {
        match self.state {
            State::Ready => self.arrive(),
            State::Arrived => {
                let look = self.look();
                self.go_on(look)
            }
            State::Running(plan, store) => self.work(plan, store),
            State::Staging(..) => self.stage(),
        }
    }

    #[cold]
    fn stage(&mut self) -> Step {
        if let State::Staging(buffer, done) = &mut self.state {
            let piece = (buffer.len() - *done).min(PIECE);
            // SAFETY: both have the request's bytes, of which `done + piece` are no more.
            unsafe {
                crate::copy::copy(
                    buffer.as_mut_ptr().add(*done),
                    self.send.add(*done),
                    piece,
                    Store::Plain,
                );
            }
            *done += piece;
            if *done < buffer.len() {
                return Step::Again;
            }
            let buffer = self.staged.insert(std::mem::take(buffer));
            self.send = buffer.as_ptr();
            self.state = State::Ready;
        }
        Step::Again
    }

    #[inline]
    fn look(&mut self) -> Look {
        self.member.comm.meeting.look(self.place, self.request.claim(), &mut self.cursor)
    }

    #[inline]
    fn arrive(&mut self) -> Step {
        let comm = &self.member.comm;
        if let Some(breakage) = comm.meeting.breakage() {
            return Step::Done(Err(self.failure(&breakage)));
        }
        if self.request.is_void() {
            let (rank, kind) = (self.member.rank, self.request.claim().kind);
            comm.meeting.pass(rank, self.place.number, kind);
            return Step::Done(Ok(()));
        }
        let bytes = self.request.bytes();
        let gives = match self.request.operation {
            Operation::AllReduce(_) => bytes <= PAYLOAD,
            Operation::Broadcast(root) => bytes <= PAYLOAD && root as usize == self.member.rank,
            Operation::Barrier => false,
        };
        let send = self.send;
        let fill = |payload: *mut u8| {
            if gives {
                // SAFETY: the send buffer has the request's bytes, which fit the payload.
                unsafe { crate::copy::copy(payload, send, bytes, Store::Plain) };
            }
        };
        // SAFETY: a rank issues one operation after the other, and the stream runs them in order: the desk sees to both.
        unsafe {
            let (rank, claim) = (self.member.rank, self.request.claim());
            comm.meeting.arrive(rank, self.place, claim, send, self.recv, fill);
        }
        self.state = State::Arrived;
        let look = self.look();
        if look == Look::All {
            self.member.comm.meeting.wake(self.place);
        }
        self.go_on(look)
    }

    #[inline]
    fn go_on(&mut self, look: Look) -> Step {
        match look {
            Look::All if self.is_small() => self.finish_small(),
            Look::Waiting(_) => Step::Park,
            Look::All => match self.member.comm.job.start(self.place.number) {
                Phase::Running => self.begin(),
                Phase::Closed => self.leave(),
            },
            Look::Broken => self.leave(),
            Look::Differs(_) => {
                let text = self.member.comm.mismatch(self.place.number);
                self.fail(Cause::Mismatch, text)
            }
            Look::Gone(rank) => {
                let text = self.member.comm.gone(rank);
                self.fail(Cause::Gone, text)
            }
        }
    }

    #[inline]
    fn finish_small(&mut self) -> Step {
        let Member { comm, rank, .. } = &*self.member;
        let payload = |rank| comm.meeting.payload(rank, self.place, |payload| payload);
        // SAFETY: every rank has arrived with the same request, and its payload stays until this rank arrives again.
        unsafe { run_small(&self.request, *rank, comm.meeting.ranks(), self.recv, payload) };
        Step::Done(Ok(()))
    }

    fn begin(&mut self) -> Step {
        let meeting = &self.member.comm.meeting;
        let plan = Plan::new(&self.request, meeting.ranks());
        let bytes = self.request.bytes();
        let touched = |rank| {
            let (send, recv) = meeting.buffers(rank, self.place);
            if std::ptr::eq(send, recv) { bytes } else { bytes.saturating_mul(2) }
        };
        let set = (0..meeting.ranks()).map(touched).fold(0, usize::saturating_add);
        let store = store_for(set);
        self.state = State::Running(plan, store);
        self.work(plan, store)
    }

    fn work(&mut self, plan: Plan, store: Store) -> Step {
        let Member { comm, rank, .. } = &*self.member;
        let Some(chunk) = comm.job.claim(self.place.number, *rank, plan.chunks) else {
            let complete = comm.job.complete(self.place.number, plan.chunks);
            return if complete { Step::Done(Ok(())) } else { Step::Park };
        };
        let buffers = |rank| comm.meeting.buffers(rank, self.place);
        let ranks = comm.meeting.ranks();
        // SAFETY: every rank has arrived with the same request and stays until all chunks are done; this one is claimed.
        unsafe { plan.run(&self.request, chunk.index, ranks, store, buffers) };
        if comm.job.finish(self.place.number, chunk, plan.chunks) {
            comm.meeting.wake(self.place);
            return Step::Done(Ok(()));
        }
        Step::Again
    }

    /// The communicator is broken: out, unless the operation runs.
    #[cold]
    fn leave(&mut self) -> Step {
        if self.runs_anyway() {
            return Step::Again;
        }
        match self.member.comm.meeting.breakage() {
            Some(breakage) => Step::Done(Err(self.failure(&breakage))),
            // Whoever closed the operation is about to say why.
            None => Step::Again,
        }
    }

    /// This rank finds a reason to end the communicator.
    #[cold]
    fn fail(&mut self, cause: Cause, text: String) -> Step {
        if self.runs_anyway() {
            return Step::Again;
        }
        let breakage = Breakage { origin: self.origin(), cause, text };
        let breakage = self.member.comm.fail(breakage);
        Step::Done(Err(self.failure(&breakage)))
    }

    /// Closes the operation for all, unless it has begun: then this rank goes on with it.
    fn runs_anyway(&mut self) -> bool {
        if matches!(self.state, State::Arrived)
            && !self.is_small()
            && self.member.comm.job.close(self.place.number) == Phase::Running
        {
            self.begin_late();
            return true;
        }
        false
    }

    fn begin_late(&mut self) {
        let plan = Plan::new(&self.request, self.member.comm.meeting.ranks());
        self.state = State::Running(plan, Store::Plain);
    }

    fn origin(&self) -> Origin {
        Origin::Collective(self.place.number)
    }

    fn failure(&self, breakage: &Breakage) -> Failure {
        let Self { member, place, request, .. } = self;
        let task = format!(
            "{} #{} of communicator \"{}\", rank {}",
            request.function(),
            place.number,
            member.comm.name,
            member.rank
        );
        let text = breakage.told(breakage.cause.report_code(), self.origin());
        Failure::new(breakage.cause.acl_error(), text).of_task(task)
    }

    /// A thread is about to sleep on the parked task. True if polling helps already.
    pub(crate) fn arm(&mut self, stream: &'static Stream) -> bool {
        let Member { comm, rank, .. } = &*self.member;
        comm.meeting.arm(*rank, self.place, Sleeper(stream));
        match self.state {
            State::Running(plan, _) => comm.job.complete(self.place.number, plan.chunks),
            _ => !matches!(self.look(), Look::Waiting(_)),
        }
    }

    /// Gives up, unless everybody is there by now.
    pub(crate) fn expire(&mut self, why: &Reason) -> Step {
        match self.state {
            State::Running(plan, store) => return self.work(plan, store),
            State::Arrived => {
                let look = self.look();
                if !matches!(look, Look::Waiting(_)) {
                    return self.go_on(look);
                }
            }
            State::Ready | State::Staging(..) => {}
        }
        let (comm, number) = (&self.member.comm, self.place.number);
        let (cause, text) = match why {
            Reason::Timeout(limit) => (Cause::Timeout, comm.absent(number, *limit)),
            Reason::Deadlock(_) => (Cause::Timeout, why.text().to_string()),
            why => {
                let rank = self.member.rank;
                (Cause::Gone, format!("rank {rank} gave up: {}", why.text()))
            }
        };
        match self.fail(cause, text) {
            lane::Step::Done(Err(failure)) => {
                Step::Done(Err(Failure { code: why.code(), ..failure }))
            }
            step => step,
        }
    }

    /// Who could help the parked operation: see `deadlock`.
    pub(crate) fn helpers(&self) -> Helpers {
        match self.state {
            State::Arrived => Helpers::Threads(self.member.comm.users_missing(self.place.number)),
            _ => Helpers::Anybody,
        }
    }

    /// How long it may wait for the other ranks.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.member.exec_timeout
    }

    /// For messages: what it is and what it waits for.
    pub(crate) fn describe(&self) -> String {
        let Member { comm, rank, .. } = &*self.member;
        format!(
            "{} #{} of communicator \"{}\" on rank {rank}, {}",
            self.request,
            self.place.number,
            comm.name,
            comm.missing(self.place.number)
        )
    }
}
