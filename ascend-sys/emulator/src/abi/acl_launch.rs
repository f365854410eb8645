//! The entries that launch kernels.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_kernel_args::GivenList;
use super::arguments::{ByteSlice, Handle, In, Slice};
use super::entries::{Acl, entries};
use crate::kernel::arguments::{self, Arguments, KernelArgument};
use crate::kernel::binary::{Code, KernelFunction};
use crate::kernel::cpu_arguments::{CpuArguments, CpuBlock, MOST_BYTES};
use crate::kernel::cpu_kernel;
use crate::kernel::launch::launch;
use crate::memory::{self, MemoryPlace};
use crate::message::{Failure, fail};
use crate::stream::Stream;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_PARAM_INVALID, aclrtLaunchKernelAttrId,
    aclrtLaunchKernelCfg, aclrtPlaceHolderInfo,
};
use std::ffi::c_void;
use std::time::Duration;

entries! {
    Acl;

    fn aclrtLaunchKernel(
        func_handle: Handle<KernelFunction>,
        blocks: u32,
        args: *const c_void,
        size: usize,
        stream: Handle<Stream>,
    ) {
        launch_in_memory(ENTRY, &func_handle, blocks, (args, size), None, &stream)
    }

    fn aclrtLaunchKernelV2(
        func_handle: Handle<KernelFunction>,
        blocks: u32,
        args: *const c_void,
        size: usize,
        cfg: Config,
        stream: Handle<Stream>,
    ) {
        launch_in_memory(ENTRY, &func_handle, blocks, (args, size), Some(&cfg), &stream)
    }

    fn aclrtLaunchKernelWithConfig(
        func_handle: Handle<KernelFunction>,
        blocks: u32,
        stream: Handle<Stream>,
        cfg: Config,
        args_handle: GivenList,
        reserve: *mut c_void,
    ) {
        if !reserve.is_null() {
            return fail!(ACL_ERROR_INVALID_PARAM, "reserve is not NULL; pass NULL");
        }
        let function = func_handle.find()?;
        let limit = limit_of(&cfg)?;
        let stream = stream.find()?;
        args_handle.with(|list| {
            if list.function == func_handle.number() {
                return Ok(());
            }
            fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "the argument list belongs to another function than {}; make a list of this \
                 function by aclrtKernelArgsInit",
                function.name
            )
        })?;
        if let Code::Cpu(binary) = &function.code {
            let block = CpuArguments::Block(args_handle.with(|list| list.block())?.into());
            return cpu_kernel::launch(&function, binary, blocks, block, limit, stream, ENTRY);
        }
        let arguments = args_handle.with(|list| list.arguments())?;
        launch(&function, blocks, arguments, limit, stream, ENTRY)
    }

    fn aclrtLaunchKernelWithHostArgs(
        func_handle: Handle<KernelFunction>,
        blocks: u32,
        stream: Handle<Stream>,
        cfg: Config,
        host_args: ByteSlice<*mut c_void>[size],
        size: usize,
        places: Slice<aclrtPlaceHolderInfo, *mut aclrtPlaceHolderInfo>[place_count],
        place_count: usize,
    ) {
        let function = func_handle.find()?;
        let block = host_args.some("hostArgs")?;
        let block = block.counted(MOST_BYTES, "argsSize", ACL_ERROR_INVALID_PARAM)?;
        let limit = limit_of(&cfg)?;
        let places: Vec<_> = match place_count {
            0 => Vec::new(),
            _ if places.is_null() => {
                return fail!(
                    ACL_ERROR_INVALID_PARAM,
                    "placeHolderArray is NULL, but placeHolderNum is {place_count}; pass the \
                     array, or 0"
                );
            }
            _ => {
                let places = places.required("placeHolderArray")?;
                let most = block.count() / size_of::<u64>();
                if most == 0 {
                    return fail!(
                        ACL_ERROR_INVALID_PARAM,
                        "argsSize is {}, but placeHolderNum is {place_count}: each placeholder \
                         needs 8 bytes of the arguments; pass a larger block, or 0 placeholders",
                        block.count()
                    );
                }
                let places = places.counted(most, "placeHolderNum", ACL_ERROR_INVALID_PARAM)?;
                places.iter().map(|place| (place.addrOffset, place.dataOffset)).collect()
            }
        };
        if let Code::Cpu(binary) = &function.code {
            let block = CpuArguments::Block(CpuBlock::of_host(&block, &places)?.into());
            let stream = stream.find()?;
            return cpu_kernel::launch(&function, binary, blocks, block, limit, stream, ENTRY);
        }
        let arguments = arguments::of_block(&block, &places)?;
        let stream = stream.find()?;
        launch(&function, blocks, arguments, limit, stream, ENTRY)
    }

    fn aclrtLaunchKernelWithArgsArray(
        func: Handle<KernelFunction>,
        blocks: u32,
        stream: Handle<Stream>,
        cfg: Config,
        args: *mut *mut c_void,
    ) {
        let function = func.find()?;
        let count = arguments::sizes(&function)?.len();
        if args.is_null() {
            return Err(Failure::null("args"));
        }
        let limit = limit_of(&cfg)?;
        // SAFETY: the array is not null, and by the C contract it has one pointer for each
        // parameter of the kernel.
        let pointers = unsafe { std::slice::from_raw_parts(args, count) };
        let mut given = Vec::with_capacity(count);
        for (index, pointer) in pointers.iter().enumerate() {
            if pointer.is_null() {
                return fail!(
                    ACL_ERROR_INVALID_PARAM,
                    "args[{index}] is NULL; pass the address of each argument"
                );
            }
            // SAFETY: by the C contract the pointer points to the argument, which has 8 bytes.
            given.push(KernelArgument::Word(unsafe { pointer.cast::<u64>().read_unaligned() }));
        }
        let stream = stream.find()?;
        launch(&function, blocks, Arguments::Given(given.into()), limit, stream, ENTRY)
    }
}

/// The largest number of attributes of a launch.
const MOST_ATTRIBUTES: usize = 1 << 10;

/// The configuration of a launch.
type Config = In<aclrtLaunchKernelCfg, *mut aclrtLaunchKernelCfg>;

/// Returns the time limit for the waits of the kernel. The time limit is the only attribute of a
/// configuration that the emulator uses.
fn limit_of(cfg: &Config) -> Result<Option<Duration>, Failure> {
    let Some(cfg) = cfg.given() else { return Ok(None) };
    if cfg.numAttrs == 0 {
        return Ok(None);
    }
    if cfg.attrs.is_null() {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "cfg->attrs is NULL, but cfg->numAttrs is {}; set the array, or set numAttrs to 0",
            cfg.numAttrs
        );
    }
    if cfg.numAttrs > MOST_ATTRIBUTES {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "cfg->numAttrs is {}; set at most {MOST_ATTRIBUTES}",
            cfg.numAttrs
        );
    }
    // SAFETY: the array is not null, and by the contract of `In` it has `numAttrs` elements.
    let attributes = unsafe { std::slice::from_raw_parts(cfg.attrs, cfg.numAttrs) };
    let mut limit = None;
    for attribute in attributes {
        match attribute.id {
            aclrtLaunchKernelAttrId::ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT => {
                // SAFETY: the id determines the member of the union; all members are plain numbers.
                let seconds = unsafe { attribute.value.timeout };
                limit = (seconds != 0).then(|| Duration::from_secs(seconds.into()));
            }
            aclrtLaunchKernelAttrId::ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US => {
                // SAFETY: as above.
                let time = unsafe { attribute.value.timeoutUs };
                let time = u64::from(time.timeoutHigh) << 32 | u64::from(time.timeoutLow);
                limit = (time != 0).then(|| Duration::from_micros(time));
            }
            // These attributes concern the scheduling, dumping and profiling of blocks, which have
            // no effect in the emulator.
            id if (1..=9).contains(&id.0) => {}
            id => {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "there is no attribute {}; set an id from 1 to 9",
                    id.0
                );
            }
        }
    }
    Ok(limit)
}

/// Launches a kernel whose arguments are in memory that the device reaches: device or pinned
/// memory.
fn launch_in_memory(
    call: &'static str,
    func_handle: &Handle<KernelFunction>,
    blocks: u32,
    (address, bytes): (*const c_void, usize),
    cfg: Option<&Config>,
    stream: &Handle<Stream>,
) -> Result<(), Failure> {
    let function = func_handle.find()?;
    if address.is_null() || bytes == 0 || !bytes.is_multiple_of(8) {
        return fail!(
            ACL_ERROR_INVALID_PARAM,
            "argsData is NULL, or argsSize ({bytes}) is not a positive multiple of 8; pass 8 bytes \
             for each argument"
        );
    }
    if bytes > MOST_BYTES {
        return fail!(ACL_ERROR_INVALID_PARAM, "argsSize is {bytes}; pass at most {MOST_BYTES}");
    }
    let limit = cfg.map_or(Ok(None), limit_of)?;
    let stream = stream.find()?;
    match memory::resolve(address.addr(), bytes) {
        Ok(found) if matches!(found.place, MemoryPlace::Device(_) | MemoryPlace::Pinned) => {}
        Ok(_) => {
            return fail!(
                ACL_ERROR_RT_PARAM_INVALID,
                "argsData: {address:p} is not memory that the device reaches; use \
                 aclrtLaunchKernelWithHostArgs for arguments of the host"
            );
        }
        Err(text) => return fail!(ACL_ERROR_RT_PARAM_INVALID, "argsData: {text}"),
    }
    let address = address.addr();
    if let Code::Cpu(binary) = &function.code {
        let block = CpuArguments::InMemory { address, bytes };
        return cpu_kernel::launch(&function, binary, blocks, block, limit, stream, call);
    }
    arguments::check_count(&function.code, bytes / 8)?;
    let arguments = Arguments::InMemory { address, bytes };
    launch(&function, blocks, arguments, limit, stream, call)
}
