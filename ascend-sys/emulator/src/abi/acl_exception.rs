//! The entries for callbacks for tasks that fail, and the queries that the callbacks can make.
#![allow(non_snake_case, reason = "CANN's names")]

use super::entries::{Acl, answer, entries};
use crate::exceptions::{self, Exception};
use crate::message::Failure;
use ascend_sys::{aclrtExceptionInfo, aclrtExceptionInfoCallback};

entries! {
    Acl;
    also {
        aclrtGetTaskIdFromExceptionInfo, aclrtGetStreamIdFromExceptionInfo,
        aclrtGetThreadIdFromExceptionInfo, aclrtGetDeviceIdFromExceptionInfo,
        aclrtGetErrorCodeFromExceptionInfo,
    }

    fn aclrtSetExceptionInfoCallback(callback: aclrtExceptionInfoCallback) {
        exceptions::set(callback)
    }

    fn aclrtExceptionInfoCallbackRegister(callback: aclrtExceptionInfoCallback) {
        exceptions::register(callback.ok_or_else(|| Failure::null("callback"))?)
    }

    fn aclrtExceptionInfoCallbackUnregister(callback: aclrtExceptionInfoCallback) {
        exceptions::unregister(callback.ok_or_else(|| Failure::null("callback"))?)
    }
}

/// Returns a number of an exception. Without an exception, returns `u32::MAX`, which is not the
/// number of any task, stream, thread or device.
fn number(
    call: &'static str,
    info: *const aclrtExceptionInfo,
    of: impl FnOnce(Exception) -> u32,
) -> u32 {
    answer::<Acl, u32>(call, u32::MAX, || Ok(of(exceptions::find(info)?)))
}

/// Defines the accessors of an exception, by their names and results.
macro_rules! accessors {
    ($($name:ident: $of:expr;)*) => {$(
        unsafe extern "C" fn $name(info: *const aclrtExceptionInfo) -> u32 {
            number(stringify!($name), info, $of)
        }
    )*};
}

accessors! {
    aclrtGetTaskIdFromExceptionInfo: |exception| exception.task;
    aclrtGetStreamIdFromExceptionInfo: |exception| exception.stream;
    aclrtGetThreadIdFromExceptionInfo: |exception| exception.thread;
    aclrtGetDeviceIdFromExceptionInfo: |exception| exception.device;
    aclrtGetErrorCodeFromExceptionInfo: |exception| exception.code.cast_unsigned();
}
