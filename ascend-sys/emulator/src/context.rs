//! Contexts, and which one is current in a thread.
//!
//! `aclrtSetDevice` makes the device's *primary* context current: there is one per device, shared by all threads,
//! counted by set and reset. `aclrtCreateContext` makes further ones. A context has a default stream and owns the
//! streams that were created in it.

use crate::executor;
use crate::machine::{self, Device};
use crate::message::{Failure, fail};
use crate::notify::Notify;
use crate::slots::{Kind, Slots, Slotted, unknown};
use crate::step::Reason;
use crate::stream::{STREAMS, Stream};
use crate::users;
use ascend_sys::{
    ACL_ERROR_RT_CONTEXT_NULL, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_TASK_ABORT_STOP,
};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

static CONTEXTS: Slots<Context> = Slots::new();

struct Context {
    index: u32,
    device: AtomicU32,
    default_stream: AtomicU64,
    primary: AtomicBool,
}

impl Slotted for Context {
    const KIND: Kind = Kind::Context;

    fn new(index: u32) -> Context {
        Context {
            index,
            device: AtomicU32::new(0),
            default_stream: AtomicU64::new(0),
            primary: AtomicBool::new(false),
        }
    }
}

/// The primary context of a device, and how often it was set.
#[derive(Debug, Default)]
pub(crate) struct Primary {
    context: u64,
    count: u64,
}

/// What is current in a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Current {
    /// The handle of the context; 0: none.
    pub(crate) context: u64,
    pub(crate) device: u32,
}

const NONE: Current = Current { context: 0, device: 0 };

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(NONE) };
}

fn make_current(context: u64, device: u32) {
    CURRENT.set(Current { context, device });
    users::bind(device);
}

/// The calling thread's context.
#[inline]
pub(crate) fn current() -> Result<Current, Failure> {
    let current = CURRENT.get();
    if current.context == 0 { no_context() } else { Ok(current) }
}

#[cold]
fn no_context() -> Result<Current, Failure> {
    fail!(
        ACL_ERROR_RT_CONTEXT_NULL,
        "the calling thread has no current context; call aclrtSetDevice first"
    )
}

/// The calling thread's context and its device, checked to be alive.
pub(crate) fn current_device() -> Result<(Current, &'static Device), Failure> {
    let current = current()?;
    context(current)?;
    Ok((current, machine::device_slot(current.device)))
}

fn context(current: Current) -> Result<&'static Context, Failure> {
    match CONTEXTS.get(current.context) {
        Some(context) => Ok(context),
        None => fail!(
            ACL_ERROR_RT_CONTEXT_NULL,
            "the calling thread's current context is gone: it was destroyed, or device {} was reset",
            current.device
        ),
    }
}

/// The stream that NULL stands for.
pub(crate) fn default_stream(current: Current) -> Result<u64, Failure> {
    Ok(context(current)?.default_stream.load(Ordering::Relaxed))
}

/// Whether it is the stream that NULL stands for in its context.
pub(crate) fn is_default(stream: &Stream) -> bool {
    CONTEXTS
        .get(stream.context())
        .is_some_and(|context| context.default_stream.load(Ordering::Relaxed) == stream.handle())
}

/// A new context with its default stream.
fn create(device: &'static Device, primary: bool) -> Result<u64, Failure> {
    let Some((context, handle)) = CONTEXTS.take(|context, _| {
        context.device.store(device.id, Ordering::Relaxed);
        context.primary.store(primary, Ordering::Relaxed);
    }) else {
        return fail!(
            ascend_sys::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "every context of the process is in use"
        );
    };
    match Stream::create(handle, device, 0) {
        Ok(stream) => context.default_stream.store(stream.handle(), Ordering::Release),
        Err(failure) => {
            CONTEXTS.retire(handle);
            CONTEXTS.recycle(context.index);
            return Err(failure);
        }
    }
    Ok(handle)
}

/// Ends a context and its streams; what is queued fails.
fn destroy(handle: u64) -> bool {
    let Some(context) = CONTEXTS.get(handle) else { return false };
    if !CONTEXTS.retire(handle) {
        return false;
    }
    for stream in STREAMS.live().filter(|stream| stream.context() == handle) {
        stream.retire(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, Reason::Gone);
    }
    CONTEXTS.recycle(context.index);
    true
}

/// Set in a child that was forked from a process which used devices.
static FORKED: AtomicBool = AtomicBool::new(false);

/// Devices do not survive a fork: the child has none of the threads that run its streams, and shares the memory. The
/// child's thread loses its context, and every way to a new one is refused; the parent is untouched.
fn refuse_after_fork() -> Result<(), Failure> {
    static WATCH: Once = Once::new();
    unsafe extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
        CURRENT.set(NONE);
    }
    // SAFETY: the handler only writes an atomic and a thread local without destructor, which is allowed after a fork.
    WATCH.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    if FORKED.load(Ordering::Relaxed) {
        return fail!(
            ACL_ERROR_RT_CONTEXT_NULL,
            "this process was forked from one that used devices, which do not survive a fork; start it with exec, or fork first"
        );
    }
    Ok(())
}

/// `aclrtSetDevice`.
pub(crate) fn set_device(id: i32) -> Result<(), Failure> {
    refuse_after_fork()?;
    let device = machine::find_device(id)?;
    let mut primary = device.primary();
    if primary.count == 0 {
        primary.context = create(device, true)?;
    }
    primary.count += 1;
    make_current(primary.context, device.id);
    Ok(())
}

/// `aclrtResetDevice` and `aclrtResetDeviceForce`: the last reset waits for the work of the primary context, then ends
/// everything that the process has on the device.
pub(crate) fn reset_device(id: i32, force: bool) -> Result<(), Failure> {
    let device = machine::find_device(id)?;
    let ended = {
        let mut primary = device.primary();
        if primary.count == 0 {
            return fail!(
                ACL_ERROR_RT_CONTEXT_NULL,
                "device {id} is not set, or was reset as often as it was set already"
            );
        }
        primary.count = if force { 0 } else { primary.count - 1 };
        (primary.count == 0).then(|| std::mem::take(&mut primary.context))
    };
    if let Some(context) = ended {
        for stream in STREAMS.live().filter(|stream| stream.context() == context) {
            executor::wait(stream, stream.lane.submitted(), None);
        }
        destroy_all(
            &(device.id..device.id + 1),
            if force { "aclrtResetDeviceForce" } else { "aclrtResetDevice" },
        );
        if CURRENT.get().device == device.id {
            CURRENT.set(NONE);
        }
    }
    Ok(())
}

/// Ends all contexts, streams and allocations of some devices.
pub(crate) fn destroy_all(devices: &Range<u32>, by: &'static str) {
    Notify::destroy_all(devices);
    crate::fabric::registry::destroy_all(devices, &format!("{by} ended its device"));
    crate::capture::destroy_all(devices);
    crate::kernel::binary::unload_all(devices);
    for id in devices.clone() {
        *machine::device_slot(id).primary() = Primary::default();
    }
    // First all streams take nothing more and give up, then each is waited for: they may wait for one another.
    for stream in STREAMS.live().filter(|stream| devices.contains(&stream.device_id())) {
        stream.stop(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, Reason::Gone);
    }
    for context in CONTEXTS
        .live_handles()
        .filter(|(context, _)| devices.contains(&context.device.load(Ordering::Relaxed)))
    {
        destroy(context.1);
    }
    for id in devices.clone() {
        machine::device_slot(id).free_all(by);
    }
}

/// `aclrtCreateContext`: made and current.
pub(crate) fn create_context(id: i32) -> Result<u64, Failure> {
    refuse_after_fork()?;
    let device = machine::find_device(id)?;
    let handle = create(device, false)?;
    make_current(handle, device.id);
    Ok(handle)
}

/// `aclrtDestroyContext`: not for the primary context, which `aclrtResetDevice` ends.
pub(crate) fn destroy_context(handle: u64) -> Result<(), Failure> {
    let Some(context) = CONTEXTS.get(handle) else { return Err(unknown("context", handle)) };
    if context.primary.load(Ordering::Relaxed) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "this is the default context of device {}; aclrtResetDevice releases it",
            context.device.load(Ordering::Relaxed)
        );
    }
    if !destroy(handle) {
        return Err(unknown("context", handle));
    }
    if CURRENT.get().context == handle {
        CURRENT.set(NONE);
    }
    Ok(())
}

/// `aclrtSetCurrentContext`.
pub(crate) fn set_current(handle: u64) -> Result<(), Failure> {
    refuse_after_fork()?;
    let Some(context) = CONTEXTS.get(handle) else { return Err(unknown("context", handle)) };
    make_current(handle, context.device.load(Ordering::Relaxed));
    Ok(())
}

/// Stops every stream of the context of a stream whose task failed (`ACL_STOP_ON_FAILURE`).
pub(crate) fn stop_all_streams(failed: &'static Stream) {
    let code = ACL_ERROR_RT_TASK_ABORT_STOP;
    let why = format!("{} stops all streams of its context on failure", failed.describe());
    for stream in STREAMS.live().filter(|stream| stream.context() == failed.context()) {
        stream.stop(code, Reason::Stopped(why.as_str().into()));
    }
}

/// How many streams a device has.
pub(crate) fn stream_count(device: u32) -> usize {
    STREAMS.live().filter(|stream| stream.device_id() == device).count()
}
