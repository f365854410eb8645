/* HCCL: launching a communication kernel on the device's CPU. */
#ifndef HCCL_HCCL_LAUNCH_H
#define HCCL_HCCL_LAUNCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl_base_rt.h"
#include "hccl/hccl_types.h"
#include "hcomm/hcomm_res_defs.h"

/* These bound arrays. In C a const object is no constant expression, so there they are macros. */
#ifdef __cplusplus
static const uint32_t P2P_MAX_ARG_SIZE = 8192U;
static const uint32_t HCCL_OP_DESC_OP_NAME_MAX_LEN = 256U;
static const uint32_t HCCL_KERNEL_SO_NAME_MAX_LEN = 256U;
static const uint32_t HCCL_KERNEL_FUNC_NAME_MAX_LEN = 256U;
#else
#define P2P_MAX_ARG_SIZE 8192U
#define HCCL_OP_DESC_OP_NAME_MAX_LEN 256U
#define HCCL_KERNEL_SO_NAME_MAX_LEN 256U
#define HCCL_KERNEL_FUNC_NAME_MAX_LEN 256U
#endif

static const uint32_t HCCL_OPDESC_MAGIC_WORD = 0x0f0f0f0fU;
static const uint32_t HCCL_OPDESC_VERSION = 1U;
static const uint32_t HCCL_KERNEL_LAUNCH_CFG_MAGIC_WORD = 0x0f0f0f0fU;
static const uint32_t HCCL_KERNEL_LAUNCH_CFG_VERSION = 1U;

#ifdef __cplusplus
extern "C" {
#endif

/** The arguments of the kernel of a point-to-point operation. Since 9.2.0. */
typedef struct {
    ThreadHandle sendRecvThread;
    uint8_t opParams[P2P_MAX_ARG_SIZE];
} HcclP2pKernelParam;

/** A point-to-point operation. Since 9.2.0. */
typedef struct {
    void *buffer;
    uint8_t reserved[8];
    HcclCMDType cmdType;
    HcclDataType dataType;
    uint64_t count;
    uint32_t remoteRank;
    void *unfoldStream;
} HcclOpP2pDesc;

/** An operation for which a kernel is launched; see HcclOpDescInit. Since 9.2.0. */
typedef struct {
    CommAbiHeader header;
    uint32_t opDescType;
    char opName[HCCL_OP_DESC_OP_NAME_MAX_LEN];
    union {
        uint8_t raws[76];
        HcclOpP2pDesc p2p;
    };
} HcclOpDesc;

/** The library, the function and the arguments of a kernel. Since 9.2.0. */
typedef struct {
    char kernelSoName[HCCL_KERNEL_SO_NAME_MAX_LEN];
    char kernelFuncName[HCCL_KERNEL_FUNC_NAME_MAX_LEN];
    void *args;
    uint32_t argSize;
} HcclKernelFuncInfo;

/** The options of the launch of a kernel; see HcclKernelLaunchCfgInit. Since 9.2.0. */
typedef struct {
    CommAbiHeader header;
    uint64_t timeOut;
    uint8_t reserved[104];
} HcclKernelLaunchCfg;

/* Threads, engine contexts, kernel launch */

/** Queues an AI CPU kernel for a point-to-point operation inside a group. Since 9.2.0. */
HcclResult HcclAicpuKernelLaunch(
    HcclComm comm, const HcclOpDesc *opInfo, const HcclKernelFuncInfo *funcInfo,
    ThreadHandle aicpuThreadHandle, aclrtStream userStream,
    const HcclKernelLaunchCfg *kernelLaunchCfg);

/** Prepares an operator description: a valid header, followed by bytes of all ones. Since
 * 9.2.0. */
static inline HcclResult HcclOpDescInit(HcclOpDesc *opDesc)
{
    if (opDesc == NULL) {
        return HCCL_E_PTR;
    }
    memset(opDesc, 0xff, sizeof(*opDesc));
    opDesc->header.version = HCCL_OPDESC_VERSION;
    opDesc->header.magicWord = HCCL_OPDESC_MAGIC_WORD;
    opDesc->header.size = (uint32_t)sizeof(HcclOpDesc);
    opDesc->header.reserved = 0;
    return HCCL_SUCCESS;
}

/** Prepares a launch configuration: a valid header, followed by bytes of all ones. Since
 * 9.2.0. */
static inline HcclResult HcclKernelLaunchCfgInit(HcclKernelLaunchCfg *kernelLaunchCfg)
{
    if (kernelLaunchCfg == NULL) {
        return HCCL_E_PTR;
    }
    memset(kernelLaunchCfg, 0xff, sizeof(*kernelLaunchCfg));
    kernelLaunchCfg->header.version = HCCL_KERNEL_LAUNCH_CFG_VERSION;
    kernelLaunchCfg->header.magicWord = HCCL_KERNEL_LAUNCH_CFG_MAGIC_WORD;
    kernelLaunchCfg->header.size = (uint32_t)sizeof(HcclKernelLaunchCfg);
    kernelLaunchCfg->header.reserved = 0;
    return HCCL_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_LAUNCH_H */
