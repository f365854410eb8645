//! Streams: a task queue with an owner, a failure record, and the handle that programs hold.

use crate::failures::Failures;
use crate::machine::{self, Device};
use crate::message::Failure;
use crate::progress::QueuePoint;
use crate::queue::{Fresh, Job, Outcome, TaskQueue};
use crate::slots::{HandleKind, Slots, Slotted};
use crate::step::{Reason, Step};
use crate::sync::lock_std as lock;
use crate::task::{self, TaskBody};
use crate::watchers::Watchers;
use crate::{capture, executor};
use ascend_sys::{ACL_ERROR_RT_NO_STREAM_RESOURCE, ACL_ERROR_RT_TASK_ABORT_STOP, aclError};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A task of a stream. It lies inline in the queue.
pub(crate) type Task = task::Task<Stream>;

pub(crate) static STREAMS: Slots<Stream> = Slots::new();

pub(crate) struct Stream {
    /// The slot: fixed. Tickets go on when a slot is used again, so (slot, ticket) names a task for ever.
    index: u32,
    pub(crate) queue: TaskQueue<Task>,
    handle: AtomicU64,
    context: AtomicU64,
    device: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) failure_mode: AtomicU32,
    /// State of the host function that the head may be: see `callback`.
    pub(crate) host_call: AtomicU32,
    /// The thread (0: none) that runs the callbacks of this stream.
    pub(crate) subscriber: AtomicU64,
    /// The graph that takes what is submitted instead of the queue; 0: none. See `capture`.
    pub(crate) diverted: AtomicU64,
    pub(crate) watchers: Watchers,
    failures: Failures,
    /// Why the voided tasks give up.
    reason: Mutex<Option<Reason>>,
}

impl Slotted for Stream {
    const KIND: HandleKind = HandleKind::Stream;

    fn new(index: u32) -> Stream {
        Stream {
            index,
            queue: TaskQueue::new(),
            handle: AtomicU64::new(0),
            context: AtomicU64::new(0),
            device: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            failure_mode: AtomicU32::new(0),
            host_call: AtomicU32::new(0),
            subscriber: AtomicU64::new(0),
            diverted: AtomicU64::new(0),
            watchers: Watchers::new(),
            failures: Failures::default(),
            reason: Mutex::new(None),
        }
    }
}

impl Stream {
    /// A new stream of a context.
    pub(crate) fn create(
        context: u64,
        device: &'static Device,
        flags: u32,
    ) -> Result<&'static Stream, Failure> {
        let taken = STREAMS.take(|stream, handle| {
            stream.handle.store(handle, Ordering::Relaxed);
            stream.context.store(context, Ordering::Relaxed);
            stream.device.store(device.id, Ordering::Relaxed);
            stream.flags.store(flags, Ordering::Relaxed);
            stream.failure_mode.store(0, Ordering::Relaxed);
            stream.subscriber.store(0, Ordering::Relaxed);
            stream.diverted.store(0, Ordering::Relaxed);
            stream.failures.clear();
            *lock(&stream.reason) = None;
            stream.queue.set_gate(0);
        });
        match taken {
            Some((stream, _)) => Ok(stream),
            None => Err(Failure::new(
                ACL_ERROR_RT_NO_STREAM_RESOURCE,
                "every stream of the process is in use",
            )),
        }
    }

    /// The stream that a handle names, whatever context it belongs to.
    #[inline]
    pub(crate) fn named(handle: u64) -> Result<&'static Stream, Failure> {
        match STREAMS.get(handle) {
            Some(stream) => Ok(stream),
            None => Err(crate::slots::unknown("stream", handle)),
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn context(&self) -> u64 {
        self.context.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn device_id(&self) -> u32 {
        self.device.load(Ordering::Relaxed)
    }

    pub(crate) fn device(&self) -> &'static Device {
        machine::device_slot(self.device_id())
    }

    /// Whether what is submitted goes to a graph.
    #[inline]
    pub(crate) fn is_diverted(&self) -> bool {
        self.diverted.load(Ordering::Relaxed) != 0
    }

    /// Enqueues a task, and runs it at once when it is small and the stream is idle. Returns its ticket.
    ///
    /// Inlined, so that the task runs where it was made.
    #[inline(always)]
    pub(crate) fn submit(&'static self, task: impl Fresh<Task>) -> Result<u64, Failure> {
        let mut task = Some(task);
        if self.is_diverted()
            && let Some(task) = task.take()
        {
            return capture::divert(self, task.into_job());
        }
        self.put(&mut task)
    }

    /// The same, whether the stream is captured or not.
    #[inline(always)]
    pub(crate) fn enqueue(&'static self, task: impl Fresh<Task>) -> Result<u64, Failure> {
        self.put(&mut Some(task))
    }

    /// The task is taken unless it is done.
    #[inline]
    fn put(&'static self, task: &mut Option<impl Fresh<Task>>) -> Result<u64, Failure> {
        let result = executor::polling(|| self.queue.submit(self, task));
        match result {
            Ok((ticket, Outcome::Idle)) => {
                executor::completed();
                Ok(ticket)
            }
            Ok((ticket, outcome)) => {
                executor::left_unfinished(self, outcome);
                Ok(ticket)
            }
            Err(code) => Err(self.refusal(code)),
        }
    }

    #[cold]
    fn refusal(&self, code: aclError) -> Failure {
        let why = match &*lock(&self.reason) {
            Some(reason) => reason.text().to_string(),
            None => "it is being destroyed".to_string(),
        };
        Failure::new(code, format!("{} takes no more tasks: {why}", self.describe()))
    }

    /// Runs what can be run, up to `budget` pieces of work.
    pub(crate) fn poll(&'static self, budget: u32) -> Outcome {
        let before = self.queue.completed();
        let outcome = executor::polling(|| self.queue.poll(self, budget));
        if self.queue.completed() != before {
            executor::completed();
        }
        outcome
    }

    /// As [`poll`](Self::poll), by somebody who only wants to help: when another thread is at it, that one needs to be told
    /// nothing, and keeps its cache line.
    #[inline]
    pub(crate) fn assist(&'static self, budget: u32) -> Outcome {
        if self.queue.is_polled() { Outcome::Busy } else { self.poll(budget) }
    }

    /// A task of this stream may be able to go on: polls the stream, at once or as soon as the calling thread is out of
    /// the poll that it is in.
    pub(crate) fn wake(&'static self) {
        executor::wake(self);
    }

    /// Everything queued gives up for `reason`, as soon as it no longer touches memory. New tasks are still taken.
    pub(crate) fn void(&'static self, reason: Reason) -> u64 {
        *lock(&self.reason) = Some(reason);
        let last = self.queue.void_all();
        self.wake();
        last
    }

    /// Refuses new tasks with `code` and voids what is queued.
    pub(crate) fn stop(&'static self, code: aclError, reason: Reason) {
        self.queue.set_gate(code);
        self.void(reason);
    }

    /// Why the voided tasks give up.
    pub(crate) fn void_reason(&self) -> Reason {
        lock(&self.reason).clone().unwrap_or(Reason::Aborted)
    }

    pub(crate) fn note_failure(&'static self, ticket: u64, failure: Failure) {
        self.failures.note(ticket, failure);
        if self.failure_mode.load(Ordering::Relaxed) == ascend_sys::ACL_STOP_ON_FAILURE {
            self.stop_context();
        }
    }

    /// Stops every stream of the context, because a task of this one failed (`ACL_STOP_ON_FAILURE`).
    fn stop_context(&'static self) {
        let code = ACL_ERROR_RT_TASK_ABORT_STOP;
        let why = format!("{} stops all streams of its context on failure", self.describe());
        for stream in STREAMS.live().filter(|stream| stream.context() == self.context()) {
            stream.stop(code, Reason::Stopped(why.as_str().into()));
        }
    }

    /// The failure of a task, if it is still remembered.
    pub(crate) fn failure(&self, ticket: u64) -> Option<Failure> {
        self.failures.of(ticket)
    }

    /// The first failure among some tasks, if it is still remembered.
    pub(crate) fn failure_within(&self, tickets: &Range<u64>) -> Option<Failure> {
        self.failures.first_within(tickets)
    }

    /// The last failure since the last synchronise; forgets it.
    #[inline]
    pub(crate) fn take_unreported(&self) -> Result<(), Failure> {
        self.failures.report(u64::MAX)
    }

    /// Takes the handle away: nobody finds the stream any more. False when it is gone already.
    pub(crate) fn take_handle(&self) -> bool {
        STREAMS.retire(self.handle())
    }

    /// Gives the slot of a stream that was stopped, and has no handle, back for another one, when nothing of it runs any more.
    pub(crate) fn recycle(&'static self) {
        executor::wait_idle(self);
        STREAMS.recycle(self.index);
    }

    /// For messages: what the stream is held up by.
    pub(crate) fn waiting_for(&'static self) -> String {
        let head = executor::polling(|| {
            self.queue.with_head(self, |ticket, task| (ticket, task.describe()))
        });
        match head {
            Some((ticket, task)) => format!("{} is at task {ticket}: {task}", self.describe()),
            None => format!("{} is running", self.describe()),
        }
    }

    /// "stream 5 of device 2".
    pub(crate) fn describe(&self) -> String {
        format!("stream {} of device {}", self.index, self.device_id())
    }
}

impl Job for Task {
    type Owner = Stream;
    type Failure = Failure;

    #[inline]
    fn poll(&mut self, stream: &'static Stream) -> Step {
        task::Task::poll(self, stream)
    }

    fn arm(&mut self, stream: &'static Stream) -> bool {
        TaskBody::arm(&mut **self, stream)
    }

    fn give_up(&mut self, stream: &'static Stream) -> Step {
        self.expire(stream, &stream.void_reason())
    }

    fn panicked(&mut self, stream: &'static Stream) -> Step {
        self.expire(stream, &Reason::Panicked)
    }

    fn failed(stream: &'static Stream, ticket: u64, failure: Failure) {
        stream.note_failure(ticket, failure);
    }

    fn wake(stream: &'static Stream) {
        stream.wake();
    }
}

/// A task starts as what it is; its kind is forgotten when it has to stay.
impl<B: TaskBody<Stream>> Fresh<Task> for B {
    #[inline]
    fn start(&mut self, stream: &'static Stream) -> Step {
        self.poll(stream)
    }

    #[inline]
    fn into_job(mut self) -> Task {
        self.keep();
        Task::new(self)
    }
}

/// A point in a stream: complete when every task submitted before it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    const TICKET_BITS: u32 = 44;

    /// Behind the newest task of a stream.
    #[inline]
    pub(crate) fn now(stream: &Stream) -> Mark {
        Mark::new(stream, stream.queue.submitted())
    }

    #[inline]
    pub(crate) fn new(stream: &Stream, ticket: u64) -> Mark {
        Mark(u64::from(stream.index) << Mark::TICKET_BITS | ticket)
    }

    pub(crate) fn stream(self) -> Option<&'static Stream> {
        STREAMS.at((self.0 >> Mark::TICKET_BITS) as u32)
    }

    pub(crate) fn ticket(self) -> u64 {
        self.0 & ((1 << Mark::TICKET_BITS) - 1)
    }

    #[inline]
    pub(crate) fn is_complete(self) -> bool {
        self.stream().is_none_or(|stream| stream.queue.completed() >= self.ticket())
    }

    /// The last failure of the tasks before it that no synchronise has returned, if it is complete; forgets it.
    pub(crate) fn take_unreported(self) -> Result<(), Failure> {
        match self.stream() {
            Some(stream) if stream.queue.completed() >= self.ticket() => {
                stream.failures.report(self.ticket())
            }
            _ => Ok(()),
        }
    }

    /// The stream and the ticket, while there is such a stream.
    pub(crate) fn point(self) -> Option<(&'static Stream, u64)> {
        self.stream().map(|stream| (stream, self.ticket()))
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    pub(crate) fn from_bits(bits: u64) -> Mark {
        Mark(bits)
    }
}

/// What freed memory of some devices has to wait for: all that is unfinished on them now.
pub(crate) fn unfinished_on(devices: Range<u32>) -> Vec<QueuePoint> {
    let busy = STREAMS.all().filter(|stream| !stream.queue.is_idle());
    let theirs = busy.filter(|stream| devices.contains(&stream.device_id()));
    theirs.map(|stream| QueuePoint::now(&stream.queue.progress)).collect()
}

/// A mark for every stream of the machine that has unfinished tasks.
pub(crate) fn unfinished() -> Vec<Mark> {
    STREAMS.all().filter(|stream| !stream.queue.is_idle()).map(Mark::now).collect()
}
