//! Questions about CANN that its documents leave open, and that a harmless call answers.
//!
//! No question identifies a device or a machine: none asks for the numbers of chips, boards and
//! pods.

use std::ffi::c_void;

use ascend_sys::{
    Api, aclCannAttr, aclDataType, aclDeviceInfo, aclSysParamOpt, aclrtDevAttr,
    aclrtFloatOverflowMode, aclrtMemAllocationType, aclrtMemAttr, aclrtMemGranularityOptions,
    aclrtMemHandleType, aclrtMemLocation, aclrtMemLocationType, aclrtMemMallocPolicy,
    aclrtPhysicalMemProp,
};
use hccl::prelude::*;

use crate::fact::Teller;

/// Runs the child. Facts: `question ID WHAT`, and then `answer ID TEXT`; or `no-cann WHY`, and
/// nothing else.
pub(crate) fn ask_all(teller: &Teller) {
    let (api, runtime) = match (Api::load(), Runtime::cann()) {
        (Ok(api), Ok(runtime)) => (api, runtime),
        (_, Err(error)) => return teller.tell(&["no-cann", &error.to_string()]),
        (Err(error), _) => return teller.tell(&["no-cann", &error.to_string()]),
    };
    if let Some(set_device) = api.aclrtSetDevice {
        // SAFETY: the call takes a number only, and returns an error if there is no device 0.
        let _ = unsafe { set_device(0) };
    }
    let ask = |id: &str, what: &str, answer: &dyn Fn() -> Option<String>| {
        teller.tell(&["question", id, what]);
        let answer = answer().unwrap_or_else(|| "the function is not there".to_owned());
        teller.tell(&["answer", id, &answer]);
    };
    of_numbers(&api, &ask);
    of_devices(&api, &runtime, &ask);
    of_memory(&api, &ask);
    of_sums(&runtime, &ask);
}

type Ask<'a> = dyn Fn(&str, &str, &dyn Fn() -> Option<String>) + 'a;

/// Returns the value as text, or the code if it is an error.
fn or_code<T: std::fmt::Display>(code: i32, value: T) -> String {
    if code == 0 { value.to_string() } else { format!("code {code}") }
}

fn of_numbers(api: &Api, ask: &Ask<'_>) {
    let halves = [
        ("inf", 0x7c00),
        ("-inf", 0xfc00),
        ("nan", 0x7e00),
        ("signalling nan", 0x7d01),
        ("largest", 0x7bff),
    ];
    ask("half-to-float", "what aclFloat16ToFloat makes of values at the edge, as bits", &|| {
        let convert = api.aclFloat16ToFloat?;
        // SAFETY: it takes a number and returns one.
        let of = |(name, half)| format!("{name} 0x{:08x}", unsafe { convert(half) }.to_bits());
        Some(halves.map(of).join(", "))
    });
    let floats = [
        ("inf", f32::INFINITY),
        ("nan", f32::NAN),
        ("1e6", 1e6),
        ("-1e6", -1e6),
        ("65520", 65520.0),
        ("2^-25", 2f32.powi(-25)),
    ];
    ask("float-to-half", "what aclFloatToFloat16 makes of values at the edge, as bits", &|| {
        let convert = api.aclFloatToFloat16?;
        // SAFETY: it takes a number and returns one.
        let of = |(name, value)| format!("{name} 0x{:04x}", unsafe { convert(value) });
        Some(floats.map(of).join(", "))
    });
    let types = [
        ("INT4", aclDataType::ACL_INT4),
        ("UINT1", aclDataType::ACL_UINT1),
        ("FLOAT6_E3M2", aclDataType::ACL_FLOAT6_E3M2),
        ("FLOAT4_E2M1", aclDataType::ACL_FLOAT4_E2M1),
        ("HIFLOAT8", aclDataType::ACL_HIFLOAT8),
    ];
    ask("type-size", "what aclDataTypeSize says of types of less than a byte", &|| {
        let size = api.aclDataTypeSize?;
        // SAFETY: it takes a number and returns one.
        Some(types.map(|(name, of)| format!("{name} {}", unsafe { size(of) })).join(", "))
    });
    let options = [
        ("DETERMINISTIC", aclSysParamOpt::ACL_OPT_DETERMINISTIC),
        ("ENABLE_DEBUG_KERNEL", aclSysParamOpt::ACL_OPT_ENABLE_DEBUG_KERNEL),
        ("STRONG_CONSISTENCY", aclSysParamOpt::ACL_OPT_STRONG_CONSISTENCY),
    ];
    ask("options", "what the options of the process are at first (aclrtGetSysParamOpt)", &|| {
        let option = api.aclrtGetSysParamOpt?;
        let of = |(name, option_of)| {
            let mut value = 0;
            // SAFETY: the out parameter is a live local.
            let code = unsafe { option(option_of, &mut value) };
            format!("{name} {}", or_code(code, value))
        };
        Some(options.map(of).join(", "))
    });
    let features = [
        ("INF_NAN", aclCannAttr::ACL_CANN_ATTR_INF_NAN),
        ("BF16", aclCannAttr::ACL_CANN_ATTR_BF16),
        ("JIT_COMPILE", aclCannAttr::ACL_CANN_ATTR_JIT_COMPILE),
    ];
    ask("features", "what the software can do (aclGetCannAttribute)", &|| {
        let feature = api.aclGetCannAttribute?;
        let of = |(name, feature_of)| {
            let mut value = 0;
            // SAFETY: the out parameter is a live local.
            let code = unsafe { feature(feature_of, &mut value) };
            format!("{name} {}", or_code(code, value))
        };
        Some(features.map(of).join(", "))
    });
}

/// The attributes of a device that are queried. Those that name a chip, a board or a pod are left
/// out.
const ATTRIBUTES: [(&str, aclrtDevAttr); 21] = [
    ("AICPU_CORE_NUM", aclrtDevAttr::ACL_DEV_ATTR_AICPU_CORE_NUM),
    ("AICORE_CORE_NUM", aclrtDevAttr::ACL_DEV_ATTR_AICORE_CORE_NUM),
    ("CUBE_CORE_NUM", aclrtDevAttr::ACL_DEV_ATTR_CUBE_CORE_NUM),
    ("VECTOR_CORE_NUM", aclrtDevAttr::ACL_DEV_ATTR_VECTOR_CORE_NUM),
    ("WARP_SIZE", aclrtDevAttr::ACL_DEV_ATTR_WARP_SIZE),
    ("MAX_THREAD_PER_VECTOR_CORE", aclrtDevAttr::ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE),
    ("UBUF_PER_VECTOR_CORE", aclrtDevAttr::ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE),
    ("MAX_GRID_DIM_X", aclrtDevAttr::ACL_DEV_ATTR_MAX_GRID_DIM_X),
    ("MAX_GRID_DIM_Y", aclrtDevAttr::ACL_DEV_ATTR_MAX_GRID_DIM_Y),
    ("MAX_GRID_DIM_Z", aclrtDevAttr::ACL_DEV_ATTR_MAX_GRID_DIM_Z),
    ("MAX_BLOCK_PER_GRID", aclrtDevAttr::ACL_DEV_ATTR_MAX_BLOCK_PER_GRID),
    ("MAX_THREADS_PER_BLOCK", aclrtDevAttr::ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK),
    ("MAX_BLOCK_DIM_X", aclrtDevAttr::ACL_DEV_ATTR_MAX_BLOCK_DIM_X),
    ("MAX_BLOCK_DIM_Y", aclrtDevAttr::ACL_DEV_ATTR_MAX_BLOCK_DIM_Y),
    ("MAX_BLOCK_DIM_Z", aclrtDevAttr::ACL_DEV_ATTR_MAX_BLOCK_DIM_Z),
    ("TOTAL_GLOBAL_MEM_SIZE", aclrtDevAttr::ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE),
    ("L2_CACHE_SIZE", aclrtDevAttr::ACL_DEV_ATTR_L2_CACHE_SIZE),
    ("HD_CONNECT_TYPE", aclrtDevAttr::ACL_DEV_ATTR_HD_CONNECT_TYPE),
    ("DEVICE_FORM_FACTOR", aclrtDevAttr::ACL_DEV_ATTR_DEVICE_FORM_FACTOR),
    ("IS_VIRTUAL", aclrtDevAttr::ACL_DEV_ATTR_IS_VIRTUAL),
    ("NPU_ARCH", aclrtDevAttr::ACL_DEV_ATTR_NPU_ARCH),
];

fn of_devices(api: &Api, runtime: &Runtime, ask: &Ask<'_>) {
    ask("attributes", "what aclrtGetDeviceInfo says of device 0", &|| {
        let attribute = api.aclrtGetDeviceInfo?;
        let of = |(name, attribute_of)| {
            let mut value = 0;
            // SAFETY: the out parameter is a live local.
            let code = unsafe { attribute(0, attribute_of, &mut value) };
            format!("{name} {}", or_code(code, value))
        };
        Some(ATTRIBUTES.map(of).join(", "))
    });
    let infos = [
        ("AI_CORE_NUM", aclDeviceInfo::ACL_DEVICE_INFO_AI_CORE_NUM),
        ("VECTOR_CORE_NUM", aclDeviceInfo::ACL_DEVICE_INFO_VECTOR_CORE_NUM),
        ("L2_SIZE", aclDeviceInfo::ACL_DEVICE_INFO_L2_SIZE),
    ];
    ask("capabilities", "what aclGetDeviceCapability says of device 0", &|| {
        let capability = api.aclGetDeviceCapability?;
        let of = |(name, info)| {
            let mut value = 0;
            // SAFETY: the out parameter is a live local.
            let code = unsafe { capability(0, info, &mut value) };
            format!("{name} {}", or_code(code, value))
        };
        Some(infos.map(of).join(", "))
    });
    ask("priorities", "the range of priorities of streams", &|| {
        let range = api.aclrtDeviceGetStreamPriorityRange?;
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: the out parameters are live locals.
        let code = unsafe { range(&mut least, &mut greatest) };
        Some(or_code(code, format!("least {least}, greatest {greatest}")))
    });
    let devices = runtime.device_count().min(16) as u32;
    ask("topology", "how device 0 is linked to each other one (aclrtGetDevicesTopo)", &|| {
        let topology = api.aclrtGetDevicesTopo?;
        let of = |other| {
            let mut value = 0;
            // SAFETY: the out parameter is a live local.
            let code = unsafe { topology(0, other, &mut value) };
            format!("{other}: {}", or_code(code, value))
        };
        Some((1..devices).map(of).collect::<Vec<_>>().join(", "))
    });
    ask("numbers", "the logical number of each device (aclrtGetLogicDevIdByUserDevId)", &|| {
        let number = api.aclrtGetLogicDevIdByUserDevId?;
        let of = |device: u32| {
            let mut value = 0;
            // SAFETY: the out parameter is a live local.
            let code = unsafe { number(device as i32, &mut value) };
            format!("{device}: {}", or_code(code, value))
        };
        Some((0..devices).map(of).collect::<Vec<_>>().join(", "))
    });
    ask("time-steps", "in which steps the time limit of kernels passes, in microseconds", &|| {
        let interval = api.aclrtGetOpTimeOutInterval?;
        let mut value = 0;
        // SAFETY: the out parameter is a live local.
        let code = unsafe { interval(&mut value) };
        Some(or_code(code, value))
    });
    ask(
        "overflow-mode",
        "what a device does at an overflow at first (aclrtGetDeviceSatMode)",
        &|| {
            let mode = api.aclrtGetDeviceSatMode?;
            let mut value = aclrtFloatOverflowMode(u32::MAX);
            // SAFETY: the out parameter is a live local.
            let code = unsafe { mode(&mut value) };
            Some(or_code(code, value.0))
        },
    );
    ask("streams", "how many streams there can be (aclrtGetStreamAvailableNum)", &|| {
        let count = api.aclrtGetStreamAvailableNum?;
        let mut value = 0;
        // SAFETY: the out parameter is a live local.
        let code = unsafe { count(&mut value) };
        Some(or_code(code, value))
    });
    ask("primary-context", "flags and state of the primary context of device 0", &|| {
        let state = api.aclrtGetPrimaryCtxState?;
        let (mut flags, mut active) = (0, 0);
        // SAFETY: the out parameters are live locals.
        let code = unsafe { state(0, &mut flags, &mut active) };
        Some(or_code(code, format!("flags {flags}, active {active}")))
    });
}

fn of_memory(api: &Api, ask: &Ask<'_>) {
    ask(
        "alignment",
        "at a multiple of how many bytes aclrtMalloc puts a block of 1, 4097, 1 MiB and 4 MiB",
        &|| {
            let (malloc, free) = (api.aclrtMalloc?, api.aclrtFree?);
            let of = |bytes: usize| {
                let mut block: *mut c_void = std::ptr::null_mut();
                // SAFETY: the out parameter is a live local.
                let code = unsafe {
                    malloc(&mut block, bytes, aclrtMemMallocPolicy::ACL_MEM_MALLOC_HUGE_FIRST)
                };
                if code != 0 {
                    return format!("code {code}");
                }
                let zeros = block.addr().trailing_zeros().min(30);
                // SAFETY: it was allocated above, and nothing uses it.
                let _ = unsafe { free(block) };
                (1u64 << zeros).to_string()
            };
            Some([1, 4097, 1 << 20, 4 << 20].map(of).join(", "))
        },
    );
    let kinds = [
        ("HBM_HUGE", aclrtMemAttr::ACL_HBM_MEM_HUGE),
        ("HBM_NORMAL", aclrtMemAttr::ACL_HBM_MEM_NORMAL),
        ("HBM_HUGE1G", aclrtMemAttr::ACL_HBM_MEM_HUGE1G),
        ("HBM_P2P_HUGE", aclrtMemAttr::ACL_HBM_MEM_P2P_HUGE),
        ("MEM_NORMAL", aclrtMemAttr::ACL_MEM_NORMAL),
        ("MEM_HUGE", aclrtMemAttr::ACL_MEM_HUGE),
    ];
    ask(
        "granularity",
        "the granularity of physical memory of each kind: smallest / recommended",
        &|| {
            let granularity = api.aclrtMemGetAllocationGranularity?;
            let of = |kind, option| {
                let mut what = aclrtPhysicalMemProp {
                    handleType: aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE,
                    allocationType: aclrtMemAllocationType::ACL_MEM_ALLOCATION_TYPE_PINNED,
                    memAttr: kind,
                    location: aclrtMemLocation {
                        id: 0,
                        type_: aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE,
                    },
                    reserve: 0,
                };
                let mut value = 0;
                // SAFETY: the description and the out parameter are live locals.
                let code = unsafe { granularity(&mut what, option, &mut value) };
                or_code(code, value)
            };
            use aclrtMemGranularityOptions as Option_;
            let both = |(name, kind)| {
                let least = of(kind, Option_::ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM);
                let best = of(kind, Option_::ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED);
                format!("{name} {least} / {best}")
            };
            Some(kinds.map(both).join(", "))
        },
    );
}

/// Asks questions about sums, to which all devices contribute.
fn of_sums(runtime: &Runtime, ask: &Ask<'_>) {
    runtime.set_deadline(std::time::Duration::from_secs(60));
    let sums = |id: &str, what: &str, body: &(dyn Fn(&Rank) -> hccl::Result<String> + Sync)| {
        ask(id, what, &|| {
            let ranks = runtime.device_count() as u32;
            Some(match runtime.run_ranks(ranks, |rank| body(&rank)) {
                Ok(answers) => answers.first().cloned().unwrap_or_default(),
                Err(error) => format!("error: {error}"),
            })
        });
    };
    sums(
        "sum-order",
        "the bits of a sum of 1e8, 1, -1e8, 1, 3, .. over the ranks, made twice, and of the one in the order of ranks",
        &|rank| {
            let numbers = [1e8f32, 1.0, -1e8, 1.0, 3.0];
            let of = |rank: u32| numbers[rank as usize % numbers.len()];
            let [first, again] = twice(rank, of(rank.index()))?;
            let in_order = (1..rank.world_size()).fold(of(0), |sum, rank| sum + of(rank));
            Ok(format!(
                "0x{:08x}, 0x{:08x}, in order 0x{:08x}",
                first.to_bits(),
                again.to_bits(),
                in_order.to_bits()
            ))
        },
    );
    sums(
        "half-sum",
        "2048 + 1 + 1 + .. of f16 over the ranks: 2048 is rounded each time, more is summed in f32",
        &|rank| {
            let own = if rank.index() == 0 { 2048.0 } else { 1.0 };
            Ok(twice(rank, f16::from_f32(own))?[0].to_string())
        },
    );
    sums(
        "bf16-sum",
        "256 + 1 + 1 + .. of bf16 over the ranks: 256 is rounded each time, more is summed in f32",
        &|rank| {
            let own = if rank.index() == 0 { 256.0 } else { 1.0 };
            Ok(twice(rank, bf16::from_f32(own))?[0].to_string())
        },
    );
    sums("wrap", "127 + 127 + .. of i8 over the ranks: whether it wraps around", &|rank| {
        Ok(twice(rank, i8::MAX)?[0].to_string())
    });
    sums(
        "nan",
        "the bits of the largest of NaN (rank 0) and 1 (all others), and of the largest of -0 (rank 0) and 0",
        &|rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let own = if rank.index() == 0 { [f32::NAN, -0.0] } else { [1.0, 0.0] };
            let mut x = rank.device().upload(&own, &stream)?;
            comm.all_reduce_in_place(&mut x, Max, &stream)?.wait()?;
            let bits: Vec<String> = x
                .to_vec(&stream)
                .wait()?
                .iter()
                .map(|value| format!("0x{:08x}", value.to_bits()))
                .collect();
            Ok(bits.join(", "))
        },
    );
    sums(
        "unaligned",
        "whether an all-reduce takes buffers of 1000 f32 at a multiple of 4 bytes only",
        &|rank| {
            let stream = rank.device().stream()?;
            let mut comm = rank.communicator()?;
            let send = rank.device().upload(&[1f32; 1001], &stream)?;
            let mut recv = rank.device().zeros::<f32>(1001, &stream)?;
            comm.all_reduce(send.slice(1..)?, recv.slice_mut(1..)?, Sum, &stream)?.wait()?;
            let sum = recv.to_vec(&stream).wait()?;
            let is_right = sum[0] == 0.0 && sum[1..].iter().all(|x| *x == rank.world_size() as f32);
            Ok(if is_right { "yes" } else { "it succeeds with wrong sums" }.to_owned())
        },
    );
}

/// Computes the same sum over all ranks twice.
fn twice<T: Reduce<Sum>>(rank: &Rank, own: T) -> hccl::Result<[T; 2]> {
    let stream = rank.device().stream()?;
    let mut comm = rank.communicator()?;
    // The data is long enough for an algorithm that divides it.
    let x = rank.device().upload(&[own; 4096], &stream)?;
    let mut sums = [own; 2];
    for sum in &mut sums {
        let (result, work) = comm.all_reduce(&x, rank.device().alloc(4096)?, Sum, &stream)?;
        work.wait()?;
        *sum = result.to_vec(&stream).wait()?.first().copied().unwrap_or(own);
    }
    Ok(sums)
}
