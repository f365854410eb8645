//! Host functions: code of the program that runs in stream order, on threads of its own.
//!
//! `aclrtLaunchHostFunc` runs on threads of the runtime, grown on demand, so that one that blocks holds up nobody else.
//! Inside, calls that would block are refused.

use crate::message::{Failure, fail};
use crate::step::{Reason, Step};
use crate::stream::{Stream, Task};
use crate::task::{Effects, TaskBody, gave_up};
use ascend_sync::lock_std;
use ascend_sys::ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};

/// `aclrtHostFunc` and `aclrtCallback`.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

// States of `Stream::host_call`. One host function of a stream runs at a time: it is the stream's head.
pub(crate) const IDLE: u32 = 0;
pub(crate) const RUNNING: u32 = 1;
pub(crate) const RETURNED: u32 = 2;

/// A host function in a stream.
#[derive(Clone)]
pub(crate) struct HostCall {
    function: HostFunction,
    argument: *mut c_void,
}

// SAFETY: the caller of aclrtLaunchHostFunc promised that function and argument can be used on another thread.
unsafe impl Send for HostCall {}

impl HostCall {
    pub(crate) fn new(function: HostFunction, argument: *mut c_void) -> HostCall {
        HostCall { function, argument }
    }
}

impl TaskBody<Stream> for HostCall {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        match stream.host_call.load(Ordering::Acquire) {
            IDLE => {
                stream.host_call.store(RUNNING, Ordering::Relaxed);
                match run_elsewhere(CallbackJob {
                    function: self.function,
                    argument: self.argument,
                    stream: Some(stream),
                }) {
                    Ok(()) => Step::Park,
                    Err(failure) => {
                        stream.host_call.store(IDLE, Ordering::Relaxed);
                        Step::Done(Err(failure))
                    }
                }
            }
            RETURNED => {
                stream.host_call.store(IDLE, Ordering::Relaxed);
                Step::Done(Ok(()))
            }
            _ => Step::Park,
        }
    }

    fn expire(&mut self, stream: &'static Stream, why: &Reason) -> Step {
        // One that has begun is waited for.
        if is_running(stream) { self.poll(stream) } else { gave_up(self.describe(), why) }
    }

    fn again(&self) -> Option<Task> {
        Some(Task::new(self.clone()))
    }

    fn kind(&self) -> &'static str {
        "host function"
    }

    fn effects(&self) -> Effects {
        Effects::RunsOnHost { returns: true }
    }

    fn describe(&self) -> String {
        "host function".into()
    }
}

/// Whether the head of the stream is a host function that has begun.
pub(crate) fn is_running(stream: &Stream) -> bool {
    stream.host_call.load(Ordering::Acquire) != IDLE
}

/// A function to call, and the stream that waits for it; `None`: nobody does.
pub(crate) struct CallbackJob {
    pub(crate) function: HostFunction,
    pub(crate) argument: *mut c_void,
    pub(crate) stream: Option<&'static Stream>,
}

impl CallbackJob {
    /// Calls the function, in which blocking calls are refused, and lets its stream go on.
    pub(crate) fn run(self) {
        INSIDE.set(true);
        // SAFETY: whoever launched the function promised that it may be called once with its argument, on any thread.
        unsafe { (self.function)(self.argument) };
        INSIDE.set(false);
        if let Some(stream) = self.stream {
            stream.host_call.store(RETURNED, Ordering::Release);
            stream.wake();
        }
    }
}

// SAFETY: as for `HostCall`.
unsafe impl Send for CallbackJob {}

struct CallbackPool {
    jobs: VecDeque<CallbackJob>,
    idle: usize,
}

static POOL: Mutex<CallbackPool> = Mutex::new(CallbackPool { jobs: VecDeque::new(), idle: 0 });
static ARRIVED: Condvar = Condvar::new();

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Refuses a call that would block, inside a host function: it would wait for the stream that waits for it.
#[inline]
pub(crate) fn may_block() -> Result<(), Failure> {
    if INSIDE.get() {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "not allowed inside a host function: it may block its own stream"
        );
    }
    Ok(())
}

/// Calls the function on a thread of the runtime.
pub(crate) fn run_elsewhere(job: CallbackJob) -> Result<(), Failure> {
    let mut pool = lock_std(&POOL);
    if pool.idle <= pool.jobs.len() {
        let spawned = std::thread::Builder::new().name("ascend-callback".into()).spawn(serve);
        if let Err(error) = spawned
            && pool.idle == 0
        {
            return fail!(
                ascend_sys::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                "no thread for a host function: {error}"
            );
        }
    }
    pool.jobs.push_back(job);
    drop(pool);
    ARRIVED.notify_one();
    Ok(())
}

fn serve() {
    let mut pool = lock_std(&POOL);
    loop {
        if let Some(job) = pool.jobs.pop_front() {
            drop(pool);
            job.run();
            pool = lock_std(&POOL);
        } else {
            pool.idle += 1;
            pool = ARRIVED.wait(pool).unwrap_or_else(PoisonError::into_inner);
            pool.idle -= 1;
        }
    }
}
