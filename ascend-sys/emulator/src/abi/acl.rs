//! Initialisation, error texts, small questions, and the list of all ACL entries.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{
    abi_entry, acl_copy, acl_device, acl_event, acl_graph, acl_graph_edit, acl_kernel,
    acl_kernel_args, acl_launch, acl_memory, acl_notify, acl_stream, out,
};
use crate::message::{self, Failure, fail};
use crate::profile::Product;
use crate::{context, machine};
use ascend_sys::{
    ACL_ERROR_INVALID_FILE, ACL_ERROR_REPEAT_FINALIZE, ACL_ERROR_REPEAT_INITIALIZE, Functions,
    aclError, aclFloat16, aclrtLastErrLevel, aclrtRunMode,
};
use std::ffi::{CStr, c_char};
use std::sync::Mutex;

/// Puts the ACL functions into a table.
pub(crate) fn fill(table: &mut Functions) {
    table.aclInit = Some(aclInit);
    table.aclFinalize = Some(aclFinalize);
    table.aclFinalizeReference = Some(aclFinalizeReference);
    table.aclGetRecentErrMsg = Some(aclGetRecentErrMsg);
    table.aclrtPeekAtLastError = Some(aclrtPeekAtLastError);
    table.aclrtGetLastError = Some(aclrtGetLastError);
    table.aclrtGetSocName = Some(aclrtGetSocName);
    table.aclrtGetVersion = Some(aclrtGetVersion);
    table.aclrtGetRunMode = Some(aclrtGetRunMode);
    table.aclFloatToFloat16 = Some(aclFloatToFloat16);
    table.aclFloat16ToFloat = Some(aclFloat16ToFloat);
    acl_device::fill(table);
    acl_stream::fill(table);
    acl_event::fill(table);
    acl_memory::fill(table);
    acl_copy::fill(table);
    acl_notify::fill(table);
    acl_graph::fill(table);
    acl_graph_edit::fill(table);
    acl_kernel::fill(table);
    acl_kernel_args::fill(table);
    acl_launch::fill(table);
}

/// How often `aclInit` was called, and whether everything ended since.
struct Initialised {
    count: u64,
    finalised: bool,
}

static INITIALISED: Mutex<Initialised> = Mutex::new(Initialised { count: 0, finalised: false });

unsafe extern "C" fn aclInit(config_path: *const c_char) -> aclError {
    abi_entry("aclInit", || {
        if !config_path.is_null() {
            // SAFETY: a non-null path is NUL-terminated, as in CANN.
            let path = unsafe { CStr::from_ptr(config_path) }.to_string_lossy().into_owned();
            if let Err(error) = std::fs::read(&path) {
                return fail!(
                    ACL_ERROR_INVALID_FILE,
                    "cannot read the configuration {path}: {error}"
                );
            }
        }
        let mut state = ascend_sync::lock_std(&INITIALISED);
        state.count += 1;
        state.finalised = false;
        if state.count > 1 {
            return fail!(
                ACL_ERROR_REPEAT_INITIALIZE,
                "already initialised; the call counts, and is harmless"
            );
        }
        Ok(())
    })
}

unsafe extern "C" fn aclFinalize() -> aclError {
    abi_entry("aclFinalize", || finalise(u64::MAX).map(drop))
}

unsafe extern "C" fn aclFinalizeReference(ref_count: *mut u64) -> aclError {
    abi_entry("aclFinalizeReference", || {
        let left = finalise(1)?;
        // SAFETY: null, or valid for a write by the C contract; null means that nobody asks.
        if let Some(to) = unsafe { ref_count.as_mut() } {
            *to = left;
        }
        Ok(())
    })
}

fn finalise(count: u64) -> Result<u64, Failure> {
    let mut state = ascend_sync::lock_std(&INITIALISED);
    if state.count == 0 {
        return fail!(
            ACL_ERROR_REPEAT_FINALIZE,
            "{}",
            if state.finalised { "finalised already" } else { "aclInit was never called" }
        );
    }
    state.count = state.count.saturating_sub(count);
    state.finalised = state.count == 0;
    Ok(state.count)
}

unsafe extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    message::take_texts()
}

unsafe extern "C" fn aclrtPeekAtLastError(_level: aclrtLastErrLevel) -> aclError {
    message::peek_last()
}

unsafe extern "C" fn aclrtGetLastError(_level: aclrtLastErrLevel) -> aclError {
    message::take_last()
}

unsafe extern "C" fn aclrtGetSocName() -> *const c_char {
    let product = match context::current() {
        Ok(current) => machine::device_slot(current.device).product(),
        Err(_) => machine::default_block().map_or(Product::A3, |block| block.product),
    };
    product.soc_name().as_ptr()
}

unsafe extern "C" fn aclrtGetVersion(
    major: *mut i32,
    minor: *mut i32,
    patch: *mut i32,
) -> aclError {
    abi_entry("aclrtGetVersion", || {
        // SAFETY: null, or valid for writes by the C contract.
        let (major, minor, patch) = unsafe {
            (out(major, "majorVersion")?, out(minor, "minorVersion")?, out(patch, "patchVersion")?)
        };
        major.write(ascend_sys::ACL_MAJOR_VERSION);
        minor.write(ascend_sys::ACL_MINOR_VERSION);
        patch.write(ascend_sys::ACL_PATCH_VERSION);
        Ok(())
    })
}

unsafe extern "C" fn aclrtGetRunMode(run_mode: *mut aclrtRunMode) -> aclError {
    abi_entry("aclrtGetRunMode", || {
        // SAFETY: null, or valid for a write by the C contract.
        unsafe { out(run_mode, "runMode") }?.write(aclrtRunMode::ACL_HOST);
        Ok(())
    })
}

unsafe extern "C" fn aclFloatToFloat16(value: f32) -> aclFloat16 {
    // Saturating: what is too large becomes the largest finite value, infinity included.
    let half = half::f16::from_f32(value);
    if half.is_infinite() { half::f16::MAX.copysign(half).to_bits() } else { half.to_bits() }
}

unsafe extern "C" fn aclFloat16ToFloat(value: aclFloat16) -> f32 {
    half::f16::from_bits(value).to_f32()
}
