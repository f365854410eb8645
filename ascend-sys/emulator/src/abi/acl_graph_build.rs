//! The entries for graphs that are built without a capture: `aclmdlRIBuild...`.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{Handle, Out};
use super::entries::{Acl, entries};
use crate::capture::build;
use crate::capture::graph::Graph;
use crate::message::fail;
use crate::stream::Stream;
use ascend_sys::{ACL_ERROR_RT_PARAM_INVALID, aclmdlRI};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclmdlRIBuildBegin(model: Out<aclmdlRI>, flag: u32) {
        let model = model.required("modelRI")?;
        if flag != 0 {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "flag is {flag:#x}; it must be 0");
        }
        model.write(build::begin()? as aclmdlRI);
        Ok(())
    }

    // CANN does not publish the values of the flag. Here all streams begin together.
    fn aclmdlRIBindStream(model: Handle<Graph>, stream: Handle<Stream>, _flag: u32) {
        build::bind(model.number(), stream.find()?)
    }

    fn aclmdlRIBuildEnd(model: Handle<Graph>, reserve: *mut c_void) {
        if !reserve.is_null() {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "reserve is {reserve:?}; it must be NULL");
        }
        build::end(model.number())
    }

    each change in { aclmdlRIEndTask: build::end_stream, aclmdlRIUnbindStream: build::unbind }
    fn (model: Handle<Graph>, stream: Handle<Stream>) {
        change(model.number(), stream.find()?)
    }
}
