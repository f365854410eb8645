/* Optional entries beside CANN's. A backend may have none of them: ask for each, never for the backend. */
#ifndef ASCEND_ASCEND_EXT_H
#define ASCEND_ASCEND_EXT_H

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"
#include "hccl/hccl_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How far a stream is. One cache line per stream, written by the backend, read with atomic (acquire) loads.
 * The line stays mapped for the life of the process. Another stream may have it later: then the numbers in it go on from where
 * they stand, so that a line and a ticket name a task for ever. 64 bytes, 64-byte aligned. */
typedef struct AscendExtProgress {
    /** Ticket of the last task that entered the stream; tickets count from 1. */
    uint64_t submitted __attribute__((aligned(64)));
    /** Every task with ticket <= completed is finished and touches no memory any more. */
    uint64_t completed;
    /** How many tasks of this stream have failed so far. */
    uint64_t failed;
    /** Unused. */
    uint64_t reserved[5];
} AscendExtProgress;

/** What a device pretends to be. */
typedef enum AscendExtProduct {
    ASCEND_EXT_PRODUCT_A2 = 2,
    ASCEND_EXT_PRODUCT_A3 = 3,
    ASCEND_EXT_PRODUCT_ASCEND950 = 950
} AscendExtProduct;

/** What a block watches for. */
typedef enum AscendExtCheck {
    ASCEND_EXT_CHECK_NOTHING = 0,
    /** Accesses to memory that nothing orders, and what is akin to them. */
    ASCEND_EXT_CHECK_RACES = 1
} AscendExtCheck;

/** In which form a finding is told. */
typedef enum AscendExtFindingForm {
    ASCEND_EXT_FINDING_TEXT = 0,
    /** A picture, as the text of an SVG file. */
    ASCEND_EXT_FINDING_SVG = 1
} AscendExtFindingForm;

/** In which form a timeline is told. */
typedef enum AscendExtTimelineForm {
    /** Chrome's trace event format (JSON), which Perfetto reads. */
    ASCEND_EXT_TIMELINE_TRACE = 0,
    /** A picture, as the text of an SVG file. */
    ASCEND_EXT_TIMELINE_SVG = 1
} AscendExtTimelineForm;

/** What a block of virtual devices is made of. */
typedef struct AscendExtBlockConfig {
    /** sizeof(AscendExtBlockConfig) */
    uint32_t size;
    /** How many devices: 1 to 4096. */
    uint32_t deviceCount;
    /** A value of AscendExtProduct. */
    uint32_t product;
    /** How long ranks wait for one another when they connect, in milliseconds; 0 is CANN's default (120 s). */
    uint32_t connectTimeoutMs;
    /** How long an operation may take, in milliseconds; 0 is CANN's default (1836 s). */
    uint32_t execTimeoutMs;
    /** A value of AscendExtCheck. */
    uint32_t check;
    /** Memory of each device in bytes; 0 is what the product has. */
    uint64_t memoryBytes;
} AscendExtBlockConfig;

/** What goes wrong on a device that is told to fail. Operations and allocations count from 1, from the moment when the fault
 * was asked for. */
typedef enum AscendExtFaultKind {
    /** The operation begins later by the given milliseconds. Number 0: every operation. */
    ASCEND_EXT_FAULT_DELAY = 1,
    /** From this operation on the device's streams make no progress. Number 0: from the next on. */
    ASCEND_EXT_FAULT_STOP = 2,
    /** With this operation the rank is gone, as if its process had died: its communicators are invalid handles, and its peers
     * learn of it. Number 0: with the next. */
    ASCEND_EXT_FAULT_LEAVE = 3,
    /** The operation is issued with one element less than the caller says, if it has a count. Number 0: every operation. */
    ASCEND_EXT_FAULT_WRONG_COUNT = 4,
    /** From this allocation on the device has no memory left. Number 0: from the next on. */
    ASCEND_EXT_FAULT_OUT_OF_MEMORY = 5,
    /** The operation reaches none of the peers that it has to meet, if it has to. Number 0: the next that has to. */
    ASCEND_EXT_FAULT_LINK_TIMEOUT = 6
} AscendExtFaultKind;

/** A fault that a device is told to have. */
typedef struct AscendExtFault {
    /** sizeof(AscendExtFault) */
    uint32_t size;
    /** A value of AscendExtFaultKind. */
    uint32_t kind;
    /** Which device of the block, from 0. */
    uint32_t device;
    /** The length of a delay. */
    uint32_t milliseconds;
    /** Which operation or allocation of the device. */
    uint64_t number;
} AscendExtFault;

/** Gives the address of the stream's progress line, or NULL when the backend wants to be asked by calls how far this stream
 * is: where it watches for races, it counts as known only what a call has told. */
aclError ascendExtStreamProgress(aclrtStream stream, const AscendExtProgress **progress);

/** Tells whether the task with this ticket failed: *code is 0 when it did not, or when that is forgotten (the last
 * 64 failures are kept). The text is NUL-terminated and cut to textLen bytes. */
aclError ascendExtStreamFailure(aclrtStream stream, uint64_t ticket, aclError *code, char *text, size_t textLen);

/** Blocks until some task of any stream completes after the moment *activity was read, or timeoutMs passed, and
 * then stores the new counter. The thread helps to run tasks. *activity is 0 at first. */
aclError ascendExtAwaitActivity(uint64_t *activity, uint32_t timeoutMs);

/** Blocks until the stream's task with this ticket is complete, however it ended. When timeoutMs passed first the answer is
 * ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, and aclGetRecentErrMsg says what the stream waits for. The thread helps to run tasks. patienceMs is how long the caller means to wait in all: who waits in slices, to look up
 * between them, says so with it, and then counts as waiting all that time when a deadlock is to be proven. */
aclError ascendExtAwaitTask(aclrtStream stream, uint64_t ticket, uint32_t timeoutMs, uint32_t patienceMs);

/** From now on the calling thread issues for another one, which has the number thread, until it is called with 0: when a
 * deadlock is to be proven, what it issues counts as that thread's. *before is the number of the calling thread itself, 0
 * when it never had a device. */
aclError ascendExtIssueFor(uint32_t thread, uint32_t *before);

/** Takes deviceCount fresh devices; their ids are *firstDevice to *firstDevice + deviceCount - 1. */
aclError ascendExtBlockCreate(const AscendExtBlockConfig *config, uint32_t *block, int32_t *firstDevice);

/** Gives the devices back. Streams, memory and communicators of the block become invalid handles and queued tasks
 * fail. Waits for running tasks only. */
aclError ascendExtBlockDestroy(uint32_t block);

/** How many findings a block has that watches for something; 0 for one that does not. Findings are never taken back. */
aclError ascendExtFindings(uint32_t block, uint32_t *count);

/** Tells one finding, counted from 0. The text is NUL-terminated and cut to textLen bytes; *length is what it takes without the
 * NUL. text may be NULL with a textLen of 0. */
aclError ascendExtFinding(uint32_t block, uint32_t index, AscendExtFindingForm form, char *text, size_t textLen,
                          size_t *length);

/** The host reads (write is 0) or writes these bytes of pinned memory by itself now, in no call. Only matters where a block
 * watches for races. */
aclError ascendExtHostAccess(const void *ptr, size_t bytes, int32_t write);
/** Begins (on is 1) or ends (on is 0) to record what the cores of kernels and the communication servers of a block do, and what moves
 * between its devices. What is recorded stays until the block records anew; kernels that run when recording ends are not in it. An error
 * when it records already, or does not. */
aclError ascendExtTimelineRecord(uint32_t block, int32_t on);

/** Tells what was recorded last, when that has ended. The text is NUL-terminated and cut to textLen bytes; *length is what it takes
 * without the NUL. text may be NULL with a textLen of 0. */
aclError ascendExtTimeline(uint32_t block, AscendExtTimelineForm form, char *text, size_t textLen, size_t *length);

/** Has a device of a block fail. A device can have several faults. Block 0 is the one that C programs see. */
aclError ascendExtFaultSet(uint32_t block, const AscendExtFault *fault);

/** Ends the faults of a device of a block. What has stopped goes on; what has left does not come back. */
aclError ascendExtFaultClear(uint32_t block, uint32_t device);

/** Tells all peers that this rank of the communicator that rootInfo describes is gone: what waits for it (also while
 * a communicator is made) fails at once, with the reason in the text. */
HcclResult ascendExtRankLeave(const HcclRootInfo *rootInfo, uint32_t rank, const char *reason);

/** For this call and the next one a handle that is not alive is an error, and nothing happens.
 * Tells all peers of a communicator, however it was made, that this rank issues nothing any more: what waits for more of it
 * fails at once, with the reason in the text. The communicator stays, until it is destroyed. */
HcclResult ascendExtCommLeave(HcclComm comm, const char *reason);

/** Ends a communicator for all its ranks, and those that were made of it: what is in flight fails, and the text says which
 * rank has ended which communicator. It stays, until it is destroyed. */
HcclResult ascendExtCommAbort(HcclComm comm);

/** What became of a call in the last group that this thread has ended: HcclGroupEnd itself returns success on A2 and A3,
 * whatever happens. Calls that were queued count from 0. *code is 0 for one that succeeded. The text is NUL-terminated and cut
 * to textLen bytes. HCCL_E_NOT_FOUND when the group had no such call. */
HcclResult ascendExtGroupResult(uint32_t index, HcclResult *code, char *text, size_t textLen);

#ifdef __cplusplus
}
#endif

#endif /* ASCEND_ASCEND_EXT_H */
