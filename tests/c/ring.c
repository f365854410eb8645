/* The ring of the HcclBatchSendRecv page as a C program: eight ranks, one thread each. Every rank
 * sends eight floats to the next one and receives eight from the one before. Prints a line for each
 * rank. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

#define RANKS 8
#define COUNT 8

#define CHECK(call)                                                                                    \
    do {                                                                                               \
        int code = (int)(call);                                                                        \
        if (code != 0) {                                                                               \
            const char *text = aclGetRecentErrMsg();                                                   \
            fprintf(stderr, "rank %u: %s returned %d: %s\n", rank, #call, code, text ? text : "");     \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

static HcclRootInfo root_info;
static float received[RANKS][COUNT];

static void *run(void *argument) {
    uint32_t rank = (uint32_t)(size_t)argument;
    CHECK(aclrtSetDevice((int32_t)rank));
    HcclComm comm;
    CHECK(HcclCommInitRootInfo(RANKS, &root_info, rank, &comm));
    aclrtStream stream;
    CHECK(aclrtCreateStream(&stream));

    float mine[COUNT];
    for (int i = 0; i < COUNT; i++) mine[i] = (float)(rank * 100 + (uint32_t)i);
    void *send, *recv;
    CHECK(aclrtMalloc(&send, sizeof mine, ACL_MEM_MALLOC_HUGE_ONLY));
    CHECK(aclrtMalloc(&recv, sizeof mine, ACL_MEM_MALLOC_HUGE_ONLY));
    CHECK(aclrtMemcpy(send, sizeof mine, mine, sizeof mine, ACL_MEMCPY_HOST_TO_DEVICE));

    uint32_t next = (rank + 1) % RANKS, previous = (rank + RANKS - 1) % RANKS;
    HcclSendRecvItem items[2] = {
        {HCCL_SEND, send, COUNT, HCCL_DATA_TYPE_FP32, next},
        {HCCL_RECV, recv, COUNT, HCCL_DATA_TYPE_FP32, previous},
    };
    CHECK(HcclBatchSendRecv(items, 2, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(received[rank], sizeof mine, recv, sizeof mine, ACL_MEMCPY_DEVICE_TO_HOST));

    CHECK(aclrtFree(send));
    CHECK(aclrtFree(recv));
    CHECK(aclrtDestroyStream(stream));
    CHECK(HcclCommDestroy(comm));
    CHECK(aclrtResetDevice((int32_t)rank));
    return NULL;
}

int main(void) {
    uint32_t rank = 0;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(HcclGetRootInfo(&root_info));
    pthread_t threads[RANKS];
    for (size_t i = 0; i < RANKS; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    for (size_t i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++) printf("rank %d received %g .. %g\n", i, received[i][0], received[i][COUNT - 1]);
    CHECK(aclFinalize());
    return 0;
}
