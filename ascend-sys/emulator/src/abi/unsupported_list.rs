//! The list of the functions that return "not supported", each with the reason.

use super::unsupported::{Refusing, Unsupported, UnsupportedName, unsupported};

unsupported! {
    // The process and its settings.
    "it has no information on which products can run each other's code":
        aclrtCheckArchCompatibility;
    "it has no settings of the process, a context or a device that kernels depend on":
        aclrtGetSysParamOpt, aclrtSetSysParamOpt, aclrtCtxGetSysParamOpt, aclrtCtxSetSysParamOpt;
    "it runs no models whose data could be dumped":
        aclmdlInitDump, aclmdlSetDump, aclmdlFinalizeDump;

    // Errors.
    "virtual devices have no errors of hardware":
        aclrtGetErrorVerbose, aclrtRepairError, aclrtGetMemUceInfo, aclrtMemUceRepair;
    "an exception names the failed task but not its kernel; aclGetRecentErrMsg has the text of the failure":
        aclrtBinarySetExceptionCallback, aclrtGetArgsFromExceptionInfo,
        aclrtGetFuncHandleFromExceptionInfo;

    // Devices.
    "virtual devices do not have this property":
        aclrtGetDeviceCapability, aclrtGetDeviceUtilizationRate, aclrtDeviceGetPCIBusId, aclrtDeviceGetByPCIBusId,
        aclrtDeviceGetHostAtomicCapabilities, aclrtDeviceGetP2PAtomicCapabilities,
        aclrtGetHardwareSyncAddr, aclrtSetTsDevice;
    "the cores of a device cannot be divided into groups":
        aclrtSetGroup, aclrtGetGroupCount, aclrtCreateGroupInfo, aclrtDestroyGroupInfo,
        aclrtGetAllGroupInfo, aclrtGetGroupInfoDetail;
    "virtual devices have no caches":
        aclrtDeviceL2CacheFlush, aclrtCmoAsync,
        aclrtCmoAsyncWithBarrier, aclrtCmoAsyncWithDesc, aclrtCmoGetDescSize, aclrtCmoSetDesc,
        aclrtCmoWaitBarrier;

    // Streams and events.
    "overflows of floats are not recorded":
        aclrtCtxGetFloatOverflowAddr, aclrtGetOverflowStatus, aclrtResetOverflowStatus,
        aclrtGetFloatOverflowStatus, aclrtResetFloatOverflowStatus, aclrtNpuGetFloatOverFlowStatus,
        aclrtNpuClearFloatOverFlowStatus;
    "the tasks of a stream run in order, until they are done, aborted (aclrtStreamAbort) or \
     stopped (aclrtStreamStop)":
        aclrtPersistentTaskClean, aclrtActiveStream, aclrtSwitchStream,
        aclrtCreateLabel, aclrtSetLabel, aclrtDestroyLabel, aclrtCreateLabelList,
        aclrtDestroyLabelList, aclrtSwitchLabelByIndex, aclrtGetThreadLastTaskId,
        aclrtTaskUpdateAsync;
    "it makes no random numbers":
        aclrtRandomNumAsync;
    "it has no profiler; Runtime::record_timeline of the crate hccl records a timeline":
        aclrtProfTrace, aclprofSetConfig, aclprofModelSubscribe, aclprofModelUnSubscribe,
        aclprofCreateSubscribeConfig, aclprofDestroySubscribeConfig, aclprofGetOpDescSize,
        aclprofGetOpNum, aclprofGetOpTypeLen, aclprofGetOpType, aclprofGetOpNameLen,
        aclprofGetOpName, aclprofGetOpStart, aclprofGetOpEnd, aclprofGetOpDuration,
        aclprofGetModelId, aclprofGetOpFlag, aclprofGetOpAttriValue, aclprofGetStepTimestamp,
        aclprofCreateStepInfo, aclprofDestroyStepInfo, aclprofCreateStamp, aclprofDestroyStamp,
        aclprofPush, aclprofPop, aclprofRangeStart, aclprofRangeStop,
        aclprofSetStampTraceMessage, aclprofMark, aclprofMarkEx, aclprofStr2Id,
        aclprofRangePushEx, aclprofRangePop;

    // Memory.
    "memory belongs to a device or to the host, and does not move between them":
        aclrtMemAllocManaged, aclrtMemManagedAdvise, aclrtMemManagedGetAttr,
        aclrtMemManagedGetAttrs, aclrtMemManagedPrefetchAsync, aclrtMemManagedPrefetchBatchAsync;
    "it does not use allocators of the application":
        aclrtAllocatorCreateDesc, aclrtAllocatorDestroyDesc, aclrtAllocatorSetObjToDesc,
        aclrtAllocatorSetAllocFuncToDesc, aclrtAllocatorSetFreeFuncToDesc,
        aclrtAllocatorSetAllocAdviseFuncToDesc, aclrtAllocatorSetGetAddrFromBlockFuncToDesc,
        aclrtAllocatorRegister, aclrtAllocatorUnregister, aclrtAllocatorGetByStream;
    "it has no information on the engines that reach host memory":
        aclrtHostMemMapCapabilities;
    "it has no more information on memory than aclrtGetMemInfo and aclrtPointerGetAttributes return":
        aclrtCheckMemType, aclrtGetMemUsageInfo;
    "it has no queues of buffers":
        aclrtAllocBuf, aclrtFreeBuf, aclrtGetBufData, aclrtSetBufDataLen, aclrtGetBufDataLen,
        aclrtSetBufUserData, aclrtGetBufUserData, aclrtCopyBufRef, aclrtAppendBufChain,
        aclrtGetBufChainNum, aclrtGetBufFromChain;
    "memory is always mapped on its own device with rights to read and write, over one link":
        aclrtMemMapNoAccess, aclrtMemMapSelectedLink, aclrtMemMapSetLink, aclrtMemP2PMap;

    // Kernels.
    "a recorded kernel has no code, no symbols and no memory at an address":
        aclrtBinaryGetDevAddress, aclrtBinaryGetGlobal, aclrtGetFuncBySymbol, aclrtGetFunctionAddr,
        aclrtGetFunctionSize, aclrtFunctionGetAvailDynUbufPerBlock, aclrtGetSymbolAddress,
        aclrtGetSymbolSize, aclrtMemcpyFromSymbol, aclrtMemcpyFromSymbolAsync,
        aclrtMemcpyToSymbol, aclrtMemcpyToSymbolAsync;
    "it runs recorded kernels of cube and vector cores only":
        aclrtLaunchSIMTKernelWithArgsArray, aclrtLaunchSIMTKernelWithHostArgs;
    "it does not store information about the tasks of a program":
        aclrtCacheLastTaskOpInfo, aclrtCacheLastTaskExtendInfo;

    // Graphs and processes.
    "graphs are captured (aclmdlRICaptureBegin) or built (aclmdlRIBuildBegin), executed and destroyed; they are not captured in part, conditional or aborted":
        aclmdlRICaptureToModelRIBegin, aclmdlRIKernelTaskGetAttribute, aclmdlRICondHandleCreate,
        aclmdlRICondHandleGetCondPtr, aclmdlRIAddCondTask, aclmdlRIAbort;
    "it cannot save the state of a device":
        aclrtSnapShotProcessLock, aclrtSnapShotProcessUnlock, aclrtSnapShotProcessBackup,
        aclrtSnapShotProcessRestore, aclrtSnapShotCallbackRegister,
        aclrtSnapShotCallbackUnregister;

    // HCCL.
    "it merges messages into kernels of the device's CPU in a way that is not published; \
     aclrtLaunchKernelWithConfig launches a kernel":
        HcclAicpuKernelLaunch;
    "only device code requests a peer's address; CANN's host library has just the name of this function":
        HcclSymWinGetPeerPointer;
}
