//! Captured streams and graphs: `aclmdlRI...`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::Out;
use super::entries::{Acl, entries};
use super::raw::limit;
use crate::callback::may_block;
use crate::capture::graph::{self, CallbackArgument, with_complete};
use crate::capture::recording::{self, Status};
use crate::capture::{Mode, exchange_mode, group};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_INVALID_FILE, ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, aclmdlRI,
    aclmdlRICaptureMode, aclmdlRICaptureStatus, aclrtCallback, aclrtStream, aclrtTaskGrp,
};
use std::ffi::{CStr, c_char, c_void};

entries! {
    Acl;

    fn aclmdlRICaptureBegin(stream: aclrtStream, mode: aclmdlRICaptureMode) {
        recording::begin(stream as u64, mode.0)
    }

    fn aclmdlRICaptureGetInfo(
        stream: aclrtStream,
        status: Out<aclmdlRICaptureStatus>,
        model: Out<aclmdlRI>,
    ) {
        let status = status.required("status")?;
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
        model.write_if_asked(graph as aclmdlRI);
        Ok(())
    }

    fn aclmdlRICaptureEnd(stream: aclrtStream, model: Out<aclmdlRI>) {
        let model = model.required("modelRI")?;
        model.write(std::ptr::null_mut());
        model.write(recording::end(Stream::of_current_context(stream as u64)?)? as aclmdlRI);
        Ok(())
    }

    fn aclmdlRICaptureThreadExchangeMode(mode: *mut aclmdlRICaptureMode) {
        // SAFETY: null, or valid for reads and writes by the C contract.
        let Some(mode) = (unsafe { mode.as_mut() }) else {
            return fail!(ACL_ERROR_INVALID_PARAM, "mode is NULL");
        };
        let before = exchange_mode(Mode::of(mode.0)?);
        *mode = aclmdlRICaptureMode(before as u32);
        Ok(())
    }

    fn aclmdlRICaptureTaskGrpBegin(stream: aclrtStream) {
        group::begin(Stream::of_current_context(stream as u64)?)
    }

    fn aclmdlRICaptureTaskGrpEnd(stream: aclrtStream, handle: Out<aclrtTaskGrp>) {
        let handle = handle.required("handle")?;
        handle.write(group::end(Stream::of_current_context(stream as u64)?)? as aclrtTaskGrp);
        Ok(())
    }

    fn aclmdlRICaptureTaskUpdateBegin(stream: aclrtStream, handle: aclrtTaskGrp) {
        group::begin_update(Stream::of_current_context(stream as u64)?, handle as u64)
    }

    fn aclmdlRICaptureTaskUpdateEnd(stream: aclrtStream) {
        group::end_update(Stream::of_current_context(stream as u64)?)
    }

    fn aclmdlRIExecuteAsync(model: aclmdlRI, stream: aclrtStream) {
        graph::execute(model as u64, Stream::of_current_context(stream as u64)?)
    }

    fn aclmdlRIExecute(model: aclmdlRI, timeout: i32) {
        may_block()?;
        graph::execute_and_wait(model as u64, limit(timeout)?)
    }

    fn aclmdlRIDestroy(model: aclmdlRI) {
        if model.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "modelRI is NULL");
        }
        graph::destroy(model as u64)
    }

    fn aclmdlRIDestroyRegisterCallback(
        model: aclmdlRI,
        func: aclrtCallback,
        user_data: *mut c_void,
    ) {
        let Some(func) = func else { return fail!(ACL_ERROR_INVALID_PARAM, "func is NULL") };
        with_complete(model as u64, |state| {
            state.on_destroy.push((func, CallbackArgument(user_data)));
            Ok(())
        })
    }

    fn aclmdlRIDestroyUnregisterCallback(model: aclmdlRI, func: aclrtCallback) {
        let Some(func) = func else { return fail!(ACL_ERROR_INVALID_PARAM, "func is NULL") };
        with_complete(model as u64, |state| {
            let before = state.on_destroy.len();
            state.on_destroy.retain(|(other, _)| !std::ptr::fn_addr_eq(*other, func));
            if state.on_destroy.len() == before {
                return fail!(ACL_ERROR_RT_PARAM_INVALID, "func is not registered");
            }
            Ok(())
        })
    }

    fn aclmdlRISetName(model: aclmdlRI, name: *const c_char) {
        let name = text(name, "name")?;
        with_complete(model as u64, |state| {
            state.name = name.into();
            Ok(())
        })
    }

    fn aclmdlRIGetName(model: aclmdlRI, max_len: u32, name: *mut c_char) {
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
    }

    fn aclmdlRIGetId(model: aclmdlRI, id: Out<u32>) {
        let id = id.required("modelRIId")?;
        with_complete(model as u64, |state| {
            id.write(state.id());
            Ok(())
        })
    }

    fn aclmdlRIDebugPrint(model: aclmdlRI) {
        let text = with_complete(model as u64, |state| Ok(state.to_json()))?;
        println!("{text}");
        Ok(())
    }

    fn aclmdlRIDebugJsonPrint(model: aclmdlRI, path: *const c_char, _flags: u32) {
        let path = text(path, "path")?.to_string_lossy();
        let json = with_complete(model as u64, |state| Ok(state.to_json()))?;
        match std::fs::write(&*path, json) {
            Ok(()) => Ok(()),
            Err(error) => fail!(ACL_ERROR_INVALID_FILE, "cannot write {path}: {error}"),
        }
    }
}

/// A string of the caller.
fn text<'a>(from: *const c_char, argument: &str) -> Result<&'a CStr, Failure> {
    if from.is_null() {
        return fail!(ACL_ERROR_INVALID_PARAM, "{argument} is NULL");
    }
    // SAFETY: not null, so NUL-terminated by the C contract, for the length of the call.
    Ok(unsafe { CStr::from_ptr(from) })
}
