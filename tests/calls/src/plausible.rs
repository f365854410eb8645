//! Arguments with which a call may succeed. The type and the name of the parameter decide them, and
//! where these say too little, the function.

use std::ffi::c_void;

use ascend_emulator_testing::operator::protocol_of;
use ascend_emulator_testing::ranks::config;
use ascend_sys::*;

use crate::callbacks;
use crate::caller::Caller;
use crate::functions::{Function, Parameter, Value, values_of};
use crate::objects::kind_of;
use crate::structures;
use crate::world::{PIECE, UNIT};

/// Returns an argument that may be right.
pub fn value(caller: &mut Caller<'_>, function: &Function, at: usize) -> Value {
    let parameter = &function.parameters[at];
    if let Some(value) = by_function(caller, function.name, parameter) {
        return value;
    }
    if let Some(kind) = kind_of(parameter.ty) {
        return Value::new(caller.handle(kind));
    }
    if let Some(callback) = callbacks::of_type(parameter.ty) {
        return Value::new(callback);
    }
    if let Some(values) = values_of(parameter.ty) {
        return Value::new(enumerated(caller, parameter.ty, values) as u64);
    }
    if let Some(structure) = structures::put(caller, parameter.ty) {
        return Value::new(structure);
    }
    match parameter.ty {
        "*const c_char" => Value::new(text(caller, parameter.name)),
        "*mut c_void" | "*const c_void" => Value::new(data(caller, parameter.name)),
        "aclrtIpcEventHandle" => {
            Value::of_bytes(&caller.run.world.get().map_or([0; 64], |world| world.event_key))
        }
        "f32" => Value::new(u64::from(0.05_f32.to_bits())),
        ty if ty.starts_with('*') => {
            Value::new(caller.run.memory.room(parameter.pointee.max(8) * 16))
        }
        ty => Value::new(number(caller, ty, parameter.name)),
    }
}

/// Returns an argument that the function or the name of the parameter decides. Returns `None` if
/// only the type of the parameter decides the argument, or if there are no devices yet.
fn by_function(caller: &mut Caller<'_>, function: &str, parameter: &Parameter) -> Option<Value> {
    let world = caller.run.world.get()?;
    let memory = &caller.run.memory;
    let number = match (function, parameter.name) {
        // Functions, and objects, as `void *`.
        (
            "aclrtLaunchKernelWithArgsArray"
            | "aclrtFunctionGetParamCount"
            | "aclrtFunctionGetParamInfo",
            "func",
        ) => caller.handle("aclrtFuncHandle"),
        (_, "opArgs") if parameter.ty == "*mut c_void" => caller.handle("opArgs"),
        // Values that are numbers in C.
        (_, "commEngine") => caller.one(&[2, 0, 1]),
        (_, "opType") => 2,
        (_, "srcDataType" | "dstDataType" | "reduceType") => caller.one(&[0, 2, 4]),
        ("HcclCommInitRootInfo" | "HcclCommInitRootInfoConfig", "nRanks") => 1,
        ("HcclCommInitAll", "ndev") => caller.one(&[1, 2]),
        ("HcclCommInitAll", "devices") => memory.put_list(&[world.first, world.first + 1]),
        ("HcclCommInitClusterInfo" | "HcclCommInitClusterInfoConfig", "clusterInfo") => {
            memory.put(world.texts.table.as_bytes())
        }
        ("HcclCreateSubCommConfig", "comm") => memory.put_value(&caller.handle("HcclComm")),
        ("HcclCreateSubCommConfig", "rankNum") => 1,
        ("HcclCreateSubCommConfig", "rankIds") => memory.put_list(&[0_u32, 1]),
        ("HcclCreateSubCommConfig", "subCommId") => caller.random.u64(1..1000),
        ("HcclConfigGetInfo", "infoLen") => caller.one(&[4, 1600]),
        (_, "infoLen") => caller.one(&[8, 4]),
        (
            "HcclCommGetStatus"
            | "HcclCommGetHandleWithName"
            | "HcommAcquireComm"
            | "HcommReleaseComm",
            _,
        ) if parameter.ty == "*const c_char" => {
            let name = caller.one(&[0, 1]);
            memory.put(world.texts.comms[name].as_bytes())
        }
        ("HcclChannelConfigSetStr", "type_") => 1,
        ("HcclEngineCtxCopy", "dstCtxOffset") => 0,
        ("HcclEngineCtxCopy" | "HcclEngineCtxCreate", "size") => 64,
        ("HcclAllocComResourceByTiling", "mc2Tiling") => memory.put(&world.tiling),
        ("HcommSetNotifyWaitTimeOut" | "HcommThreadResAcquireTimeOut", _) => {
            u64::from(1.0_f32.to_bits())
        }
        ("HcommMemImport" | "HcommMemUnimport", "memDesc") => memory.put(&world.export),
        ("HcommMemImport" | "HcommMemUnimport", "descLen") => world.export.len() as u64,
        ("HcommThreadAlloc", "notifyNumPerThread") => memory.put_list(&[2_u32; 8]),
        ("HcclThreadExportToCommEngine", "threadNum") => 1,
        ("HcclBatchSendRecv", "itemNum") => 2,
        (_, "channelNum" | "listNum" | "threadNum" | "transferDescNum" | "itemNum") => 1,
        ("HcclChannelAcquire" | "HcclChannelAcquireWithConfig", "engine") => caller.one(&[0, 2]),
        (_, "channels" | "channelList") if parameter.ty.starts_with("*const") => {
            memory.put_value(&caller.handle("ChannelHandle"))
        }
        (_, "threads") if parameter.ty.starts_with("*const") => {
            memory.put_value(&caller.handle("ThreadHandle"))
        }
        // Memory that a channel reaches.
        (name, "dst") if name.starts_with("HcommWrite") => world.remote.0,
        (name, "src") if name.starts_with("HcommRead") => world.remote.0,
        (name, "dst" | "src")
            if name.starts_with("HcommLocal")
                || name.starts_with("HcommRead")
                || name.starts_with("HcommWrite") =>
        {
            let (at, _) = caller.memory(false);
            at + if parameter.name == "dst" { 0 } else { PIECE / 2 }
        }
        (name, "addrs") if name.starts_with("HcommAicpu") => {
            memory.put_list(&[caller.memory(false).0, caller.memory(false).0])
        }
        (name, "sizes") if name.starts_with("HcommAicpu") => memory.put_list(&[256_u64, 256]),
        (name, "count") if name.starts_with("HcommAicpu") => 2,
        (name, "timeOut") if name.starts_with("Hcomm") => 1,
        ("aclrtSetStreamOverflowSwitch", "flag") => 0,
        // Kernels.
        ("aclrtBinaryLoadFromData", "data") => memory.put(&world.kernel),
        ("aclrtBinaryLoadFromData", "length") => world.kernel.len() as u64,
        ("aclrtCreateBinary", "data") => memory.put(&world.kernel),
        ("aclrtCreateBinary", "dataLen") => world.kernel.len() as u64,
        ("aclrtBinaryLoadFromFile", "binPath") => memory.put(world.texts.kernel.as_bytes()),
        ("aclrtBinaryLoadFromFile" | "aclrtBinaryLoadFromData", "options") => 0,
        ("aclrtBinaryGetFunctionByEntry", "funcEntry") => caller.one(&[0, 1]),
        ("aclrtBinaryGetFunction", "kernelName") => memory.put(b"kernel"),
        ("aclrtRegisterCpuFunc", "funcName") => memory.put(b"RunAicpuKfcSrvLaunch"),
        (name, "cfg") if name.starts_with("aclrtLaunchKernel") => 0,
        (_, "reserve") if parameter.ty == "*mut c_void" => 0,
        (name, "argsData") if name.starts_with("aclrtLaunchKernel") => arguments_on_device(caller),
        ("aclrtLaunchKernelWithHostArgs", "hostArgs") => arguments_of_host(caller),
        ("aclrtLaunchKernelWithHostArgs", "argsSize") => 24 + 128,
        ("aclrtLaunchKernelWithHostArgs", "placeHolderArray") => {
            memory.put_value(&aclrtPlaceHolderInfo { addrOffset: 16, dataOffset: 24 })
        }
        ("aclrtLaunchKernelWithHostArgs", "placeHolderNum") => 1,
        ("aclrtLaunchKernelWithArgsArray", "args") => arguments_in_array(caller),
        (name, "argsSize" | "userArgsSize") if name.contains("Kernel") => 24,
        ("aclrtKernelArgsInitByUserMem", "argsHandle") => memory.room(1 << 14),
        ("aclrtKernelArgsInitByUserMem", "userHostMem") => memory.room(1 << 14),
        ("aclrtKernelArgsInitByUserMem", "actualArgsSize") => 1 << 13,
        ("aclrtKernelArgsAppend" | "aclrtKernelArgsParaUpdate", "param") => {
            memory.put_value(&caller.memory(false).0)
        }
        ("aclrtKernelArgsAppend" | "aclrtKernelArgsParaUpdate", "paramSize") => 8,
        ("aclrtFunctionGetParamInfo", "paramIndex") => caller.one(&[0, 1, 2]),
        // Graphs that are built or edited.
        (
            "aclmdlRIBindStream" | "aclmdlRIUnbindStream" | "aclmdlRIEndTask" | "aclmdlRIBuildEnd",
            "modelRI",
        ) => caller.newest("aclmdlRI"),
        ("aclmdlRIBindStream" | "aclmdlRIUnbindStream" | "aclmdlRIEndTask", "stream") => {
            caller.newest("aclrtStream")
        }
        ("aclmdlRIGetTasksByStream", "stream") => world.task_stream,
        ("aclmdlRIGetTasksByStream", "numTasks") => memory.put_value(&8_u32),
        ("aclmdlRITaskGetParams" | "aclmdlRITaskSetParams", "task") => world.task,
        // Pools.
        ("aclrtMemPoolSetAttr", "attr") => {
            aclrtMemPoolAttr::ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD.0 as u64
        }
        ("aclrtMemPoolSetAttr" | "aclrtMemPoolGetAttr", "value") => memory.put_value(&0_u64),
        ("aclrtMemPoolFreeAsync", "ptr") => caller.handle("aclrtMemPoolMallocAsync"),
        // Physical memory that is shared.
        (_, "shareType") => aclrtMemSharedHandleType::ACL_MEM_SHARE_HANDLE_TYPE_FABRIC.0 as u64,
        (_, "shareableHandle") if parameter.ty == "u64" => world.shareable.0,
        (_, "shareableHandle") if parameter.ty == "*mut c_void" => memory.put(&world.shareable.1),
        (name, "pidNum") if name.contains("Shareable") => 1,
        ("aclrtMemSetAccess" | "aclrtMemGetAccess", "virPtr") => reserved(caller),
        ("aclrtMemSetAccess", "size") => UNIT,
        ("aclrtMemSetAccess", "count") => 1,
        // Windows and ranges of a communicator.
        ("HcclCommSymWinRegister", "addr") => caller.newest("HcommMemAlloc"),
        ("HcclCommSymWinRegister", "flag") => 1,
        (
            "HcclCommSetMemoryRange"
            | "HcclCommUnsetMemoryRange"
            | "HcclCommActivateCommMemory"
            | "HcclCommDeactivateCommMemory",
            "baseVirPtr" | "virPtr",
        ) => reserved(caller),
        ("HcclCommSetMemoryRange" | "HcclCommActivateCommMemory", "size") => UNIT,
        ("HcclCommActivateCommMemory", "handle") => caller.newest("aclrtDrvMemHandle"),
        // Copies.
        ("aclrtMemcpyAsyncWithOffset", "dst") => memory.put_value(&caller.memory(false).0),
        ("aclrtMemcpyAsyncWithOffset", "src") => {
            memory.put_value(&(caller.memory(false).0 + PIECE / 2))
        }
        ("aclrtMemcpyAsyncWithOffset", "dstDataOffset" | "srcDataOffset") => 0,
        ("aclrtMemcpyAsyncWithOffset", "kind") => 3,
        (name, "dsts" | "srcs") if name.starts_with("aclrtMemcpyBatch") => {
            let (near, _) = caller.memory(false);
            let far = memory.data();
            memory.put_list(&if parameter.name == "dsts" {
                [near, near + 4096]
            } else {
                [far, far + 64]
            })
        }
        (name, "sizes" | "destMaxs") if name.starts_with("aclrtMemcpyBatch") => {
            memory.put_list(&[64_usize, 64])
        }
        (_, "numBatches") => 2,
        (_, "numAttrs") => 1,
        (_, "attrsIndexes") => memory.put_list(&[0_usize; 2]),
        ("aclrtMemcpyAsync" | "aclrtMemcpy" | "aclrtMemcpyAsyncWithCondition", "kind") => 4,
        ("aclrtMemcpy2d" | "aclrtMemcpy2dAsync", "kind") => 1,
        ("aclrtMemcpy2d" | "aclrtMemcpy2dAsync", "src") => memory.data(),
        (_, "dpitch" | "spitch") => 64,
        (_, "width") => 32,
        (_, "height") => 4,
        ("aclrtMemsetD32" | "aclrtMemsetD32Async", "N") => 16,
        ("aclrtReduceAsync", "kind") => caller.one(&[10, 11, 12]),
        ("aclrtReduceAsync", "type_") => 0,
        ("aclrtReduceAsync", "count") => 64,
        // Virtual memory and exports.
        (
            "aclrtReserveMemAddress" | "aclrtReserveMemAddressNoUCMemory" | "aclrtMallocPhysical",
            "size",
        ) => UNIT,
        ("aclrtReserveMemAddress" | "aclrtReserveMemAddressNoUCMemory", "flags") => 1,
        (_, "expectPtr") => 0,
        ("aclrtMapMem", "size") => UNIT,
        (
            "aclrtMapMem"
            | "aclrtReleaseMemAddress"
            | "aclrtUnmapMem"
            | "aclrtMemRetainAllocationHandle",
            "virPtr",
        ) => reserved(caller),
        ("aclrtIpcMemGetExportKey", "len") | ("aclrtNotifyGetExportKey", "len") => 65,
        ("aclrtIpcMemGetExportKey", "flags") => 1,
        ("aclrtNotifyGetExportKey", "flags") => 2,
        (name, "key") if name.starts_with("aclrtIpcMem") && parameter.ty == "*const c_char" => {
            memory.put(world.texts.memory.as_bytes())
        }
        ("aclrtNotifyImportByKey", "key") => memory.put(world.texts.notify.as_bytes()),
        ("aclrtIpcMemSetAttr", "attr") => caller.one(&[1, 2]),
        (_, "pid") if parameter.ty == "*mut i32" => {
            memory.put_list(&[std::process::id() as i32; 2])
        }
        (_, "num") if function.contains("Pid") => 1,
        ("aclrtNotifyBatchReset", "num") => 1,
        ("aclrtNotifyBatchReset", "notifies") => memory.put_value(&caller.handle("aclrtNotify")),
        ("aclrtHostRegister" | "aclrtHostRegisterV2" | "aclrtHostUnregister", "ptr")
        | ("aclrtHostGetDevicePointer", "pHost") => memory.data() + (1 << 19),
        ("aclrtHostRegisterV2", "flag") => 2,
        ("aclrtHostRegister" | "aclrtHostRegisterV2", "size") => 4096,
        ("aclrtFreeHost" | "aclrtFreeHostWithDevSync", _) => caller.memory(true).0,
        ("HcommMemFree", _) => caller.handle("HcommMemAlloc"),
        ("aclrtValueWrite", "value") | ("aclrtValueWait", "value") => 0,
        ("aclrtValueWait", "flag") => 0,
        (_, "devAddr") => caller.memory(false).0,
        // Ranks.
        ("HcclSend", "destRank") | ("HcclRecv", "srcRank") => 0,
        (name, "sendCounts" | "recvCounts" | "sendCountMatrix") if name.starts_with("Hccl") => {
            memory.put_list(&[16_u64; 4])
        }
        (name, "sendDispls" | "recvDispls" | "sdispls" | "rdispls") if name.starts_with("Hccl") => {
            memory.put_list(&[0_u64, 16, 32, 48])
        }
        (
            "aclrtCreateContext" | "aclrtSetDevice" | "aclrtResetDevice" | "aclrtResetDeviceForce",
            "deviceId",
        ) => caller.device() as u64,
        (_, "peerDeviceId" | "otherDeviceId") => (world.first + 1) as u64,
        ("aclrtLaunchCallback", "blockType") => caller.one(&[0, 1]),
        (name, "threadId") if name.contains("SubscribeReport") => callbacks::this_thread(),
        ("aclInit", "configPath") => 0,
        ("aclprofInit", "profilerResultPath") => memory.put(b"/tmp"),
        ("aclprofInit", "length") => 4,
        ("aclprofCreateConfig", "deviceIdList") => memory.put_list(&[world.first as u32; 2]),
        ("aclprofCreateConfig", "deviceNums") => 1,
        ("aclprofCreateConfig", "aicoreEvents") => 0,
        ("aclprofCreateConfig", "dataTypeConfig") => 2,
        ("aclrtCreateEventWithFlag" | "aclrtCreateEventExWithFlag", "flag") => caller.one(&[1, 9]),
        ("HcclRankGraphGetEndpointDesc" | "HcommEndpointGetDescs", "descNum") => {
            memory.put_value(&caller.one(&[2_u32, 4]))
        }
        ("aclmdlRIExecute", "timeout") => 50,
        ("aclmdlRIDebugJsonPrint", "path") => memory.put(world.texts.file.as_bytes()),
        ("aclmdlRICaptureThreadExchangeMode", _) => memory.put_value(&2_u32),
        ("aclmdlRICaptureBegin", "mode") => caller.one(&[0, 1, 2]),
        ("aclsysGetVersionStr" | "aclsysGetVersionNum", "pkgName") => memory.put(b"runtime"),
        ("aclrtStreamWaitEventWithFlag" | "aclrtRecordEventWithFlag", "flag") => 0,
        ("aclrtSetStreamAttribute", "value") => memory.put_value(&caller.random.u64(..2)),
        ("HcclTeamWindowRegister", "flag" | "winFlag") => 1,
        ("ascendExtBlockDestroy", _) if caller.focus.is_some() => 77,
        (name, "block") if name.starts_with("ascendExt") && parameter.size == 4 => {
            u64::from(world.block)
        }
        ("ascendExtFaultSet", "fault") => 0,
        _ => return None,
    };
    Some(Value::new(number))
}

/// Returns a value of an enum: a common one for some enums, and otherwise any value that is not
/// negative.
fn enumerated(caller: &mut Caller<'_>, ty: &str, values: &[i64]) -> i64 {
    if ty == "CommEngine" {
        return caller.one(&[2, 0, 1, 4, 3]);
    }
    if matches!(ty, "HcclDataType" | "HcommDataType") {
        return caller.one(&[2, 4]);
    }
    if matches!(ty, "aclrtMemMallocPolicy") {
        return caller.one(&[0, 1, 2]);
    }
    let sensible: Vec<i64> = values.iter().copied().filter(|value| *value >= 0).collect();
    match caller.focus {
        Some(focus) => sensible[focus % sensible.len()],
        None => sensible[caller.random.usize(..sensible.len())],
    }
}

fn text(caller: &mut Caller<'_>, name: &str) -> u64 {
    let memory = &caller.run.memory;
    match name {
        "configPath" => 0,
        "ctxTag" | "memTag" | "tag" | "batchTag" => memory.put(b"tag"),
        "regName" => memory.put(b"calls"),
        _ => memory.put(b"name"),
    }
}

fn data(caller: &mut Caller<'_>, name: &str) -> u64 {
    let host = caller.run.memory.data();
    match name {
        "userData" | "args" | "reserve" => host,
        "src" | "srcCtx" if caller.focus.is_none() => {
            let device = caller.memory(false).0 + PIECE / 2;
            caller.one(&[host, device])
        }
        "srcCtx" => host,
        "src" | "sendBuf" => caller.memory(false).0 + PIECE / 2,
        "hostPtr" => caller.memory(true).0,
        "info" => caller.run.memory.room(1 << 13),
        _ => caller.memory(false).0,
    }
}

fn number(caller: &mut Caller<'_>, ty: &str, name: &str) -> u64 {
    match name {
        "deviceId" | "deviceLogicId" | "userDevid" | "userDevId" | "logicDevId" | "phyDevId"
        | "device" => caller.device() as u64,
        "timeout" | "timeOut" | "timeoutMs" => caller.one(&[20, 1, 0]),
        "len" | "size" | "memSize" => caller.one(&[256, 64]),
        "destMax" | "maxCount" => 4096,
        "count" | "sendCount" | "recvCount" => caller.one(&[16, 64]),
        "dataSize" => 128,
        "maxLen" => 128,
        "numBlocks" => caller.one(&[1, 2]),
        "notifyNum" | "notifyNumPerThread" => caller.one(&[1, 3]),
        "rank" | "root" | "srcRank" | "dstRank" | "rankId" | "netLayer" | "layer"
        | "topoInstId" | "subCommRankId" => 0,
        "alignment" | "offset" | "flags" | "flag" | "priority" => 0,
        _ if ty == "u64" || ty == "usize" => caller.one(&[0, 1, 64]),
        _ => caller.one(&[0, 1, 2]),
    }
}

fn reserved(caller: &mut Caller<'_>) -> u64 {
    let list = caller.run.objects.lists().memory.clone();
    let found = list.iter().rev().find(|piece| piece.bytes == UNIT);
    found.map_or(0, |piece| piece.at)
}

/// Puts the kernel's three arguments into memory of the device, and returns their address.
fn arguments_on_device(caller: &mut Caller<'_>) -> u64 {
    let (at, _) = caller.memory(false);
    let words = [at, 0, at + 4096];
    let place = at + 8192;
    for (from, to, bytes) in [
        (caller.run.memory.put_list(&words), place, 24),
        (caller.run.memory.put(&tiling()), at + 4096, 128),
    ] {
        // If the copy fails, only the launch fails, too.
        let _ = ascend_emulator_testing::call!(aclrtMemcpy(
            to as *mut c_void,
            bytes,
            from as *const c_void,
            bytes,
            aclrtMemcpyKind::ACL_MEMCPY_HOST_TO_DEVICE
        ));
    }
    place
}

fn tiling() -> Vec<u8> {
    let mut bytes = ascend_emulator_testing::kernel::build::tiling(&[]);
    bytes.resize(128, 0);
    bytes
}

fn arguments_of_host(caller: &mut Caller<'_>) -> u64 {
    let (at, _) = caller.memory(false);
    let mut bytes: Vec<u8> = [at, 0, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.extend(tiling());
    caller.run.memory.put(&bytes)
}

fn arguments_in_array(caller: &mut Caller<'_>) -> u64 {
    arguments_on_device(caller);
    let (at, _) = caller.memory(false);
    let memory = &caller.run.memory;
    let values = [at, 0, at + 4096].map(|word: u64| memory.put_value(&word));
    memory.put_list(&values)
}

/// Returns a communicator's configuration.
pub fn comm_config(caller: &mut Caller<'_>) -> HcclCommConfig {
    config(&format!("calls{}", caller.random.u32(..1000)))
}

/// Returns the protocol of the product.
pub fn protocol(caller: &Caller<'_>) -> CommProtocol {
    protocol_of(caller.run.world.get().map_or(3, |world| world.product))
}
