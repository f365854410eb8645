//! Exception callbacks: functions of the program that hear of each task that fails on a device.
//!
//! A task fails while its stream is polled, with the queue locked, so no code of the program can
//! run there. The failure goes to one thread of the emulator. It calls the callbacks of one failure
//! after another, so a callback that blocks holds up other callbacks and no stream. A callback may
//! call any function, also those that wait for streams.
//!
//! A task that gives up because its stream is aborted or ends has not failed by itself, and no
//! callback hears of it.
//!
//! A callback gets a number in place of the pointer. The accessors look the number up, so one that
//! is stale, or that never was one, is an error.

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
    /// The low bits of its number in the stream.
    pub(crate) task: u32,
    /// As `aclrtStreamGetId` says it.
    pub(crate) stream: u32,
    /// The thread that has submitted it, by its number in the operating system.
    pub(crate) thread: u32,
    /// The number of the device for the program.
    pub(crate) device: u32,
    /// As a synchronise of the stream returns it.
    pub(crate) code: aclError,
}

pub(crate) type ExceptionCallback = unsafe extern "C" fn(*mut aclrtExceptionInfo);

/// The callbacks, in the order in which they are called.
struct Callbacks {
    /// That of `aclrtSetExceptionInfoCallback`.
    single: Option<ExceptionCallback>,
    registered: Vec<ExceptionCallback>,
}

static CALLBACKS: Mutex<Callbacks> = Mutex::new(Callbacks { single: None, registered: Vec::new() });
/// Whether there are any: a failure asks this first.
static ARE_WANTED: AtomicBool = AtomicBool::new(false);
/// The way to the thread that calls them.
static DELIVERY: Mutex<Option<Sender<Exception>>> = Mutex::new(None);
/// The exceptions that callbacks look at now, by the number that they were given.
static LOOKED_AT: Mutex<BTreeMap<usize, Exception>> = Mutex::new(BTreeMap::new());

fn change(change: impl FnOnce(&mut Callbacks) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut callbacks = lock(&CALLBACKS);
    let result = change(&mut callbacks);
    let any = callbacks.single.is_some() || !callbacks.registered.is_empty();
    ARE_WANTED.store(any, Ordering::Release);
    result
}

/// Sets the single callback; `None` takes it away.
pub(crate) fn set(callback: Option<ExceptionCallback>) -> Result<(), Failure> {
    change(|callbacks| {
        callbacks.single = callback;
        Ok(())
    })
}

/// Adds a callback. One that is there already is called once all the same.
pub(crate) fn register(callback: ExceptionCallback) -> Result<(), Failure> {
    change(|callbacks| {
        if !callbacks.registered.iter().any(|there| fn_addr_eq(*there, callback)) {
            callbacks.registered.push(callback);
        }
        Ok(())
    })
}

/// Takes a callback away. Does not wait for one that runs.
pub(crate) fn unregister(callback: ExceptionCallback) -> Result<(), Failure> {
    change(|callbacks| {
        let before = callbacks.registered.len();
        callbacks.registered.retain(|there| !fn_addr_eq(*there, callback));
        if callbacks.registered.len() == before {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "callback is not registered; aclrtExceptionInfoCallbackRegister does that"
            );
        }
        Ok(())
    })
}

/// A task has ended with this failure. `exception` says which; it is called if somebody wants to
/// hear of it. Does not wait.
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
        // Without a thread nobody can be told; the failure itself is still returned to the host.
        *delivery = spawned.is_ok().then_some(sender);
    }
    if let Some(sender) = &*delivery {
        // The receiver is there as long as the process.
        let _ = sender.send(exception(code));
    }
}

/// Whether a task with this code was told to give up because its stream or its context ends.
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
    // Steps as of addresses, so that no number looks like another kind of handle.
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
            // One before it may have taken long, and this one may be gone.
            let is_there = |there: &ExceptionCallback| fn_addr_eq(*there, callback);
            let is_registered = lock(&CALLBACKS).registered.iter().any(is_there);
            if is_registered {
                call(callback);
            }
        }
        lock(&LOOKED_AT).remove(&number);
    }
}

/// The exception that a callback was given as `info`.
pub(crate) fn find(info: *const aclrtExceptionInfo) -> Result<Exception, Failure> {
    if info.is_null() {
        return Err(Failure::null("info"));
    }
    match lock(&LOOKED_AT).get(&info.addr()) {
        Some(exception) => Ok(*exception),
        None => fail!(
            ACL_ERROR_INVALID_PARAM,
            "info ({info:p}) is no exception that a callback is looking at; it is valid inside the callback only"
        ),
    }
}
