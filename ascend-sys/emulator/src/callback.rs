//! Host functions: code of the program that runs in stream order.
//!
//! The functions of `aclrtLaunchHostFunc` run on threads of the runtime. New threads are started on
//! demand, so a function that blocks does not delay other functions. Inside a function, calls that
//! would block are refused.

use crate::check::OneHost;
use crate::host_call_state::{HANDED_OVER, HostCallState, IDLE, RETURNED, RUNNING};
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

/// The function type of `aclrtHostFunc` and `aclrtCallback`.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

impl HostCallState {
    /// Polls the host function that is the head of `stream`. `hand_over` gives the function to a
    /// thread.
    pub(crate) fn poll(
        &self,
        stream: &'static Stream,
        hand_over: impl FnOnce(Caller) -> Result<(), Failure>,
    ) -> Step {
        match self.state() {
            IDLE => match hand_over(Caller { stream, number: self.begin() }) {
                Ok(()) => Step::Park,
                Err(failure) => {
                    self.end();
                    Step::Done(Err(failure))
                }
            },
            RETURNED => {
                self.end();
                Step::Done(Ok(()))
            }
            _ => Step::Park,
        }
    }

    /// Gives up the host function that is the head of a stream. A function that was not called yet
    /// is never called. A running function goes on. The stream waits for its return only if a
    /// failure stops the stream.
    pub(crate) fn expire(&self, task: String, why: &Reason) -> Step {
        if matches!(why, Reason::Stopped(_)) && !self.end_unless_running() {
            return Step::Park;
        }
        match self.end() {
            RETURNED => Step::Done(Ok(())),
            _ => gave_up(task, why),
        }
    }
}

/// The stream that waits for a host function, and the number of the call.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    stream: &'static Stream,
    number: u64,
}

impl Caller {
    /// Returns whether the stream still waits for the function, and no thread has called it yet.
    fn waits(self) -> bool {
        self.stream.host_call.0.load(Ordering::Acquire) == self.number | HANDED_OVER
    }

    /// Notes that the calling thread is about to call the function. Returns false if the stream has
    /// given the function up.
    pub(crate) fn begins(self) -> bool {
        self.stream.host_call.advance(self.number, HANDED_OVER, RUNNING)
    }

    /// Notes that the function has returned. The stream goes on, unless it has given the function
    /// up.
    pub(crate) fn returns(self) {
        if self.stream.host_call.advance(self.number, RUNNING, RETURNED) {
            self.stream.wake();
        }
    }
}

/// A host function in a stream.
#[derive(Clone)]
pub(crate) struct HostCall {
    function: HostFunction,
    argument: *mut c_void,
}

// SAFETY: the caller of aclrtLaunchHostFunc promised that function and argument can be used on
// another thread.
unsafe impl Send for HostCall {}

impl HostCall {
    pub(crate) fn new(function: HostFunction, argument: *mut c_void) -> HostCall {
        HostCall { function, argument }
    }
}

impl TaskBody<Stream> for HostCall {
    fn poll(&mut self, stream: &'static Stream) -> Step {
        let HostCall { function, argument } = *self;
        stream.host_call.poll(stream, |caller| {
            run_elsewhere(CallbackJob { function, argument, caller: Some(caller) })
        })
    }

    fn expire(&mut self, stream: &'static Stream, why: &Reason) -> Step {
        stream.host_call.expire(self.describe(), why)
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

/// Returns whether the head of the stream is a host function that was passed to a thread.
pub(crate) fn is_running(stream: &Stream) -> bool {
    stream.host_call.state() != IDLE
}

/// A function to call, and the stream that waits for it; `None` if no stream does.
pub(crate) struct CallbackJob {
    pub(crate) function: HostFunction,
    pub(crate) argument: *mut c_void,
    pub(crate) caller: Option<Caller>,
}

impl CallbackJob {
    /// Returns whether the stream that waited for the function has given it up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.caller.is_some_and(|caller| !caller.waits())
    }

    /// Calls the function, and then lets its stream go on. Blocking calls inside the function are
    /// refused. Does nothing if the stream has given the function up.
    pub(crate) fn run(self) {
        if self.caller.is_some_and(|caller| !caller.begins()) {
            return;
        }
        let before = OneHost::begin();
        INSIDE.set(Inside::HostFunction);
        // SAFETY: the caller of `aclrtLaunchHostFunc` promised that the function may be called once
        // with its argument, on any thread.
        unsafe { (self.function)(self.argument) };
        INSIDE.set(Inside::Nothing);
        drop(before);
        // Orders the later work of the stream after everything that the function has waited for.
        drop(OneHost::begin());
        if let Some(caller) = self.caller {
            caller.returns();
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

/// The kind of the program's code that the calling thread runs for a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inside {
    Nothing,
    HostFunction,
    CpuKernel,
}

thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside::Nothing) };
}

/// Notes that the calling thread runs a CPU kernel until the thread ends.
pub(crate) fn enter_cpu_kernel() {
    INSIDE.set(Inside::CpuKernel);
}

/// Returns an error for a call that would block, inside a host function: the call would wait for
/// the stream that waits for the function. Also returns an error inside a CPU kernel, because the
/// device has none of these functions.
#[inline]
pub(crate) fn may_block() -> Result<(), Failure> {
    match INSIDE.get() {
        Inside::Nothing => Ok(()),
        inside => blocks_itself(inside),
    }
}

/// Does the same as [`may_block`], but succeeds inside a CPU kernel, which may block in a
/// primitive.
#[inline]
pub(crate) fn primitive_may_block() -> Result<(), Failure> {
    if INSIDE.get() == Inside::CpuKernel { Ok(()) } else { may_block() }
}

#[cold]
fn blocks_itself(inside: Inside) -> Result<(), Failure> {
    match inside {
        Inside::CpuKernel => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "not allowed inside a CPU kernel, since it may block the stream of the kernel; use the \
             functions of hcomm_primitives.h there, and make this call on the host"
        ),
        _ => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "not allowed inside a host function: it may block its own stream; make this call on a \
             thread of the program"
        ),
    }
}

/// Passes a function to a thread of the runtime, which calls it. Does not wait for the call.
/// Returns an error if there is no such thread and none can be started.
pub(crate) fn run_elsewhere(job: CallbackJob) -> Result<(), Failure> {
    let mut pool = lock_std(&POOL);
    if pool.idle <= pool.jobs.len() {
        let spawned = std::thread::Builder::new().name("ascend-callback".into()).spawn(serve);
        if let Err(error) = spawned
            && pool.idle == 0
        {
            return fail!(
                ascend_sys::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                "no thread can be started for a host function: {error}; raise the process's limit \
                 on threads"
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
