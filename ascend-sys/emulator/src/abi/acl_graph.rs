//! Captured streams and graphs: `aclmdlRI...`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{abi_entry, limit, out};
use crate::callback::may_block;
use crate::capture::graph::{self, CallbackArgument, with_complete};
use crate::capture::recording::{self, Status};
use crate::capture::{Mode, exchange_mode, group};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_INVALID_FILE, ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, Functions,
    aclError, aclmdlRI, aclmdlRICaptureMode, aclmdlRICaptureStatus, aclrtCallback, aclrtStream,
    aclrtTaskGrp,
};
use std::ffi::{CStr, c_char, c_void};

pub(super) fn fill(table: &mut Functions) {
    table.aclmdlRICaptureBegin = Some(aclmdlRICaptureBegin);
    table.aclmdlRICaptureGetInfo = Some(aclmdlRICaptureGetInfo);
    table.aclmdlRICaptureEnd = Some(aclmdlRICaptureEnd);
    table.aclmdlRICaptureThreadExchangeMode = Some(aclmdlRICaptureThreadExchangeMode);
    table.aclmdlRICaptureTaskGrpBegin = Some(aclmdlRICaptureTaskGrpBegin);
    table.aclmdlRICaptureTaskGrpEnd = Some(aclmdlRICaptureTaskGrpEnd);
    table.aclmdlRICaptureTaskUpdateBegin = Some(aclmdlRICaptureTaskUpdateBegin);
    table.aclmdlRICaptureTaskUpdateEnd = Some(aclmdlRICaptureTaskUpdateEnd);
    table.aclmdlRIExecuteAsync = Some(aclmdlRIExecuteAsync);
    table.aclmdlRIExecute = Some(aclmdlRIExecute);
    table.aclmdlRIDestroy = Some(aclmdlRIDestroy);
    table.aclmdlRIDestroyRegisterCallback = Some(aclmdlRIDestroyRegisterCallback);
    table.aclmdlRIDestroyUnregisterCallback = Some(aclmdlRIDestroyUnregisterCallback);
    table.aclmdlRISetName = Some(aclmdlRISetName);
    table.aclmdlRIGetName = Some(aclmdlRIGetName);
    table.aclmdlRIGetId = Some(aclmdlRIGetId);
    table.aclmdlRIDebugPrint = Some(aclmdlRIDebugPrint);
    table.aclmdlRIDebugJsonPrint = Some(aclmdlRIDebugJsonPrint);
}

unsafe extern "C" fn aclmdlRICaptureBegin(
    stream: aclrtStream,
    mode: aclmdlRICaptureMode,
) -> aclError {
    abi_entry("aclmdlRICaptureBegin", || recording::begin(stream as u64, mode.0))
}

unsafe extern "C" fn aclmdlRICaptureGetInfo(
    stream: aclrtStream,
    status: *mut aclmdlRICaptureStatus,
    model: *mut aclmdlRI,
) -> aclError {
    abi_entry("aclmdlRICaptureGetInfo", || {
        // SAFETY: null, or valid for a write by the C contract.
        let status = unsafe { out(status, "status") }?;
        let (said, graph) = match recording::status(Stream::of_current_context(stream as u64)?) {
            Status::None => (aclmdlRICaptureStatus::ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0),
            Status::Active(graph) => {
                (aclmdlRICaptureStatus::ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE, graph)
            }
            Status::Invalidated => {
                (aclmdlRICaptureStatus::ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED, 0)
            }
        };
        status.write(said);
        // SAFETY: null, or valid for a write by the C contract; null means that nobody asks.
        if let Some(model) = unsafe { model.as_mut() } {
            *model = graph as aclmdlRI;
        }
        Ok(())
    })
}

unsafe extern "C" fn aclmdlRICaptureEnd(stream: aclrtStream, model: *mut aclmdlRI) -> aclError {
    abi_entry("aclmdlRICaptureEnd", || {
        // SAFETY: null, or valid for a write by the C contract.
        let model = unsafe { out(model, "modelRI") }?;
        model.write(std::ptr::null_mut());
        model.write(recording::end(Stream::of_current_context(stream as u64)?)? as aclmdlRI);
        Ok(())
    })
}

unsafe extern "C" fn aclmdlRICaptureThreadExchangeMode(mode: *mut aclmdlRICaptureMode) -> aclError {
    abi_entry("aclmdlRICaptureThreadExchangeMode", || {
        // SAFETY: null, or valid for reads and writes by the C contract.
        let Some(mode) = (unsafe { mode.as_mut() }) else {
            return fail!(ACL_ERROR_INVALID_PARAM, "mode is NULL");
        };
        let before = exchange_mode(Mode::of(mode.0)?);
        *mode = aclmdlRICaptureMode(before as u32);
        Ok(())
    })
}

unsafe extern "C" fn aclmdlRICaptureTaskGrpBegin(stream: aclrtStream) -> aclError {
    abi_entry("aclmdlRICaptureTaskGrpBegin", || {
        group::begin(Stream::of_current_context(stream as u64)?)
    })
}

unsafe extern "C" fn aclmdlRICaptureTaskGrpEnd(
    stream: aclrtStream,
    handle: *mut aclrtTaskGrp,
) -> aclError {
    abi_entry("aclmdlRICaptureTaskGrpEnd", || {
        // SAFETY: null, or valid for a write by the C contract.
        let handle = unsafe { out(handle, "handle") }?;
        handle.write(group::end(Stream::of_current_context(stream as u64)?)? as aclrtTaskGrp);
        Ok(())
    })
}

unsafe extern "C" fn aclmdlRICaptureTaskUpdateBegin(
    stream: aclrtStream,
    handle: aclrtTaskGrp,
) -> aclError {
    abi_entry("aclmdlRICaptureTaskUpdateBegin", || {
        group::begin_update(Stream::of_current_context(stream as u64)?, handle as u64)
    })
}

unsafe extern "C" fn aclmdlRICaptureTaskUpdateEnd(stream: aclrtStream) -> aclError {
    abi_entry("aclmdlRICaptureTaskUpdateEnd", || {
        group::end_update(Stream::of_current_context(stream as u64)?)
    })
}

unsafe extern "C" fn aclmdlRIExecuteAsync(model: aclmdlRI, stream: aclrtStream) -> aclError {
    abi_entry("aclmdlRIExecuteAsync", || {
        graph::execute(model as u64, Stream::of_current_context(stream as u64)?)
    })
}

unsafe extern "C" fn aclmdlRIExecute(model: aclmdlRI, timeout: i32) -> aclError {
    abi_entry("aclmdlRIExecute", || {
        may_block()?;
        graph::execute_and_wait(model as u64, limit(timeout)?)
    })
}

unsafe extern "C" fn aclmdlRIDestroy(model: aclmdlRI) -> aclError {
    abi_entry("aclmdlRIDestroy", || {
        if model.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "modelRI is NULL");
        }
        graph::destroy(model as u64)
    })
}

unsafe extern "C" fn aclmdlRIDestroyRegisterCallback(
    model: aclmdlRI,
    func: aclrtCallback,
    user_data: *mut c_void,
) -> aclError {
    abi_entry("aclmdlRIDestroyRegisterCallback", || {
        let Some(func) = func else { return fail!(ACL_ERROR_INVALID_PARAM, "func is NULL") };
        with_complete(model as u64, |state| {
            state.on_destroy.push((func, CallbackArgument(user_data)));
            Ok(())
        })
    })
}

unsafe extern "C" fn aclmdlRIDestroyUnregisterCallback(
    model: aclmdlRI,
    func: aclrtCallback,
) -> aclError {
    abi_entry("aclmdlRIDestroyUnregisterCallback", || {
        let Some(func) = func else { return fail!(ACL_ERROR_INVALID_PARAM, "func is NULL") };
        with_complete(model as u64, |state| {
            let before = state.on_destroy.len();
            state.on_destroy.retain(|(other, _)| !std::ptr::fn_addr_eq(*other, func));
            if state.on_destroy.len() == before {
                return fail!(ACL_ERROR_RT_PARAM_INVALID, "func is not registered");
            }
            Ok(())
        })
    })
}

unsafe extern "C" fn aclmdlRISetName(model: aclmdlRI, name: *const c_char) -> aclError {
    abi_entry("aclmdlRISetName", || {
        let name = text(name, "name")?;
        with_complete(model as u64, |state| {
            state.name = name.into();
            Ok(())
        })
    })
}

unsafe extern "C" fn aclmdlRIGetName(model: aclmdlRI, max_len: u32, name: *mut c_char) -> aclError {
    abi_entry("aclmdlRIGetName", || {
        if name.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "name is NULL");
        }
        with_complete(model as u64, |state| {
            let bytes = state.name.as_bytes_with_nul();
            if bytes.len() > max_len as usize {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "maxLen is {max_len}; the name needs {} bytes with its end",
                    bytes.len()
                );
            }
            // SAFETY: not null, and valid for writes of `max_len` bytes by the C contract.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), name.cast::<u8>(), bytes.len());
            }
            Ok(())
        })
    })
}

unsafe extern "C" fn aclmdlRIGetId(model: aclmdlRI, id: *mut u32) -> aclError {
    abi_entry("aclmdlRIGetId", || {
        // SAFETY: null, or valid for a write by the C contract.
        let id = unsafe { out(id, "modelRIId") }?;
        with_complete(model as u64, |state| {
            id.write(state.id());
            Ok(())
        })
    })
}

unsafe extern "C" fn aclmdlRIDebugPrint(model: aclmdlRI) -> aclError {
    abi_entry("aclmdlRIDebugPrint", || {
        let text = with_complete(model as u64, |state| Ok(state.to_json()))?;
        println!("{text}");
        Ok(())
    })
}

unsafe extern "C" fn aclmdlRIDebugJsonPrint(
    model: aclmdlRI,
    path: *const c_char,
    _flags: u32,
) -> aclError {
    abi_entry("aclmdlRIDebugJsonPrint", || {
        let path = text(path, "path")?.to_string_lossy();
        let json = with_complete(model as u64, |state| Ok(state.to_json()))?;
        match std::fs::write(&*path, json) {
            Ok(()) => Ok(()),
            Err(error) => fail!(ACL_ERROR_INVALID_FILE, "cannot write {path}: {error}"),
        }
    })
}

/// A string of the caller.
fn text<'a>(from: *const c_char, argument: &str) -> Result<&'a CStr, Failure> {
    if from.is_null() {
        return fail!(ACL_ERROR_INVALID_PARAM, "{argument} is NULL");
    }
    // SAFETY: not null, so NUL-terminated by the C contract, for the length of the call.
    Ok(unsafe { CStr::from_ptr(from) })
}
