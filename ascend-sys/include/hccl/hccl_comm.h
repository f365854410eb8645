/* HCCL: creating, configuring, querying and destroying communicators. */
#ifndef HCCL_HCCL_COMM_H
#define HCCL_HCCL_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hccl/hccl_types.h"
#include "acl/acl_base_rt.h"
#include "acl/acl_rt.h"

/* As in CANN, most functions below are weak, so that a program links with libhccl.so alone, which
 * brings libhcomm.so along. A weak reference links without any library too, and then calls address 0;
 * and with "--as-needed" the linker drops a library that only weak references use. Define the macro as
 * nothing before this header to have ordinary declarations. */
#ifndef HCOMM_WEAK_SYMBOL
#define HCOMM_WEAK_SYMBOL __attribute__((weak))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** The place where operations are made into tasks, as HcclConfigGetInfo reports it.
 * HcclCommConfig uses other numbers. Since 9.1.0. */
typedef enum {
    HCCL_OP_EXPANSION_MODE_INVALID = -1,
    HCCL_OP_EXPANSION_MODE_AI_CPU = 0,
    HCCL_OP_EXPANSION_MODE_AIV = 1,
    HCCL_OP_EXPANSION_MODE_HOST = 2,
    HCCL_OP_EXPANSION_MODE_HOST_TS = 3,
    HCCL_OP_EXPANSION_MODE_CCU_MS = 4,
    HCCL_OP_EXPANSION_MODE_CCU_SCHED = 5,
    HCCL_OP_EXPANSION_AIV_ONLY = 6
} HcclOpExpansionMode;

/** The properties that HcclConfigGetInfo can get. Since 9.1.0. */
typedef enum {
    HCCL_CONFIG_TYPE_INVALID = -1,
    HCCL_CONFIG_TYPE_OP_EXPANSION_MODE = 0,
    HCCL_CONFIG_TYPE_HCCL_ALGO = 1
} HcclConfigType;

/** The type of the value of HCCL_CONFIG_TYPE_OP_EXPANSION_MODE. */
typedef HcclOpExpansionMode HcclConfigTypeOpExpansionMode;

/** A callback that is called when the state of a communicator changes. */
typedef HcclResult (*HcclCommStateCallback)(HcclComm comm, HcclCommStatePhase state, void *args);

/* Communicator lifecycle */

/** Joins a communicator that the JSON file of a rank table describes. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitClusterInfo(
    const char *clusterInfo, uint32_t rank, HcclComm *comm);

/** Joins a communicator that a rank table describes, with options of the communicator. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitClusterInfoConfig(
    const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *comm);

/** Makes a sub-communicator from ranks of a communicator. */
HCOMM_WEAK_SYMBOL HcclResult HcclCreateSubCommConfig(
    HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
    uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm);

/** Makes the root info on the root. All ranks of the communicator need a copy of it. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);

/** Joins the communicator of a root info. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitRootInfo(
    uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm);

/** Joins the communicator of a root info, with options of the communicator. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitRootInfoConfig(
    uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, const HcclCommConfig *config,
    HcclComm *comm);

/** Copies the name of the communicator into a buffer of 128 bytes. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetCommName(HcclComm comm, char *commName);

/** Gets the handle of a communicator by its name. Since 9.0.0. */
HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *comm);

/** Gets the number of ranks of the communicator. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);

/** Gets the caller's rank in the communicator. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);

/** Destroys a communicator and releases its resources. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommDestroy(HcclComm comm);

/** Makes the communicators of several devices of this process. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);

/** Gets an error that has occurred in the background. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError);

/** Returns the text of a result code. */
HCOMM_WEAK_SYMBOL const char *HcclGetErrorString(HcclResult code);

/** Suspends communication, so that a program can recover from a fault within a step. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommSuspend(HcclComm comm);

/** Registers a callback of the process for the destruction and the resuming of
 * communicators. Since 9.2.0. */
HcclResult HcclCommRegCommStateCallback(const char *regName, HcclCommStateCallback cb, void *args);

/** Resumes a communicator after it was suspended. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommResume(HcclComm comm);

/** Gets whether a communicator, given by its name, is ready, suspending or invalid. Since
 * 9.1.0. */
HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status);

/** Switches the listed ranks to their main or their backup network card. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommWorkingDevNicSet(
    HcclComm comm, uint32_t *ranks, bool *useBackup, uint32_t nRanks);

/* Configuration */

/** Sets an option of the process. The only option is determinism. */
HCOMM_WEAK_SYMBOL HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);

/** Gets an option of the process. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue);

/** Returns the number of configuration options that the library supports. */
HCOMM_WEAK_SYMBOL uint32_t HcclGetCommConfigCapability(void);

/** Copies a setting of a communicator into a buffer of the caller. Since 9.1.0. */
HcclResult HcclConfigGetInfo(HcclComm comm, HcclConfigType cfgType, uint32_t infoLen, void *info);

/* Collectives */

/** Queues a barrier of all ranks. */
HCOMM_WEAK_SYMBOL HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);

/* Group */

/** Begins a group, in which calls are queued. Since 9.0.0. */
HcclResult HcclGroupStart(void);

/** Ends a group, and launches the calls that were queued. Since 9.0.0. */
HcclResult HcclGroupEnd(void);

/** Gets whether the calling thread is inside a group. Since 9.2.0. */
HcclResult HcclGroupStatusGet(bool *isGroupEnabled);

/* Symmetric windows and user-managed memory */

/** Declares a reserved range of virtual addresses for collectives without copies. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommSetMemoryRange(
    HcclComm comm, void *baseVirPtr, size_t size, size_t alignment, uint64_t flags);

/** Ends the declaration of a range of virtual addresses. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *baseVirPtr);

/** Attaches physical memory to a part of the range. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommActivateCommMemory(
    HcclComm comm, void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
    uint64_t flags);

/** Detaches physical memory from the range. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr);

/** Registers a buffer as a symmetric window. All ranks must make this call. Since 9.0.0. */
HcclResult HcclCommSymWinRegister(
    HcclComm comm, void *addr, uint64_t size, HcclCommSymWindow *winHandle, uint32_t flag);

/** Ends the registration of a symmetric window. Since 9.0.0. */
HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle);

/** Gets the window that contains a range of memory, and the offset of the range in it.
 * Since 9.0.0. */
HcclResult HcclCommSymWinGet(
    HcclComm comm, void *ptr, size_t size, HcclCommSymWindow *winHandle, size_t *offset);

/** Prepares a communicator configuration in which nothing is set. Call this before
 * setting fields. */
static inline void HcclCommConfigInit(HcclCommConfig *config)
{
    /* The first 24 bytes: size_t size; uint32_t magic; uint32_t version; uint64_t reserved. */
    const struct {
        size_t size;
        uint32_t magic;
        uint32_t version;
        uint64_t reserved;
    } info = {sizeof(HcclCommConfig), HCCL_COMM_CONFIG_MAGIC_WORD, HCCL_COMM_CONFIG_VERSION, 0};

    if (config == NULL) {
        return;
    }
    memcpy(config->reserved, &info, sizeof(info));
    config->hcclBufferSize = HCCL_COMM_BUFFSIZE_CONFIG_NOT_SET;
    config->hcclDeterministic = HCCL_COMM_DETERMINISTIC_CONFIG_NOT_SET;
    config->hcclCommName[0] = '\0';
    config->hcclUdi[0] = '\0';
    config->hcclOpExpansionMode = HCCL_COMM_DEFAULT_OP_EXPANSION_MODE;
    config->hcclRdmaTrafficClass = HCCL_COMM_TRAFFIC_CLASS_CONFIG_NOT_SET;
    config->hcclRdmaServiceLevel = HCCL_COMM_SERVICE_LEVEL_CONFIG_NOT_SET;
    config->hcclWorldRankID = 0;
    config->hcclJobID = 0;
    config->aclGraphZeroCopyEnable = 0;
    config->hcclExecTimeOut = HCCL_COMM_EXECTIMEOUT_CONFIG_NOT_SET;
    config->hcclAlgo[0] = '\0';
    config->hcclRetryEnable[0] = '\0';
    config->hcclRetryParams[0] = '\0';
    config->hcclBufferName[0] = '\0';
    config->hcclQos = HCCL_COMM_QOS_CONFIG_NOT_SET;
    config->hcclSymWinMaxMemSizePerRank = HCCL_DEFAULT_SYMMETRIC_MEMORY_STRIDE;
    config->hcclChannelSqDepth = HCCL_COMM_SQ_DEPTH_CONFIG_NOT_SET;
}

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_COMM_H */
