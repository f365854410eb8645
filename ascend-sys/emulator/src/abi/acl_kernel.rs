//! Kernels: binaries, functions, argument lists, launches.
#![allow(non_snake_case, reason = "CANN's names")]

use super::{door, out, write_text};
use crate::context;
use crate::kernel::arguments::{self, Argument, Arguments, List};
use crate::kernel::binary::{self, Code, SERVER, SERVER_LIBRARY};
use crate::kernel::launch::launch;
use crate::memory::{self, Place};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_program::{Core, Mix};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FILE_OPEN, ACL_ERROR_RT_PARAM_INVALID, Functions,
    aclError, aclrtArgsHandle, aclrtBinHandle, aclrtBinary, aclrtBinaryLoadOptionType,
    aclrtBinaryLoadOptions, aclrtFuncAttribute, aclrtFuncHandle, aclrtKernelType,
    aclrtLaunchKernelAttrId, aclrtLaunchKernelCfg, aclrtParamHandle, aclrtPlaceHolderInfo,
    aclrtStream,
};
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::time::Duration;

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
    table.aclrtKernelArgsGetHandleMemSize = Some(aclrtKernelArgsGetHandleMemSize);
    table.aclrtKernelArgsGetMemSize = Some(aclrtKernelArgsGetMemSize);
    table.aclrtKernelArgsInit = Some(aclrtKernelArgsInit);
    table.aclrtKernelArgsInitByUserMem = Some(aclrtKernelArgsInitByUserMem);
    table.aclrtKernelArgsAppend = Some(aclrtKernelArgsAppend);
    table.aclrtKernelArgsAppendPlaceHolder = Some(aclrtKernelArgsAppendPlaceHolder);
    table.aclrtKernelArgsGetPlaceHolderBuffer = Some(aclrtKernelArgsGetPlaceHolderBuffer);
    table.aclrtKernelArgsParaUpdate = Some(aclrtKernelArgsParaUpdate);
    table.aclrtKernelArgsFinalize = Some(aclrtKernelArgsFinalize);
    table.aclrtLaunchKernel = Some(aclrtLaunchKernel);
    table.aclrtLaunchKernelV2 = Some(aclrtLaunchKernelV2);
    table.aclrtLaunchKernelWithConfig = Some(aclrtLaunchKernelWithConfig);
    table.aclrtLaunchKernelWithHostArgs = Some(aclrtLaunchKernelWithHostArgs);
    table.aclrtLaunchKernelWithArgsArray = Some(aclrtLaunchKernelWithArgsArray);
}

/// Bytes of the caller.
///
/// # Safety
/// `data` is null, or valid for `length` bytes.
unsafe fn bytes<'a>(
    data: *const c_void,
    length: usize,
    argument: &str,
) -> Result<&'a [u8], Failure> {
    if data.is_null() || length == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "{argument} is NULL or has no bytes");
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), length) })
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
    door("aclrtCreateBinary", || {
        // SAFETY: null, or valid for as many bytes by the C contract.
        let bytes = unsafe { bytes(data, length, "data") }?;
        binary = binary::wrap(bytes)? as aclrtBinary;
        Ok(())
    });
    binary
}

unsafe extern "C" fn aclrtDestroyBinary(binary: aclrtBinary) -> aclError {
    door("aclrtDestroyBinary", || binary::unwrap(binary as u64))
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
    door("aclrtBinaryLoad", || load(Code::of_bytes(&binary::wrapped(binary as u64)?)?, bin_handle))
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
    door("aclrtBinaryLoadFromFile", || {
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
    door("aclrtBinaryLoadFromData", || {
        // SAFETY: null, or valid by the C contract.
        let (bytes, mode) =
            unsafe { (bytes(data, length, "data")?, cpu_kernel_mode(options)?) };
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
    door("aclrtBinaryUnLoad", || binary::unload(bin_handle as u64))
}

unsafe extern "C" fn aclrtBinaryGetFunction(
    bin_handle: aclrtBinHandle,
    name: *const c_char,
    func_handle: *mut aclrtFuncHandle,
) -> aclError {
    door("aclrtBinaryGetFunction", || {
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
    door("aclrtBinaryGetFunctionByEntry", || {
        // SAFETY: null, or valid for a write by the C contract.
        let to = unsafe { out(func_handle, "funcHandle") }?;
        let loaded = binary::binary(bin_handle as u64)?;
        let Code::Program(program) = &loaded.code else {
            return fail!(ACL_ERROR_RT_PARAM_INVALID, "a library of CPU kernels has no entries");
        };
        if entry != 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "funcEntry is {entry}; a recorded kernel has one entry, which is 0"
            );
        }
        to.write(binary::function_of(bin_handle as u64, &program.name)? as aclrtFuncHandle);
        Ok(())
    })
}

unsafe extern "C" fn aclrtRegisterCpuFunc(
    handle: aclrtBinHandle,
    function_name: *const c_char,
    kernel_name: *const c_char,
    func_handle: *mut aclrtFuncHandle,
) -> aclError {
    door("aclrtRegisterCpuFunc", || {
        // SAFETY: null or NUL-terminated, and null or valid for a write, by the C contract.
        let (function_name, _, to) = unsafe {
            (
                text(function_name, "funcName")?,
                text(kernel_name, "kernelName")?,
                out(func_handle, "funcHandle")?,
            )
        };
        if let Code::Program(program) = &binary::binary(handle as u64)?.code {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{} runs on AI cores: aclrtBinaryGetFunction finds it",
                program.name
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
    door("aclrtGetFunctionName", || {
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
    door("aclrtGetFunctionAttribute", || {
        // SAFETY: null, or valid for a write by the C contract.
        let value = unsafe { out(value, "attrValue") }?;
        let function = binary::function(func_handle as u64)?;
        let (kind, ratio) = match &function.code {
            Code::Server => (aclrtKernelType::ACL_KERNEL_TYPE_AICPU, [0, 0]),
            Code::Program(program) => {
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
    door("aclrtFunctionGetBinary", || {
        // SAFETY: null, or valid for a write by the C contract.
        let to = unsafe { out(bin_handle, "binHandle") }?;
        to.write(binary::function(func_handle as u64)?.binary as aclrtBinHandle);
        Ok(())
    })
}

/// Bytes of each argument of a kernel.
fn parameters(function: *const c_void) -> Result<Vec<usize>, Failure> {
    let function = binary::function(function as u64)?;
    arguments::sizes(&function).ok_or_else(|| {
        let text = format!("{} runs on the CPU: its arguments are not described", function.name);
        Failure::new(ACL_ERROR_RT_PARAM_INVALID, text)
    })
}

unsafe extern "C" fn aclrtFunctionGetParamCount(
    function: *const c_void,
    count: *mut usize,
) -> aclError {
    door("aclrtFunctionGetParamCount", || {
        // SAFETY: null, or valid for a write by the C contract.
        unsafe { out(count, "paramCount") }?.write(parameters(function)?.len());
        Ok(())
    })
}

unsafe extern "C" fn aclrtFunctionGetParamInfo(
    function: *const c_void,
    index: usize,
    offset: *mut usize,
    size: *mut usize,
) -> aclError {
    door("aclrtFunctionGetParamInfo", || {
        // SAFETY: null, or valid for a write by the C contract.
        let offset = unsafe { out(offset, "paramOffset") }?;
        let sizes = parameters(function)?;
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

/// What a list in the caller's memory begins with: the list itself is ours, its handle lies here.
#[repr(C)]
struct InUserMemory {
    magic: u64,
    list: u64,
}

const IN_USER_MEMORY: u64 = 0xab61_7267_7355_4d45;

/// Our handle of a list, which the caller has as a handle or as memory of its own.
///
/// # Safety
/// Not a handle of ours: valid for a read of [`InUserMemory`], and filled by `aclrtKernelArgsInitByUserMem`.
unsafe fn list_of(handle: aclrtArgsHandle) -> u64 {
    // A handle of ours is no address that a program can have.
    if handle.is_null() || handle as u64 >> 56 != 0 {
        return handle as u64;
    }
    // SAFETY: the caller's promise.
    let list = unsafe { handle.cast::<InUserMemory>().read_unaligned() };
    if list.magic == IN_USER_MEMORY { list.list } else { handle as u64 }
}

unsafe extern "C" fn aclrtKernelArgsGetHandleMemSize(
    func_handle: aclrtFuncHandle,
    size: *mut usize,
) -> aclError {
    door("aclrtKernelArgsGetHandleMemSize", || {
        // SAFETY: null, or valid for a write by the C contract.
        let size = unsafe { out(size, "memSize") }?;
        binary::function(func_handle as u64)?;
        size.write(size_of::<InUserMemory>());
        Ok(())
    })
}

unsafe extern "C" fn aclrtKernelArgsGetMemSize(
    func_handle: aclrtFuncHandle,
    user_args_size: usize,
    actual: *mut usize,
) -> aclError {
    door("aclrtKernelArgsGetMemSize", || {
        // SAFETY: null, or valid for a write by the C contract.
        let actual = unsafe { out(actual, "actualArgsSize") }?;
        binary::function(func_handle as u64)?;
        actual.write(user_args_size.next_multiple_of(8));
        Ok(())
    })
}

unsafe extern "C" fn aclrtKernelArgsInit(
    func_handle: aclrtFuncHandle,
    args_handle: *mut aclrtArgsHandle,
) -> aclError {
    door("aclrtKernelArgsInit", || {
        // SAFETY: null, or valid for a write by the C contract.
        let to = unsafe { out(args_handle, "argsHandle") }?;
        let function = binary::function(func_handle as u64)?;
        let list = binary::new_list(&function, List::new(func_handle as u64))?;
        to.write(list as aclrtArgsHandle);
        Ok(())
    })
}

unsafe extern "C" fn aclrtKernelArgsInitByUserMem(
    func_handle: aclrtFuncHandle,
    args_handle: aclrtArgsHandle,
    user_host_mem: *mut c_void,
    actual_args_size: usize,
) -> aclError {
    door("aclrtKernelArgsInitByUserMem", || {
        if args_handle.is_null() || user_host_mem.is_null() || actual_args_size == 0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "argsHandle or userHostMem is NULL, or actualArgsSize is 0"
            );
        }
        let function = binary::function(func_handle as u64)?;
        let list = binary::new_list(&function, List::new(func_handle as u64))?;
        let memory = InUserMemory { magic: IN_USER_MEMORY, list };
        // SAFETY: valid for as many bytes as aclrtKernelArgsGetHandleMemSize says, by the C contract.
        unsafe { args_handle.cast::<InUserMemory>().write_unaligned(memory) };
        Ok(())
    })
}

unsafe extern "C" fn aclrtKernelArgsAppend(
    args_handle: aclrtArgsHandle,
    param: *mut c_void,
    size: usize,
    param_handle: *mut aclrtParamHandle,
) -> aclError {
    door("aclrtKernelArgsAppend", || {
        // SAFETY: null, or valid by the C contract; an argument list of ours.
        let (value, to, list) = unsafe {
            (bytes(param, size, "param")?, out(param_handle, "paramHandle")?, list_of(args_handle))
        };
        let handle = binary::with_list(list, |list| list.append(value))?;
        to.write(handle as aclrtParamHandle);
        Ok(())
    })
}

unsafe extern "C" fn aclrtKernelArgsAppendPlaceHolder(
    args_handle: aclrtArgsHandle,
    param_handle: *mut aclrtParamHandle,
) -> aclError {
    door("aclrtKernelArgsAppendPlaceHolder", || {
        // SAFETY: null, or valid by the C contract; an argument list of ours.
        let (to, list) = unsafe { (out(param_handle, "paramHandle")?, list_of(args_handle)) };
        to.write(binary::with_list(list, List::append_place)? as aclrtParamHandle);
        Ok(())
    })
}

unsafe extern "C" fn aclrtKernelArgsGetPlaceHolderBuffer(
    args_handle: aclrtArgsHandle,
    param_handle: aclrtParamHandle,
    size: usize,
    buffer: *mut *mut c_void,
) -> aclError {
    door("aclrtKernelArgsGetPlaceHolderBuffer", || {
        // SAFETY: null, or valid by the C contract; an argument list of ours.
        let (to, list) = unsafe { (out(buffer, "bufferAddr")?, list_of(args_handle)) };
        if size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "dataSize is 0");
        }
        let at = binary::with_list(list, |list| list.buffer(param_handle as u64, size))?;
        to.write(at.cast());
        Ok(())
    })
}

unsafe extern "C" fn aclrtKernelArgsParaUpdate(
    args_handle: aclrtArgsHandle,
    param_handle: aclrtParamHandle,
    param: *mut c_void,
    size: usize,
) -> aclError {
    door("aclrtKernelArgsParaUpdate", || {
        // SAFETY: null, or valid by the C contract; an argument list of ours.
        let (value, list) = unsafe { (bytes(param, size, "param")?, list_of(args_handle)) };
        binary::with_list(list, |list| list.update(param_handle as u64, value))
    })
}

unsafe extern "C" fn aclrtKernelArgsFinalize(args_handle: aclrtArgsHandle) -> aclError {
    door("aclrtKernelArgsFinalize", || {
        // SAFETY: an argument list of ours, by the C contract.
        let list = unsafe { list_of(args_handle) };
        binary::with_list(list, |list| {
            let function = binary::function(list.function)?;
            list.finalise(&function.code)
        })
    })
}

/// What a configuration says that means something here: how long the kernel may wait.
///
/// # Safety
/// `cfg` is null, or valid with its array.
unsafe fn limit_of(cfg: *const aclrtLaunchKernelCfg) -> Result<Option<Duration>, Failure> {
    // SAFETY: the caller's promise.
    let Some(cfg) = (unsafe { cfg.as_ref() }) else { return Ok(None) };
    if cfg.numAttrs == 0 {
        return Ok(None);
    }
    if cfg.attrs.is_null() {
        return fail!(ACL_ERROR_INVALID_PARAM, "cfg->attrs is NULL, with {} attributes", cfg.numAttrs);
    }
    // SAFETY: the caller's promise.
    let attributes = unsafe { std::slice::from_raw_parts(cfg.attrs, cfg.numAttrs) };
    let mut limit = None;
    for attribute in attributes {
        match attribute.id {
            aclrtLaunchKernelAttrId::ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT => {
                // SAFETY: the id says which member it is; all are plain numbers.
                let seconds = unsafe { attribute.value.timeout };
                limit = (seconds != 0).then(|| Duration::from_secs(seconds.into()));
            }
            aclrtLaunchKernelAttrId::ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US => {
                // SAFETY: as above.
                let time = unsafe { attribute.value.timeoutUs };
                let time = u64::from(time.timeoutHigh) << 32 | u64::from(time.timeoutLow);
                limit = (time != 0).then(|| Duration::from_micros(time));
            }
            // How blocks are scheduled, dumped and profiled shows nowhere.
            id if (1..=9).contains(&id.0) => {}
            id => return fail!(ACL_ERROR_RT_PARAM_INVALID, "there is no attribute {}", id.0),
        }
    }
    Ok(limit)
}

/// A launch with arguments that lie in memory of the device.
///
/// # Safety
/// As for the functions that call it.
unsafe fn launch_in_memory(
    call: &'static str,
    func_handle: aclrtFuncHandle,
    blocks: u32,
    (address, bytes): (*const c_void, usize),
    cfg: *const aclrtLaunchKernelCfg,
    stream: aclrtStream,
) -> Result<(), Failure> {
    let function = binary::function(func_handle as u64)?;
    if address.is_null() || bytes == 0 || !bytes.is_multiple_of(8) {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "argsData is NULL, or argsSize ({bytes}) is no positive multiple of 8"
        );
    }
    // SAFETY: null, or valid by the C contract.
    let limit = unsafe { limit_of(cfg) }?;
    let stream = Stream::of_current_context(stream as u64)?;
    match memory::resolve(address.addr(), bytes) {
        Ok(found) if matches!(found.place, Place::Device(_) | Place::Pinned) => {}
        Ok(_) => {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "argsData: {address:p} is no memory that the device reaches; aclrtLaunchKernelWithHostArgs takes arguments of the host"
            );
        }
        Err(text) => return fail!(ACL_ERROR_RT_PARAM_INVALID, "argsData: {text}"),
    }
    arguments::check_count(&function.code, bytes / 8)?;
    let arguments = Arguments::InMemory { address: address.addr(), bytes };
    launch(&function, blocks, arguments, limit, stream, call)
}

unsafe extern "C" fn aclrtLaunchKernel(
    func_handle: aclrtFuncHandle,
    blocks: u32,
    args: *const c_void,
    size: usize,
    stream: aclrtStream,
) -> aclError {
    const CALL: &str = "aclrtLaunchKernel";
    door(CALL, || {
        let cfg = std::ptr::null();
        // SAFETY: the caller's promise.
        unsafe { launch_in_memory(CALL, func_handle, blocks, (args, size), cfg, stream) }
    })
}

unsafe extern "C" fn aclrtLaunchKernelV2(
    func_handle: aclrtFuncHandle,
    blocks: u32,
    args: *const c_void,
    size: usize,
    cfg: *mut aclrtLaunchKernelCfg,
    stream: aclrtStream,
) -> aclError {
    const CALL: &str = "aclrtLaunchKernelV2";
    door(CALL, || {
        // SAFETY: the caller's promise.
        unsafe { launch_in_memory(CALL, func_handle, blocks, (args, size), cfg, stream) }
    })
}

unsafe extern "C" fn aclrtLaunchKernelWithConfig(
    func_handle: aclrtFuncHandle,
    blocks: u32,
    stream: aclrtStream,
    cfg: *mut aclrtLaunchKernelCfg,
    args_handle: aclrtArgsHandle,
    reserve: *mut c_void,
) -> aclError {
    const CALL: &str = "aclrtLaunchKernelWithConfig";
    door(CALL, || {
        if !reserve.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "reserve is not NULL");
        }
        let function = binary::function(func_handle as u64)?;
        // SAFETY: null, or valid by the C contract; an argument list of ours.
        let (limit, list) = unsafe { (limit_of(cfg)?, list_of(args_handle)) };
        let stream = Stream::of_current_context(stream as u64)?;
        let arguments = binary::with_list(list, |list| {
            if list.function != func_handle as u64 {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "the argument list is of another function than {}",
                    function.name
                );
            }
            list.arguments()
        })?;
        launch(&function, blocks, arguments, limit, stream, CALL)
    })
}

unsafe extern "C" fn aclrtLaunchKernelWithHostArgs(
    func_handle: aclrtFuncHandle,
    blocks: u32,
    stream: aclrtStream,
    cfg: *mut aclrtLaunchKernelCfg,
    host_args: *mut c_void,
    size: usize,
    places: *mut aclrtPlaceHolderInfo,
    place_count: usize,
) -> aclError {
    const CALL: &str = "aclrtLaunchKernelWithHostArgs";
    door(CALL, || {
        let function = binary::function(func_handle as u64)?;
        // SAFETY: null, or valid by the C contract.
        let (block, limit) = unsafe { (bytes(host_args, size, "hostArgs")?, limit_of(cfg)?) };
        let places: &[aclrtPlaceHolderInfo] = if place_count == 0 {
            &[]
        } else if places.is_null() {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "placeHolderArray is NULL, with {place_count} placeholders"
            );
        } else {
            // SAFETY: not null, and valid for as many by the C contract.
            unsafe { std::slice::from_raw_parts(places, place_count) }
        };
        let places: Vec<_> = places.iter().map(|p| (p.addrOffset, p.dataOffset)).collect();
        let arguments = arguments::of_block(block, &places)?;
        let stream = Stream::of_current_context(stream as u64)?;
        launch(&function, blocks, arguments, limit, stream, CALL)
    })
}

unsafe extern "C" fn aclrtLaunchKernelWithArgsArray(
    func: *mut c_void,
    blocks: u32,
    stream: aclrtStream,
    cfg: *mut aclrtLaunchKernelCfg,
    args: *mut *mut c_void,
) -> aclError {
    const CALL: &str = "aclrtLaunchKernelWithArgsArray";
    door(CALL, || {
        let function = binary::function(func as u64)?;
        let count = parameters(func)?.len();
        if args.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "args is NULL");
        }
        // SAFETY: null, or valid; not null, and as many pointers as the kernel has parameters, by the C contract.
        let (limit, pointers) =
            unsafe { (limit_of(cfg)?, std::slice::from_raw_parts(args, count)) };
        let mut given = Vec::with_capacity(count);
        for (index, pointer) in pointers.iter().enumerate() {
            if pointer.is_null() {
                return fail!(ACL_ERROR_INVALID_PARAM, "args[{index}] is NULL");
            }
            // SAFETY: it points to the argument, which has 8 bytes, by the C contract.
            given.push(Argument::Word(unsafe { pointer.cast::<u64>().read_unaligned() }));
        }
        let stream = Stream::of_current_context(stream as u64)?;
        launch(&function, blocks, Arguments::Given(given.into()), limit, stream, CALL)
    })
}
