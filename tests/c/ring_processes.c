/* A ring whose ranks are processes: each sends its numbers to the next rank and receives those of
 * the one before, and then all sum them up. Prints a line for each rank.
 *     ring_processes           starts four ranks itself; rank 0 passes the root info on in pipes
 *     ring_processes FILE      is one rank under a launcher (hcclrun, torchrun, mpirun); rank 0
 *                              passes the root info on in this file, which must not exist before */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

#define RANKS 4
#define COUNT 1000

static uint32_t rank, ranks;

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code = (int)(call);                                                                    \
        if (code != 0) {                                                                           \
            const char *text = aclGetRecentErrMsg();                                               \
            fprintf(stderr, "rank %u: %s returned %d: %s\n", rank, #call, code, text ? text : ""); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define SYSTEM(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            perror(#condition);                                                                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void run(const HcclRootInfo *root) {
    HcclComm comm;
    aclrtStream stream;
    CHECK(HcclCommInitRootInfo(ranks, root, rank, &comm));
    CHECK(aclrtCreateStream(&stream));

    int32_t numbers[COUNT], sums[COUNT];
    const size_t bytes = sizeof numbers;
    for (int i = 0; i < COUNT; i++) numbers[i] = (int32_t)rank * COUNT + i;
    void *send, *recv;
    CHECK(aclrtMalloc(&send, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&recv, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(send, bytes, numbers, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    const HcclDataType int32 = HCCL_DATA_TYPE_INT32;
    const uint32_t before = (rank + ranks - 1) % ranks;
    HcclSendRecvItem items[2] = {
        {HCCL_SEND, send, COUNT, int32, (rank + 1) % ranks},
        {HCCL_RECV, recv, COUNT, int32, before},
    };
    CHECK(HcclBatchSendRecv(items, 2, comm, stream));
    CHECK(HcclAllReduce(send, send, COUNT, int32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(numbers, bytes, recv, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(aclrtMemcpy(sums, bytes, send, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) {
        const int32_t sum = (int32_t)(ranks * (ranks - 1) / 2) * COUNT + (int32_t)ranks * i;
        wrong += numbers[i] != (int32_t)before * COUNT + i || sums[i] != sum;
    }
    printf("rank %u of %u: %d numbers of %d are wrong\n", rank, ranks, wrong, COUNT);

    CHECK(aclrtFree(send));
    CHECK(aclrtFree(recv));
    CHECK(aclrtDestroyStream(stream));
    CHECK(HcclCommDestroy(comm));
    CHECK(aclrtResetDevice((int32_t)rank));
    CHECK(aclFinalize());
    if (wrong != 0) exit(1);
}

static void begin(void) {
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice((int32_t)rank));
}

/* One rank: reads from its own pipe, except that rank 0 writes to those of all others. */
static void piped(int pipes[RANKS][2]) {
    HcclRootInfo root;
    char *bytes = (char *)&root;
    begin();
    if (rank == 0) {
        CHECK(HcclGetRootInfo(&root));
        for (int other = 1; other < RANKS; other++) {
            SYSTEM(write(pipes[other][1], bytes, sizeof root) == (ssize_t)sizeof root);
        }
    } else {
        /* So that the pipe closes when rank 0 ends. */
        for (int other = 0; other < RANKS; other++) close(pipes[other][1]);
        for (size_t have = 0; have < sizeof root;) {
            ssize_t more = read(pipes[rank][0], bytes + have, sizeof root - have);
            SYSTEM(more > 0);
            have += (size_t)more;
        }
    }
    run(&root);
}

static int start_ranks(void) {
    int pipes[RANKS][2], failed = 0;
    pid_t children[RANKS];
    ranks = RANKS;
    for (int i = 0; i < RANKS; i++) SYSTEM(pipe(pipes[i]) == 0);
    for (rank = 0; rank < RANKS; rank++) {
        children[rank] = fork();
        SYSTEM(children[rank] >= 0);
        if (children[rank] == 0) {
            alarm(50);
            piped(pipes);
            exit(0);
        }
    }
    for (int i = 0; i < RANKS; i++) close(pipes[i][0]), close(pipes[i][1]);
    for (int i = 0; i < RANKS; i++) {
        int status = 1;
        SYSTEM(waitpid(children[i], &status, 0) == children[i]);
        failed += status != 0;
    }
    return failed != 0;
}

static uint32_t variable(const char *const names[3]) {
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(names[i]);
        if (text != NULL) return (uint32_t)strtoul(text, NULL, 10);
    }
    fprintf(stderr, "%s is not set: start this with hcclrun, torchrun or mpirun\n", names[0]);
    exit(1);
}

/* One rank under a launcher. The file gets its name when it is whole. */
static void launched(const char *path) {
    HcclRootInfo root;
    char part[4096];
    FILE *file;
    rank = variable((const char *const[]){"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"});
    ranks = variable((const char *const[]){"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
    begin();
    if (rank == 0) {
        CHECK(HcclGetRootInfo(&root));
        snprintf(part, sizeof part, "%s.part", path);
        SYSTEM((file = fopen(part, "wb")) != NULL);
        SYSTEM(fwrite(&root, sizeof root, 1, file) == 1);
        SYSTEM(fclose(file) == 0);
        SYSTEM(rename(part, path) == 0);
    } else {
        for (int tries = 0; (file = fopen(path, "rb")) == NULL; tries++) {
            SYSTEM(tries < 3000);
            usleep(10000);
        }
        SYSTEM(fread(&root, sizeof root, 1, file) == 1);
        fclose(file);
    }
    run(&root);
}

int main(int count, char **arguments) {
    if (count == 1) return start_ranks();
    if (count != 2) {
        fprintf(stderr, "usage: %s [FILE]\n", arguments[0]);
        return 1;
    }
    launched(arguments[1]);
    return 0;
}
