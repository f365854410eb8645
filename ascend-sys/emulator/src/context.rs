//! Contexts, and the current context of each thread.
//!
//! `aclrtSetDevice` makes the device's *primary* context current. Each device has one, which all
//! threads share. The emulator counts its sets and resets. `aclrtCreateContext` makes further
//! contexts. A context has a default stream, and owns the streams that were created in it.

use crate::faults::hold;
use crate::fork;
use crate::machine::primary::{LONGEST_END, Primary, Reset};
use crate::machine::{self, Device};
use crate::message::{Failure, fail};
use crate::slots::{HandleKind, Slots, Slotted, unknown};
use crate::stream::{STREAMS, Stream};
use ascend_sys::{
    ACL_ERROR_RT_CONTEXT_NULL, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, ACL_ERROR_RT_PARAM_INVALID,
    ACL_ERROR_RT_STREAM_CONTEXT,
};
use std::cell::Cell;
use std::ops::Range;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

static CONTEXTS: Slots<Context> = Slots::new();

struct Context {
    index: u32,
    device: AtomicU32,
    default_stream: AtomicU64,
    primary: AtomicBool,
}

impl Slotted for Context {
    const KIND: HandleKind = HandleKind::Context;

    fn new(index: u32) -> Context {
        Context {
            index,
            device: AtomicU32::new(0),
            default_stream: AtomicU64::new(0),
            primary: AtomicBool::new(false),
        }
    }
}

/// The current context and device of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Current {
    /// The handle of the context; 0 if there is none.
    pub(crate) context: u64,
    pub(crate) device: u32,
    /// Whether the thread has set the context itself. Otherwise it has the context of the default
    /// device, or none.
    is_set: bool,
}

const NONE: Current = Current { context: 0, device: 0, is_set: false };

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(NONE) };
}

fn make_current(context: u64, device: u32, is_set: bool) {
    crate::closed::note_user();
    CURRENT.set(Current { context, device, is_set });
}

/// Returns the calling thread's context and device. Returns an error if the thread has no context.
#[inline]
pub(crate) fn current() -> Result<Current, Failure> {
    let current = CURRENT.get();
    if current.is_set { Ok(current) } else { by_default(current) }
}

/// The device of threads that have set none (`defaultDevice` of `aclInit`); -1 if there is none.
static DEFAULT_DEVICE: AtomicI32 = AtomicI32::new(-1);

/// Sets the device of threads that set none themselves. `None` means no device.
pub(crate) fn set_default_device(number: Option<i32>) {
    DEFAULT_DEVICE.store(number.unwrap_or(-1), Ordering::Relaxed);
}

/// Returns the context of a thread that has set none: that of the default device. If a reset by
/// another thread has ended the context, the thread gets a new one. Returns an error if there is no
/// default device.
#[cold]
fn by_default(current: Current) -> Result<Current, Failure> {
    if CONTEXTS.get(current.context).is_some() {
        return Ok(current);
    }
    CURRENT.set(NONE);
    // This also covers the functions that return no code, because their ABI entries do not refuse.
    fork::refuse_devices()?;
    let number = DEFAULT_DEVICE.load(Ordering::Relaxed);
    if number >= 0 {
        let device = machine::find_device(number)?;
        // The thread need not reset the device, so this does not count as a set.
        let context = primary_context(number, device, &mut device.primary.lock())?;
        make_current(context, device.id, false);
        return Ok(CURRENT.get());
    }
    fail!(
        ACL_ERROR_RT_CONTEXT_NULL,
        "the calling thread has no current context; call aclrtSetDevice first"
    )
}

/// Returns the calling thread's context and its device, after a check that the context is alive.
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
            "the calling thread's current context is gone: it was destroyed, or device {} was \
             reset; call aclrtSetDevice or aclrtSetCurrentContext first",
            machine::named(current.device)
        ),
    }
}

/// Returns the handle of the stream that NULL stands for in a context.
pub(crate) fn default_stream(current: Current) -> Result<u64, Failure> {
    Ok(context(current)?.default_stream.load(Ordering::Relaxed))
}

impl Stream {
    /// Returns the stream of a handle, if the stream belongs to the calling thread's context. For
    /// the handle 0, returns the default stream of the context.
    #[inline]
    pub(crate) fn of_current_context(handle: u64) -> Result<&'static Stream, Failure> {
        let current = current()?;
        let stream = Stream::named(if handle == 0 { default_stream(current)? } else { handle })?;
        if stream.context() == current.context { Ok(stream) } else { stream.foreign() }
    }

    #[cold]
    fn foreign<T>(&'static self) -> Result<T, Failure> {
        let text = format!(
            "{} belongs to another context than the calling thread's current one; call \
             aclrtSetDevice or aclrtSetCurrentContext first",
            self.describe()
        );
        Err(Failure::new(ACL_ERROR_RT_STREAM_CONTEXT, text))
    }
}

/// Returns whether the stream is the one that NULL stands for in its context.
pub(crate) fn is_default(stream: &Stream) -> bool {
    CONTEXTS
        .get(stream.context())
        .is_some_and(|context| context.default_stream.load(Ordering::Relaxed) == stream.handle())
}

/// Makes a new stream of a context.
pub(crate) fn create_stream(
    context: u64,
    device: &'static Device,
    flags: u32,
) -> Result<&'static Stream, Failure> {
    let stream = Stream::create(context, device, flags)?;
    hold::made(stream, device);
    Ok(stream)
}

/// Makes a new context with its default stream.
fn create(device: &'static Device, primary: bool) -> Result<u64, Failure> {
    fork::devices_are_used();
    let Some((context, handle)) = CONTEXTS.take(|context, _| {
        context.device.store(device.id, Ordering::Relaxed);
        context.primary.store(primary, Ordering::Relaxed);
    }) else {
        return fail!(
            ascend_sys::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "every context of the process is in use; destroy one with aclrtDestroyContext"
        );
    };
    match create_stream(handle, device, 0) {
        Ok(stream) => context.default_stream.store(stream.handle(), Ordering::Release),
        Err(failure) => {
            CONTEXTS.retire(handle);
            CONTEXTS.recycle(context.index);
            return Err(failure);
        }
    }
    Ok(handle)
}

/// Returns the streams of a context.
pub(crate) fn streams(handle: u64) -> impl Iterator<Item = &'static Stream> {
    STREAMS.live().filter(move |stream| stream.context() == handle)
}

/// Returns the handles of the contexts of some devices.
pub(crate) fn of_devices(devices: &Range<u32>) -> impl Iterator<Item = u64> {
    let theirs = |context: &Context| devices.contains(&context.device.load(Ordering::Relaxed));
    CONTEXTS.live_handles().filter(move |(context, _)| theirs(context)).map(|(_, handle)| handle)
}

/// Ends a context, and calls `end` with each of its streams. Returns false if it is already gone.
pub(crate) fn destroy(handle: u64, end: impl Fn(&'static Stream)) -> bool {
    let Some(context) = CONTEXTS.get(handle) else { return false };
    if !CONTEXTS.retire(handle) {
        return false;
    }
    streams(handle).for_each(end);
    CONTEXTS.recycle(context.index);
    true
}

/// `aclrtSetDevice`: makes the primary context of a device current, and counts the set.
pub(crate) fn set_device(id: i32) -> Result<(), Failure> {
    let device = machine::find_device(id)?;
    let mut primary = settled(device)?;
    let context = primary_context(id, device, &mut primary)?;
    primary.count_set();
    make_current(context, device.id, true);
    Ok(())
}

/// Waits until no thread is ending the primary context of a device, then locks it. Returns an error
/// after [`LONGEST_END`].
fn settled(device: &'static Device) -> Result<MutexGuard<'static, Primary>, Failure> {
    match device.primary.lock_settled() {
        Some(primary) => Ok(primary),
        None => fail!(
            ACL_ERROR_RT_CONTEXT_RELEASE_ERROR,
            "another thread is resetting device {} and has not finished within {} s; check \
             whether a callback of the program blocks it",
            machine::named(device.id),
            LONGEST_END.as_secs()
        ),
    }
}

/// Returns the primary context of a device, and makes it first if there is none.
fn primary_context(
    id: i32,
    device: &'static Device,
    primary: &mut Primary,
) -> Result<u64, Failure> {
    if CONTEXTS.get(primary.context).is_none() {
        // The block of the device may be gone since it was found.
        machine::find_device(id)?;
        primary.context = create(device, true)?;
    }
    Ok(primary.context)
}

/// Returns whether a device has a primary context. It has one if it was set more often than it was
/// reset, or if a thread uses it as the default device.
pub(crate) fn has_primary(device: &Device) -> bool {
    CONTEXTS.get(device.primary.lock().context).is_some()
}

/// Counts a reset of a device; with `force`, counts all resets that are due.
pub(crate) fn count_reset(device: &'static Device, force: bool) -> Result<Reset, Failure> {
    match device.primary.count_reset(device.id, force) {
        Some(reset) => Ok(reset),
        None => fail!(
            ACL_ERROR_RT_CONTEXT_NULL,
            "device {} is not set, or was already reset as often as it was set; reset it only once \
             for each aclrtSetDevice",
            machine::named(device.id)
        ),
    }
}

/// Clears the calling thread's context and device, if `is_gone` returns true for them.
pub(crate) fn forget_current(is_gone: impl FnOnce(Current) -> bool) {
    if is_gone(CURRENT.get()) {
        CURRENT.set(NONE);
    }
}

/// `aclrtCreateContext`: makes a context, and makes it current.
pub(crate) fn create_context(id: i32) -> Result<u64, Failure> {
    let device = machine::find_device(id)?;
    let _settled = settled(device)?;
    // The block of the device may be gone since it was found.
    machine::find_device(id)?;
    let handle = create(device, false)?;
    make_current(handle, device.id, true);
    Ok(handle)
}

/// Returns an error for a primary context, because only `aclrtResetDevice` may end it.
pub(crate) fn is_not_primary(handle: u64) -> Result<(), Failure> {
    let Some(context) = CONTEXTS.get(handle) else {
        return Err(unknown(HandleKind::Context, handle));
    };
    if context.primary.load(Ordering::Relaxed) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "this is the default context of device {}; release it with aclrtResetDevice",
            machine::named(context.device.load(Ordering::Relaxed))
        );
    }
    Ok(())
}

/// `aclrtSetCurrentContext`: makes a context current.
pub(crate) fn set_current(handle: u64) -> Result<(), Failure> {
    let Some(context) = CONTEXTS.get(handle) else {
        return Err(unknown(HandleKind::Context, handle));
    };
    make_current(handle, context.device.load(Ordering::Relaxed), true);
    Ok(())
}

/// Returns the number of streams of a device.
pub(crate) fn stream_count(device: u32) -> usize {
    STREAMS.live().filter(|stream| stream.device_id() == device).count()
}
