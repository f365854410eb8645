//! What is being made by a helper thread, because making it waits for other ranks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::order::awaiting::{self, PolledHere};
use crate::order::helper::Helper;
use crate::order::patience::Patience;
use crate::order::work::Work;
use crate::sync::lock;

/// Something that has been asked for and waits for other ranks: a future of it.
///
/// It was begun by the call that returned this, in the program's order, and goes on whether anybody
/// watches or not. `.await` it, or [`wait`](Self::wait) for it; both may be done on any thread. Dropping
/// it detaches: what has been made then is dropped at once, so a communicator is destroyed again and its
/// peers are told that this rank is gone.
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
#[must_use = "what is made is dropped with this"]
pub struct Pending<T>(PendingSource<T>);

enum PendingSource<T> {
    /// A helper thread makes it.
    Helper(Arc<PendingShared<T>>),
    /// It is there when this operation is complete.
    Behind(Work, Option<T>),
}

struct PendingShared<T> {
    state: Mutex<PendingState<T>>,
    changed: Condvar,
}

struct PendingState<T> {
    outcome: Option<Result<T>>,
    /// Of the task that awaits it, and which thread has polled that last.
    waker: Option<(Waker, PolledHere)>,
    /// Whether the [`Pending`] is gone.
    detached: bool,
}

impl<T> Unpin for Pending<T> {}

/// How long a thread waits before it looks whether something else has ended its wait.
const LOOK_UP: Duration = Duration::from_millis(100);

impl<T: Send + 'static> Pending<T> {
    /// Begins `make` on a thread of the helper, after what was begun before.
    pub(crate) fn begin(
        helper: &Arc<Helper>,
        make: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Self {
        let job = match helper.reserve() {
            Ok(job) => job,
            Err(error) => return Self::ready(Err(error)),
        };
        let shared = PendingShared::new(None);
        let mut maker = Maker { shared: shared.clone(), told: false };
        job.push(Arc::as_ptr(&shared).addr() as u64, move |open| {
            let outcome = make();
            drop(open);
            maker.tell(outcome);
        });
        Pending(PendingSource::Helper(shared))
    }
}

impl<T> Pending<T> {
    /// What is there already.
    pub(crate) fn ready(outcome: Result<T>) -> Self {
        Pending(PendingSource::Helper(PendingShared::new(Some(outcome))))
    }

    /// `value`, when an operation is complete.
    pub(crate) fn behind(work: Result<Work>, value: T) -> Self {
        match work {
            Ok(work) => Pending(PendingSource::Behind(work, Some(value))),
            Err(error) => Self::ready(Err(error)),
        }
    }

    /// Waits for it. Blocks until the other ranks have come or the connection time-out of the backend has
    /// passed (120 s unless `HCCL_CONNECT_TIMEOUT` says otherwise); not to be called by a task of an
    /// executor, which others need.
    ///
    /// # Errors
    ///
    /// Those of what is made.
    pub fn wait(mut self) -> Result<T> {
        match &mut self.0 {
            PendingSource::Helper(shared) => loop {
                if let Some(outcome) = shared.wait(Duration::MAX) {
                    return outcome;
                }
            },
            PendingSource::Behind(work, value) => {
                work.wait().and_then(|()| value.take().ok_or_else(taken))
            }
        }
    }

    /// As [`wait`](Self::wait), for at most `limit`: then it comes back, and what it waits for goes on.
    ///
    /// # Errors
    ///
    /// The pending itself, when the time has passed.
    pub fn wait_timeout(mut self, limit: Duration) -> Result<Result<T>, Self> {
        let outcome = match &mut self.0 {
            PendingSource::Helper(shared) => shared.wait(limit),
            PendingSource::Behind(work, value) => match work.wait_timeout(limit) {
                Err(error) if error.is_timeout() && !work.is_done() => None,
                outcome => Some(outcome.and_then(|()| value.take().ok_or_else(taken))),
            },
        };
        outcome.ok_or(self)
    }

    /// Whether it has been made, or has failed. Does not block.
    pub fn is_done(&self) -> bool {
        match &self.0 {
            PendingSource::Helper(shared) => lock(&shared.state).outcome.is_some(),
            PendingSource::Behind(work, _) => work.is_done(),
        }
    }
}

/// A future is not polled again when it is ready.
#[cold]
fn taken() -> Error {
    let problem = "it has been taken already".into();
    Error::Invalid { operation: "await", problem }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            PendingSource::Helper(shared) => shared.poll(cx.waker()),
            PendingSource::Behind(work, value) => Pin::new(work)
                .poll(cx)
                .map(|outcome| outcome.and_then(|()| value.take().ok_or_else(taken))),
        }
    }
}

impl<T> PendingShared<T> {
    fn new(outcome: Option<Result<T>>) -> Arc<Self> {
        let state = Mutex::new(PendingState { outcome, waker: None, detached: false });
        Arc::new(PendingShared { state, changed: Condvar::new() })
    }

    /// `None` when the time has passed.
    fn wait(&self, limit: Duration) -> Option<Result<T>> {
        if lock(&self.state).outcome.is_none() {
            awaiting::blocks("Pending::wait");
        }
        let patience = Patience::new(limit);
        let mut state = lock(&self.state);
        loop {
            if let Some(outcome) = state.outcome.take() {
                return Some(outcome);
            }
            if let Some(error) = patience.failure() {
                return Some(Err(error));
            }
            let left = patience.left();
            if left.is_zero() {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left.min(LOOK_UP));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<T>> {
        let mut state = lock(&self.state);
        if let Some(outcome) = state.outcome.take() {
            return Poll::Ready(outcome);
        }
        let old = state.waker.replace((waker.clone(), PolledHere::new()));
        // Without the lock: it may be code of others.
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
        if let PendingSource::Helper(shared) = &self.0 {
            shared.detach();
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// The other end of a [`Pending`].
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
        if let Some((waker, _)) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Maker<T> {
    /// When making it has panicked, whoever waits is told.
    fn drop(&mut self) {
        if !self.told {
            let problem = "it has panicked".into();
            self.tell(Err(Error::Invalid { operation: "what a helper thread makes", problem }));
        }
    }
}
