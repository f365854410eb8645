//! The tasks that record notifies and that wait for them.

use super::channel::{Channel, LEFT};
use super::latch::{Latch, LatchWaiter, WaitOutcome};
use super::thread::{BROKEN, Thread, generation, of_rank};
use crate::collective::comm_error::{Cause, CommError, Origin};
use crate::fabric::{ChannelNews, Comm, Member, ToldOperation};
use crate::message::Failure;
use crate::step::{Helpers, Need, Reason, Step};
use crate::stream::{Stream, Task};
use crate::task::{Awaited, Effects, Passed, TaskBody};
use crate::{check, executor};
use ascend_sync::{AtomicU32, Ordering, fence};
use ascend_sys::{ACL_ERROR_RT_INVALID_HANDLE, ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, HcclResult};
use ascend_timeline::PrimitiveWork;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A reference to a notify: its owner and its index.
#[derive(Clone, Copy)]
pub(crate) struct NotifyRef {
    latch: &'static Latch,
    pub(super) of: Of,
    generation: u32,
    pub(super) index: u32,
}

#[derive(Clone, Copy)]
pub(super) enum Of {
    Thread(&'static Thread),
    /// The end of a channel whose rank waits for the notify.
    Channel(&'static Channel),
    /// The peer's end in another process, given by the connected end of this process.
    Peer(&'static Channel),
}

impl NotifyRef {
    /// Returns a notify of a thread; `None` if the thread has no notify with this index.
    #[inline]
    pub(crate) fn of_thread(thread: &'static Thread, index: u32) -> Option<NotifyRef> {
        let generation = generation(thread.handle());
        Some(NotifyRef { latch: thread.latch(index)?, of: Of::Thread(thread), generation, index })
    }

    /// Returns a notify of an end of a channel; `None` if the end has no notify with this index.
    #[inline]
    pub(crate) fn of_channel(channel: &'static Channel, index: u32) -> Option<NotifyRef> {
        let generation = generation(channel.handle());
        Some(NotifyRef {
            latch: channel.latch(index)?,
            of: Of::Channel(channel),
            generation,
            index,
        })
    }

    /// Returns a notify of the peer's end in another process; `None` if the end has no notify with
    /// this index.
    pub(crate) fn of_peer_abroad(channel: &'static Channel, index: u32) -> Option<NotifyRef> {
        let spot = NotifyRef::of_channel(channel, index)?;
        Some(NotifyRef { of: Of::Peer(channel), ..spot })
    }

    fn device(&self) -> u32 {
        match self.of {
            Of::Thread(thread) => thread.device(),
            Of::Channel(channel) | Of::Peer(channel) => channel.device(),
        }
    }

    /// Returns a number that identifies the notify. It is unique among the notifies of this process
    /// and the notifies of other processes that this process refers to.
    fn number(&self) -> u64 {
        self.latch.number() | u64::from(matches!(self.of, Of::Peer(_)))
    }

    fn marks(&self) -> &'static AtomicU32 {
        match self.of {
            Of::Thread(thread) => &thread.marks,
            Of::Channel(channel) | Of::Peer(channel) => &channel.marks,
        }
    }

    /// Sets the notify and wakes its waiter. Returns false if the owner has ended.
    #[inline]
    pub(super) fn set(&self, wake: impl FnOnce(&'static Stream)) -> bool {
        match self.latch.set(self.generation) {
            None => return false,
            Some(LatchWaiter::Nobody) => {}
            Some(LatchWaiter::Stream(stream)) => wake(stream),
            Some(LatchWaiter::Host) => executor::announce(),
        }
        true
    }

    /// Returns the rank that waits for the notify of a channel and the rank that records it; `None`
    /// for a notify of a thread.
    pub(super) fn ends(&self) -> Option<(usize, usize)> {
        match self.of {
            Of::Thread(_) => None,
            Of::Channel(channel) => channel.about(|it| (it.member.rank, it.remote)),
            Of::Peer(channel) => channel.about(|it| (it.remote, it.member.rank)),
        }
    }

    /// Returns whether records of the notify are sent to another process or come from one.
    fn crosses(&self) -> bool {
        matches!(self.of, Of::Channel(channel) | Of::Peer(channel) if channel.is_abroad())
    }

    /// Returns whether records of the notify come from a process that is not in checked mode. That
    /// process sends no information for checks.
    fn is_told_nothing(&self) -> bool {
        let Of::Channel(channel) = self.of else { return false };
        let tells = channel.about(|it| it.member.comm.is_checked_abroad(it.remote));
        self.crosses() && tells != Some(true)
    }

    /// Reports to checked mode that another process records the notify.
    pub(super) fn is_recorded_by(&self, by: Option<&ToldOperation>, process: u32) {
        let (device, number) = (self.device(), self.number());
        check::recorded_abroad(device, number, || self.describe(), by, process);
    }

    #[inline]
    fn is_marked(&self, mark: u32) -> bool {
        self.marks().load(Ordering::Acquire) & mark != 0
    }

    /// Returns the rank that waits for the notify, if it is in this process.
    fn member(&self) -> Option<Arc<Member>> {
        match self.of {
            Of::Thread(thread) => thread.owner()?.member,
            Of::Channel(channel) => channel.about(|about| Arc::clone(&about.member)),
            Of::Peer(_) => None,
        }
    }

    /// Returns the rank that records the notify: the peer for a channel, and the rank itself for a
    /// thread. `None` if the thread belongs to no rank, or if the owner has ended.
    fn recorder(&self) -> Option<usize> {
        match self.of {
            Of::Thread(thread) => Some(thread.owner()?.member?.rank),
            Of::Channel(_) | Of::Peer(_) => self.ends().map(|(_, recorder)| recorder),
        }
    }

    /// Returns a description: `notify 1 of thread 0 (CPU) of rank 0 of communicator "x"`.
    pub(crate) fn describe(&self) -> String {
        let of = match self.of {
            Of::Thread(thread) => thread.describe(),
            Of::Channel(channel) => channel.describe(),
            Of::Peer(channel) => format!("the other end of {}", channel.describe()),
        };
        format!("notify {} of {of}", self.index)
    }

    fn gone(&self) -> Failure {
        let what = match self.of {
            Of::Thread(_) => "thread",
            Of::Channel(_) | Of::Peer(_) => "channel",
        };
        let text = format!(
            "EI0012: the {what} of notify {} was ended before the stream reached this task; end \
             it after its tasks are complete",
            self.index
        );
        Failure::new(ACL_ERROR_RT_INVALID_HANDLE, text)
    }
}

/// The record of a notify.
#[derive(Clone)]
pub(crate) struct Signal {
    spot: NotifyRef,
    /// This rank's end of the channel over which the notify is recorded; `None` for a notify of a
    /// thread.
    over: Option<&'static Channel>,
}

impl Signal {
    /// Returns the work, for a timeline.
    pub(super) fn work(&self) -> PrimitiveWork {
        let (notify, whose) = self.spot.noted();
        PrimitiveWork::Records { notify, whose }
    }

    /// Makes a record of a notify of a thread of the same rank.
    #[inline]
    pub(super) fn of_thread(spot: NotifyRef) -> Signal {
        Signal { spot, over: None }
    }

    /// Makes a record of a notify of the peer's end of a channel.
    #[inline]
    pub(super) fn of_peer(spot: NotifyRef, over: &'static Channel) -> Signal {
        Signal { spot, over: Some(over) }
    }

    /// Records the notify, as a task of `stream`, or as a call of the host if `stream` is `None`.
    #[inline]
    fn record(&self, stream: Option<&'static Stream>) -> Step {
        if let Of::Peer(channel) = self.spot.of {
            return self.tell(channel, stream);
        }
        match self.spot.set(executor::nudge) {
            true => Step::Done(Ok(())),
            false => Step::Done(Err(self.gone())),
        }
    }

    /// Sends the record to the process of the peer. Data that was written over the channel earlier
    /// is visible there first.
    #[cold]
    fn tell(&self, channel: &Channel, stream: Option<&'static Stream>) -> Step {
        let is_still = generation(channel.handle()) == self.spot.generation;
        let told = is_still && channel.check_peer().is_ok();
        let about = channel.about(|about| (Arc::clone(&about.member), about.remote));
        let Some((member, remote)) = about.filter(|_| told) else {
            return Step::Done(Err(self.gone()));
        };
        let (name, call) = (|| self.spot.describe(), "a primitive that records");
        let by = check::records_abroad(self.spot.device(), stream, name, call);
        let (end, notify) = (channel.peer_handle(), self.spot.index);
        let news = ChannelNews::Records { end, notify, by };
        // Orders all data that was written over the channel before the message, also after
        // streaming stores.
        fence(Ordering::SeqCst);
        member.comm.tell_channel_of(member.rank, remote, news);
        Step::Done(Ok(()))
    }

    /// Returns the failure of a record whose receiver is gone. If the communicator has failed
    /// before, returns the error of the communicator.
    #[cold]
    fn gone(&self) -> Failure {
        let own = self.over.and_then(|own| own.about(|about| Arc::clone(&about.member)));
        match own.and_then(|member| member.comm.meeting.error()) {
            Some(error) => failure(&error, "record of a notify".into()),
            None => self.spot.gone(),
        }
    }
}

impl TaskBody<Stream> for Signal {
    #[inline]
    fn poll(&mut self, stream: &'static Stream) -> Step {
        self.record(Some(stream))
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "record of a notify"
    }

    fn effects(&self) -> Effects {
        if self.spot.crosses() {
            return Effects::Tells;
        }
        Effects::Sets(self.spot.number(), self.spot.describe())
    }

    fn describe(&self) -> String {
        "record of a notify".into()
    }
}

impl Signal {
    /// Records the notify at once, on the calling thread of the host.
    pub(super) fn record_now(&mut self, call: &str) -> Result<(), Failure> {
        let spot = &self.spot;
        if !spot.crosses() {
            check::host_sets(spot.device(), spot.number(), || spot.describe(), call);
        }
        match self.record(None) {
            Step::Done(Err(failure)) => {
                Err(Failure::new(HcclResult::HCCL_E_REMOTE, failure.text.to_string()))
            }
            _ => Ok(()),
        }
    }
}

impl Await {
    /// Blocks the calling thread of the host until the wait ends.
    pub(super) fn wait_now(&self, call: &str) -> Result<(), Failure> {
        let spot = &self.spot;
        let look = || {
            if spot.is_marked(BROKEN) || (spot.is_marked(LEFT) && self.has_left()) {
                return WaitOutcome::Stale;
            }
            spot.latch.take_by_host(spot.generation)
        };
        let found = Cell::new(WaitOutcome::Waits);
        let decided = || {
            found.set(look());
            found.get() != WaitOutcome::Waits
        };
        executor::goals::wait_until(self.limit, decided);
        let step = match found.get() {
            WaitOutcome::Taken => {
                match spot.is_told_nothing() {
                    true => check::host_is_told(spot.device()),
                    false => {
                        check::host_takes(spot.device(), spot.number(), || spot.describe(), call);
                    }
                }
                return Ok(());
            }
            WaitOutcome::Stale if spot.is_marked(BROKEN) => self.broken(),
            WaitOutcome::Stale if spot.is_marked(LEFT) => self.left(),
            WaitOutcome::Stale => Step::Done(Err(spot.gone())),
            WaitOutcome::Waits => self.give_up(&Reason::Timeout(self.limit.unwrap_or_default())),
        };
        let code = match found.get() {
            WaitOutcome::Waits => HcclResult::HCCL_E_TIMEOUT,
            _ => HcclResult::HCCL_E_REMOTE,
        };
        match step {
            Step::Done(Err(failure)) => Err(Failure::new(code, failure.with_task())),
            _ => Ok(()),
        }
    }
}

/// The wait for a notify.
#[derive(Clone)]
pub(crate) struct Await {
    spot: NotifyRef,
    limit: Option<Duration>,
}

impl Await {
    pub(crate) fn new(spot: NotifyRef, limit: Option<Duration>) -> Await {
        Await { spot, limit }
    }

    /// Returns the work, for a timeline.
    pub(super) fn work(&self) -> PrimitiveWork {
        let (notify, whose) = self.spot.noted();
        let recorder = match self.spot.of {
            Of::Channel(_) => self.spot.recorder(),
            Of::Thread(_) | Of::Peer(_) => None,
        };
        PrimitiveWork::Waits { notify, whose, recorder }
    }

    /// Returns whether the wait is for a channel whose peer has left without recording the notify.
    /// The caller has seen the mark `LEFT`.
    fn has_left(&self) -> bool {
        matches!(self.spot.of, Of::Channel(_)) && !self.spot.latch.is_due(self.spot.generation)
    }

    #[cold]
    fn left(&self) -> Step {
        let peer = self.spot.recorder().unwrap_or_default();
        let Some(member) = self.spot.member() else { return Step::Done(Err(self.spot.gone())) };
        let why = member.comm.board.departure(peer);
        let why = why.unwrap_or_else(|| "it has ended its end of the channel".into());
        let text =
            format!("rank {peer} is gone ({why})\n  rank {} was {}", member.rank, self.waiting());
        Step::Done(Err(self.break_with(&member.comm, Cause::Gone, text)))
    }

    #[cold]
    fn broken(&self) -> Step {
        let error = self.spot.member().and_then(|member| member.comm.meeting.error());
        Step::Done(Err(match error {
            Some(error) => self.failure(&error),
            None => self.spot.gone(),
        }))
    }

    fn break_with(&self, comm: &Comm, cause: Cause, text: String) -> Failure {
        let error = comm.fail(CommError::new(Origin::Operator, cause, text));
        self.failure(&error)
    }

    fn failure(&self, error: &CommError) -> Failure {
        failure(error, self.describe())
    }

    /// Fails the wait, and the communicator if the wait belongs to one. If the notify was recorded
    /// just in time, parks the wait instead, and the next poll ends it.
    #[cold]
    fn give_up(&self, why: &Reason) -> Step {
        // The notify was recorded just in time, and the next poll sees it.
        if matches!(why, Reason::Timeout(_)) && self.spot.latch.is_due(self.spot.generation) {
            return Step::Park;
        }
        let Some(member) = self.spot.member() else {
            let code = ACL_ERROR_RT_SUSPECT_REMOTE_ERROR;
            let code = if matches!(why, Reason::Timeout(_)) { why.code() } else { code };
            let text = format!("EI0002: {}: {}", self.describe(), why.text());
            return Step::Done(Err(Failure::new(code, text)));
        };
        let (comm, rank) = (&member.comm, member.rank);
        let failure = match (why, self.spot.recorder()) {
            (Reason::Timeout(limit), recorder) => {
                let seconds = limit.as_secs_f64();
                let whose = match recorder {
                    Some(peer) if peer != rank => format!("rank {peer} did not record it"),
                    _ => "none of its threads recorded it".into(),
                };
                let text =
                    format!("rank {rank} was {} for {seconds:.1} s, and {whose}", self.waiting());
                self.break_with(comm, Cause::Unrecorded, text)
            }
            (Reason::Deadlock(_), _) => {
                self.break_with(comm, Cause::Unrecorded, why.text().to_string())
            }
            (why, _) => {
                let text = format!("rank {rank} gave up, {}: {}", self.waiting(), why.text());
                self.break_with(comm, Cause::Gone, text)
            }
        };
        Step::Done(Err(failure.with_code(why.code())))
    }

    fn waiting(&self) -> String {
        format!("waiting for {}", self.spot.describe())
    }
}

impl TaskBody<Stream> for Await {
    #[inline]
    fn poll(&mut self, stream: &'static Stream) -> Step {
        let spot = &self.spot;
        if spot.is_marked(BROKEN) {
            return self.broken();
        }
        match spot.latch.take(spot.generation, stream) {
            WaitOutcome::Taken => Step::Done(Ok(())),
            WaitOutcome::Stale => Step::Done(Err(spot.gone())),
            // The marks are checked once more after the registration: a thread that sets one wakes
            // only the waiters that are already registered.
            WaitOutcome::Waits if spot.is_marked(BROKEN) => self.broken(),
            WaitOutcome::Waits if spot.is_marked(LEFT) && self.has_left() => self.left(),
            WaitOutcome::Waits => Step::Park,
        }
    }

    /// Prepares a sleep on the parked task. The record wakes the task in any case, so there is
    /// nothing to register. Returns true if the task must be polled instead.
    fn arm(&mut self, _: &'static Stream) -> bool {
        let spot = &self.spot;
        spot.latch.is_due(spot.generation)
            || spot.is_marked(BROKEN)
            || (spot.is_marked(LEFT) && self.has_left())
    }

    /// Returns the needs that could end the parked wait: see `deadlock`.
    fn helpers(&self) -> Helpers {
        // A call in this process can end the wait. Between processes, an action of another process
        // can do so too: it may record the notify, or cause a call in this process.
        let abroad = self.spot.member().and_then(|member| member.comm.abroad());
        Helpers::Queued(abroad.into_iter().chain([Need::Call]).collect())
    }

    fn awaits(&self) -> Awaited {
        let Some(member) = self.spot.member() else { return Awaited::default() };
        let other = self.spot.recorder().filter(|peer| *peer != member.rank);
        Awaited { ranks: other.into_iter().collect(), threads_of: Some(member.comm.id) }
    }

    fn expire(&mut self, _: &'static Stream, why: &Reason) -> Step {
        self.give_up(why)
    }

    fn limit(&self) -> Option<Duration> {
        self.limit
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "wait for a notify"
    }

    fn passed(&self, how: &Result<(), Failure>) -> Option<Passed<Stream>> {
        if self.spot.is_told_nothing() {
            return how.is_ok().then_some(Passed::Told);
        }
        let (number, name) = (self.spot.number(), self.spot.describe());
        how.is_ok().then_some(Passed::Signal { number, name, call: "a primitive that waits" })
    }

    /// Describes the wait and the notify, for error texts.
    fn describe(&self) -> String {
        let whose = match (self.spot.member(), self.spot.recorder()) {
            (Some(member), Some(peer)) if peer != member.rank => {
                format!(", which rank {peer} records")
            }
            (Some(member), _) => format!(", which {} records itself", of_rank(&member)),
            _ => String::new(),
        };
        format!("wait for {}{whose}", self.spot.describe())
    }
}

/// Returns the failure of a task whose communicator has failed.
fn failure(error: &CommError, task: String) -> Failure {
    let text = error.told(error.cause.report_code(), Origin::Operator);
    Failure::new(error.cause.acl_error(), text).of_task(task)
}
