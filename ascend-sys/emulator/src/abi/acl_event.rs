//! The entries for events.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_ipc::{exporter, own_home};
use super::arguments::{Handle, Milliseconds, Out};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::event::Event;
use crate::ipc::import::import_event;
use crate::ipc::key::{ExportKey, ExportKind, KEY};
use crate::message::{Failure, fail};
use crate::stream::{Mark, Stream};
use crate::{capture, context, executor, submit};
use ascend_sys::{
    ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID,
    ACL_EVENT_CAPTURE_STREAM_PROGRESS, ACL_EVENT_IPC, ACL_EVENT_RECORD_DEFAULT, ACL_EVENT_SYNC,
    ACL_EVENT_TIME_LINE, ACL_EVENT_WAIT_DEFAULT, aclError, aclrtEvent, aclrtEventRecordedStatus,
    aclrtEventStatus, aclrtEventWaitStatus, aclrtIpcEventHandle,
};
use std::ffi::c_char;
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

    fn aclrtRecordEventWithFlag(event: Handle<Event>, stream: Handle<Stream>, flag: u32) {
        of_no_graph(flag, ACL_EVENT_RECORD_DEFAULT)?;
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
        found.is_for_one_process("queried")?;
        status.write(if found.has_waits() {
            aclrtEventWaitStatus::ACL_EVENT_WAIT_STATUS_NOT_READY
        } else {
            // All waiters have seen that the event is complete. This call makes the host see it
            // too.
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

    fn aclrtStreamWaitEventWithFlag(
        stream: Handle<Stream>,
        event: Handle<Event>,
        timeout: u32,
        flag: u32,
    ) {
        of_no_graph(flag, ACL_EVENT_WAIT_DEFAULT)?;
        wait(&stream, &event, timeout)
    }

    fn aclrtGetEventId(event: Handle<Event>, event_id: Out<u32>) {
        let event_id = event_id.required("eventId")?;
        event_id.write(event.find()?.id());
        Ok(())
    }

    fn aclrtGetEventAvailNum(count: Out<u32>) {
        let count = count.required("eventCount")?;
        context::current_device()?;
        count.write(Event::available() as u32);
        Ok(())
    }

    fn aclrtEventElapsedTime(ms: Out<f32>, start: Handle<Event>, end: Handle<Event>) {
        let ms = ms.required("ms")?;
        let (start, end) = (time(&start)?, time(&end)?);
        ms.write((end as f64 - start as f64) as f32 / 1e6);
        Ok(())
    }

    fn aclrtEventGetTimestamp(event: Handle<Event>, timestamp: Out<u64>) {
        let timestamp = timestamp.required("timestamp")?;
        // The timestamp is the system counter in microseconds.
        timestamp.write(time(&event)? / 1000);
        Ok(())
    }

    fn aclrtIpcGetEventHandle(event: Handle<Event>, handle: Out<aclrtIpcEventHandle>) {
        let handle = handle.required("handle")?;
        context::current_device()?;
        let Some(shared) = event.find()?.shared() else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the event was created without ACL_EVENT_IPC; create it by \
                 aclrtCreateEventExWithFlag with that flag"
            );
        };
        let mut made = aclrtIpcEventHandle { reserved: [0; KEY] };
        let text = shared.export(own_home()?)?.text();
        for (place, byte) in made.reserved.iter_mut().zip(text.into_bytes()) {
            *place = byte as c_char;
        }
        handle.write(made);
        Ok(())
    }

    fn aclrtIpcOpenEventHandle(handle: aclrtIpcEventHandle, event: Out<aclrtEvent>) {
        let event = event.required("event")?;
        let key = ExportKey::of(&handle.reserved.map(|byte| byte as u8), ExportKind::Event)?;
        let (_, device) = context::current_device()?;
        let shared = import_event(&exporter(&key)?, &key)?;
        event.write(Event::import(device.id, shared)? as aclrtEvent);
        Ok(())
    }

    each ex in { aclrtCreateEventWithFlag: false, aclrtCreateEventExWithFlag: true }
    fn (event: Out<aclrtEvent>, flag: u32) {
        create(event, flag, ex)
    }
}

/// The flags that the emulator implements, or that it can ignore without a difference for a
/// program.
const KNOWN_FLAGS: u32 = 0x3f;

fn create(to: Out<aclrtEvent>, flags: u32, ex: bool) -> Result<(), Failure> {
    let to = to.required("event")?;
    let known = if ex { KNOWN_FLAGS | ACL_EVENT_IPC } else { KNOWN_FLAGS };
    if flags == 0 || flags & !known != 0 {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "flag is {flags:#x}; pass one or more of the ACL_EVENT_ flags in {known:#x}"
        );
    }
    let (current, _) = context::current_device()?;
    to.write(Event::create(current.device, flags, ex)? as aclrtEvent);
    Ok(())
}

/// Returns whether the event is complete. If it is not, its stream is polled once, because a
/// program may query events without ever making a call that waits.
fn is_complete(event: &Handle<Event>) -> Result<bool, Failure> {
    let found = real(event)?;
    found.is_for_one_process("queried")?;
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
    if let Some(shared) = found.shared() {
        return shared.synchronise(limit);
    }
    let mark = found.mark();
    let complete = found.await_complete(limit).map_err(|deadlock| {
        Failure::new(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, format!("deadlock: {deadlock}"))
    });
    if complete? {
        return mark.or_else(|| found.mark()).map_or(Ok(()), Mark::take_unreported);
    }
    fail!(
        ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        "not complete after {:?}, and {}\nPass a longer timeout if the work only needs more time.",
        limit.unwrap_or_default(),
        found.unfinished()
    )
}

/// The time limit in seconds for the wait of a stream for an event (`aclrtSetOpWaitTimeout`); 0
/// means no limit.
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

/// Returns an error unless the flag is `default`. The other flag is for a graph that records or
/// awaits an event outside of the graph.
fn of_no_graph(flag: u32, default: u32) -> Result<(), Failure> {
    if flag == default {
        return Ok(());
    }
    fail!(
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "flag is {flag}; pass {default} (DEFAULT), the only flag that the emulator supports here"
    )
}

fn time(event: &Handle<Event>) -> Result<u64, Failure> {
    let found = real(event)?;
    found.is_for_one_process("timed")?;
    found.time()
}

/// Returns the event of a handle. Returns an error if a capture that has not ended has recorded the
/// event.
fn real(event: &Handle<Event>) -> Result<&'static Event, Failure> {
    let found = event.find()?;
    capture::is_real(found)?;
    Ok(found)
}
