//! The entries for streams and host functions.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, In, Milliseconds, Out};
use super::entries::{Acl, entries};
use crate::callback::{HostCall, may_block};
use crate::machine;
use crate::message::{Failure, fail};
use crate::state_hooks::tell_stream;
use crate::step::Reason;
use crate::stream::{Mark, Stream};
use crate::stream_end;
use crate::{capture, context, executor, report, submit};
use ascend_sys::{
    ACL_CONTINUE_ON_FAILURE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_NO_STREAM_RESOURCE,
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_STREAM_CONTEXT,
    ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, ACL_STOP_ON_FAILURE, aclrtCallback, aclrtCallbackBlockType,
    aclrtHostFunc, aclrtStream, aclrtStreamAttr, aclrtStreamAttrValue, aclrtStreamState,
    aclrtStreamStatus,
};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

entries! {
    Acl;

    fn aclrtCreateStream(stream: Out<aclrtStream>) {
        create(stream, 0, 0)
    }

    fn aclrtCreateStreamWithConfig(stream: Out<aclrtStream>, priority: u32, flag: u32) {
        if flag & !0x3f != 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "flag is {flag:#x}; pass only ACL_STREAM_ flags, which are 0x1 to 0x20"
            );
        }
        create(stream, priority, flag)
    }

    fn aclrtDestroyStream(stream: Handle<Stream>) {
        let stream = for_destroying(stream)?;
        tell_stream(stream.handle(), aclrtStreamState::ACL_RT_STREAM_STATE_DESTROY_PRE)?;
        executor::wait_before_end(stream, stream.queue.submitted());
        let result = stream.take_unreported();
        stream_end::destroy(stream, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
        result
    }

    fn aclrtDestroyStreamForce(stream: Handle<Stream>) {
        let stream = for_destroying(stream)?;
        tell_stream(stream.handle(), aclrtStreamState::ACL_RT_STREAM_STATE_DESTROY_PRE)?;
        stream_end::destroy(stream, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
        Ok(())
    }

    fn aclrtSynchronizeStream(stream: Handle<Stream>) {
        synchronise(stream, None)
    }

    fn aclrtSynchronizeStreamWithTimeout(stream: Handle<Stream>, timeout: Milliseconds) {
        synchronise(stream, timeout.limit()?)
    }

    fn aclrtStreamQuery(stream: Handle<Stream>, status: Out<aclrtStreamStatus>) {
        let status = status.required("status")?;
        let stream = stream.find()?;
        capture::is_not_captured(stream)?;
        if !stream.queue.is_idle() {
            stream.poll(1);
        }
        status.write(if executor::is_complete(Mark::now(stream)) {
            stream.take_unreported()?;
            aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE
        } else {
            aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY
        });
        Ok(())
    }

    fn aclrtStreamGetId(stream: Handle<Stream>, stream_id: Out<i32>) {
        let stream_id = stream_id.required("streamId")?;
        stream_id.write(stream.find()?.index() as i32);
        Ok(())
    }

    fn aclrtStreamGetFlags(stream: Handle<Stream>, flags: Out<u32>) {
        let flags = flags.required("flags")?;
        flags.write(stream.find()?.flags.load(Ordering::Relaxed));
        Ok(())
    }

    fn aclrtGetStreamAvailableNum(count: Out<u32>) {
        let count = count.required("streamCount")?;
        let (_, device) = context::current_device()?;
        count
            .write(device.product().max_streams().saturating_sub(context::stream_count(device.id))
                as u32);
        Ok(())
    }

    fn aclrtStreamAbort(stream: Handle<Stream>) {
        may_block()?;
        let stream = stream.find()?;
        let last = stream.void(Reason::Aborted);
        stream.release();
        executor::run_out(stream, last);
        Ok(())
    }

    fn aclrtStreamStop(stream: Handle<Stream>) {
        stream.find()?.hold();
        Ok(())
    }

    fn aclrtSetStreamOverflowSwitch(stream: Handle<Stream>, flag: u32) {
        stream.find()?;
        overflow_switch(flag)
    }

    fn aclrtGetStreamOverflowSwitch(stream: Handle<Stream>, flag: Out<u32>) {
        let flag = flag.required("flag")?;
        stream.find()?;
        flag.write(NOT_RECORDED);
        Ok(())
    }

    fn aclrtSetStreamFailureMode(stream: Handle<Stream>, mode: u64) {
        set_failure_mode(stream.find()?, mode)
    }

    fn aclrtStreamGetPriority(stream: Handle<Stream>, priority: Out<u32>) {
        let priority = priority.required("priority")?;
        priority.write(stream.find()?.priority.load(Ordering::Relaxed));
        Ok(())
    }

    fn aclrtSetStreamAttribute(
        stream: Handle<Stream>,
        attribute: aclrtStreamAttr,
        value: In<aclrtStreamAttrValue, *mut aclrtStreamAttrValue>,
    ) {
        let value = value.required("value")?;
        let stream = stream.find()?;
        // SAFETY: every member is a plain number, so any bits are valid.
        let (mode, number) = unsafe { (value.failureMode, value.userCustomTag) };
        match attribute {
            aclrtStreamAttr::ACL_STREAM_ATTR_FAILURE_MODE => set_failure_mode(stream, mode),
            aclrtStreamAttr::ACL_STREAM_ATTR_USER_CUSTOM_TAG => {
                stream.tag.store(number, Ordering::Relaxed);
                Ok(())
            }
            aclrtStreamAttr::ACL_STREAM_ATTR_PRIORITY => {
                stream.priority.store(number, Ordering::Relaxed);
                Ok(())
            }
            aclrtStreamAttr::ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK => overflow_switch(number),
            other => no_attribute(other),
        }
    }

    fn aclrtGetStreamAttribute(
        stream: Handle<Stream>,
        attribute: aclrtStreamAttr,
        value: Out<aclrtStreamAttrValue>,
    ) {
        let value = value.required("value")?;
        let stream = stream.find()?;
        let number = match attribute {
            aclrtStreamAttr::ACL_STREAM_ATTR_FAILURE_MODE => &stream.failure_mode,
            aclrtStreamAttr::ACL_STREAM_ATTR_USER_CUSTOM_TAG => &stream.tag,
            aclrtStreamAttr::ACL_STREAM_ATTR_PRIORITY => &stream.priority,
            aclrtStreamAttr::ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK => &AtomicU32::new(NOT_RECORDED),
            other => return no_attribute(other),
        };
        let mut answer = aclrtStreamAttrValue { reserve: [0; 4] };
        // The members of four bytes share their bytes with the low half of `failureMode`.
        answer.failureMode = number.load(Ordering::Relaxed).into();
        value.write(answer);
        Ok(())
    }

    fn aclrtLaunchHostFunc(stream: Handle<Stream>, function: aclrtHostFunc, args: *mut c_void) {
        let function = function.ok_or_else(|| Failure::null("fn"))?;
        let stream = stream.find()?;
        submit::submit(stream, ENTRY, HostCall::new(function, args)).map(drop)
    }

    fn aclrtProcessReport(timeout: Milliseconds) {
        may_block()?;
        report::process(timeout.limit()?)
    }

    fn aclrtLaunchCallback(
        function: aclrtCallback,
        user_data: *mut c_void,
        block_type: aclrtCallbackBlockType,
        stream: Handle<Stream>,
    ) {
        let function = function.ok_or_else(|| Failure::null("fn"))?;
        let blocks = match block_type {
            aclrtCallbackBlockType::ACL_CALLBACK_NO_BLOCK => false,
            aclrtCallbackBlockType::ACL_CALLBACK_BLOCK => true,
            other => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "blockType is {}; pass 0 (NO_BLOCK) or 1 (BLOCK)",
                    other.0
                );
            }
        };
        report::launch(function, user_data, blocks, stream.find()?)
    }

    each change in {
        aclrtSubscribeReport: report::subscribe,
        aclrtUnSubscribeReport: report::unsubscribe,
    }
    fn (thread_id: u64, stream: Handle<Stream>) {
        change(thread_id, stream.find()?)
    }
}

fn create(to: Out<aclrtStream>, priority: u32, flags: u32) -> Result<(), Failure> {
    let to = to.required("stream")?;
    let (current, device) = context::current_device()?;
    let most = device.product().max_streams();
    if context::stream_count(device.id) >= most {
        return fail!(
            ACL_ERROR_RT_NO_STREAM_RESOURCE,
            "device {} has all {most} streams in use; destroy a stream first",
            machine::named(device.id)
        );
    }
    let stream = context::create_stream(current.context, device, flags)?;
    stream.priority.store(priority, Ordering::Relaxed);
    to.write(stream.handle() as aclrtStream);
    tell_stream(stream.handle(), aclrtStreamState::ACL_RT_STREAM_STATE_CREATE_POST)
}

fn set_failure_mode(stream: &Stream, mode: u64) -> Result<(), Failure> {
    if mode == u64::from(ACL_CONTINUE_ON_FAILURE)
        && stream.failure_mode.load(Ordering::Relaxed) == 0
    {
        return Ok(());
    }
    if mode != u64::from(ACL_STOP_ON_FAILURE) {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "mode is {mode}; pass ACL_STOP_ON_FAILURE (1), the only mode to which a stream can be \
             changed"
        );
    }
    if stream.failure_mode.swap(ACL_STOP_ON_FAILURE, Ordering::Relaxed) == ACL_STOP_ON_FAILURE {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "the failure mode of the stream is set already; set it once for each stream"
        );
    }
    Ok(())
}

/// The only state of the switch for overflows of floats: off.
const NOT_RECORDED: u32 = 0;

fn overflow_switch(flag: u32) -> Result<(), Failure> {
    match flag {
        NOT_RECORDED => Ok(()),
        other => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "the switch for overflows of floats is {other}; \
             the emulator does not record overflows, so pass 0 (off)"
        ),
    }
}

fn no_attribute(attribute: aclrtStreamAttr) -> Result<(), Failure> {
    match attribute {
        aclrtStreamAttr::ACL_STREAM_ATTR_CACHE_OP_INFO => fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "stmAttrType is {}, but the emulator does not store information about the tasks of a \
             program; pass 1, 2, 3 or 5",
            attribute.0
        ),
        other => fail!(ACL_ERROR_RT_PARAM_INVALID, "stmAttrType is {}; pass 1, 2, 3 or 5", other.0),
    }
}

/// Returns a stream to destroy. Returns an error for the default stream, which belongs to its
/// context.
fn for_destroying(stream: Handle<Stream>) -> Result<&'static Stream, Failure> {
    may_block()?;
    let found = stream.find()?;
    capture::is_not_captured(found)?;
    if context::default_stream(context::current()?)? == found.handle() {
        return fail!(
            ACL_ERROR_RT_STREAM_CONTEXT,
            "the default stream ends with its context; destroy only streams that the program has \
             created"
        );
    }
    Ok(found)
}

#[inline]
fn synchronise(stream: Handle<Stream>, limit: Option<Duration>) -> Result<(), Failure> {
    may_block()?;
    let stream = stream.find()?;
    capture::is_not_captured(stream)?;
    let end = Mark::now(stream);
    if executor::wait(stream, end.ticket(), limit) {
        return end.take_unreported();
    }
    fail!(
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        "not idle after {:?}, and {}\nPass a longer timeout if the work only needs more time.",
        limit.unwrap_or_default(),
        stream.unfinished()
    )
}
