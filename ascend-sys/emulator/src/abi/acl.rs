//! Initialisation, error texts, and small questions.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Out};
use super::entries::{Acl, entries};
use crate::message::{self, Failure, fail};
use crate::profile::Product;
use crate::{context, machine};
use ascend_sys::{
    ACL_ERROR_INVALID_FILE, ACL_ERROR_REPEAT_FINALIZE, ACL_ERROR_REPEAT_INITIALIZE, aclError,
    aclFloat16, aclrtLastErrLevel, aclrtRunMode,
};
use std::ffi::c_char;
use std::sync::Mutex;

entries! {
    Acl;
    also { aclGetRecentErrMsg, aclrtPeekAtLastError, aclrtGetLastError, aclrtGetSocName, aclFloatToFloat16, aclFloat16ToFloat }

    fn aclInit(config_path: CText) {
        if let Some(path) = config_path.given() {
            let path = path.to_string_lossy();
            if let Err(error) = std::fs::read(&*path) {
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
    }

    fn aclFinalize() {
        finalise(u64::MAX).map(drop)
    }

    fn aclFinalizeReference(ref_count: Out<u64>) {
        let left = finalise(1)?;
        ref_count.write_if_asked(left);
        Ok(())
    }

    fn aclrtGetVersion(major: Out<i32>, minor: Out<i32>, patch: Out<i32>) {
        let (major, minor, patch) = (
            major.required("majorVersion")?,
            minor.required("minorVersion")?,
            patch.required("patchVersion")?,
        );
        major.write(ascend_sys::ACL_MAJOR_VERSION);
        minor.write(ascend_sys::ACL_MINOR_VERSION);
        patch.write(ascend_sys::ACL_PATCH_VERSION);
        Ok(())
    }

    fn aclrtGetRunMode(run_mode: Out<aclrtRunMode>) {
        run_mode.required("runMode")?.write(aclrtRunMode::ACL_HOST);
        Ok(())
    }
}

/// How often `aclInit` was called, and whether everything ended since.
struct Initialised {
    count: u64,
    finalised: bool,
}

static INITIALISED: Mutex<Initialised> = Mutex::new(Initialised { count: 0, finalised: false });

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

unsafe extern "C" fn aclFloatToFloat16(value: f32) -> aclFloat16 {
    // Saturating: what is too large becomes the largest finite value, infinity included.
    let half = half::f16::from_f32(value);
    if half.is_infinite() { half::f16::MAX.copysign(half).to_bits() } else { half.to_bits() }
}

unsafe extern "C" fn aclFloat16ToFloat(value: aclFloat16) -> f32 {
    half::f16::from_bits(value).to_f32()
}
