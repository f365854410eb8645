//! The entries for kernels: binaries and their functions.
#![allow(non_snake_case, reason = "CANN's names")]

use super::arguments::{ByteSlice, CText, CountedArgument, Handle, In, Out, OutText};
use super::entries::{Acl, entries, run};
use super::files;
use crate::context;
use crate::kernel::arguments;
use crate::kernel::binary::{self, Binary, Code, KernelFunction, SERVER_LIBRARY};
use crate::message::{Failure, fail};
use ascend_program::{Core, Mix};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FILE_OPEN, ACL_ERROR_RT_PARAM_INVALID, aclrtBinHandle,
    aclrtBinary, aclrtBinaryLoadOptionType, aclrtBinaryLoadOptions, aclrtFuncAttribute,
    aclrtFuncHandle, aclrtKernelType,
};
use std::ffi::c_void;
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
        options: In<aclrtBinaryLoadOptions, *mut aclrtBinaryLoadOptions>,
        bin_handle: Out<aclrtBinHandle>,
    ) {
        let path = path.required("binPath")?;
        // The option is only checked, because the contents of the file determine its kind.
        cpu_kernel_mode(&options)?;
        let path = Path::new(&path);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if stem == Some(SERVER_LIBRARY) {
            return load(Code::Server, bin_handle);
        }
        match files::read(path, MOST_BINARY) {
            Ok(Some(bytes)) => load(Code::of_file(path, &bytes)?, bin_handle),
            Ok(None) => {
                fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "{} has more than {MOST_BINARY} bytes; load a smaller binary",
                    path.display()
                )
            }
            Err(error) => fail!(
                ACL_ERROR_RT_FILE_OPEN,
                "cannot read {}: {error}; pass the path of a readable file",
                path.display()
            ),
        }
    }

    fn aclrtBinaryLoadFromData(
        data: ByteSlice[length],
        length: usize,
        options: In<aclrtBinaryLoadOptions>,
        bin_handle: Out<aclrtBinHandle>,
    ) {
        let bytes = data.some("data")?.copied(MOST_BINARY, "data")?;
        let mode = cpu_kernel_mode(&options)?;
        if mode.is_some() {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the emulator loads CPU kernels only from files; use aclrtBinaryLoadFromFile, with \
                 \"{SERVER_LIBRARY}.json\" for the communication server"
            );
        }
        load(Code::of_bytes(&bytes)?, bin_handle)
    }

    fn aclrtBinaryUnLoad(bin_handle: Handle<Binary>) {
        binary::unload(bin_handle.number())
    }

    fn aclrtBinaryGetFunction(
        bin_handle: Handle<Binary>,
        name: CText,
        func_handle: Out<aclrtFuncHandle>,
    ) {
        let name = name.required("kernelName")?;
        let to = func_handle.required("funcHandle")?;
        to.write(binary::function_of(bin_handle.number(), &name)? as aclrtFuncHandle);
        Ok(())
    }

    fn aclrtBinaryGetFunctionByEntry(
        bin_handle: Handle<Binary>,
        entry: u64,
        func_handle: Out<aclrtFuncHandle>,
    ) {
        let to = func_handle.required("funcHandle")?;
        let loaded = bin_handle.find()?;
        let Code::Program(recorded) = &loaded.code else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "a library of CPU kernels has no entries; use aclrtRegisterCpuFunc"
            );
        };
        if entry != 0 {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "funcEntry is {entry}; pass 0, the only entry of a recorded kernel"
            );
        }
        let function = binary::function_of(bin_handle.number(), &recorded.program.name)?;
        to.write(function as aclrtFuncHandle);
        Ok(())
    }

    fn aclrtRegisterCpuFunc(
        handle: Handle<Binary>,
        function_name: CText,
        kernel_name: CText,
        func_handle: Out<aclrtFuncHandle>,
    ) {
        let function_name = function_name.required("funcName")?;
        kernel_name.required("kernelName")?;
        let to = func_handle.required("funcHandle")?;
        if let Code::Program(recorded) = &handle.find()?.code {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "{} runs on AI cores: use aclrtBinaryGetFunction",
                recorded.program.name
            );
        }
        to.write(binary::function_of(handle.number(), &function_name)? as aclrtFuncHandle);
        Ok(())
    }

    fn aclrtGetFunctionName(
        func_handle: Handle<KernelFunction>,
        max_len: u32,
        name: OutText[max_len],
    ) {
        let function = func_handle.find()?;
        if name.is_null() || max_len == 0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "name is NULL or maxLen is 0; pass a buffer of at least one byte"
            );
        }
        name.write(&function.name);
        Ok(())
    }

    fn aclrtGetFunctionAttribute(
        func_handle: Handle<KernelFunction>,
        attribute: aclrtFuncAttribute,
        value: Out<i64>,
    ) {
        let value = value.required("attrValue")?;
        let function = func_handle.find()?;
        let (kind, ratio) = match &function.code {
            Code::Server | Code::Cpu(_) => (aclrtKernelType::ACL_KERNEL_TYPE_AICPU, [0, 0]),
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
            // The number of cube cores is in the upper half, that of vector cores in the lower
            // half.
            aclrtFuncAttribute::ACL_FUNC_ATTR_KERNEL_RATIO => {
                i64::from(ratio[0]) << 16 | i64::from(ratio[1])
            }
            aclrtFuncAttribute::ACL_FUNC_ATTR_KERNEL_SCHED_MODE => 0,
            other => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "there is no attribute {}; pass 1 (KERNEL_TYPE), 2 (KERNEL_RATIO) or 3 \
                     (KERNEL_SCHED_MODE)",
                    other.0
                );
            }
        });
        Ok(())
    }

    fn aclrtFunctionGetBinary(
        func_handle: Handle<KernelFunction>,
        bin_handle: Out<aclrtBinHandle>,
    ) {
        let to = bin_handle.required("binHandle")?;
        to.write(func_handle.find()?.binary as aclrtBinHandle);
        Ok(())
    }

    fn aclrtFunctionGetParamCount(function: ConstFunction, count: Out<usize>) {
        let count = count.required("paramCount")?;
        let function = function.find()?;
        count.write(arguments::sizes(&function)?.len());
        Ok(())
    }

    fn aclrtFunctionGetParamInfo(
        function: ConstFunction,
        index: usize,
        offset: Out<usize>,
        size: Out<usize>,
    ) {
        let offset = offset.required("paramOffset")?;
        let function = function.find()?;
        let sizes = arguments::sizes(&function)?;
        let Some(own) = sizes.get(index) else {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "paramIndex is {index}; pass an index below {}, the number of parameters",
                sizes.len()
            );
        };
        offset.write(sizes[..index].iter().sum());
        size.write_if_asked(*own);
        Ok(())
    }
}

/// The handle of a kernel function, as an argument that C declares as `const void *`.
type ConstFunction = Handle<KernelFunction, *const c_void>;

unsafe extern "C" fn aclrtCreateBinary(data: *const c_void, length: usize) -> aclrtBinary {
    let mut binary = std::ptr::null_mut();
    run::<Acl>("aclrtCreateBinary", || {
        // SAFETY: null, or valid for `length` bytes by the C contract.
        let data: ByteSlice = unsafe { CountedArgument::of(data, length) };
        let bytes = data.some("data")?.copied(MOST_BINARY, "data")?;
        binary = binary::wrap(bytes.into())? as aclrtBinary;
        Ok(())
    });
    binary
}

/// The largest size of a binary in bytes.
const MOST_BINARY: usize = 256 << 20;
/// The largest number of options of a binary.
const MOST_OPTIONS: usize = 1 << 10;

/// Loads a binary for the calling thread's device.
fn load(code: Code, to: Out<aclrtBinHandle>) -> Result<(), Failure> {
    let to = to.required("binHandle")?;
    let (_, device) = context::current_device()?;
    to.write(binary::load(device.id, code)? as aclrtBinHandle);
    Ok(())
}

/// Returns the `cpuKernelMode` of the options, if it is set.
fn cpu_kernel_mode<C>(options: &In<aclrtBinaryLoadOptions, C>) -> Result<Option<i32>, Failure> {
    let Some(options) = options.given() else { return Ok(None) };
    if options.options.is_null() || options.numOpt == 0 {
        return fail!(ACL_ERROR_INVALID_PARAM, "options is empty: pass NULL if there are none");
    }
    if options.numOpt > MOST_OPTIONS {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "options->numOpt is {}; pass at most {MOST_OPTIONS}",
            options.numOpt
        );
    }
    // SAFETY: the array is not null, and by the contract of `In` it has `numOpt` elements.
    let options = unsafe { std::slice::from_raw_parts(options.options, options.numOpt) };
    let mut mode = None;
    for option in options {
        match option.type_ {
            aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE => {
                // SAFETY: the type determines the member of the union; all members are plain
                // numbers.
                mode = Some(unsafe { option.value.cpuKernelMode });
            }
            // These options concern object files, which the emulator does not load.
            aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD
            | aclrtBinaryLoadOptionType::ACL_RT_BINARY_LOAD_OPT_MAGIC => {}
            other => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "there is no option of type {}; set type to 1 (LAZY_LOAD), 2 (MAGIC) or 3 \
                     (CPU_KERNEL_MODE)",
                    other.0
                );
            }
        }
    }
    match mode {
        Some(mode) if !(0..=2).contains(&mode) => {
            fail!(ACL_ERROR_RT_PARAM_INVALID, "cpuKernelMode is {mode}; set 0, 1 or 2")
        }
        mode => Ok(mode),
    }
}
