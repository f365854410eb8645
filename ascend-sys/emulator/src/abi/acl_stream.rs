//! Streams and host functions.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{abi_entry, limit, out};
use crate::callback::{HostCall, may_block};
use crate::ending;
use crate::message::{Failure, fail};
use crate::step::Reason;
use crate::stream::{Mark, Stream};
use crate::{capture, check, context, executor, report};
use ascend_sys::{
    ACL_CONTINUE_ON_FAILURE, ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_NO_STREAM_RESOURCE,
    ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_RT_STREAM_ABORT, ACL_ERROR_RT_STREAM_CONTEXT,
    ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, ACL_STOP_ON_FAILURE, Functions, aclError, aclrtCallback,
    aclrtCallbackBlockType, aclrtHostFunc, aclrtStream, aclrtStreamStatus,
};
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) fn fill(table: &mut Functions) {
    table.aclrtCreateStream = Some(aclrtCreateStream);
    table.aclrtCreateStreamWithConfig = Some(aclrtCreateStreamWithConfig);
    table.aclrtDestroyStream = Some(aclrtDestroyStream);
    table.aclrtDestroyStreamForce = Some(aclrtDestroyStreamForce);
    table.aclrtSynchronizeStream = Some(aclrtSynchronizeStream);
    table.aclrtSynchronizeStreamWithTimeout = Some(aclrtSynchronizeStreamWithTimeout);
    table.aclrtStreamQuery = Some(aclrtStreamQuery);
    table.aclrtStreamGetId = Some(aclrtStreamGetId);
    table.aclrtStreamGetFlags = Some(aclrtStreamGetFlags);
    table.aclrtGetStreamAvailableNum = Some(aclrtGetStreamAvailableNum);
    table.aclrtStreamAbort = Some(aclrtStreamAbort);
    table.aclrtSetStreamFailureMode = Some(aclrtSetStreamFailureMode);
    table.aclrtLaunchHostFunc = Some(aclrtLaunchHostFunc);
    table.aclrtLaunchCallback = Some(aclrtLaunchCallback);
    table.aclrtSubscribeReport = Some(aclrtSubscribeReport);
    table.aclrtProcessReport = Some(aclrtProcessReport);
    table.aclrtUnSubscribeReport = Some(aclrtUnSubscribeReport);
}

unsafe extern "C" fn aclrtCreateStream(stream: *mut aclrtStream) -> aclError {
    abi_entry("aclrtCreateStream", || create(stream, 0))
}

unsafe extern "C" fn aclrtCreateStreamWithConfig(
    stream: *mut aclrtStream,
    _priority: u32,
    flag: u32,
) -> aclError {
    abi_entry("aclrtCreateStreamWithConfig", || {
        if flag & !0x3f != 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "flag is {flag:#x}; only the ACL_STREAM_ flags up to 0x20 exist"
            );
        }
        create(stream, flag)
    })
}

fn create(to: *mut aclrtStream, flags: u32) -> Result<(), Failure> {
    // SAFETY: null, or valid for a write by the C contract.
    let to = unsafe { out(to, "stream") }?;
    let (current, device) = context::current_device()?;
    let most = device.product().max_streams();
    if context::stream_count(device.id) >= most {
        return fail!(
            ACL_ERROR_RT_NO_STREAM_RESOURCE,
            "device {} has all {most} streams in use",
            device.id
        );
    }
    to.write(context::create_stream(current.context, device, flags)?.handle() as aclrtStream);
    Ok(())
}

/// A stream to destroy: not the default one, which belongs to the context.
fn for_destroying(stream: aclrtStream) -> Result<&'static Stream, Failure> {
    may_block()?;
    let found = Stream::of_current_context(stream as u64)?;
    capture::is_not_captured(found)?;
    if context::default_stream(context::current()?)? == found.handle() {
        return fail!(ACL_ERROR_RT_STREAM_CONTEXT, "the default stream goes with its context");
    }
    Ok(found)
}

unsafe extern "C" fn aclrtDestroyStream(stream: aclrtStream) -> aclError {
    abi_entry("aclrtDestroyStream", || {
        let stream = for_destroying(stream)?;
        executor::wait_idle(stream);
        let result = stream.take_unreported();
        ending::stream::destroy(stream, ACL_ERROR_RT_STREAM_ABORT, Reason::Aborted);
        result
    })
}

unsafe extern "C" fn aclrtDestroyStreamForce(stream: aclrtStream) -> aclError {
    abi_entry("aclrtDestroyStreamForce", || {
        ending::stream::destroy(
            for_destroying(stream)?,
            ACL_ERROR_RT_STREAM_ABORT,
            Reason::Aborted,
        );
        Ok(())
    })
}

unsafe extern "C" fn aclrtSynchronizeStream(stream: aclrtStream) -> aclError {
    abi_entry("aclrtSynchronizeStream", || synchronise(stream, None))
}

unsafe extern "C" fn aclrtSynchronizeStreamWithTimeout(
    stream: aclrtStream,
    timeout: i32,
) -> aclError {
    abi_entry("aclrtSynchronizeStreamWithTimeout", || synchronise(stream, limit(timeout)?))
}

#[inline]
fn synchronise(stream: aclrtStream, limit: Option<Duration>) -> Result<(), Failure> {
    may_block()?;
    let stream = Stream::of_current_context(stream as u64)?;
    capture::is_not_captured(stream)?;
    let end = Mark::now(stream);
    if executor::wait(stream, end.ticket(), limit) {
        return end.take_unreported();
    }
    fail!(
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        "not idle after {:?}, and its work goes on: {}",
        limit.unwrap_or_default(),
        stream.waiting_for()
    )
}

unsafe extern "C" fn aclrtStreamQuery(
    stream: aclrtStream,
    status: *mut aclrtStreamStatus,
) -> aclError {
    abi_entry("aclrtStreamQuery", || {
        // SAFETY: null, or valid for a write by the C contract.
        let status = unsafe { out(status, "status") }?;
        let stream = Stream::of_current_context(stream as u64)?;
        capture::is_not_captured(stream)?;
        if !stream.queue.is_idle() {
            stream.poll(1);
        }
        status.write(if stream.queue.is_idle() {
            check::host_saw(stream, stream.queue.completed());
            stream.take_unreported()?;
            aclrtStreamStatus::ACL_STREAM_STATUS_COMPLETE
        } else {
            aclrtStreamStatus::ACL_STREAM_STATUS_NOT_READY
        });
        Ok(())
    })
}

unsafe extern "C" fn aclrtStreamGetId(stream: aclrtStream, stream_id: *mut i32) -> aclError {
    abi_entry("aclrtStreamGetId", || {
        // SAFETY: null, or valid for a write by the C contract.
        unsafe { out(stream_id, "streamId") }?
            .write(Stream::of_current_context(stream as u64)?.index() as i32);
        Ok(())
    })
}

unsafe extern "C" fn aclrtStreamGetFlags(stream: aclrtStream, flags: *mut u32) -> aclError {
    abi_entry("aclrtStreamGetFlags", || {
        // SAFETY: null, or valid for a write by the C contract.
        let flags = unsafe { out(flags, "flags") }?;
        flags.write(Stream::of_current_context(stream as u64)?.flags.load(Ordering::Relaxed));
        Ok(())
    })
}

unsafe extern "C" fn aclrtGetStreamAvailableNum(count: *mut u32) -> aclError {
    abi_entry("aclrtGetStreamAvailableNum", || {
        // SAFETY: null, or valid for a write by the C contract.
        let count = unsafe { out(count, "streamCount") }?;
        let (_, device) = context::current_device()?;
        count
            .write(device.product().max_streams().saturating_sub(context::stream_count(device.id))
                as u32);
        Ok(())
    })
}

unsafe extern "C" fn aclrtStreamAbort(stream: aclrtStream) -> aclError {
    abi_entry("aclrtStreamAbort", || {
        may_block()?;
        let stream = Stream::of_current_context(stream as u64)?;
        let last = stream.void(Reason::Aborted);
        executor::wait(stream, last, None);
        Ok(())
    })
}

unsafe extern "C" fn aclrtSetStreamFailureMode(stream: aclrtStream, mode: u64) -> aclError {
    abi_entry("aclrtSetStreamFailureMode", || {
        let stream = Stream::of_current_context(stream as u64)?;
        if mode == u64::from(ACL_CONTINUE_ON_FAILURE)
            && stream.failure_mode.load(Ordering::Relaxed) == 0
        {
            return Ok(());
        }
        if mode != u64::from(ACL_STOP_ON_FAILURE) {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "mode is {mode}; ACL_STOP_ON_FAILURE (1) can be set, and not be taken back"
            );
        }
        if stream.failure_mode.swap(ACL_STOP_ON_FAILURE, Ordering::Relaxed) == ACL_STOP_ON_FAILURE {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the failure mode of a stream can be set once"
            );
        }
        Ok(())
    })
}

unsafe extern "C" fn aclrtLaunchHostFunc(
    stream: aclrtStream,
    function: aclrtHostFunc,
    args: *mut c_void,
) -> aclError {
    abi_entry("aclrtLaunchHostFunc", || {
        let Some(function) = function else { return fail!(ACL_ERROR_INVALID_PARAM, "fn is NULL") };
        let stream = Stream::of_current_context(stream as u64)?;
        check::submit(stream, "aclrtLaunchHostFunc", HostCall::new(function, args)).map(drop)
    })
}

unsafe extern "C" fn aclrtSubscribeReport(thread_id: u64, stream: aclrtStream) -> aclError {
    abi_entry("aclrtSubscribeReport", || {
        report::subscribe(thread_id, Stream::of_current_context(stream as u64)?)
    })
}

unsafe extern "C" fn aclrtUnSubscribeReport(thread_id: u64, stream: aclrtStream) -> aclError {
    abi_entry("aclrtUnSubscribeReport", || {
        report::unsubscribe(thread_id, Stream::of_current_context(stream as u64)?)
    })
}

unsafe extern "C" fn aclrtProcessReport(timeout: i32) -> aclError {
    abi_entry("aclrtProcessReport", || {
        may_block()?;
        report::process(limit(timeout)?)
    })
}

unsafe extern "C" fn aclrtLaunchCallback(
    function: aclrtCallback,
    user_data: *mut c_void,
    block_type: aclrtCallbackBlockType,
    stream: aclrtStream,
) -> aclError {
    abi_entry("aclrtLaunchCallback", || {
        let Some(function) = function else { return fail!(ACL_ERROR_INVALID_PARAM, "fn is NULL") };
        let blocks = match block_type {
            aclrtCallbackBlockType::ACL_CALLBACK_NO_BLOCK => false,
            aclrtCallbackBlockType::ACL_CALLBACK_BLOCK => true,
            other => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "blockType is {}; 0 or 1 is expected",
                    other.0
                );
            }
        };
        report::launch(function, user_data, blocks, Stream::of_current_context(stream as u64)?)
    })
}
