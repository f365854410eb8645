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

/** Reduce across ranks, every rank gets the result. */
HcclResult HcclAllReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream);

/** Root's buffer is copied to all ranks. */
HcclResult HcclBroadcast(
    void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
    aclrtStream stream);

/** Reduce, then each rank keeps its equal slice. */
HcclResult HcclReduceScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream);

/** Reduce-scatter with per-rank counts and displacements. */
HcclResult HcclReduceScatterV(
    void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf,
    uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm, aclrtStream stream);

/** Root splits its buffer evenly over ranks. */
HcclResult HcclScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
    HcclComm comm, aclrtStream stream);

/** Concatenate equal blocks from all ranks everywhere. */
HcclResult HcclAllGather(
    void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
    aclrtStream stream);

/** All-gather with per-rank counts and displacements. */
HcclResult HcclAllGatherV(
    void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts,
    const void *recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream);

/** All-to-all driven by a full rank-by-rank count matrix. */
HcclResult HcclAlltoAllVC(
    const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType, const void *recvBuf,
    HcclDataType recvType, HcclComm comm, aclrtStream stream);

/** All-to-all with per-peer counts and displacements. */
HcclResult HcclAlltoAllV(
    const void *sendBuf, const void *sendCounts, const void *sdispls, HcclDataType sendType,
    const void *recvBuf, const void *recvCounts, const void *rdispls, HcclDataType recvType,
    HcclComm comm, aclrtStream stream);

/** Every rank exchanges equal blocks with every rank. */
HcclResult HcclAlltoAll(
    const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
    uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream);

/** Reduce across ranks, only root gets result. */
HcclResult HcclReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    uint32_t root, HcclComm comm, aclrtStream stream);

/* Point to point */

/** Stream-ordered send to one rank. */
HcclResult HcclSend(
    void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
    aclrtStream stream);

/** Stream-ordered receive from one rank. */
HcclResult HcclRecv(
    void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
    aclrtStream stream);

/** Post several sends and receives as one operation. */
HcclResult HcclBatchSendRecv(
    HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif /* HCCL_HCCL_H */
