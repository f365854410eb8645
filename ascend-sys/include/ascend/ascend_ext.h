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
    ASCEND_EXT_TIMELINE_SVG = 1,
    /** The text of a JSON file with all that was recorded, to be joined with what other processes recorded. Its form is no promise. */
    ASCEND_EXT_TIMELINE_RECORD = 2
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
    /** Memory of each device in bytes; 0 is what the product has, or less where the process has no addresses left for it. */
    uint64_t memoryBytes;
    /** For tests of kernels: chooses the order in which the units of a core, cores and servers go on. 0: the order of the kernel. */
    uint64_t kernelSeed;
    /** For tests of kernels: who does their work as late as the rules allow. A core and a line of the kernel, as "aiv 3:40", or
     * "server", NUL-terminated; "": nobody. */
    char kernelLate[32];
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

/** Why a communicator has failed. */
typedef enum AscendExtCommCause {
    /** It has not. */
    ASCEND_EXT_COMM_WELL = 0,
    /** The ranks called different things. */
    ASCEND_EXT_COMM_MISMATCH = 1,
    /** A rank did not come, or a notify was not recorded, within the time limit. */
    ASCEND_EXT_COMM_TIMEOUT = 2,
    /** Every rank waits for another one. */
    ASCEND_EXT_COMM_DEADLOCK = 3,
    /** A rank has left, has destroyed it, or has given up. */
    ASCEND_EXT_COMM_GONE = 4,
    /** A rank has aborted it. */
    ASCEND_EXT_COMM_ABORTED = 5
} AscendExtCommCause;

/** Where a rank is, as seen from a collective. */
typedef enum AscendExtPresence {
    /** It has come to it, or has gone on from it. */
    ASCEND_EXT_PRESENCE_ARRIVED = 1,
    /** It has not come, and may. */
    ASCEND_EXT_PRESENCE_MISSING = 2,
    /** It will not come. */
    ASCEND_EXT_PRESENCE_GONE = 3,
    /** It has no part in it. */
    ASCEND_EXT_PRESENCE_APART = 4
} AscendExtPresence;

/** Where a rank of a communicator is, and what it has called in the newest collective in which it was seen. */
typedef struct AscendExtRank {
    /** sizeof(AscendExtRank) */
    uint32_t size;
    AscendExtPresence presence;
    /** The number of that collective; 0 for none. */
    uint64_t number;
    /** Its function, NUL-terminated; empty for none. */
    char function[32];
    /** Its count; UINT64_MAX where it has none, or a table of them. */
    uint64_t count;
    /** Its data type (HcclDataType), or -1. */
    int32_t dataType;
    /** Its reduction (HcclReduceOp), or -1. */
    int32_t op;
    /** Its root, or -1. */
    int64_t root;
} AscendExtRank;

/* Optional entries */

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

/** Tells for which ranks of its communicator one of the stream's tasks from the ticket first to the ticket last waits: *count becomes how
 * many they are, and at most room of them are written. None when the stream is not at one of these, or it waits for something else. */
aclError ascendExtTaskPeers(aclrtStream stream, uint64_t first, uint64_t last, uint32_t *ranks, size_t room, size_t *count);

/** The calling thread says that it waits for other threads of the process, for patienceMs in all, and has found just now that it
 * still has to; with 0 that it goes on. So a wait outside of these functions counts when a deadlock is to be proven. */
aclError ascendExtThreadWaits(uint32_t patienceMs);

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

/** The program keeps this root info to the process that has made it: no rank of another process can come. So when no thread of the
 * process can bring a rank that is missing, that is a certain deadlock, and is told at once. */
HcclResult ascendExtRootInfoStays(const HcclRootInfo *rootInfo);

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

/** Tells why a communicator has failed, and in which collective; the number is 0 when it was in none. With NULL: why the
 * calling thread's last HcclCommInitRootInfo, HcclCommInitRootInfoConfig or HcclChannelAcquire did not meet the other ranks, or its
 * HcclCreateSubCommConfig did not agree with them. */
HcclResult ascendExtCommFailure(HcclComm comm, AscendExtCommCause *cause, uint64_t *number);

/** Tells where a rank is, as seen from a collective now; with number 0 as it was when the communicator failed, and
 * HCCL_E_NOT_FOUND when it has not, or had no such rank. text says why the rank is gone, what it has called to exchange messages with ranks that have not
 * answered, or its side of a disagreement; it is NUL-terminated and cut to textLen bytes. NULL with number 0: as for ascendExtCommFailure. */
HcclResult ascendExtCommRank(HcclComm comm, uint64_t number, uint32_t rank, AscendExtRank *state, char *text,
                             size_t textLen);

/** From now on texts call a communicator by this title, on all of its ranks; the first title counts. Its name, by which functions know
 * it, stays. */
HcclResult ascendExtCommTitle(HcclComm comm, const char *title);

/** From now on a collective of this rank with nothing to move (a count of zero, or a list of nothing but zeros) takes a number and
 * meets the other ranks like any other, so that a rank that makes such a call alone learns about it, and so do the others. Without this
 * the call returns at once, takes no number and meets nobody, as in CANN. To be called on all ranks, before their first collective. */
HcclResult ascendExtCommNumbersZeros(HcclComm comm);

/** What became of a call in the last group that this thread has ended: HcclGroupEnd itself returns success on A2 and A3,
 * whatever happens. Calls that were queued count from 0. *code is 0 for one that succeeded. The text is NUL-terminated and cut
 * to textLen bytes. HCCL_E_NOT_FOUND when the group had no such call. */
HcclResult ascendExtGroupResult(uint32_t index, HcclResult *code, char *text, size_t textLen);

#ifdef __cplusplus
}
#endif

#endif /* ASCEND_ASCEND_EXT_H */
