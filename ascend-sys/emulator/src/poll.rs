//! Polls streams: runs their tasks, and wakes streams whose tasks may be able to go on.
//!
//! A poll runs the tasks at the head of a stream on the calling thread. A task that completes may
//! wake other streams. Those are polled after the outermost poll of the thread, and never inside
//! it, so that polls do not nest without end. Waiters and the housekeeper run the work that is left
//! unfinished; the [`bell`] wakes them.

use crate::bell;
use crate::check;
use crate::exceptions::{self, Exception};
use crate::machine;
use crate::message::Failure;
use crate::os_thread;
use crate::queue::{Fresh, Job, Outcome};
use crate::step::{Reason, Step};
use crate::stream::{STREAMS, Stream, StreamHold, Task};
use crate::task::{self, Awaited, TaskBody};
use ascend_sync::lock_std as lock;
use ascend_sys::{ACL_ERROR_RT_TASK_ABORT_STOP, aclError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The number of pieces of work that a waiting or helping thread runs in one poll of a stream.
pub(crate) const HELP: u32 = 4;
/// The time limit for finding out, for a message, which task a stream is at.
const A_LOOK: Duration = Duration::from_millis(100);

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static ANY_WOKEN: Cell<bool> = const { Cell::new(false) };
    static WOKEN: RefCell<Vec<&'static Stream>> = const { RefCell::new(Vec::new()) };
}

/// Runs a poll. Streams that are woken in it are polled after the outermost poll of the thread,
/// never inside.
#[inline]
pub(crate) fn polling<R>(poll: impl FnOnce() -> R) -> R {
    struct InsidePoll;
    impl Drop for InsidePoll {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get() - 1);
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let inside = InsidePoll;
    let result = poll();
    drop(inside);
    if ANY_WOKEN.get() && DEPTH.get() == 0 {
        poll_woken();
    }
    result
}

#[cold]
fn poll_woken() {
    // The depth stays above zero, so that the loop below is the only one.
    DEPTH.set(1);
    while let Some(stream) = WOKEN.with_borrow_mut(Vec::pop) {
        poll_and_tell(stream);
    }
    ANY_WOKEN.set(false);
    DEPTH.set(0);
}

fn wake(stream: &'static Stream) {
    if DEPTH.get() == 0 {
        poll_and_tell(stream);
        return;
    }
    ANY_WOKEN.set(true);
    WOKEN.with_borrow_mut(|woken| {
        if !woken.iter().any(|s| std::ptr::eq(*s, stream)) {
            woken.push(stream);
        }
    });
}

/// Polls a stream; other threads run the work that is left unfinished.
pub(crate) fn poll_and_tell(stream: &'static Stream) {
    match stream.poll(HELP) {
        Outcome::Idle => {}
        // Unfinished work was submitted, and the submitting thread starts the housekeeper.
        outcome => {
            left_unfinished(stream, outcome);
        }
    }
}

/// Leaves unfinished work of a stream to other threads. Returns false if there is no housekeeper
/// yet.
#[cold]
pub(crate) fn left_unfinished(stream: &'static Stream, outcome: Outcome) -> bool {
    if outcome == Outcome::Runnable {
        stream.queue.unpark_threads();
    }
    bell::notice()
}

impl Stream {
    /// Runs tasks, up to `budget` pieces of work.
    pub(crate) fn poll(&'static self, budget: u32) -> Outcome {
        let before = self.queue.completed();
        let outcome = polling(|| self.queue.poll(self, budget));
        if self.queue.completed() != before {
            bell::completed();
        }
        outcome
    }

    /// Polls like [`poll`](Self::poll), for a helper. If another thread is already polling, does
    /// not leave a note for that thread, so the thread keeps its cache line.
    #[inline]
    pub(crate) fn assist(&'static self, budget: u32) -> Outcome {
        if self.queue.is_polled() { Outcome::Busy } else { self.poll(budget) }
    }

    /// Polls the stream because one of its tasks may be able to go on. Polls it at once, or as soon
    /// as the calling thread has left its current poll.
    pub(crate) fn wake(&'static self) {
        wake(self);
    }

    /// Makes all queued tasks give up for `reason`, each as soon as it no longer touches memory.
    /// New tasks are still accepted. Returns the last ticket that gives up.
    pub(crate) fn void(&'static self, reason: Reason) -> u64 {
        let mut why = lock(&self.reason);
        *why = Some(reason);
        let last = self.queue.void_all();
        drop(why);
        self.wake();
        last
    }

    /// Makes the tasks queued up to this ticket give up for `reason` at the next poll, by any
    /// thread. Tasks that are already giving up keep their own reason.
    pub(crate) fn void_until(&'static self, ticket: u64, reason: Reason) {
        let mut why = lock(&self.reason);
        if !self.queue.is_void(ticket) {
            *why = Some(reason);
            self.queue.void_until(ticket);
        }
    }

    /// Holds the stream: no more tasks begin, and queued and new tasks stay in the queue.
    pub(crate) fn hold(&'static self) {
        // If the stream is already held, an earlier call has stopped it, so the data of that call
        // stays.
        if !self.queue.is_held() {
            *lock(&self.hold) = Some(StreamHold { at: Instant::now(), by: os_thread::number() });
        }
        self.queue.hold();
        // Wakes threads that wait to end the stream, because they do not wait for a held one.
        self.queue.unpark_threads();
    }

    /// Returns whether the stream is held and has no task left that has begun. Returns false if
    /// another thread is polling the stream.
    pub(crate) fn is_at_rest(&'static self) -> bool {
        self.queue.is_held() && polling(|| self.queue.is_at_rest(self))
    }

    /// Lets tasks begin again, if the stream was held.
    pub(crate) fn release(&'static self) {
        self.queue.release();
        self.wake();
    }

    /// Refuses new tasks with `code`, and makes the queued tasks give up for `reason`.
    pub(crate) fn stop(&'static self, code: aclError, reason: Reason) {
        self.queue.set_gate(code);
        self.void(reason);
    }

    fn note_failure(&'static self, ticket: u64, failure: Failure) {
        // A task that was made to give up has not failed by itself, so it stops nothing.
        let stops = self.failure_mode.load(Ordering::Relaxed) == ascend_sys::ACL_STOP_ON_FAILURE
            && !exceptions::is_a_consequence(failure.acl_code());
        self.failures.note(ticket, failure);
        if stops {
            self.stop_context();
        }
    }

    /// Stops every stream of the context, because a task of this stream failed
    /// (`ACL_STOP_ON_FAILURE`).
    fn stop_context(&'static self) {
        let why = format!("{} stops all streams of its context on failure", self.describe());
        let streams = STREAMS.live().filter(|stream| stream.context() == self.context());
        stop_together(streams, ACL_ERROR_RT_TASK_ABORT_STOP, &Reason::Stopped(why.into()));
    }

    /// Returns the ranks that the stream's head waits for, if it is one of the tasks with these
    /// tickets.
    pub(crate) fn awaits(&'static self, tickets: RangeInclusive<u64>) -> Vec<u32> {
        let look = |at, task: &mut Task| tickets.contains(&at).then(|| task.awaits());
        let Awaited { mut ranks, threads_of } = self.look(look).flatten().unwrap_or_default();
        if ranks.is_empty() && threads_of.is_some() {
            // The head waits for another thread of its operator. So the ranks that the operator's
            // threads wait for are returned.
            let others = STREAMS.live().filter(|other| other.device_id() == self.device_id());
            let look = |_, task: &mut Task| task.awaits();
            let awaited = others.filter_map(|other| polling(|| other.queue.with_head(other, look)));
            let awaited = awaited.filter(|awaited| awaited.threads_of == threads_of);
            let all: BTreeSet<usize> = awaited.flat_map(|awaited| awaited.ranks).collect();
            ranks = all.into_iter().collect();
        }
        ranks.into_iter().map(|rank| rank as u32).collect()
    }

    /// Describes the task that the stream is at, for messages.
    pub(crate) fn waiting_for(&'static self) -> String {
        match self.look(|ticket, task| (ticket, task.describe())) {
            Some((ticket, task)) if self.queue.is_held() => {
                format!("{} is at task {ticket}: {task}. It {}", self.describe(), self.stopped())
            }
            Some((ticket, task)) => format!("{} is at task {ticket}: {task}", self.describe()),
            None if self.queue.is_held() => format!("{} {}", self.describe(), self.stopped()),
            None => format!("{} is running", self.describe()),
        }
    }

    /// Describes the state of a stream with unfinished work, for the error of a wait that has
    /// ended.
    #[cold]
    pub(crate) fn unfinished(&'static self) -> String {
        // No task of a stopped stream goes on, except one that has begun.
        let rests = self.rests();
        let state = self.waiting_for();
        if rests {
            return state;
        }
        match self.awaits_stopped() {
            Some(stopped) => format!("{state}, and {}", stopped.waiting_for()),
            None => format!("its work goes on: {state}"),
        }
    }

    /// Returns the stopped stream for which the head waits, if there is one. The head may wait for
    /// a point in that stream, or for a point in another stream that waits for it.
    #[cold]
    fn awaits_stopped(&'static self) -> Option<&'static Stream> {
        const MOST: usize = 16;
        let mut at = self;
        for _ in 0..MOST {
            let (awaited, _) = at.look(|_, task| task.upstream()).flatten()?;
            if awaited.rests() {
                return Some(awaited);
            }
            at = awaited;
        }
        None
    }

    /// Returns whether the stream is held and has no task left that has begun, for messages. Unlike
    /// [`is_at_rest`](Self::is_at_rest), waits for a helper that polls the stream at this moment.
    fn rests(&'static self) -> bool {
        self.queue.is_held() && self.look(|_, _| ()).is_none()
    }

    /// Describes how a held stream was stopped, and how it can go on, for messages.
    #[cold]
    pub(crate) fn stopped(&self) -> String {
        let since = match &*lock(&self.hold) {
            Some(StreamHold { at, by }) => format!(" for {:.1?}, by thread {by},", at.elapsed()),
            None => String::new(),
        };
        format!(
            "is stopped (aclrtStreamStop){since} and begins no task until aclrtStreamAbort drops \
             those it has"
        )
    }

    /// Calls `look` with the head of the stream, if there is one. If a helper is polling the stream
    /// at this moment, waits for the helper to finish, for at most [`A_LOOK`].
    pub(crate) fn look<R>(&'static self, look: impl Fn(u64, &mut Task) -> R) -> Option<R> {
        let began = Instant::now();
        loop {
            let seen = polling(|| self.queue.with_head(self, &look));
            if seen.is_some()
                || self.queue.is_idle()
                || self.is_at_rest()
                || began.elapsed() > A_LOOK
            {
                return seen;
            }
            thread::sleep(A_LOOK / 1000);
        }
    }
}

/// Makes all queued tasks of some streams give up for `reason`. No task gives up before all streams
/// are marked. Otherwise a stream that waits for a second stream could mistake the end of the
/// second stream's tasks for their completion. It would then go on with data that never came.
/// Returns each stream with the ticket of the last task that gives up.
///
/// The streams must come in the order of their slots, as in [`STREAMS`], each of them once.
pub(crate) fn void_together(
    streams: impl Iterator<Item = &'static Stream>,
    reason: &Reason,
) -> Vec<(&'static Stream, u64)> {
    // A task reads the reason before it gives up, and so waits until all locks are released. If two
    // threads do this at once, they take the locks in the same order. No other thread holds two of
    // the locks.
    let mut locks = Vec::new();
    let tell = |stream: &'static Stream| {
        let mut why = lock(&stream.reason);
        *why = Some(reason.clone());
        locks.push(why);
        (stream, stream.queue.void_all())
    };
    let told: Vec<_> = streams.map(tell).collect();
    drop(locks);
    told.iter().for_each(|(stream, _)| stream.wake());
    told
}

/// Does the same as [`void_together`], and makes the streams refuse new tasks with `code`.
pub(crate) fn stop_together(
    streams: impl Iterator<Item = &'static Stream>,
    code: aclError,
    reason: &Reason,
) {
    void_together(streams.inspect(|stream| stream.queue.set_gate(code)), reason);
}

impl Job for Task {
    type Owner = Stream;
    type Failure = Failure;

    #[inline]
    fn poll(&mut self, stream: &'static Stream) -> Step {
        let step = task::ErasedTask::poll(self, stream);
        let step = if check::is_on() { tell_checker(&**self, stream, step) } else { step };
        tell_callbacks(stream, || self.thread(), step)
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        TaskBody::arm(&mut **self, stream)
    }

    fn give_up(&mut self, stream: &'static Stream) -> Step {
        let step = self.expire(stream, &stream.void_reason());
        tell_callbacks(stream, || self.thread(), step)
    }

    fn panicked(&mut self, stream: &'static Stream) -> Step {
        let step = self.expire(stream, &Reason::Panicked);
        tell_callbacks(stream, || self.thread(), step)
    }

    fn failed(stream: &'static Stream, ticket: u64, failure: Failure) {
        stream.note_failure(ticket, failure);
    }

    fn wake(stream: &'static Stream) {
        stream.wake();
    }
}

/// Reports to checked mode what a task that is over has waited for.
#[cold]
fn tell_checker(task: &dyn TaskBody<Stream>, stream: &Stream, step: Step) -> Step {
    if let Step::Done(how) = &step
        && let Some(passed) = task.passed(how)
    {
        check::passed(stream, passed);
    }
    step
}

/// Reports the head of the stream to the exception callbacks, if it has failed. `thread` returns
/// the thread that submitted it.
#[inline]
fn tell_callbacks(stream: &Stream, thread: impl FnOnce() -> u32, step: Step) -> Step {
    if let Step::Done(Err(failure)) = &step {
        exceptions::failed(failure, |code| Exception {
            // Tasks complete in order, and the queue is locked, so the head has the next ticket.
            task: (stream.queue.completed() + 1) as u32,
            stream: stream.index(),
            thread: thread(),
            device: machine::number_of(stream.device_id()),
            code,
        });
    }
    step
}

/// A task starts with its own type. The type is erased if the task has to stay in the queue.
impl<B: TaskBody<Stream>> Fresh<Task> for B {
    #[inline]
    fn start(&mut self, stream: &'static Stream) -> Step {
        let step = self.poll(stream);
        let step = if check::is_on() { tell_checker(self, stream, step) } else { step };
        tell_callbacks(stream, os_thread::number, step)
    }

    #[inline]
    fn into_job(mut self) -> Task {
        self.keep();
        Task::new(self)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// A task that waits until it is made to give up.
    struct Stuck;

    impl TaskBody<Stream> for Stuck {
        fn poll(&mut self, _: &'static Stream) -> Step {
            Step::Park
        }

        fn awaits(&self) -> Awaited {
            vec![3].into()
        }

        fn describe(&self) -> String {
            "a task that is stuck".into()
        }
    }

    #[test]
    fn a_stream_that_somebody_polls_still_says_what_it_is_at() {
        let stream = Stream::create(1, machine::device_slot(0), 0).unwrap();
        let ticket = stream.enqueue(Stuck).unwrap();
        let while_somebody_polls = |look: &dyn Fn()| {
            let held = Barrier::new(2);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let hold = |_, _: &mut Task| {
                        held.wait();
                        thread::sleep(A_LOOK / 10);
                    };
                    stream.queue.with_head(stream, hold).unwrap();
                });
                held.wait();
                look();
            });
        };
        while_somebody_polls(&|| {
            let text = stream.waiting_for();
            assert!(text.ends_with(&format!("at task {ticket}: a task that is stuck")), "{text}");
        });
        while_somebody_polls(&|| assert_eq!(stream.awaits(ticket..=ticket), [3]));
        stream.void(Reason::Gone);
        assert!(stream.waiting_for().ends_with("is running"));
    }
}
