/* HCCL: threads, engine contexts and buffers for communication operators of one's own. */
#ifndef HCCL_HCCL_RES_H
#define HCCL_HCCL_RES_H

#include <stdint.h>

#include "hcomm/hcomm_res_defs.h"
#include "hccl/hccl_types.h"
#include "hccl/hccl_channel.h"
#include "acl/acl_base_rt.h"

/* These bound arrays. In C a const object is no constant expression, so there they are macros. */
#ifdef __cplusplus
static const uint32_t HCCL_RES_TAG_MAX_LEN = 255U;
#else
#define HCCL_RES_TAG_MAX_LEN 255U
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** The stream on which a thread runs. */
typedef aclrtStream ThreadResTypeStream;

/** The purposes of the threads that a communicator keeps for itself. Since 9.2.0. */
typedef enum {
    HCCL_DED_THREAD_TYPE_INVALID = -1,
    HCCL_DED_THREAD_TYPE_AICPU_LAUNCH = 0,
    HCCL_DED_THREAD_TYPE_AICPU_LAUNCH_GE = 1,
    HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_OPBASE = 2,
    HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_ACLGRAPH = 3,
    HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_GE = 4,
    HCCL_DED_THREAD_TYPE_AICPU_ORDER_LAUNCH_DEVICE = 5
} HcclDedicatedThreadType;

/* Symmetric windows and user-managed memory */

/** Gets the address and the size of the internal buffer of the communicator. */
HcclResult HcclGetHcclBuffer(HcclComm comm, void **buffer, uint64_t *size);

/** Fills the internal buffer of the communicator with zeros, and gets its address and size.
 * Since 9.2.0. */
HcclResult HcclGetHcclBufferCleared(HcclComm comm, void **buffer, uint64_t *size);

/** Registers memory with a tag, so that channels can exchange it. Since 9.0.0. */
HcclResult HcclCommMemReg(
    HcclComm comm, const char *memTag, const CommMem *mem, HcclMemHandle *memHandle);

/* Threads, engine contexts, kernel launch */

/** Acquires threads of an engine, with notifies. */
HcclResult HcclThreadAcquire(
    HcclComm comm, CommEngine engine, uint32_t threadNum, uint32_t notifyNumPerThread,
    ThreadHandle *threads);

/** Acquires threads that an array of ThreadConfig describes. Since 9.2.0. */
HcclResult HcclThreadAcquireWithConfig(
    HcclComm comm, CommEngine engine, uint32_t threadNum, ThreadType type,
    const ThreadConfig *config, ThreadHandle *threads);

/** Acquires a thread that runs on an existing stream. */
HcclResult HcclThreadAcquireWithStream(
    HcclComm comm, CommEngine engine, aclrtStream stream, uint32_t notifyNum,
    ThreadHandle *thread);

/** Acquires the shared thread for a special purpose, and creates it if necessary. Since
 * 9.2.0. */
HcclResult HcclDedicatedThreadAcquire(
    HcclComm comm, HcclDedicatedThreadType useType, uint32_t notifyNumPerThread,
    ThreadHandle *thread);

/** Allocates a context with a tag for an engine. */
HcclResult HcclEngineCtxCreate(
    HcclComm comm, const char *ctxTag, CommEngine engine, uint64_t size, void **ctx);

/** Gets the context of an engine by its tag. */
HcclResult HcclEngineCtxGet(
    HcclComm comm, const char *ctxTag, CommEngine engine, void **ctx, uint64_t *size);

/** Copies bytes into the context with a tag. */
HcclResult HcclEngineCtxCopy(
    HcclComm comm, CommEngine engine, const char *ctxTag, const void *srcCtx, uint64_t size,
    uint64_t dstCtxOffset);

/** Destroys the context with a tag. Since 9.0.0. */
HcclResult HcclEngineCtxDestroy(HcclComm comm, const char *ctxTag, CommEngine engine);

/** Gets a resource of a thread, for instance its stream. Since 9.1.0. */
HcclResult HcclThreadResGetInfo(
    HcclComm comm, ThreadHandle thread, ThreadResType resType, uint32_t infoLen, void **info);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_RES_H */
