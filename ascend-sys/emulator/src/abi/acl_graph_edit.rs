//! What CANN has for graphs that are built or edited by hand, or aborted. The emulator captures graphs and executes them; here
//! it says so, with CANN's code for what a device does not support, so that a program that names one of these functions starts.
#![allow(non_snake_case, reason = "CANN's names")]

use super::entries::{Acl, run};
use crate::message::fail;
use ascend_sys::{
    ACL_ERROR_RT_FEATURE_NOT_SUPPORT, Functions, aclError, aclmdlRI, aclmdlRICaptureMode,
    aclmdlRICondHandle, aclmdlRICondHandleFlag, aclmdlRICondTaskParams, aclmdlRITask,
    aclmdlRITaskParams, aclmdlRITaskType, aclrtLaunchKernelAttrId, aclrtLaunchKernelAttrValue,
    aclrtStream,
};
use std::ffi::c_void;

/// ABI entries with these names and arguments behind which there is nothing, and `fill`, which puts them into a table.
macro_rules! unsupported {
    ($($name:ident($($argument:ty),*)),* $(,)?) => {
        pub(super) fn fill(table: &mut Functions) {
            $(table.$name = Some($name);)*
        }

        $(unsafe extern "C" fn $name($(_: $argument),*) -> aclError {
            run::<Acl>(stringify!($name), || {
                fail!(
                    ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                    "on the emulator graphs are captured (aclmdlRICaptureBegin), executed and destroyed; \
                     they are not built, edited or aborted"
                )
            })
        })*
    };
}

unsupported! {
    aclmdlRIBuildBegin(*mut aclmdlRI, u32),
    aclmdlRIBindStream(aclmdlRI, aclrtStream, u32),
    aclmdlRIUnbindStream(aclmdlRI, aclrtStream),
    aclmdlRIEndTask(aclmdlRI, aclrtStream),
    aclmdlRIBuildEnd(aclmdlRI, *mut c_void),
    aclmdlRICaptureToModelRIBegin(aclrtStream, aclmdlRI, aclmdlRICaptureMode),
    aclmdlRIUpdate(aclmdlRI),
    aclmdlRIGetStreams(aclmdlRI, *mut aclrtStream, *mut u32),
    aclmdlRIGetTasksByStream(aclrtStream, *mut aclmdlRITask, *mut u32),
    aclmdlRITaskGetType(aclmdlRITask, *mut aclmdlRITaskType),
    aclmdlRITaskGetSeqId(aclmdlRITask, *mut u32),
    aclmdlRITaskGetParams(aclmdlRITask, *mut aclmdlRITaskParams),
    aclmdlRITaskSetParams(aclmdlRITask, *mut aclmdlRITaskParams),
    aclmdlRITaskDisable(aclmdlRITask),
    aclmdlRIKernelTaskGetAttribute(aclmdlRITask, aclrtLaunchKernelAttrId, *mut aclrtLaunchKernelAttrValue),
    aclmdlRICondHandleCreate(aclmdlRI, u32, aclmdlRICondHandleFlag, *mut aclmdlRICondHandle),
    aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle, *mut *mut u64),
    aclmdlRIAddCondTask(aclmdlRICondTaskParams, aclrtStream, u32),
    aclmdlRIAbort(aclmdlRI),
}
