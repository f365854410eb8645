/* One process exports memory and a notify, another one imports them: the page "Share memory between
 * processes". */
#include <acl/acl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY 65
#define COUNT 4096
#define BYTES (COUNT * sizeof(int32_t))

#define CHECK(call)                                                                                \
    do {                                                                                           \
        aclError code = (call);                                                                    \
        if (code != ACL_SUCCESS) {                                                                 \
            fprintf(stderr, "%s: %d: %s\n", #call, code, aclGetRecentErrMsg());                    \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void give(int pipe, const void *from, size_t bytes) {
    if (write(pipe, from, bytes) != (ssize_t)bytes) exit(1);
}

static void take(int pipe, void *to, size_t bytes) {
    for (size_t got = 0; got < bytes;) {
        ssize_t more = read(pipe, (char *)to + got, bytes - got);
        if (more <= 0) exit(1);
        got += (size_t)more;
    }
}

/* Adds one to each number in the memory of the other process, then records its notify. */
static int importer(int in, int out) {
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    int32_t process;
    CHECK(aclrtDeviceGetBareTgid(&process));
    give(out, &process, sizeof process);
    char keys[2][KEY];
    take(in, keys, sizeof keys);
    void *shared, *own;
    aclrtNotify done;
    aclrtStream stream;
    CHECK(aclrtIpcMemImportByKey(&shared, keys[0], ACL_RT_IPC_MEM_IMPORT_FLAG_DEFAULT));
    CHECK(aclrtNotifyImportByKey(&done, keys[1], ACL_RT_NOTIFY_IMPORT_FLAG_DEFAULT));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMalloc(&own, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpyAsync(own, BYTES, shared, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK(aclrtSynchronizeStream(stream));
    static int32_t numbers[COUNT];
    CHECK(aclrtMemcpy(numbers, BYTES, own, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++) numbers[i] += 1;
    CHECK(aclrtMemcpy(own, BYTES, numbers, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpyAsync(shared, BYTES, own, BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    CHECK(aclrtRecordNotify(done, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtDestroyNotify(done));
    CHECK(aclrtIpcMemClose(keys[0]));
    give(out, "c", 1);
    return 0;
}

static int exporter(int in, int out) {
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    static int32_t numbers[COUNT];
    for (int i = 0; i < COUNT; i++) numbers[i] = 3 * i;
    void *memory;
    aclrtNotify done;
    aclrtStream stream;
    CHECK(aclrtMalloc(&memory, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(memory, BYTES, numbers, BYTES, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtCreateNotify(&done, ACL_NOTIFY_DEFAULT));
    CHECK(aclrtCreateStream(&stream));
    char keys[2][KEY];
    CHECK(aclrtIpcMemGetExportKey(memory, BYTES, keys[0], KEY, ACL_RT_IPC_MEM_EXPORT_FLAG_DEFAULT));
    CHECK(aclrtNotifyGetExportKey(done, keys[1], KEY, ACL_RT_NOTIFY_EXPORT_FLAG_DEFAULT));
    int32_t process;
    take(in, &process, sizeof process);
    CHECK(aclrtIpcMemSetImportPid(keys[0], &process, 1));
    CHECK(aclrtNotifySetImportPid(done, &process, 1));
    give(out, keys, sizeof keys);
    CHECK(aclrtWaitAndResetNotify(done, stream, 0));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(numbers, BYTES, memory, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
    int wrong = 0;
    for (int i = 0; i < COUNT; i++) wrong += numbers[i] != 3 * i + 1;
    printf("%d numbers of %d are wrong\n", wrong, COUNT);
    char closed;
    take(in, &closed, 1);
    CHECK(aclrtIpcMemClose(keys[0]));
    CHECK(aclrtFree(memory));
    return wrong != 0;
}

int main(void) {
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0) return 1;
    /* No call of the runtime may come before: devices do not survive a fork. */
    pid_t child = fork();
    if (child == 0) return importer(there[0], back[1]);
    int failed = exporter(back[0], there[1]), status = 1;
    waitpid(child, &status, 0);
    return failed || status != 0;
}
