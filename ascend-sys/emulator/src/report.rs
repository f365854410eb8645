//! Callbacks that a thread of the program runs: `aclrtSubscribeReport`, `aclrtProcessReport`,
//! `aclrtLaunchCallback`.
//!
//! A thread subscribes to streams and polls. A callback in a subscribed stream goes to the queue of
//! the thread. A blocking callback blocks its stream until it returns.

use crate::callback::{CallbackJob, Caller, HostFunction, run_elsewhere};
use crate::message::{Failure, fail};
use crate::step::{Reason, Step};
use crate::stream::{Stream, Task};
use crate::submit;
use crate::task::{Effects, TaskBody};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_RT_REPORT_TIMEOUT, ACL_ERROR_RT_STREAM_NO_CB_REG, ACL_ERROR_RT_STREAM_SUBSCRIBE,
    ACL_ERROR_STREAM_NOT_SUBSCRIBE, ACL_ERROR_THREAD_NOT_SUBSCRIBE,
};
use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The queue of a thread, and the number of streams that it serves.
#[derive(Default)]
struct Inbox {
    streams: usize,
    jobs: VecDeque<(&'static Stream, CallbackJob)>,
}

static INBOXES: LazyLock<Mutex<HashMap<u64, Inbox>>> = LazyLock::new(Mutex::default);
static ARRIVED: Condvar = Condvar::new();

/// `aclrtSubscribeReport`: makes a thread run the callbacks of a stream.
pub(crate) fn subscribe(thread: u64, stream: &'static Stream) -> Result<(), Failure> {
    let mut inboxes = lock(&INBOXES);
    if thread == 0 || stream.subscriber.load(Ordering::Acquire) != 0 {
        return fail!(
            ACL_ERROR_RT_STREAM_SUBSCRIBE,
            "threadId is 0, or {} has a thread already; pass a thread, or call \
             aclrtUnSubscribeReport first",
            stream.describe()
        );
    }
    inboxes.entry(thread).or_default().streams += 1;
    stream.subscriber.store(thread, Ordering::Release);
    Ok(())
}

/// `aclrtUnSubscribeReport`: ends a subscription. Callbacks that the thread has not run yet run on
/// a thread of the runtime.
pub(crate) fn unsubscribe(thread: u64, stream: &'static Stream) -> Result<(), Failure> {
    end_subscription(thread, stream)?.into_iter().try_for_each(run_elsewhere)
}

/// Ends the subscription of a stream that ends and whose queued tasks give up. Does not wait for
/// the thread. Callbacks that the stream waits for are not called any more, even if the stream has
/// not given them up yet.
pub(crate) fn release(stream: &'static Stream) {
    let thread = stream.subscriber.load(Ordering::Acquire);
    if thread == 0 {
        return;
    }
    // Another thread may have ended the subscription just now.
    let left = end_subscription(thread, stream).unwrap_or_default();
    for job in left.into_iter().filter(|job| job.caller.is_none()) {
        // If no thread can be started, the callback is lost, like its stream.
        let _ = run_elsewhere(job);
    }
}

/// Ends a subscription. Returns the callbacks that the thread has not run yet.
fn end_subscription(thread: u64, stream: &'static Stream) -> Result<Vec<CallbackJob>, Failure> {
    let mut inboxes = lock(&INBOXES);
    if thread == 0 || stream.subscriber.load(Ordering::Acquire) != thread {
        return fail!(
            ACL_ERROR_STREAM_NOT_SUBSCRIBE,
            "{} is not subscribed by thread {thread:#x}; pass the thread of aclrtSubscribeReport",
            stream.describe()
        );
    }
    stream.subscriber.store(0, Ordering::Release);
    let Some(inbox) = inboxes.get_mut(&thread) else { return Ok(Vec::new()) };
    let (own, others) = inbox.jobs.drain(..).partition(|(s, _)| std::ptr::eq(*s, stream));
    inbox.jobs = others;
    inbox.streams -= 1;
    if inbox.streams == 0 {
        inboxes.remove(&thread);
    }
    drop(inboxes);
    ARRIVED.notify_all();
    let own: VecDeque<(&Stream, CallbackJob)> = own;
    Ok(own.into_iter().map(|(_, job)| job).collect())
}

/// `aclrtProcessReport`: waits for a callback for the calling thread, and runs all callbacks that
/// have come.
pub(crate) fn process(limit: Option<Duration>) -> Result<(), Failure> {
    // SAFETY: only returns the number of the calling thread.
    let thread = unsafe { libc::pthread_self() } as u64;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut inboxes = lock(&INBOXES);
    loop {
        let Some(inbox) = inboxes.get_mut(&thread) else {
            return fail!(
                ACL_ERROR_THREAD_NOT_SUBSCRIBE,
                "the calling thread is subscribed to no stream; call aclrtSubscribeReport first"
            );
        };
        // A stream that was aborted has given up the callbacks that no thread has called yet.
        inbox.jobs.retain(|(_, job)| !job.is_given_up());
        if !inbox.jobs.is_empty() {
            let jobs = std::mem::take(&mut inbox.jobs);
            drop(inboxes);
            jobs.into_iter().for_each(|(_, job)| job.run());
            return Ok(());
        }
        let left = deadline
            .map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return fail!(
                ACL_ERROR_RT_REPORT_TIMEOUT,
                "no callback came within {:?}; call this again, or pass a longer timeout",
                limit.unwrap_or_default()
            );
        }
        let waited = ARRIVED.wait_timeout(inboxes, left.min(Duration::from_secs(3600)));
        inboxes = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// `aclrtLaunchCallback`: submits a callback to a stream. If `blocks` is true, the stream waits for
/// its return.
pub(crate) fn launch(
    function: HostFunction,
    argument: *mut c_void,
    blocks: bool,
    stream: &'static Stream,
) -> Result<(), Failure> {
    if stream.subscriber.load(Ordering::Acquire) == 0 {
        return fail!(
            ACL_ERROR_RT_STREAM_NO_CB_REG,
            "no thread is subscribed to {}; call aclrtSubscribeReport first",
            stream.describe()
        );
    }
    submit::submit(stream, "aclrtLaunchCallback", Callback { function, argument, blocks }).map(drop)
}

/// A callback in a stream.
#[derive(Clone)]
pub(crate) struct Callback {
    function: HostFunction,
    argument: *mut c_void,
    blocks: bool,
}

// SAFETY: the caller of aclrtLaunchCallback promised that function and argument can be used on the
// subscribed thread.
unsafe impl Send for Callback {}

impl Callback {
    /// Passes the callback to the thread that is subscribed. `caller` is the stream that waits for
    /// the callback, if one does.
    fn hand_over(&self, stream: &'static Stream, caller: Option<Caller>) -> Result<(), Failure> {
        let mut inboxes = lock(&INBOXES);
        let Some(inbox) = inboxes.get_mut(&stream.subscriber.load(Ordering::Acquire)) else {
            return fail!(
                ACL_ERROR_RT_STREAM_NO_CB_REG,
                "no thread is subscribed to {} any more; call aclrtUnSubscribeReport only after \
                 the callbacks have run",
                stream.describe()
            );
        };
        let Callback { function, argument, .. } = *self;
        inbox.jobs.push_back((stream, CallbackJob { function, argument, caller }));
        drop(inboxes);
        ARRIVED.notify_all();
        Ok(())
    }
}

impl TaskBody<Stream> for Callback {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        match self.blocks {
            true => stream.host_call.poll(stream, |caller| self.hand_over(stream, Some(caller))),
            false => Step::Done(self.hand_over(stream, None)),
        }
    }

    fn expire(&mut self, stream: &'static Stream, why: &Reason) -> Step {
        stream.host_call.expire(self.describe(), why)
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "callback"
    }

    fn effects(&self) -> Effects {
        Effects::RunsOnHost { returns: self.blocks }
    }

    fn describe(&self) -> String {
        "callback for the thread that subscribed".into()
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::machine;
    use crate::stream_end;
    use ascend_sys::ACL_ERROR_RT_STREAM_ABORT;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    unsafe extern "C" fn count(counter: *mut c_void) {
        // SAFETY: the counter is a static.
        unsafe { &*counter.cast::<AtomicU32>() }.fetch_add(1, Ordering::Relaxed);
    }

    #[test]
    fn a_stream_that_ends_while_it_is_polled_calls_no_callback_that_it_waits_for() {
        static CALLED: AtomicU32 = AtomicU32::new(0);
        static ELSEWHERE: AtomicU32 = AtomicU32::new(0);
        let pointer = |counter: &'static AtomicU32| std::ptr::from_ref(counter).cast_mut().cast();
        let stream = Stream::create(1, machine::device_slot(0), 0).unwrap();
        // No thread has this number.
        subscribe(1, stream).unwrap();
        launch(count, pointer(&CALLED), true, stream).unwrap();
        let looked = stream.queue.with_head(stream, |_, _| {
            // Another thread destroys the stream while this one polls it, so the task cannot give
            // up yet.
            let destroy =
                || stream_end::destroy(stream, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
            std::thread::scope(|scope| scope.spawn(destroy).join().unwrap());
            let job = CallbackJob { function: count, argument: pointer(&ELSEWHERE), caller: None };
            run_elsewhere(job).unwrap();
            while ELSEWHERE.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        assert!(looked.is_some());
        assert_eq!(CALLED.load(Ordering::Relaxed), 0);
    }
}
