//! Initialisation, error texts, and small questions.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_config::AclConfig;
use super::arguments::{CText, Out};
use super::entries::{Acl, entries};
use crate::message::{self, Failure, fail};
use crate::profile::Product;
use crate::{context, machine};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_REPEAT_FINALIZE, ACL_ERROR_REPEAT_INITIALIZE, aclError,
    aclLogLevel, aclrtLastErrLevel, aclrtRunMode,
};
use std::ffi::c_char;
use std::sync::Mutex;

entries! {
    Acl;
    also { aclGetRecentErrMsg, aclrtPeekAtLastError, aclrtGetLastError, aclrtGetSocName, aclAppLog }

    fn aclInit(config_path: CText) {
        let mut state = ascend_sync::lock_std(&INITIALISED);
        // Its configuration is not read: another library has decided.
        if state.count > 0 {
            state.count += 1;
            return fail!(
                ACL_ERROR_REPEAT_INITIALIZE,
                "already initialised; the call counts, and is harmless"
            );
        }
        let config = config_path.given().map(|path| AclConfig::read(&path.to_string_lossy()));
        config.transpose()?.unwrap_or_default().apply()?;
        *state = Initialised { count: 1, finalised: false };
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

    fn aclsysGetVersionNum(package: CText<*mut c_char>, number: Out<i32>) {
        let number = number.required("versionNum")?;
        known_package(&package)?;
        number.write(VERSION_NUMBER);
        Ok(())
    }

    fn aclsysGetVersionStr(
        package: CText<*mut c_char>,
        text: Out<[u8; VERSION.len()], *mut c_char>,
    ) {
        let text = text.required("versionStr")?;
        known_package(&package)?;
        text.write(*VERSION);
        Ok(())
    }

    fn aclrtGetRunMode(run_mode: Out<aclrtRunMode>) {
        run_mode.required("runMode")?.write(aclrtRunMode::ACL_HOST);
        Ok(())
    }
}

/// The release of CANN whose interface this is, with its NUL, and as a number.
const VERSION: &[u8; 6] = b"9.2.0\0";
const VERSION_NUMBER: i32 = 90_200_000;

/// The packages of CANN that the emulator stands in for.
const PACKAGES: [&str; 3] = ["hccl", "hcomm", "runtime"];

fn known_package(package: &CText<*mut c_char>) -> Result<(), Failure> {
    let name = package.required("pkgName")?;
    if PACKAGES.contains(&name.as_str()) {
        return Ok(());
    }
    fail!(
        ACL_ERROR_INVALID_PARAM,
        "pkgName is {name:?}; the emulator is the packages {}",
        PACKAGES.join(", ")
    )
}

/// How often `aclInit` was called, and whether everything ended since.
struct Initialised {
    count: u64,
    finalised: bool,
}

static INITIALISED: Mutex<Initialised> = Mutex::new(Initialised { count: 0, finalised: false });

fn finalise(count: u64) -> Result<u64, Failure> {
    let mut state = ascend_sync::lock_std(&INITIALISED);
    // Without any aclInit it succeeds, once.
    if state.finalised {
        return fail!(ACL_ERROR_REPEAT_FINALIZE, "finalised already");
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

/// The emulator keeps no log: a line is dropped. Only C can define a function with `...`, so it is
/// one without.
#[allow(non_upper_case_globals, reason = "CANN's name")]
const aclAppLog: unsafe extern "C" fn(
    aclLogLevel,
    *const c_char,
    *const c_char,
    u32,
    *const c_char,
    ...
) =
    // SAFETY: on the systems that we support a call with `...` passes the other arguments where a
    // call without passes them, the caller takes all of them back, and the function reads none.
    unsafe { std::mem::transmute(drop_line as DropLine) };

type DropLine = unsafe extern "C" fn(aclLogLevel, *const c_char, *const c_char, u32, *const c_char);

unsafe extern "C" fn drop_line(
    _level: aclLogLevel,
    _function: *const c_char,
    _file: *const c_char,
    _line: u32,
    _format: *const c_char,
) {
}

unsafe extern "C" fn aclrtGetSocName() -> *const c_char {
    let product = match context::current() {
        Ok(current) => machine::device_slot(current.device).product(),
        Err(_) => machine::default_block().map_or(Product::A3, |block| block.product),
    };
    product.soc_name().as_ptr()
}
