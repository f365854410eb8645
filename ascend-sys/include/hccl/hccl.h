/* HCCL: the collectives and point-to-point operations. Include this one. */
#ifndef HCCL_HCCL_H
#define HCCL_HCCL_H

#include <stdint.h>

#include "acl/acl.h"
#include "hccl/hccl_types.h"
#include "hccl/hccl_comm.h"
#include "acl/acl_base_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collectives */

/** Queues a reduction of the elements of all ranks, whose result every rank gets. */
HcclResult HcclAllReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream);

/** Queues a copy of the buffer of the root to all ranks. */
HcclResult HcclBroadcast(
    void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
    aclrtStream stream);

/** Queues a reduction of the elements of all ranks. Each rank gets one of the equal blocks
 * of the result. */
HcclResult HcclReduceScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream);

/** Queues a reduction of the elements of all ranks. Each rank gets one block of the result.
 * Each block has a count and a displacement. */
HcclResult HcclReduceScatterV(
    void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf,
    uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream);

/** Queues a copy of one of the equal blocks in the buffer of the root to each rank. */
HcclResult HcclScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
    HcclComm comm, aclrtStream stream);

/** Queues a gathering of equal blocks of all ranks, in order, on every rank. */
HcclResult HcclAllGather(
    void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
    aclrtStream stream);

/** Queues a gathering of a block of each rank, with a count and a displacement for each
 * block, on every rank. */
HcclResult HcclAllGatherV(
    void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts,
    const void *recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream);

/** Queues an exchange of blocks between all ranks. A matrix has the count of each pair of
 * ranks. */
HcclResult HcclAlltoAllVC(
    const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
    HcclDataType recvType, HcclComm comm, aclrtStream stream);

/** Queues an exchange of blocks between all ranks, with a count and a displacement for each
 * peer. */
HcclResult HcclAlltoAllV(
    const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
    const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType,
    HcclComm comm, aclrtStream stream);

/** Queues an exchange of equal blocks between all ranks. */
HcclResult HcclAlltoAll(
    const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
    uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream);

/** Queues a reduction of the elements of all ranks, whose result the root gets. */
HcclResult HcclReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    uint32_t root, HcclComm comm, aclrtStream stream);

/* Point to point */

/** Queues the sending of a message to one rank. */
HcclResult HcclSend(
    void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
    aclrtStream stream);

/** Queues the receiving of a message from one rank. */
HcclResult HcclRecv(
    void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
    aclrtStream stream);

/** Queues several sends and receives as one operation. */
HcclResult HcclBatchSendRecv(
    HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_H */
