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

/** A handle of physical memory. */
typedef void *aclrtDrvMemHandle;
/** A binary in memory that is not loaded yet. */
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
/** Further information on the utilization of a device. CANN does not publish its fields. */
typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;
/** A description of groups of cores. */
typedef struct tagRtGroupInfo aclrtGroupInfo;
/** The information on a task that failed. */
typedef struct rtExceptionInfo aclrtExceptionInfo;

/** The place where the program runs: the device or a host. */
typedef enum aclrtRunMode {
    ACL_DEVICE = 0,
    ACL_HOST = 1
} aclrtRunMode;

/** The task schedulers of a device. */
typedef enum aclrtTsId {
    ACL_TS_ID_AICORE = 0,
    ACL_TS_ID_AIVECTOR = 1,
    ACL_TS_ID_RESERVED = 2
} aclrtTsId;

/** The state of an event. */
typedef enum aclrtEventStatus {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;

/** The state of the record of an event. */
typedef enum aclrtEventRecordedStatus {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

/** The state of the waits for an event. */
typedef enum aclrtEventWaitStatus {
    ACL_EVENT_WAIT_STATUS_COMPLETE = 0,
    ACL_EVENT_WAIT_STATUS_NOT_READY = 1,
    ACL_EVENT_WAIT_STATUS_RESERVED = 65535
} aclrtEventWaitStatus;

/** The state of the tasks of a stream. */
typedef enum aclrtStreamStatus {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 65535
} aclrtStreamStatus;

/** The kind of a callback: the stream waits until it returns, or goes on. */
typedef enum aclrtCallbackBlockType {
    ACL_CALLBACK_NO_BLOCK = 0,
    ACL_CALLBACK_BLOCK = 1
} aclrtCallbackBlockType;

/** The source and the destination of a copy: the host or a device. */
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

/** The hints about the use of managed memory. Since 9.1.0. */
typedef enum aclrtMemManagedAdviseType {
    ACL_MEM_ADVISE_SET_READ_MOSTLY = 0,
    ACL_MEM_ADVISE_UNSET_READ_MOSTLY = 1,
    ACL_MEM_ADVISE_SET_PREFERRED_LOCATION = 2,
    ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 3,
    ACL_MEM_ADVISE_SET_ACCESSED_BY = 4,
    ACL_MEM_ADVISE_UNSET_ACCESSED_BY = 5
} aclrtMemManagedAdviseType;

/** The kinds of places for managed memory. Since 9.1.0. */
typedef enum aclrtMemManagedLocationType {
    ACL_MEM_LOCATIONTYPE_INVALID = 0,
    ACL_MEM_LOCATIONTYPE_DEVICE = 1,
    ACL_MEM_LOCATIONTYPE_HOST = 2,
    ACL_MEM_LOCATIONTYPE_HOST_NUMA = 3,
    ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT = 4
} aclrtMemManagedLocationType;

/** The sizes of pages from which memory is allocated. The last three values are flags
 * that can be added. */
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

/** The kind of access that a device has to registered host memory. */
typedef enum {
    ACL_HOST_REGISTER_MAPPED = 0,
    ACL_HOST_REGISTER_IOMEMORY = 4,
    ACL_HOST_REGISTER_READONLY = 8
} aclrtHostRegisterType;

/** The member of aclrtMallocAttrValue that is used. */
typedef enum {
    ACL_RT_MEM_ATTR_RSV = 0,
    ACL_RT_MEM_ATTR_MODULE_ID = 1,
    ACL_RT_MEM_ATTR_DEVICE_ID = 2,
    ACL_RT_MEM_ATTR_VA_FLAG = 3
} aclrtMallocAttrType;

/** The kinds of device memory, with the size of their pages. */
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

/** The sizes of pages. */
typedef enum aclrtMemPgType {
    NORMAL_PAGE_TYPE = 0,
    HUGE_PAGE_TYPE = 1,
    HUGE1G_PAGE_TYPE = 2
} aclrtMemPgType;

/** The kinds of device memory, without the size of their pages. */
typedef enum aclrtMemType {
    HBM_TYPE = 0,
    DDR_TYPE = 1,
    P2P_HBM_TYPE = 2,
    P2P_DDR_TYPE = 3
} aclrtMemType;

/** The attributes of memory that processes share. */
typedef enum {
    ACL_RT_IPC_MEM_ATTR_ACCESS_LINK = 0
} aclrtIpcMemAttrType;

/** The properties of a group of cores that aclrtGetGroupInfoDetail can get. */
typedef enum aclrtGroupAttr {
    ACL_GROUP_AICORE_INT = 0,
    ACL_GROUP_AIV_INT = 1,
    ACL_GROUP_AIC_INT = 2,
    ACL_GROUP_SDMANUM_INT = 3,
    ACL_GROUP_ASQNUM_INT = 4,
    ACL_GROUP_GROUPID_INT = 5
} aclrtGroupAttr;

/** The result of a floating-point operation that overflows. */
typedef enum aclrtFloatOverflowMode {
    ACL_RT_OVERFLOW_MODE_SATURATION = 0,
    ACL_RT_OVERFLOW_MODE_INFNAN = 1,
    ACL_RT_OVERFLOW_MODE_UNDEF = 2
} aclrtFloatOverflowMode;

/** The fields of a stream configuration. */
typedef enum {
    ACL_RT_STREAM_WORK_ADDR_PTR = 0,
    ACL_RT_STREAM_WORK_SIZE = 1,
    ACL_RT_STREAM_FLAG = 2,
    ACL_RT_STREAM_PRIORITY = 3
} aclrtStreamConfigAttr;

/** The kinds of places for memory. */
typedef enum aclrtMemLocationType {
    ACL_MEM_LOCATION_TYPE_HOST = 0,
    ACL_MEM_LOCATION_TYPE_DEVICE = 1,
    ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2,
    ACL_MEM_LOCATION_TYPE_MANAGED = 3,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;

/** The properties of a range of managed memory that aclrtMemManagedGetAttr can get. Since
 * 9.1.0. */
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

/** The kinds of physical memory. */
typedef enum aclrtMemAllocationType {
    ACL_MEM_ALLOCATION_TYPE_PINNED = 0
} aclrtMemAllocationType;

/** The kinds of handles as which physical memory can be exported. */
typedef enum aclrtMemHandleType {
    ACL_MEM_HANDLE_TYPE_NONE = 0,
    ACL_MEM_HANDLE_TYPE_POSIX = 2
} aclrtMemHandleType;

/** The kinds of handles for exported memory. */
typedef enum aclrtMemSharedHandleType {
    ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 1,
    ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 2
} aclrtMemSharedHandleType;

/** The granularity that aclrtMemGetAllocationGranularity gets. */
typedef enum aclrtMemGranularityOptions {
    ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
    ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
    ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 65535
} aclrtMemGranularityOptions;

/** The state of a device. */
typedef enum aclrtDeviceStatus {
    ACL_RT_DEVICE_STATUS_NORMAL = 0,
    ACL_RT_DEVICE_STATUS_ABNORMAL = 1,
    ACL_RT_DEVICE_STATUS_END = 65535
} aclrtDeviceStatus;

/** The calls that are refused during a capture, and the threads to which this applies. */
typedef enum {
    ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0,
    ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
    ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2
} aclmdlRICaptureMode;

/** The state of the capture of a stream. */
typedef enum {
    ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0,
    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
    ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2
} aclmdlRICaptureStatus;

/** The kind of error that a device has. */
typedef enum {
    ACL_RT_NO_ERROR = 0,
    ACL_RT_ERROR_MEMORY = 1,
    ACL_RT_ERROR_L2 = 2,
    ACL_RT_ERROR_AICORE = 3,
    ACL_RT_ERROR_LINK = 4,
    ACL_RT_ERROR_L3_PORT = 5,
    ACL_RT_ERROR_OTHERS = 65535
} aclrtErrorType;

/** The cause of the error of a core: software or hardware. */
typedef enum aclrtAicoreErrorType {
    ACL_RT_AICORE_ERROR_UNKNOWN = 0,
    ACL_RT_AICORE_ERROR_SW = 1,
    ACL_RT_AICORE_ERROR_HW_LOCAL = 2
} aclrtAicoreErrorType;

/** The operations on the cache. */
typedef enum aclrtCmoType {
    ACL_RT_CMO_TYPE_PREFETCH = 0,
    ACL_RT_CMO_TYPE_WRITEBACK = 1,
    ACL_RT_CMO_TYPE_INVALID = 2,
    ACL_RT_CMO_TYPE_FLUSH = 3
} aclrtCmoType;

/** The scope of the last error. */
typedef enum aclrtLastErrLevel {
    ACL_RT_THREAD_LEVEL = 0
} aclrtLastErrLevel;

/** The member of aclrtBinaryLoadOptionValue that is used. Two names have the same value. */
typedef enum aclrtBinaryLoadOptionType {
    ACL_RT_BINARY_LOAD_OPT_LAZY_LOAD = 1,
    ACL_RT_BINARY_LOAD_OPT_LAZY_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_MAGIC = 2,
    ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE = 3
} aclrtBinaryLoadOptionType;

/** The kinds of cores: matrix (AIC) and vector (AIV). */
typedef enum {
    ACL_RT_ENGINE_TYPE_AIC = 0,
    ACL_RT_ENGINE_TYPE_AIV = 1
} aclrtEngineType;

/** The member of aclrtLaunchKernelAttrValue that is used. Two names have the same value. */
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

/** The member of aclrtStreamAttrValue that is used. */
typedef enum {
    ACL_STREAM_ATTR_FAILURE_MODE = 1,
    ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2,
    ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
    ACL_STREAM_ATTR_CACHE_OP_INFO = 4,
    ACL_STREAM_ATTR_PRIORITY = 5
} aclrtStreamAttr;

/** The kinds of tasks of a graph. Since 9.1.0. */
typedef enum aclmdlRITaskType {
    ACL_MODEL_RI_TASK_DEFAULT = 0,
    ACL_MODEL_RI_TASK_KERNEL = 1,
    ACL_MODEL_RI_TASK_EVENT_RECORD = 2,
    ACL_MODEL_RI_TASK_EVENT_WAIT = 3,
    ACL_MODEL_RI_TASK_EVENT_RESET = 4,
    ACL_MODEL_RI_TASK_VALUE_WRITE = 5,
    ACL_MODEL_RI_TASK_VALUE_WAIT = 6
} aclmdlRITaskType;

/** The properties of a device that aclrtGetDeviceInfo can get. Some values have two names. */
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

/** The optional features of a device. */
typedef enum {
    ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1,
    ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV = 21
} aclrtDevFeatureType;

/** The ways in which aclrtReduceAsync combines elements. */
typedef enum {
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM = 10,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12,
    ACL_RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13
} aclrtReduceKind;

/** The resources of a device that can be limited. */
typedef enum {
    ACL_RT_DEV_RES_CUBE_CORE = 0,
    ACL_RT_DEV_RES_VECTOR_CORE = 1
} aclrtDevResLimitType;

/** The ways to compare two numbers. */
typedef enum {
    ACL_RT_EQUAL = 0,
    ACL_RT_NOT_EQUAL = 1,
    ACL_RT_GREATER = 2,
    ACL_RT_GREATER_OR_EQUAL = 3,
    ACL_RT_LESS = 4,
    ACL_RT_LESS_OR_EQUAL = 5
} aclrtCondition;

/** The types of numbers that can be compared. */
typedef enum {
    ACL_RT_SWITCH_INT32 = 0,
    ACL_RT_SWITCH_INT64 = 1
} aclrtCompareDataType;

/** The distributions of random numbers. */
typedef enum {
    ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK = 0,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS = 1,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS = 2,
    ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS = 3
} aclrtRandomNumFuncType;

/** The stage of an abort at which the callback for aborted tasks is called. */
typedef enum {
    ACL_RT_DEVICE_TASK_ABORT_PRE = 0,
    ACL_RT_DEVICE_TASK_ABORT_POST = 1
} aclrtDeviceTaskAbortStage;

/** The member of aclrtUpdateTaskAttrVal that is used. */
typedef enum {
    ACL_RT_UPDATE_RANDOM_TASK = 1,
    ACL_RT_UPDATE_AIC_AIV_TASK = 2
} aclrtUpdateTaskAttrId;

/** The state change for which the callback for a device is called. */
typedef enum {
    ACL_RT_DEVICE_STATE_SET_PRE = 0,
    ACL_RT_DEVICE_STATE_SET_POST = 1,
    ACL_RT_DEVICE_STATE_RESET_PRE = 2,
    ACL_RT_DEVICE_STATE_RESET_POST = 3
} aclrtDeviceState;

/** The stage of a snapshot at which the callback is called. Since 9.0.0. */
typedef enum {
    ACL_RT_SNAPSHOT_LOCK_PRE = 0,
    ACL_RT_SNAPSHOT_BACKUP_PRE = 1,
    ACL_RT_SNAPSHOT_BACKUP_POST = 2,
    ACL_RT_SNAPSHOT_RESTORE_PRE = 3,
    ACL_RT_SNAPSHOT_RESTORE_POST = 4,
    ACL_RT_SNAPSHOT_UNLOCK_POST = 5
} aclrtSnapShotStage;

/** The state change for which the callback for a stream is called. */
typedef enum {
    ACL_RT_STREAM_STATE_CREATE_POST = 1,
    ACL_RT_STREAM_STATE_DESTROY_PRE = 2
} aclrtStreamState;

/** The properties of a kernel that aclrtGetFunctionAttribute can get. */
typedef enum {
    ACL_FUNC_ATTR_KERNEL_TYPE = 1,
    ACL_FUNC_ATTR_KERNEL_RATIO = 2,
    ACL_FUNC_ATTR_KERNEL_SCHED_MODE = 3
} aclrtFuncAttribute;

/** The kind of cores that a kernel runs on. */
typedef enum {
    ACL_KERNEL_TYPE_AICORE = 0,
    ACL_KERNEL_TYPE_CUBE = 1,
    ACL_KERNEL_TYPE_VECTOR = 2,
    ACL_KERNEL_TYPE_MIX = 3,
    ACL_KERNEL_TYPE_AICPU = 100
} aclrtKernelType;

/** The ways in which a record changes the counter of a notify. */
typedef enum {
    ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE = 0,
    ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE = 1,
    ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE = 2,
    ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE = 4
} aclrtCntNotifyRecordMode;

/** The comparison of a wait with the counter of a notify. */
typedef enum {
    ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE = 0,
    ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE = 1,
    ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE = 2,
    ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE = 3,
    ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE = 4
} aclrtCntNotifyWaitMode;

/** The access that a place has to memory. */
typedef enum {
    ACL_RT_MEM_ACCESS_FLAGS_NONE = 0,
    ACL_RT_MEM_ACCESS_FLAGS_READ = 1,
    ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 3
} aclrtMemAccessFlags;

/** The packages whose version can be queried. */
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

/** The hardware units of a device. Since 9.0.0. */
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

/** The answer to the question if a hardware unit can use mapped host memory. Since 9.0.0. */
typedef enum {
    ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED = 0,
    ACL_RT_HOST_MEM_MAP_SUPPORTED = 1
} aclrtHostMemMapCapability;

/** The links by which memory is accessed. Since 9.2.0. */
typedef enum {
    ACL_RT_MEM_ACCESS_LINK_SIO = 0,
    ACL_RT_MEM_ACCESS_LINK_HCCS = 1,
    ACL_RT_MEM_ACCESS_UB_ONE_PORT_PATH = 2,
    ACL_RT_MEM_ACCESS_UB_MULTI_PORT_PATH = 3
} aclrtMemLinkType;

/** The operands of atomic operations that a link supports. Two names have the same value.
 * Since 9.1.0. */
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

/** The atomic operations. Since 9.1.0. */
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

/** The flags of a condition of a graph. Since 9.1.0. */
typedef enum {
    ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT = 1
} aclmdlRICondHandleFlag;

/** The kinds of conditional tasks. Since 9.1.0. */
typedef enum {
    ACL_MODEL_RI_COND_TYPE_IF = 0,
    ACL_MODEL_RI_COND_TYPE_WHILE = 1,
    ACL_MODEL_RI_COND_TYPE_SWITCH = 2
} aclmdlRICondTaskType;

/** The limits of a device that can be set. Since 9.2.0. */
typedef enum aclrtDeviceLimit {
    ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE = 0,
    ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE = 1,
    ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE = 2,
    ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE = 3,
    ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE = 4
} aclrtDeviceLimit;

/** The part of AscendCL to which a callback belongs. */
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

/** The state of a process that can be stopped for a snapshot. */
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

/** A list of attributes of an allocation. */
typedef struct {
    aclrtMallocAttribute *attrs;
    size_t numAttrs;
} aclrtMallocConfig;

/** The processes of one server that may import shared memory. */
typedef struct {
    uint32_t sdid;
    int32_t *pid;
    size_t num;
} aclrtServerPid;

/** The options with which a stream is created. */
typedef struct aclrtStreamConfigHandle {
    void *workptr;
    size_t workSize;
    size_t flag;
    uint32_t priority;
} aclrtStreamConfigHandle;

/** The utilization of a device in percent. */
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

/** The properties of an address. */
typedef struct aclrtPtrAttributes {
    aclrtMemLocation location;
    uint32_t pageSize;
    uint32_t rsv[4];
} aclrtPtrAttributes;

/** The memory that a module uses, in bytes. */
typedef struct aclrtMemUsageInfo {
    char name[32];
    uint64_t curMemSize;
    uint64_t memPeakSize;
    size_t reserved[8];
} aclrtMemUsageInfo;

/** A handle of exported physical memory, which processes of other servers can also import. */
typedef struct aclrtMemFabricHandle {
    uint8_t data[128];
} aclrtMemFabricHandle;

/** The properties with which physical memory is allocated. */
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

/** A list of ranges of memory with errors. */
typedef struct {
    size_t arraySize;
    aclrtMemUceInfo memUceInfoArray[ACL_RT_MEM_UCE_INFO_MAX_NUM];
} aclrtMemUceInfoArray;

/** The details of an error, depending on its type. */
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

/** The value of an option for loading a binary. */
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

/** A list of options for loading a binary. */
typedef struct aclrtBinaryLoadOptions {
    aclrtBinaryLoadOption *options;
    size_t numOpt;
} aclrtBinaryLoadOptions;

/** The number of blocks or threads in each direction. It is passed by value. Since 9.2.0. */
typedef struct dim3 {
    uint32_t x;
    uint32_t y;
    uint32_t z;
#ifdef __cplusplus
    constexpr dim3(uint32_t x_ = 1, uint32_t y_ = 1, uint32_t z_ = 1) : x(x_), y(y_), z(z_) {}
#endif
} dim3;

/** A time in microseconds, as two 32-bit halves. */
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

/** A list of attributes of a launch. */
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

/** A task of a graph. The field `type` selects the member of the union. Since 9.1.0. */
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

/** A list of cache operations that a barrier waits for. */
typedef struct {
    size_t barrierNum;
    aclrtBarrierCmoInfo cmoInfo[ACL_RT_CMO_MAX_BARRIER_NUM];
} aclrtBarrierTaskInfo;

/** The places from which and to which the copies of a batch go. */
typedef struct {
    aclrtMemLocation dstLoc;
    aclrtMemLocation srcLoc;
    uint8_t rsv[16];
} aclrtMemcpyBatchAttr;

/** The offset in a kernel's arguments at which an address is written, and the offset of
 * the data at that address. */
typedef struct {
    uint32_t addrOffset;
    uint32_t dataOffset;
} aclrtPlaceHolderInfo;

/** A parameter, given as a value or as the address of a value. */
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

/** A task that generates random numbers. */
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

/** A change of a task that generates random numbers. */
typedef struct {
    void *srcAddr;
    size_t size;
    uint32_t rsv[4];
} aclrtRandomTaskUpdateAttr;

/** A change of a task that runs a kernel. */
typedef struct {
    void *binHandle;
    void *funcEntryAddr;
    void *blockDimAddr;
    uint32_t rsv[4];
} aclrtAicAivTaskUpdateAttr;

/** A change of a task, depending on its kind. */
typedef union {
    aclrtRandomTaskUpdateAttr randomTaskAttr;
    aclrtAicAivTaskUpdateAttr aicAivTaskAttr;
} aclrtUpdateTaskAttrVal;

/** A change of a task, together with its kind. */
typedef struct {
    aclrtUpdateTaskAttrId id;
    aclrtUpdateTaskAttrVal val;
} aclrtTaskUpdateInfo;

/** The options for taking a snapshot. Since 9.1.0. */
typedef struct aclrtSnapShotBackupArgs {
    uint32_t backupFlags;
    char reserved[60];
} aclrtSnapShotBackupArgs;

/** The options for restoring a snapshot. Since 9.1.0. */
typedef struct aclrtSnapShotRestoreArgs {
    uint32_t restoreFlags;
    char reserved[60];
} aclrtSnapShotRestoreArgs;

/** The unique identifier of a device. */
typedef struct aclrtUuid {
    char bytes[16];
} aclrtUuid;

/** The change that a record of a counting notify makes. */
typedef struct {
    aclrtCntNotifyRecordMode mode;
    uint32_t value;
} aclrtCntNotifyRecordInfo;

/** The condition of a wait for a counting notify, and its time limit. */
typedef struct {
    aclrtCntNotifyWaitMode mode;
    uint32_t value;
    uint32_t timeout;
    uint8_t isClear;
    uint8_t rsv[3];
} aclrtCntNotifyWaitInfo;

/** The access that one place has to memory. */
typedef struct {
    aclrtMemAccessFlags flags;
    aclrtMemLocation location;
    uint8_t rsv[12];
} aclrtMemAccessDesc;

/** The version of a package as text. */
typedef struct aclCANNPackageVersion {
    char version[ACL_PKG_VERSION_MAX_SIZE];
    char majorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char minorVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char releaseVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char patchVersion[ACL_PKG_VERSION_PARTS_MAX_SIZE];
    char reserved[ACL_PKG_VERSION_MAX_SIZE];
} aclCANNPackageVersion;

/** The handle of an event that other processes can import. It is passed by value. */
typedef struct aclrtIpcEventHandle {
    char reserved[ACL_IPC_EVENT_HANDLE_SIZE];
} aclrtIpcEventHandle;

/** An attribute of memory, and the page size and kind of memory that it combines. Since
 * 9.0.0. */
typedef struct MemAttrMapping {
    uint32_t pgType;
    uint32_t memType;
    bool isHostAlloc;
    aclrtMemAttr memAttr;
} MemAttrMapping;

/** A conditional task of a graph. It is passed by value. Since 9.1.0. */
typedef struct tagAclmdlRICondTaskParams {
    aclmdlRICondHandle handle;
    aclmdlRICondTaskType type;
    uint32_t size;
    aclmdlRI *modelRIArray;
} aclmdlRICondTaskParams;

/** A host function that a stream calls. */
typedef void (*aclrtCallback)(void *userData);
/** A host function that a stream calls. */
typedef void (*aclrtHostFunc)(void *args);
/** A callback that is called when a task fails. */
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo *exceptionInfo);
/** A callback that is called when a kernel of one binary fails. */
typedef void (*aclrtOpExceptionCallback)(aclrtExceptionInfo *exceptionInfo, void *userData);
/** A callback that is called before and after a device is set or reset. */
typedef void (*aclrtDeviceStateCallback)(int32_t deviceId, aclrtDeviceState state, void *args);
/** A callback that is called at a stage of a snapshot. */
typedef unsigned int (*aclrtSnapShotCallBack)(int32_t deviceId, void *args);
/** A callback that is called after a stream is created and before it is destroyed. */
typedef void (*aclrtStreamStateCallback)(aclrtStream stm, aclrtStreamState state, void *args);
/** A callback that is called before and after the tasks of a device are aborted. */
typedef int (*aclrtDeviceTaskAbortCallback)(
    int32_t deviceId, aclrtDeviceTaskAbortStage stage, uint32_t timeout, void *args);
/** A callback that aclInit calls. */
typedef int (*aclInitCallbackFunc)(const char *configStr, size_t len, void *userData);
/** A callback that aclFinalize calls. */
typedef int (*aclFinalizeCallbackFunc)(void *userData);

/* Init, version, system */

/** Initializes the runtime. The path of a JSON configuration file is optional. */
aclError aclInit(const char *configPath);

/** Shuts down the runtime. */
aclError aclFinalize(void);

/** Removes one reference to the runtime, and shuts it down when there are no references
 * left. */
aclError aclFinalizeReference(uint64_t *refCount);

/** Gets the version of a package as text. Deprecated. */
aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version);

/** Gets the version of a package, given by its name, as text. */
aclError aclsysGetVersionStr(char *pkgName, char *versionStr);

/** Gets the version of a package, given by its name, as a number. */
aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum);

/** Gets an option of the process. */
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/** Sets an option of the process. */
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** Gets whether the process runs on the host or on the device. */
aclError aclrtGetRunMode(aclrtRunMode *runMode);

/** Enables the dump facility. */
aclError aclmdlInitDump(void);

/** Loads the settings of the dump facility from a file. */
aclError aclmdlSetDump(const char *dumpCfgPath);

/** Disables the dump facility. */
aclError aclmdlFinalizeDump(void);

/** Gets the major, minor and patch version of the AscendCL interface. Deprecated. */
aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion);

/** Registers a callback that aclInit calls. */
aclError aclInitCallbackRegister(
    aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void *userData);

/** Removes a callback that aclInit calls. */
aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc);

/** Registers a callback that aclFinalize calls. */
aclError aclFinalizeCallbackRegister(
    aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc, void *userData);

/** Removes a callback that aclFinalize calls. */
aclError aclFinalizeCallbackUnRegister(
    aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc);

/** Gets whether binaries for a chip can run here. */
aclError aclrtCheckArchCompatibility(const char *socVersion, int32_t *canCompatible);

/* Error reporting and exceptions */

/** Returns the text of the last error of this thread, or NULL if there is none. */
const char *aclGetRecentErrMsg(void);

/** Returns the last error of this thread and keeps it. */
aclError aclrtPeekAtLastError(aclrtLastErrLevel level);

/** Returns the last error of this thread and clears it. */
aclError aclrtGetLastError(aclrtLastErrLevel level);

/** Sets the single callback for tasks that fail. Deprecated. */
aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);

/** Adds a callback for tasks that fail. Since 9.2.0. */
aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback);

/** Removes a callback for tasks that fail. Since 9.2.0. */
aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback);

/** Returns the number of the task that failed. */
uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Returns the number of the stream whose task failed. */
uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Returns the number of the thread that queued the task. */
uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Returns the number of the device on which the task failed. */
uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info);

/** Returns the error code of the failure. */
uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info);

/** Gets the argument block of the kernel that failed. Since 9.0.0. */
aclError aclrtGetArgsFromExceptionInfo(
    const aclrtExceptionInfo *info, void **devArgsPtr, uint32_t *devArgsLen);

/** Gets the handle of the kernel that failed. Since 9.0.0. */
aclError aclrtGetFuncHandleFromExceptionInfo(const aclrtExceptionInfo *info, aclrtFuncHandle *func);

/** Sets the callback for failed kernels of one binary. Since 9.0.0. */
aclError aclrtBinarySetExceptionCallback(
    aclrtBinHandle binHandle, aclrtOpExceptionCallback callback, void *userData);

/** Lists memory errors that could not be corrected. */
aclError aclrtGetMemUceInfo(
    int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize, size_t *retSize);

/** Repairs the listed memory errors. */
aclError aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize);

/** Gets a detailed record of an error of a device. */
aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);

/** Tries to repair the recorded error of a device. */
aclError aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo);

/* Device */

/** Sets the device that the calling thread uses. */
aclError aclrtSetDevice(int32_t deviceId);

/** Releases the use of a device by this process. */
aclError aclrtResetDevice(int32_t deviceId);

/** Releases a device, whatever its reference count is. */
aclError aclrtResetDeviceForce(int32_t deviceId);

/** Gets the device that the calling thread uses. */
aclError aclrtGetDevice(int32_t *deviceId);

/** Waits until all work on the device is complete. */
aclError aclrtSynchronizeDevice(void);

/** Waits until all work on the device is complete, at most for a time in milliseconds. */
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);

/** Sets the task scheduler: that of the AI cores or of the vector cores. */
aclError aclrtSetTsDevice(aclrtTsId tsId);

/** Gets the utilization of the cube cores, the vector cores, the AI CPU and the memory. */
aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);

/** Gets the number of visible devices. */
aclError aclrtGetDeviceCount(uint32_t *count);

/** Selects the group of cores to use. */
aclError aclrtSetGroup(int32_t groupId);

/** Gets the number of groups of cores. */
aclError aclrtGetGroupCount(uint32_t *count);

/** Allocates a description of groups of cores. */
aclrtGroupInfo *aclrtCreateGroupInfo(void);

/** Frees a description of groups of cores. */
aclError aclrtDestroyGroupInfo(aclrtGroupInfo *groupInfo);

/** Fills a description with all groups of cores. */
aclError aclrtGetAllGroupInfo(aclrtGroupInfo *groupInfo);

/** Gets one property of a group of cores. */
aclError aclrtGetGroupInfoDetail(
    const aclrtGroupInfo *groupInfo, int32_t groupIndex, aclrtGroupAttr attr, void *attrValue,
    size_t valueLen, size_t *paramRetSize);

/** Gets whether a device can access the memory of another device. */
aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);

/** Allows access to the memory of a peer device. */
aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);

/** Ends the access to the memory of a peer device. */
aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);

/** Sets whether floating-point operations that overflow saturate or become infinite. */
aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode);

/** Gets the overflow mode of floating-point operations. */
aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode);

/** Gets whether the device works normally. */
aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);

/** Gets the id by which the physical device knows this process. */
aclError aclrtDeviceGetBareTgid(int32_t *pid);

/** Aborts the running tasks of a device. */
aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);

/** Gets one property of a device. */
aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);

/** Gets the lowest and the highest priority of a stream. */
aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);

/** Gets whether a device has an optional feature. */
aclError aclrtGetDeviceCapability(
    int32_t deviceId, aclrtDevFeatureType devFeatureType, int32_t *value);

/** Gets the 16-byte identifier of a device. */
aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);

/** Sets a limit of a device, such as the size of kernel stacks or of the print buffer.
 * Since 9.2.0. */
aclError aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value);

/** Gets a limit of a device. Since 9.2.0. */
aclError aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t *value);

/** Gets the PCI address of a device as text. Since 9.2.0. */
aclError aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len);

/** Gets the device at a PCI address. Since 9.2.0. */
aclError aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId);

/** Gets the atomic operations that are supported between the host and a device. Since
 * 9.1.0. */
aclError aclrtDeviceGetHostAtomicCapabilities(
    uint32_t *capabilities, const aclrtAtomicOperation *operations, const uint32_t count,
    int32_t deviceId);

/** Gets the atomic operations that are supported between two devices. Since 9.1.0. */
aclError aclrtDeviceGetP2PAtomicCapabilities(
    uint32_t *capabilities, const aclrtAtomicOperation *operations, const uint32_t count,
    int32_t srcDeviceId, int32_t dstDeviceId);

/** Gets the limit on the number of cores of a device. */
aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);

/** Sets the limit on the number of cores of a device. */
aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);

/** Restores the default limits on the number of cores of a device. */
aclError aclrtResetDeviceResLimit(int32_t deviceId);

/** Gets the kind of link between two devices. */
aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId, uint64_t *value);

/** Converts the number of a device that the user sees to its logical number. */
aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);

/** Converts the logical number of a device to the number that the user sees. */
aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);

/** Converts the physical number of a device to its logical number. */
aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId);

/** Converts the logical number of a device to its physical number. */
aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId);

/** Converts the physical number of a device to the number that the user sees. Since 9.1.0. */
aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t *const userDevId);

/** Converts the number of a device that the user sees to its physical number. Since 9.1.0. */
aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t *const phyDevId);

/** Gets the address that kernels use for synchronization. */
aclError aclrtGetHardwareSyncAddr(void **addr);

/** Registers a callback for the set and the reset of a device. */
aclError aclrtRegDeviceStateCallback(
    const char *regName, aclrtDeviceStateCallback callback, void *args);

/** Registers a callback that is called before and after the tasks of a device are aborted. */
aclError aclrtSetDeviceTaskAbortCallback(
    const char *regName, aclrtDeviceTaskAbortCallback callback, void *args);

/** Gets whether one device may access the memory of another one. */
aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

/** Flushes the L2 cache of the device. Since 9.2.0. */
aclError aclrtDeviceL2CacheFlush(void *rsv);

/* Context */

/** Creates a context on a device, and makes it current. */
aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);

/** Destroys a context. */
aclError aclrtDestroyContext(aclrtContext context);

/** Makes a context current for this thread. */
aclError aclrtSetCurrentContext(aclrtContext context);

/** Gets the current context of this thread. */
aclError aclrtGetCurrentContext(aclrtContext *context);

/** Gets an option of the current context. */
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

/** Sets an option of the current context. */
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);

/** Gets the default stream of the current context. */
aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);

/** Gets whether the primary context of a device is active. */
aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);

/** Gets the address of the overflow status of the context. */
aclError aclrtCtxGetFloatOverflowAddr(void **overflowAddr);

/* Stream */

/** Sets whether a stream continues or stops after a task fails. */
aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);

/** Gets the number of the last task that this thread queued. */
aclError aclrtGetThreadLastTaskId(uint32_t *taskId);

/** Gets the number of a stream. */
aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);

/** Creates a configuration for streams (not in libacl_rt). No host library of a release
 * exports it. */
aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void);

/** Frees a configuration for streams (not in libacl_rt). No host library of a release
 * exports it. */
aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle);

/** Sets a field of a configuration for streams (not in libacl_rt). No host library of a
 * release exports it. */
aclError aclrtSetStreamConfigOpt(
    aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, const void *attrValue,
    size_t valueSize);

/** Creates a stream with default options. */
aclError aclrtCreateStream(aclrtStream *stream);

/** Creates a stream with a configuration (not in libacl_rt). No host library of a release
 * exports it. */
aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle);

/** Creates a stream with a priority and flags. */
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);

/** Destroys a stream after its pending work is complete. */
aclError aclrtDestroyStream(aclrtStream stream);

/** Destroys a stream, and discards its pending work. */
aclError aclrtDestroyStreamForce(aclrtStream stream);

/** Waits until all work of a stream is complete. */
aclError aclrtSynchronizeStream(aclrtStream stream);

/** Waits until all work of a stream is complete, at most for a time in milliseconds. */
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);

/** Gets whether all work of a stream is complete. */
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);

/** Gets the priority of a stream. */
aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);

/** Gets the flags with which a stream was created. */
aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);

/** Makes the later work of a stream wait for an event. */
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);

/** Makes the later work of a stream wait for an event, with a time limit and a flag.
 * Since 9.2.0. */
aclError aclrtStreamWaitEventWithFlag(
    aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag);

/** Makes the later work of a stream wait for an event, with a time limit. */
aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);

/** Sets the time limit of the process for waits of streams for events. */
aclError aclrtSetOpWaitTimeout(uint32_t timeout);

/** Sets the time limit of kernels in seconds. */
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout);

/** Sets the time limit of kernels in milliseconds. */
aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout);

/** Sets the time limit of kernels in microseconds, and returns the actual limit. */
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);

/** Gets the smallest step of the time limit of kernels in microseconds. */
aclError aclrtGetOpTimeOutInterval(uint64_t *interval);

/** Switches the detection of overflows in a stream on or off. */
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);

/** Gets whether overflows are detected in a stream. */
aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);

/** Copies the overflow flags to device memory. */
aclError aclrtGetOverflowStatus(void *outputAddr, size_t outputSize, aclrtStream stream);

/** Clears the overflow flags. */
aclError aclrtResetOverflowStatus(aclrtStream stream);

/** Discards the queued tasks of a stream, and aborts its running ones. */
aclError aclrtStreamAbort(aclrtStream stream);

/** Queues a task that writes a word of device memory. */
aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/** Queues a task that waits until a word of device memory matches. */
aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/** Gets the number of streams that can still be created. */
aclError aclrtGetStreamAvailableNum(uint32_t *streamCount);

/** Sets an attribute of a stream: its failure mode, its overflow switch or its tag. */
aclError aclrtSetStreamAttribute(
    aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value);

/** Gets an attribute of a stream. */
aclError aclrtGetStreamAttribute(
    aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value);

/** Gets the limit on the number of cores of a stream. */
aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value);

/** Sets the limit on the number of cores of a stream. */
aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value);

/** Restores the default limits on the number of cores of a stream. */
aclError aclrtResetStreamResLimit(aclrtStream stream);

/** Makes the current thread use the core limits of a stream. */
aclError aclrtUseStreamResInCurrentThread(aclrtStream stream);

/** Stops using the core limits of a stream in the current thread. */
aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream);

/** Gets the limit on the number of cores in the current thread. */
aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);

/** Creates a label to jump to. */
aclError aclrtCreateLabel(aclrtLabel *label);

/** Queues a label in a stream. */
aclError aclrtSetLabel(aclrtLabel label, aclrtStream stream);

/** Destroys a label. */
aclError aclrtDestroyLabel(aclrtLabel label);

/** Creates a list of labels on the device. */
aclError aclrtCreateLabelList(aclrtLabel *labels, size_t num, aclrtLabelList *labelList);

/** Destroys a list of labels. */
aclError aclrtDestroyLabelList(aclrtLabelList labelList);

/** Queues a jump to the label that a value in device memory selects. */
aclError aclrtSwitchLabelByIndex(
    void *ptr, uint32_t maxValue, aclrtLabelList labelList, aclrtStream stream);

/** Queues a task that starts another stream. */
aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream);

/** Queues a branch to a stream, depending on the comparison of two values. */
aclError aclrtSwitchStream(
    void *leftValue, aclrtCondition cond, void *rightValue, aclrtCompareDataType dataType,
    aclrtStream trueStream, aclrtStream falseStream, aclrtStream stream);

/** Queues a marker for profiling. */
aclError aclrtProfTrace(void *userdata, int32_t length, aclrtStream stream);

/** Queues a copy of the floating-point overflow status. */
aclError aclrtGetFloatOverflowStatus(void *outputAddr, uint64_t outputSize, aclrtStream stream);

/** Queues a task that clears the floating-point overflow status. */
aclError aclrtResetFloatOverflowStatus(aclrtStream stream);

/** Queues a task that gets the overflow status for a check mode. */
aclError aclrtNpuGetFloatOverFlowStatus(
    void *outputAddr, uint64_t outputSize, uint32_t checkMode, aclrtStream stream);

/** Queues a task that clears the overflow status for a check mode. */
aclError aclrtNpuClearFloatOverFlowStatus(uint32_t checkMode, aclrtStream stream);

/** Queues a task that generates random numbers. */
aclError aclrtRandomNumAsync(
    const aclrtRandomNumTaskInfo *taskInfo, const aclrtStream stream, void *reserve);

/** Registers a callback for the creation and the destruction of streams. */
aclError aclrtRegStreamStateCallback(
    const char *regName, aclrtStreamStateCallback callback, void *args);

/** Gets the time limit of kernels in milliseconds. */
aclError aclrtGetOpExecuteTimeout(uint32_t *const timeoutMs);

/** Stops a stream: no further task of it begins. */
aclError aclrtStreamStop(aclrtStream stream);

/** Changes the parameters of a task that is already queued. */
aclError aclrtTaskUpdateAsync(
    aclrtStream taskStream, uint32_t taskId, aclrtTaskUpdateInfo *info, aclrtStream execStream);

/** Removes the persistent tasks from a stream. */
aclError aclrtPersistentTaskClean(aclrtStream stream);

/* Event */

/** Creates an event with default flags. */
aclError aclrtCreateEvent(aclrtEvent *event);

/** Creates an event with flags. */
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);

/** Creates an event with flags that can be recorded and reset again and again. */
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);

/** Destroys an event. */
aclError aclrtDestroyEvent(aclrtEvent event);

/** Records an event at the current point of a stream. */
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);

/** Records an event with a flag for events outside a graph. Since 9.2.0. */
aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);

/** Queues a task that resets an event. */
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);

/** Gets whether an event is complete. Deprecated. */
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);

/** Gets whether the recorded point of an event is complete. */
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);

/** Gets whether all waits for an event are complete. */
aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);

/** Waits until an event is complete. */
aclError aclrtSynchronizeEvent(aclrtEvent event);

/** Waits until an event is complete, at most for a time in milliseconds. */
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);

/** Gets the time between two recorded events in milliseconds. */
aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);

/** Gets the system counter at the time when an event was recorded. */
aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);

/** Gets the number of an event. */
aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);

/** Gets the number of events that can still be created. */
aclError aclrtGetEventAvailNum(uint32_t *eventCount);

/** Exports an event for other processes. */
aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);

/** Imports an exported event. The 64-byte handle is passed by value. */
aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

/* Notify */

/** Creates a notify, which is one bit in hardware. */
aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);

/** Destroys a notify. */
aclError aclrtDestroyNotify(aclrtNotify notify);

/** Creates a counting notify. */
aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag);

/** Destroys a counting notify. */
aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);

/** Queues a task that records a notify. */
aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);

/** Queues a task that waits for a notify and then clears it. */
aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);

/** Gets the number of a notify. */
aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);

/** Clears several notifies. */
aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);

/** Exports a notify as a text key. */
aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);

/** Imports a notify by its key. */
aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);

/** Allows the listed processes to import a notify. */
aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);

/** Allows processes on other servers to import a notify. */
aclError aclrtNotifySetImportPidInterServer(
    aclrtNotify notify, aclrtServerPid *serverPids, size_t num);

/** Queues a task that sets the counter of a notify or adds to it. */
aclError aclrtCntNotifyRecord(
    aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyRecordInfo *info);

/** Queues a task that waits for a condition of a counter. */
aclError aclrtCntNotifyWaitWithTimeout(
    aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyWaitInfo *info);

/** Queues a task that resets a counter. */
aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream);

/** Gets the number of a counting notify. */
aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId);

/* Memory */

/** Allocates device memory. The size is padded. */
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** Allocates device memory. The size is rounded up to a multiple of 32 bytes, without
 * further padding. */
aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** Allocates device memory that can be cached. */
aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);

/** Allocates device memory with attributes. */
aclError aclrtMallocWithCfg(
    void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg);

/** Allocates memory that the task scheduler can use. */
aclError aclrtMallocForTaskScheduler(
    void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg);

/** Allocates pinned host memory with attributes. */
aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);

/** Gets the place and the page size of the memory at an address. */
aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);

/** Gets one property of a range of managed memory. Since 9.1.0. */
aclError aclrtMemManagedGetAttr(
    aclrtMemManagedRangeAttribute attribute, const void *ptr, size_t size, void *data,
    size_t dataSize);

/** Gets several properties of a range of managed memory. Since 9.1.0. */
aclError aclrtMemManagedGetAttrs(
    aclrtMemManagedRangeAttribute *attributes, size_t numAttributes, const void *ptr, size_t size,
    void **data, size_t *dataSizes);

/** Maps existing host memory for the device. */
aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);

/** Registers host memory according to flags. */
aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);

/** Gets the device address of registered host memory. */
aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);

/** Ends the registration of host memory. */
aclError aclrtHostUnregister(void *ptr);

/** Gets whether a hardware unit can use mapped host memory. Since 9.0.0. */
aclError aclrtHostMemMapCapabilities(
    uint32_t deviceId, aclrtHacType hacType, aclrtHostMemMapCapability *capabilities);

/** Writes a cached range of device memory back. */
aclError aclrtMemFlush(void *devPtr, size_t size);

/** Invalidates a cached range of device memory. */
aclError aclrtMemInvalidate(void *devPtr, size_t size);

/** Frees device memory. */
aclError aclrtFree(void *devPtr);

/** Allocates pinned host memory. */
aclError aclrtMallocHost(void **hostPtr, size_t size);

/** Allocates managed memory. Since 9.0.0. */
aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag);

/** Frees pinned host memory. */
aclError aclrtFreeHost(void *hostPtr);

/** Waits for all work of the device, and then frees device memory. */
aclError aclrtFreeWithDevSync(void *devPtr);

/** Waits for all work of the device, and then frees pinned host memory. */
aclError aclrtFreeHostWithDevSync(void *hostPtr);

/** Copies memory and waits for the copy. `destMax` is the size of the destination. */
aclError aclrtMemcpy(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind);

/** Fills memory with a byte and waits for the fill. */
aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);

/** Queues a copy in a stream. */
aclError aclrtMemcpyAsync(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream);

/** Fills memory with a 32-bit pattern and waits for the fill. Since 9.1.0. */
aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);

/** Queues a fill with a 32-bit pattern. Since 9.1.0. */
aclError aclrtMemsetD32Async(
    void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream);

/** Queues a copy, or waits for it if the memory is foreign. Deprecated. */
aclError aclrtMemcpyAsyncWithCondition(
    void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream);

/** Copies rows of memory and waits for the copy. */
aclError aclrtMemcpy2d(
    void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    aclrtMemcpyKind kind);

/** Queues a copy of rows of memory. */
aclError aclrtMemcpy2dAsync(
    void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
    aclrtMemcpyKind kind, aclrtStream stream);

/** Gets the address of a device variable. Since 9.1.0. */
aclError aclrtGetSymbolAddress(const void *symbol, void **devPtr);

/** Gets the size of a device variable. Since 9.1.0. */
aclError aclrtGetSymbolSize(const void *symbol, size_t *size);

/** Copies the value of a device variable and waits for the copy. Since 9.1.0. */
aclError aclrtMemcpyFromSymbol(
    void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset,
    aclrtMemcpyKind kind);

/** Queues a copy of the value of a device variable. Since 9.1.0. */
aclError aclrtMemcpyFromSymbolAsync(
    void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset,
    aclrtMemcpyKind kind, aclrtStream stream);

/** Copies a value into a device variable and waits for the copy. Since 9.1.0. */
aclError aclrtMemcpyToSymbol(
    const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind);

/** Queues a copy into a device variable. Since 9.1.0. */
aclError aclrtMemcpyToSymbolAsync(
    const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind,
    aclrtStream stream);

/** Queues a fill with a byte. */
aclError aclrtMemsetAsync(
    void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream);

/** Gives a hint about the use of managed memory. Since 9.1.0. */
aclError aclrtMemManagedAdvise(
    const void *const ptr, uint64_t size, aclrtMemManagedAdviseType advise,
    aclrtMemManagedLocation location);

/** Gets the free and the total number of bytes of a kind of memory. */
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);

/** Gets the memory that each module uses. */
aclError aclrtGetMemUsageInfo(
    int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum);

/** Queues an operation on the cache. */
aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);

/** Gets the size of a descriptor of a copy in device memory. */
aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);

/** Fills a descriptor of a copy in device memory. */
aclError aclrtSetMemcpyDesc(
    void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count, void *config);

/** Queues a copy. Each of its two addresses is read from memory and increased by an offset. */
aclError aclrtMemcpyAsyncWithOffset(
    void **dst, size_t destMax, size_t dstDataOffset, const void **src, size_t count,
    size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream stream);

/** Queues a copy that a descriptor in device memory describes. */
aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);

/** Queues a reduction (sum, maximum or minimum) into the destination by the copy engine. */
aclError aclrtReduceAsync(
    void *dst, const void *src, uint64_t count, aclrtReduceKind kind, aclDataType type,
    aclrtStream stream, void *reserve);

/** Gets one buffer of a chain. */
aclError aclrtGetBufFromChain(aclrtMbuf headBuf, uint32_t index, aclrtMbuf *buf);

/** Gets the number of buffers in a chain. */
aclError aclrtGetBufChainNum(aclrtMbuf headBuf, uint32_t *num);

/** Appends a buffer to a chain. */
aclError aclrtAppendBufChain(aclrtMbuf headBuf, aclrtMbuf buf);

/** Adds a reference to a buffer. */
aclError aclrtCopyBufRef(const aclrtMbuf buf, aclrtMbuf *newBuf);

/** Reads the private area of a buffer. */
aclError aclrtGetBufUserData(const aclrtMbuf buf, void *dataPtr, size_t size, size_t offset);

/** Writes the private area of a buffer. */
aclError aclrtSetBufUserData(aclrtMbuf buf, const void *dataPtr, size_t size, size_t offset);

/** Gets the address and the capacity of the payload of a buffer. */
aclError aclrtGetBufData(const aclrtMbuf buf, void **dataPtr, size_t *size);

/** Gets the used length of the payload. */
aclError aclrtGetBufDataLen(aclrtMbuf buf, size_t *len);

/** Sets the used length of the payload. */
aclError aclrtSetBufDataLen(aclrtMbuf buf, size_t len);

/** Frees a buffer. */
aclError aclrtFreeBuf(aclrtMbuf buf);

/** Allocates a buffer. */
aclError aclrtAllocBuf(aclrtMbuf *buf, size_t size);

/** Queues an operation on the cache, and gives it the number of a barrier. */
aclError aclrtCmoAsyncWithBarrier(
    void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId, aclrtStream stream);

/** Queues a task that waits for the cache operations that have these numbers of barriers. */
aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag);

/** Makes many copies in one call and waits for them. */
aclError aclrtMemcpyBatch(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex);

/** Makes many copies in one call and waits for them, without the index of a failed copy.
 * Since 9.1.0. */
aclError aclrtMemcpyBatchV2(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs);

/** Queues many copies in one call. */
aclError aclrtMemcpyBatchAsync(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex,
    aclrtStream stream);

/** Queues many copies in one call, without the index of a failed copy. Since 9.1.0. */
aclError aclrtMemcpyBatchAsyncV2(
    void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches,
    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, aclrtStream stream);

/** Gets whether addresses belong to a kind of memory. */
aclError aclrtCheckMemType(
    void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult, uint32_t reserve);

/** Gets the size of a descriptor of a cache operation. */
aclError aclrtCmoGetDescSize(size_t *size);

/** Fills a descriptor of a cache operation. */
aclError aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size);

/** Queues the cache operation that a descriptor describes. */
aclError aclrtCmoAsyncWithDesc(
    void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream, const void *reserve);

/** Gets the address and the size of the allocation that contains an address. Since 9.0.0. */
aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);

/** Queues a prefetch of managed memory to a place. Since 9.1.0. */
aclError aclrtMemManagedPrefetchAsync(
    const void *ptr, size_t size, aclrtMemManagedLocation location, uint32_t flags,
    aclrtStream stream);

/** Queues a prefetch of several ranges of managed memory. Since 9.1.0. */
aclError aclrtMemManagedPrefetchBatchAsync(
    const void **ptrs, size_t *sizes, size_t count, aclrtMemManagedLocation *prefetchLocs,
    size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, aclrtStream stream);

/* Virtual memory and IPC */

/** Reserves a range of virtual addresses. */
aclError aclrtReserveMemAddress(
    void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags);

/** Releases a reserved range. */
aclError aclrtReleaseMemAddress(void *virPtr);

/** Allocates physical memory. */
aclError aclrtMallocPhysical(
    aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags);

/** Frees physical memory. */
aclError aclrtFreePhysical(aclrtDrvMemHandle handle);

/** Maps physical memory into a reserved range. */
aclError aclrtMapMem(
    void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Ends a mapping. */
aclError aclrtUnmapMem(void *virPtr);

/** Maps physical memory without granting access to it. Since 9.2.0. */
aclError aclrtMemMapNoAccess(
    void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags);

/** Exports physical memory as a 64-bit handle. */
aclError aclrtMemExportToShareableHandle(
    aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
    uint64_t *shareableHandle);

/** Exports physical memory as a default handle or a fabric handle. */
aclError aclrtMemExportToShareableHandleV2(
    aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType,
    void *shareableHandle);

/** Imports physical memory on a device from a 64-bit handle. */
aclError aclrtMemImportFromShareableHandle(
    uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle *handle);

/** Imports physical memory from a default handle or a fabric handle. */
aclError aclrtMemImportFromShareableHandleV2(
    void *shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags,
    aclrtDrvMemHandle *handle);

/** Allows processes to import exported physical memory. */
aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);

/** Allows processes to import exported physical memory, by a handle of either kind. */
aclError aclrtMemSetPidToShareableHandleV2(
    void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid, size_t pidNum);

/** Gets the minimum or the recommended granularity of allocations. */
aclError aclrtMemGetAllocationGranularity(
    aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option, size_t *granularity);

/** Exports device memory as a text key. */
aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags);

/** Ends the use of an exported or imported key. */
aclError aclrtIpcMemClose(const char *key);

/** Imports device memory by its key. */
aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);

/** Allows the listed processes to import exported device memory. */
aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);

/** Sets an attribute of shared memory, such as its link. */
aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr);

/** Allows processes on other servers to import exported device memory. */
aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num);

/** Sets the access rights to mapped memory. */
aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);

/** Gets the access rights of a place to mapped memory. */
aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);

/** Gets the handle of the physical memory that is mapped at an address. */
aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);

/** Gets the properties of physical memory. */
aclError aclrtMemGetAllocationPropertiesFromHandle(
    aclrtDrvMemHandle handle, aclrtPhysicalMemProp *prop);

/** Reserves a range of virtual addresses that is not for UC memory. Since 9.0.0. */
aclError aclrtReserveMemAddressNoUCMemory(
    void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags);

/** Maps memory for another device of the same process. Since 9.0.0. */
aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags);

/** Maps memory through a chosen link. Since 9.1.0. */
aclError aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc, uint32_t linkIdx);

/** Chooses the link of physical memory before it is mapped. Since 9.2.0. */
aclError aclrtMemMapSetLink(aclrtDrvMemHandle handle, aclrtMemLinkType adviceLink);

/* Kernel loading and launch */

/** Creates an object for the bytes of a kernel binary. */
aclrtBinary aclrtCreateBinary(const void *data, size_t dataLen);

/** Frees the object of a kernel binary. */
aclError aclrtDestroyBinary(aclrtBinary binary);

/** Loads the binary of an object onto the device. */
aclError aclrtBinaryLoad(const aclrtBinary binary, aclrtBinHandle *binHandle);

/** Unloads a binary. */
aclError aclrtBinaryUnLoad(aclrtBinHandle binHandle);

/** Gets the handle of a kernel by its name. */
aclError aclrtBinaryGetFunction(
    const aclrtBinHandle binHandle, const char *kernelName, aclrtFuncHandle *funcHandle);

/** Launches a kernel with an argument block in device memory. */
aclError aclrtLaunchKernel(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData, size_t argsSize,
    aclrtStream stream);

/** Loads a binary, or the JSON file of AI CPU kernels, from a file. */
aclError aclrtBinaryLoadFromFile(
    const char *binPath, aclrtBinaryLoadOptions *options, aclrtBinHandle *binHandle);

/** Gets the address and the size of a binary on the device. */
aclError aclrtBinaryGetDevAddress(const aclrtBinHandle binHandle, void **binAddr, size_t *binSize);

/** Gets the handle of a kernel by the number of its entry. */
aclError aclrtBinaryGetFunctionByEntry(
    aclrtBinHandle binHandle, uint64_t funcEntry, aclrtFuncHandle *funcHandle);

/** Gets the address and the size of a global variable on the device. Since 9.1.0. */
aclError aclrtBinaryGetGlobal(
    aclrtBinHandle binHandle, const char *name, void **dptr, size_t *size);

/** Gets the handle of a kernel by the symbol of its host stub. Since 9.1.0. */
aclError aclrtGetFuncBySymbol(const void *symbol, aclrtFuncHandle *funcHandle);

/** Gets the entry addresses of a kernel for the cube and the vector cores. */
aclError aclrtGetFunctionAddr(aclrtFuncHandle funcHandle, void **aicAddr, void **aivAddr);

/** Gets the code sizes of a kernel for the cube and the vector cores. Since 9.1.0. */
aclError aclrtGetFunctionSize(aclrtFuncHandle funcHandle, size_t *aicSize, size_t *aivSize);

/** Gets the number of bytes that an argument list takes. */
aclError aclrtKernelArgsGetHandleMemSize(aclrtFuncHandle funcHandle, size_t *memSize);

/** Gets the number of bytes that the arguments of a list take. */
aclError aclrtKernelArgsGetMemSize(
    aclrtFuncHandle funcHandle, size_t userArgsSize, size_t *actualArgsSize);

/** Begins an argument list. */
aclError aclrtKernelArgsInit(aclrtFuncHandle funcHandle, aclrtArgsHandle *argsHandle);

/** Begins an argument list in memory of the caller. */
aclError aclrtKernelArgsInitByUserMem(
    aclrtFuncHandle funcHandle, aclrtArgsHandle argsHandle, void *userHostMem,
    size_t actualArgsSize);

/** Appends an argument to a list. */
aclError aclrtKernelArgsAppend(
    aclrtArgsHandle argsHandle, void *param, size_t paramSize, aclrtParamHandle *paramHandle);

/** Appends a placeholder to a list, for an argument that is outside the list. */
aclError aclrtKernelArgsAppendPlaceHolder(
    aclrtArgsHandle argsHandle, aclrtParamHandle *paramHandle);

/** Gets the buffer for the data of a placeholder. */
aclError aclrtKernelArgsGetPlaceHolderBuffer(
    aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, size_t dataSize, void **bufferAddr);

/** Overwrites an argument of a list. */
aclError aclrtKernelArgsParaUpdate(
    aclrtArgsHandle argsHandle, aclrtParamHandle paramHandle, void *param, size_t paramSize);

/** Launches a kernel with an argument list and a configuration. */
aclError aclrtLaunchKernelWithConfig(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
    aclrtArgsHandle argsHandle, void *reserve);

/** Finalizes an argument list, so that kernels can be launched with it. */
aclError aclrtKernelArgsFinalize(aclrtArgsHandle argsHandle);

/** Gets the name of a kernel. */
aclError aclrtGetFunctionName(aclrtFuncHandle funcHandle, uint32_t maxLen, char *name);

/** Loads a binary from memory. */
aclError aclrtBinaryLoadFromData(
    const void *data, size_t length, const aclrtBinaryLoadOptions *options,
    aclrtBinHandle *binHandle);

/** Registers a function of AI CPU kernels, and gets its handle. */
aclError aclrtRegisterCpuFunc(
    const aclrtBinHandle handle, const char *funcName, const char *kernelName,
    aclrtFuncHandle *funcHandle);

/** Launches a kernel with an argument block in device memory and a configuration. */
aclError aclrtLaunchKernelV2(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, const void *argsData, size_t argsSize,
    aclrtLaunchKernelCfg *cfg, aclrtStream stream);

/** Launches a kernel with an argument block in host memory, which may have placeholders. */
aclError aclrtLaunchKernelWithHostArgs(
    aclrtFuncHandle funcHandle, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg,
    void *hostArgs, size_t argsSize, aclrtPlaceHolderInfo *placeHolderArray,
    size_t placeHolderNum);

/** Launches a kernel with an array of pointers to its arguments. Since 9.1.0. */
aclError aclrtLaunchKernelWithArgsArray(
    void *func, uint32_t numBlocks, aclrtStream stream, aclrtLaunchKernelCfg *cfg, void **args);

/** Launches a SIMT kernel with an array of pointers to its arguments. Since 9.2.0. */
aclError aclrtLaunchSIMTKernelWithArgsArray(
    void *func, dim3 gridDim, dim3 blockDim, size_t dynUbufSize, aclrtStream stream,
    aclrtLaunchKernelCfg *cfg, void **args);

/** Launches a SIMT kernel with an argument block in host memory. Since 9.2.0. */
aclError aclrtLaunchSIMTKernelWithHostArgs(
    void *func, dim3 gridDim, dim3 blockDim, size_t dynUbufSize, aclrtStream stream,
    aclrtLaunchKernelCfg *cfg, void *hostArgs, size_t argsSize,
    aclrtPlaceHolderInfo *placeHolderArray, size_t placeHolderNum);

/** Attaches information on shapes to the last task. */
aclError aclrtCacheLastTaskOpInfo(const void *const infoPtr, const size_t infoSize);

/** Attaches information for debugging to the last task. Since 9.1.0. */
aclError aclrtCacheLastTaskExtendInfo(const char *const extendInfoPtr, const size_t infoSize);

/** Gets a property of a kernel: its type, its ratio of cores or its scheduling mode. */
aclError aclrtGetFunctionAttribute(
    aclrtFuncHandle funcHandle, aclrtFuncAttribute attrType, int64_t *attrValue);

/** Gets the binary that contains a kernel. Since 9.1.0. */
aclError aclrtFunctionGetBinary(const aclrtFuncHandle funcHandle, aclrtBinHandle *binHandle);

/** Gets the number of parameters of a kernel. Since 9.1.0. */
aclError aclrtFunctionGetParamCount(const void *func, size_t *paramCount);

/** Gets the offset and the size of a parameter of a kernel. Since 9.1.0. */
aclError aclrtFunctionGetParamInfo(
    const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize);

/** Gets the size of the unified buffer that a block still has available. Since 9.1.0. */
aclError aclrtFunctionGetAvailDynUbufPerBlock(void *func, uint32_t flags, size_t *dynamicUbufSize);

/* Host callbacks */

/** Subscribes a thread, which polls for callbacks, to a stream. */
aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);

/** Queues a callback that a subscribed thread runs. */
aclError aclrtLaunchCallback(
    aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream);

/** Runs callbacks that are ready on the calling thread, which must be subscribed. */
aclError aclrtProcessReport(int32_t timeout);

/** Ends the subscription of a thread. */
aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);

/** Subscribes a thread that runs host functions (not in libacl_rt). No host library of a
 * release exports it. */
aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);

/** Runs host functions on the calling thread (not in libacl_rt). No host library of a
 * release exports it. */
aclError aclrtProcessHostFunc(int32_t timeout);

/** Ends the subscription of a thread that runs host functions (not in libacl_rt). No host
 * library of a release exports it. */
aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);

/** Queues a host function in a stream. */
aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);

/* Graph (aclmdlRI) */

/** Gets the parameters of a task of a graph. Since 9.1.0. */
aclError aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params);

/** Edits the parameters of a task of a graph. Since 9.1.0. */
aclError aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams *params);

/** Gets an attribute of the launch of a kernel task. Since 9.1.0. */
aclError aclmdlRIKernelTaskGetAttribute(
    aclmdlRITask task, aclrtLaunchKernelAttrId attrId, aclrtLaunchKernelAttrValue *attrValue);

/** Applies the edits of tasks to a graph. Since 9.1.0. */
aclError aclmdlRIUpdate(aclmdlRI modelRI);

/** Makes a task of a graph do nothing. Since 9.1.0. */
aclError aclmdlRITaskDisable(aclmdlRITask task);

/** Begins to capture a stream into a graph. */
aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode);

/** Gets the state of the capture of a stream, and its graph. */
aclError aclmdlRICaptureGetInfo(
    aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *modelRI);

/** Ends a capture, and returns the graph. */
aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI);

/** Prints a graph. Deprecated. */
aclError aclmdlRIDebugPrint(aclmdlRI modelRI);

/** Writes a graph to a JSON file. */
aclError aclmdlRIDebugJsonPrint(aclmdlRI modelRI, const char *path, uint32_t flags);

/** Sets the capture mode of this thread, and returns the earlier mode. */
aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode);

/** Queues an execution of a graph in a stream. */
aclError aclmdlRIExecuteAsync(aclmdlRI modelRI, aclrtStream stream);

/** Executes a graph, and waits until the execution is complete. */
aclError aclmdlRIExecute(aclmdlRI modelRI, int32_t timeout);

/** Destroys a graph. */
aclError aclmdlRIDestroy(aclmdlRI modelRI);

/** Begins a group of tasks that can be updated. */
aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream);

/** Ends a group of tasks, and returns its handle. */
aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle);

/** Begins to capture a group of tasks again. */
aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle);

/** Ends the new capture of a group of tasks. */
aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream);

/** Begins to build a graph from bound streams. */
aclError aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag);

/** Binds a stream to a graph that is being built. */
aclError aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream stream, uint32_t flag);

/** Queues the task that ends a stream of a graph. */
aclError aclmdlRIEndTask(aclmdlRI modelRI, aclrtStream stream);

/** Ends the build of a graph. */
aclError aclmdlRIBuildEnd(aclmdlRI modelRI, void *reserve);

/** Removes a stream from a graph. */
aclError aclmdlRIUnbindStream(aclmdlRI modelRI, aclrtStream stream);

/** Sets the name of a graph. */
aclError aclmdlRISetName(aclmdlRI modelRI, const char *name);

/** Gets the name of a graph. */
aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name);

/** Gets the number of a graph. Since 9.1.0. */
aclError aclmdlRIGetId(aclmdlRI modelRI, uint32_t *modelRIId);

/** Registers a callback for the destruction of a graph. Since 9.0.0. */
aclError aclmdlRIDestroyRegisterCallback(aclmdlRI modelRI, aclrtCallback func, void *userData);

/** Removes a callback for the destruction of a graph. Since 9.0.0. */
aclError aclmdlRIDestroyUnregisterCallback(aclmdlRI modelRI, aclrtCallback func);

/** Gets the streams of a graph. Since 9.1.0. */
aclError aclmdlRIGetStreams(aclmdlRI modelRI, aclrtStream *streams, uint32_t *numStreams);

/** Gets the tasks of a stream of a graph. Since 9.1.0. */
aclError aclmdlRIGetTasksByStream(aclrtStream stream, aclmdlRITask *tasks, uint32_t *numTasks);

/** Gets the kind of a task of a graph. Since 9.1.0. */
aclError aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type);

/** Gets the sequence number of a task of a graph. Since 9.1.0. */
aclError aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id);

/** Aborts the execution of a graph. */
aclError aclmdlRIAbort(aclmdlRI modelRI);

/** Creates a condition of a graph. Since 9.1.0. */
aclError aclmdlRICondHandleCreate(
    aclmdlRI modelRI, uint32_t defaultLaunchValue, aclmdlRICondHandleFlag flag,
    aclmdlRICondHandle *handle);

/** Gets the device address of the value of a condition. Since 9.1.0. */
aclError aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **ptr);

/** Adds a conditional task (if, while or switch) to a graph. The struct is passed by
 * value. Since 9.1.0. */
aclError aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags);

/** Begins to capture a stream into an existing graph. Since 9.1.0. */
aclError aclmdlRICaptureToModelRIBegin(
    aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode);

/* Process snapshot */

/** Stops the calls of a process, so that a snapshot can be taken. */
aclError aclrtSnapShotProcessLock(int pid, void *reserve);

/** Lets the calls of a process continue after a snapshot. */
aclError aclrtSnapShotProcessUnlock(int pid, void *reserve);

/** Saves the state of the devices of a process. */
aclError aclrtSnapShotProcessBackup(int pid, aclrtSnapShotBackupArgs *args);

/** Restores the state of the devices of a process. */
aclError aclrtSnapShotProcessRestore(int pid, aclrtSnapShotRestoreArgs *args);

/** Registers a callback for a stage of a snapshot. Since 9.0.0. */
aclError aclrtSnapShotCallbackRegister(
    aclrtSnapShotStage stage, aclrtSnapShotCallBack callback, void *args);

/** Removes a callback for a stage of a snapshot. Since 9.0.0. */
aclError aclrtSnapShotCallbackUnregister(aclrtSnapShotStage stage, aclrtSnapShotCallBack callback);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_RT_H */
