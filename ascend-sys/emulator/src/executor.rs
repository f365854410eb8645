//! Runs the streams: on the threads that issue, the threads that wait, the housekeeper and its
//! workers.
//!
//! There is no ready queue. A thread that waits polls its own stream. Before it yields or sleeps,
//! it also polls the streams of other threads. Before it sleeps, it arranges to be woken. It arms
//! the task that its stream is parked on, and every stream that its stream waits for in turn. The
//! [`housekeeper`] runs work that no thread waits for, and so do [`workers`] while cores are free.

pub(crate) mod cores;
pub(crate) mod goals;
mod help;
mod housekeeper;
mod workers;

pub(crate) use crate::bell::announce;
use cores::Pace;
pub(crate) use help::nudge;
use help::{Counted, RunningThread, help};
pub(crate) use housekeeper::TICK;

use crate::bell;
use crate::check;
use crate::later;
use crate::message::Failure;
use crate::poll::{HELP, left_unfinished, poll_and_tell, polling};
use crate::queue::{Fresh, Outcome, QueueWaiter, Readiness};
use crate::sleep::{Asleep, Until};
use crate::stream::{Mark, STREAMS, Stream, Task};
use ascend_sync::{self as sync, Thread, lock_std as lock};
use ascend_sys::aclError;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The number of polls between two checks of the clock.
const LOOK: u32 = 64;
/// The number of the first poll after which a waiting thread polls other streams.
const FIRST_HELP: u32 = 16;
/// The longest sleep between two checks of the goal.
const NAP: Duration = Duration::from_millis(50);
/// The largest number of streams, each waiting for the next, that arming follows.
const CHAIN: usize = 4096;

impl Stream {
    /// Enqueues a task, even if the stream is being captured. Runs the task at once if it is small
    /// and the stream is idle. Returns its ticket.
    ///
    /// Inlined, so that the task runs where it was made.
    #[inline(always)]
    pub(crate) fn enqueue(&'static self, task: impl Fresh<Task>) -> Result<u64, Failure> {
        put(self, &mut Some(task))
    }

    /// Releases the slot of a stream that was stopped and has no handle, as soon as nothing of the
    /// stream runs any more.
    pub(crate) fn recycle(&'static self) {
        run_out(self, self.queue.submitted());
        later::until_done(|| {
            let is_over = self.queue.is_idle();
            if is_over {
                STREAMS.recycle(self.index());
            }
            is_over
        });
    }
}

/// Submits a task to a stream. `task` is `None` afterwards, unless the stream refuses the task.
#[inline]
pub(crate) fn put(
    stream: &'static Stream,
    task: &mut Option<impl Fresh<Task>>,
) -> Result<u64, Failure> {
    let result = polling(|| stream.queue.submit(stream, task));
    match result {
        Ok((ticket, Outcome::Idle)) => {
            bell::completed();
            Ok(ticket)
        }
        Ok((ticket, outcome)) => {
            if !left_unfinished(stream, outcome) {
                housekeeper::start();
            }
            Ok(ticket)
        }
        Err(code) => Err(refusal(stream, code)),
    }
}

#[cold]
fn refusal(stream: &Stream, code: aclError) -> Failure {
    let why = match &*lock(&stream.reason) {
        Some(reason) => reason.text().to_string(),
        None => "it is being destroyed".to_string(),
    };
    Failure::new(
        code,
        format!("{} takes no more tasks: {why}; use a new stream", stream.describe()),
    )
}

/// Waits until every task up to `ticket` is complete. Returns false if `limit` passes first.
#[inline]
pub(crate) fn wait(stream: &'static Stream, ticket: u64, limit: Option<Duration>) -> bool {
    seen(stream, ticket, false, |goal| block(goal, limit))
}

/// Waits like [`wait`], for a caller that waits for `patience` in total, in slices of `limit`.
pub(crate) fn wait_sliced(
    stream: &'static Stream,
    ticket: u64,
    limit: Duration,
    patience: Duration,
) -> bool {
    seen(stream, ticket, true, |goal| block_with_patience(goal, Some(limit), Some(patience)))
}

/// Returns whether a point of a stream is complete. If so, checked mode notes that the host has
/// seen it. Does not wait.
#[inline]
pub(crate) fn is_complete(mark: Mark) -> bool {
    mark.stream().is_none_or(|stream| seen(stream, mark.ticket(), false, |_| false))
}

/// Returns whether every task up to `ticket` is complete, at once or after `wait`. If so, checked
/// mode notes that the host has seen it.
#[inline]
fn seen(
    stream: &'static Stream,
    ticket: u64,
    sliced: bool,
    wait: impl FnOnce(&Ticket) -> bool,
) -> bool {
    let complete =
        stream.queue.completed() >= ticket || wait(&Ticket { stream, ticket, sliced, ends: false });
    if complete {
        check::host_saw(stream, ticket);
    }
    complete
}

/// Waits until every task that is queued at the time of the call is complete.
pub(crate) fn wait_idle(stream: &'static Stream) {
    wait(stream, stream.queue.submitted(), None);
}

/// Waits until every task up to `ticket` is complete, or until the stream is
/// [held](crate::queue::TaskQueue::hold). In the latter case, the caller ends the stream, and with
/// it the tasks that the stream holds back.
pub(crate) fn wait_before_end(stream: &'static Stream, ticket: u64) {
    if stream.queue.completed() < ticket {
        block(&Ticket { stream, ticket, sliced: false, ends: true }, None);
    }
    if stream.queue.completed() >= ticket {
        check::host_saw(stream, ticket);
    }
}

/// The longest time for which a call that ends work by force waits until running work has given up.
const FORCED: Duration = Duration::from_millis(100);

/// Waits until the tasks up to `ticket`, which were told to give up, have given up. Waits for at
/// most [`FORCED`]. A task that cannot give up yet, because its memory is still being touched,
/// gives up later.
pub(crate) fn run_out(stream: &'static Stream, ticket: u64) {
    wait(stream, ticket, Some(FORCED));
}

/// Waits like [`run_out`] for several streams, for `limit` in total. The default limit is
/// [`FORCED`], as for one stream.
pub(crate) fn run_out_all(told: &[(&'static Stream, u64)], limit: Option<Duration>) {
    let deadline = Instant::now().checked_add(limit.unwrap_or(FORCED));
    for (stream, last) in told {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        wait(stream, *last, left);
    }
}

/// Waits until every task that is queued now and touches some of these bytes of the host is
/// complete.
pub(crate) fn wait_for_users(stream: &'static Stream, bytes: &Range<usize>) {
    let meets = |(start, length): (*const u8, usize)| {
        start.addr() < bytes.end && bytes.start < start.addr().saturating_add(length)
    };
    let touches = |task: &Task| task.touched().into_iter().any(meets);
    // Checks the queue first, because a task moves from the queue to the head, and never back.
    let mut newest = stream.queue.newest_waiting(touches);
    while newest.is_none() && !stream.queue.is_idle() {
        let look = |ticket, task: &mut Task| touches(task).then_some(ticket);
        match polling(|| stream.queue.with_head(stream, look)) {
            Some(None) => return,
            Some(found) => newest = found,
            // The tasks that the stream holds back were checked above.
            None if stream.is_at_rest() => return,
            // Another thread runs the head, or the next task is not the head yet.
            None => {
                stream.assist(HELP);
                thread::yield_now();
            }
        }
    }
    if let Some(ticket) = newest {
        wait(stream, ticket, None);
    }
}

/// The goal of a waiting thread.
pub(crate) trait Goal {
    fn done(&self) -> bool;
    /// Polls the streams whose progress reaches the goal.
    fn work(&self);
    /// Arranges to be unparked when the goal may be reached.
    fn prepare(&self, me: &Thread) -> Readiness;
    fn forget(&self, me: &Thread);
    /// Returns the goal as a point of a stream, if it is one. The thread polls that stream itself
    /// while it spins.
    fn mark(&self) -> Option<Mark> {
        None
    }
    /// Returns the condition that the thread waits for, if only other threads can make it true.
    fn until(&self) -> Option<Until> {
        None
    }
}

/// The number of threads in [`block`], after their first spin.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// Waits for a goal: spins, helps, yields, then sleeps. Returns false if `limit` passes first.
pub(crate) fn block(goal: &impl Goal, limit: Option<Duration>) -> bool {
    block_with_patience(goal, limit, limit)
}

/// Waits like [`block`]. `patience` is the total time of this wait and the waits that continue it,
/// for the proof of deadlocks.
#[cold]
fn block_with_patience(
    goal: &impl Goal,
    limit: Option<Duration>,
    patience: Option<Duration>,
) -> bool {
    for _ in 0..Pace::of(WAITING.load(Ordering::Relaxed) + 1).first {
        goal.work();
        if goal.done() {
            return true;
        }
        std::hint::spin_loop();
    }
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let me = sync::current_thread();
    let asleep = Asleep::new(goal.until(), patience);
    let waiting = Counted::add(&WAITING);
    let mut running = Some(RunningThread::start());
    let mut pace = Pace::of(waiting.value);
    loop {
        let watching = goal.mark().and_then(Mark::stream).map(Watching::start);
        for n in 1..=pace.spins {
            goal.work();
            if goal.done() {
                return true;
            }
            if n.is_multiple_of(LOOK) && passed(deadline) {
                return goal.done();
            }
            if n.is_power_of_two() && n >= FIRST_HELP {
                help();
            }
            std::hint::spin_loop();
        }
        for _ in 0..pace.yields {
            thread::yield_now();
            help();
            goal.work();
            if goal.done() {
                return true;
            }
        }
        drop(watching);
        let readiness = goal.prepare(&me);
        if readiness == Readiness::Sleep {
            let left =
                deadline.map_or(NAP, |deadline| deadline.saturating_duration_since(Instant::now()));
            running = None;
            sync::park_timeout(left.min(NAP));
        }
        goal.forget(&me);
        if goal.done() {
            return true;
        }
        asleep.looked();
        if passed(deadline) {
            return goal.done();
        }
        running.get_or_insert_with(RunningThread::start);
        pace = pace.again();
    }
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// Counts the calling thread among the watchers of a stream while the thread polls it repeatedly.
struct Watching(&'static Stream);

impl Watching {
    fn start(stream: &'static Stream) -> Watching {
        stream.watchers.enter();
        Watching(stream)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watchers.leave();
        if !self.0.queue.is_idle() {
            poll_and_tell(self.0);
        }
    }
}

struct Ticket {
    stream: &'static Stream,
    ticket: u64,
    /// Whether the caller will continue the same wait in another call.
    sliced: bool,
    /// Whether the caller ends the stream, so that it does not wait for tasks that the stream holds
    /// back.
    ends: bool,
}

impl Goal for Ticket {
    fn done(&self) -> bool {
        self.stream.queue.completed() >= self.ticket || self.ends && self.stream.queue.is_held()
    }

    fn work(&self) {
        self.stream.assist(HELP);
    }

    fn prepare(&self, me: &Thread) -> Readiness {
        let queue = &self.stream.queue;
        match polling(|| queue.register(self.stream, self.ticket, QueueWaiter::Thread(me.clone())))
        {
            // The queue may have been held before this thread was registered.
            Readiness::Sleep if self.done() => Readiness::Done,
            Readiness::Sleep => arm_upstream(self.stream),
            other => other,
        }
    }

    fn forget(&self, me: &Thread) {
        self.stream.queue.forget_thread(me);
    }

    fn mark(&self) -> Option<Mark> {
        Some(Mark::new(self.stream, self.ticket))
    }

    fn until(&self) -> Option<Until> {
        let mark = Mark::new(self.stream, self.ticket);
        Some(if self.sliced { Until::SlicedMark(mark.to_bits()) } else { Until::Mark })
    }
}

/// Arms the chain of streams before a parked stream: it may wait for another stream, which may wait
/// for a third. Registers each stream with the next stream, and arms the next stream. The
/// registration comes before the poll of the next stream, so no progress of that stream is missed.
fn arm_upstream(stream: &'static Stream) -> Readiness {
    let first = stream;
    let mut stream = stream;
    for _ in 0..CHAIN {
        let upstream =
            polling(|| stream.queue.with_head(stream, |_, task| task.upstream())).flatten();
        let Some((next, ticket)) = upstream else { break };
        // A kernel and its server may wait for each other in turn.
        if std::ptr::eq(next, first) {
            break;
        }
        match polling(|| next.queue.register(next, ticket, QueueWaiter::Queue(stream))) {
            Readiness::Sleep => stream = next,
            Readiness::Done | Readiness::Retry => return Readiness::Retry,
        }
    }
    Readiness::Sleep
}
