//! Functions of the program that the library calls.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use ascend_sys::*;

/// The number of calls of these functions by the library.
pub static CALLED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn with_data(_: *mut c_void) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn exception(info: *mut aclrtExceptionInfo) {
    CALLED.fetch_add(1, Ordering::Relaxed);
    // Reads the details here, because `info` is only valid during the callback.
    let asked = [
        ascend_emulator_testing::common::table().aclrtGetTaskIdFromExceptionInfo,
        ascend_emulator_testing::common::table().aclrtGetStreamIdFromExceptionInfo,
        ascend_emulator_testing::common::table().aclrtGetErrorCodeFromExceptionInfo,
    ];
    for get in asked.into_iter().flatten() {
        // SAFETY: `info` is valid for as long as the callback runs.
        unsafe { get(info) };
    }
}

unsafe extern "C" fn state(_: HcclComm, _: HcclCommStatePhase, _: *mut c_void) -> HcclResult {
    CALLED.fetch_add(1, Ordering::Relaxed);
    HcclResult::HCCL_SUCCESS
}

unsafe extern "C" fn device_state(_: i32, _: aclrtDeviceState, _: *mut c_void) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn stream_state(_: aclrtStream, _: aclrtStreamState, _: *mut c_void) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn task_abort(
    _: i32,
    _: aclrtDeviceTaskAbortStage,
    _: u32,
    _: *mut c_void,
) -> std::ffi::c_int {
    CALLED.fetch_add(1, Ordering::Relaxed);
    0
}

unsafe extern "C" fn init(_: *const c_char, _: usize, _: *mut c_void) -> c_int {
    CALLED.fetch_add(1, Ordering::Relaxed);
    0
}

unsafe extern "C" fn finalize(_: *mut c_void) -> c_int {
    CALLED.fetch_add(1, Ordering::Relaxed);
    0
}

/// Returns the address of a callback of this type. Returns 0 for a type that only unsupported
/// functions take, and `None` for a type that is no callback.
pub fn of_type(ty: &str) -> Option<u64> {
    Some(match ty {
        "aclrtCallback" | "aclrtHostFunc" => with_data as *const () as u64,
        "aclrtExceptionInfoCallback" => exception as *const () as u64,
        "aclInitCallbackFunc" => init as *const () as u64,
        "aclFinalizeCallbackFunc" => finalize as *const () as u64,
        "HcclCommStateCallback" => state as *const () as u64,
        "aclrtDeviceStateCallback" => device_state as *const () as u64,
        "aclrtStreamStateCallback" => stream_state as *const () as u64,
        "aclrtDeviceTaskAbortCallback" => task_abort as *const () as u64,
        // Only functions that are not supported take callbacks of other types.
        _ if ["Callback", "CallBack", "Func"].iter().any(|end| ty.ends_with(end)) => 0,
        _ => return None,
    })
}

/// Returns the number of this thread, as `aclrtSubscribeReport` takes it.
pub fn this_thread() -> u64 {
    // SAFETY: has no preconditions.
    unsafe { libc::pthread_self() as u64 }
}
