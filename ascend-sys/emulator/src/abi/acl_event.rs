//! Events.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Milliseconds, Out};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::event::Event;
use crate::message::{Failure, fail};
use crate::stream::{Mark, Stream};
use crate::{capture, context, executor, submit};
use ascend_sys::{
    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, ACL_ERROR_RT_PARAM_INVALID, ACL_EVENT_CAPTURE_STREAM_PROGRESS,
    ACL_EVENT_SYNC, ACL_EVENT_TIME_LINE, aclError, aclrtEvent, aclrtEventRecordedStatus,
    aclrtEventStatus, aclrtEventWaitStatus,
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

    fn aclrtDestroyEvent(event: Handle<Event>) {
        Event::destroy(event.number())
    }

    fn aclrtRecordEvent(event: Handle<Event>, stream: Handle<Stream>) {
        let found = event.find()?;
        capture::record_event(found, event.number(), stream.find()?)
    }

    fn aclrtResetEvent(event: Handle<Event>, stream: Handle<Stream>) {
        let found = event.find()?;
        let stream = stream.find()?;
        submit::submit(stream, ENTRY, found.reset(event.number(), stream)?).map(drop)
    }

    fn aclrtQueryEvent(event: Handle<Event>, status: Out<aclrtEventStatus>) {
        let status = status.required("status")?;
        status.write(if is_complete(&event)? {
            aclrtEventStatus::ACL_EVENT_STATUS_COMPLETE
        } else {
            aclrtEventStatus::ACL_EVENT_STATUS_NOT_READY
        });
        Ok(())
    }

    fn aclrtQueryEventStatus(event: Handle<Event>, status: Out<aclrtEventRecordedStatus>) {
        let status = status.required("status")?;
        status.write(if is_complete(&event)? {
            aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_COMPLETE
        } else {
            aclrtEventRecordedStatus::ACL_EVENT_RECORDED_STATUS_NOT_READY
        });
        Ok(())
    }

    fn aclrtQueryEventWaitStatus(event: Handle<Event>, status: Out<aclrtEventWaitStatus>) {
        let status = status.required("status")?;
        let found = real(&event)?;
        status.write(if found.has_waits() {
            aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_NOT_READY
        } else {
            // Who has waited for it has seen it complete, and now so has the host.
            let _ = found.pending();
            aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_COMPLETE
        });
        Ok(())
    }

    fn aclrtSynchronizeEvent(event: Handle<Event>) {
        synchronise(&event, None)
    }

    fn aclrtSynchronizeEventWithTimeout(event: Handle<Event>, timeout: Milliseconds) {
        synchronise(&event, timeout.limit()?)
    }

    fn aclrtStreamWaitEvent(stream: Handle<Stream>, event: Handle<Event>) {
        wait(&stream, &event, WAIT_SECONDS.load(Ordering::Relaxed))
    }

    fn aclrtStreamWaitEventWithTimeout(stream: Handle<Stream>, event: Handle<Event>, timeout: i32) {
        match u32::try_from(timeout) {
            Ok(seconds) => wait(&stream, &event, seconds),
            Err(_) => fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "timeout is {timeout}; it must be 0 (for ever) or a number of seconds"
            ),
        }
    }

    fn aclrtEventElapsedTime(ms: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        let ms = ms.required("ms")?;
        let (start, end) = (time(&start)?, time(&end)?);
        ms.write((end as f64 - start as f64) as f32 / 1e6);
        Ok(())
    }

    fn aclrtEventGetTimestamp(event: Handle<Event>, timestamp: Out<u64>) {
        let timestamp = timestamp.required("timestamp")?;
        // The system counter, in microseconds.
        timestamp.write(time(&event)? / 1000);
        Ok(())
    }

    each ex in { aclrtCreateEventWithFlag: false, aclrtCreateEventExWithFlag: true }
    fn (event: Out<aclrtEvent>, flag: u32) {
        create(event, flag, ex)
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
fn is_complete(event: &Handle<Event>) -> Result<bool, Failure> {
    let found = real(event)?;
    match found.pending() {
        Ok(None) => Ok(true),
        Ok(Some(mark)) => {
            if let Some(stream) = mark.stream() {
                stream.poll(1);
            }
            Ok(executor::is_complete(mark))
        }
        Err(_) => Ok(false),
    }
}

fn synchronise(event: &Handle<Event>, limit: Option<Duration>) -> Result<(), Failure> {
    may_block()?;
    let found = real(event)?;
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

fn wait(stream: &Handle<Stream>, event: &Handle<Event>, seconds: u32) -> Result<(), Failure> {
    let found = event.find()?;
    let limit = (seconds != 0).then(|| Duration::from_secs(seconds.into()));
    capture::wait_event(found, event.number(), stream.find()?, limit)
}

fn time(event: &Handle<Event>) -> Result<u64, Failure> {
    real(event)?.time()
}

/// The event behind a handle, which no capture that goes on has recorded.
fn real(event: &Handle<Event>) -> Result<&'static Event, Failure> {
    let found = event.find()?;
    capture::is_real(found)?;
    Ok(found)
}
