//! Kernels: binaries, and the functions in them.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{abi_entry, bytes, out, write_text};
use crate::context;
use crate::kernel::arguments;
use crate::kernel::binary::{self, Code, SERVER, SERVER_LIBRARY};
use crate::message::{Failure, fail};
use ascend_program::{Core, Mix};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FILE_OPEN, ACL_ERROR_RT_PARAM_INVALID, Functions,
    aclError, aclrtBinHandle, aclrtBinary, aclrtBinaryLoadOptionType, aclrtBinaryLoadOptions,
    aclrtFuncAttribute, aclrtFuncHandle, aclrtKernelType,
};
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

pub(super) fn fill(table: &mut Functions) {
    table.aclrtCreateBinary = Some(aclrtCreateBinary);
    table.aclrtDestroyBinary = Some(aclrtDestroyBinary);
    table.aclrtBinaryLoad = Some(aclrtBinaryLoad);
    table.aclrtBinaryLoadFromFile = Some(aclrtBinaryLoadFromFile);
    table.aclrtBinaryLoadFromData = Some(aclrtBinaryLoadFromData);
    table.aclrtBinaryUnLoad = Some(aclrtBinaryUnLoad);
    table.aclrtBinaryGetFunction = Some(aclrtBinaryGetFunction);
    table.aclrtBinaryGetFunctionByEntry = Some(aclrtBinaryGetFunctionByEntry);
    table.aclrtRegisterCpuFunc = Some(aclrtRegisterCpuFunc);
    table.aclrtGetFunctionName = Some(aclrtGetFunctionName);
    table.aclrtGetFunctionAttribute = Some(aclrtGetFunctionAttribute);
    table.aclrtFunctionGetBinary = Some(aclrtFunctionGetBinary);
    table.aclrtFunctionGetParamCount = Some(aclrtFunctionGetParamCount);
    table.aclrtFunctionGetParamInfo = Some(aclrtFunctionGetParamInfo);
}

/// A text of the caller.
///
/// # Safety
/// `text` is null or NUL-terminated.
unsafe fn text(text: *const c_char, argument: &str) -> Result<String, Failure> {
    if text.is_null() {
        return fail!(ACL_ERROR_INVALID_PARAM, "{argument} is NULL");
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

unsafe extern "C" fn aclrtCreateBinary(data: *const c_void, length: usize) -> aclrtBinary {
    let mut binary = std::ptr::null_mut();
    abi_entry("aclrtCreateBinary", || {
        // SAFETY: null, or valid for as many bytes by the C contract.
        let bytes = unsafe { bytes(data, length, "data") }?;
        binary = binary::wrap(bytes)? as aclrtBinary;
        Ok(())
    });
    binary
}

unsafe extern "C" fn aclrtDestroyBinary(binary: aclrtBinary) -> aclError {
    abi_entry("aclrtDestroyBinary", || binary::unwrap(binary as u64))
}

/// Loads for the calling thread's device.
fn load(code: Code, to: *mut aclrtBinHandle) -> Result<(), Failure> {
    // SAFETY: null, or valid for a write by the C contract.
    let to = unsafe { out(to, "binHandle") }?;
    let (_, device) = context::current_device()?;
    to.write(binary::load(device.id, code)? as aclrtBinHandle);
    Ok(())
}

unsafe extern "C" fn aclrtBinaryLoad(
    binary: aclrtBinary,
    bin_handle: *mut aclrtBinHandle,
) -> aclError {
    abi_entry("aclrtBinaryLoad", || {
        load(Code::of_bytes(&binary::wrapped(binary as u64)?)?, bin_handle)
    })
}

/// The `cpuKernelMode` of some options, if they have one.
///
/// # Safety
/// `options` is null, or valid with its array.
unsafe fn cpu_kernel_mode(options: *const aclrtBinaryLoadOptions) -> Result<Option<i32>, Failure> {
    // SAFETY: the caller's promise.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(None) };
    if options.options.is_null() || options.numOpt == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "options has none: pass NULL where there are none");
    }
    // SAFETY: the caller's promise.
    let options = unsafe { std::slice::from_raw_parts(options.options, options.numOpt) };
    let mut mode = None;
    for option in options {
        match option.type_ {
            aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE => {
                // SAFETY: the type says which member it is; all are plain numbers.
                mode = Some(unsafe { option.value.cpuKernelMode });
            }
            // These are about object files, of which there are none.
            aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD
            | aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_MAGIC => {}
            other => {
                return fail!(ACL_ERROR_RT_PARAM_INVALID, "there is no option of type {}", other.0);
            }
        }
    }
    match mode {
        Some(mode) if !(0..=2).contains(&mode) => {
            fail!(ACL_ERROR_RT_PARAM_INVALID, "cpuKernelMode is {mode}; 0, 1 and 2 exist")
        }
        mode => Ok(mode),
    }
}

unsafe extern "C" fn aclrtBinaryLoadFromFile(
    path: *const c_char,
    options: *mut aclrtBinaryLoadOptions,
    bin_handle: *mut aclrtBinHandle,
) -> aclError {
    abi_entry("aclrtBinaryLoadFromFile", || {
        // SAFETY: null or NUL-terminated, and null or valid, by the C contract.
        let (path, mode) = unsafe { (text(path, "binPath")?, cpu_kernel_mode(options)?) };
        let stem = Path::new(&path).file_stem().and_then(|stem| stem.to_str());
        if stem == Some(SERVER_LIBRARY) {
            return load(Code::Server, bin_handle);
        }
        if mode.is_some() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{path} is no library of CPU kernels that the emulator has; it has {SERVER_LIBRARY}.json, with {SERVER}"
            );
        }
        match std::fs::read(&path) {
            Ok(bytes) => load(Code::of_bytes(&bytes)?, bin_handle),
            Err(error) => fail!(ACL_ERROR_RT_FILE_OPEN, "cannot read {path}: {error}"),
        }
    })
}

unsafe extern "C" fn aclrtBinaryLoadFromData(
    data: *const c_void,
    length: usize,
    options: *const aclrtBinaryLoadOptions,
    bin_handle: *mut aclrtBinHandle,
) -> aclError {
    abi_entry("aclrtBinaryLoadFromData", || {
        // SAFETY: null, or valid by the C contract.
        let (bytes, mode) = unsafe { (bytes(data, length, "data")?, cpu_kernel_mode(options)?) };
        if mode.is_some() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the emulator runs no CPU kernels of others; the communication server comes from \
                 aclrtBinaryLoadFromFile(\"{SERVER_LIBRARY}.json\")"
            );
        }
        load(Code::of_bytes(bytes)?, bin_handle)
    })
}

unsafe extern "C" fn aclrtBinaryUnLoad(bin_handle: aclrtBinHandle) -> aclError {
    abi_entry("aclrtBinaryUnLoad", || binary::unload(bin_handle as u64))
}

unsafe extern "C" fn aclrtBinaryGetFunction(
    bin_handle: aclrtBinHandle,
    name: *const c_char,
    func_handle: *mut aclrtFuncHandle,
) -> aclError {
    abi_entry("aclrtBinaryGetFunction", || {
        // SAFETY: null or NUL-terminated, and null or valid for a write, by the C contract.
        let (name, to) = unsafe { (text(name, "kernelName")?, out(func_handle, "funcHandle")?) };
        to.write(binary::function_of(bin_handle as u64, &name)? as aclrtFuncHandle);
        Ok(())
    })
}

unsafe extern "C" fn aclrtBinaryGetFunctionByEntry(
    bin_handle: aclrtBinHandle,
    entry: u64,
    func_handle: *mut aclrtFuncHandle,
) -> aclError {
    abi_entry("aclrtBinaryGetFunctionByEntry", || {
        // SAFETY: null, or valid for a write by the C contract.
        let to = unsafe { out(func_handle, "funcHandle") }?;
        let loaded = binary::binary(bin_handle as u64)?;
        let Code::Program(recorded) = &loaded.code else {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "a library of CPU kernels has no entries");
        };
        if entry != 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "funcEntry is {entry}; a recorded kernel has one entry, which is 0"
            );
        }
        to.write(binary::function_of(bin_handle as u64, &recorded.program.name)? as aclrtFuncHandle);
        Ok(())
    })
}

unsafe extern "C" fn aclrtRegisterCpuFunc(
    handle: aclrtBinHandle,
    function_name: *const c_char,
    kernel_name: *const c_char,
    func_handle: *mut aclrtFuncHandle,
) -> aclError {
    abi_entry("aclrtRegisterCpuFunc", || {
        // SAFETY: null or NUL-terminated, and null or valid for a write, by the C contract.
        let (function_name, _, to) = unsafe {
            (
                text(function_name, "funcName")?,
                text(kernel_name, "kernelName")?,
                out(func_handle, "funcHandle")?,
            )
        };
        if let Code::Program(recorded) = &binary::binary(handle as u64)?.code {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{} runs on AI cores: aclrtBinaryGetFunction finds it",
                recorded.program.name
            );
        }
        to.write(binary::function_of(handle as u64, &function_name)? as aclrtFuncHandle);
        Ok(())
    })
}

unsafe extern "C" fn aclrtGetFunctionName(
    func_handle: aclrtFuncHandle,
    max_len: u32,
    name: *mut c_char,
) -> aclError {
    abi_entry("aclrtGetFunctionName", || {
        let function = binary::function(func_handle as u64)?;
        if name.is_null() || max_len == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "name is NULL or maxLen is 0");
        }
        // SAFETY: not null, and valid for as many bytes by the C contract.
        unsafe { write_text(name, max_len as usize, &function.name) };
        Ok(())
    })
}

unsafe extern "C" fn aclrtGetFunctionAttribute(
    func_handle: aclrtFuncHandle,
    attribute: aclrtFuncAttribute,
    value: *mut i64,
) -> aclError {
    abi_entry("aclrtGetFunctionAttribute", || {
        // SAFETY: null, or valid for a write by the C contract.
        let value = unsafe { out(value, "attrValue") }?;
        let function = binary::function(func_handle as u64)?;
        let (kind, ratio) = match &function.code {
            Code::Server => (aclrtKernelType::ACL_KERNEL_TYPE_AICPU, [0, 0]),
            Code::Program(recorded) => {
                let program = &recorded.program;
                let kind = match program.mix {
                    Mix::AivOnly => aclrtKernelType::ACL_KERNEL_TYPE_VECTOR,
                    Mix::AicOnly => aclrtKernelType::ACL_KERNEL_TYPE_CUBE,
                    _ => aclrtKernelType::ACL_KERNEL_TYPE_MIX,
                };
                (kind, [program.mix.ratio(Core::Aic), program.mix.ratio(Core::Aiv)])
            }
        };
        value.write(match attribute {
            aclrtFuncAttribute::ACL_FUNC_ATTR_KERNEL_TYPE => i64::from(kind.0),
            // Cube cores in the upper half, vector cores in the lower one.
            aclrtFuncAttribute::ACL_FUNC_ATTR_KERNEL_RATIO => {
                i64::from(ratio[0]) << 16 | i64::from(ratio[1])
            }
            aclrtFuncAttribute::ACL_FUNC_ATTR_KERNEL_SCHED_MODE => 0,
            other => {
                return fail!(ACL_ERROR_RT_PARAM_INVALID, "there is no attribute {}", other.0);
            }
        });
        Ok(())
    })
}

unsafe extern "C" fn aclrtFunctionGetBinary(
    func_handle: aclrtFuncHandle,
    bin_handle: *mut aclrtBinHandle,
) -> aclError {
    abi_entry("aclrtFunctionGetBinary", || {
        // SAFETY: null, or valid for a write by the C contract.
        let to = unsafe { out(bin_handle, "binHandle") }?;
        to.write(binary::function(func_handle as u64)?.binary as aclrtBinHandle);
        Ok(())
    })
}

/// Bytes of each argument of a kernel.
fn sizes(function: *const c_void) -> Result<Vec<usize>, Failure> {
    let function = binary::function(function as u64)?;
    arguments::sizes(&function)
}

unsafe extern "C" fn aclrtFunctionGetParamCount(
    function: *const c_void,
    count: *mut usize,
) -> aclError {
    abi_entry("aclrtFunctionGetParamCount", || {
        // SAFETY: null, or valid for a write by the C contract.
        unsafe { out(count, "paramCount") }?.write(sizes(function)?.len());
        Ok(())
    })
}

unsafe extern "C" fn aclrtFunctionGetParamInfo(
    function: *const c_void,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> aclError {
    abi_entry("aclrtFunctionGetParamInfo", || {
        // SAFETY: null, or valid for a write by the C contract.
        let offset = unsafe { out(offset, "paramOffset") }?;
        let sizes = sizes(function)?;
        let Some(own) = sizes.get(index) else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "paramIndex is {index}, of {} parameters",
                sizes.len()
            );
        };
        offset.write(sizes[..index].iter().sum());
        // SAFETY: null, or valid for a write by the C contract; null means that nobody asks.
        if let Some(size) = unsafe { size.as_mut() } {
            *size = *own;
        }
        Ok(())
    })
}
