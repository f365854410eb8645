/* HCOMM: the data plane. Copies, reductions, notifies and remote accesses, enqueued on a thread. */
#ifndef HCOMM_HCOMM_PRIMITIVES_H
#define HCOMM_HCOMM_PRIMITIVES_H

#include <stdbool.h>
#include <stdint.h>

#include "hcomm/hcomm_res_defs.h"

#define HCOMM_TIMEOUT_FLOAT_TYPE 1

#ifdef __cplusplus
extern "C" {
#endif

/** The ways to combine elements, with the numbers of HcclReduceOp. */
typedef enum {
    HCOMM_REDUCE_SUM = 0,
    HCOMM_REDUCE_PROD = 1,
    HCOMM_REDUCE_MAX = 2,
    HCOMM_REDUCE_MIN = 3,
    HCOMM_REDUCE_RESERVED = 255
} HcommReduceOp;

/** The types of elements, with the numbers of HcclDataType. */
typedef enum {
    HCOMM_DATA_TYPE_INT8 = 0,
    HCOMM_DATA_TYPE_INT16 = 1,
    HCOMM_DATA_TYPE_INT32 = 2,
    HCOMM_DATA_TYPE_FP16 = 3,
    HCOMM_DATA_TYPE_FP32 = 4,
    HCOMM_DATA_TYPE_INT64 = 5,
    HCOMM_DATA_TYPE_UINT64 = 6,
    HCOMM_DATA_TYPE_UINT8 = 7,
    HCOMM_DATA_TYPE_UINT16 = 8,
    HCOMM_DATA_TYPE_UINT32 = 9,
    HCOMM_DATA_TYPE_FP64 = 10,
    HCOMM_DATA_TYPE_BFP16 = 11,
    HCOMM_DATA_TYPE_INT128 = 12,
    HCOMM_DATA_TYPE_HIF8 = 14,
    HCOMM_DATA_TYPE_FP8E4M3 = 15,
    HCOMM_DATA_TYPE_FP8E5M2 = 16,
    HCOMM_DATA_TYPE_FP8E8M0 = 17,
    HCOMM_DATA_TYPE_RESERVED = 255
} HcommDataType;

/** The kinds of items in a batch of transfers, which select the member of its union.
 * Since 9.2.0. */
typedef enum {
    HCOMM_TRANSFER_TYPE_INVALID = -1,
    HCOMM_TRANSFER_TYPE_WRITE = 0,
    HCOMM_TRANSFER_TYPE_WRITE_REDUCE = 1,
    HCOMM_TRANSFER_TYPE_WRITE_WITH_NOTIFY = 2,
    HCOMM_TRANSFER_TYPE_WRITE_REDUCE_WITH_NOTIFY = 3,
    HCOMM_TRANSFER_TYPE_READ = 4,
    HCOMM_TRANSFER_TYPE_READ_REDUCE = 5,
    HCOMM_TRANSFER_TYPE_NOTIFY_RECORD = 6
} HcommTransferType;

/** One item of a batch of transfers. Lengths are in bytes, counts in elements. Since 9.2.0. */
typedef struct {
    HcommTransferType transType;
    uint8_t reserved[4];
    union {
        uint8_t raws[56];
        struct {
            uint64_t len;
            void *dst;
            void *src;
        } write;
        struct {
            uint64_t len;
            void *dst;
            void *src;
        } read;
        struct {
            uint64_t count;
            void *dst;
            void *src;
            HcommReduceOp reduceOp;
            HcommDataType dataType;
        } reduce;
        struct {
            uint32_t notifyIdx;
        } notifyRecord;
        struct {
            uint64_t len;
            void *dst;
            void *src;
            uint32_t notifyIdx;
        } writeWithNotify;
        struct {
            uint64_t count;
            void *dst;
            void *src;
            HcommReduceOp reduceOp;
            HcommDataType dataType;
            uint32_t notifyIdx;
        } writeReduceWithNotify;
    } transferInfo;
} HcommBatchTransferDesc;

/* Primitives on a thread */

/** Queues a copy of bytes within local memory. */
int32_t HcommLocalCopyOnThread(ThreadHandle thread, void *dst, const void *src, uint64_t len);

/** Queues a reduction of local elements into the destination. */
int32_t HcommLocalReduceOnThread(
    ThreadHandle thread, void *dst, const void *src, uint64_t count, HcommDataType dataType,
    HcommReduceOp reduceOp);

/** Queues the record of a notify of another thread. */
int32_t HcommThreadNotifyRecordOnThread(
    ThreadHandle thread, ThreadHandle dstThread, uint32_t dstNotifyIdx);

/** Queues a wait for a notify of the thread, with a time limit. */
int32_t HcommThreadNotifyWaitOnThread(ThreadHandle thread, uint32_t notifyIdx, uint32_t timeOut);

/** Queues the record of a notify of the runtime (aclrtNotify), given by its number. */
int32_t HcommAclrtNotifyRecordOnThread(ThreadHandle thread, uint64_t dstNotifyId);

/** Queues a wait for a notify of the runtime (aclrtNotify), given by its number. */
int32_t HcommAclrtNotifyWaitOnThread(ThreadHandle thread, uint64_t notifyId, uint32_t timeOut);

/** Queues a write to the memory of the peer over a channel. */
int32_t HcommWriteOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Queues a reduction into the memory of the peer over a channel. */
int32_t HcommWriteReduceOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t count,
    HcommDataType dataType, HcommReduceOp reduceOp);

/** Queues a write to the memory of the peer, and then the record of a notify of the peer.
 * Since 9.0.0. */
int32_t HcommWriteWithNotifyOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len,
    uint32_t remoteNotifyIdx);

/** Queues a reduction into the memory of the peer, and then the record of a notify of the
 * peer. Since 9.0.0. */
int32_t HcommWriteReduceWithNotifyOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t count,
    HcommDataType dataType, HcommReduceOp reduceOp, uint32_t remoteNotifyIdx);

/** Queues a read from the memory of the peer over a channel. */
int32_t HcommReadOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Queues a read from the memory of the peer that reduces into local memory. */
int32_t HcommReadReduceOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t count,
    HcommDataType dataType, HcommReduceOp reduceOp);

/** Queues a write to the memory of the peer that does not block the thread. Since 9.0.0. */
int32_t HcommWriteNbiOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Writes to the memory of the peer without blocking, and without a thread. Since 9.0.0. */
int32_t HcommWriteNbi(ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Queues a write to the memory of the peer and the record of a notify, which do not block
 * the thread. Since 9.0.0. */
int32_t HcommWriteWithNotifyNbiOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len,
    uint32_t remoteNotifyIdx);

/** Writes to the memory of the peer and records a notify without blocking, and without a
 * thread. Since 9.0.0. */
int32_t HcommWriteWithNotifyNbi(
    ChannelHandle channel, void *dst, const void *src, uint64_t len, uint32_t remoteNotifyIdx);

/** Queues a read from the memory of the peer that does not block the thread. Since 9.0.0. */
int32_t HcommReadNbiOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Reads from the memory of the peer without blocking, and without a thread. Since 9.0.0. */
int32_t HcommReadNbi(ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Queues a list of transfers of different kinds. Since 9.2.0. */
int32_t HcommBatchTransferOnThread(
    ThreadHandle thread, ChannelHandle channel, const HcommBatchTransferDesc *transferDescs,
    uint32_t transferDescNum);

/** Queues the record of a notify of the peer on a channel. */
int32_t HcommChannelNotifyRecordOnThread(
    ThreadHandle thread, ChannelHandle channel, uint32_t remoteNotifyIdx);

/** Records a notify of the peer on a channel, without a thread. Since 9.0.0. */
int32_t HcommChannelNotifyRecord(ChannelHandle channel, uint32_t remoteNotifyIdx);

/** Queues a wait for a notify of a channel, with a time limit. */
int32_t HcommChannelNotifyWaitOnThread(
    ThreadHandle thread, ChannelHandle channel, uint32_t localNotifyIdx, uint32_t timeOut);

/** Waits for a notify of a channel, without a thread. Since 9.0.0. */
int32_t HcommChannelNotifyWait(ChannelHandle channel, uint32_t localNotifyIdx, uint32_t timeOut);

/** Gets whether a recorded list of tasks is cached under a tag. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheLookup(const char *tag, bool *isHit);

/** Begins to record tasks under a tag. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheStart(
    const char *tag, void **addrs, uint64_t *sizes, uint64_t count);

/** Ends the recording of tasks. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheEnd(const char *tag);

/** Executes the recorded tasks with new addresses. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheExecute(
    const char *tag, void **addrs, uint64_t *sizes, uint64_t count);

/** Removes a recorded list of tasks. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheClear(const char *tag);

/** Begins to collect tasks, which are submitted together. */
int32_t HcommBatchModeStart(const char *batchTag);

/** Submits the tasks that were collected since HcommBatchModeStart. */
int32_t HcommBatchModeEnd(const char *batchTag);

/** Locks a communicator by its name (AI CPU). */
int32_t HcommAcquireComm(const char *commId);

/** Unlocks a communicator by its name (AI CPU). */
int32_t HcommReleaseComm(const char *commId);

/** Orders the earlier transfers of a thread before the later ones. Since 9.0.0. */
int32_t HcommFenceOnThread(ThreadHandle thread);

/** Orders the earlier transfers of one channel before the later ones. Since 9.0.0. */
int32_t HcommChannelFenceOnThread(ThreadHandle thread, ChannelHandle channel);

/** Orders the earlier transfers of one channel before the later ones, without a thread.
 * Since 9.1.0. */
int32_t HcommChannelFence(ChannelHandle channel);

/** Sets the default time limit of waits for notifies in seconds (AI CPU). Since 9.2.0. */
int32_t HcommSetNotifyWaitTimeOut(float timeOut);

/** Sets the time limit for acquiring threads in seconds (AI CPU). Since 9.2.0. */
int32_t HcommThreadResAcquireTimeOut(float timeOut);

/** Queues a wait for a notify of a channel, with the default time limit of the library.
 * Since 9.2.0. */
int32_t HcommChannelNotifyWaitOnThreadWithDefaultTimeout(
    ThreadHandle thread, ChannelHandle channel, uint32_t localNotifyIdx);

/** Queues a wait for a notify of the thread, with the default time limit of the library.
 * Since 9.2.0. */
int32_t HcommThreadNotifyWaitOnThreadWithDefaultTimeout(ThreadHandle thread, uint32_t notifyIdx);

/** Blocks until the work of a channel is complete. Since 9.2.0. */
int32_t HcommChannelDrainOnThread(ThreadHandle thread, ChannelHandle channel);

#ifdef __cplusplus
}
#endif

#endif /* HCOMM_HCOMM_PRIMITIVES_H */
