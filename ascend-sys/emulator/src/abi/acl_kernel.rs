//! Kernels: binaries, and the functions in them.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{CText, Out};
use super::entries::{Acl, entries, run};
use super::raw::{bytes, write_text};
use crate::context;
use crate::kernel::arguments;
use crate::kernel::binary::{self, Code, SERVER, SERVER_LIBRARY};
use crate::message::{Failure, fail};
use ascend_program::{Core, Mix};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FILE_OPEN, ACL_ERROR_RT_PARAM_INVALID, aclrtBinHandle,
    aclrtBinary, aclrtBinaryLoadOptionType, aclrtBinaryLoadOptions, aclrtFuncAttribute,
    aclrtFuncHandle, aclrtKernelType,
};
use std::ffi::{c_char, c_void};
use std::path::Path;

entries! {
    Acl;
    also { aclrtCreateBinary }

    fn aclrtDestroyBinary(binary: aclrtBinary) {
        binary::unwrap(binary as u64)
    }

    fn aclrtBinaryLoad(binary: aclrtBinary, bin_handle: Out<aclrtBinHandle>) {
        load(Code::of_bytes(&binary::wrapped(binary as u64)?)?, bin_handle)
    }

    fn aclrtBinaryLoadFromFile(
        path: CText,
        options: *mut aclrtBinaryLoadOptions,
        bin_handle: Out<aclrtBinHandle>,
    ) {
        let path = path.required("binPath")?;
        // SAFETY: null or valid, by the C contract.
        let mode = unsafe { cpu_kernel_mode(options) }?;
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
    }

    fn aclrtBinaryLoadFromData(
        data: *const c_void,
        length: usize,
        options: *const aclrtBinaryLoadOptions,
        bin_handle: Out<aclrtBinHandle>,
    ) {
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
    }

    fn aclrtBinaryUnLoad(bin_handle: aclrtBinHandle) {
        binary::unload(bin_handle as u64)
    }

    fn aclrtBinaryGetFunction(
        bin_handle: aclrtBinHandle,
        name: CText,
        func_handle: Out<aclrtFuncHandle>,
    ) {
        let name = name.required("kernelName")?;
        let to = func_handle.required("funcHandle")?;
        to.write(binary::function_of(bin_handle as u64, &name)? as aclrtFuncHandle);
        Ok(())
    }

    fn aclrtBinaryGetFunctionByEntry(
        bin_handle: aclrtBinHandle,
        entry: u64,
        func_handle: Out<aclrtFuncHandle>,
    ) {
        let to = func_handle.required("funcHandle")?;
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
    }

    fn aclrtRegisterCpuFunc(
        handle: aclrtBinHandle,
        function_name: CText,
        kernel_name: CText,
        func_handle: Out<aclrtFuncHandle>,
    ) {
        let function_name = function_name.required("funcName")?;
        kernel_name.required("kernelName")?;
        let to = func_handle.required("funcHandle")?;
        if let Code::Program(recorded) = &binary::binary(handle as u64)?.code {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{} runs on AI cores: aclrtBinaryGetFunction finds it",
                recorded.program.name
            );
        }
        to.write(binary::function_of(handle as u64, &function_name)? as aclrtFuncHandle);
        Ok(())
    }

    fn aclrtGetFunctionName(func_handle: aclrtFuncHandle, max_len: u32, name: *mut c_char) {
        let function = binary::function(func_handle as u64)?;
        if name.is_null() || max_len == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "name is NULL or maxLen is 0");
        }
        // SAFETY: not null, and valid for as many bytes by the C contract.
        unsafe { write_text(name, max_len as usize, &function.name) };
        Ok(())
    }

    fn aclrtGetFunctionAttribute(
        func_handle: aclrtFuncHandle,
        attribute: aclrtFuncAttribute,
        value: Out<i64>,
    ) {
        let value = value.required("attrValue")?;
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
    }

    fn aclrtFunctionGetBinary(func_handle: aclrtFuncHandle, bin_handle: Out<aclrtBinHandle>) {
        let to = bin_handle.required("binHandle")?;
        to.write(binary::function(func_handle as u64)?.binary as aclrtBinHandle);
        Ok(())
    }

    fn aclrtFunctionGetParamCount(function: *const c_void, count: Out<usize>) {
        count.required("paramCount")?.write(sizes(function)?.len());
        Ok(())
    }

    fn aclrtFunctionGetParamInfo(
        function: *const c_void,
        index: usize,
        offset: Out<usize>,
        size: Out<usize>,
    ) {
        let offset = offset.required("paramOffset")?;
        let sizes = sizes(function)?;
        let Some(own) = sizes.get(index) else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "paramIndex is {index}, of {} parameters",
                sizes.len()
            );
        };
        offset.write(sizes[..index].iter().sum());
        size.write_if_asked(*own);
        Ok(())
    }
}

unsafe extern "C" fn aclrtCreateBinary(data: *const c_void, length: usize) -> aclrtBinary {
    let mut binary = std::ptr::null_mut();
    run::<Acl>("aclrtCreateBinary", || {
        // SAFETY: null, or valid for as many bytes by the C contract.
        let bytes = unsafe { bytes(data, length, "data") }?;
        binary = binary::wrap(bytes)? as aclrtBinary;
        Ok(())
    });
    binary
}

/// Loads for the calling thread's device.
fn load(code: Code, to: Out<aclrtBinHandle>) -> Result<(), Failure> {
    let to = to.required("binHandle")?;
    let (_, device) = context::current_device()?;
    to.write(binary::load(device.id, code)? as aclrtBinHandle);
    Ok(())
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

/// Bytes of each argument of a kernel.
fn sizes(function: *const c_void) -> Result<Vec<usize>, Failure> {
    let function = binary::function(function as u64)?;
    arguments::sizes(&function)
}
