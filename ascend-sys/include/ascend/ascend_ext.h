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

/** The progress of a stream. There is one cache line per stream, with 64 bytes and an
 * alignment of 64 bytes. The backend writes it, and it is read with atomic (acquire)
 * loads. The line stays mapped until the process ends. A later stream may use the same
 * line. The numbers in it then continue from their old values, so a line and a ticket
 * always identify one task. */
typedef struct AscendExtProgress {
    /** The ticket of the last task that was queued in the stream. Tickets count from 1. */
    uint64_t submitted __attribute__((aligned(64)));
    /** The ticket of the last complete task: every task with ticket <= completed is complete,
     * and accesses no memory any more. */
    uint64_t completed;
    /** The number of tasks of this stream that have failed so far. */
    uint64_t failed;
    /** Unused words. */
    uint64_t reserved[5];
} AscendExtProgress;

/** The product that the devices of a block emulate. */
typedef enum AscendExtProduct {
    ASCEND_EXT_PRODUCT_A2 = 2,
    ASCEND_EXT_PRODUCT_A3 = 3,
    ASCEND_EXT_PRODUCT_ASCEND950 = 950
} AscendExtProduct;

/** The kind of mistakes that a block checks for. */
typedef enum AscendExtCheck {
    ASCEND_EXT_CHECK_NOTHING = 0,
    /** The block checks for accesses to memory that nothing orders, and for similar mistakes. */
    ASCEND_EXT_CHECK_RACES = 1
} AscendExtCheck;

/** The form of a finding. */
typedef enum AscendExtFindingForm {
    ASCEND_EXT_FINDING_TEXT = 0,
    /** A picture, as the text of an SVG file. */
    ASCEND_EXT_FINDING_SVG = 1
} AscendExtFindingForm;

/** The form of a timeline. */
typedef enum AscendExtTimelineForm {
    /** The trace event format of Chrome (JSON), which Perfetto reads. */
    ASCEND_EXT_TIMELINE_TRACE = 0,
    /** A picture, as the text of an SVG file. */
    ASCEND_EXT_TIMELINE_SVG = 1,
    /** The text of a JSON file that contains everything that was recorded. It can be joined
     * with the records of other processes. The form of the text may change. */
    ASCEND_EXT_TIMELINE_RECORD = 2
} AscendExtTimelineForm;

/** The description of a block of virtual devices. */
typedef struct AscendExtBlockConfig {
    /** The value of sizeof(AscendExtBlockConfig). */
    uint32_t size;
    /** The number of devices: 1 to 4096. */
    uint32_t deviceCount;
    /** A value of AscendExtProduct. */
    uint32_t product;
    /** The time for which ranks wait for one another when they connect, in milliseconds. 0 is
     * CANN's default (120 s). */
    uint32_t connectTimeoutMs;
    /** The time limit of an operation in milliseconds. 0 is CANN's default (1836 s). */
    uint32_t execTimeoutMs;
    /** A value of AscendExtCheck. */
    uint32_t check;
    /** The memory of each device in bytes. 0 is the memory of the product, or less if the
     * process has too few addresses left for it. */
    uint64_t memoryBytes;
    /** The seed by which tests of kernels choose the order in which the units of a core, the
     * cores and the servers run. 0 is the order of the kernel. */
    uint64_t kernelSeed;
    /** The core or server that, in tests of kernels, works as late as the rules allow. The
     * text names a core and a line of the kernel, such as "aiv 3:40", or is "server". It
     * ends with a NUL. With "" none is late. */
    char kernelLate[32];
} AscendExtBlockConfig;

/** The kind of a fault that is set for a device. Operations and allocations count from 1,
 * beginning when the fault is set. */
typedef enum AscendExtFaultKind {
    /** The operation begins later by the given number of milliseconds. With number 0 this
     * applies to every operation. */
    ASCEND_EXT_FAULT_DELAY = 1,
    /** From this operation on, the streams of the device make no progress. With number 0 this
     * begins with the next operation. */
    ASCEND_EXT_FAULT_STOP = 2,
    /** With this operation the rank leaves, as if its process had ended: its communicators
     * become invalid handles, and its peers get an error. With number 0 this is the next
     * operation. */
    ASCEND_EXT_FAULT_LEAVE = 3,
    /** The operation is issued with one element less than the caller passes, if it has a
     * count. With number 0 this applies to every operation. */
    ASCEND_EXT_FAULT_WRONG_COUNT = 4,
    /** From this allocation on, the device has no memory left. With number 0 this begins with
     * the next allocation. */
    ASCEND_EXT_FAULT_OUT_OF_MEMORY = 5,
    /** The operation cannot connect to the peers that it must connect to first, if there are
     * any. With number 0 this is the next operation that must connect. */
    ASCEND_EXT_FAULT_LINK_TIMEOUT = 6
} AscendExtFaultKind;

/** A fault that is set for a device. */
typedef struct AscendExtFault {
    /** The value of sizeof(AscendExtFault). */
    uint32_t size;
    /** A value of AscendExtFaultKind. */
    uint32_t kind;
    /** The number of the device in the block, counted from 0. */
    uint32_t device;
    /** The length of a delay in milliseconds. */
    uint32_t milliseconds;
    /** The number of the operation or allocation of the device. */
    uint64_t number;
} AscendExtFault;

/** The cause for which a communicator has failed. */
typedef enum AscendExtCommCause {
    /** The communicator has not failed. */
    ASCEND_EXT_COMM_WELL = 0,
    /** The calls of the ranks do not match. */
    ASCEND_EXT_COMM_MISMATCH = 1,
    /** A rank did not call, or a notify was not recorded, within the time limit. */
    ASCEND_EXT_COMM_TIMEOUT = 2,
    /** Every rank waits for another rank. */
    ASCEND_EXT_COMM_DEADLOCK = 3,
    /** A rank has left, has destroyed its communicator, or has given up. */
    ASCEND_EXT_COMM_GONE = 4,
    /** A rank has aborted the communicator. */
    ASCEND_EXT_COMM_ABORTED = 5
} AscendExtCommCause;

/** The state of a rank as seen from a collective. */
typedef enum AscendExtPresence {
    /** The rank has issued the collective, or has already continued after it. */
    ASCEND_EXT_PRESENCE_ARRIVED = 1,
    /** The rank has not issued the collective, but may still do so. */
    ASCEND_EXT_PRESENCE_MISSING = 2,
    /** The rank will not issue the collective any more. */
    ASCEND_EXT_PRESENCE_GONE = 3,
    /** The rank does not take part in the collective. */
    ASCEND_EXT_PRESENCE_APART = 4
} AscendExtPresence;

/** The state of a rank of a communicator, and its call in the last collective for which
 * the rank was seen. */
typedef struct AscendExtRank {
    /** The value of sizeof(AscendExtRank). */
    uint32_t size;
    AscendExtPresence presence;
    /** The number of that collective, or 0 if there is none. */
    uint64_t number;
    /** The name of the function of the call, with a NUL at its end; empty if there is no call. */
    char function[32];
    /** The count of the call. It is UINT64_MAX if the call has no count, or a table of counts. */
    uint64_t count;
    /** The data type of the call (HcclDataType), or -1. */
    int32_t dataType;
    /** The reduction of the call (HcclReduceOp), or -1. */
    int32_t op;
    /** The root of the call, or -1. */
    int64_t root;
} AscendExtRank;

/* Optional entries */

/** Gets the address of the progress line of a stream. Gets NULL if the block is checked
 * for races: then the program can learn of progress only by calls, which the check takes
 * into account. */
aclError ascendExtStreamProgress(aclrtStream stream, const AscendExtProgress **progress);

/** Gets the outcome of the task with this ticket: *code is 0 if it did not fail, or if
 * the failure is forgotten (the last 64 failures are kept). The text ends with a NUL and
 * is cut to textLen bytes. */
aclError ascendExtStreamFailure(aclrtStream stream, uint64_t ticket, aclError *code, char *text, size_t textLen);

/** Blocks until some task of any stream completes after *activity was read, or until
 * timeoutMs has passed. Then the call stores the new counter in *activity. A caller
 * begins with 0. The thread helps to run tasks. */
aclError ascendExtAwaitActivity(uint64_t *activity, uint32_t timeoutMs);

/** Blocks until the task of the stream with this ticket is complete, whether it failed or
 * not. If timeoutMs passes before that, returns ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, and
 * aclGetRecentErrMsg says what the stream waits for. The thread helps to run tasks.
 * patienceMs is the whole time for which the caller will wait. A caller that waits in
 * slices, and checks something between them, passes it so that it counts as waiting for
 * that whole time when a deadlock is to be proven. */
aclError ascendExtAwaitTask(aclrtStream stream, uint64_t ticket, uint32_t timeoutMs, uint32_t patienceMs);

/** Gets the ranks for which a task of the stream waits, by their numbers in the
 * communicator of the task. The task must have a ticket between first and last. *count becomes the number of these ranks, and at
 * most room of them are written. The number is 0 if the stream has not reached one of
 * these tasks, or waits for something else. */
aclError ascendExtTaskPeers(aclrtStream stream, uint64_t first, uint64_t last, uint32_t *ranks, size_t room, size_t *count);

/** Reports that the calling thread waits for other threads of the process, for patienceMs
 * in all, and has just found that it still has to wait. With 0 it reports that the
 * thread continues. With these reports, a wait outside of these functions counts when a
 * deadlock is to be proven. */
aclError ascendExtThreadWaits(uint32_t patienceMs);

/** Creates a block of deviceCount new devices. Their ids are consecutive and begin with
 * *firstDevice. */
aclError ascendExtBlockCreate(const AscendExtBlockConfig *config, uint32_t *block, int32_t *firstDevice);

/** Destroys a block. Streams, memory and communicators of the block become invalid
 * handles, and queued tasks fail. The call waits only for tasks that run. */
aclError ascendExtBlockDestroy(uint32_t block);

/** Gets the number of findings of a checked block, and 0 for a block that is not checked.
 * Findings are never removed. */
aclError ascendExtFindings(uint32_t block, uint32_t *count);

/** Gets one finding, counted from 0. The text ends with a NUL and is cut to textLen
 * bytes; *length is its length without the NUL. The text may be NULL if textLen is 0. */
aclError ascendExtFinding(uint32_t block, uint32_t index, AscendExtFindingForm form, char *text, size_t textLen,
                          size_t *length);

/** Reports that the host now reads (write is 0) or writes these bytes of pinned memory
 * itself, outside of any call. This only has an effect if a block is checked for races. */
aclError ascendExtHostAccess(const void *ptr, size_t bytes, int32_t write);

/** Begins (on is 1) or ends (on is 0) the recording of a timeline. The timeline has the
 * work of the cores of kernels and of the communication servers of a block, and the data
 * that moves between its devices, but no kernels that still run when the recording ends.
 * It is kept until the block records again. It is an error to begin a
 * recording twice, or to end one that was not begun. */
aclError ascendExtTimelineRecord(uint32_t block, int32_t on);

/** Gets the last timeline after its recording has ended. The text ends with a NUL and is
 * cut to textLen bytes; *length is its length without the NUL. The text may be NULL if
 * textLen is 0. */
aclError ascendExtTimeline(uint32_t block, AscendExtTimelineForm form, char *text, size_t textLen, size_t *length);

/** Sets a fault of a device of a block. A device can have several faults. Block 0 is the
 * block of C programs. */
aclError ascendExtFaultSet(uint32_t block, const AscendExtFault *fault);

/** Removes the faults of a device of a block. A device that has stopped continues, but a
 * rank that has left does not return. */
aclError ascendExtFaultClear(uint32_t block, uint32_t device);

/** Reports that this root info stays in the process that has made it, so no rank of
 * another process can join. If no thread of the process can join as a rank that is
 * missing, this is a certain deadlock, which is reported at once. */
HcclResult ascendExtRootInfoStays(const HcclRootInfo *rootInfo);

/** Reports to all peers that this rank of the communicator of rootInfo has left.
 * Everything that waits for the rank, also while the communicator is made, fails at once
 * with the reason in the error text. */
HcclResult ascendExtRankLeave(const HcclRootInfo *rootInfo, uint32_t rank, const char *reason);

/** Reports to all peers of a communicator that this rank issues nothing any more.
 * Everything that waits for more work of the rank fails at once with the reason in the
 * error text. The communicator stays until it is destroyed. A handle that is not valid
 * is an error here and in ascendExtCommAbort, and nothing happens. */
HcclResult ascendExtCommLeave(HcclComm comm, const char *reason);

/** Ends a communicator, and the communicators that were made from it, for all their ranks.
 * Operations in flight fail, and the error text says which rank has ended which
 * communicator. The communicator stays until it is destroyed. */
HcclResult ascendExtCommAbort(HcclComm comm);

/** Gets the cause for which a communicator has failed, and the number of the collective.
 * The number is 0 if the communicator failed outside of a collective. With NULL, gets the cause for which
 * the calling thread's last HcclCommInitRootInfo, HcclCommInitRootInfoConfig or
 * HcclChannelAcquire did not meet the other ranks, or its last HcclCreateSubCommConfig
 * did not match theirs. */
HcclResult ascendExtCommFailure(HcclComm comm, AscendExtCommCause *cause, uint64_t *number);

/** Gets the state of a rank as seen from a collective now. With number 0, gets the state
 * at the time when the communicator failed. Returns HCCL_E_NOT_FOUND if it has not failed,
 * or has no such rank. The text gives the reason why the rank is gone, its calls to
 * exchange messages with ranks that have not answered, or its side of a mismatch. It
 * ends with a NUL and is cut to textLen bytes. A comm of NULL with number 0 has the same
 * meaning as in ascendExtCommFailure. */
HcclResult ascendExtCommRank(HcclComm comm, uint64_t number, uint32_t rank, AscendExtRank *state, char *text,
                             size_t textLen);

/** Sets the title by which error texts name a communicator from now on, on all its ranks.
 * Only the first title counts. The name by which functions find the communicator stays. */
HcclResult ascendExtCommTitle(HcclComm comm, const char *title);

/** Makes collectives of this rank with nothing to move (a count of zero, or a list of
 * zeros) take a number and meet the other ranks like any other collective. If one rank
 * alone makes such a call, it and the other ranks then get an error. Without this
 * setting such a call returns at once, takes no number and meets no rank, as in CANN.
 * Call this on all ranks before their first collective. */
HcclResult ascendExtCommNumbersZeros(HcclComm comm);

/** Gets the result of a call in the last group that this thread has ended. HcclGroupEnd
 * itself always returns success on A2 and A3. The queued calls count from 0. *code is 0
 * for a call that succeeded. The text ends with a NUL and is cut to textLen bytes.
 * Returns HCCL_E_NOT_FOUND if the group had no such call. */
HcclResult ascendExtGroupResult(uint32_t index, HcclResult *code, char *text, size_t textLen);

#ifdef __cplusplus
}
#endif

#endif /* ASCEND_ASCEND_EXT_H */
