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

/** The stream behind a thread. */
typedef aclrtStream ThreadResTypeStream;

/** Threads that a communicator keeps for a purpose of its own. Since 9.2.0. */
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

/** Address and size of the communicator's internal buffer. */
HcclResult HcclGetHcclBuffer(HcclComm comm, void **buffer, uint64_t *size);

/** Same internal buffer, guaranteed zero-filled. Since 9.2.0. */
HcclResult HcclGetHcclBufferCleared(HcclComm comm, void **buffer, uint64_t *size);

/** Register tagged memory for exchange through channels. Since 9.0.0. */
HcclResult HcclCommMemReg(
    HcclComm comm, const char *memTag, const CommMem *mem, HcclMemHandle *memHandle);

/* Threads, engine contexts, kernel launch */

/** Get engine execution threads with notify slots. */
HcclResult HcclThreadAcquire(
    HcclComm comm, CommEngine engine, uint32_t threadNum, uint32_t notifyNumPerThread,
    ThreadHandle *threads);

/** Get threads described by ThreadConfig array. Since 9.2.0. */
HcclResult HcclThreadAcquireWithConfig(
    HcclComm comm, CommEngine engine, uint32_t threadNum, ThreadType type,
    const ThreadConfig *config, ThreadHandle *threads);

/** Wrap an existing stream as an engine thread. */
HcclResult HcclThreadAcquireWithStream(
    HcclComm comm, CommEngine engine, aclrtStream stream, uint32_t notifyNum,
    ThreadHandle *thread);

/** Get or create the shared special-purpose thread. Since 9.2.0. */
HcclResult HcclDedicatedThreadAcquire(
    HcclComm comm, HcclDedicatedThreadType useType, uint32_t notifyNumPerThread,
    ThreadHandle *thread);

/** Allocate a tagged context block for an engine. */
HcclResult HcclEngineCtxCreate(
    HcclComm comm, const char *ctxTag, CommEngine engine, uint64_t size, void **ctx);

/** Find a tagged engine context block. */
HcclResult HcclEngineCtxGet(
    HcclComm comm, const char *ctxTag, CommEngine engine, void **ctx, uint64_t *size);

/** Copy bytes into a tagged engine context. */
HcclResult HcclEngineCtxCopy(
    HcclComm comm, CommEngine engine, const char *ctxTag, const void *srcCtx, uint64_t size,
    uint64_t dstCtxOffset);

/** Release a tagged engine context. Since 9.0.0. */
HcclResult HcclEngineCtxDestroy(HcclComm comm, const char *ctxTag, CommEngine engine);

/** Fetch what backs a thread, for instance its stream. Since 9.1.0. */
HcclResult HcclThreadResGetInfo(
    HcclComm comm, ThreadHandle thread, ThreadResType resType, uint32_t infoLen, void **info);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_RES_H */
