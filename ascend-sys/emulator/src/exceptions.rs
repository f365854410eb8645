//! Exception callbacks: functions of the program that are called for each task that fails on a
//! device.
//!
//! A task fails while its stream is polled, with the queue locked, so no code of the program can
//! run there. Instead, the failure is passed to one thread of the emulator, which calls the
//! callbacks for one failure after another. So a callback that blocks delays other callbacks, but
//! it does not delay streams. A callback may call any function, even one that waits for streams.
//!
//! A task that gives up because its stream is aborted or ends has not failed by itself, and no
//! callback is called for it.
//!
//! A callback gets a number in place of the pointer to an `aclrtExceptionInfo`. The accessors look
//! the number up, so a number that is stale or invalid is an error.

use crate::message::{Failure, fail};
use ascend_sync::lock_std as lock;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, ACL_ERROR_RT_DEVICE_TASK_ABORT,
    ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_TASK_ABORT_STOP, aclError, aclrtExceptionInfo,
};
use std::collections::BTreeMap;
use std::ptr::{fn_addr_eq, without_provenance_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A task that has failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exception {
    /// The low 32 bits of the number of the task in its stream.
    pub(crate) task: u32,
    /// The number of the stream, as `aclrtStreamGetId` returns it.
    pub(crate) stream: u32,
    /// The number that the operating system gives the thread that submitted the task.
    pub(crate) thread: u32,
    /// The number by which the program names the device.
    pub(crate) device: u32,
    /// The code of the failure, as a synchronise of the stream returns it.
    pub(crate) code: aclError,
}

pub(crate) type ExceptionCallback = unsafe extern "C" fn(*mut aclrtExceptionInfo);

/// The callbacks, in the order in which they are called.
struct Callbacks {
    /// The callback of `aclrtSetExceptionInfoCallback`.
    single: Option<ExceptionCallback>,
    registered: Vec<ExceptionCallback>,
}

static CALLBACKS: Mutex<Callbacks> = Mutex::new(Callbacks { single: None, registered: Vec::new() });
/// Whether there are any callbacks. A failure checks this first.
static ARE_WANTED: AtomicBool = AtomicBool::new(false);
/// The channel to the thread that calls the callbacks.
static DELIVERY: Mutex<Option<Sender<Exception>>> = Mutex::new(None);
/// The exceptions that callbacks are handling now, by the number that the callbacks got.
static LOOKED_AT: Mutex<BTreeMap<usize, Exception>> = Mutex::new(BTreeMap::new());

fn change(change: impl FnOnce(&mut Callbacks) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut callbacks = lock(&CALLBACKS);
    let result = change(&mut callbacks);
    let any = callbacks.single.is_some() || !callbacks.registered.is_empty();
    ARE_WANTED.store(any, Ordering::Release);
    result
}

/// Sets the single callback; `None` removes it.
pub(crate) fn set(callback: Option<ExceptionCallback>) -> Result<(), Failure> {
    change(|callbacks| {
        callbacks.single = callback;
        Ok(())
    })
}

/// Adds a callback. If it was added before, it is still called only once for a failure.
pub(crate) fn register(callback: ExceptionCallback) -> Result<(), Failure> {
    change(|callbacks| {
        if !callbacks.registered.iter().any(|there| fn_addr_eq(*there, callback)) {
            callbacks.registered.push(callback);
        }
        Ok(())
    })
}

/// Removes a callback. Does not wait for a call of it that is running.
pub(crate) fn unregister(callback: ExceptionCallback) -> Result<(), Failure> {
    change(|callbacks| {
        let before = callbacks.registered.len();
        callbacks.registered.retain(|there| !fn_addr_eq(*there, callback));
        if callbacks.registered.len() == before {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "callback is not registered; register it with aclrtExceptionInfoCallbackRegister"
            );
        }
        Ok(())
    })
}

/// Reports that a task has ended with this failure. `exception` returns the data of the task. Does
/// nothing if there are no callbacks, or if the failure is only [a consequence](is_a_consequence).
/// Does not wait.
#[cold]
pub(crate) fn failed(failure: &Failure, exception: impl FnOnce(aclError) -> Exception) {
    let code = failure.acl_code();
    if !ARE_WANTED.load(Ordering::Acquire) || is_a_consequence(code) {
        return;
    }
    let mut delivery = lock(&DELIVERY);
    if delivery.is_none() {
        let (sender, receiver) = channel();
        let spawned = thread::Builder::new()
            .name("ascend-exception".into())
            .spawn(move || deliver(&receiver));
        // If no thread can be started, no callback is called; the failure is still returned to the
        // host.
        *delivery = spawned.is_ok().then_some(sender);
    }
    if let Some(sender) = &*delivery {
        // The receiver exists as long as the process.
        let _ = sender.send(exception(code));
    }
}

/// Returns whether a task with this code gave up because its stream or context was aborted, was
/// stopped or ends.
pub(crate) fn is_a_consequence(code: aclError) -> bool {
    matches!(
        code,
        ACL_ERROR_RT_STREAM_ABORT
            | ACL_ERROR_RT_DEVICE_TASK_ABORT
            | ACL_ERROR_RT_TASK_ABORT_STOP
            | ACL_ERROR_RT_CONTEXT_RELEASE_ERROR
    )
}

fn deliver(failures: &Receiver<Exception>) {
    // The numbers are multiples of this, like addresses, so that none looks like a handle.
    const STEP: usize = 16;
    for (count, exception) in failures.iter().enumerate() {
        let number = (count + 1) * STEP;
        lock(&LOOKED_AT).insert(number, exception);
        let call = |callback: ExceptionCallback| {
            // SAFETY: the caller that registered it promised that it can be called on any thread.
            // It can do nothing with the number but pass it to the accessors.
            unsafe { callback(without_provenance_mut(number)) };
        };
        let single = lock(&CALLBACKS).single;
        single.into_iter().for_each(call);
        let registered = lock(&CALLBACKS).registered.clone();
        for callback in registered {
            // An earlier callback may have taken long, and this one may have been removed
            // meanwhile.
            let is_there = |there: &ExceptionCallback| fn_addr_eq(*there, callback);
            let is_registered = lock(&CALLBACKS).registered.iter().any(is_there);
            if is_registered {
                call(callback);
            }
        }
        lock(&LOOKED_AT).remove(&number);
    }
}

/// Returns the exception that a callback got as `info`.
pub(crate) fn find(info: *const aclrtExceptionInfo) -> Result<Exception, Failure> {
    if info.is_null() {
        return Err(Failure::null("info"));
    }
    match lock(&LOOKED_AT).get(&info.addr()) {
        Some(exception) => Ok(*exception),
        None => fail!(
            ACL_ERROR_INVALID_PARAM,
            "info ({info:p}) is not an exception of a running callback; use it only inside the \
             callback that gets it"
        ),
    }
}
