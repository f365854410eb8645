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

/** Where operations are made into tasks, as HcclConfigGetInfo tells. HcclCommConfig numbers them
 * otherwise. Since 9.1.0. */
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

/** What HcclConfigGetInfo can be asked for. Since 9.1.0. */
typedef enum {
    HCCL_CONFIG_TYPE_INVALID = -1,
    HCCL_CONFIG_TYPE_OP_EXPANSION_MODE = 0,
    HCCL_CONFIG_TYPE_HCCL_ALGO = 1
} HcclConfigType;

/** The type of the answer for HCCL_CONFIG_TYPE_OP_EXPANSION_MODE. */
typedef HcclOpExpansionMode HcclConfigTypeOpExpansionMode;

/** Called when the state of a communicator changes. */
typedef HcclResult (*HcclCommStateCallback)(HcclComm comm, HcclCommStatePhase state, void *args);

/* Communicator lifecycle */

/** Join a communicator described by a rank-table JSON file. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitClusterInfo(
    const char *clusterInfo, uint32_t rank, HcclComm *comm);

/** Rank-table join with per-communicator options. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitClusterInfoConfig(
    const char *clusterInfo, uint32_t rank, HcclCommConfig *config, HcclComm *comm);

/** Carve a sub-communicator from ranks of a parent. */
HCOMM_WEAK_SYMBOL HcclResult HcclCreateSubCommConfig(
    HcclComm *comm, uint32_t rankNum, uint32_t *rankIds, uint64_t subCommId,
    uint32_t subCommRankId, HcclCommConfig *config, HcclComm *subComm);

/** Root rank fills the bootstrap blob every rank will share. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetRootInfo(HcclRootInfo *rootInfo);

/** Join a communicator using the shared bootstrap blob. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitRootInfo(
    uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, HcclComm *comm);

/** Same as rootinfo join, plus per-communicator options. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitRootInfoConfig(
    uint32_t nRanks, const HcclRootInfo *rootInfo, uint32_t rank, const HcclCommConfig *config,
    HcclComm *comm);

/** Copy the communicator name into a 128-byte buffer. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetCommName(HcclComm comm, char *commName);

/** Look up a communicator handle by its name. Since 9.0.0. */
HcclResult HcclCommGetHandleWithName(const char *commName, HcclComm *comm);

/** Number of ranks in the communicator. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetRankSize(HcclComm comm, uint32_t *rankSize);

/** This caller's rank inside the communicator. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetRankId(HcclComm comm, uint32_t *rank);

/** Tear down a communicator and release its resources. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommDestroy(HcclComm comm);

/** One process creates communicators for several local devices. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommInitAll(uint32_t ndev, int32_t *devices, HcclComm *comms);

/** Poll for an error raised in the background. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetCommAsyncError(HcclComm comm, HcclResult *asyncError);

/** Human-readable text for a result code. */
HCOMM_WEAK_SYMBOL const char *HcclGetErrorString(HcclResult code);

/** Pause communication for step-level fault recovery. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommSuspend(HcclComm comm);

/** Process-wide hook around destroy and resume phases. Since 9.2.0. */
HcclResult HcclCommRegCommStateCallback(const char *regName, HcclCommStateCallback cb, void *args);

/** Rebuild and continue after a suspend. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommResume(HcclComm comm);

/** Query ready/suspending/invalid state by communicator name. Since 9.1.0. */
HcclResult HcclCommGetStatus(const char *commId, HcclCommStatus *status);

/** Switch listed ranks between primary and backup NIC. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommWorkingDevNicSet(
    HcclComm comm, uint32_t *ranks, bool *useBackup, uint32_t nRanks);

/* Configuration */

/** Process-wide option setter (determinism only). */
HCOMM_WEAK_SYMBOL HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);

/** Read back the process-wide option. */
HCOMM_WEAK_SYMBOL HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue *configValue);

/** Count of config capability indexes the library understands. */
HCOMM_WEAK_SYMBOL uint32_t HcclGetCommConfigCapability(void);

/** Read a resolved communicator setting into caller's buffer. Since 9.1.0. */
HcclResult HcclConfigGetInfo(HcclComm comm, HcclConfigType cfgType, uint32_t infoLen, void *info);

/* Collectives */

/** Stream-ordered barrier across all ranks. */
HCOMM_WEAK_SYMBOL HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);

/* Group */

/** Open a batch; following calls are queued. Since 9.0.0. */
HcclResult HcclGroupStart(void);

/** Close the batch and launch queued calls. Since 9.0.0. */
HcclResult HcclGroupEnd(void);

/** Is the calling thread inside a batch. Since 9.2.0. */
HcclResult HcclGroupStatusGet(bool *isGroupEnabled);

/* Symmetric windows and user-managed memory */

/** Declare reserved virtual range used for zero-copy collectives. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommSetMemoryRange(
    HcclComm comm, void *baseVirPtr, size_t size, size_t alignment, uint64_t flags);

/** Forget a declared virtual range. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommUnsetMemoryRange(HcclComm comm, void *baseVirPtr);

/** Attach physical memory to part of the range. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommActivateCommMemory(
    HcclComm comm, void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
    uint64_t flags);

/** Detach physical memory from the range. */
HCOMM_WEAK_SYMBOL HcclResult HcclCommDeactivateCommMemory(HcclComm comm, void *virPtr);

/** Collectively register a buffer as symmetric window. Since 9.0.0. */
HcclResult HcclCommSymWinRegister(
    HcclComm comm, void *addr, uint64_t size, HcclCommSymWindow *winHandle, uint32_t flag);

/** Drop a symmetric window registration. Since 9.0.0. */
HcclResult HcclCommSymWinDeregister(HcclCommSymWindow winHandle);

/** Find window and offset covering a pointer range. Since 9.0.0. */
HcclResult HcclCommSymWinGet(
    HcclComm comm, void *ptr, size_t size, HcclCommSymWindow *winHandle, size_t *offset);

/** Prepares a communicator configuration in which nothing is set. Call it before setting fields. */
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
