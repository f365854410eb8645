//! Loom models of the protocol in `queue`. Loom explores every interleaving. The models check that
//! no waiter sleeps for ever, that `completed` only grows, and that jobs finish in the order of
//! their tickets.
//!
//! Run them by `RUSTFLAGS="--cfg loom" cargo test -p ascend-emulator --release loom`.

use super::*;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool as Flag, AtomicU64 as Number};
use loom::thread;

/// A stream whose jobs note the order in which they finished.
struct QueueModel {
    queue: TaskQueue<Probe>,
    /// The ticket that finished last.
    last: Number,
}

enum Probe {
    Small,
    /// Done when the signal is given. It requests a wake-up when it is armed.
    Signal(Arc<GivenSignal>),
    /// Done when another queue has completed a ticket.
    Other(&'static QueueModel, u64),
}

/// A model of a task of another module (a meeting, an event): a flag, and the queue to wake.
struct GivenSignal {
    given: Flag,
    armed: Mutex<Option<&'static QueueModel>>,
}

impl GivenSignal {
    fn new() -> Arc<GivenSignal> {
        Arc::new(GivenSignal { given: Flag::new(false), armed: Mutex::new(None) })
    }

    fn give(&self) {
        let armed = {
            let mut armed = lock(&self.armed);
            self.given.store(true, Ordering::Release);
            armed.take()
        };
        if let Some(model) = armed {
            Probe::wake(model);
        }
    }
}

impl Job for Probe {
    type Owner = QueueModel;
    type Failure = ();

    fn poll(&mut self, _: &'static QueueModel) -> JobStep<()> {
        let done = match self {
            Probe::Small => true,
            Probe::Signal(signal) => signal.given.load(Ordering::Acquire),
            Probe::Other(model, ticket) => model.queue.completed() >= *ticket,
        };
        if done { JobStep::Done(Ok(())) } else { JobStep::Park }
    }

    fn arm(&mut self, owner: &'static QueueModel) -> bool {
        match self {
            Probe::Signal(signal) => {
                let mut armed = lock(&signal.armed);
                *armed = Some(owner);
                signal.given.load(Ordering::Acquire)
            }
            Probe::Small | Probe::Other(..) => false,
        }
    }

    fn give_up(&mut self, _: &'static QueueModel) -> JobStep<()> {
        JobStep::Done(Err(()))
    }

    fn panicked(&mut self, _: &'static QueueModel) -> JobStep<()> {
        JobStep::Done(Err(()))
    }

    fn failed(_: &'static QueueModel, _: u64, (): ()) {}

    fn wake(owner: &'static QueueModel) {
        owner.queue.poll(owner, 4);
    }
}

/// The owner of a stream of a model. It frees the stream when it is dropped, because loom needs
/// every object of a run to be dropped in that run.
struct Owned(*mut QueueModel);

impl Owned {
    fn new() -> Owned {
        Owned(Box::into_raw(Box::new(QueueModel { queue: TaskQueue::new(), last: Number::new(0) })))
    }

    fn get(&self) -> &'static QueueModel {
        // SAFETY: freed only when the owner is dropped, after all threads of the model were joined.
        unsafe { &*self.0 }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`, and no longer used.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl QueueModel {
    /// Sleeps as `executor::block` does, without its spinning, yielding and naps.
    fn wait(&'static self, ticket: u64) {
        let me = loom::thread::current();
        while self.queue.completed() < ticket {
            let readiness = self.queue.register(self, ticket, QueueWaiter::Thread(me.clone()));
            if readiness == Readiness::Sleep {
                loom::thread::park();
            }
            self.queue.forget_thread(&me);
            if readiness == Readiness::Retry {
                loom::thread::yield_now();
            }
        }
        let seen = self.last.fetch_max(ticket, Ordering::AcqRel);
        assert!(self.queue.completed() >= seen.max(ticket), "completed went back");
    }

    fn submit(&'static self, job: Probe) -> u64 {
        self.queue.submit(self, &mut Some(job)).map(|(ticket, _)| ticket).unwrap()
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn loom_a_sleeper_is_woken_when_the_signal_comes() {
    check(|| {
        let owned = Owned::new();
        let model = owned.get();
        let signal = GivenSignal::new();
        let ticket = model.submit(Probe::Signal(signal.clone()));
        let giver = thread::spawn(move || signal.give());
        model.wait(ticket);
        giver.join().unwrap();
        assert!(model.queue.is_idle());
    });
}

#[test]
fn loom_two_submitters_and_a_sleeper() {
    check(|| {
        let owned = Owned::new();
        let model = owned.get();
        let submitter = thread::spawn(move || model.submit(Probe::Small));
        let ticket = model.submit(Probe::Small);
        model.wait(ticket);
        let theirs = submitter.join().unwrap();
        assert_ne!(ticket, theirs);
        model.wait(2);
        assert!(model.queue.is_idle());
    });
}

/// A submitter that finds the lock taken does not wait, so the holder checks again when it is done.
#[test]
fn loom_two_submitters_and_nobody_waits() {
    check(|| {
        let owned = Owned::new();
        let model = owned.get();
        let submit = move || {
            let (_, mut outcome) = model.queue.submit(model, &mut Some(Probe::Small)).unwrap();
            // A worker runs the work that the budget of a submitter leaves.
            while matches!(outcome, Outcome::Runnable) {
                outcome = model.queue.poll(model, 4);
            }
        };
        let other = thread::spawn(move || {
            submit();
            submit();
        });
        submit();
        other.join().unwrap();
        assert!(model.queue.is_idle(), "a small job was left behind");
    });
}

#[test]
fn loom_what_is_submitted_behind_a_parked_job_is_not_forgotten() {
    check(|| {
        let owned = Owned::new();
        let model = owned.get();
        let signal = GivenSignal::new();
        model.submit(Probe::Signal(signal.clone()));
        let giver = thread::spawn(move || signal.give());
        let ticket = model.submit(Probe::Small);
        model.wait(ticket);
        giver.join().unwrap();
        assert_eq!(model.queue.completed(), 2);
    });
}

#[test]
fn loom_two_sleepers_with_different_tickets() {
    check(|| {
        let owned = Owned::new();
        let model = owned.get();
        let signal = GivenSignal::new();
        model.submit(Probe::Signal(signal.clone()));
        model.submit(Probe::Small);
        let other = thread::spawn(move || model.wait(1));
        signal.give();
        model.wait(2);
        other.join().unwrap();
    });
}

#[test]
fn loom_a_lane_that_waits_for_another_is_woken() {
    check(|| {
        let (a, b) = (Owned::new(), Owned::new());
        let (first, second) = (a.get(), b.get());
        let signal = GivenSignal::new();
        let upstream = first.submit(Probe::Signal(signal.clone()));
        let ticket = second.submit(Probe::Other(first, upstream));
        let giver = thread::spawn(move || signal.give());
        // As `executor::arm_upstream` does: the sleeper registers its own queue, then that queue
        // with the next one.
        let me = loom::thread::current();
        while second.queue.completed() < ticket {
            let mut readiness =
                second.queue.register(second, ticket, QueueWaiter::Thread(me.clone()));
            if readiness == Readiness::Sleep {
                readiness = match first.queue.register(first, upstream, QueueWaiter::Queue(second))
                {
                    Readiness::Sleep => Readiness::Sleep,
                    _ => Readiness::Retry,
                };
            }
            if readiness == Readiness::Sleep {
                loom::thread::park();
            }
            second.queue.forget_thread(&me);
            if readiness == Readiness::Retry {
                loom::thread::yield_now();
            }
            second.queue.poll(second, 4);
        }
        giver.join().unwrap();
        assert!(first.queue.is_idle() && second.queue.is_idle());
    });
}

#[test]
fn loom_voided_jobs_give_up_and_later_ones_run() {
    check(|| {
        let owned = Owned::new();
        let model = owned.get();
        model.submit(Probe::Signal(GivenSignal::new()));
        let aborter = thread::spawn(move || {
            let last = model.queue.void_all();
            model.queue.poll(model, 4);
            model.wait(last);
        });
        let ticket = model.submit(Probe::Small);
        aborter.join().unwrap();
        model.wait(ticket);
        assert!(model.queue.progress.failed.load(Ordering::Acquire) >= 1);
    });
}
