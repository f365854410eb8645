//! Events.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{abi_entry, limit, out};
use crate::callback::may_block;
use crate::event::Event;
use crate::message::{Failure, fail};
use crate::stream::{Mark, Stream};
use crate::{capture, check, context};
use ascend_sys::{
    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, ACL_ERROR_RT_PARAM_INVALID, ACL_EVENT_CAPTURE_STREAM_PROGRESS,
    ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE, Functions, aclError, aclrtEvent, aclrtEventRecordedStatus,
    aclrtEventStatus, aclrtEventWaitStatus, aclrtStream,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(super) fn fill(table: &mut Functions) {
    table.aclrtCreateEvent = Some(aclrtCreateEvent);
    table.aclrtCreateEventWithFlag = Some(aclrtCreateEventWithFlag);
    table.aclrtCreateEventExWithFlag = Some(aclrtCreateEventExWithFlag);
    table.aclrtDestroyEvent = Some(aclrtDestroyEvent);
    table.aclrtRecordEvent = Some(aclrtRecordEvent);
    table.aclrtResetEvent = Some(aclrtResetEvent);
    table.aclrtQueryEvent = Some(aclrtQueryEvent);
    table.aclrtQueryEventStatus = Some(aclrtQueryEventStatus);
    table.aclrtQueryEventWaitStatus = Some(aclrtQueryEventWaitStatus);
    table.aclrtSynchronizeEvent = Some(aclrtSynchronizeEvent);
    table.aclrtSynchronizeEventWithTimeout = Some(aclrtSynchronizeEventWithTimeout);
    table.aclrtStreamWaitEvent = Some(aclrtStreamWaitEvent);
    table.aclrtStreamWaitEventWithTimeout = Some(aclrtStreamWaitEventWithTimeout);
    table.aclrtSetOpWaitTimeout = Some(aclrtSetOpWaitTimeout);
    table.aclrtEventElapsedTime = Some(aclrtEventElapsedTime);
    table.aclrtEventGetTimestamp = Some(aclrtEventGetTimestamp);
}

/// Flags that the emulator gives a meaning to, or can ignore without changing what a program sees.
const KNOWN_FLAGS: u32 = 0x3f;

unsafe extern "C" fn aclrtCreateEvent(event: *mut aclrtEvent) -> aclError {
    let all = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
    abi_entry("aclrtCreateEvent", || create(event, all, false))
}

unsafe extern "C" fn aclrtCreateEventWithFlag(event: *mut aclrtEvent, flag: u32) -> aclError {
    abi_entry("aclrtCreateEventWithFlag", || create(event, flag, false))
}

unsafe extern "C" fn aclrtCreateEventExWithFlag(event: *mut aclrtEvent, flag: u32) -> aclError {
    abi_entry("aclrtCreateEventExWithFlag", || create(event, flag, true))
}

fn create(to: *mut aclrtEvent, flags: u32, ex: bool) -> Result<(), Failure> {
    // SAFETY: null, or valid for a write by the C contract.
    let to = unsafe { out(to, "event") }?;
    if flags == 0 || flags & !KNOWN_FLAGS != 0 {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "flag is {flags:#x}; ACL_EVENT_ flags from {KNOWN_FLAGS:#x} are supported here"
        );
    }
    let (current, _) = context::current_device()?;
    to.write(Event::create(current.device, flags, ex)? as aclrtEvent);
    Ok(())
}

unsafe extern "C" fn aclrtDestroyEvent(event: aclrtEvent) -> aclError {
    abi_entry("aclrtDestroyEvent", || Event::destroy(event as u64))
}

unsafe extern "C" fn aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream) -> aclError {
    abi_entry("aclrtRecordEvent", || {
        let found = Event::named(event as u64)?;
        capture::record_event(found, event as u64, Stream::of_current_context(stream as u64)?)
    })
}

unsafe extern "C" fn aclrtResetEvent(event: aclrtEvent, stream: aclrtStream) -> aclError {
    abi_entry("aclrtResetEvent", || {
        let found = Event::named(event as u64)?;
        let stream = Stream::of_current_context(stream as u64)?;
        check::submit(stream, "aclrtResetEvent", found.reset(event as u64, stream)?).map(drop)
    })
}

/// Whether the event is complete. An unfinished stream is polled once: a program may only ever query.
fn is_complete(event: aclrtEvent) -> Result<bool, Failure> {
    let found = Event::named(event as u64)?;
    capture::is_real(found)?;
    match found.pending() {
        Ok(None) => Ok(true),
        Ok(Some(mark)) => {
            if let Some(stream) = mark.stream() {
                stream.poll(1);
            }
            let complete = mark.is_complete();
            if complete {
                check::host_saw_mark(mark);
            }
            Ok(complete)
        }
        Err(_) => Ok(false),
    }
}

unsafe extern "C" fn aclrtQueryEvent(event: aclrtEvent, status: *mut aclrtEventStatus) -> aclError {
    abi_entry("aclrtQueryEvent", || {
        // SAFETY: null, or valid for a write by the C contract.
        let status = unsafe { out(status, "status") }?;
        status.write(if is_complete(event)? {
            aclrtEventStatus::ACL_EVENT_STATUS_COMPLETE
        } else {
            aclrtEventStatus::ACL_EVENT_STATUS_NOT_READY
        });
        Ok(())
    })
}

unsafe extern "C" fn aclrtQueryEventStatus(
    event: aclrtEvent,
    status: *mut aclrtEventRecordedStatus,
) -> aclError {
    abi_entry("aclrtQueryEventStatus", || {
        // SAFETY: null, or valid for a write by the C contract.
        let status = unsafe { out(status, "status") }?;
        status.write(if is_complete(event)? {
            aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_COMPLETE
        } else {
            aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY
        });
        Ok(())
    })
}

unsafe extern "C" fn aclrtQueryEventWaitStatus(
    event: aclrtEvent,
    status: *mut aclrtEventWaitStatus,
) -> aclError {
    abi_entry("aclrtQueryEventWaitStatus", || {
        // SAFETY: null, or valid for a write by the C contract.
        let status = unsafe { out(status, "status") }?;
        let found = Event::named(event as u64)?;
        capture::is_real(found)?;
        status.write(if found.has_waits() {
            aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_NOT_READY
        } else {
            // Who has waited for it has seen it complete, and now so has the host.
            let _ = found.pending();
            aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_COMPLETE
        });
        Ok(())
    })
}

unsafe extern "C" fn aclrtSynchronizeEvent(event: aclrtEvent) -> aclError {
    abi_entry("aclrtSynchronizeEvent", || synchronise(event, None))
}

unsafe extern "C" fn aclrtSynchronizeEventWithTimeout(event: aclrtEvent, timeout: i32) -> aclError {
    abi_entry("aclrtSynchronizeEventWithTimeout", || synchronise(event, limit(timeout)?))
}

fn synchronise(event: aclrtEvent, limit: Option<Duration>) -> Result<(), Failure> {
    may_block()?;
    let found = Event::named(event as u64)?;
    capture::is_real(found)?;
    let mark = found.mark();
    if found.await_complete(limit) {
        return mark.or_else(|| found.mark()).map_or(Ok(()), Mark::take_unreported);
    }
    fail!(
        ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        "not complete after {:?}, and its work goes on: {}",
        limit.unwrap_or_default(),
        found.waiting_for()
    )
}

/// `aclrtSetOpWaitTimeout`: seconds that a stream waits for an event; 0 is for ever.
static WAIT_SECONDS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn aclrtSetOpWaitTimeout(timeout: u32) -> aclError {
    WAIT_SECONDS.store(timeout, Ordering::Relaxed);
    ascend_sys::ACL_SUCCESS
}

unsafe extern "C" fn aclrtStreamWaitEvent(stream: aclrtStream, event: aclrtEvent) -> aclError {
    abi_entry("aclrtStreamWaitEvent", || wait(stream, event, WAIT_SECONDS.load(Ordering::Relaxed)))
}

unsafe extern "C" fn aclrtStreamWaitEventWithTimeout(
    stream: aclrtStream,
    event: aclrtEvent,
    timeout: i32,
) -> aclError {
    abi_entry("aclrtStreamWaitEventWithTimeout", || match u32::try_from(timeout) {
        Ok(seconds) => wait(stream, event, seconds),
        Err(_) => fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "timeout is {timeout}; it must be 0 (for ever) or a number of seconds"
        ),
    })
}

fn wait(stream: aclrtStream, event: aclrtEvent, seconds: u32) -> Result<(), Failure> {
    let found = Event::named(event as u64)?;
    let limit = (seconds != 0).then(|| Duration::from_secs(seconds.into()));
    capture::wait_event(found, event as u64, Stream::of_current_context(stream as u64)?, limit)
}

fn time(event: aclrtEvent) -> Result<u64, Failure> {
    let found = Event::named(event as u64)?;
    capture::is_real(found)?;
    found.time()
}

unsafe extern "C" fn aclrtEventElapsedTime(
    ms: *mut f32,
    start: aclrtEvent,
    end: aclrtEvent,
) -> aclError {
    abi_entry("aclrtEventElapsedTime", || {
        // SAFETY: null, or valid for a write by the C contract.
        let ms = unsafe { out(ms, "ms") }?;
        let (start, end) = (time(start)?, time(end)?);
        ms.write((end as f64 - start as f64) as f32 / 1e6);
        Ok(())
    })
}

unsafe extern "C" fn aclrtEventGetTimestamp(event: aclrtEvent, timestamp: *mut u64) -> aclError {
    abi_entry("aclrtEventGetTimestamp", || {
        // SAFETY: null, or valid for a write by the C contract.
        let timestamp = unsafe { out(timestamp, "timestamp") }?;
        // The system counter, in microseconds.
        timestamp.write(time(event)? / 1000);
        Ok(())
    })
}
