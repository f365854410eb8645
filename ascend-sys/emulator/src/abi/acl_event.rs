//! Events.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Out;
use super::entries::{Acl, entries};
use super::raw::limit;
use crate::callback::may_block;
use crate::event::Event;
use crate::message::{Failure, fail};
use crate::stream::{Mark, Stream};
use crate::{capture, check, context};
use ascend_sys::{
    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, ACL_ERROR_RT_PARAM_INVALID, ACL_EVENT_CAPTURE_STREAM_PROGRESS,
    ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE, aclError, aclrtEvent, aclrtEventRecordedStatus,
    aclrtEventStatus, aclrtEventWaitStatus, aclrtStream,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

entries! {
    Acl;
    also { aclrtSetOpWaitTimeout }

    fn aclrtCreateEvent(event: Out<aclrtEvent>) {
        let all = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
        create(event, all, false)
    }

    fn aclrtCreateEventWithFlag(event: Out<aclrtEvent>, flag: u32) {
        create(event, flag, false)
    }

    fn aclrtCreateEventExWithFlag(event: Out<aclrtEvent>, flag: u32) {
        create(event, flag, true)
    }

    fn aclrtDestroyEvent(event: aclrtEvent) {
        Event::destroy(event as u64)
    }

    fn aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream) {
        let found = Event::named(event as u64)?;
        capture::record_event(found, event as u64, Stream::of_current_context(stream as u64)?)
    }

    fn aclrtResetEvent(event: aclrtEvent, stream: aclrtStream) {
        let found = Event::named(event as u64)?;
        let stream = Stream::of_current_context(stream as u64)?;
        check::submit(stream, ENTRY, found.reset(event as u64, stream)?).map(drop)
    }

    fn aclrtQueryEvent(event: aclrtEvent, status: Out<aclrtEventStatus>) {
        let status = status.required("status")?;
        status.write(if is_complete(event)? {
            aclrtEventStatus::ACL_EVENT_STATUS_COMPLETE
        } else {
            aclrtEventStatus::ACL_EVENT_STATUS_NOT_READY
        });
        Ok(())
    }

    fn aclrtQueryEventStatus(event: aclrtEvent, status: Out<aclrtEventRecordedStatus>) {
        let status = status.required("status")?;
        status.write(if is_complete(event)? {
            aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_COMPLETE
        } else {
            aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY
        });
        Ok(())
    }

    fn aclrtQueryEventWaitStatus(event: aclrtEvent, status: Out<aclrtEventWaitStatus>) {
        let status = status.required("status")?;
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
    }

    fn aclrtSynchronizeEvent(event: aclrtEvent) {
        synchronise(event, None)
    }

    fn aclrtSynchronizeEventWithTimeout(event: aclrtEvent, timeout: i32) {
        synchronise(event, limit(timeout)?)
    }

    fn aclrtStreamWaitEvent(stream: aclrtStream, event: aclrtEvent) {
        wait(stream, event, WAIT_SECONDS.load(Ordering::Relaxed))
    }

    fn aclrtStreamWaitEventWithTimeout(stream: aclrtStream, event: aclrtEvent, timeout: i32) {
        match u32::try_from(timeout) {
            Ok(seconds) => wait(stream, event, seconds),
            Err(_) => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "timeout is {timeout}; it must be 0 (for ever) or a number of seconds"
            ),
        }
    }

    fn aclrtEventElapsedTime(ms: Out<f32>, start: aclrtEvent, end: aclrtEvent) {
        let ms = ms.required("ms")?;
        let (start, end) = (time(start)?, time(end)?);
        ms.write((end as f64 - start as f64) as f32 / 1e6);
        Ok(())
    }

    fn aclrtEventGetTimestamp(event: aclrtEvent, timestamp: Out<u64>) {
        let timestamp = timestamp.required("timestamp")?;
        // The system counter, in microseconds.
        timestamp.write(time(event)? / 1000);
        Ok(())
    }
}

/// Flags that the emulator gives a meaning to, or can ignore without changing what a program sees.
const KNOWN_FLAGS: u32 = 0x3f;

fn create(to: Out<aclrtEvent>, flags: u32, ex: bool) -> Result<(), Failure> {
    let to = to.required("event")?;
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
