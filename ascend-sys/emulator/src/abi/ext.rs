//! Our own extension of the ABI: progress counters, failures by ticket, waiting for any activity, blocks of devices.
#![allow(non_snake_case, reason = "the names of the header ascend_ext.h")]

use super::{abi_entry, out, write_text};
use crate::callback::may_block;
use crate::check;
use crate::ending;
use crate::executor;
use crate::faults;
use crate::faults::asked::FaultKind;
use crate::machine::{self, BlockRequest};
use crate::message::{Failure, fail};
use crate::profile::{BUFFER_MEGABYTES, CONNECT_TIMEOUT, EXEC_TIMEOUT, Product};
use crate::stream::Stream;
use crate::timeline;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, ACL_SUCCESS, AscendExtBlockConfig,
    AscendExtCheck, AscendExtFault, AscendExtFindingForm, AscendExtProgress, AscendExtTimelineForm,
    Functions, aclError, aclrtStream,
};
use std::ffi::{c_char, c_void};
use std::time::Duration;

/// Puts the extension into a table.
pub(crate) fn fill(table: &mut Functions) {
    table.ascendExtStreamProgress = Some(ascendExtStreamProgress);
    table.ascendExtStreamFailure = Some(ascendExtStreamFailure);
    table.ascendExtAwaitActivity = Some(ascendExtAwaitActivity);
    table.ascendExtAwaitTask = Some(ascendExtAwaitTask);
    table.ascendExtBlockCreate = Some(ascendExtBlockCreate);
    table.ascendExtBlockDestroy = Some(ascendExtBlockDestroy);
    table.ascendExtFindings = Some(ascendExtFindings);
    table.ascendExtFinding = Some(ascendExtFinding);
    table.ascendExtHostAccess = Some(ascendExtHostAccess);
    table.ascendExtTimelineRecord = Some(ascendExtTimelineRecord);
    table.ascendExtTimeline = Some(ascendExtTimeline);
    table.ascendExtFaultSet = Some(ascendExtFaultSet);
    table.ascendExtFaultClear = Some(ascendExtFaultClear);
}

unsafe extern "C" fn ascendExtStreamProgress(
    stream: aclrtStream,
    progress: *mut *const AscendExtProgress,
) -> aclError {
    abi_entry("ascendExtStreamProgress", || {
        // SAFETY: null, or valid for a write by the C contract.
        let progress = unsafe { out(progress, "progress") }?;
        let stream = Stream::of_current_context(stream as u64)?;
        // Where races are looked for, what the program knows has to be seen.
        let told = check::engine(stream.device_id()).is_none();
        let line = (&raw const stream.queue.progress).cast();
        progress.write(if told { line } else { std::ptr::null() });
        Ok(())
    })
}

unsafe extern "C" fn ascendExtStreamFailure(
    stream: aclrtStream,
    ticket: u64,
    code: *mut aclError,
    text: *mut c_char,
    text_len: usize,
) -> aclError {
    abi_entry("ascendExtStreamFailure", || {
        // SAFETY: null, or valid for a write by the C contract.
        let code = unsafe { out(code, "code") }?;
        let failure = Stream::named(stream as u64)?.failure(ticket);
        code.write(failure.as_ref().map_or(ACL_SUCCESS, Failure::acl_code));
        let words = failure.as_ref().map_or(String::new(), Failure::with_task);
        // SAFETY: null, or valid for `text_len` bytes by the C contract.
        unsafe { write_text(text, text_len, &words) };
        Ok(())
    })
}

unsafe extern "C" fn ascendExtAwaitActivity(activity: *mut u64, timeout_ms: u32) -> aclError {
    abi_entry("ascendExtAwaitActivity", || {
        may_block()?;
        // SAFETY: null, or valid for a read and a write by the C contract.
        let Some(activity) = (unsafe { activity.as_mut() }) else {
            return fail!(ACL_ERROR_INVALID_PARAM, "activity is NULL");
        };
        *activity = executor::await_activity(*activity, Duration::from_millis(timeout_ms.into()));
        Ok(())
    })
}

unsafe extern "C" fn ascendExtAwaitTask(
    stream: aclrtStream,
    ticket: u64,
    timeout_ms: u32,
    patience_ms: u32,
) -> aclError {
    abi_entry("ascendExtAwaitTask", || {
        may_block()?;
        let stream = Stream::named(stream as u64)?;
        let [timeout, patience] =
            [timeout_ms, patience_ms].map(|ms| Duration::from_millis(ms.into()));
        if executor::wait_sliced(stream, ticket, timeout, patience.max(timeout)) {
            return Ok(());
        }
        fail!(
            ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
            "not complete yet, and its work goes on: {}",
            stream.waiting_for()
        )
    })
}

unsafe extern "C" fn ascendExtBlockCreate(
    config: *const AscendExtBlockConfig,
    block: *mut u32,
    first_device: *mut i32,
) -> aclError {
    abi_entry("ascendExtBlockCreate", || {
        // SAFETY: null, or valid by the C contract.
        let (config, block, first) =
            unsafe { (config.as_ref(), out(block, "block")?, out(first_device, "firstDevice")?) };
        let Some(config) = config else { return fail!(ACL_ERROR_INVALID_PARAM, "config is NULL") };
        if config.size as usize != size_of::<AscendExtBlockConfig>() {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "config->size is {}, not sizeof(AscendExtBlockConfig)",
                config.size
            );
        }
        let Some(product) = Product::from_number(config.product) else {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "config->product is {}; 2, 3 or 950 is expected",
                config.product
            );
        };
        if config.check > AscendExtCheck::ASCEND_EXT_CHECK_RACES.0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "config->check is {}; 0 or 1 is expected",
                config.check
            );
        }
        let time = |ms: u32, unset| if ms == 0 { unset } else { Duration::from_millis(ms.into()) };
        let settings = machine::create_block(&BlockRequest {
            count: config.deviceCount,
            product,
            connect_timeout: time(config.connectTimeoutMs, CONNECT_TIMEOUT),
            exec_timeout: time(config.execTimeoutMs, EXEC_TIMEOUT),
            buffer_megabytes: BUFFER_MEGABYTES,
            memory: config.memoryBytes,
            checked: config.check == AscendExtCheck::ASCEND_EXT_CHECK_RACES.0,
        })?;
        block.write(settings.block);
        first.write(settings.first as i32);
        Ok(())
    })
}

unsafe extern "C" fn ascendExtBlockDestroy(block: u32) -> aclError {
    abi_entry("ascendExtBlockDestroy", || {
        may_block()?;
        ending::destroy_block(block)
    })
}

unsafe extern "C" fn ascendExtFindings(block: u32, count: *mut u32) -> aclError {
    abi_entry("ascendExtFindings", || {
        // SAFETY: null, or valid for a write by the C contract.
        let count = unsafe { out(count, "count") }?;
        count.write(check::engine_of_block(block).map_or(0, |engine| engine.count()));
        Ok(())
    })
}

unsafe extern "C" fn ascendExtFinding(
    block: u32,
    index: u32,
    form: AscendExtFindingForm,
    text: *mut c_char,
    text_len: usize,
    length: *mut usize,
) -> aclError {
    abi_entry("ascendExtFinding", || {
        // SAFETY: null, or valid for a write by the C contract.
        let length = unsafe { out(length, "length") }?;
        let picture = match form {
            AscendExtFindingForm::ASCEND_EXT_FINDING_TEXT => false,
            AscendExtFindingForm::ASCEND_EXT_FINDING_SVG => true,
            other => {
                return fail!(ACL_ERROR_INVALID_PARAM, "form is {}; 0 or 1 is expected", other.0);
            }
        };
        let told =
            check::engine_of_block(block).and_then(|engine| check::tell(&engine, index, picture));
        let Some(words) = told else {
            return fail!(ACL_ERROR_INVALID_PARAM, "block {block} has no finding {index}");
        };
        length.write(words.len());
        // SAFETY: null, or valid for `text_len` bytes by the C contract.
        unsafe { write_text(text, text_len, &words) };
        Ok(())
    })
}

unsafe extern "C" fn ascendExtHostAccess(
    pointer: *const c_void,
    bytes: usize,
    write: i32,
) -> aclError {
    abi_entry("ascendExtHostAccess", || {
        check::host_accessed(pointer.addr(), bytes, write != 0);
        Ok(())
    })
}

unsafe extern "C" fn ascendExtTimelineRecord(block: u32, on: i32) -> aclError {
    abi_entry("ascendExtTimelineRecord", || match on {
        1 => timeline::begin(block),
        0 => timeline::end(block),
        other => fail!(ACL_ERROR_INVALID_PARAM, "on is {other}; 0 or 1 is expected"),
    })
}

unsafe extern "C" fn ascendExtTimeline(
    block: u32,
    form: AscendExtTimelineForm,
    text: *mut c_char,
    text_len: usize,
    length: *mut usize,
) -> aclError {
    abi_entry("ascendExtTimeline", || {
        // SAFETY: null, or valid for a write by the C contract.
        let length = unsafe { out(length, "length") }?;
        let words = timeline::tell(block, form)?;
        length.write(words.len());
        // SAFETY: null, or valid for `text_len` bytes by the C contract.
        unsafe { write_text(text, text_len, &words) };
        Ok(())
    })
}

unsafe extern "C" fn ascendExtFaultSet(block: u32, fault: *const AscendExtFault) -> aclError {
    abi_entry("ascendExtFaultSet", || {
        // SAFETY: null, or valid by the C contract.
        let Some(fault) = (unsafe { fault.as_ref() }) else {
            return fail!(ACL_ERROR_INVALID_PARAM, "fault is NULL");
        };
        if fault.size as usize != size_of::<AscendExtFault>() {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "fault->size is {}, not sizeof(AscendExtFault)",
                fault.size
            );
        }
        let Some(kind) = FaultKind::from_number(fault.kind, fault.milliseconds) else {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "fault->kind is {}; 1 to 6 is expected",
                fault.kind
            );
        };
        faults::set(block, fault.device, kind, fault.number)
    })
}

unsafe extern "C" fn ascendExtFaultClear(block: u32, device: u32) -> aclError {
    abi_entry("ascendExtFaultClear", || faults::clear(block, device))
}
