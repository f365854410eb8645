//! The entries for initialisation, versions, error texts, and small queries.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_config::AclConfig;
use super::arguments::{CText, Out};
use super::entries::{Acl, entries};
use super::hccl_entry::product_of_thread;
use crate::init_hooks;
use crate::message::{self, Failure, fail};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_REPEAT_FINALIZE, ACL_ERROR_REPEAT_INITIALIZE,
    aclCANNPackageName, aclCANNPackageVersion, aclCannAttr, aclError, aclFinalizeCallbackFunc,
    aclInitCallbackFunc, aclLogLevel, aclRegisterCallbackType, aclrtLastErrLevel, aclrtRunMode,
};
use std::ffi::{c_char, c_void};
use std::sync::Mutex;

entries! {
    Acl;
    also { aclGetRecentErrMsg, aclrtPeekAtLastError, aclrtGetLastError, aclrtGetSocName, aclAppLog }

    fn aclInit(config_path: CText) {
        let mut state = ascend_sync::lock_std(&INITIALISED);
        // The configuration is not read, because an earlier call has already set one.
        if state.count > 0 {
            state.count += 1;
            return fail!(
                ACL_ERROR_REPEAT_INITIALIZE,
                "already initialised; this call is counted and has no other effect, so ignore this \
                 code, or call aclInit once"
            );
        }
        let config = config_path.given().map(|path| AclConfig::read(&path.to_string_lossy()));
        let (config, text) = config.transpose()?.unwrap_or_default();
        config.apply()?;
        let fresh = Initialised { count: 1, finalised: false };
        let before = std::mem::replace(&mut *state, fresh);
        drop(state);
        init_hooks::tell_init(&text).inspect_err(|_| {
            // The failed call is not counted.
            let mut state = ascend_sync::lock_std(&INITIALISED);
            state.count = state.count.saturating_sub(1);
            state.finalised |= state.count == 0 && before.finalised;
        })
    }

    fn aclFinalize() {
        finalise(u64::MAX).map(drop)
    }

    fn aclFinalizeReference(ref_count: Out<u64>) {
        let left = finalise(1)?;
        ref_count.write_if_asked(left);
        Ok(())
    }

    fn aclInitCallbackRegister(
        kind: aclRegisterCallbackType,
        callback: aclInitCallbackFunc,
        user_data: *mut c_void,
    ) {
        init_hooks::INIT.register(kind, callback, user_data)
    }

    fn aclInitCallbackUnRegister(kind: aclRegisterCallbackType, callback: aclInitCallbackFunc) {
        init_hooks::INIT.unregister(kind, callback)
    }

    fn aclFinalizeCallbackRegister(
        kind: aclRegisterCallbackType,
        callback: aclFinalizeCallbackFunc,
        user_data: *mut c_void,
    ) {
        init_hooks::FINALIZE.register(kind, callback, user_data)
    }

    fn aclFinalizeCallbackUnRegister(
        kind: aclRegisterCallbackType,
        callback: aclFinalizeCallbackFunc,
    ) {
        init_hooks::FINALIZE.unregister(kind, callback)
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

    fn aclsysGetCANNVersion(name: aclCANNPackageName, version: Out<aclCANNPackageVersion>) {
        let version = version.required("version")?;
        match name {
            aclCANNPackageName::ACL_PKG_NAME_CANN
            | aclCANNPackageName::ACL_PKG_NAME_RUNTIME
            | aclCANNPackageName::ACL_PKG_NAME_HCCL => {}
            other => return fail!(
                ACL_ERROR_INVALID_PARAM,
                "name is {}; pass a package that the emulator has: 0 (CANN), 1 (RUNTIME) or 3 \
                 (HCCL)",
                other.0
            ),
        }
        version.write(aclCANNPackageVersion {
            version: padded(VERSION),
            majorVersion: padded(b"9"),
            minorVersion: padded(b"2"),
            releaseVersion: padded(b"0"),
            patchVersion: padded(b""),
            reserved: padded(b""),
        });
        Ok(())
    }

    fn aclGetCannAttributeList(
        list: Out<*const aclCannAttr, *mut *const aclCannAttr>,
        count: Out<usize>,
    ) {
        let (list, count) = (list.required("cannAttrList")?, count.required("num")?);
        list.write(ATTRIBUTES.as_ptr());
        count.write(ATTRIBUTES.len());
        Ok(())
    }

    fn aclGetCannAttribute(attribute: aclCannAttr, value: Out<i32>) {
        let value = value.required("value")?;
        if !matches!(attribute.0, 0..=2) {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "cannAttr is {}; pass 0 (INF_NAN), 1 (BF16) or 2 (JIT_COMPILE)",
                attribute.0
            );
        }
        value.write(ATTRIBUTES.contains(&attribute).into());
        Ok(())
    }

    fn aclrtGetRunMode(run_mode: Out<aclrtRunMode>) {
        run_mode.required("runMode")?.write(aclrtRunMode::ACL_HOST);
        Ok(())
    }
}

/// The release of CANN whose interface the emulator has, as a C string with its NUL.
const VERSION: &[u8; 6] = b"9.2.0\0";
const VERSION_NUMBER: i32 = 90_200_000;

/// The attributes that the emulator has. JIT_COMPILE is absent, because the emulator does not
/// compile operators.
static ATTRIBUTES: [aclCannAttr; 2] =
    [aclCannAttr::ACL_CANN_ATTR_INF_NAN, aclCannAttr::ACL_CANN_ATTR_BF16];

/// Copies a text into an array of C characters. The rest is filled with NULs.
fn padded<const N: usize>(text: &[u8]) -> [c_char; N] {
    std::array::from_fn(|at| text.get(at).map_or(0, |&byte| byte as c_char))
}

/// The packages of CANN that the emulator replaces.
const PACKAGES: [&str; 3] = ["hccl", "hcomm", "runtime"];

fn known_package(package: &CText<*mut c_char>) -> Result<(), Failure> {
    let name = package.required("pkgName")?;
    if PACKAGES.contains(&name.as_str()) {
        return Ok(());
    }
    fail!(
        ACL_ERROR_INVALID_PARAM,
        "pkgName is {name:?}; pass a package that the emulator has: {}",
        PACKAGES.join(", ")
    )
}

/// The number of calls of `aclInit` that `aclFinalize` has not undone yet, and whether the process
/// is finalised.
struct Initialised {
    count: u64,
    finalised: bool,
}

static INITIALISED: Mutex<Initialised> = Mutex::new(Initialised { count: 0, finalised: false });

fn finalise(count: u64) -> Result<u64, Failure> {
    let left = {
        let mut state = ascend_sync::lock_std(&INITIALISED);
        // Without a call of `aclInit`, the first call of `aclFinalize` succeeds.
        if state.finalised {
            return fail!(
                ACL_ERROR_REPEAT_FINALIZE,
                "finalised already; call aclInit before the next aclFinalize"
            );
        }
        state.count = state.count.saturating_sub(count);
        state.finalised = state.count == 0;
        state.count
    };
    if left == 0 {
        init_hooks::tell_finalize()?;
    }
    Ok(left)
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

/// The entry `aclAppLog`, which drops the line, because the emulator keeps no log. Rust cannot
/// define a C function with `...`, so a function without `...` takes its place.
#[allow(non_upper_case_globals, reason = "CANN's name")]
const aclAppLog: unsafe extern "C" fn(
    aclLogLevel,
    *const c_char,
    *const c_char,
    u32,
    *const c_char,
    ...
) =
    // SAFETY: on the supported systems, a call with `...` passes the other arguments in the same
    // places as a call without `...`. The caller cleans up all arguments, and the function reads
    // none.
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
    product_of_thread().soc_name().as_ptr()
}
