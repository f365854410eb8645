//! AscendCL's streams, events, contexts and memory as owned handles.
//!
//! An invariant makes the calls here safe: only the create function makes a handle, a handle cannot
//! be copied, and the destroy function consumes it. So a handle that exists is alive. Handles are
//! valid in the whole process, so any thread may call the functions of CANN that take one. CANN
//! also requires the right current context, checks this itself and returns a code. The functions at
//! the end are `unsafe`: they free, register, copy or fill memory, or call a host function.

use std::ffi::{CStr, c_void};
use std::time::Duration;

use ascend_sys::{
    ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE, ACL_NOTIFY_DEFAULT, aclrtContext, aclrtDevAttr,
    aclrtEvent, aclrtEventRecordedStatus, aclrtHostRegisterType, aclrtMemAttr,
    aclrtMemMallocPolicy, aclrtMemcpyKind, aclrtNotify, aclrtStream, aclrtStreamStatus,
};

use super::{Table, call};
use crate::error::{Code, Error, Result};

/// The code of CANN that says that the calling thread has no current context.
const NO_CONTEXT: i32 = ascend_sys::ACL_ERROR_RT_CONTEXT_NULL;
pub(super) const STREAM_TIMEOUT: i32 = ascend_sys::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT;
const EVENT_TIMEOUT: i32 = ascend_sys::ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;

/// An owned handle of a stream.
pub(crate) struct StreamHandle(aclrtStream);
/// An owned handle of an event that may be recorded again.
pub(crate) struct EventHandle(aclrtEvent);
/// An owned handle of a notify. One stream waits for the notify until another stream records it.
pub(crate) struct NotifyHandle(aclrtNotify);
/// A handle of a context. It does not own the context: the default context of a device lives as
/// long as the device is set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContextHandle(aclrtContext);

// SAFETY: CANN resolves the handles itself, and accepts them from any thread.
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
    /// Returns the raw handle, for a call that enqueues a task.
    #[inline]
    pub(crate) fn raw(&self) -> aclrtStream {
        self.0
    }

    /// Moves the handle out of a value that is about to be dropped, and leaves a null handle there.
    pub(crate) fn take(&mut self) -> Self {
        Self(std::mem::replace(&mut self.0, std::ptr::null_mut()))
    }

    /// Returns a handle for a raw stream.
    ///
    /// # Safety
    /// The stream must stay alive as long as the handle exists.
    pub(crate) unsafe fn from_raw(stream: aclrtStream) -> Self {
        Self(stream)
    }
}

/// The outcome of a wait in CANN that has a time limit.
pub(crate) enum Waited {
    /// The wait ended before its limit. An error reports an earlier failure.
    Over(Result<()>),
    /// The wait reached its limit.
    TimedOut,
}

impl Table {
    /// Calls `aclInit`. A repeated call is not an error, because other code may use CANN too.
    pub(crate) fn init(&self) -> Result<()> {
        // SAFETY: a null configuration is CANN's default.
        match unsafe { call!(self, aclInit, std::ptr::null()) } {
            Err(Error::Call {
                code: Code::Acl(ascend_sys::ACL_ERROR_REPEAT_INITIALIZE), ..
            }) => Ok(()),
            other => other,
        }
    }

    /// Returns the number of devices.
    pub(crate) fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtGetDeviceCount, &mut count) }?;
        Ok(count)
    }

    /// Sets the device of the calling thread, and makes the device's default context current.
    pub(crate) fn set_device(&self, id: i32) -> Result<()> {
        // SAFETY: the call takes only a number.
        unsafe { call!(self, aclrtSetDevice, id) }
    }

    /// Returns whether CANN reports this context as the calling thread's current context
    /// (`aclrtGetCurrentContext`).
    #[inline]
    pub(crate) fn is_current(&self, wanted: ContextHandle) -> bool {
        let mut context = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        self.functions().aclrtGetCurrentContext.is_some_and(|ask| unsafe { ask(&mut context) } == 0)
            && context == wanted.0
    }

    /// Returns the calling thread's current context, or `None` if it has none.
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
                // CANN stores a message for this code, although it is no error here. The message
                // must not appear in the text of a later error.
                drop(self.recent_message());
                Ok(None)
            }
            code => super::check(self, "aclrtGetCurrentContext", code).map(|()| None),
        }
    }

    #[inline]
    pub(crate) fn set_context(&self, context: ContextHandle) -> Result<()> {
        // SAFETY: the handle came from CANN, which returns a code for a stale handle.
        unsafe { call!(self, aclrtSetCurrentContext, context.0) }
    }

    /// Returns an attribute of a device as a number (`aclrtGetDeviceInfo`).
    pub(crate) fn device_info(&self, id: i32, attribute: aclrtDevAttr) -> Result<u32> {
        let (id, mut value) = (u32::try_from(id).unwrap_or(u32::MAX), 0);
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtGetDeviceInfo, id, attribute, &mut value) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Returns the name of the chip, or `None` if the backend does not report it.
    pub(crate) fn soc_name(&self) -> Option<String> {
        let function = self.functions().aclrtGetSocName?;
        // SAFETY: the function takes no arguments, and returns static text or null.
        unsafe {
            let name = function();
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
        }
    }

    /// Returns the free and the total memory of the current device, in bytes.
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

    /// Destroys a stream whose tasks are all complete. `aclrtDestroyStream` is not used, because it
    /// waits first, and would wait even for a device that has stopped.
    pub(crate) fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so no other code can use it.
        unsafe { call!(self, aclrtDestroyStreamForce, stream.0) }
    }

    /// Blocks until all tasks on the stream are complete, but not longer than `limit`.
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

    /// Returns whether all tasks on the stream are complete.
    pub(crate) fn query_stream(&self, stream: &StreamHandle) -> Result<bool> {
        let mut status = aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY;
        // SAFETY: the handle is alive, and the out parameter is a live local.
        unsafe { call!(self, aclrtStreamQuery, stream.0, &mut status) }?;
        Ok(status == aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE)
    }

    /// Converts the code of a wait; `timeout` is the code for a wait that reached its limit.
    pub(super) fn waited(&self, function: &'static str, code: i32, timeout: i32) -> Waited {
        if code == timeout {
            Waited::TimedOut
        } else {
            Waited::Over(super::check(self, function, code))
        }
    }

    /// Creates an event. With `timed`, the event records the time at which a stream reaches it.
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
        // SAFETY: the handle is moved in, so no other code can use it.
        unsafe { call!(self, aclrtDestroyNotify, notify.0) }
    }

    /// Makes the stream set the notify when the tasks that are now queued on the stream are
    /// complete.
    pub(crate) fn record_notify(&self, notify: &NotifyHandle, stream: &StreamHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtRecordNotify, notify.0, stream.0) }
    }

    /// Makes later tasks of the stream wait for the notify, without a time limit.
    pub(crate) fn wait_notify(&self, stream: &StreamHandle, notify: &NotifyHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtWaitAndResetNotify, notify.0, stream.0, 0) }
    }

    pub(crate) fn destroy_event(&self, event: EventHandle) -> Result<()> {
        // SAFETY: the handle is moved in, so no other code can use it.
        unsafe { call!(self, aclrtDestroyEvent, event.0) }
    }

    /// Records the event after the tasks that are now queued on the stream.
    pub(crate) fn record_event(&self, event: &EventHandle, stream: &StreamHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtRecordEvent, event.0, stream.0) }
    }

    /// Makes later tasks of the stream wait for the latest record of the event.
    pub(crate) fn wait_event(&self, stream: &StreamHandle, event: &EventHandle) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { call!(self, aclrtStreamWaitEvent, stream.0, event.0) }
    }

    /// Returns whether the stream has reached the latest record of the event.
    pub(crate) fn query_event(&self, event: &EventHandle) -> Result<bool> {
        let mut status = aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY;
        // SAFETY: the handle is alive, and the out parameter is a live local.
        unsafe { call!(self, aclrtQueryEventStatus, event.0, &mut status) }?;
        Ok(status == aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_COMPLETE)
    }

    /// Blocks until the latest record of the event is reached, but not longer than `limit`.
    pub(crate) fn synchronize_event(&self, event: &EventHandle, limit: Duration) -> Result<Waited> {
        let Some(function) = self.functions().aclrtSynchronizeEventWithTimeout else {
            return Err(self.missing("aclrtSynchronizeEventWithTimeout"));
        };
        // SAFETY: the handle is alive.
        let code = unsafe { function(event.0, milliseconds(limit)) };
        Ok(self.waited("aclrtSynchronizeEventWithTimeout", code, EVENT_TIMEOUT))
    }

    /// Returns the time between two timed events in milliseconds. Both events must be complete.
    pub(crate) fn elapsed(&self, start: &EventHandle, end: &EventHandle) -> Result<f32> {
        let mut ms = 0.0;
        // SAFETY: both handles are alive, and the out parameter is a live local.
        unsafe { call!(self, aclrtEventElapsedTime, &mut ms, start.0, end.0) }?;
        Ok(ms)
    }

    /// Allocates `bytes` bytes of memory on the current device.
    pub(crate) fn malloc(&self, bytes: usize) -> Result<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        let policy = aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST;
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtMalloc, &mut pointer, bytes, policy) }?;
        made("aclrtMalloc", pointer)
    }

    /// Allocates `bytes` bytes of pinned host memory.
    pub(crate) fn malloc_host(&self, bytes: usize) -> Result<*mut c_void> {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the out parameter is a live local.
        unsafe { call!(self, aclrtMallocHost, &mut pointer, bytes) }?;
        made("aclrtMallocHost", pointer)
    }

    /// Frees device memory.
    ///
    /// # Safety
    /// `pointer` came from [`malloc`](Self::malloc), it is freed once, and no running or queued
    /// task uses the memory.
    pub(crate) unsafe fn free(&self, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtFree, pointer) }
    }

    /// Frees pinned host memory.
    ///
    /// # Safety
    /// As for [`free`](Self::free), but the pointer came from [`malloc_host`](Self::malloc_host).
    pub(crate) unsafe fn free_host(&self, pointer: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtFreeHost, pointer) }
    }

    /// Registers pages of the program's memory, so that devices can copy to and from them directly.
    ///
    /// # Safety
    /// The pages stay valid until they are [unregistered](Self::unregister_host).
    pub(crate) unsafe fn register_host(&self, pages: *mut c_void, bytes: usize) -> Result<()> {
        // Not used: copies use the host address of the memory.
        let mut device_address = std::ptr::null_mut();
        let kind = aclrtHostRegisterType::ACL_HOST_REGISTER_MAPPED;
        // SAFETY: the caller's promise; the out parameter is a live local.
        unsafe { call!(self, aclrtHostRegister, pages, bytes as u64, kind, &mut device_address) }
    }

    /// Ends the registration of pages.
    ///
    /// # Safety
    /// `pages` were registered, and no running or queued task uses them.
    pub(crate) unsafe fn unregister_host(&self, pages: *mut c_void) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self, aclrtHostUnregister, pages) }
    }

    /// Enqueues a copy.
    ///
    /// # Safety
    /// Both ranges lie in device memory or pinned host memory. They stay allocated, and the host
    /// does not touch them, until the copy is complete.
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

    /// Enqueues a task that fills memory with a byte.
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

/// Returns the object that a function has made. A null pointer is an error even if the function
/// reported success, because it would be used as valid: the host would write to null memory, and
/// CANN would take a null stream for the default stream, which all threads share.
#[inline]
pub(super) fn made(function: &'static str, pointer: *mut c_void) -> Result<*mut c_void> {
    if pointer.is_null() {
        let problem = "the function of CANN reported success, but returned a null pointer: try \
                       another release of the backend"
            .into();
        return Err(Error::Invalid { operation: function, problem });
    }
    Ok(pointer)
}

/// Returns a duration in milliseconds, rounded up so that a wait never ends early. The result is at
/// least 1, because 0 has a different meaning in each function of CANN.
pub(super) fn milliseconds(limit: Duration) -> i32 {
    i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX).max(1)
}
