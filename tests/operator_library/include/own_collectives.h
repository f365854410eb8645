// A library of two collectives, made of CANN's resource interface: threads, channels, notifies,
// engine contexts, and a kernel for the AI CPU.
#ifndef OWN_COLLECTIVES_H
#define OWN_COLLECTIVES_H

#include <stdint.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The sum, maximum or minimum of `count` elements of every rank, to every rank. In place if both
    buffers are the same. Enqueued on `stream`; the first call of a communicator waits for all
    ranks. */
HcclResult OwnAllReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream);

/** `recvCount` elements from the root to each rank: block r of the root's `sendBuf` to rank r. On
    other ranks `sendBuf` may be NULL. */
HcclResult OwnScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
    HcclComm comm, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif // OWN_COLLECTIVES_H
