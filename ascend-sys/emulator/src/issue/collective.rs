//! The task of a collective in a rank's stream.
//!
//! The task arrives at the meeting when it reaches the head of the stream, and parks until all
//! ranks have arrived. A small operation then needs only the slots. In a large operation, the task
//! claims one chunk in each poll until all chunks are claimed. The task is complete when all chunks
//! are done. Then no thread touches the rank's memory any more. This also holds if the rank gives
//! up: either the operation is closed before it begins, or it runs to its end.

mod giving_up;

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::staged::Staged;
use crate::collective::caches::store_for;
use crate::collective::call::CollectiveCall;
use crate::collective::claim::MeetingPlace;
use crate::collective::comm_error::Cause;
use crate::collective::contributions::{self, Arrived, Brought};
use crate::collective::gathered::{Gathered, words_of};
use crate::collective::job::{Homes, Phase, WorkChunk};
use crate::collective::meeting::{MeetingView, PAYLOAD};
use crate::collective::participants::{Contribution, Participants};
use crate::collective::plan::Plan;
use crate::collective::request::Operation;
use crate::collective::run::{SharedWork, run_small};
use crate::collective::sleeper::Sleeper;
use crate::collective::table::{self, Extent, Summary, Table};
use crate::executor::cores::cores;
use crate::fabric::Member;
use crate::lent::Lent;
use crate::step::{Helpers, Need, PIECE, Reason, Step};
use crate::stream::Stream;
use crate::task::{Awaited, TaskBody};
use ascend_reduce::Store;

/// The number of polls before a rank claims chunks of other homes, if each rank has at most one
/// chunk of its own. In that case, searching for unclaimed chunks takes longer than most ranks need
/// to finish theirs. The polls take a few microseconds.
const PATIENCE: u8 = 100;

enum PendingState {
    /// The rank has not arrived.
    Ready,
    /// The rank copies the send buffer, because it partly overlaps the receive buffer. The field is
    /// the number of copied bytes.
    Staging(usize),
    Arrived,
    Running(Plan, Store),
}

/// A rank's part in a collective.
pub(crate) struct PendingCollective {
    pub(super) member: Lent<Member>,
    pub(super) place: MeetingPlace,
    pub(super) call: CollectiveCall,
    /// All ranks below this rank number have arrived with the same claim.
    cursor: usize,
    state: PendingState,
    /// The number of polls that are left before the rank claims chunks of other homes.
    patience: u8,
    pub(super) aside: Option<Box<Aside>>,
}

/// State that few operations need.
#[derive(Default)]
pub(super) struct Aside {
    /// The copy of an overlapping send buffer.
    pub(super) staged: Option<Staged>,
    /// The copied contributions of all ranks, if some ranks are in other processes.
    pub(super) gathered: Option<Gathered>,
}

impl Drop for PendingCollective {
    fn drop(&mut self) {
        if let Some(table) = self.call.table.take() {
            self.member.put_back(table);
        }
    }
}

impl PendingCollective {
    /// Makes the task of a rank's collective at a place.
    ///
    /// # Safety
    ///
    /// As for [`Lent::new`].
    #[inline(always)]
    pub(crate) unsafe fn new(
        member: &Arc<Member>,
        place: MeetingPlace,
        call: CollectiveCall,
    ) -> Self {
        Self {
            // SAFETY: the caller's promise.
            member: unsafe { Lent::new(member) },
            place,
            call,
            cursor: 0,
            state: PendingState::Ready,
            patience: 0,
            aside: None,
        }
    }

    #[inline]
    fn is_small(&self) -> bool {
        let ranks = self.member.comm.meeting.ranks();
        self.call.request.gives(ranks).is_some_and(|bytes| bytes <= PAYLOAD)
    }

    #[inline]
    pub(super) fn participants(&self) -> Brought<'_> {
        match self.aside.as_ref().and_then(|aside| aside.gathered.as_ref()) {
            None => {
                Brought::There(Arrived { meeting: &self.member.comm.meeting, place: self.place })
            }
            Some(gathered) => Brought::Copied(gathered),
        }
    }

    /// Makes progress: works on at most one chunk.
    #[inline]
    pub(crate) fn poll(&mut self) -> Step {
        match self.state {
            PendingState::Ready => self.arrive(),
            PendingState::Arrived => {
                let look = self.look();
                self.go_on(look)
            }
            PendingState::Running(plan, store) => self.work(plan, store),
            PendingState::Staging(..) => self.stage(),
        }
    }

    #[cold]
    fn begin_staging(&mut self, [sends, _]: [Extent; 2]) -> Step {
        match Staged::new(&self.member, sends.end) {
            Ok(staged) => {
                self.aside.get_or_insert_default().staged = Some(staged);
                self.state = PendingState::Staging(0);
                Step::Again
            }
            Err(text) => self.fail(Cause::Gone, text),
        }
    }

    #[cold]
    fn stage(&mut self) -> Step {
        let staged = self.aside.as_mut().and_then(|aside| aside.staged.as_mut());
        if let (PendingState::Staging(done), Some(staged)) = (&mut self.state, staged) {
            let (start, bytes) = staged.place();
            let piece = (bytes - *done).min(PIECE);
            // SAFETY: both buffers hold `bytes` bytes, and `done + piece` is at most `bytes`.
            unsafe {
                let to = start.add(*done);
                ascend_reduce::copy::copy(to, self.call.send.add(*done), piece, Store::Plain);
            }
            *done += piece;
            if *done == bytes {
                self.call.send = start;
                self.state = PendingState::Ready;
            }
        }
        Step::Again
    }

    #[inline]
    fn look(&mut self) -> MeetingView {
        self.member.comm.meeting.look(self.place, self.call.claim(), &mut self.cursor)
    }

    #[inline]
    fn arrive(&mut self) -> Step {
        let comm = &self.member.comm;
        if let Some(error) = comm.meeting.error() {
            return Step::Done(Err(self.failure(&error)));
        }
        let (rank, place, claim) = (self.member.rank, self.place, self.call.claim());
        let CollectiveCall { request, send, recv, .. } = self.call;
        if self.is_small() {
            let (bytes, _) = request.sizes(rank, comm.meeting.ranks());
            // SAFETY: the data that a rank sends in a small operation fits the payload.
            let fill =
                |payload| unsafe { ascend_reduce::copy::copy(payload, send, bytes, Store::Plain) };
            // SAFETY: a rank issues one operation after another, and the streams run them in order.
            // The issue state ensures both.
            unsafe { comm.meeting.arrive(rank, place, claim, &mut None, fill) };
        } else {
            let extents = self.call.extents(rank, comm.ranks());
            if self.call.overlaps(extents) && !self.call.is_in_place(rank) {
                return self.begin_staging(extents);
            }
            let touched = self.call.moved(extents);
            let table = self.call.table.as_ref().map_or(Summary::NONE, |table| table.summary());
            let contribution = Contribution { send, recv, touched, table };
            // SAFETY: a contribution fits into the payload, and its words are those of the table.
            let fill = |payload| unsafe { contributions::write(payload, contribution) };
            // SAFETY: as above.
            unsafe { comm.meeting.arrive(rank, place, claim, &mut self.call.table, fill) };
        }
        self.state = PendingState::Arrived;
        let look = self.look();
        if look == MeetingView::All {
            self.member.comm.meeting.wake(self.place);
        }
        self.go_on(look)
    }

    #[inline]
    fn go_on(&mut self, look: MeetingView) -> Step {
        match look {
            MeetingView::All if self.is_small() => self.finish_small(),
            MeetingView::Waiting(_) => Step::Park,
            MeetingView::All => match self.gather() {
                Ok(()) if self.sides_agree() => self.begin(),
                Ok(()) => {
                    let tables = self.tables();
                    let tables: Vec<&Table> = tables.iter().map(Cow::as_ref).collect();
                    let account = table::disagreements(&tables);
                    self.fail(Cause::Mismatch, account)
                }
                Err(rank) => {
                    self.give_up_on(rank);
                    Step::Again
                }
            },
            MeetingView::Broken => self.leave(),
            MeetingView::Differs(_) => {
                let account = self.member.comm.mismatch(self.place, |rank| self.table(rank));
                self.fail(Cause::Mismatch, account)
            }
            // The shared word was set before the message about the departure has arrived.
            MeetingView::Gone(rank) if self.member.comm.board.departure(rank).is_none() => {
                Step::Park
            }
            MeetingView::Gone(rank) => {
                let text = self.member.comm.gone(rank);
                self.fail(Cause::Gone, text)
            }
        }
    }

    #[inline]
    fn finish_small(&mut self) -> Step {
        let Member { comm, rank, .. } = &*self.member;
        let payload = |rank| comm.meeting.payload(rank, self.place, |payload| payload);
        // SAFETY: every rank has arrived with the same request, and its payload stays until this
        // rank arrives again.
        unsafe {
            run_small(&self.call.request, *rank, comm.meeting.ranks(), self.call.recv, payload)
        };
        Step::Done(Ok(()))
    }

    /// Returns whether the sums of the sent and of the expected counts agree. This is needed only
    /// in `HcclAlltoAllV`, in which no rank has the counts of the other ranks.
    #[inline]
    fn sides_agree(&self) -> bool {
        if self.call.request.operation != Operation::AlltoAllV {
            return true;
        }
        let participants = self.participants();
        let sums = (0..participants.ranks()).map(|rank| {
            let Summary { sends, receives, .. } = participants.contribution(rank).table;
            (sends, receives)
        });
        let add = |a: (u64, u64), b: (u64, u64)| (a.0.wrapping_add(b.0), a.1.wrapping_add(b.1));
        let (sends, receives) = sums.fold((0, 0), add);
        sends == receives
    }

    /// Returns the table with which a rank has arrived, if there is one.
    fn table(&self, rank: usize) -> Option<Cow<'_, Table>> {
        let comm = &self.member.comm;
        match &comm.joint {
            Some(joint) if !joint.is_own(rank) => {
                let (words, matrix) = words_of(self.call.request.operation, comm.ranks());
                let table = comm.meeting.long_table(rank, self.place, words, matrix);
                table.filter(|_| words > 0).map(Cow::Owned)
            }
            // SAFETY: this is called by the rank's own task, which has arrived and is not complete.
            // For an operation without tables, it finds an older table, which stays valid as long.
            _ => unsafe { comm.meeting.table(rank, self.place) }.map(Cow::Borrowed),
        }
    }

    #[cold]
    fn tables(&self) -> Vec<Cow<'_, Table>> {
        let ranks = 0..self.member.comm.ranks();
        ranks
            .map(|rank| self.table(rank).unwrap_or(Cow::Borrowed(const { &Table::EMPTY })))
            .collect()
    }

    fn begin(&mut self) -> Step {
        let Member { comm, rank, .. } = &*self.member;
        let participants = self.participants();
        let ranks = participants.ranks();
        let plan = Plan::new(&self.call.request, ranks);
        let touched = |rank| participants.contribution(rank).touched;
        let store = store_for((0..ranks).map(touched).fold(0, usize::saturating_add));
        if !self.may_hold() {
            self.state = PendingState::Running(plan, store);
            return self.wind_up(plan);
        }
        // If there are more ranks than cores, another rank may have no core for its chunk.
        let (from, patience) = match plan.has_single_chunks(ranks) && ranks <= cores() {
            true => (Homes::Own, PATIENCE),
            false => (Homes::All, 0),
        };
        let chunks = |of| plan.chunks(of, &participants);
        let started = comm.job.start(self.place.number, *rank, from, chunks);
        self.patience = patience;
        match started {
            (Phase::Closed, _) => {
                self.hold_nothing();
                self.leave()
            }
            (Phase::Running, chunk) => {
                self.state = PendingState::Running(plan, store);
                self.run(plan, store, chunk)
            }
        }
    }

    fn work(&mut self, plan: Plan, store: Store) -> Step {
        let Member { comm, rank, .. } = &*self.member;
        let participants = self.participants();
        let chunks = |of| plan.chunks(of, &participants);
        if self.patience > 0 {
            if comm.job.complete(self.place.number, chunks) {
                return Step::Done(self.outcome());
            }
            self.patience -= 1;
            return Step::Park;
        }
        if !self.may_hold() {
            return self.wind_up(plan);
        }
        let chunk = comm.job.claim(self.place.number, *rank, Homes::All, chunks);
        self.run(plan, store, chunk)
    }

    /// Works on a claimed chunk of the running operation. Without a chunk, only checks whether the
    /// operation is complete.
    #[inline]
    fn run(&self, plan: Plan, store: Store, chunk: Option<WorkChunk>) -> Step {
        let comm = &self.member.comm;
        let participants = &self.participants();
        let number = self.place.number;
        let chunks = |of| plan.chunks(of, participants);
        let Some(chunk) = chunk else {
            self.hold_nothing();
            let complete = comm.job.complete(number, chunks);
            return if complete { Step::Done(self.outcome()) } else { Step::Park };
        };
        let work = SharedWork { request: &self.call.request, plan: &plan, participants, store };
        // SAFETY: every rank has arrived with a matching call, and stays until all chunks are done.
        // This rank has claimed the chunk.
        let run = || unsafe { work.run(chunk.of.clone(), chunk.index) };
        // The chunk is finished in any case, since otherwise no rank would ever be complete. The
        // failure is recorded before that.
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            self.spoil();
        }
        let is_last = comm.job.finish(number, chunk, chunks);
        self.hold_nothing();
        if is_last {
            comm.meeting.wake(self.place);
            return Step::Done(self.outcome());
        }
        if self.patience > 0 { Step::Park } else { Step::Again }
    }

    /// Registers the stream for a wake-up before a thread sleeps on the parked task. Returns true
    /// if the task must be polled instead.
    pub(crate) fn arm(&mut self, stream: &'static Stream) -> bool {
        let Member { comm, rank, .. } = &*self.member;
        comm.meeting.arm(*rank, self.place, Sleeper::Stream(stream));
        match self.state {
            // Before it sleeps, the rank claims chunks of other homes.
            PendingState::Running(..) if self.patience > 0 => {
                self.patience = 0;
                true
            }
            PendingState::Running(plan, _) => {
                let participants = self.participants();
                comm.job.complete(self.place.number, |of| plan.chunks(of, &participants))
                    || (comm.job.is_abandoned(self.place.number) && self.is_untouched())
            }
            _ => {
                let look = self.look();
                let comm = &self.member.comm;
                !match look {
                    MeetingView::Waiting(_) => true,
                    // The shared word was set before the message with the error has arrived.
                    MeetingView::Broken => comm.is_joint() && comm.meeting.error().is_none(),
                    MeetingView::Gone(rank) => comm.board.departure(rank).is_none(),
                    _ => false,
                }
            }
        }
    }

    /// Returns the tasks and calls that could let the parked operation go on: see `deadlock`.
    pub(crate) fn helpers(&self) -> Helpers {
        match self.state {
            // An operation of a broken communicator waits for the message with the reason.
            PendingState::Arrived if !self.member.comm.meeting.is_broken() => {
                let needs = self.member.comm.needed_for(self.place.number);
                // The last rank may have arrived since the last poll.
                match self.member.comm.is_joint() && needs.is_empty() {
                    true => Helpers::Anybody,
                    false => Helpers::Queued(needs),
                }
            }
            _ => Helpers::Anybody,
        }
    }

    /// Returns whether another task needs this operation.
    fn provides(&self, need: &Need) -> bool {
        let Member { comm, rank, .. } = &*self.member;
        let (id, own, place) = (comm.id, *rank, self.place.number);
        matches!(need, Need::Collective { comm, rank, number } if (*comm, *rank, *number) == (id, own, place))
    }

    /// Describes the operation and the ranks that it waits for, for error texts.
    pub(crate) fn describe(&self) -> String {
        let Member { comm, rank, .. } = &*self.member;
        format!(
            "{} #{} of communicator \"{}\" on rank {rank}, {}",
            self.call.request,
            self.place.number,
            comm.title(),
            comm.missing(self.place.number)
        )
    }
}

impl TaskBody<Stream> for PendingCollective {
    #[inline]
    fn poll(&mut self, _: &'static Stream) -> Step {
        self.poll()
    }

    #[inline]
    fn keep(&mut self) {
        self.member.keep();
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        self.arm(stream)
    }

    fn expire(&mut self, _: &'static Stream, why: &Reason) -> Step {
        self.expire(why)
    }

    /// Returns the time limit for the wait for other ranks.
    fn limit(&self) -> Option<Duration> {
        self.member.exec_timeout
    }

    fn helpers(&self) -> Helpers {
        self.helpers()
    }

    fn awaits(&self) -> Awaited {
        match self.state {
            PendingState::Arrived => self.member.comm.absentees(self.place.number).into(),
            _ => Awaited::default(),
        }
    }

    fn provides(&self, need: &Need) -> bool {
        self.provides(need)
    }

    fn describe(&self) -> String {
        self.describe()
    }
}
