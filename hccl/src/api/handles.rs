//! AscendCL's streams, events, contexts and memory as owned handles.
//!
//! The invariant that makes the calls here safe: only the create function makes a handle, it cannot
//! be copied, and it is destroyed by moving it into the destroy function. So a handle that exists
//! is alive, and every function of CANN that takes one may be called from any thread (handles are
//! process wide). CANN's other demand, the right current context, it checks itself and answers with
//! a code. The functions at the end, which move or fill memory, are `unsafe`.

use std::ffi::{CStr, c_void};
use std::time::Duration;

use ascend_sys::{
    ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE, ACL_NOTIFY_DEFAULT, aclrtContext, aclrtDevAttr,
    aclrtEvent, aclrtEventRecordedStatus, aclrtHostRegisterType, aclrtMemAttr,
    aclrtMemMallocPolicy, aclrtMemcpyKind, aclrtNotify, aclrtStream, aclrtStreamStatus,
};

use super::{Table, call};
use crate::error::{Code, Error, Result};

/// `aclrtSetCurrentContext` and friends found no context on this thread.
const NO_CONTEXT: i32 = ascend_sys::ACL_ERROR_RT_CONTEXT_NULL;
pub(super) const STREAM_TIMEOUT: i32 = ascend_sys::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
const EVENT_TIMEOUT: i32 = ascend_sys::ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;

/// A stream.
pub(crate) struct StreamHandle(aclrtStream);
/// An event (of the kind that may be recorded again).
pub(crate) struct EventHandle(aclrtEvent);
/// A notify: one stream waits for it until another one records it.
pub(crate) struct NotifyHandle(aclrtNotify);
/// A context. Contexts are not owned: a device's default context lives as long as the device is
/// set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextHandle(aclrtContext);

// SAFETY: the handles are names that CANN resolves; it takes them from any thread.
unsafe impl Send for StreamHandle {}
// SAFETY: as above; CANN's own locks order calls on one stream.
unsafe impl Sync for StreamHandle {}
// SAFETY: as for streams.
unsafe impl Send for EventHandle {}
// SAFETY: as for streams.
unsafe impl Sync for EventHandle {}
// SAFETY: as for streams.
unsafe impl Send for NotifyHandle {}
// SAFETY: as for streams.
unsafe impl Sync for NotifyHandle {}
// SAFETY: as for streams.
unsafe impl Send for ContextHandle {}
// SAFETY: as for streams.
unsafe impl Sync for ContextHandle {}

impl StreamHandle {
    /// Returns the handle itself, for a call that enqueues.
    #[inline]
    pub(crate) fn raw(&self) -> aclrtStream {
        self.0
    }

    /// Moves the handle out of a place that is about to go away.
    pub(crate) fn take(&mut self) -> Self {
        Self(std::mem::replace(&mut self.0, std::ptr::null_mut()))
    }

    /// # Safety
    /// The stream must stay alive as long as the handle exists.
    pub(crate) unsafe fn from_raw(stream: aclrtStream) -> Self {
        Self(stream)
    }
}

/// The end of a wait with a time limit of CANN.
pub(crate) enum Waited {
    /// The wait is over; the code is that of an earlier failure.
    Over(Result<()>),
    /// It took too long.
    TimedOut,
}

impl Table {
    /// Calls `aclInit`; a repeated call is fine, since other code may use CANN too.
    pub(crate) fn init(&self) -> Result<()> {
        // SAFETY: a null configuration is CANN's default.
        match unsafe { call!(self, aclInit, std::ptr::null()) } {
            Err(Error::Call {
                code: Code::Acl(ascend_sys::ACL_ERROR_REPEAT_INITIALIZE), ..
            }) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtGetDeviceCount, &mut count) }?;
        Ok(count)
    }

    pub(crate) fn set_device(&self, id: i32) -> Result<()> {
        // SAFETY: takes a number.
        unsafe { call!(self, aclrtSetDevice, id) }
    }

    /// Whether this context is known to be the calling thread's current one
    /// (`aclrtGetCurrentContext`).
    #[inline]
    pub(crate) fn is_current(&self, wanted: ContextHandle) -> bool {
        let mut context = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        self.functions().aclrtGetCurrentContext.is_some_and(|ask| unsafe { ask(&mut context) } == 0)
            && context == wanted.0
    }

    /// Returns the calling thread's context; `None` when it has none.
    #[inline]
    pub(crate) fn current_context(&self) -> Result<Option<ContextHandle>> {
        let Some(function) = self.functions().aclrtGetCurrentContext else {
            return Err(self.missing("aclrtGetCurrentContext"));
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        match unsafe { function(&mut context) } {
            0 if context.is_null() => Ok(None),
            0 => Ok(Some(ContextHandle(context))),
            NO_CONTEXT => {
                // CANN notes this answer as an error of the thread. It is no error, and must not
                // turn up in a later text.
                drop(self.recent_message());
                Ok(None)
            }
            code => super::check(self, "aclrtGetCurrentContext", code).map(|()| None),
        }
    }

    #[inline]
    pub(crate) fn set_context(&self, context: ContextHandle) -> Result<()> {
        // SAFETY: the handle came from CANN, which answers a stale one with a code.
        unsafe { call!(self, aclrtSetCurrentContext, context.0) }
    }

    /// Returns an attribute of a device, a number (`aclrtGetDeviceInfo`).
    pub(crate) fn device_info(&self, id: i32, attribute: aclrtDevAttr) -> Result<u32> {
        let (id, mut value) = (u32::try_from(id).unwrap_or(u32::MAX), 0);
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtGetDeviceInfo, id, attribute, &mut value) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Returns the name of the chip.
    pub(crate) fn soc_name(&self) -> Option<String> {
        let function = self.functions().aclrtGetSocName?;
        // SAFETY: takes no arguments and returns static text or null.
        unsafe {
            let name = function();
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// Returns the free and the total bytes of the current device.
    pub(crate) fn memory_info(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the out parameters are live locals.
        unsafe { call!(self, aclrtGetMemInfo, aclrtMemAttr::ACL_HBM_MEM, &mut free, &mut total) }?;
        Ok((free, total))
    }

    pub(crate) fn create_stream(&self) -> Result<StreamHandle> {
        let mut stream = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtCreateStream, &mut stream) }?;
        made("aclrtCreateStream", stream).map(StreamHandle)
    }

    /// Destroys a stream on which all is complete. CANN's other function waits first, and would
    /// wait also for a device that has stopped.
    pub(crate) fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so nobody has it any more.
        unsafe { call!(self, aclrtDestroyStreamForce, stream.0) }
    }

    /// Waits for everything on the stream.
    pub(crate) fn synchronize_stream(
        &self,
        stream: &StreamHandle,
        limit: Duration,
    ) -> Result<Waited> {
        let Some(function) = self.functions().aclrtSynchronizeStreamWithTimeout else {
            return Err(self.missing("aclrtSynchronizeStreamWithTimeout"));
        };
        // SAFETY: the handle is alive.
        let code = unsafe { function(stream.0, milliseconds(limit)) };
        Ok(self.waited("aclrtSynchronizeStreamWithTimeout", code, STREAM_TIMEOUT))
    }

    /// Whether everything on the stream is complete.
    pub(crate) fn query_stream(&self, stream: &StreamHandle) -> Result<bool> {
        let mut status = aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY;
        // SAFETY: the handle is alive, the out parameter a live local.
        unsafe { call!(self, aclrtStreamQuery, stream.0, &mut status) }?;
        Ok(status == aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE)
    }

    pub(super) fn waited(&self, function: &'static str, code: i32, timeout: i32) -> Waited {
        if code == timeout {
            Waited::TimedOut
        } else {
            Waited::Over(super::check(self, function, code))
        }
    }

    /// Creates an event; with `timed` it notes when it is reached.
    pub(crate) fn create_event(&self, timed: bool) -> Result<EventHandle> {
        let flag = ACL_EVENT_SYNC | if timed { ACL_EVENT_TIME_LINE } else { 0 };
        let mut event = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtCreateEventExWithFlag, &mut event, flag) }?;
        made("aclrtCreateEventExWithFlag", event).map(EventHandle)
    }

    /// Creates a notify of the current device.
    pub(crate) fn create_notify(&self) -> Result<NotifyHandle> {
        let mut notify = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtCreateNotify, &mut notify, u64::from(ACL_NOTIFY_DEFAULT)) }?;
        made("aclrtCreateNotify", notify).map(NotifyHandle)
    }

    pub(crate) fn destroy_notify(&self, notify: NotifyHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so nobody has it any more.
        unsafe { call!(self, aclrtDestroyNotify, notify.0) }
    }

    /// Makes this stream wake the stream that waits for the notify, when its present tasks are
    /// complete.
    pub(crate) fn record_notify(&self, notify: &NotifyHandle, stream: &StreamHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtRecordNotify, notify.0, stream.0) }
    }

    /// Makes later tasks of the stream wait for the notify, without a limit.
    pub(crate) fn wait_notify(&self, stream: &StreamHandle, notify: &NotifyHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtWaitAndResetNotify, notify.0, stream.0, 0) }
    }

    pub(crate) fn destroy_event(&self, event: EventHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so nobody has it any more.
        unsafe { call!(self, aclrtDestroyEvent, event.0) }
    }

    pub(crate) fn record_event(&self, event: &EventHandle, stream: &StreamHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtRecordEvent, event.0, stream.0) }
    }

    /// Makes later work of the stream wait for the event as it was last recorded.
    pub(crate) fn wait_event(&self, stream: &StreamHandle, event: &EventHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtStreamWaitEvent, stream.0, event.0) }
    }

    /// Whether the stream has reached the event.
    pub(crate) fn query_event(&self, event: &EventHandle) -> Result<bool> {
        let mut status = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY;
        // SAFETY: the handle is alive, the out parameter a live local.
        unsafe { call!(self, aclrtQueryEventStatus, event.0, &mut status) }?;
        Ok(status == aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_COMPLETE)
    }

    pub(crate) fn synchronize_event(&self, event: &EventHandle, limit: Duration) -> Result<Waited> {
        let Some(function) = self.functions().aclrtSynchronizeEventWithTimeout else {
            return Err(self.missing("aclrtSynchronizeEventWithTimeout"));
        };
        // SAFETY: the handle is alive.
        let code = unsafe { function(event.0, milliseconds(limit)) };
        Ok(self.waited("aclrtSynchronizeEventWithTimeout", code, EVENT_TIMEOUT))
    }

    /// Returns the milliseconds between two timed events that are both complete.
    pub(crate) fn elapsed(&self, start: &EventHandle, end: &EventHandle) -> Result<f32> {
        let mut ms = 0.0;
        // SAFETY: both handles are alive, the out parameter is a live local.
        unsafe { call!(self, aclrtEventElapsedTime, &mut ms, start.0, end.0) }?;
        Ok(ms)
    }

    /// Allocates device memory of the current device.
    pub(crate) fn malloc(&self, bytes: usize) -> Result<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtMalloc, &mut pointer, bytes, policy) }?;
        made("aclrtMalloc", pointer)
    }

    /// Allocates pinned host memory.
    pub(crate) fn malloc_host(&self, bytes: usize) -> Result<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtMallocHost, &mut pointer, bytes) }?;
        made("aclrtMallocHost", pointer)
    }

    /// # Safety
    /// `pointer` came from [`malloc`](Self::malloc), is freed once, and no running or queued task
    /// uses it.
    pub(crate) unsafe fn free(&self, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtFree, pointer) }
    }

    /// # Safety
    /// As for [`free`](Self::free), with [`malloc_host`](Self::malloc_host).
    pub(crate) unsafe fn free_host(&self, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtFreeHost, pointer) }
    }

    /// Registers pages of the program's own, so that devices copy to and from them directly.
    ///
    /// # Safety
    /// The pages stay valid until they are [unregistered](Self::unregister_host).
    pub(crate) unsafe fn register_host(&self, pages: *mut c_void, bytes: usize) -> Result<()> {
        // Copies name the memory by its own address.
        let mut device_address = std::ptr::null_mut();
        let kind = aclrtHostRegisterType::ACL_HOST_REGISTER_MAPPED;
        // SAFETY: the caller's promise; the out parameter is a live local.
        unsafe { call!(self, aclrtHostRegister, pages, bytes as u64, kind, &mut device_address) }
    }

    /// # Safety
    /// `pages` was registered, and nothing that runs or is queued uses it.
    pub(crate) unsafe fn unregister_host(&self, pages: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtHostUnregister, pages) }
    }

    /// Enqueues a copy.
    ///
    /// # Safety
    /// Both ranges are device allocations or pinned host memory, stay allocated and are not touched
    /// by the host until the copy is complete.
    pub(crate) unsafe fn copy(
        &self,
        destination: *mut c_void,
        source: *const c_void,
        bytes: usize,
        kind: aclrtMemcpyKind,
        stream: aclrtStream,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtMemcpyAsync, destination, bytes, source, bytes, kind, stream) }
    }

    /// Enqueues filling with a byte.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy).
    pub(crate) unsafe fn fill(
        &self,
        destination: *mut c_void,
        byte: u8,
        bytes: usize,
        stream: aclrtStream,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtMemsetAsync, destination, bytes, i32::from(byte), bytes, stream) }
    }

    /// Enqueues a host function.
    ///
    /// # Safety
    /// `function` may be called once with `argument` on any thread.
    pub(crate) unsafe fn host_function(
        &self,
        stream: aclrtStream,
        function: unsafe extern "C" fn(*mut c_void),
        argument: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtLaunchHostFunc, stream, Some(function), argument) }
    }
}

/// Returns the object that a function has made. Null is no object, whatever code came with it: the
/// host would write there, and to CANN a null stream is one that everybody shares.
#[inline]
pub(super) fn made(function: &'static str, pointer: *mut c_void) -> Result<*mut c_void> {
    if pointer.is_null() {
        let problem = "it said that all went well, and returned a null pointer".into();
        return Err(Error::Invalid { operation: function, problem });
    }
    Ok(pointer)
}

/// Returns the milliseconds, rounded up, so that a wait never ends early, and at least one: zero
/// means different things to different functions.
pub(super) fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX).max(1)
}
