// A custom communication operator from point to point: rank 0 sends, rank 1 receives. It creates
// the resources as the API page "creating resources" does (AI CPU engine, HCCS, two notifies), in a
// listing for Atlas A2 and A3. The receiver reads the data. On hardware the part in `send` and
// `receive` runs in an AICPU kernel; here the host calls the same functions.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "hccl/hccl.h"
#include "hccl/hccl_channel.h"
#include "hccl/hccl_res.h"
#include "hcomm/hcomm_primitives.h"

namespace {

constexpr uint32_t RANKS = 2;
constexpr uint64_t COUNT = 1000000;
constexpr uint64_t BYTES = COUNT * sizeof(float);
constexpr uint32_t FOREVER = 0;

void check(uint32_t rank, const char *call, int code)
{
    if (code != 0) {
        const char *text = aclGetRecentErrMsg();
        std::fprintf(stderr, "rank %u: %s returned %d: %s\n", rank, call, code, text != nullptr ? text : "");
        std::exit(1);
    }
}

#define CHECK(call) check(rank, #call, static_cast<int>(call))

// The resources of an operator on one rank.
struct Resources {
    ThreadHandle thread;
    ThreadHandle host;
    ChannelHandle channel;
    void *localAddr;
    uint64_t localSize;
    void *remoteAddr;
    uint64_t remoteSize;
};

Resources create(uint32_t rank, HcclComm comm, aclrtStream stream, uint32_t destRank)
{
    Resources resources;
    // Threads.
    CommEngine engine = CommEngine::COMM_ENGINE_AICPU;
    uint32_t threadNum = 1;
    uint32_t notifyNumPerThread = 0;
    ThreadHandle thread;
    CHECK(HcclThreadAcquire(comm, engine, threadNum, notifyNumPerThread, &thread));

    // A channel between the two ranks.
    HcclChannelDesc channelDesc;
    CHECK(HcclChannelDescInit(&channelDesc, 1));
    channelDesc.remoteRank = destRank;
    channelDesc.channelProtocol = CommProtocol::COMM_PROTOCOL_HCCS;
    channelDesc.notifyNum = 2;
    ChannelHandle channelHandle;
    CHECK(HcclChannelAcquire(comm, engine, &channelDesc, 1, &channelHandle));

    // The memory of this rank and that of the peer.
    void *localAddr;
    uint64_t localSize;
    CHECK(HcclGetHcclBuffer(comm, &localAddr, &localSize));
    void *remoteAddr;
    uint64_t remoteSize;
    CHECK(HcclChannelGetHcclBuffer(comm, channelHandle, &remoteAddr, &remoteSize));

    // The user's stream waits for the thread, and the thread for the user's stream.
    CHECK(HcclThreadAcquireWithStream(comm, CommEngine::COMM_ENGINE_CPU_TS, stream, 1, &resources.host));
    CHECK(HcclThreadAcquire(comm, engine, threadNum, 1, &resources.thread));
    resources.channel = channelHandle;
    resources.localAddr = localAddr;
    resources.localSize = localSize;
    resources.remoteAddr = remoteAddr;
    resources.remoteSize = remoteSize;
    return resources;
}

// The kernel of the sender: it copies the data to its own buffer, signals the receiver, and waits
// until the receiver has read the data.
void send(uint32_t rank, const Resources &it, const void *data)
{
    CHECK(HcommLocalCopyOnThread(it.thread, it.localAddr, data, BYTES));
    CHECK(HcommChannelNotifyRecordOnThread(it.thread, it.channel, 0));
    CHECK(HcommChannelNotifyWaitOnThread(it.thread, it.channel, 1, FOREVER));
}

// The kernel of the receiver.
void receive(uint32_t rank, const Resources &it, void *data)
{
    CHECK(HcommChannelNotifyWaitOnThread(it.thread, it.channel, 0, FOREVER));
    CHECK(HcommReadOnThread(it.thread, it.channel, data, it.remoteAddr, BYTES));
    CHECK(HcommChannelNotifyRecordOnThread(it.thread, it.channel, 1));
}

void run(uint32_t rank, const HcclRootInfo *rootInfo)
{
    CHECK(aclrtSetDevice(static_cast<int32_t>(rank)));
    HcclComm comm;
    CHECK(HcclCommInitRootInfo(RANKS, rootInfo, rank, &comm));
    aclrtStream stream;
    CHECK(aclrtCreateStream(&stream));
    Resources it = create(rank, comm, stream, 1 - rank);
    if (it.localSize < BYTES || it.remoteSize != it.localSize) {
        std::fprintf(stderr, "rank %u: the buffers are %lu and %lu\n", rank, (unsigned long)it.localSize,
            (unsigned long)it.remoteSize);
        std::exit(1);
    }

    std::vector<float> values(COUNT);
    void *data;
    CHECK(aclrtMalloc(&data, BYTES, ACL_MEM_MALLOC_HUGE_FIRST));
    for (uint32_t round = 0; round < 3; ++round) {
        for (uint64_t i = 0; i < COUNT; ++i) {
            values[i] = rank == 0 ? static_cast<float>(i + round) : -1.0F;
        }
        CHECK(aclrtMemcpy(data, BYTES, values.data(), BYTES, ACL_MEMCPY_HOST_TO_DEVICE));

        CHECK(HcommThreadNotifyRecordOnThread(it.host, it.thread, 0));
        CHECK(HcommBatchModeStart("point to point"));
        CHECK(HcommThreadNotifyWaitOnThread(it.thread, 0, FOREVER));
        if (rank == 0) {
            send(rank, it, data);
        } else {
            receive(rank, it, data);
        }
        CHECK(HcommThreadNotifyRecordOnThread(it.thread, it.host, 0));
        CHECK(HcommBatchModeEnd("point to point"));
        CHECK(HcommThreadNotifyWaitOnThread(it.host, 0, FOREVER));

        CHECK(aclrtSynchronizeStream(stream));
        CHECK(aclrtMemcpy(values.data(), BYTES, data, BYTES, ACL_MEMCPY_DEVICE_TO_HOST));
        for (uint64_t i = 0; i < COUNT; ++i) {
            if (values[i] != static_cast<float>(i + round)) {
                std::fprintf(stderr, "rank %u: element %lu is %f\n", rank, (unsigned long)i, (double)values[i]);
                std::exit(1);
            }
        }
    }
    CHECK(aclrtFree(data));
    CHECK(HcclCommDestroy(comm));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(static_cast<int32_t>(rank)));
}

} // namespace

int main()
{
    uint32_t rank = 0;
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    HcclRootInfo rootInfo;
    CHECK(HcclGetRootInfo(&rootInfo));
    std::thread second(run, 1, &rootInfo);
    run(0, &rootInfo);
    second.join();
    std::printf("rank 1 received %lu floats three times\n", (unsigned long)COUNT);
    return 0;
}
