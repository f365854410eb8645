//! Helper threads of a device. They make calls that would block the caller, in the order in which
//! the jobs were pushed.
//!
//! Calls of CANN that wait for other ranks block their thread: the calls that make communicators,
//! and the first operation that needs a link. A caller that must not block gives such a call to a
//! [`Helper`].
//!
//! # Order
//!
//! Jobs begin in the order in which they were [pushed](OpenJob::push), and each job ends before the
//! next one begins. CANN requires this order on a device. But a job waits for other ranks, and
//! these may have pushed the same jobs in another order. Then each device would wait for a job that
//! is still queued on the other device.
//!
//! So the order is not kept for ever. When the newest job has run for [`PATIENCE`], the next job
//! whose *keys* are free begins beside it. Each further job that runs beside other jobs halves that
//! time, down to [`LEAST_PATIENCE`], because the order is lost already. So if two devices have `n`
//! jobs in opposite orders, all of them begin within one second plus `n` times the least patience.
//! Jobs that share a key, for example because they use the same communicator, always keep their
//! order.
//!
//! # Threads
//!
//! A thread runs while there are jobs, and a little longer. As long as jobs are reserved or queued,
//! there is one thread more than there are running jobs.

#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::issue_order::PATIENCE;
use super::patience::Patience;
use crate::api::entries::ThreadWaits;
use crate::error::{Error, Result};
use crate::sync::{contain, lock};

/// The time for which a thread stays alive when there is nothing to do.
const IDLE: Duration = Duration::from_millis(20);
/// The shortest time for which the next job stays queued while other jobs run.
const LEAST_PATIENCE: Duration = Duration::from_millis(10);
/// The longest time for which a thread that waits for a helper blocks before it checks its wait.
const LOOK_UP: Duration = Duration::from_millis(100);

/// The helper threads of a device; see the [module](self).
pub(crate) struct Helper {
    /// The name of its threads.
    name: String,
    /// The handle that reports to the backend the threads that wait for the helper, and the
    /// helper's own waits.
    waits: ThreadWaits,
    /// The number of [`OpenJob`]s. Each job that is reserved or queued has one, and so has each
    /// running job that has not dropped it.
    open: AtomicUsize,
    state: Mutex<HelperState>,
    changed: Condvar,
}

#[derive(Default)]
struct HelperState {
    /// The number of jobs that are reserved but not queued yet.
    reserved: usize,
    line: VecDeque<Job>,
    /// The keys of the running jobs, and the times at which they began. The newest job is the last.
    running: Vec<(Keys, Instant)>,
    threads: usize,
}

type Keys = SmallVec<[u64; 2]>;

struct Job {
    keys: Keys,
    open: OpenJob,
    run: Box<dyn FnOnce(OpenJob) + Send>,
}

/// A guard that keeps a job open until it is dropped. A job may drop it before it ends, if threads
/// that [wait](Helper::drain) for the helper need not wait for the rest of the job. From the
/// reservation of a job until it begins, there is a thread for it.
pub(crate) struct OpenJob {
    helper: Arc<Helper>,
    is_reserved: bool,
}

impl Helper {
    pub(crate) fn new(name: String, waits: ThreadWaits) -> Arc<Self> {
        let (open, state) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Helper { name, waits, open, state, changed: Condvar::new() })
    }

    /// Returns the handle that reports to the backend the threads that wait for this helper.
    pub(crate) fn waits(&self) -> ThreadWaits {
        self.waits
    }

    /// Returns whether no job is open. If so, the effects of all jobs so far are visible to the
    /// calling thread.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Acquire) == 0
    }

    /// Reserves a job for an operation, and makes sure that there will be a thread for it. Does not
    /// block.
    pub(crate) fn reserve(self: &Arc<Self>, operation: &'static str) -> Result<OpenJob> {
        let mut state = lock(&self.state);
        self.open.fetch_add(1, Release);
        state.reserved += 1;
        let open = OpenJob { helper: self.clone(), is_reserved: true };
        let started = match state.threads == state.running.len() {
            true => self.start_thread(&mut state, operation),
            false => Ok(()),
        };
        // Released here, because dropping `open` takes the lock.
        drop(state);
        started.map(|()| open)
    }

    /// Blocks until no job is open. Returns false if `limit` passed first, and an error if the
    /// watch of the calling thread ended the wait.
    pub(crate) fn drain(&self, limit: Duration) -> Result<bool> {
        let patience = Patience::new(limit);
        let waits = self.waits.begin(limit);
        let mut state = lock(&self.state);
        while !self.is_idle() {
            if let Some(error) = patience.failure() {
                return Err(error);
            }
            let left = patience.left();
            if left.is_zero() {
                return Ok(false);
            }
            waits.look();
            state = self.wait(state, left.min(LOOK_UP));
        }
        Ok(true)
    }

    fn wait<'a>(
        &self,
        state: std::sync::MutexGuard<'a, HelperState>,
        limit: Duration,
    ) -> std::sync::MutexGuard<'a, HelperState> {
        let waited = self.changed.wait_timeout(state, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn start_thread(
        self: &Arc<Self>,
        state: &mut HelperState,
        operation: &'static str,
    ) -> Result<()> {
        let helper = self.clone();
        let builder = std::thread::Builder::new().name(self.name.clone());
        builder.spawn(move || helper.serve()).map_err(|error| Error::Invalid {
            operation,
            problem: format!(
                "cannot start a thread to wait for other ranks: {error}; stop other threads, or \
                 raise the limit of threads"
            )
            .into(),
        })?;
        state.threads += 1;
        Ok(())
    }

    fn serve(self: Arc<Self>) {
        while let Some(Job { keys, open, run }) = self.next() {
            contain(|| run(open));
            lock(&self.state).running.retain(|(running, _)| *running != keys);
            self.changed.notify_all();
        }
    }

    /// Waits for the next job, counts it as running and returns it. Returns `None` when the thread
    /// is not needed any more.
    fn next(self: &Arc<Self>) -> Option<Job> {
        let mut state = lock(&self.state);
        let mut idle_since = Instant::now();
        let waits = self.waits.begin(Duration::MAX);
        loop {
            if let Some(job) = state.take_next() {
                state.running.push((job.keys.clone(), Instant::now()));
                let any_later = state.reserved > 0 || !state.line.is_empty();
                if any_later && state.threads == state.running.len() {
                    // If no thread can be started, the queued jobs wait for this thread.
                    drop(self.start_thread(&mut state, "in line"));
                }
                return Some(job);
            }
            // The last idle thread stays while a job is reserved or queued.
            let needed = !self.is_idle() && state.threads == state.running.len() + 1;
            if needed {
                idle_since = Instant::now();
            } else if idle_since.elapsed() >= IDLE {
                state.threads -= 1;
                return None;
            }
            if state.line.is_empty() || state.waits_for_keys() {
                waits.look();
                state = self.wait(state, IDLE);
            } else {
                // The next job begins when the patience is over, without help of another thread.
                // So this does not count as a wait.
                waits.pause();
                let limit = state.patience_left();
                state = self.wait(state, limit);
            }
        }
    }
}

impl HelperState {
    /// Returns how long the newest job may keep the next job queued.
    fn patience(&self) -> Duration {
        let beside = u32::try_from(self.running.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let divisor = 1u32.checked_shl(beside).unwrap_or(u32::MAX);
        (PATIENCE / divisor).max(LEAST_PATIENCE)
    }

    fn patience_left(&self) -> Duration {
        let patience = self.patience();
        let since = self.running.last().map_or(patience, |(_, since)| since.elapsed());
        patience.saturating_sub(since).max(Duration::from_millis(1))
    }

    /// Returns whether the patience is over and every queued job waits for a running job that
    /// shares a key with it.
    fn waits_for_keys(&self) -> bool {
        let is_over =
            self.running.last().is_some_and(|(_, since)| since.elapsed() >= self.patience());
        is_over && self.line.iter().all(|job| self.running.iter().any(|(keys, _)| job.shares(keys)))
    }

    /// Takes the first queued job that may begin.
    fn take_next(&mut self) -> Option<Job> {
        match self.running.last() {
            None => self.line.pop_front(),
            Some((_, since)) if since.elapsed() < self.patience() => None,
            Some(_) => {
                let running = self.running.iter().flat_map(|(keys, _)| keys);
                let mut taken: Vec<u64> = running.copied().collect();
                let free = self.line.iter().position(|job| {
                    let free = !job.shares(&taken);
                    taken.extend_from_slice(&job.keys);
                    free
                });
                self.line.remove(free?)
            }
        }
    }
}

impl Job {
    fn shares(&self, keys: &[u64]) -> bool {
        self.keys.iter().any(|key| keys.contains(key))
    }
}

impl OpenJob {
    /// Queues the job. Jobs that share a key never run at the same time, and they keep their order.
    pub(crate) fn push(
        mut self,
        keys: impl IntoIterator<Item = u64>,
        run: impl FnOnce(OpenJob) + Send + 'static,
    ) {
        let (helper, keys) = (self.helper.clone(), keys.into_iter().collect());
        self.is_reserved = false;
        let mut state = lock(&helper.state);
        state.reserved -= 1;
        state.line.push_back(Job { keys, open: self, run: Box::new(run) });
        drop(state);
        helper.changed.notify_all();
    }
}

impl Drop for OpenJob {
    fn drop(&mut self) {
        let mut state = lock(&self.helper.state);
        state.reserved -= usize::from(self.is_reserved);
        self.helper.open.fetch_sub(1, Release);
        drop(state);
        self.helper.changed.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);

    /// A helper that waits for its threads when it is dropped. Miri would report them as leaked.
    struct TestHelper(Arc<Helper>);

    impl std::ops::Deref for TestHelper {
        type Target = Arc<Helper>;

        fn deref(&self) -> &Arc<Helper> {
            &self.0
        }
    }

    impl Drop for TestHelper {
        fn drop(&mut self) {
            while lock(&self.0.state).threads != 0 || Arc::strong_count(&self.0) != 1 {
                std::thread::yield_now();
            }
        }
    }

    fn helper() -> TestHelper {
        TestHelper(Helper::new("helper".into(), ThreadWaits::default()))
    }

    #[test]
    fn jobs_run_one_after_the_other_in_their_order() {
        let (helper, said) = (helper(), Arc::new(Mutex::new(Vec::new())));
        for number in 0..20 {
            let said = said.clone();
            helper
                .reserve("test")
                .unwrap()
                .push([number % 3], move |_open| lock(&said).push(number));
        }
        assert!(helper.drain(LONG).unwrap() && helper.is_idle());
        assert_eq!(*lock(&said), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_gets_what_it_waits_for_from_a_later_one_of_another_key() {
        let helper = helper();
        let (tell, told) = mpsc::channel();
        helper.reserve("test").unwrap().push([1], move |_open| told.recv().unwrap());
        // This job always runs after the first one, because they share a key.
        let (last, ended) = mpsc::channel();
        helper.reserve("test").unwrap().push([1], move |_open| last.send("of key 1").unwrap());
        helper.reserve("test").unwrap().push([2], move |_open| tell.send(()).unwrap());
        assert_eq!(ended.recv_timeout(LONG), Ok("of key 1"));
        assert!(helper.drain(LONG).unwrap());
    }

    #[test]
    fn a_job_that_was_reserved_before_the_one_in_front_of_it_began_has_a_thread() {
        let helper = helper();
        let [first, second] = [(); 2].map(|()| helper.reserve("test").unwrap());
        let ((begin, begun), (tell, told)) = (mpsc::channel(), mpsc::channel());
        let (end, ended) = mpsc::channel();
        first.push([1], move |_open| {
            begin.send(()).unwrap();
            end.send(told.recv_timeout(LONG)).unwrap();
        });
        begun.recv().unwrap();
        second.push([2], move |_open| tell.send(()).unwrap());
        assert_eq!(ended.recv().unwrap(), Ok(()), "the second job runs beside the first");
        assert!(helper.drain(LONG).unwrap());
    }

    #[test]
    fn a_job_of_two_keys_keeps_its_order_with_those_of_each() {
        let (helper, said) = (helper(), Arc::new(Mutex::new(Vec::new())));
        let (tell, told) = mpsc::channel();
        helper.reserve("test").unwrap().push([1], move |_open| told.recv().unwrap());
        for (number, keys) in [&[1, 2][..], &[2], &[3]].into_iter().enumerate() {
            let said = said.clone();
            let keys = keys.iter().copied();
            helper.reserve("test").unwrap().push(keys, move |_open| lock(&said).push(number));
        }
        while lock(&said).is_empty() {
            std::thread::yield_now();
        }
        tell.send(()).unwrap();
        assert!(helper.drain(LONG).unwrap());
        assert_eq!(*lock(&said), [2, 0, 1]);
    }

    #[test]
    fn a_job_may_let_others_go_on_before_its_end() {
        let helper = helper();
        let (end, ended) = mpsc::channel::<()>();
        helper.reserve("test").unwrap().push([1], move |open| {
            drop(open);
            let _ = ended.recv();
        });
        assert!(helper.drain(LONG).unwrap());
        drop(end);
    }

    #[test]
    fn a_job_that_panics_or_does_not_come_holds_nobody_up() {
        let helper = helper();
        drop(helper.reserve("test").unwrap());
        helper.reserve("test").unwrap().push([1], |_open| std::panic::resume_unwind(Box::new(())));
        let waits = helper.reserve("test").unwrap();
        assert!(!helper.drain(Duration::from_millis(1)).unwrap(), "one is to come");
        waits.push([1], |_open| {});
        assert!(helper.drain(LONG).unwrap());
    }
}
