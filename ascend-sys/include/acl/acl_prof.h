/* AscendCL: profiling. libmsprofiler.so exports these functions. */
#ifndef ACL_ACL_PROF_H
#define ACL_ACL_PROF_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What aclprofCreateConfig has recorded: bits of dataTypeConfig. */
#define ACL_PROF_ACL_API 0x0001ULL
#define ACL_PROF_TASK_TIME 0x0002ULL
#define ACL_PROF_AICORE_METRICS 0x0004ULL
#define ACL_PROF_AICPU 0x0008ULL
#define ACL_PROF_L2CACHE 0x0010ULL
#define ACL_PROF_HCCL_TRACE 0x0020ULL
#define ACL_PROF_TRAINING_TRACE 0x0040ULL
#define ACL_PROF_MSPROFTX 0x0080ULL
#define ACL_PROF_RUNTIME_API 0x0100ULL
#define ACL_PROF_GE_API_L0 0x0200ULL
#define ACL_PROF_TASK_TIME_L0 0x0800ULL
#define ACL_PROF_TASK_MEMORY 0x1000ULL
#define ACL_PROF_TASK_TIME_L2 0x2000ULL
#define ACL_PROF_OP_ATTR 0x4000ULL
#define ACL_PROF_TASK_TIME_L3 0x8000ULL
#define ACL_PROF_GE_API_L1 0x1000000ULL
#define ACL_PROF_API_STATS 0x400000000ULL
#define ACL_PROF_AICORE_SHAPE 0x800000000ULL

/* Lengths of texts and arrays, and the version of aclprofEventAttributes. */
#define ACL_PROF_MAX_OP_NAME_LEN 257
#define ACL_PROF_MAX_OP_TYPE_LEN 65
#define ACL_PROF_TENSOR_DATA_SHAPE_LEN 8
#define ACL_PROF_EVENT_ATTR_VERSION 1

/** The group of counters that AI cores record. */
typedef enum {
    ACL_AICORE_ARITHMETIC_UTILIZATION = 0,
    ACL_AICORE_PIPE_UTILIZATION = 1,
    ACL_AICORE_MEMORY_BANDWIDTH = 2,
    ACL_AICORE_L0B_AND_WIDTH = 3,
    ACL_AICORE_RESOURCE_CONFLICT_RATIO = 4,
    ACL_AICORE_MEMORY_UB = 5,
    ACL_AICORE_L2_CACHE = 6,
    ACL_AICORE_PIPE_EXECUTE_UTILIZATION = 7,
    ACL_AICORE_MEMORY_ACCESS = 8,
    ACL_AICORE_NONE = 0xFF
} aclprofAicoreMetrics;

/** The end of a step that a timestamp marks. */
typedef enum {
    ACL_STEP_START = 0,
    ACL_STEP_END = 1
} aclprofStepTag;

/** The subject of a record of a subscription. */
typedef enum {
    ACL_SUBSCRIBE_OP = 0,
    ACL_SUBSCRIBE_SUBGRAPH = 1,
    ACL_SUBSCRIBE_OP_THREAD = 2,
    ACL_SUBSCRIBE_NONE = 0xFF
} aclprofSubscribeOpFlag;

/** The attributes of a record of a subscription. */
typedef enum {
    ACL_SUBSCRIBE_ATTRI_THREADID = 0,
    ACL_SUBSCRIBE_ATTRI_NONE = 1
} aclprofSubscribeOpAttri;

/** The settings of aclprofSetConfig. */
typedef enum {
    ACL_PROF_ARGS_MIN = 0,
    ACL_PROF_STORAGE_LIMIT = 1,
    ACL_PROF_SYS_HARDWARE_MEM_FREQ = 3,
    ACL_PROF_LLC_MODE = 4,
    ACL_PROF_SYS_IO_FREQ = 5,
    ACL_PROF_SYS_INTERCONNECTION_FREQ = 6,
    ACL_PROF_DVPP_FREQ = 7,
    ACL_PROF_HOST_SYS = 8,
    ACL_PROF_HOST_SYS_USAGE = 9,
    ACL_PROF_HOST_SYS_USAGE_FREQ = 10,
    ACL_PROF_LOW_POWER_FREQ = 11,
    ACL_PROF_SYS_MEM_SERVICEFLOW = 12,
    ACL_PROF_SYS_CPU_FREQ = 13,
    ACL_PROF_OPTYPE = 14,
    ACL_PROF_NTS_METRICS = 15,
    ACL_PROF_PATH = 16,
    ACL_PROF_ARGS_MAX = 17
} aclprofConfigType;

/** The kind of message that aclprofEventAttributes carries. */
typedef enum {
    ACL_PROF_MESSAGE_TYPE_TENSOR_INFO = 0
} aclprofMessageType;

/** A description of the data that is recorded, and of the devices. */
typedef struct aclprofConfig aclprofConfig;

/** A description of the recording that aclprofStop stops. */
typedef struct aclprofStopConfig aclprofStopConfig;

/** A choice of single events of AI cores. */
typedef struct aclprofAicoreEvents aclprofAicoreEvents;

/** A description of the records that a subscription delivers. */
typedef struct aclprofSubscribeConfig aclprofSubscribeConfig;

/** A step whose beginning and end are marked. */
typedef struct aclprofStepInfo aclprofStepInfo;

/* Another header may bring these three. */
#ifndef ACL_PROF_TENSOR_INFO_DEFINED
#define ACL_PROF_TENSOR_INFO_DEFINED

/** A tensor of an operator. The type is 0 for an input and 1 for an output. */
typedef struct {
    uint32_t type;
    uint32_t format;
    uint32_t dataType;
    uint32_t shapeDim;
    uint32_t shape[ACL_PROF_TENSOR_DATA_SHAPE_LEN];
} aclprofTensor;

/** An operator with its tensors. */
typedef struct {
    uint64_t opNameId;
    uint64_t opTypeId;
    uint32_t resv;
    uint32_t tensorNum;
    uint32_t kernelType;
    uint32_t blockNums;
    void *stream;
    aclprofTensor *tensors;
} aclprofTensorInfo;

/** The message of a range. The field messageType is an aclprofMessageType. */
typedef struct {
    uint16_t version;
    uint16_t size;
    uint32_t messageType;
    union {
        aclprofTensorInfo *tensorInfo;
    } message;
} aclprofEventAttributes;

#endif

/* Profiling */

/** Starts profiling into a directory. */
aclError aclprofInit(const char *profilerResultPath, size_t length);

/** Ends profiling. */
aclError aclprofFinalize(void);

/** Creates a description of the data that is recorded. Returns NULL on failure. */
aclprofConfig *aclprofCreateConfig(
    uint32_t *deviceIdList, uint32_t deviceNums, aclprofAicoreMetrics aicoreMetrics,
    const aclprofAicoreEvents *aicoreEvents, uint64_t dataTypeConfig);

/** Frees the description. */
aclError aclprofDestroyConfig(const aclprofConfig *profilerConfig);

/** Begins to record. */
aclError aclprofStart(const aclprofConfig *profilerConfig);

/** Stops recording. */
aclError aclprofStop(const aclprofConfig *profilerConfig);

/** Changes a setting, which is given as text. */
aclError aclprofSetConfig(aclprofConfigType configType, const char *config, size_t configLength);

/** Delivers the records of a model. */
aclError aclprofModelSubscribe(
    uint32_t modelId, const aclprofSubscribeConfig *profSubscribeConfig);

/** Stops delivering the records of a model. */
aclError aclprofModelUnSubscribe(uint32_t modelId);

/** Creates a description of a subscription. Returns NULL on failure. */
aclprofSubscribeConfig *aclprofCreateSubscribeConfig(
    int8_t timeInfoSwitch, aclprofAicoreMetrics aicoreMetrics, void *fd);

/** Frees the description of a subscription. */
aclError aclprofDestroySubscribeConfig(const aclprofSubscribeConfig *profSubscribeConfig);

/** Gets the number of bytes of one record of a subscription. */
aclError aclprofGetOpDescSize(size_t *opDescSize);

/** Gets the number of operators in delivered records. */
aclError aclprofGetOpNum(const void *opInfo, size_t opInfoLen, uint32_t *opNumber);

/** Gets the length of the text that names the type of an operator. */
aclError aclprofGetOpTypeLen(
    const void *opInfo, size_t opInfoLen, uint32_t index, size_t *opTypeLen);

/** Gets the type of an operator as text. */
aclError aclprofGetOpType(
    const void *opInfo, size_t opInfoLen, uint32_t index, char *opType, size_t opTypeLen);

/** Gets the length of the name of an operator. */
aclError aclprofGetOpNameLen(
    const void *opInfo, size_t opInfoLen, uint32_t index, size_t *opNameLen);

/** Gets the name of an operator. */
aclError aclprofGetOpName(
    const void *opInfo, size_t opInfoLen, uint32_t index, char *opName, size_t opNameLen);

/** Returns the time at which an operator started. */
uint64_t aclprofGetOpStart(const void *opInfo, size_t opInfoLen, uint32_t index);

/** Returns the time at which an operator ended. */
uint64_t aclprofGetOpEnd(const void *opInfo, size_t opInfoLen, uint32_t index);

/** Returns the duration of an operator. */
uint64_t aclprofGetOpDuration(const void *opInfo, size_t opInfoLen, uint32_t index);

/** Returns the number of the model of an operator. */
size_t aclprofGetModelId(const void *opInfo, size_t opInfoLen, uint32_t index);

/** Returns the subject of a record. */
aclprofSubscribeOpFlag aclprofGetOpFlag(const void *opInfo, size_t opInfoLen, uint32_t index);

/** Returns an attribute of a record as text. */
const char *aclprofGetOpAttriValue(
    const void *opInfo, size_t opInfoLen, uint32_t index, aclprofSubscribeOpAttri attri);

/** Marks the beginning or the end of a step in a stream. */
aclError aclprofGetStepTimestamp(
    aclprofStepInfo *stepInfo, aclprofStepTag tag, aclrtStream stream);

/** Creates a step. */
aclprofStepInfo *aclprofCreateStepInfo(void);

/** Frees a step. */
void aclprofDestroyStepInfo(aclprofStepInfo *stepInfo);

/** Creates a stamp for marks and ranges of the program. */
void *aclprofCreateStamp(void);

/** Frees a stamp. */
void aclprofDestroyStamp(void *stamp);

/** Opens a nested range of the thread. */
aclError aclprofPush(void *stamp);

/** Closes the innermost range of the thread that aclprofPush has opened. */
aclError aclprofPop(void);

/** Opens a range that any thread may close. */
aclError aclprofRangeStart(void *stamp, uint32_t *rangeId);

/** Closes a range that aclprofRangeStart has opened. */
aclError aclprofRangeStop(uint32_t rangeId);

/** Gives a stamp a text. */
aclError aclprofSetStampTraceMessage(void *stamp, const char *msg, uint32_t msgLen);

/** Records a stamp as a mark. */
aclError aclprofMark(void *stamp);

/** Records a mark with a text in a stream. */
aclError aclprofMarkEx(const char *msg, size_t msgLen, aclrtStream stream);

/** Returns the number of a text. */
uint64_t aclprofStr2Id(const char *message);

/** Opens a nested range with attributes. */
aclError aclprofRangePushEx(aclprofEventAttributes *attr);

/** Closes the innermost range that aclprofRangePushEx has opened. */
aclError aclprofRangePop(void);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_PROF_H */
