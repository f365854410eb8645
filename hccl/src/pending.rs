//! The futures of objects whose making waits for other ranks. A helper thread makes the object, or
//! the object is available when an operation is complete.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::api::entries::ThreadWaits;
use crate::device::{Device, Stream};
use crate::error::{Error, Result};
use crate::order::awaiting::{self, PolledHere};
use crate::order::patience::{Listening, Patience, Watch, watch_of_this_thread};
use crate::order::work::Work;
use crate::sync::lock;

/// A future of an object, for example a communicator, whose making waits for other ranks.
///
/// The call that returned the `Pending` has begun to make the object. The objects of a device are
/// made in the program's order, even if no thread waits for them. `.await` the `Pending` or block
/// in [`wait`](Self::wait), on any thread.
///
/// If you drop the `Pending`, the object is still made, but it is dropped at once. So a
/// communicator is destroyed again, and its peers are notified that this rank is gone.
///
/// ```
/// use hccl::prelude::*;
///
/// # fn main() -> hccl::Result<()> {
/// let runtime = Runtime::emulator(1)?;
/// let device = runtime.device(0)?;
/// let root = RootInfo::new(&device)?;
/// let making =
///     Communicator::builder().device(&device).rank(0).world_size(1).root_info(&root).build();
/// assert_eq!(making.wait()?.world_size(), 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "the object is made and then dropped unless the `Pending` is awaited"]
pub struct Pending<T>(PendingSource<T>);

enum PendingSource<T> {
    /// A helper thread makes the object, or has made it. The second field is the wait of the task
    /// that awaits the object. This field is `None` before the first poll.
    Helper(Arc<PendingShared<T>>, Option<PendingWait>),
    /// The object is available when an operation is complete.
    Behind(Behind<T>),
}

struct Behind<T> {
    work: Work,
    value: Option<T>,
    /// The name of the function that the program called. The operation has a different name.
    operation: &'static str,
    /// The stream of the operation. A dropped stream logs the errors that the program has not seen,
    /// so the stream is kept as long as the [`Pending`].
    _stream: Stream,
}

/// The wait of a task for the object, with the watch that may end the wait early.
struct PendingWait {
    patience: Patience,
    /// The registration for alarms of the task that polled the `Pending` last.
    listening: Listening,
}

struct PendingShared<T> {
    /// The name of the function that the program called.
    operation: &'static str,
    state: Mutex<PendingState<T>>,
    changed: Condvar,
    /// The handle that reports the waiting threads to the backend.
    waits: ThreadWaits,
    /// The watch that may end the waits of threads that have no watch of their own. It is the watch
    /// of the thread that began to make the object, or else the watch of the device.
    watch: Option<Arc<dyn Watch>>,
}

struct PendingState<T> {
    outcome: Option<Result<T>>,
    /// Whether a caller has taken the outcome.
    is_taken: bool,
    /// The waker of the task that awaits the object, and the guard that counts the future as
    /// pending for the thread that polled it last.
    waker: Option<(Waker, PolledHere)>,
    /// Whether the [`Pending`] was dropped.
    detached: bool,
}

impl<T> Unpin for Pending<T> {}

/// The longest time for which a thread blocks before it checks whether a watch ends its wait.
const LOOK_UP: Duration = Duration::from_millis(100);

impl<T: Send + 'static> Pending<T> {
    /// Begins `make` on a helper thread of the device, after the objects that were begun earlier.
    /// `operation` is the name of the function that the program called.
    pub(crate) fn begin(
        operation: &'static str,
        device: &Device,
        make: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Self {
        let helper = device.making();
        let job = match helper.reserve(operation) {
            Ok(job) => job,
            Err(error) => return Self::ready(Err(error)),
        };
        let watch = watch_of_this_thread().or_else(|| device.watch());
        let shared = PendingShared::new(operation, None, helper.waits(), watch);
        let mut maker = Maker { shared: shared.clone(), told: false };
        job.push([Arc::as_ptr(&shared).addr() as u64], move |open| {
            let outcome = make();
            drop(open);
            maker.tell(outcome);
        });
        Pending(PendingSource::Helper(shared, None))
    }
}

impl<T> Pending<T> {
    /// Returns a `Pending` that is done already.
    pub(crate) fn ready(outcome: Result<T>) -> Self {
        let shared = PendingShared::new("", Some(outcome), ThreadWaits::default(), None);
        Pending(PendingSource::Helper(shared, None))
    }

    /// Returns a `Pending` that gives `value` when an operation on a stream of its own is complete.
    /// `operation` is the name of the function that the program called.
    pub(crate) fn behind(
        operation: &'static str,
        issued: Result<(Stream, Work)>,
        value: T,
    ) -> Self {
        match issued {
            Ok((_stream, work)) => {
                let value = Some(value);
                Pending(PendingSource::Behind(Behind { work, value, operation, _stream }))
            }
            Err(error) => Self::ready(Err(error.called(operation))),
        }
    }

    /// Waits for the object and returns it. Blocks until the other ranks have made their calls, or
    /// until the connection time-out of the backend has passed (120 s unless `HCCL_CONNECT_TIMEOUT`
    /// sets another value). A task of an executor must not call it, because other tasks need its
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns the error with which the making of the object has failed, or the failure of another
    /// rank that ends the wait. Returns [`Error::Invalid`] if an earlier `.await` has returned the
    /// object.
    pub fn wait(mut self) -> Result<T> {
        match &mut self.0 {
            PendingSource::Helper(shared, _) => loop {
                if let Some(outcome) = shared.wait(Duration::MAX) {
                    return outcome;
                }
            },
            PendingSource::Behind(behind) => {
                let outcome = behind.work.wait();
                behind.take(outcome)
            }
        }
    }

    /// Waits as [`wait`](Self::wait) does, but for at most `limit`. If that time passes, the object
    /// is still being made. The inner result is that of [`wait`](Self::wait).
    ///
    /// # Errors
    ///
    /// Returns the `Pending` itself if the time has passed.
    pub fn wait_timeout(mut self, limit: Duration) -> Result<Result<T>, Self> {
        let outcome = match &mut self.0 {
            PendingSource::Helper(shared, _) => shared.wait(limit),
            PendingSource::Behind(behind) => match behind.work.wait_timeout(limit) {
                Err(error) if error.is_timeout() && !behind.work.is_done() => None,
                outcome => Some(behind.take(outcome)),
            },
        };
        outcome.ok_or(self)
    }

    /// Returns whether the object has been made, or its making has failed. Does not block.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            PendingSource::Helper(shared, _) => lock(&shared.state).is_made(),
            PendingSource::Behind(behind) => behind.work.is_done(),
        }
    }
}

/// Returns the error for a `Pending` that is polled or waited for again after it was ready.
#[cold]
fn taken() -> Error {
    let problem =
        "the result was already taken by an earlier await: use the result of that await".into();
    Error::Invalid { operation: "await", problem }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            PendingSource::Helper(shared, wait) => {
                let outcome = shared.poll(cx.waker());
                if outcome.is_ready() {
                    *wait = None;
                    return outcome;
                }
                // Registered before the watch is checked, so that a later alarm wakes the task.
                let listening = Listening::new(cx.waker());
                let wait = match wait {
                    Some(wait) => {
                        wait.listening = listening;
                        wait
                    }
                    None => {
                        let patience = Patience::watched(Duration::MAX, shared.watch.clone());
                        wait.insert(PendingWait { patience, listening })
                    }
                };
                wait.patience.failure().map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
            }
            PendingSource::Behind(behind) => {
                Pin::new(&mut behind.work).poll(cx).map(|outcome| behind.take(outcome))
            }
        }
    }
}

impl<T> Behind<T> {
    /// Returns the value if the operation has succeeded.
    fn take(&mut self, outcome: Result<()>) -> Result<T> {
        match outcome {
            Ok(()) => self.value.take().ok_or_else(taken),
            Err(error) => Err(error.called(self.operation)),
        }
    }
}

impl<T> PendingState<T> {
    fn is_made(&self) -> bool {
        self.outcome.is_some() || self.is_taken
    }

    /// Takes the outcome, if there is one. Returns an error if it was taken before.
    fn take(&mut self) -> Option<Result<T>> {
        if self.is_taken {
            return Some(Err(taken()));
        }
        let outcome = self.outcome.take();
        self.is_taken = outcome.is_some();
        outcome
    }
}

impl<T> PendingShared<T> {
    fn new(
        operation: &'static str,
        outcome: Option<Result<T>>,
        waits: ThreadWaits,
        watch: Option<Arc<dyn Watch>>,
    ) -> Arc<Self> {
        let state = PendingState { outcome, is_taken: false, waker: None, detached: false };
        let state = Mutex::new(state);
        let changed = Condvar::new();
        Arc::new(PendingShared { operation, state, changed, waits, watch })
    }

    /// Waits for the outcome for at most `limit`. Returns `None` if the time has passed, and an
    /// error if a watch has ended the wait.
    fn wait(&self, limit: Duration) -> Option<Result<T>> {
        let (is_made, polled) = {
            let mut state = lock(&self.state);
            (state.is_made(), state.waker.take())
        };
        // The caller owns the `Pending`, so no task polls it during this wait.
        drop(polled);
        let mut blocking = (!is_made).then(|| awaiting::blocks("Pending::wait"));
        let mut patience = Patience::watched(limit, self.watch.clone());
        let waits = self.waits.begin(limit);
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = state.take() {
                return Some(outcome);
            }
            if let Some(error) = patience.failure() {
                return Some(Err(error));
            }
            let left = patience.left();
            if left.is_zero() {
                return None;
            }
            waits.look();
            let waited = self.changed.wait_timeout(state, left.min(LOOK_UP));
            // The lock is released here, because a warning runs a `tracing` subscriber, which is
            // code from outside this crate.
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            if let Some(blocking) = &mut blocking {
                blocking.has_lasted(patience.elapsed());
            }
            if patience.is_long() {
                self.warn(&patience);
            }
            state = lock(&self.state);
        }
    }

    #[cold]
    fn warn(&self, patience: &Patience) {
        let (operation, elapsed) = (self.operation, patience.elapsed());
        tracing::warn!(
            operation,
            "{operation} has waited {elapsed:.0?} for other ranks; if those ranks are tasks that \
             need this thread, await the result instead of calling `wait()`"
        );
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<T>> {
        let mut state = lock(&self.state);
        if let Some(outcome) = state.take() {
            return Poll::Ready(outcome);
        }
        let old = state.waker.replace((waker.clone(), PolledHere::new()));
        // The lock is released first, because dropping a waker may run code from outside this
        // crate.
        drop(state);
        drop(old);
        Poll::Pending
    }

    fn detach(&self) {
        let mut state = lock(&self.state);
        state.detached = true;
        let left = (state.outcome.take(), state.waker.take());
        drop(state);
        drop(left);
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let PendingSource::Helper(shared, _) = &self.0 {
            shared.detach();
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// The helper thread's end of a [`Pending`].
struct Maker<T> {
    shared: Arc<PendingShared<T>>,
    told: bool,
}

impl<T> Maker<T> {
    fn tell(&mut self, outcome: Result<T>) {
        self.told = true;
        let mut state = lock(&self.shared.state);
        if state.detached {
            drop(state);
            drop(outcome);
            return;
        }
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        self.shared.changed.notify_all();
        if let Some((waker, polled)) = waker {
            // Dropped before the wake: the woken task may block its thread, which is no reason for
            // a warning any more.
            drop(polled);
            waker.wake();
        }
    }
}

impl<T> Drop for Maker<T> {
    /// Reports an error to the waiters if the helper panicked before it had made the object.
    fn drop(&mut self) {
        if !self.told {
            let (operation, problem) = (
                self.shared.operation,
                "its helper thread panicked: see the message of the panic".into(),
            );
            self.tell(Err(Error::Invalid { operation, problem }));
        }
    }
}
