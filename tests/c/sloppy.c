/* Habits of programs that CANN accepts. Each runs in a process of its own, which has to end with 0.
 * Prints a line for each. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/acl.h"
#include "hccl/hccl.h"

#define RANKS 4
#define COUNT 1000
#define BYTES (COUNT * sizeof(float))

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code = (int)(call);                                                                    \
        if (code != 0) {                                                                           \
            const char *text = aclGetRecentErrMsg();                                               \
            fprintf(stderr, "%s returned %d: %s\n", #call, code, text ? text : "");                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void *filled(float value) {
    static float host[16 * COUNT];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    void *memory;
    CHECK(aclrtMalloc(&memory, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST));
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 16 * COUNT; i++) host[i] = value;
    CHECK(aclrtMemcpy(memory, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE));
    pthread_mutex_unlock(&lock);
    return memory;
}

static float first(const void *memory) {
    float value;
    CHECK(aclrtMemcpy(&value, sizeof value, memory, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
    return value;
}

/* A thread for each rank, with a communicator. */
static HcclRootInfo root_info;
static pthread_barrier_t all;
typedef void rank_body(uint32_t rank, HcclComm comm, aclrtStream stream);
static rank_body *body;

static void *run_rank(void *argument) {
    uint32_t rank = (uint32_t)(size_t)argument;
    HcclComm comm;
    aclrtStream stream;
    CHECK(aclrtSetDevice((int32_t)rank));
    CHECK(HcclCommInitRootInfo(RANKS, &root_info, rank, &comm));
    CHECK(aclrtCreateStream(&stream));
    body(rank, comm, stream);
    return NULL;
}

static void run_ranks(rank_body *of_each) {
    pthread_t threads[RANKS];
    body = of_each;
    CHECK(aclrtSetDevice(0));
    CHECK(HcclGetRootInfo(&root_info));
    pthread_barrier_init(&all, NULL, RANKS);
    for (size_t i = 0; i < RANKS; i++) pthread_create(&threads[i], NULL, run_rank, (void *)i);
    for (size_t i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
}

static void all_reduce(uint32_t rank, HcclComm comm, aclrtStream stream) {
    void *memory = filled((float)rank);
    CHECK(HcclAllReduce(memory, memory, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    EXPECT(first(memory) == 6);
}

static void no_init(void) {
    uint32_t devices = 0;
    int32_t major, minor, patch;
    CHECK(aclrtGetDeviceCount(&devices));
    EXPECT(devices >= RANKS);
    CHECK(aclrtGetVersion(&major, &minor, &patch));
    EXPECT(aclrtGetSocName() != NULL);
    EXPECT(aclGetRecentErrMsg() == NULL);
    run_ranks(all_reduce);
}

/* Queries first and initialises later, as a library does that is loaded before the program begins. */
static void asks_first(void) {
    uint32_t devices = 0;
    int32_t now = -1;
    char name[128] = "";
    CHECK(aclrtGetDeviceCount(&devices));
    EXPECT(devices >= RANKS && aclrtGetSocName() != NULL);
    /* There is no device yet, which is an error but does no harm. */
    EXPECT(aclrtGetDevice(&now) != 0);
    EXPECT(HcclGetErrorString(HCCL_E_PARA) != NULL);
    EXPECT(HcclGetCommName(NULL, name) != 0);
    CHECK(aclInit(NULL));
    uint32_t again = 0;
    CHECK(aclrtGetDeviceCount(&again));
    EXPECT(again == devices);
    run_ranks(all_reduce);
    CHECK(aclFinalize());
}

static void init_twice(void) {
    CHECK(aclInit(NULL));
    EXPECT(aclInit(NULL) == ACL_ERROR_REPEAT_INITIALIZE);
    run_ranks(all_reduce);
    CHECK(aclFinalize());
    EXPECT(aclFinalize() == ACL_ERROR_REPEAT_FINALIZE);
}

static void finalize_without_init(void) { CHECK(aclFinalize()); }

/* Destroys its objects after the end of everything. */
static void finalize_first(void) {
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    void *memory = filled(1);
    aclrtStream stream;
    aclrtEvent event;
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEvent(&event));
    CHECK(aclrtMemsetAsync(memory, BYTES, 7, BYTES, stream));
    aclFinalize();
    /* The codes of these calls are undefined, but the program must continue. */
    aclrtSynchronizeStream(stream);
    aclrtDestroyEvent(event);
    aclrtFree(memory);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
}

static volatile int is_reset;

/* Uses a device while another thread resets it. */
static void *use(void *argument) {
    (void)argument;
    aclrtSetDevice(0);
    for (int i = 0; i < 200 || !is_reset; i++) {
        aclrtStream stream = NULL;
        void *memory = NULL;
        if (aclrtCreateStream(&stream) != 0 || aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST) != 0) {
            aclrtSetDevice(0);
            continue;
        }
        aclrtMemsetAsync(memory, BYTES, i, BYTES, stream);
        aclrtSynchronizeStream(stream);
        aclrtFree(memory);
        aclrtDestroyStream(stream);
    }
    return NULL;
}

static void reset_under_others(void) {
    pthread_t threads[3];
    CHECK(aclInit(NULL));
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < 50; i++) {
        aclrtSetDevice(0);
        aclrtResetDevice(0);
        aclrtResetDeviceForce(0);
    }
    is_reset = 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    /* After that the device works like a new one. */
    run_ranks(all_reduce);
}

static void arrays_of_the_call(uint32_t rank, HcclComm comm, aclrtStream stream) {
    void *send = filled((float)rank), *recv = filled(-1);
    uint64_t *counts = malloc(4 * RANKS * sizeof *counts);
    for (int i = 0; i < RANKS; i++) {
        counts[i] = counts[2 * RANKS + i] = 1;
        counts[RANKS + i] = counts[3 * RANKS + i] = (uint64_t)i;
    }
    CHECK(HcclAlltoAllV(send, counts, counts + RANKS, HCCL_DATA_TYPE_FP32, recv, counts + 2 * RANKS,
                        counts + 3 * RANKS, HCCL_DATA_TYPE_FP32, comm, stream));
    memset(counts, 0xee, 4 * RANKS * sizeof *counts);
    free(counts);
    HcclSendRecvItem *items = malloc(2 * sizeof *items);
    float *place = (float *)recv + COUNT;
    items[0] = (HcclSendRecvItem){HCCL_SEND, send, COUNT, HCCL_DATA_TYPE_FP32, (rank + 1) % RANKS};
    items[1] = (HcclSendRecvItem){HCCL_RECV, place, COUNT, HCCL_DATA_TYPE_FP32, (rank + RANKS - 1) % RANKS};
    CHECK(HcclBatchSendRecv(items, 2, comm, stream));
    memset(items, 0xee, 2 * sizeof *items);
    free(items);
    CHECK(aclrtSynchronizeStream(stream));
    EXPECT(first(recv) == 0 && first((float *)recv + RANKS - 1) == RANKS - 1);
    EXPECT(first(place) == (float)((rank + RANKS - 1) % RANKS));
    /* A configuration and a list of ranks can be freed after the call, too. */
    uint32_t *ranks = malloc(RANKS * sizeof *ranks);
    HcclCommConfig *config = malloc(sizeof *config);
    HcclComm sub;
    for (uint32_t i = 0; i < RANKS; i++) ranks[i] = i;
    HcclCommConfigInit(config);
    CHECK(HcclCreateSubCommConfig(&comm, RANKS, ranks, 1, rank, config, &sub));
    memset(ranks, 0xee, RANKS * sizeof *ranks);
    memset(config, 0xee, sizeof *config);
    free(ranks);
    free(config);
    all_reduce(rank, sub, stream);
}

static void freed_arrays(void) { run_ranks(arrays_of_the_call); }

static void destroyed_early(uint32_t rank, HcclComm comm, aclrtStream stream) {
    void *memory = filled((float)rank);
    HcclDataType fp32 = HCCL_DATA_TYPE_FP32;
    CHECK(HcclAllReduce(memory, memory, 16 * COUNT, fp32, HCCL_REDUCE_SUM, comm, stream));
    /* The root finishes the broadcast first; the other ranks call it later or still run it. */
    if (rank != 0) usleep(20000 * rank);
    CHECK(HcclBroadcast(memory, 16 * COUNT, fp32, 0, comm, stream));
    if (rank == 0) CHECK(aclrtSynchronizeStream(stream));
    if (rank == 0) CHECK(HcclCommDestroy(comm));
    CHECK(aclrtSynchronizeStream(stream));
    EXPECT(first(memory) == 6);
    if (rank != 0) CHECK(HcclCommDestroy(comm));
}

static void destroy_under_others(void) { run_ranks(destroyed_early); }

static void nothing_where_nothing_is_needed(uint32_t rank, HcclComm comm, aclrtStream stream) {
    void *send = filled((float)rank), *recv = filled(-1);
    HcclDataType fp32 = HCCL_DATA_TYPE_FP32;
    /* Ranks other than the root pass NULL for the buffer that they do not use. */
    CHECK(HcclReduce(send, rank == 0 ? recv : NULL, COUNT, fp32, HCCL_REDUCE_SUM, 0, comm, stream));
    CHECK(HcclScatter(rank == 1 ? send : NULL, recv, COUNT, fp32, 1, comm, stream));
    /* A call with a count of zero does nothing. */
    CHECK(HcclAllReduce(NULL, NULL, 0, fp32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(HcclBroadcast(NULL, 0, fp32, 0, comm, stream));
    uint64_t zeros[RANKS] = {0};
    CHECK(HcclAlltoAllV(NULL, zeros, zeros, fp32, NULL, zeros, zeros, fp32, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    EXPECT(first(recv) == 1);
    /* NULL is the default stream. */
    CHECK(aclrtMemsetAsync(recv, BYTES, 0, BYTES, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    EXPECT(first(recv) == 0);
}

static void nulls(void) { run_ranks(nothing_where_nothing_is_needed); }

static aclrtStream streams_of_others[RANKS];
static HcclComm comms_of_others[RANKS];
static void *memories_of_others[RANKS];

/* Uses objects that other threads have made, all of them in one thread. */
static void *foreign(void *argument) {
    (void)argument;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        void *memory = memories_of_others[rank];
        CHECK(aclrtSetDevice((int32_t)rank));
        CHECK(HcclAllReduce(memory, memory, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM,
                            comms_of_others[rank], streams_of_others[rank]));
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        CHECK(aclrtSetDevice((int32_t)rank));
        CHECK(aclrtSynchronizeStream(streams_of_others[rank]));
        EXPECT(first(memories_of_others[rank]) == 6);
        CHECK(aclrtDestroyStream(streams_of_others[rank]));
    }
    return NULL;
}

static void lent(uint32_t rank, HcclComm comm, aclrtStream stream) {
    /* The first operation of a communicator waits for the others in the call. */
    all_reduce(rank, comm, stream);
    streams_of_others[rank] = stream;
    comms_of_others[rank] = comm;
    memories_of_others[rank] = filled((float)rank);
    pthread_barrier_wait(&all);
}

static void other_threads(void) {
    pthread_t thread;
    run_ranks(lent);
    pthread_create(&thread, NULL, foreign, NULL);
    pthread_join(thread, NULL);
}

static void *waits_for_ever(void *argument) {
    CHECK(aclrtSetDevice(0));
    aclrtSynchronizeStream(argument);
    return NULL;
}

/* The program ends with work that will never be done, and with a thread that waits for it. */
static void leave_everything(void) {
    aclrtStream stream;
    aclrtEvent event;
    pthread_t thread;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    filled(1);
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEvent(&event));
    CHECK(aclrtStreamWaitEvent(stream, event));
    pthread_create(&thread, NULL, waits_for_ever, stream);
    usleep(20000);
}

static const struct {
    const char *name;
    void (*run)(void);
} HABITS[] = {
    {"it never calls aclInit", no_init},
    {"it asks before it calls aclInit", asks_first},
    {"it calls aclInit and aclFinalize twice", init_twice},
    {"it calls aclFinalize alone", finalize_without_init},
    {"it calls aclFinalize first and frees afterwards", finalize_first},
    {"it resets a device that other threads use", reset_under_others},
    {"it frees arrays right after the call", freed_arrays},
    {"it destroys a communicator while others are at it", destroy_under_others},
    {"it passes NULL where nothing is needed", nulls},
    {"it uses streams and communicators of other threads", other_threads},
    {"it returns from main with work queued", leave_everything},
};

int main(int count, char **arguments) {
    const int habits = sizeof HABITS / sizeof HABITS[0];
    if (count == 2) {
        HABITS[atoi(arguments[1])].run();
        return 0;
    }
    int failed = 0;
    for (int i = 0; i < habits; i++) {
        char number[12];
        int status = 1;
        snprintf(number, sizeof number, "%d", i);
        pid_t child = fork();
        if (child == 0) {
            alarm(50);
            execl("/proc/self/exe", arguments[0], number, (char *)NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        failed += status != 0;
        printf("%s: %s\n", HABITS[i].name, status == 0 ? "fine" : "it fails");
        fflush(stdout);
    }
    return failed != 0;
}
