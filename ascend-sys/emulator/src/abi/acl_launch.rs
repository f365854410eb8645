//! Launching kernels.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_kernel_args::list_of;
use super::entries::{Acl, entries};
use super::raw::bytes;
use crate::kernel::arguments::{self, Arguments, KernelArgument};
use crate::kernel::binary;
use crate::kernel::launch::launch;
use crate::memory::{self, MemoryPlace};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, aclrtArgsHandle, aclrtFuncHandle,
    aclrtLaunchKernelAttrId, aclrtLaunchKernelCfg, aclrtPlaceHolderInfo, aclrtStream,
};
use std::ffi::c_void;
use std::time::Duration;

entries! {
    Acl;

    fn aclrtLaunchKernel(
        func_handle: aclrtFuncHandle,
        blocks: u32,
        args: *const c_void,
        size: usize,
        stream: aclrtStream,
    ) {
        let cfg = std::ptr::null();
        // SAFETY: the caller's promise.
        unsafe { launch_in_memory(ENTRY, func_handle, blocks, (args, size), cfg, stream) }
    }

    fn aclrtLaunchKernelV2(
        func_handle: aclrtFuncHandle,
        blocks: u32,
        args: *const c_void,
        size: usize,
        cfg: *mut aclrtLaunchKernelCfg,
        stream: aclrtStream,
    ) {
        // SAFETY: the caller's promise.
        unsafe { launch_in_memory(ENTRY, func_handle, blocks, (args, size), cfg, stream) }
    }

    fn aclrtLaunchKernelWithConfig(
        func_handle: aclrtFuncHandle,
        blocks: u32,
        stream: aclrtStream,
        cfg: *mut aclrtLaunchKernelCfg,
        args_handle: aclrtArgsHandle,
        reserve: *mut c_void,
    ) {
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
        launch(&function, blocks, arguments, limit, stream, ENTRY)
    }

    fn aclrtLaunchKernelWithHostArgs(
        func_handle: aclrtFuncHandle,
        blocks: u32,
        stream: aclrtStream,
        cfg: *mut aclrtLaunchKernelCfg,
        host_args: *mut c_void,
        size: usize,
        places: *mut aclrtPlaceHolderInfo,
        place_count: usize,
    ) {
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
        launch(&function, blocks, arguments, limit, stream, ENTRY)
    }

    fn aclrtLaunchKernelWithArgsArray(
        func: *mut c_void,
        blocks: u32,
        stream: aclrtStream,
        cfg: *mut aclrtLaunchKernelCfg,
        args: *mut *mut c_void,
    ) {
        let function = binary::function(func as u64)?;
        let count = arguments::sizes(&function)?.len();
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
            given.push(KernelArgument::Word(unsafe { pointer.cast::<u64>().read_unaligned() }));
        }
        let stream = Stream::of_current_context(stream as u64)?;
        launch(&function, blocks, Arguments::Given(given.into()), limit, stream, ENTRY)
    }
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
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "cfg->attrs is NULL, with {} attributes",
            cfg.numAttrs
        );
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
        Ok(found) if matches!(found.place, MemoryPlace::Device(_) | MemoryPlace::Pinned) => {}
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
