/* An all-reduce of eight ranks, one thread each, on a stream each. Prints a line for each rank. */
#include <acl/acl.h>
#include <hccl/hccl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define RANKS 8
#define COUNT 100000
#define BYTES (COUNT * sizeof(float))

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code = (int)(call);                                                                    \
        if (code != 0) {                                                                           \
            const char *text = aclGetRecentErrMsg();                                               \
            fprintf(stderr, "rank %u: %s returned %d: %s\n", rank, #call, code, text ? text : ""); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static HcclComm comms[RANKS];
static int wrong[RANKS];

static void *run(void *argument) {
    uint32_t rank = (uint32_t)(uintptr_t)argument;
    CHECK(aclrtSetDevice((int32_t)rank));
    aclrtStream stream;
    CHECK(aclrtCreateStream(&stream));
    void *send, *recv;
    CHECK(aclrtMalloc(&send, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&recv, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    float *host = malloc(BYTES);
    if (host == NULL) exit(1);
    for (uint32_t i = 0; i < COUNT; i++) host[i] = (float)(rank + i);
    CHECK(aclrtMemcpy(send, BYTES, host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));

    HcclComm comm = comms[rank];
    CHECK(HcclAllReduce(send, recv, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));

    CHECK(aclrtMemcpy(host, BYTES, recv, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    for (uint32_t i = 0; i < COUNT; i++) wrong[rank] += host[i] != (float)(28 + 8 * i);
    free(host);
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
    int32_t devices[RANKS];
    for (int32_t i = 0; i < RANKS; i++) devices[i] = i;
    CHECK(HcclCommInitAll(RANKS, devices, comms));
    pthread_t threads[RANKS];
    for (uintptr_t i = 0; i < RANKS; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    for (uintptr_t i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++) {
        printf("rank %d: %d sums of %d are wrong\n", i, wrong[i], COUNT);
    }
    CHECK(aclFinalize());
    return 0;
}
