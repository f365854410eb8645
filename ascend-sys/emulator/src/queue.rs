//! The protocol of a stream: jobs enter in order and run one after the other, and no waiter is
//! missed.
//!
//! A queue has no thread of its own: threads poll it. A thread polls it when it submits, when it
//! waits, and when it makes a parked job runnable. One thread at a time has the *lock* (a
//! try-lock); no thread waits for the lock. These rules make it safe to sleep on a queue:
//!
//! 1. A thread that wants to poll and finds the lock taken leaves a note (`kick`) and tries once
//!    more. The holder checks the note after it has released the lock. Both steps on the lock are
//!    read-modify-writes, so at least one of the two sees the other.
//! 2. A sleeper registers with the ticket that it waits for, and only then takes the lock once: it
//!    polls, and arms the parked head. The sleeper sees every completion before it held the lock,
//!    and every completion after that sees the registration. As long as a sleeper is registered,
//!    each poll arms the head that it leaves parked.
//! 3. `completed` is written only with the lock held, in ticket order, after the job is done with
//!    all memory.
//!
//! A job that panics, which is a defect of the emulator, gives up and fails. The thread that polled
//! it, which may be any thread, goes on.
//!
//! The loom models, in `queue_models.rs`, check exactly these three rules.

use crate::progress::Progress;
use ascend_sync::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64, Mutex, Ordering, SpinLock, Thread, TryLock, lock,
};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[path = "queue_hold.rs"]
mod hold;
#[cfg(all(test, loom))]
#[path = "queue_models.rs"]
mod models;
#[cfg(all(test, not(loom)))]
#[path = "queue_tests.rs"]
mod tests;

/// The gate of a held queue. No error has this code.
const HELD: i32 = i32::MIN;

/// The result of a poll of a job.
#[derive(Debug)]
pub(crate) enum JobStep<F> {
    /// The job is finished, and done with all memory, even if it failed.
    Done(Result<(), F>),
    /// The job can go on only after an event that it waits for.
    Park,
    /// A piece of work is done (at most about 20 microseconds), and more can be done at once.
    Again,
}

/// A unit of work in a task queue.
pub(crate) trait Job: Sized {
    /// The stream that the queue belongs to.
    type Owner: 'static;
    /// The reason why a job failed.
    type Failure;

    /// Makes progress. Called with the lock held.
    fn poll(&mut self, owner: &'static Self::Owner) -> JobStep<Self::Failure>;
    /// Arranges that the queue is woken when a poll may help. Called when the job is parked and a
    /// waiter is about to sleep. Returns true if a poll may already help.
    fn arm(&mut self, owner: &'static Self::Owner) -> bool;
    /// Gives up, as soon as nothing of the job touches memory any more. Called because the ticket
    /// of the job was voided.
    fn give_up(&mut self, owner: &'static Self::Owner) -> JobStep<Self::Failure>;
    /// Gives up like [`give_up`](Self::give_up). Called because the job has panicked.
    fn panicked(&mut self, owner: &'static Self::Owner) -> JobStep<Self::Failure>;
    /// Notes a failure. Called before `completed` covers the failed ticket.
    fn failed(owner: &'static Self::Owner, ticket: u64, failure: Self::Failure);
    /// Polls the queue of `owner` now, or as soon as the calling thread has left its current poll.
    fn wake(owner: &'static Self::Owner);
}

/// A job as it is submitted. Most jobs are done at once, so they run where they were made. Only
/// jobs that have to stay become jobs of the queue, which are moved and kept.
pub(crate) trait Fresh<J: Job> {
    /// Does the same as [`Job::poll`].
    fn start(&mut self, owner: &'static J::Owner) -> JobStep<J::Failure>;
    /// Makes the job that stays in the queue. The job takes hold of all objects that the submitting
    /// call only lends it.
    fn into_job(self) -> J;
}

impl<J: Job> Fresh<J> for J {
    #[inline]
    fn start(&mut self, owner: &'static J::Owner) -> JobStep<J::Failure> {
        self.poll(owner)
    }

    #[inline]
    fn into_job(self) -> J {
        self
    }
}

/// Calls into a job. Returns `None` if the job panics. The models handle panics themselves.
#[inline]
fn guarded<R>(call: impl FnOnce() -> R) -> Option<R> {
    if cfg!(loom) { Some(call()) } else { catch_unwind(AssertUnwindSafe(call)).ok() }
}

/// Ends a job that has panicked. If the job cannot even give up, it stays for ever, because it may
/// still touch memory.
#[cold]
fn panicked<J: Job>(owner: &'static J::Owner, job: &mut J) -> JobStep<J::Failure> {
    guarded(|| job.panicked(owner)).unwrap_or(JobStep::Park)
}

/// The state of the queue after a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing is queued.
    Idle,
    /// The head waits for an event, or the queue is held.
    Parked,
    /// There is more to run, but the budget is used up.
    Runnable,
    /// Another thread has the lock, and will check again.
    Busy,
}

/// The thread or queue that a completion wakes.
pub(crate) enum QueueWaiter<O: 'static> {
    Thread(Thread),
    Queue(&'static O),
}

impl<O: 'static> QueueWaiter<O> {
    fn is(&self, other: &QueueWaiter<O>) -> bool {
        match (self, other) {
            (QueueWaiter::Thread(a), QueueWaiter::Thread(b)) => a.id() == b.id(),
            (QueueWaiter::Queue(a), QueueWaiter::Queue(b)) => std::ptr::eq(*a, *b),
            _ => false,
        }
    }
}

struct RegisteredWaiter<O: 'static> {
    ticket: u64,
    waiter: QueueWaiter<O>,
}

/// The answer to a waiter that has registered: whether it may sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The ticket is complete.
    Done,
    /// There may be work to do, so the thread must poll again.
    Retry,
    /// There is nothing to do: a completion or a wake-up will come.
    Sleep,
}

pub(crate) struct TaskQueue<J: Job> {
    pub(crate) progress: Progress,
    queue: SpinLock<VecDeque<(u64, J)>>,
    head: TryLock<Option<(u64, J)>>,
    kick: AtomicBool,
    /// The number of registered waiters in `waiters`. It is read after every completion.
    armed: AtomicU32,
    /// 0 if the gate is open, [`HELD`], or the code with which new jobs are refused.
    gate: AtomicI32,
    /// Jobs with tickets up to this ticket give up instead of running.
    void: AtomicU64,
    waiters: Mutex<Vec<RegisteredWaiter<J::Owner>>>,
}

impl<J: Job> TaskQueue<J> {
    pub(crate) fn new() -> TaskQueue<J> {
        TaskQueue {
            progress: Progress::new(),
            queue: SpinLock::new(VecDeque::new()),
            head: TryLock::new(None),
            kick: AtomicBool::new(false),
            armed: AtomicU32::new(0),
            gate: AtomicI32::new(0),
            void: AtomicU64::new(0),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// Returns the ticket of the newest job.
    #[inline]
    pub(crate) fn submitted(&self) -> u64 {
        self.progress.submitted()
    }

    /// Returns the ticket up to which every job is finished.
    #[inline]
    pub(crate) fn completed(&self) -> u64 {
        self.progress.completed()
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        // The order of the loads matters: `completed` never passes `submitted`, so if they are
        // equal here, they were equal at the second load.
        let completed = self.completed();
        completed == self.submitted()
    }

    /// Returns whether a thread has the lock right now.
    #[inline]
    pub(crate) fn is_polled(&self) -> bool {
        self.head.is_taken()
    }

    /// Appends a job and polls once, so that a small job on an idle queue is complete when this
    /// returns. `job` is `None` afterwards, unless the job is refused. The error is the code with
    /// which the gate was closed.
    #[inline]
    pub(crate) fn submit<F: Fresh<J>>(
        &self,
        owner: &'static J::Owner,
        job: &mut Option<F>,
    ) -> Result<(u64, Outcome), i32> {
        let mut queue = self.queue.lock();
        let gate = self.gate.load(Ordering::Relaxed);
        if gate != 0 && gate != HELD {
            return Err(gate);
        }
        let before = self.progress.submitted.load(Ordering::Relaxed);
        let ticket = before + 1;
        if self.completed() == before
            && gate == 0
            && let Some(mut head) = self.head.try_take()
        {
            // All submitted jobs are complete, so the queue and the head are empty and this job is
            // next.
            self.progress.submitted.store(ticket, Ordering::Release);
            drop(queue);
            let outcome = head.with(|head| self.start(owner, head, ticket, job));
            drop(head);
            self.notify();
            if self.kick.load(Ordering::Acquire) {
                return Ok((ticket, self.poll(owner, 1)));
            }
            return Ok((ticket, outcome));
        }
        if let Some(job) = job.take() {
            queue.push_back((ticket, job.into_job()));
        }
        self.progress.submitted.store(ticket, Ordering::Release);
        drop(queue);
        Ok((ticket, self.poll(owner, 1)))
    }

    #[inline]
    fn start<F: Fresh<J>>(
        &self,
        owner: &'static J::Owner,
        head: &mut Option<(u64, J)>,
        ticket: u64,
        job: &mut Option<F>,
    ) -> Outcome {
        let step = match job {
            Some(job) => guarded(|| job.start(owner)),
            None => Some(JobStep::Done(Ok(()))),
        };
        let outcome = match step {
            // The job is dropped before it counts as complete, as everywhere.
            Some(JobStep::Done(Ok(()))) => {
                *job = None;
                self.progress.completed.store(ticket, Ordering::Release);
                return Outcome::Idle;
            }
            Some(JobStep::Done(result)) => {
                *job = None;
                self.finish(owner, ticket, result);
                return Outcome::Idle;
            }
            Some(JobStep::Park) => Outcome::Parked,
            Some(JobStep::Again) => Outcome::Runnable,
            None => return self.start_panicked(owner, head, ticket, job),
        };
        *head = job.take().map(|job| (ticket, job.into_job()));
        outcome
    }

    #[cold]
    fn start_panicked<F: Fresh<J>>(
        &self,
        owner: &'static J::Owner,
        head: &mut Option<(u64, J)>,
        ticket: u64,
        job: &mut Option<F>,
    ) -> Outcome {
        let (_, job) = match job.take() {
            Some(job) => head.insert((ticket, job.into_job())),
            None => return Outcome::Idle,
        };
        match panicked(owner, job) {
            JobStep::Done(result) => {
                *head = None;
                self.finish(owner, ticket, result);
                Outcome::Idle
            }
            JobStep::Park => Outcome::Parked,
            JobStep::Again => Outcome::Runnable,
        }
    }

    /// Runs jobs, up to `budget` pieces of work.
    pub(crate) fn poll(&self, owner: &'static J::Owner, budget: u32) -> Outcome {
        loop {
            let Some(mut head) = self.try_head() else { return Outcome::Busy };
            let outcome = head.with(|head| self.run(owner, head, budget));
            drop(head);
            self.notify();
            // If there is more to run anyway, the next poll handles the reason for the note. (The
            // housekeeper leaves a note at every tick.)
            if outcome == Outcome::Runnable || !self.kick.load(Ordering::Acquire) {
                return outcome;
            }
        }
    }

    /// Takes the lock, or leaves a note for its holder and returns `None`.
    fn try_head(&self) -> Option<ascend_sync::TryLockGuard<'_, Option<(u64, J)>>> {
        let head = self.head.try_take().or_else(|| {
            self.kick.store(true, Ordering::Release);
            self.head.try_take()
        })?;
        if self.kick.load(Ordering::Acquire) {
            self.kick.store(false, Ordering::Relaxed);
        }
        Some(head)
    }

    fn run(
        &self,
        owner: &'static J::Owner,
        head: &mut Option<(u64, J)>,
        mut budget: u32,
    ) -> Outcome {
        loop {
            // Checked first, because the queue may be released as soon as no job has begun.
            let held = head.is_none() && self.is_held();
            if head.is_none() {
                *head = self.next(&mut self.queue.lock());
            }
            let Some((ticket, job)) = head else {
                let holds = (held || self.is_held()) && !self.is_idle();
                return if holds { Outcome::Parked } else { Outcome::Idle };
            };
            let voided = self.is_void(*ticket);
            let step = guarded(|| if voided { job.give_up(owner) } else { job.poll(owner) });
            match step.unwrap_or_else(|| panicked(owner, job)) {
                JobStep::Done(result) => {
                    let ticket = *ticket;
                    *head = None;
                    self.finish(owner, ticket, result);
                }
                JobStep::Park => {
                    // A waiter has armed at most an earlier head. If this one stayed unarmed, only
                    // the housekeeper would poll it again.
                    let happened = self.armed.load(Ordering::Acquire) > 0 && job.arm(owner);
                    return if happened { Outcome::Runnable } else { Outcome::Parked };
                }
                JobStep::Again => {}
            }
            budget = budget.saturating_sub(1);
            if budget == 0 {
                return if self.is_idle() { Outcome::Idle } else { Outcome::Runnable };
            }
        }
    }

    #[inline]
    fn finish(&self, owner: &'static J::Owner, ticket: u64, result: Result<(), J::Failure>) {
        if let Err(failure) = result {
            // The failure is noted before it is counted, so that a thread that sees the count can
            // get the failure.
            J::failed(owner, ticket, failure);
            let failed = self.progress.failed.load(Ordering::Relaxed);
            self.progress.failed.store(failed + 1, Ordering::Release);
        }
        self.progress.completed.store(ticket, Ordering::Release);
    }

    /// Wakes the waiters whose ticket is complete. Called without the lock.
    #[inline]
    fn notify(&self) {
        if self.armed.load(Ordering::Acquire) != 0 {
            self.notify_slowly();
        }
    }

    #[cold]
    fn notify_slowly(&self) {
        // Waiters are taken one at a time, so that no list is built and no waiter is woken with the
        // lock held.
        while let Some(waiter) = self.take_due() {
            match waiter {
                QueueWaiter::Thread(thread) => thread.unpark(),
                QueueWaiter::Queue(owner) => J::wake(owner),
            }
        }
    }

    fn take_due(&self) -> Option<QueueWaiter<J::Owner>> {
        let mut waiters = lock(&self.waiters);
        let completed = self.completed();
        let due = waiters.iter().position(|w| w.ticket <= completed)?;
        let registered = waiters.swap_remove(due);
        self.armed.store(waiters.len() as u32, Ordering::Release);
        Some(registered.waiter)
    }

    /// Registers a waiter for `ticket`, then polls and arms the head. A thread that gets
    /// [`Readiness::Sleep`] may park. If the thread then goes on before the completion, it must
    /// call [`TaskQueue::forget_thread`].
    pub(crate) fn register(
        &self,
        owner: &'static J::Owner,
        ticket: u64,
        waiter: QueueWaiter<J::Owner>,
    ) -> Readiness {
        {
            let mut waiters = lock(&self.waiters);
            if !waiters.iter().any(|w| w.ticket == ticket && w.waiter.is(&waiter)) {
                waiters.push(RegisteredWaiter { ticket, waiter });
                self.armed.store(waiters.len() as u32, Ordering::Release);
            }
        }
        self.arm(owner, ticket)
    }

    /// Tries to take the lock. With the lock held, polls at most one job, which is armed if it
    /// parks. Returns [`Readiness::Retry`] if the caller must not sleep yet.
    fn arm(&self, owner: &'static J::Owner, ticket: u64) -> Readiness {
        let Some(mut head) = self.try_head() else { return Readiness::Retry };
        let outcome = head.with(|head| self.run(owner, head, 1));
        drop(head);
        self.notify();
        if self.completed() >= ticket {
            Readiness::Done
        } else if self.kick.load(Ordering::Acquire) {
            Readiness::Retry
        } else {
            match outcome {
                Outcome::Parked | Outcome::Idle => Readiness::Sleep,
                Outcome::Runnable | Outcome::Busy => Readiness::Retry,
            }
        }
    }

    /// Removes a thread from the waiters.
    pub(crate) fn forget_thread(&self, thread: &Thread) {
        let mut waiters = lock(&self.waiters);
        waiters.retain(|w| !matches!(&w.waiter, QueueWaiter::Thread(t) if t.id() == thread.id()));
        self.armed.store(waiters.len() as u32, Ordering::Release);
    }

    /// Wakes every sleeping thread, whatever its ticket, because there is work that it could help
    /// with. Returns whether a thread was registered.
    pub(crate) fn unpark_threads(&self) -> bool {
        if self.armed.load(Ordering::Acquire) == 0 {
            return false;
        }
        let waiters = lock(&self.waiters);
        let mut any = false;
        for registered in waiters.iter() {
            if let QueueWaiter::Thread(thread) = &registered.waiter {
                thread.unpark();
                any = true;
            }
        }
        any
    }

    /// Makes all jobs submitted so far give up instead of running. Returns the last voided ticket.
    pub(crate) fn void_all(&self) -> u64 {
        let _order = self.queue.lock();
        let last = self.progress.submitted.load(Ordering::Relaxed);
        self.void_until(last);
        last
    }

    /// Returns whether the job with this ticket must give up.
    pub(crate) fn is_void(&self, ticket: u64) -> bool {
        ticket <= self.void.load(Ordering::Acquire)
    }

    /// Makes jobs with tickets up to this ticket give up instead of running, from the next poll on.
    pub(crate) fn void_until(&self, ticket: u64) {
        self.void.fetch_max(ticket, Ordering::AcqRel);
    }

    /// Returns the ticket of the newest job after the head for which `is_such` is true.
    pub(crate) fn newest_waiting(&self, is_such: impl Fn(&J) -> bool) -> Option<u64> {
        let queue = self.queue.lock();
        queue.iter().rev().find(|(_, job)| is_such(job)).map(|(ticket, _)| *ticket)
    }

    /// Returns whether there is a job after the head for which `is_such` is true.
    pub(crate) fn has_waiting(&self, is_such: impl Fn(&J) -> bool) -> bool {
        self.queue.lock().iter().any(|(_, job)| is_such(job))
    }

    /// Calls `look` with the head, which has begun. Returns `None` if another thread has the lock,
    /// or if there is no head.
    pub(crate) fn with_head<R>(
        &self,
        owner: &'static J::Owner,
        look: impl FnOnce(u64, &mut J) -> R,
    ) -> Option<R> {
        let mut head = self.try_head()?;
        let seen = head.with(|head| head.as_mut().map(|(ticket, job)| look(*ticket, job)));
        drop(head);
        if self.kick.load(Ordering::Acquire) {
            self.poll(owner, 1);
        }
        seen
    }
}
