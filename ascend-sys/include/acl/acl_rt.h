/* AscendCL runtime: devices, contexts, streams, events, notifies, memory, kernels and graphs. */
#ifndef ACL_ACL_RT_H
#define ACL_ACL_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"

/* The version of this interface. */
#define ACL_MAJOR_VERSION 1
#define ACL_MINOR_VERSION 17
#define ACL_PATCH_VERSION 0

/* Flags of an event. */
#define ACL_EVENT_SYNC 1U
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 2U
#define ACL_EVENT_TIME_LINE 8U
#define ACL_EVENT_DEVICE_USE_ONLY 16U
#define ACL_EVENT_EXTERNAL 32U
#define ACL_EVENT_IPC 64U

/* Flags of a stream. */
#define ACL_STREAM_FAST_LAUNCH 1U
#define ACL_STREAM_FAST_SYNC 2U
#define ACL_STREAM_PERSISTENT 4U
#define ACL_STREAM_HUGE 8U
#define ACL_STREAM_CPU_SCHEDULE 16U
#define ACL_STREAM_DEVICE_USE_ONLY 32U

/* How aclrtValueWait compares. */
#define ACL_STREAM_WAIT_VALUE_GEQ 0U
#define ACL_STREAM_WAIT_VALUE_EQ 1U
#define ACL_STREAM_WAIT_VALUE_AND 2U
#define ACL_STREAM_WAIT_VALUE_NOR 3U

/* What a stream does after a failure. */
#define ACL_CONTINUE_ON_FAILURE 0U
#define ACL_STOP_ON_FAILURE 1U

/* Flags of a notify. */
#define ACL_NOTIFY_DEFAULT 0U
#define ACL_NOTIFY_DEVICE_USE_ONLY 1U

/* Whether a device has a feature. */
#define ACL_DEV_FEATURE_SUPPORT 1
#define ACL_DEV_FEATURE_NOT_SUPPORT 0

/* Flags for sharing notifies and memory between processes. */
#define ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT 0UL
#define ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION 2UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT 0UL
#define ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS 2UL
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT 0UL
#define ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION 1UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT 0UL
#define ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS 1UL
#define ACL_RT_VMM_EXPORT_FLAG_DEFAULT 0UL
#define ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION 1UL

/* Flags for registering host memory. */
#define ACL_HOST_REG_MAPPED 2UL
#define ACL_HOST_REG_IOMEMORY 4UL
#define ACL_HOST_REG_READONLY 8UL
#define ACL_HOST_REG_PINNED 0x10000000UL

/* Flags for printing a graph as JSON. */
#define ACL_MDLRI_DEBUG_JSON_PRINT_SUMMARY 0UL
#define ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE 1UL

/* Lengths of arrays. */
#define ACL_RT_MAX_RECORD_PA_NUM_PER_DEV 20U
#define ACL_IPC_EVENT_HANDLE_SIZE 64U
#define MAX_MEM_UCE_INFO_ARRAY_SIZE 128
#define UCE_INFO_RESERVED_SIZE 14
#define ACL_RT_MEM_UCE_INFO_MAX_NUM 20
#define ACL_RT_CMO_MAX_BARRIER_NUM 6U
#define ACL_PKG_VERSION_MAX_SIZE 128
#define ACL_PKG_VERSION_PARTS_MAX_SIZE 64

/* Who may use managed memory. */
#define ACL_RT_MEM_ATTACH_GLOBAL 1U

/* Links to memory. */
#define ACL_RT_MEM_LINK_IDX_0 0U
#define ACL_RT_MEM_LINK_IDX_1 1U

/* How a device is attached to its host. */
#define ACL_HOST_DEVICE_CONNECT_TYPE_PCIE 0
#define ACL_HOST_DEVICE_CONNECT_TYPE_HCCS 1
#define ACL_HOST_DEVICE_CONNECT_TYPE_UB 2

/* Flags for recording an event and waiting for it. */
#define ACL_EVENT_RECORD_DEFAULT 0U
#define ACL_EVENT_RECORD_EXTERNAL 1U
#define ACL_EVENT_WAIT_DEFAULT 0U
#define ACL_EVENT_WAIT_EXTERNAL 1U

/* Links for memory shared between processes. */
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_SIO 0
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS 1
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_ONE_PORT_PATH 2
#define ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_UB_MULTI_PORT_PATH 3

/* What a binary was compiled for. */
#define ACL_RT_BINARY_MAGIC_ELF_AICORE 0x43554245U
#define ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE 0x41415246U
#define ACL_RT_BINARY_MAGIC_ELF_CUBE_CORE 0x41494343U

/* What a device is built into. */
#define ACL_DEVICE_FORM_FACTOR_POD 0
#define ACL_DEVICE_FORM_FACTOR_A_K 1
#define ACL_DEVICE_FORM_FACTOR_A_X 2
#define ACL_DEVICE_FORM_FACTOR_PCIE_CARD 3

/* How two devices are linked. */
#define ACL_RT_DEVS_TOPOLOGY_HCCS 1ULL
#define ACL_RT_DEVS_TOPOLOGY_PIX 2ULL
#define ACL_RT_DEVS_TOPOLOGY_PIB 4ULL
#define ACL_RT_DEVS_TOPOLOGY_PHB 8ULL
#define ACL_RT_DEVS_TOPOLOGY_SYS 16ULL
#define ACL_RT_DEVS_TOPOLOGY_SIO 32ULL
#define ACL_RT_DEVS_TOPOLOGY_HCCS_SW 64ULL

/* Kinds of memory. */
#define ACL_RT_MEM_TYPE_DEV 2U
#define ACL_RT_MEM_TYPE_DVPP 8U
#define ACL_RT_MEM_TYPE_RSVD 16U

#ifdef __cplusplus
extern "C" {
#endif

/** Physical memory. */
typedef void *aclrtDrvMemHandle;
/** A binary in memory. */
typedef void *aclrtBinary;
/** A loaded binary. */
typedef void *aclrtBinHandle;
/** A kernel. */
typedef void *aclrtFuncHandle;
/** The arguments of a kernel. */
typedef void *aclrtArgsHandle;
/** One argument of a kernel. */
typedef void *aclrtParamHandle;
/** A graph. */
typedef void *aclmdlRI;
/** A condition of a graph. */
typedef void *aclmdlRICondHandle;
/** More about how busy a device is; CANN does not publish its fields. */
typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;
/** Groups of cores. */
typedef struct tagRtGroupInfo aclrtGroupInfo;
/** What is known about a task that failed. */
typedef struct rtExceptionInfo aclrtExceptionInfo;

/** Whether the program runs on the device or on a host. */
typedef enum aclrtRunMode {
    ACL_DEVICE = 0,
    ACL_HOST = 1
} aclrtRunMode;

/** Task schedulers. */
typedef enum aclrtTsId {
    ACL_TS_ID_AICORE = 0,
    ACL_TS_ID_AIVECTOR = 1,
    ACL_TS_ID_RESERVED = 2
} aclrtTsId;

/** Whether an event has happened. */
typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;

/** Whether what was recorded in an event has happened. */
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

/** Whether all waits for an event are over. */
typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 65535
} aclrtEventWaitStatus;

/** Whether all tasks of a stream are done. */
typedef enum aclrtStreamStatus {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 65535
} aclrtStreamStatus;

/** Whether the stream waits for a callback. */
typedef enum aclrtCallbackBlockType {
    ACL_CALLBACK_NO_BLOCK = 0,
    ACL_CALLBACK_BLOCK = 1
} aclrtCallbackBlockType;

/** Where a copy goes from and to. */
typedef enum aclrtMemcpyKind {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;

/** Hints about managed memory. Since 9.1.0. */
typedef enum aclrtMemManagedAdviseType {
    ACL_MEM_ADVISE_SET_READ_MOSTLY = 0,
    ACL_MEM_ADVISE_UNSET_READ_MOSTLY = 1,
    ACL_MEM_ADVISE_SET_PREFERRED_LOCATION = 2,
    ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 3,
    ACL_MEM_ADVISE_SET_ACCESSED_BY = 4,
    ACL_MEM_ADVISE_UNSET_ACCESSED_BY = 5
} aclrtMemManagedAdviseType;

/** Kinds of places for managed memory. Since 9.1.0. */
typedef enum aclrtMemManagedLocationType {
    ACL_MEM_LOCATIONTYPE_INVALID = 0,
    ACL_MEM_LOCATIONTYPE_DEVICE = 1,
    ACL_MEM_LOCATIONTYPE_HOST = 2,
    ACL_MEM_LOCATIONTYPE_HOST_NUMA = 3,
    ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT = 4
} aclrtMemManagedLocationType;

/** Which pages memory is taken from; the last three are flags that can be added. */
typedef enum aclrtMemMallocPolicy {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 256,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 4096,
    ACL_MEM_ACCESS_USER_SPACE_READONLY = 1048576
} aclrtMemMallocPolicy;

/** How the device sees registered host memory. */
typedef enum {
    ACL_HOST_REGISTER_MAPPED = 0,
    ACL_HOST_REGISTER_IOMEMORY = 4,
    ACL_HOST_REGISTER_READONLY = 8
} aclrtHostRegisterType;

/** Which member of aclrtMallocAttrValue is meant. */
typedef enum {
    ACL_RT_MEM_ATTR_RSV = 0,
    ACL_RT_MEM_ATTR_MODULE_ID = 1,
    ACL_RT_MEM_ATTR_DEVICE_ID = 2,
    ACL_RT_MEM_ATTR_VA_FLAG = 3
} aclrtMallocAttrType;

/** Kinds of device memory. */
typedef enum aclrtMemAttr {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5,
    ACL_DDR_MEM_P2P_HUGE = 6,
    ACL_DDR_MEM_P2P_NORMAL = 7,
    ACL_HBM_MEM_P2P_HUGE = 8,
    ACL_HBM_MEM_P2P_NORMAL = 9,
    ACL_HBM_MEM_HUGE1G = 10,
    ACL_HBM_MEM_P2P_HUGE1G = 11,
    ACL_MEM_NORMAL = 12,
    ACL_MEM_HUGE = 13,
    ACL_MEM_HUGE1G = 14,
    ACL_MEM_P2P_NORMAL = 15,
    ACL_MEM_P2P_HUGE = 16,
    ACL_MEM_P2P_HUGE1G = 17
} aclrtMemAttr;

/** Sizes of pages. */
typedef enum aclrtMemPgType {
    NORMAL_PAGE_TYPE = 0,
    HUGE_PAGE_TYPE = 1,
    HUGE1G_PAGE_TYPE = 2
} aclrtMemPgType;

/** Kinds of device memory. */
typedef enum aclrtMemType {
    HBM_TYPE = 0,
    DDR_TYPE = 1,
    P2P_HBM_TYPE = 2,
    P2P_DDR_TYPE = 3
} aclrtMemType;

/** Attributes of memory shared between processes. */
typedef enum {
    ACL_RT_IPC_MEM_ATTR_ACCESS_LINK = 0
} aclrtIpcMemAttrType;

/** What a group of cores can be asked for. */
typedef enum aclrtGroupAttr {
    ACL_GROUP_AICORE_INT = 0,
    ACL_GROUP_AIV_INT = 1,
    ACL_GROUP_AIC_INT = 2,
    ACL_GROUP_SDMANUM_INT = 3,
    ACL_GROUP_ASQNUM_INT = 4,
    ACL_GROUP_GROUPID_INT = 5
} aclrtGroupAttr;

/** What happens when a floating-point number overflows. */
typedef enum aclrtFloatOverflowMode {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0,
    ACL_RT_OVERFLOW_MODE_INFNAN = 1,
    ACL_RT_OVERFLOW_MODE_UNDEF = 2
} aclrtFloatOverflowMode;

/** Fields of a stream configuration. */
typedef enum {
    ACL_RT_STREAM_WORK_ADDR_PTR = 0,
    ACL_RT_STREAM_WORK_SIZE = 1,
    ACL_RT_STREAM_FLAG = 2,
    ACL_RT_STREAM_PRIORITY = 3
} aclrtStreamConfigAttr;

/** Kinds of places for memory. */
typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2,
    ACL_MEM_LOCATION_TYPE_MANAGED = 3,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;

/** What a range of managed memory can be asked for. Since 9.1.0. */
typedef enum aclrtMemManagedRangeAttribute {
    ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1,
    ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
    ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3,
    ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 4,
    ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 5,
    ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 6,
    ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7,
    ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8
} aclrtMemManagedRangeAttribute;

/** Kinds of physical memory. */
typedef enum aclrtMemAllocationType {
    ACL_MEM_ALLOCATION_TYPE_PINNED = 0
} aclrtMemAllocationType;

/** What physical memory can be exported as. */
typedef enum aclrtMemHandleType {
    ACL_MEM_HANDLE_TYPE_NONE = 0,
    ACL_MEM_HANDLE_TYPE_POSIX = 2
} aclrtMemHandleType;

/** Kinds of handles for exported memory. */
typedef enum aclrtMemSharedHandleType {
    ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 1,
    ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 2
} aclrtMemSharedHandleType;

/** Which granularity is asked for. */
typedef enum aclrtMemGranularityOptions {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 65535
} aclrtMemGranularityOptions;

/** Whether a device works. */
typedef enum aclrtDeviceStatus {
    ACL_RT_DEVICE_STATUS_NORMAL = 0,
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
    ACL_RT_DEVICE_STATUS_END = 65535
} aclrtDeviceStatus;

/** Which calls are refused during a capture, and for which threads. */
typedef enum {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2
} aclmdlRICaptureMode;

/** Whether a stream is being captured. */
typedef enum {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2
} aclmdlRICaptureStatus;

/** What kind of error a device has. */
typedef enum {
    ACL_RT_NO_ERROR = 0,
    ACL_RT_ERROR_MEMORY = 1,
    ACL_RT_ERROR_L2 = 2,
    ACL_RT_ERROR_AICORE = 3,
    ACL_RT_ERROR_LINK = 4,
    ACL_RT_ERROR_L3_PORT = 5,
    ACL_RT_ERROR_OTHERS = 65535
} aclrtErrorType;

/** Whether software or hardware is to blame for a core's error. */
typedef enum aclrtAicoreErrorType {
    ACL_RT_AICORE_ERROR_UNKNOWN = 0,
    ACL_RT_AICORE_ERROR_SW = 1,
    ACL_RT_AICORE_ERROR_HW_LOCAL = 2
} aclrtAicoreErrorType;

/** Operations on the cache. */
typedef enum aclrtCmoType {
    ACL_RT_CMO_TYPE_PREFETCH = 0,
    ACL_RT_CMO_TYPE_WRITEBACK = 1,
    ACL_RT_CMO_TYPE_INVALID = 2,
    ACL_RT_CMO_TYPE_FLUSH = 3
} aclrtCmoType;

/** Whose last error is asked for. */
typedef enum aclrtLastErrLevel {
    ACL_RT_THREAD_LEVEL = 0
} aclrtLastErrLevel;

/** Which member of aclrtBinaryLoadOptionValue is meant. Two names have one value. */
typedef enum aclrtBinaryLoadOptionType {
    ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
    ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3
} aclrtBinaryLoadOptionType;

/** Kinds of cores: matrix (AIC) and vector (AIV). */
typedef enum {
    ACL_RT_ENGINE_TYPE_AIC = 0,
    ACL_RT_ENGINE_TYPE_AIV = 1
} aclrtEngineType;

/** Which member of aclrtLaunchKernelAttrValue is meant. Two names have one value. */
typedef enum aclrtLaunchKernelAttrId {
    ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE = 1,
    ACL_RT_LAUNCH_KERNEL_ATTR_LOCAL_MEMORY_SIZE = 2,
    ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE = 2,
    ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE = 3,
    ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET = 4,
    ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH = 5,
    ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP = 6,
    ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT = 7,
    ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US = 8,
    ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING = 9
} aclrtLaunchKernelAttrId;

/** Which member of aclrtStreamAttrValue is meant. */
typedef enum {
    ACL_STREAM_ATTR_FAILURE_MODE = 1,
    ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
    ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
    ACL_STREAM_ATTR_CACHE_OP_INFO = 4,
    ACL_STREAM_ATTR_PRIORITY = 5
} aclrtStreamAttr;

/** Kinds of tasks of a graph. Since 9.1.0. */
typedef enum aclmdlRITaskType {
    ACL_MODEL_RI_TASK_DEFAULT = 0,
    ACL_MODEL_RI_TASK_KERNEL = 1,
    ACL_MODEL_RI_TASK_EVENT_RECORD = 2,
    ACL_MODEL_RI_TASK_EVENT_WAIT = 3,
    ACL_MODEL_RI_TASK_EVENT_RESET = 4,
    ACL_MODEL_RI_TASK_VALUE_WRITE = 5,
    ACL_MODEL_RI_TASK_VALUE_WAIT = 6
} aclmdlRITaskType;

/** What a device can be asked for. Some values have two names. */
typedef enum {
    ACL_DEV_ATTR_AICPU_CORE_NUM = 1,
    ACL_DEV_ATTR_AICORE_CORE_NUM = 101,
    ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
    ACL_DEV_ATTR_VECTOR_CORE_NUM = 201,
    ACL_DEV_ATTR_WARP_SIZE = 202,
    ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203,
    ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE = 204,
    ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
    ACL_DEV_ATTR_MAX_GRID_DIM_X = 205,
    ACL_DEV_ATTR_MAX_GRID_DIM_Y = 206,
    ACL_DEV_ATTR_MAX_GRID_DIM_Z = 207,
    ACL_DEV_ATTR_MAX_BLOCK_PER_GRID = 208,
    ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK = 209,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_X = 210,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Y = 211,
    ACL_DEV_ATTR_MAX_BLOCK_DIM_Z = 212,
    ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
    ACL_DEV_ATTR_L2_CACHE_SIZE = 302,
    ACL_DEV_ATTR_SMP_ID = 401,
    ACL_DEV_ATTR_PHY_CHIP_ID = 402,
    ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID = 403,
    ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403,
    ACL_DEV_ATTR_SUPER_POD_SERVER_ID = 404,
    ACL_DEV_ATTR_SUPER_POD_ID = 405,
    ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406,
    ACL_DEV_ATTR_MAINBOARD_ID = 407,
    ACL_DEV_ATTR_HD_CONNECT_TYPE = 408,
    ACL_DEV_ATTR_DEVICE_FORM_FACTOR = 409,
    ACL_DEV_ATTR_IS_VIRTUAL = 501,
    ACL_DEV_ATTR_NPU_ARCH = 601
} aclrtDevAttr;

/** Optional features of a device. */
typedef enum {
    ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1,
    ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV = 21
} aclrtDevFeatureType;

/** How aclrtReduceAsync combines elements. */
typedef enum {
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM = 10,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13
} aclrtReduceKind;

/** What a process can be limited to. */
typedef enum {
    ACL_RT_DEV_RES_CUBE_CORE = 0,
    ACL_RT_DEV_RES_VECTOR_CORE = 1
} aclrtDevResLimitType;

/** How two numbers are compared. */
typedef enum {
    ACL_RT_EQUAL = 0,
    ACL_RT_NOT_EQUAL = 1,
    ACL_RT_GREATER = 2,
    ACL_RT_GREATER_OR_EQUAL = 3,
    ACL_RT_LESS = 4,
    ACL_RT_LESS_OR_EQUAL = 5
} aclrtCondition;

/** Which numbers are compared. */
typedef enum {
    ACL_RT_SWITCH_INT32 = 0,
    ACL_RT_SWITCH_INT64 = 1
} aclrtCompareDataType;

/** Distributions of random numbers. */
typedef enum {
    ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK = 0,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS = 1,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS = 2,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS = 3
} aclrtRandomNumFuncType;

/** When the callback for aborted tasks is called. */
typedef enum {
    ACL_RT_DEVICE_TASK_ABORT_PRE = 0,
    ACL_RT_DEVICE_TASK_ABORT_POST = 1
} aclrtDeviceTaskAbortStage;

/** Which member of aclrtUpdateTaskAttrVal is meant. */
typedef enum {
    ACL_RT_UPDATE_RANDOM_TASK = 1,
    ACL_RT_UPDATE_AIC_AIV_TASK = 2
} aclrtUpdateTaskAttrId;

/** When the callback for a device is called. */
typedef enum {
    ACL_RT_DEVICE_STATE_SET_PRE = 0,
    ACL_RT_DEVICE_STATE_SET_POST = 1,
    ACL_RT_DEVICE_STATE_RESET_PRE = 2,
    ACL_RT_DEVICE_STATE_RESET_POST = 3
} aclrtDeviceState;

/** When the callback for a snapshot is called. Since 9.0.0. */
typedef enum {
    ACL_RT_SNAPSHOT_LOCK_PRE = 0,
    ACL_RT_SNAPSHOT_BACKUP_PRE = 1,
    ACL_RT_SNAPSHOT_BACKUP_POST = 2,
    ACL_RT_SNAPSHOT_RESTORE_PRE = 3,
    ACL_RT_SNAPSHOT_RESTORE_POST = 4,
    ACL_RT_SNAPSHOT_UNLOCK_POST = 5
} aclrtSnapShotStage;

/** When the callback for a stream is called. */
typedef enum {
    ACL_RT_STREAM_STATE_CREATE_POST = 1,
    ACL_RT_STREAM_STATE_DESTROY_PRE = 2
} aclrtStreamState;

/** What a kernel can be asked for. */
typedef enum {
    ACL_FUNC_ATTR_KERNEL_TYPE = 1,
    ACL_FUNC_ATTR_KERNEL_RATIO = 2,
    ACL_FUNC_ATTR_KERNEL_SCHED_MODE = 3
} aclrtFuncAttribute;

/** Which cores a kernel runs on. */
typedef enum {
    ACL_KERNEL_TYPE_AICORE = 0,
    ACL_KERNEL_TYPE_CUBE = 1,
    ACL_KERNEL_TYPE_VECTOR = 2,
    ACL_KERNEL_TYPE_MIX = 3,
    ACL_KERNEL_TYPE_AICPU = 100
} aclrtKernelType;

/** How recording changes the counter of a notify. */
typedef enum {
    ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE = 0,
    ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE = 1,
    ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE = 2,
    ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE = 4
} aclrtCntNotifyRecordMode;

/** What a wait compares the counter of a notify with. */
typedef enum {
    ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE = 0,
    ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE = 1,
    ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE = 2,
    ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE = 3,
    ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE = 4
} aclrtCntNotifyWaitMode;

/** Who may do what with memory. */
typedef enum {
    ACL_RT_MEM_ACCESS_FLAGS_NONE = 0,
    ACL_RT_MEM_ACCESS_FLAGS_READ = 1,
    ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 3
} aclrtMemAccessFlags;

/** Packages whose version can be asked for. */
typedef enum aclCANNPackageName {
    ACL_PKG_NAME_CANN = 0,
    ACL_PKG_NAME_RUNTIME = 1,
    ACL_PKG_NAME_COMPILER = 2,
    ACL_PKG_NAME_HCCL = 3,
    ACL_PKG_NAME_TOOLKIT = 4,
    ACL_PKG_NAME_OPP = 5,
    ACL_PKG_NAME_OPP_KERNEL = 6,
    ACL_PKG_NAME_DRIVER = 7
} aclCANNPackageName;

/** Hardware units. Since 9.0.0. */
typedef enum {
    ACL_RT_HAC_TYPE_STARS = 0,
    ACL_RT_HAC_TYPE_AICPU = 1,
    ACL_RT_HAC_TYPE_AIC = 2,
    ACL_RT_HAC_TYPE_AIV = 3,
    ACL_RT_HAC_TYPE_PCIEDMA = 4,
    ACL_RT_HAC_TYPE_RDMA = 5,
    ACL_RT_HAC_TYPE_SDMA = 6,
    ACL_RT_HAC_TYPE_DVPP = 7,
    ACL_RT_HAC_TYPE_UDMA = 8,
    ACL_RT_HAC_TYPE_CCU = 9
} aclrtHacType;

/** Whether a unit can use mapped host memory. Since 9.0.0. */
typedef enum {
    ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED = 0,
    ACL_RT_HOST_MEM_MAP_SUPPORTED = 1
} aclrtHostMemMapCapability;

/** Links by which memory is accessed. Since 9.2.0. */
typedef enum {
    ACL_RT_MEM_ACCESS_LINK_SIO = 0,
    ACL_RT_MEM_ACCESS_LINK_HCCS = 1,
    ACL_RT_MEM_ACCESS_UB_ONE_PORT_PATH = 2,
    ACL_RT_MEM_ACCESS_UB_MULTI_PORT_PATH = 3
} aclrtMemLinkType;

/** Which operands of atomic operations a link takes. Two names have one value. Since 9.1.0. */
typedef enum aclrtAtomicOperationCapability {
    ACL_RT_ATOMIC_CAPABILITY_SIGNED = 1,
    ACL_RT_ATOMIC_CAPABILITY_UNSIGNED = 2,
    ACL_RT_ATOMIC_CAPABILITY_REDUCATION = 4,
    ACL_RT_ATOMIC_CAPABILITY_REDUCTION = 4,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR8 = 8,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR16 = 16,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR32 = 32,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR64 = 64,
    ACL_RT_ATOMIC_CAPABILITY_SCALAR128 = 128,
    ACL_RT_ATOMIC_CAPABILITY_VECTOR32X4 = 256
} aclrtAtomicOperationCapability;

/** Atomic operations. Since 9.1.0. */
typedef enum aclrtAtomicOperation {
    ACL_RT_ATOMIC_OPERATION_INTEGER_ADD = 0,
    ACL_RT_ATOMIC_OPERATION_INTEGER_MIN = 1,
    ACL_RT_ATOMIC_OPERATION_INTEGER_MAX = 2,
    ACL_RT_ATOMIC_OPERATION_INTEGER_INCREMENT = 3,
    ACL_RT_ATOMIC_OPERATION_INTEGER_DECREMENT = 4,
    ACL_RT_ATOMIC_OPERATION_AND = 5,
    ACL_RT_ATOMIC_OPERATION_OR = 6,
    ACL_RT_ATOMIC_OPERATION_XOR = 7,
    ACL_RT_ATOMIC_OPERATION_EXCHANGE = 8,
    ACL_RT_ATOMIC_OPERATION_CAS = 9,
    ACL_RT_ATOMIC_OPERATION_FLOAT_ADD = 10,
    ACL_RT_ATOMIC_OPERATION_FLOAT_MIN = 11,
    ACL_RT_ATOMIC_OPERATION_FLOAT_MAX = 12,
    ACL_RT_ATOMIC_OPERATION_DMA_ADD = 30,
    ACL_RT_ATOMIC_OPERATION_DMA_MIN = 31,
    ACL_RT_ATOMIC_OPERATION_DMA_MAX = 32,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_ADD = 40,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MIN = 41,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MAX = 42,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_CAS = 43,
    ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_EXCH = 44
} aclrtAtomicOperation;

/** Flags of a condition of a graph. Since 9.1.0. */
typedef enum {
    ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT = 1
} aclmdlRICondHandleFlag;

/** Kinds of conditional tasks. Since 9.1.0. */
typedef enum {
    ACL_MODEL_RI_COND_TYPE_IF = 0,
    ACL_MODEL_RI_COND_TYPE_WHILE = 1,
    ACL_MODEL_RI_COND_TYPE_SWITCH = 2
} aclmdlRICondTaskType;

/** Limits of a device that can be set. Since 9.2.0. */
typedef enum aclrtDeviceLimit {
    ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE = 0,
    ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE = 1,
    ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE = 2,
    ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE = 3,
    ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE = 4
} aclrtDeviceLimit;

/** Which part of AscendCL a callback belongs to. */
typedef enum aclRegisterCallbackType {
    ACL_REG_TYPE_ACL_MODEL = 0,
    ACL_REG_TYPE_ACL_OP_EXECUTOR = 1,
    ACL_REG_TYPE_ACL_OP_CBLAS = 2,
    ACL_REG_TYPE_ACL_OP_COMPILER = 3,
    ACL_REG_TYPE_ACL_TDT_CHANNEL = 4,
    ACL_REG_TYPE_ACL_TDT_QUEUE = 5,
    ACL_REG_TYPE_ACL_DVPP = 6,
    ACL_REG_TYPE_ACL_RETR = 7,
    ACL_REG_TYPE_OTHER = 65535
} aclRegisterCallbackType;

/** Whether a process is held for a snapshot. */
typedef enum aclrtProcessState {
    ACL_RT_PROCESS_STATE_RUNNING = 0,
    ACL_RT_PROCESS_STATE_LOCKED = 1
} aclrtProcessState;

/** A place for managed memory. Since 9.1.0. */
typedef struct aclrtMemManagedLocation {
    aclrtMemManagedLocationType type;
    int32_t id;
} aclrtMemManagedLocation;

/** The value of an attribute of an allocation. */
typedef union {
    uint16_t moduleId;
    uint32_t deviceId;
    uint32_t vaFlag;
    uint8_t rsv[8];
} aclrtMallocAttrValue;

/** An attribute of an allocation. */
typedef struct {
    aclrtMallocAttrType attr;
    aclrtMallocAttrValue value;
} aclrtMallocAttribute;

/** Attributes of an allocation. */
typedef struct {
    aclrtMallocAttribute *attrs;
    size_t numAttrs;
} aclrtMallocConfig;

/** Processes of one server that may import shared memory. */
typedef struct {
    uint32_t sdid;
    int32_t *pid;
    size_t num;
} aclrtServerPid;

/** How a stream is to be created. */
typedef struct aclrtStreamConfigHandle {
    void *workptr;
    size_t workSize;
    size_t flag;
    uint32_t priority;
} aclrtStreamConfigHandle;

/** How busy a device is, in percent. */
typedef struct aclrtUtilizationInfo {
    int32_t cubeUtilization;
    int32_t vectorUtilization;
    int32_t aicpuUtilization;
    int32_t memoryUtilization;
    aclrtUtilizationExtendInfo *utilizationExtend;
} aclrtUtilizationInfo;

/** A place for memory. */
typedef struct aclrtMemLocation {
    uint32_t id;
    aclrtMemLocationType type;
} aclrtMemLocation;

/** What is known about an address. */
typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;

/** How much memory a module uses, in bytes. */
typedef struct aclrtMemUsageInfo {
    char name[32];
    uint64_t curMemSize;
    uint64_t memPeakSize;
    size_t reserved[8];
} aclrtMemUsageInfo;

/** Exported physical memory, for processes of other servers too. */
typedef struct aclrtMemFabricHandle {
    uint8_t data[128];
} aclrtMemFabricHandle;

/** What physical memory is to be. */
typedef struct aclrtPhysicalMemProp {
    aclrtMemHandleType handleType;
    aclrtMemAllocationType allocationType;
    aclrtMemAttr memAttr;
    aclrtMemLocation location;
    uint64_t reserve;
} aclrtPhysicalMemProp;

/** A range of memory with an error that could not be corrected. */
typedef struct aclrtMemUceInfo {
    void *addr;
    size_t len;
    size_t reserved[UCE_INFO_RESERVED_SIZE];
} aclrtMemUceInfo;

/** Ranges of memory with errors. */
typedef struct {
    size_t arraySize;
    aclrtMemUceInfo memUceInfoArray[ACL_RT_MEM_UCE_INFO_MAX_NUM];
} aclrtMemUceInfoArray;

/** Details of an error, by its type. */
typedef union aclrtErrorInfoDetail {
    aclrtMemUceInfoArray uceInfo;
    aclrtAicoreErrorType aicoreErrType;
} aclrtErrorInfoDetail;

/** An error of a device. */
typedef struct aclrtErrorInfo {
    uint8_t tryRepair;
    uint8_t hasDetail;
    uint8_t reserved[2];
    aclrtErrorType errorType;
    aclrtErrorInfoDetail detail;
} aclrtErrorInfo;

/** The value of an option. */
typedef union aclrtBinaryLoadOptionValue {
    uint32_t isLazyLoad;
    uint32_t magic;
    int32_t cpuKernelMode;
    uint32_t rsv[4];
} aclrtBinaryLoadOptionValue;

/** An option for loading a binary. */
typedef struct {
    aclrtBinaryLoadOptionType type;
    aclrtBinaryLoadOptionValue value;
} aclrtBinaryLoadOption;

/** Options for loading a binary. */
typedef struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption *options;
    size_t numOpt;
} aclrtBinaryLoadOptions;

/** How many blocks or threads in each direction. Passed by value. Since 9.2.0. */
typedef struct dim3 {
    uint32_t x;
    uint32_t y;
    uint32_t z;
#ifdef __cplusplus
    constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
#endif
} dim3;

/** A time in microseconds, in two halves. */
typedef struct {
    uint32_t timeoutLow;
    uint32_t timeoutHigh;
} aclrtTimeoutUs;

/** The value of an attribute of a launch. */
typedef union aclrtLaunchKernelAttrValue {
    uint8_t schemMode;
    uint32_t localMemorySize;
    uint32_t dynUBufSize;
    aclrtEngineType engineType;
    uint32_t blockDimOffset;
    uint8_t isBlockTaskPrefetch;
    uint8_t isDataDump;
    uint16_t timeout;
    aclrtTimeoutUs timeoutUs;
    uint8_t enableProfiling;
    uint32_t rsv[4];
} aclrtLaunchKernelAttrValue;

/** An attribute of a launch. */
typedef struct aclrtLaunchKernelAttr {
    aclrtLaunchKernelAttrId id;
    aclrtLaunchKernelAttrValue value;
} aclrtLaunchKernelAttr;

/** Attributes of a launch. */
typedef struct aclrtLaunchKernelCfg {
    aclrtLaunchKernelAttr *attrs;
    size_t numAttrs;
} aclrtLaunchKernelCfg;

/** The value of an attribute of a stream. */
typedef union {
    uint64_t failureMode;
    uint32_t overflowSwitch;
    uint32_t userCustomTag;
    uint32_t cacheOpInfoSwitch;
    uint32_t streamPriority;
    uint32_t reserve[4];
} aclrtStreamAttrValue;

/** A task that runs a kernel. Since 9.1.0. */
typedef struct aclmdlRIKernelTaskParams {
    aclrtFuncHandle funcHandle;
    aclrtLaunchKernelCfg *cfg;
    void *args;
    uint32_t isHostArgs;
    size_t argsSize;
    uint32_t numBlocks;
    uint32_t rsv[10];
} aclmdlRIKernelTaskParams;

/** A task that records an event. Since 9.1.0. */
typedef struct aclmdlRIEventRecordTaskParams {
    aclrtEvent event;
    uint32_t eventFlag;
    uint32_t recordFlag;
} aclmdlRIEventRecordTaskParams;

/** A task that waits for an event. Since 9.1.0. */
typedef struct aclmdlRIEventWaitTaskParams {
    aclrtEvent event;
    uint32_t eventFlag;
    uint32_t waitFlag;
} aclmdlRIEventWaitTaskParams;

/** A task that resets an event. Since 9.1.0. */
typedef struct aclmdlRIEventResetTaskParams {
    aclrtEvent event;
    uint32_t eventFlag;
    uint32_t resetFlag;
} aclmdlRIEventResetTaskParams;

/** A task that writes a number to memory. Since 9.1.0. */
typedef struct aclmdlRIValueWriteTaskParams {
    void *devAddr;
    uint64_t value;
} aclmdlRIValueWriteTaskParams;

/** A task that waits for a number in memory. Since 9.1.0. */
typedef struct aclmdlRIValueWaitTaskParams {
    void *devAddr;
    uint64_t value;
    uint32_t flag;
} aclmdlRIValueWaitTaskParams;

/** A task of a graph; `type` says which member is meant. Since 9.1.0. */
typedef struct aclmdlRITaskParams {
    aclmdlRITaskType type;
    uint32_t rsv0[3];
    aclrtTaskGrp taskGrp;
    void *opInfoPtr;
    size_t opInfoSize;
    uint8_t rsv1[32];
    union {
        uint8_t rsv2[128];
        aclmdlRIKernelTaskParams kernelTaskParams;
        aclmdlRIEventRecordTaskParams eventRecordTaskParams;
        aclmdlRIEventWaitTaskParams eventWaitTaskParams;
        aclmdlRIEventResetTaskParams eventResetTaskParams;
        aclmdlRIValueWriteTaskParams valueWriteTaskParams;
        aclmdlRIValueWaitTaskParams valueWaitTaskParams;
    };
} aclmdlRITaskParams;

/** One cache operation that a barrier waits for. */
typedef struct {
    aclrtCmoType cmoType;
    uint32_t barrierId;
} aclrtBarrierCmoInfo;

/** Cache operations that a barrier waits for. */
typedef struct {
    size_t barrierNum;
    aclrtBarrierCmoInfo cmoInfo[ACL_RT_CMO_MAX_BARRIER_NUM];
} aclrtBarrierTaskInfo;

/** Where the copies of a batch go from and to. */
typedef struct {
    aclrtMemLocation dstLoc;
    aclrtMemLocation srcLoc;
    uint8_t rsv[16];
} aclrtMemcpyBatchAttr;

/** Where in a kernel's arguments an address is to be put, and of which data. */
typedef struct {
    uint32_t addrOffset;
    uint32_t dataOffset;
} aclrtPlaceHolderInfo;

/** A parameter: a value, or an address of one. */
typedef struct {
    uint8_t isAddr;
    uint8_t valueOrAddr[8];
    uint8_t size;
    uint8_t rsv[6];
} aclrtRandomParaInfo;

/** The parameter of a drop-out mask. */
typedef struct {
    aclrtRandomParaInfo dropoutRation;
} aclrtDropoutBitmaskInfo;

/** The parameters of a uniform distribution. */
typedef struct {
    aclrtRandomParaInfo min;
    aclrtRandomParaInfo max;
} aclrtUniformDisInfo;

/** The parameters of a normal distribution. */
typedef struct {
    aclrtRandomParaInfo mean;
    aclrtRandomParaInfo stddev;
} aclrtNormalDisInfo;

/** A distribution and its parameters. */
typedef struct {
    aclrtRandomNumFuncType funcType;
    union {
        aclrtDropoutBitmaskInfo dropoutBitmaskInfo;
        aclrtUniformDisInfo uniformDisInfo;
        aclrtNormalDisInfo normalDisInfo;
    } paramInfo;
} aclrtRandomNumFuncParaInfo;

/** A task that makes random numbers. */
typedef struct {
    aclDataType dataType;
    aclrtRandomNumFuncParaInfo randomNumFuncParaInfo;
    void *randomParaAddr;
    void *randomResultAddr;
    void *randomCounterAddr;
    aclrtRandomParaInfo randomSeed;
    aclrtRandomParaInfo randomNum;
    uint8_t rsv[8];
} aclrtRandomNumTaskInfo;

/** What changes in a task that makes random numbers. */
typedef struct {
    void *srcAddr;
    size_t size;
    uint32_t rsv[4];
} aclrtRandomTaskUpdateAttr;

/** What changes in a task that runs a kernel. */
typedef struct {
    void *binHandle;
    void *funcEntryAddr;
    void *blockDimAddr;
    uint32_t rsv[4];
} aclrtAicAivTaskUpdateAttr;

/** What changes in a task. */
typedef union {
    aclrtRandomTaskUpdateAttr randomTaskAttr;
    aclrtAicAivTaskUpdateAttr aicAivTaskAttr;
} aclrtUpdateTaskAttrVal;

/** A change of a task. */
typedef struct {
    aclrtUpdateTaskAttrId id;
    aclrtUpdateTaskAttrVal val;
} aclrtTaskUpdateInfo;

/** Options for taking a snapshot. Since 9.1.0. */
typedef struct aclrtSnapShotBackupArgs {
    uint32_t backupFlags;
    char reserved[60];
} aclrtSnapShotBackupArgs;

/** Options for restoring a snapshot. Since 9.1.0. */
typedef struct aclrtSnapShotRestoreArgs {
    uint32_t restoreFlags;
    char reserved[60];
} aclrtSnapShotRestoreArgs;

/** The identity of a device. */
typedef struct aclrtUuid {
    char bytes[16];
} aclrtUuid;

/** How a counting notify is recorded. */
typedef struct {
    aclrtCntNotifyRecordMode mode;
    uint32_t value;
} aclrtCntNotifyRecordInfo;

/** What a wait for a counting notify waits for, and how long. */
typedef struct {
    aclrtCntNotifyWaitMode mode;
    uint32_t value;
    uint32_t timeout;
    uint8_t isClear;
    uint8_t rsv[3];
} aclrtCntNotifyWaitInfo;

/** Who may do what with memory. */
typedef struct {
    aclrtMemAccessFlags flags;
    aclrtMemLocation location;
    uint8_t rsv[12];
} aclrtMemAccessDesc;

/** The version of a package, as text. */
typedef struct aclCANNPackageVersion {
    char version[ACL_PKG_VERSION_MAX_SIZE];
    char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

/** An event for other processes. Passed by value. */
typedef struct aclrtIpcEventHandle {
    char reserved[ACL_IPC_EVENT_HANDLE_SIZE];
} aclrtIpcEventHandle;

/** Which attribute stands for which kind of memory. Since 9.0.0. */
typedef struct MemAttrMapping {
    uint32_t pgType;
    uint32_t memType;
    bool isHostAlloc;
    aclrtMemAttr memAttr;
} MemAttrMapping;

/** A conditional task of a graph. Passed by value. Since 9.1.0. */
typedef struct tagAclmdlRICondTaskParams {
    aclmdlRICondHandle handle;
    aclmdlRICondTaskType type;
    uint32_t size;
    aclmdlRI *modelRIArray;
} aclmdlRICondTaskParams;

/** A function of the host that a stream calls. */
typedef void (*aclrtCallback)(void *userData);
/** A function of the host that a stream calls. */
typedef void (*aclrtHostFunc)(void *args);
/** Called when a task fails. */
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo *exceptionInfo);
/** Called when a kernel of one binary fails. */
typedef void (*aclrtOpExceptionCallback)(aclrtExceptionInfo *exceptionInfo, void *userData);
/** Called before and after a device is set or reset. */
typedef void (*aclrtDeviceStateCallback)(int32_t deviceId, aclrtDeviceState state, void *args);
/** Called at a stage of a snapshot. */
typedef unsigned int (*aclrtSnapShotCallBack)(int32_t deviceId, void *args);
/** Called after a stream is created and before it is destroyed. */
typedef void (*aclrtStreamStateCallback)(aclrtStream stm, aclrtStreamState state, void *args);
/** Called before and after the tasks of a device are aborted. */
typedef int (*aclrtDeviceTaskAbortCallback)(
    int32_t deviceId, aclrtDeviceTaskAbortStage stage, uint32_t timeout, void *args);
/** Called by aclInit. */
typedef int (*aclInitCallbackFunc)(const char *configStr, size_t len, void *userData);
/** Called by aclFinalize. */
typedef int (*aclFinalizeCallbackFunc)(void *userData);

/* Init, version, system */

/** Initialise the runtime, optional JSON config path. */
aclError aclInit(const char *configPath);

/** Shut the runtime down. */
aclError aclFinalize(void);

/** Drop one init reference, shut down at zero. */
aclError aclFinalizeReference(uint64_t *refCount);

/** Package version strings (deprecated). Deprecated. */
aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version);

/** Version text of a named package. */
aclError aclsysGetVersionStr(char *pkgName, char *versionStr);

/** Numeric version of a named package. */
aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);

/** Read process-wide option. */
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/** Set process-wide option. */
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** Is the process on host or on device. */
aclError aclrtGetRunMode(aclrtRunMode *runMode);

/** Enable dump facility. */
aclError aclmdlInitDump(void);

/** Load dump settings from a file. */
aclError aclmdlSetDump(const char *dumpCfgPath);

/** Disable dump facility. */
aclError aclmdlFinalizeDump(void);

/** ACL API major, minor, patch (deprecated). Deprecated. */
aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);

/** Run a callback during init. */
aclError aclInitCallbackRegister(
    aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void *userData);

/** Remove an init callback. */
aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc);

/** Run a callback during shutdown. */
aclError aclFinalizeCallbackRegister(
    aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc, void *userData);

/** Remove a shutdown callback. */
aclError aclFinalizeCallbackUnRegister(
    aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc);

/** Can binaries for a chip run here. */
aclError aclrtCheckArchCompatibility(const char *socVersion, int32_t *canCompatible);

/* Error reporting and exceptions */

/** Last detailed error text, null when none. */
const char *aclGetRecentErrMsg(void);

/** Read thread's last error, keep it. */
aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

/** Read thread's last error and clear it. */
aclError aclrtGetLastError(aclrtLastErrLevel level);

/** Single task-exception callback (deprecated). Deprecated. */
aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);

/** Add task-exception callback. Since 9.2.0. */
aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback);

/** Remove task-exception callback. Since 9.2.0. */
aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback);

/** Failing task id. */
uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Failing stream id. */
uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Submitting thread id. */
uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Failing device id. */
uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Error code of the failure. */
uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info);

/** Kernel argument block of the failure. Since 9.0.0. */
aclError aclrtGetArgsFromExceptionInfo(
    const aclrtExceptionInfo *info, void **devArgsPtr, uint32_t *devArgsLen);

/** Kernel handle of the failure. Since 9.0.0. */
aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info, aclrtFuncHandle *func);

/** Exception callback for kernels of one binary. Since 9.0.0. */
aclError aclrtBinarySetExceptionCallback(
    aclrtBinHandle binHandle, aclrtOpExceptionCallback callback, void *userData);

/** List uncorrectable memory errors. */
aclError aclrtGetMemUceInfo(
    int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize, size_t *retSize);

/** Repair listed memory errors. */
aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize);

/** Detailed device error record. */
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);

/** Try to repair the recorded device error. */
aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo);

/* Device */

/** Bind calling thread to a device. */
aclError aclrtSetDevice(int32_t deviceId);

/** Release this process's use of a device. */
aclError aclrtResetDevice(int32_t deviceId);

/** Release a device ignoring reference count. */
aclError aclrtResetDeviceForce(int32_t deviceId);

/** Device bound to the calling thread. */
aclError aclrtGetDevice(int32_t *deviceId);

/** Wait for all work on the device. */
aclError aclrtSynchronizeDevice(void);

/** Same with millisecond timeout. */
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/** Choose task scheduler (AI core or vector). */
aclError aclrtSetTsDevice(aclrtTsId tsId);

/** Cube, vector, AICPU and memory load. */
aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);

/** Number of visible devices. */
aclError aclrtGetDeviceCount(uint32_t *count);

/** Select compute group. */
aclError aclrtSetGroup(int32_t groupId);

/** Number of compute groups. */
aclError aclrtGetGroupCount(uint32_t *count);

/** Allocate group description. */
aclrtGroupInfo *aclrtCreateGroupInfo(void);

/** Free group description. */
aclError aclrtDestroyGroupInfo(aclrtGroupInfo *groupInfo);

/** Fill group description. */
aclError aclrtGetAllGroupInfo(aclrtGroupInfo *groupInfo);

/** Read one attribute of a group. */
aclError aclrtGetGroupInfoDetail(
    const aclrtGroupInfo *groupInfo, int32_t groupIndex, aclrtGroupAttr attr, void *attrValue,
    size_t valueLen, size_t *paramRetSize);

/** Can one device reach another's memory. */
aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);

/** Allow access to a peer device. */
aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);

/** Revoke peer access. */
aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/** Choose saturating or inf/nan float overflow. */
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);

/** Read float overflow mode. */
aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);

/** Is the device healthy. */
aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);

/** Process id as the physical device sees it. */
aclError aclrtDeviceGetBareTgid(int32_t *pid);

/** Stop running tasks of a device. */
aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);

/** Query one device attribute. */
aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);

/** Lowest and highest stream priorities. */
aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);

/** Query one device feature flag. */
aclError aclrtGetDeviceCapability(
    int32_t deviceId, aclrtDevFeatureType devFeatureType, int32_t *value);

/** 16-byte device identifier. */
aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);

/** Set a device limit (kernel stack, print buffer). Since 9.2.0. */
aclError aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value);

/** Read a device limit. Since 9.2.0. */
aclError aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t *value);

/** PCI address text of a device. Since 9.2.0. */
aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len);

/** Device index from PCI address text. Since 9.2.0. */
aclError aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId);

/** Atomics supported between host and device. Since 9.1.0. */
aclError aclrtDeviceGetHostAtomicCapabilities(
    uint32_t *capabilities, const aclrtAtomicOperation *operations, const uint32_t count,
    int32_t deviceId);

/** Atomics supported between two devices. Since 9.1.0. */
aclError aclrtDeviceGetP2PAtomicCapabilities(
    uint32_t *capabilities, const aclrtAtomicOperation *operations, const uint32_t count,
    int32_t srcDeviceId, int32_t dstDeviceId);

/** Core quota of a device. */
aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);

/** Set core quota of a device. */
aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);

/** Restore default core quota. */
aclError aclrtResetDeviceResLimit(int32_t deviceId);

/** Interconnect kind between two devices. */
aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId, uint64_t *value);

/** Map user index to logical index. */
aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);

/** Map logical index to user index. */
aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);

/** Map physical index to logical index. */
aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId);

/** Map logical index to physical index. */
aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId);

/** Map physical index to user index. Since 9.1.0. */
aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId);

/** Map user index to physical index. Since 9.1.0. */
aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId);

/** Address used for kernel synchronisation. */
aclError aclrtGetHardwareSyncAddr(void **addr);

/** Hook on device set and reset. */
aclError aclrtRegDeviceStateCallback(
    const char *regName, aclrtDeviceStateCallback callback, void *args);

/** Hook before and after task abort. */
aclError aclrtSetDeviceTaskAbortCallback(
    const char *regName, aclrtDeviceTaskAbortCallback callback, void *args);

/** Peer access state of two devices. */
aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

/** Flush the device L2 cache. Since 9.2.0. */
aclError aclrtDeviceL2CacheFlush(void *rsv);

/* Context */

/** Create context on a device and make current. */
aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/** Destroy a context. */
aclError aclrtDestroyContext(aclrtContext context);

/** Make a context current for this thread. */
aclError aclrtSetCurrentContext(aclrtContext context);

/** Current context of this thread. */
aclError aclrtGetCurrentContext(aclrtContext *context);

/** Read option in current context. */
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/** Set option in current context. */
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** Default stream of current context. */
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);

/** Is the primary context active. */
aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);

/** Overflow status address of the context. */
aclError aclrtCtxGetFloatOverflowAddr(void **overflowAddr);

/* Stream */

/** Continue or stop after a failed task. */
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/** Id of last task submitted here. */
aclError aclrtGetThreadLastTaskId(uint32_t *taskId);

/** Numeric id of a stream. */
aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);

/** Config object for streams (not in libacl_rt). No host library of a release exports it. */
aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void);

/** Free stream config object (not in libacl_rt). No host library of a release exports it. */
aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle);

/** Set stream config option (not in libacl_rt). No host library of a release exports it. */
aclError aclrtSetStreamConfigOpt(
    aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, const void *attrValue,
    size_t valueSize);

/** New stream with defaults. */
aclError aclrtCreateStream(aclrtStream *stream);

/** New stream from config object (not in libacl_rt). No host library of a release exports it. */
aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle);

/** New stream with priority and flags. */
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/** Destroy after pending work drains. */
aclError aclrtDestroyStream(aclrtStream stream);

/** Destroy, discarding pending work. */
aclError aclrtDestroyStreamForce(aclrtStream stream);

/** Block until the stream is idle. */
aclError aclrtSynchronizeStream(aclrtStream stream);

/** Same with millisecond timeout. */
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/** Is the stream idle. */
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/** Priority of a stream. */
aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);

/** Creation flags of a stream. */
aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);

/** Later stream work waits for an event. */
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/** Same with timeout and flag. Since 9.2.0. */
aclError aclrtStreamWaitEventWithFlag(
    aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag);

/** Same with timeout. */
aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);

/** Process-wide timeout for stream waits on events. */
aclError aclrtSetOpWaitTimeout(uint32_t timeout);

/** Kernel execution timeout, seconds. */
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);

/** Kernel execution timeout, milliseconds. */
aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);

/** Kernel timeout in microseconds, returns effective value. */
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);

/** Smallest timeout step, microseconds. */
aclError aclrtGetOpTimeOutInterval(uint64_t *interval);

/** Toggle overflow detection. */
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);

/** Read overflow detection state. */
aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);

/** Copy overflow flags to device buffer. */
aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize, aclrtStream stream);

/** Clear overflow flags. */
aclError aclrtResetOverflowStatus(aclrtStream stream);

/** Drop queued tasks and stop running ones. */
aclError aclrtStreamAbort(aclrtStream stream);

/** Stream-ordered write of a device word. */
aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/** Stream waits until device word matches. */
aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/** Streams still creatable. */
aclError aclrtGetStreamAvailableNum(uint32_t *streamCount);

/** Set failure mode, overflow switch or tag. */
aclError aclrtSetStreamAttribute(
    aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value);

/** Read a stream attribute. */
aclError aclrtGetStreamAttribute(
    aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value);

/** Core quota of a stream. */
aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);

/** Set core quota of a stream. */
aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);

/** Restore stream core quota. */
aclError aclrtResetStreamResLimit(aclrtStream stream);

/** Adopt a stream's core quota in thread. */
aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);

/** Stop using that quota. */
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);

/** Core quota effective in this thread. */
aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/** New jump label. */
aclError aclrtCreateLabel(aclrtLabel *label);

/** Place label in a stream. */
aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream);

/** Free label. */
aclError aclrtDestroyLabel(aclrtLabel label);

/** Build device list of labels. */
aclError aclrtCreateLabelList(aclrtLabel *labels, size_t num, aclrtLabelList *labelList);

/** Free label list. */
aclError aclrtDestroyLabelList(aclrtLabelList labelList);

/** Jump to label chosen by device value. */
aclError aclrtSwitchLabelByIndex(
    void *ptr, uint32_t maxValue, aclrtLabelList labelList, aclrtStream stream);

/** Start a dormant stream from another. */
aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream);

/** Branch to one of two streams by comparison. */
aclError aclrtSwitchStream(
    void *leftValue, aclrtCondition cond, void *rightValue, aclrtCompareDataType dataType,
    aclrtStream trueStream, aclrtStream falseStream, aclrtStream stream);

/** Insert a profiling marker. */
aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream);

/** Copy float overflow status. */
aclError aclrtGetFloatOverflowStatus(void *outputAddr, uint64_t outputSize, aclrtStream stream);

/** Clear float overflow status. */
aclError aclrtResetFloatOverflowStatus(aclrtStream stream);

/** Fetch overflow status by check mode. */
aclError aclrtNpuGetFloatOverFlowStatus(
    void *outputAddr, uint64_t outputSize, uint32_t checkMode, aclrtStream stream);

/** Clear overflow status by check mode. */
aclError aclrtNpuClearFloatOverFlowStatus(uint32_t checkMode, aclrtStream stream);

/** Generate random numbers on a stream. */
aclError aclrtRandomNumAsync(
    const aclrtRandomNumTaskInfo *taskInfo, const aclrtStream stream, void *reserve);

/** Hook on stream creation and destruction. */
aclError aclrtRegStreamStateCallback(
    const char *regName, aclrtStreamStateCallback callback, void *args);

/** Current kernel timeout, milliseconds. */
aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs);

/** Stop tasks on the stream. */
aclError aclrtStreamStop(aclrtStream stream);

/** Patch parameters of an already queued task. */
aclError aclrtTaskUpdateAsync(
    aclrtStream taskStream, uint32_t taskId, aclrtTaskUpdateInfo *info, aclrtStream execStream);

/** Remove persistent tasks from a stream. */
aclError aclrtPersistentTaskClean(aclrtStream stream);

/* Event */

/** New event with defaults. */
aclError aclrtCreateEvent(aclrtEvent *event);

/** New event with behaviour flags. */
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);

/** New reusable event with flags. */
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/** Destroy an event. */
aclError aclrtDestroyEvent(aclrtEvent event);

/** Mark a point in a stream. */
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/** Record with external-graph flag. Since 9.2.0. */
aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);

/** Stream-ordered reset of an event. */
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/** Old completion query (deprecated). Deprecated. */
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);

/** Has the recorded point completed. */
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);

/** Have waits on the event completed. */
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);

/** Block until the event completes. */
aclError aclrtSynchronizeEvent(aclrtEvent event);

/** Same with millisecond timeout. */
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/** Milliseconds between two recorded events. */
aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/** System counter captured when event recorded. */
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

/** Numeric id of an event. */
aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);

/** Events still creatable. */
aclError aclrtGetEventAvailNum(uint32_t *eventCount);

/** Export an event to other processes. */
aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);

/** Import an exported event (64-byte struct by value). */
aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/* Notify */

/** New one-bit hardware notify. */
aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);

/** Free notify. */
aclError aclrtDestroyNotify(aclrtNotify notify);

/** New counting notify. */
aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag);

/** Free counting notify. */
aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);

/** Stream-ordered signal. */
aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);

/** Stream waits for signal, then clears it. */
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);

/** Numeric id of a notify. */
aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);

/** Clear several notifies. */
aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);

/** Export a notify as text key. */
aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);

/** Import a notify from key. */
aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);

/** Allow listed processes to import. */
aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);

/** Allow processes on other servers to import. */
aclError aclrtNotifySetImportPidInterServer(
    aclrtNotify notify, aclrtServerPid *serverPids, size_t num);

/** Stream-ordered set or add to counter. */
aclError aclrtCntNotifyRecord(
    aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyRecordInfo *info);

/** Stream waits for counter condition. */
aclError aclrtCntNotifyWaitWithTimeout(
    aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyWaitInfo *info);

/** Stream-ordered counter reset. */
aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream);

/** Numeric id of counting notify. */
aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId);

/* Memory */

/** Allocate device memory, padded. */
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** Allocate device memory, 32-byte multiple, no padding. */
aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** Allocate cacheable device memory. */
aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** Allocate device memory with attributes. */
aclError aclrtMallocWithCfg(
    void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg);

/** Allocate memory usable by the task scheduler. */
aclError aclrtMallocForTaskScheduler(
    void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg);

/** Pinned host memory with attributes. */
aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);

/** Where a pointer lives. */
aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);

/** Read one attribute of unified range. Since 9.1.0. */
aclError aclrtMemManagedGetAttr(
    aclrtMemManagedRangeAttribute attribute, const void *ptr, size_t size, void *data,
    size_t dataSize);

/** Read several attributes of unified range. Since 9.1.0. */
aclError aclrtMemManagedGetAttrs(
    aclrtMemManagedRangeAttribute *attributes, size_t numAttributes, const void *ptr, size_t size,
    void **data, size_t *dataSizes);

/** Map existing host memory for device. */
aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);

/** Register host memory by flags. */
aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);

/** Device address of registered host memory. */
aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);

/** Undo host registration. */
aclError aclrtHostUnregister(void *ptr);

/** Can an accelerator map host memory. Since 9.0.0. */
aclError aclrtHostMemMapCapabilities(
    uint32_t deviceId, aclrtHacType hacType, aclrtHostMemMapCapability *capabilities);

/** Write back cached device range. */
aclError aclrtMemFlush(void *devPtr, size_t size);

/** Invalidate cached device range. */
aclError aclrtMemInvalidate(void *devPtr, size_t size);

/** Free device memory. */
aclError aclrtFree(void *devPtr);

/** Allocate pinned host memory. */
aclError aclrtMallocHost(void **hostPtr, size_t size);

/** Allocate unified memory. Since 9.0.0. */
aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag);

/** Free pinned host memory. */
aclError aclrtFreeHost(void *hostPtr);

/** Synchronise device, then free. */
aclError aclrtFreeWithDevSync(void *devPtr);

/** Synchronise device, then free host memory. */
aclError aclrtFreeHostWithDevSync(void *hostPtr);

/** Blocking copy with destination bound. */
aclError aclrtMemcpy(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind);

/** Blocking byte fill. */
aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);

/** Stream-ordered copy. */
aclError aclrtMemcpyAsync(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream);

/** Blocking 32-bit pattern fill. Since 9.1.0. */
aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);

/** Stream-ordered 32-bit pattern fill. Since 9.1.0. */
aclError aclrtMemsetD32Async(
    void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream);

/** Async copy, blocking for foreign memory (deprecated). Deprecated. */
aclError aclrtMemcpyAsyncWithCondition(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream);

/** Blocking pitched copy. */
aclError aclrtMemcpy2d(
    void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    aclrtMemcpyKind kind);

/** Stream-ordered pitched copy. */
aclError aclrtMemcpy2dAsync(
    void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    aclrtMemcpyKind kind, aclrtStream stream);

/** Device address of a device variable. Since 9.1.0. */
aclError aclrtGetSymbolAddress(const void *symbol, void **devPtr);

/** Size of a device variable. Since 9.1.0. */
aclError aclrtGetSymbolSize(const void *symbol, size_t *size);

/** Copy out of a device variable. Since 9.1.0. */
aclError aclrtMemcpyFromSymbol(
    void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset,
    aclrtMemcpyKind kind);

/** Stream-ordered copy from device variable. Since 9.1.0. */
aclError aclrtMemcpyFromSymbolAsync(
    void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset,
    aclrtMemcpyKind kind, aclrtStream stream);

/** Copy into a device variable. Since 9.1.0. */
aclError aclrtMemcpyToSymbol(
    const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind);

/** Stream-ordered copy to device variable. Since 9.1.0. */
aclError aclrtMemcpyToSymbolAsync(
    const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind,
    aclrtStream stream);

/** Stream-ordered byte fill. */
aclError aclrtMemsetAsync(
    void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);

/** Placement hint for unified memory. Since 9.1.0. */
aclError aclrtMemManagedAdvise(
    const void *const ptr, uint64_t size, aclrtMemManagedAdviseType advise,
    aclrtMemManagedLocation location);

/** Free and total bytes by memory kind. */
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/** Per-module memory usage. */
aclError aclrtGetMemUsageInfo(
    int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum);

/** Stream-ordered cache maintenance. */
aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);

/** Size of a device copy descriptor. */
aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);

/** Fill a device copy descriptor. */
aclError aclrtSetMemcpyDesc(
    void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count, void *config);

/** Copy through pointers plus offsets. */
aclError aclrtMemcpyAsyncWithOffset(
    void **dst, size_t destMax, size_t dstDataOffset, const void **src, size_t count,
    size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream stream);

/** Copy described by device descriptor. */
aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);

/** Copy engine reduce (sum, max, min) into destination. */
aclError aclrtReduceAsync(
    void *dst, const void *src, uint64_t count, aclrtReduceKind kind, aclDataType type,
    aclrtStream stream, void *reserve);

/** Pick one buffer of a chain. */
aclError aclrtGetBufFromChain(aclrtMbuf headBuf, uint32_t index, aclrtMbuf *buf);

/** Buffers in a chain. */
aclError aclrtGetBufChainNum(aclrtMbuf headBuf, uint32_t *num);

/** Link a buffer to a chain. */
aclError aclrtAppendBufChain(aclrtMbuf headBuf, aclrtMbuf buf);

/** Add a reference to a buffer. */
aclError aclrtCopyBufRef(const aclrtMbuf buf, aclrtMbuf *newBuf);

/** Read buffer's private area. */
aclError aclrtGetBufUserData(const aclrtMbuf buf, void *dataPtr, size_t size, size_t offset);

/** Write buffer's private area. */
aclError aclrtSetBufUserData(aclrtMbuf buf, const void *dataPtr, size_t size, size_t offset);

/** Payload pointer and capacity. */
aclError aclrtGetBufData(const aclrtMbuf buf, void **dataPtr, size_t *size);

/** Used payload length. */
aclError aclrtGetBufDataLen(aclrtMbuf buf, size_t *len);

/** Set used payload length. */
aclError aclrtSetBufDataLen(aclrtMbuf buf, size_t len);

/** Free message buffer. */
aclError aclrtFreeBuf(aclrtMbuf buf);

/** Allocate message buffer. */
aclError aclrtAllocBuf(aclrtMbuf *buf, size_t size);

/** Cache maintenance tagged with barrier id. */
aclError aclrtCmoAsyncWithBarrier(
    void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId, aclrtStream stream);

/** Wait for tagged cache operations. */
aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag);

/** Many blocking copies in one call. */
aclError aclrtMemcpyBatch(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex);

/** Batch copy without failure index. Since 9.1.0. */
aclError aclrtMemcpyBatchV2(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs);

/** Many stream-ordered copies. */
aclError aclrtMemcpyBatchAsync(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex,
    aclrtStream stream);

/** Async batch copy without failure index. Since 9.1.0. */
aclError aclrtMemcpyBatchAsyncV2(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, aclrtStream stream);

/** Do addresses belong to a memory kind. */
aclError aclrtCheckMemType(
    void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult, uint32_t reserve);

/** Size of cache-operation descriptor. */
aclError aclrtCmoGetDescSize(size_t *size);

/** Fill cache-operation descriptor. */
aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size);

/** Cache operation from descriptor. */
aclError aclrtCmoAsyncWithDesc(
    void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream, const void *reserve);

/** Base and size of containing allocation. Since 9.0.0. */
aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);

/** Prefetch unified memory to a location. Since 9.1.0. */
aclError aclrtMemManagedPrefetchAsync(
    const void *ptr, size_t size, aclrtMemManagedLocation location, uint32_t flags,
    aclrtStream stream);

/** Prefetch several unified ranges. Since 9.1.0. */
aclError aclrtMemManagedPrefetchBatchAsync(
    const void **ptrs, size_t *sizes, size_t count, aclrtMemManagedLocation *prefetchLocs,
    size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, aclrtStream stream);

/* Virtual memory and IPC */

/** Reserve virtual address range. */
aclError aclrtReserveMemAddress(
    void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags);

/** Release reserved range. */
aclError aclrtReleaseMemAddress(void *virPtr);

/** Allocate physical memory handle. */
aclError aclrtMallocPhysical(
    aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags);

/** Free physical memory handle. */
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

/** Map physical handle into reserved range. */
aclError aclrtMapMem(
    void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Undo mapping. */
aclError aclrtUnmapMem(void *virPtr);

/** Map without granting access. Since 9.2.0. */
aclError aclrtMemMapNoAccess(
    void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Export physical memory as 64-bit handle. */
aclError aclrtMemExportToShareableHandle(
    aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
    uint64_t *shareableHandle);

/** Export as default or fabric handle. */
aclError aclrtMemExportToShareableHandleV2(
    aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType,
    void *shareableHandle);

/** Import 64-bit handle on a device. */
aclError aclrtMemImportFromShareableHandle(
    uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle *handle);

/** Import default or fabric handle. */
aclError aclrtMemImportFromShareableHandleV2(
    void *shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags,
    aclrtDrvMemHandle *handle);

/** Allow processes to import handle. */
aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);

/** Same for either handle kind. */
aclError aclrtMemSetPidToShareableHandleV2(
    void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid, size_t pidNum);

/** Minimum or recommended allocation unit. */
aclError aclrtMemGetAllocationGranularity(
    aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option, size_t *granularity);

/** Export device memory as text key. */
aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags);

/** Close exported or imported key. */
aclError aclrtIpcMemClose(const char *key);

/** Import device memory from key. */
aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);

/** Allow listed processes to import. */
aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);

/** Set sharing attribute such as link. */
aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr);

/** Allow processes on other servers. */
aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num);

/** Grant access rights on a mapping. */
aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);

/** Read access rights. */
aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);

/** Physical handle behind a mapped address. */
aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);

/** Properties of a physical handle. */
aclError aclrtMemGetAllocationPropertiesFromHandle(
    aclrtDrvMemHandle handle, aclrtPhysicalMemProp *prop);

/** Reserve range, variant without UC memory. Since 9.0.0. */
aclError aclrtReserveMemAddressNoUCMemory(
    void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags);

/** Map memory for another device, same process. Since 9.0.0. */
aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags);

/** Map through a chosen interconnect. Since 9.1.0. */
aclError aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc, uint32_t linkIdx);

/** Choose interconnect before mapping. Since 9.2.0. */
aclError aclrtMemMapSetLink(aclrtDrvMemHandle handle, aclrtMemLinkType adviceLink);

/* Kernel loading and launch */

/** Wrap kernel binary bytes. */
aclrtBinary aclrtCreateBinary(const void *data, size_t dataLen);

/** Free binary wrapper. */
aclError aclrtDestroyBinary(aclrtBinary binary);

/** Load wrapped binary to device. */
aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle *binHandle);

/** Unload binary. */
aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle);

/** Kernel handle by name. */
aclError aclrtBinaryGetFunction(
    const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle);

/** Launch with raw device argument block. */
aclError aclrtLaunchKernel(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData, size_t argsSize,
    aclrtStream stream);

/** Load binary or AICPU JSON from file. */
aclError aclrtBinaryLoadFromFile(
    const char *binPath, aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle);

/** Where the binary sits on device. */
aclError aclrtBinaryGetDevAddress(const aclrtBinHandle binHandle, void **binAddr, size_t *binSize);

/** Kernel handle by entry number. */
aclError aclrtBinaryGetFunctionByEntry(
    aclrtBinHandle binHandle, uint64_t funcEntry, aclrtFuncHandle *funcHandle);

/** Address and size of a device global. Since 9.1.0. */
aclError aclrtBinaryGetGlobal(
    aclrtBinHandle binHandle, const char *name, void **dptr, size_t *size);

/** Kernel handle from host stub symbol. Since 9.1.0. */
aclError aclrtGetFuncBySymbol(const void *symbol, aclrtFuncHandle *funcHandle);

/** Cube and vector entry addresses. */
aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr);

/** Cube and vector code sizes. Since 9.1.0. */
aclError aclrtGetFunctionSize(aclrtFuncHandle funcHandle, size_t *aicSize, size_t *aivSize);

/** Bytes for an argument handle. */
aclError aclrtKernelArgsGetHandleMemSize(aclrtFuncHandle funcHandle, size_t *memSize);

/** Bytes for the argument payload. */
aclError aclrtKernelArgsGetMemSize(
    aclrtFuncHandle funcHandle, size_t userArgsSize, size_t *actualArgsSize);

/** Start building an argument list. */
aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle *argsHandle);

/** Build arguments in caller's memory. */
aclError aclrtKernelArgsInitByUserMem(
    aclrtFuncHandle funcHandle, aclrtArgsHandle argsHandle, void *userHostMem,
    size_t actualArgsSize);

/** Append one argument. */
aclError aclrtKernelArgsAppend(
    aclrtArgsHandle argsHandle, void *param, size_t paramSize, aclrtParamHandle *paramHandle);

/** Reserve an out-of-line argument. */
aclError aclrtKernelArgsAppendPlaceHolder(
    aclrtArgsHandle argsHandle, aclrtParamHandle *paramHandle);

/** Storage for a reserved argument. */
aclError aclrtKernelArgsGetPlaceHolderBuffer(
    aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, size_t dataSize, void **bufferAddr);

/** Overwrite an appended argument. */
aclError aclrtKernelArgsParaUpdate(
    aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, void *param, size_t paramSize);

/** Launch with argument list and config. */
aclError aclrtLaunchKernelWithConfig(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
    aclrtArgsHandle argsHandle, void *reserve);

/** Seal the argument list. */
aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle);

/** Kernel name text. */
aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen, char *name);

/** Load binary from memory. */
aclError aclrtBinaryLoadFromData(
    const void *data, size_t length, const aclrtBinaryLoadOptions *options,
    aclrtBinHandle *binHandle);

/** Register AICPU function, get handle. */
aclError aclrtRegisterCpuFunc(
    const aclrtBinHandle handle, const char *funcName, const char *kernelName,
    aclrtFuncHandle *funcHandle);

/** Launch with argument block and config. */
aclError aclrtLaunchKernelV2(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData, size_t argsSize,
    aclrtLaunchKernelCfg *cfg, aclrtStream stream);

/** Launch with host argument block, placeholders. */
aclError aclrtLaunchKernelWithHostArgs(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
    void *hostArgs, size_t argsSize, aclrtPlaceHolderInfo *placeHolderArray,
    size_t placeHolderNum);

/** Launch with array of argument pointers. Since 9.1.0. */
aclError aclrtLaunchKernelWithArgsArray(
    void *func, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg, void **args);

/** SIMT launch with argument pointers. Since 9.2.0. */
aclError aclrtLaunchSIMTKernelWithArgsArray(
    void *func, dim3 gridDim, dim3 blockDim, size_t dynUbufSize, aclrtStream stream,
    aclrtLaunchKernelCfg *cfg, void **args);

/** SIMT launch with host argument block. Since 9.2.0. */
aclError aclrtLaunchSIMTKernelWithHostArgs(
    void *func, dim3 gridDim, dim3 blockDim, size_t dynUbufSize, aclrtStream stream,
    aclrtLaunchKernelCfg *cfg, void *hostArgs, size_t argsSize,
    aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum);

/** Attach shape info to last task. */
aclError aclrtCacheLastTaskOpInfo(const void *const infoPtr, const size_t infoSize);

/** Attach debug info to last task. Since 9.1.0. */
aclError aclrtCacheLastTaskExtendInfo(const char *const extendInfoPtr, const size_t infoSize);

/** Kernel type, ratio or schedule mode. */
aclError aclrtGetFunctionAttribute(
    aclrtFuncHandle funcHandle, aclrtFuncAttribute attrType, int64_t *attrValue);

/** Binary that owns a kernel. Since 9.1.0. */
aclError aclrtFunctionGetBinary(const aclrtFuncHandle funcHandle, aclrtBinHandle *binHandle);

/** Number of kernel parameters. Since 9.1.0. */
aclError aclrtFunctionGetParamCount(const void *func, size_t *paramCount);

/** Offset and size of one parameter. Since 9.1.0. */
aclError aclrtFunctionGetParamInfo(
    const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize);

/** Free unified buffer per block. Since 9.1.0. */
aclError aclrtFunctionGetAvailDynUbufPerBlock(void *func, uint32_t flags, size_t *dynamicUbufSize);

/* Host callbacks */

/** Bind polling thread to a stream. */
aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);

/** Queue callback for a polling thread. */
aclError aclrtLaunchCallback(
    aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream);

/** Polling thread runs ready callbacks. */
aclError aclrtProcessReport(int32_t timeout);

/** Unbind polling thread. */
aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

/** Bind host-function thread (not in libacl_rt). No host library of a release exports it. */
aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);

/** Run host functions (not in libacl_rt). No host library of a release exports it. */
aclError aclrtProcessHostFunc(int32_t timeout);

/** Unbind host-function thread (not in libacl_rt). No host library of a release exports it. */
aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);

/** Run a host function in stream order. */
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/* Graph (aclmdlRI) */

/** Read task parameters. Since 9.1.0. */
aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params);

/** Edit task parameters. Since 9.1.0. */
aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams *params);

/** Launch attribute of kernel task. Since 9.1.0. */
aclError aclmdlRIKernelTaskGetAttribute(
    aclmdlRITask task, aclrtLaunchKernelAttrId attrId, aclrtLaunchKernelAttrValue *attrValue);

/** Apply task edits to graph. Since 9.1.0. */
aclError aclmdlRIUpdate(aclmdlRI modelRI);

/** Turn a task into no-op. Since 9.1.0. */
aclError aclmdlRITaskDisable(aclmdlRITask task);

/** Start recording a stream into a graph. */
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);

/** State of the capture of a stream, and its graph. */
aclError aclmdlRICaptureGetInfo(
    aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *modelRI);

/** Stop recording, return graph. */
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);

/** Print graph (deprecated). Deprecated. */
aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

/** Write graph as JSON. */
aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags);

/** Swap this thread's capture strictness. */
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);

/** Run graph on a stream. */
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);

/** Run graph and wait. */
aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);

/** Destroy graph. */
aclError aclmdlRIDestroy(aclmdlRI modelRI);

/** Open updatable task group. */
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);

/** Close group, return its handle. */
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);

/** Start re-recording a task group. */
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);

/** Finish re-recording. */
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/** Start building a graph by hand. */
aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag);

/** Add stream to hand-built graph. */
aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag);

/** Append end marker to a stream. */
aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream);

/** Finish hand-built graph. */
aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve);

/** Remove stream from graph. */
aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream);

/** Name a graph. */
aclError aclmdlRISetName(aclmdlRI modelRI, const char *name);

/** Read graph name. */
aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name);

/** Numeric graph id. Since 9.1.0. */
aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId);

/** Callback when graph is destroyed. Since 9.0.0. */
aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData);

/** Remove that callback. Since 9.0.0. */
aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func);

/** Streams of a graph. Since 9.1.0. */
aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream *streams, uint32_t *numStreams);

/** Tasks of one graph stream. Since 9.1.0. */
aclError aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask *tasks, uint32_t *numTasks);

/** Kind of a graph task. Since 9.1.0. */
aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type);

/** Sequence number of a graph task. Since 9.1.0. */
aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id);

/** Abort running graph. */
aclError aclmdlRIAbort(aclmdlRI modelRI);

/** New condition variable for graph. Since 9.1.0. */
aclError aclmdlRICondHandleCreate(
    aclmdlRI modelRI, uint32_t defaultLaunchValue, aclmdlRICondHandleFlag flag,
    aclmdlRICondHandle *handle);

/** Device address of the condition. Since 9.1.0. */
aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr);

/** Add if/while/switch task (struct by value). Since 9.1.0. */
aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags);

/** Record into an existing parent graph. Since 9.1.0. */
aclError aclmdlRICaptureToModelRIBegin(
    aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode);

/* Process snapshot */

/** Freeze API calls of a process. */
aclError aclrtSnapShotProcessLock(int pid, void *reserve);

/** Unfreeze. */
aclError aclrtSnapShotProcessUnlock(int pid, void *reserve);

/** Save device state. */
aclError aclrtSnapShotProcessBackup(int pid, aclrtSnapShotBackupArgs *args);

/** Restore device state. */
aclError aclrtSnapShotProcessRestore(int pid, aclrtSnapShotRestoreArgs *args);

/** Hook on snapshot stages. Since 9.0.0. */
aclError aclrtSnapShotCallbackRegister(
    aclrtSnapShotStage stage, aclrtSnapShotCallBack callback, void *args);

/** Remove snapshot hook. Since 9.0.0. */
aclError aclrtSnapShotCallbackUnregister(aclrtSnapShotStage stage, aclrtSnapShotCallBack callback);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_RT_H */
