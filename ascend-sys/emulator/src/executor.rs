//! Who runs the streams: whoever issues, whoever waits, the housekeeper and its workers.
//!
//! There is no ready queue. A thread that waits polls its own stream; before it yields or sleeps it polls the streams of
//! others; before it sleeps it arranges to be woken, by arming the task that its stream is parked on and every stream
//! that this one waits for in turn. What nobody waits for is run by the [`housekeeper`], and by [`workers`] while cores are free.

pub(crate) mod cores;
mod goals;
mod housekeeper;
mod workers;

use cores::cores;
pub(crate) use goals::{announce, await_activity, completed, wait_event, wait_until};

use crate::check;
use crate::queue::{Outcome, QueueWaiter, Readiness};
use crate::stream::{Mark, STREAMS, Stream};
use crate::sync::{self, Thread};
use crate::users::Asleep;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Polls before a waiting thread counts as waiting, reads a clock or looks at other streams.
const FIRST_SPIN: u32 = 64;
/// Polls while the waiting threads fit the cores: about 100 microseconds.
const LONG_SPIN: u32 = 2000;
const SHORT_SPIN: u32 = 16;
const YIELDS: u32 = 4;
/// Pieces of work that a helper takes from a foreign stream at a time.
const HELP: u32 = 4;
/// The longest sleep without a look around, whatever happens.
const NAP: Duration = Duration::from_millis(50);
/// How many streams in a row may wait for each other before arming stops looking further.
const CHAIN: usize = 4096;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static ANY_WOKEN: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread counts in `RUNNING`.
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static WOKEN: RefCell<Vec<&'static Stream>> = const { RefCell::new(Vec::new()) };
}

/// Runs a poll. Streams that are woken in it are polled after the outermost poll of the thread, never inside.
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
    // Keeps the depth above zero, so that the loop below is the only one.
    DEPTH.set(1);
    while let Some(stream) = WOKEN.with_borrow_mut(Vec::pop) {
        poll_and_tell(stream);
    }
    ANY_WOKEN.set(false);
    DEPTH.set(0);
}

pub(crate) fn wake(stream: &'static Stream) {
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

/// As [`wake`], of a stream that somebody may be watching: then that thread is at it, and the calling one goes on with its own work. Unless there are more
/// threads than cores, so that the other one may not be running.
pub(crate) fn nudge(stream: &'static Stream) {
    let others = RUNNING.load(Ordering::Relaxed).saturating_sub(IS_RUNNING.get().into());
    if others >= cores() || !stream.watchers.will_see() {
        wake(stream);
    }
}

fn poll_and_tell(stream: &'static Stream) {
    match stream.poll(HELP) {
        Outcome::Idle => {}
        outcome => left_unfinished(stream, outcome),
    }
}

/// A stream has unfinished work that the calling thread does not go on with.
#[cold]
pub(crate) fn left_unfinished(stream: &'static Stream, outcome: Outcome) {
    if outcome == Outcome::Runnable {
        stream.queue.unpark_threads();
    }
    housekeeper::notice();
}

/// Waits until every task up to `ticket` is complete. False when `limit` passed first.
#[inline]
pub(crate) fn wait(stream: &'static Stream, ticket: u64, limit: Option<Duration>) -> bool {
    let complete = stream.queue.completed() >= ticket || block(&Ticket { stream, ticket }, limit);
    if complete {
        check::host_saw(stream, ticket);
    }
    complete
}

/// As [`wait`] by a caller who means to wait for `patience` in all and looks up every `limit`.
pub(crate) fn wait_sliced(
    stream: &'static Stream,
    ticket: u64,
    limit: Duration,
    patience: Duration,
) -> bool {
    let complete = stream.queue.completed() >= ticket
        || block_with_patience(&Ticket { stream, ticket }, Some(limit), Some(patience));
    if complete {
        check::host_saw(stream, ticket);
    }
    complete
}

/// Waits until nothing is queued.
pub(crate) fn wait_idle(stream: &'static Stream) {
    wait(stream, stream.queue.submitted(), None);
}

/// What a thread waits for.
pub(crate) trait Goal {
    fn done(&self) -> bool;
    /// Polls what brings the goal nearer.
    fn work(&self);
    /// Arranges to be unparked when the goal may be reached.
    fn prepare(&self, me: &Thread) -> Readiness;
    fn forget(&self, me: &Thread);
    /// The point of a stream that the goal is, if it is one: the thread polls that stream itself while it spins.
    fn mark(&self) -> Option<Mark> {
        None
    }
}

/// Threads in [`block`], after their first spin.
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// Threads that are up to run streams: those of `WAITING` that do not sleep, the housekeeper and the workers.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Waits for a goal: spins, helps, yields, sleeps.
pub(crate) fn block(goal: &impl Goal, limit: Option<Duration>) -> bool {
    block_with_patience(goal, limit, limit)
}

/// As [`block`]; `patience` is how long this and the calls that follow it wait, for the proof of deadlocks.
#[cold]
fn block_with_patience(
    goal: &impl Goal,
    limit: Option<Duration>,
    patience: Option<Duration>,
) -> bool {
    for _ in 0..FIRST_SPIN {
        goal.work();
        if goal.done() {
            return true;
        }
        std::hint::spin_loop();
    }
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let me = sync::current_thread();
    let _asleep = Asleep::new(goal.mark().map(Mark::to_bits), patience);
    let waiting = Counted::add(&WAITING);
    let mut running = Some(RunningThread::start());
    let mut spin = if waiting.value <= cores() { LONG_SPIN } else { SHORT_SPIN };
    loop {
        let watching = goal.mark().and_then(Mark::stream).map(Watching::start);
        for n in 1..=spin {
            goal.work();
            if goal.done() {
                return true;
            }
            if n.is_multiple_of(FIRST_SPIN) && passed(deadline) {
                return goal.done();
            }
            if n.is_power_of_two() && n >= SHORT_SPIN {
                help();
            }
            std::hint::spin_loop();
        }
        for _ in 0..YIELDS {
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
        if passed(deadline) {
            return goal.done();
        }
        running.get_or_insert_with(RunningThread::start);
        spin = SHORT_SPIN;
    }
}

fn passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// Polls every stream that has unfinished work and that nobody watches. Returns how many of them have more to run.
fn help() -> usize {
    let unwatched =
        STREAMS.all().filter(|stream| !stream.queue.is_idle() && !stream.watchers.any());
    unwatched.filter(|stream| stream.assist(HELP) == Outcome::Runnable).count()
}

struct Counted<'a> {
    counter: &'a AtomicUsize,
    value: usize,
}

impl<'a> Counted<'a> {
    fn add(counter: &'a AtomicUsize) -> Counted<'a> {
        Counted { counter, value: counter.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The calling thread is up to run streams.
struct RunningThread {
    _counted: Counted<'static>,
}

impl RunningThread {
    fn start() -> RunningThread {
        IS_RUNNING.set(true);
        RunningThread { _counted: Counted::add(&RUNNING) }
    }
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        IS_RUNNING.set(false);
    }
}

/// The calling thread polls the stream again and again.
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
}

impl Goal for Ticket {
    fn done(&self) -> bool {
        self.stream.queue.completed() >= self.ticket
    }

    fn work(&self) {
        self.stream.assist(HELP);
    }

    fn prepare(&self, me: &Thread) -> Readiness {
        let queue = &self.stream.queue;
        match polling(|| queue.register(self.stream, self.ticket, QueueWaiter::Thread(me.clone())))
        {
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
}

/// A parked stream may wait for another, which may wait for a third: registers each with the next and arms that one.
/// A stream registers before it polls the next one, so no progress of it goes unnoticed.
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
