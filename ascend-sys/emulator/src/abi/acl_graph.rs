//! The entries for captured streams and graphs: `aclmdlRI...`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Handle, InOut, Milliseconds, Out, OutSlice};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::capture::graph::{self, CallbackArgument, Graph, with_complete};
use crate::capture::recording::{self, Status};
use crate::capture::{Mode, exchange_mode, group};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_INVALID_FILE, ACL_ERROR_RT_PARAM_INVALID, aclmdlRI, aclmdlRICaptureMode,
    aclmdlRICaptureStatus, aclrtCallback, aclrtTaskGrp,
};
use std::ffi::{c_char, c_void};

entries! {
    Acl;

    fn aclmdlRICaptureBegin(stream: Handle<Stream>, mode: aclmdlRICaptureMode) {
        recording::begin(stream.number(), mode.0)
    }

    fn aclmdlRICaptureGetInfo(
        stream: Handle<Stream>,
        status: Out<aclmdlRICaptureStatus>,
        model: Out<aclmdlRI>,
    ) {
        let status = status.required("status")?;
        let (said, graph) = match recording::status(stream.find()?) {
            Status::None | Status::Bound => (aclmdlRICaptureStatus::ACL_MODEL_RI_CAPTURE_STATUS_NONE, 0),
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

    fn aclmdlRICaptureEnd(stream: Handle<Stream>, model: Out<aclmdlRI>) {
        let model = model.required("modelRI")?;
        model.write(std::ptr::null_mut());
        model.write(recording::end(stream.find()?)? as aclmdlRI);
        Ok(())
    }

    fn aclmdlRICaptureThreadExchangeMode(mode: InOut<aclmdlRICaptureMode>) {
        let (wanted, mode) = mode.required("mode")?;
        let before = exchange_mode(Mode::of(wanted.0)?);
        mode.write(aclmdlRICaptureMode(before as u32));
        Ok(())
    }

    fn aclmdlRICaptureTaskGrpBegin(stream: Handle<Stream>) {
        group::begin(stream.find()?)
    }

    fn aclmdlRICaptureTaskGrpEnd(stream: Handle<Stream>, handle: Out<aclrtTaskGrp>) {
        let handle = handle.required("handle")?;
        handle.write(group::end(stream.find()?)? as aclrtTaskGrp);
        Ok(())
    }

    fn aclmdlRICaptureTaskUpdateBegin(stream: Handle<Stream>, handle: aclrtTaskGrp) {
        group::begin_update(stream.find()?, handle as u64)
    }

    fn aclmdlRICaptureTaskUpdateEnd(stream: Handle<Stream>) {
        group::end_update(stream.find()?)
    }

    fn aclmdlRIExecuteAsync(model: Handle<Graph>, stream: Handle<Stream>) {
        graph::execute(model.number(), stream.find()?)
    }

    fn aclmdlRIExecute(model: Handle<Graph>, timeout: Milliseconds) {
        may_block()?;
        graph::execute_and_wait(model.number(), timeout.limit()?)
    }

    fn aclmdlRIDestroy(model: Handle<Graph>) {
        graph::destroy(model.required("modelRI")?.number())
    }

    fn aclmdlRIDestroyRegisterCallback(
        model: Handle<Graph>,
        func: aclrtCallback,
        user_data: *mut c_void,
    ) {
        let func = func.ok_or_else(|| Failure::null("func"))?;
        with_complete(model.number(), |state| {
            state.on_destroy.push((func, CallbackArgument(user_data)));
            Ok(())
        })
    }

    fn aclmdlRIDestroyUnregisterCallback(model: Handle<Graph>, func: aclrtCallback) {
        let func = func.ok_or_else(|| Failure::null("func"))?;
        with_complete(model.number(), |state| {
            let before = state.on_destroy.len();
            state.on_destroy.retain(|(other, _)| !std::ptr::fn_addr_eq(*other, func));
            if state.on_destroy.len() == before {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "func is not registered; pass a function of aclmdlRIDestroyRegisterCallback"
                );
            }
            Ok(())
        })
    }

    fn aclmdlRISetName(model: Handle<Graph>, name: CText) {
        let name = name.as_it_is("name")?;
        with_complete(model.number(), |state| {
            state.name = name.into();
            Ok(())
        })
    }

    fn aclmdlRIGetName(
        model: Handle<Graph>,
        max_len: u32,
        name: OutSlice<u8, *mut c_char>[max_len],
    ) {
        let name = name.required("name")?;
        with_complete(model.number(), |state| {
            let bytes = state.name.as_bytes_with_nul();
            if bytes.len() > max_len as usize {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "maxLen is {max_len}; pass a buffer of at least {} bytes, for the name and its \
                     NUL",
                    bytes.len()
                );
            }
            name.write(bytes);
            Ok(())
        })
    }

    fn aclmdlRIGetId(model: Handle<Graph>, id: Out<u32>) {
        let id = id.required("modelRIId")?;
        with_complete(model.number(), |state| {
            id.write(state.id());
            Ok(())
        })
    }

    fn aclmdlRIDebugPrint(model: Handle<Graph>) {
        let text = with_complete(model.number(), |state| Ok(state.to_json()))?;
        println!("{text}");
        Ok(())
    }

    fn aclmdlRIDebugJsonPrint(model: Handle<Graph>, path: CText, _flags: u32) {
        let path = path.required("path")?;
        let json = with_complete(model.number(), |state| Ok(state.to_json()))?;
        match std::fs::write(&path, json) {
            Ok(()) => Ok(()),
            Err(error) => fail!(
                ACL_ERROR_INVALID_FILE,
                "cannot write {path}: {error}; pass a path that can be written"
            ),
        }
    }
}
