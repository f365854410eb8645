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

/** How elements are combined; the numbers of HcclReduceOp. */
typedef enum {
    HCOMM_REDUCE_SUM = 0,
    HCOMM_REDUCE_PROD = 1,
    HCOMM_REDUCE_MAX = 2,
    HCOMM_REDUCE_MIN = 3,
    HCOMM_REDUCE_RESERVED = 255
} HcommReduceOp;

/** Types of elements; the numbers of HcclDataType. */
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

/** Kinds of items in a batch of transfers, and members of its union. Since 9.2.0. */
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

/** Local byte copy. */
int32_t HcommLocalCopyOnThread(ThreadHandle thread, void *dst, const void *src, uint64_t len);

/** Local element-wise reduce into destination. */
int32_t HcommLocalReduceOnThread(
    ThreadHandle thread, void *dst, const void *src, uint64_t count, HcommDataType dataType,
    HcommReduceOp reduceOp);

/** Signal another thread's notify slot. */
int32_t HcommThreadNotifyRecordOnThread(
    ThreadHandle thread, ThreadHandle dstThread, uint32_t dstNotifyIdx);

/** Wait on own notify slot with timeout. */
int32_t HcommThreadNotifyWaitOnThread(ThreadHandle thread, uint32_t notifyIdx, uint32_t timeOut);

/** Signal an aclrt notify by id. */
int32_t HcommAclrtNotifyRecordOnThread(ThreadHandle thread, uint64_t dstNotifyId);

/** Wait for an aclrt notify by id. */
int32_t HcommAclrtNotifyWaitOnThread(ThreadHandle thread, uint64_t notifyId, uint32_t timeOut);

/** One-sided put over a channel. */
int32_t HcommWriteOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Put with reduction at the destination. */
int32_t HcommWriteReduceOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t count,
    HcommDataType dataType, HcommReduceOp reduceOp);

/** Put then signal remote notify. Since 9.0.0. */
int32_t HcommWriteWithNotifyOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len,
    uint32_t remoteNotifyIdx);

/** Reducing put then remote signal. Since 9.0.0. */
int32_t HcommWriteReduceWithNotifyOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t count,
    HcommDataType dataType, HcommReduceOp reduceOp, uint32_t remoteNotifyIdx);

/** One-sided get over a channel. */
int32_t HcommReadOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Get with reduction into local memory. */
int32_t HcommReadReduceOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t count,
    HcommDataType dataType, HcommReduceOp reduceOp);

/** Non-blocking put on a thread. Since 9.0.0. */
int32_t HcommWriteNbiOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Non-blocking put without thread. Since 9.0.0. */
int32_t HcommWriteNbi(ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Non-blocking put plus signal on a thread. Since 9.0.0. */
int32_t HcommWriteWithNotifyNbiOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len,
    uint32_t remoteNotifyIdx);

/** Non-blocking put plus signal without thread. Since 9.0.0. */
int32_t HcommWriteWithNotifyNbi(
    ChannelHandle channel, void *dst, const void *src, uint64_t len, uint32_t remoteNotifyIdx);

/** Non-blocking get on a thread. Since 9.0.0. */
int32_t HcommReadNbiOnThread(
    ThreadHandle thread, ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Non-blocking get without thread. Since 9.0.0. */
int32_t HcommReadNbi(ChannelHandle channel, void *dst, const void *src, uint64_t len);

/** Run an array of mixed transfer descriptors. Since 9.2.0. */
int32_t HcommBatchTransferOnThread(
    ThreadHandle thread, ChannelHandle channel, const HcommBatchTransferDesc *transferDescs,
    uint32_t transferDescNum);

/** Signal peer's notify on a channel. */
int32_t HcommChannelNotifyRecordOnThread(
    ThreadHandle thread, ChannelHandle channel, uint32_t remoteNotifyIdx);

/** Signal peer's notify without thread. Since 9.0.0. */
int32_t HcommChannelNotifyRecord(ChannelHandle channel, uint32_t remoteNotifyIdx);

/** Wait for a channel notify with timeout. */
int32_t HcommChannelNotifyWaitOnThread(
    ThreadHandle thread, ChannelHandle channel, uint32_t localNotifyIdx, uint32_t timeOut);

/** Wait for a channel notify without thread. Since 9.0.0. */
int32_t HcommChannelNotifyWait(ChannelHandle channel, uint32_t localNotifyIdx, uint32_t timeOut);

/** Is a recorded task list cached under tag. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheLookup(const char *tag, bool *isHit);

/** Begin recording tasks for a tag. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheStart(
    const char *tag, void **addrs, uint64_t *sizes, uint64_t count);

/** Stop recording. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheEnd(const char *tag);

/** Replay recorded tasks with new addresses. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheExecute(
    const char *tag, void **addrs, uint64_t *sizes, uint64_t count);

/** Drop a recorded task list. Since 9.2.0. */
HcommResult HcommAicpuTsTaskCacheClear(const char *tag);

/** Start gathering tasks for one submission. */
int32_t HcommBatchModeStart(const char *batchTag);

/** Submit the tasks gathered since HcommBatchModeStart. */
int32_t HcommBatchModeEnd(const char *batchTag);

/** Lock a communicator by name (AICPU). */
int32_t HcommAcquireComm(const char *commId);

/** Unlock that communicator. */
int32_t HcommReleaseComm(const char *commId);

/** Order earlier transfers of a thread. Since 9.0.0. */
int32_t HcommFenceOnThread(ThreadHandle thread);

/** Order earlier transfers of one channel. Since 9.0.0. */
int32_t HcommChannelFenceOnThread(ThreadHandle thread, ChannelHandle channel);

/** Channel ordering without thread. Since 9.1.0. */
int32_t HcommChannelFence(ChannelHandle channel);

/** Set default notify timeout in seconds (AICPU). Since 9.2.0. */
int32_t HcommSetNotifyWaitTimeOut(float timeOut);

/** Set thread acquisition timeout in seconds (AICPU). Since 9.2.0. */
int32_t HcommThreadResAcquireTimeOut(float timeOut);

/** Channel notify wait with library timeout. Since 9.2.0. */
int32_t HcommChannelNotifyWaitOnThreadWithDefaultTimeout(
    ThreadHandle thread, ChannelHandle channel, uint32_t localNotifyIdx);

/** Same wait using the library timeout. Since 9.2.0. */
int32_t HcommThreadNotifyWaitOnThreadWithDefaultTimeout(ThreadHandle thread, uint32_t notifyIdx);

/** Block until a channel's work completed. Since 9.2.0. */
int32_t HcommChannelDrainOnThread(ThreadHandle thread, ChannelHandle channel);

#ifdef __cplusplus
}
#endif

#endif /* HCOMM_HCOMM_PRIMITIVES_H */
