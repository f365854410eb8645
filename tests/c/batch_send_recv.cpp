// The sample of CANN's HcclBatchSendRecv page, line by line, in a program around it: eight ranks,
// one thread each. Prints a line for each rank.
#include <acl/acl.h>
#include <hccl/hccl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define ACLCHECK(call)                                                                             \
    do {                                                                                           \
        int code = static_cast<int>(call);                                                         \
        if (code != 0) {                                                                           \
            const char *text = aclGetRecentErrMsg();                                               \
            std::fprintf(stderr, "%s returned %d: %s\n", #call, code, text ? text : "");           \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

namespace {

HcclRootInfo rootInfo;
float received[8][8];

void run(uint32_t deviceId)
{
    ACLCHECK(aclrtSetDevice(static_cast<int32_t>(deviceId)));

    // The following lines are those of the page, down to the call that sends.
    void *sendBuf = nullptr;
    void *recvBuf = nullptr;
    uint64_t count = 8;
    size_t mallocSize = count * sizeof(float);
    aclrtMalloc((void **)&sendBuf, mallocSize, ACL_MEM_MALLOC_HUGE_ONLY);
    aclrtMalloc((void **)&recvBuf, mallocSize, ACL_MEM_MALLOC_HUGE_ONLY);

    uint32_t rankSize = 8;
    HcclComm hcclComm;
    HcclCommInitRootInfo(rankSize, &rootInfo, deviceId, &hcclComm);

    aclrtStream stream;
    aclrtCreateStream(&stream);

    // Not on the page: the numbers to send.
    std::vector<float> values(count);
    const aclrtMemcpyKind toDevice = ACL_MEMCPY_HOST_TO_DEVICE, toHost = ACL_MEMCPY_DEVICE_TO_HOST;
    for (uint64_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(deviceId * 100 + i);
    }
    ACLCHECK(aclrtMemcpy(sendBuf, mallocSize, values.data(), mallocSize, toDevice));

    uint32_t next = (deviceId + 1) % count;
    uint32_t prev = (deviceId - 1 + count) % count;
    HcclSendRecvItem sendRecvInfo[2];
    sendRecvInfo[0] = HcclSendRecvItem{HCCL_SEND, sendBuf, count, HCCL_DATA_TYPE_FP32, next};
    sendRecvInfo[1] = HcclSendRecvItem{HCCL_RECV, recvBuf, count, HCCL_DATA_TYPE_FP32, prev};
    HcclBatchSendRecv(sendRecvInfo, 2, hcclComm, stream);

    ACLCHECK(aclrtSynchronizeStream(stream));

    // Not on the page: the comparison of the received numbers.
    ACLCHECK(aclrtMemcpy(received[deviceId], mallocSize, recvBuf, mallocSize, toHost));

    // The following lines are the end of the page.
    aclrtFree(sendBuf);
    aclrtFree(recvBuf);
    aclrtDestroyStream(stream);
    HcclCommDestroy(hcclComm);
}

} // namespace

int main()
{
    ACLCHECK(aclInit(nullptr));
    ACLCHECK(aclrtSetDevice(0));
    ACLCHECK(HcclGetRootInfo(&rootInfo));
    std::vector<std::thread> ranks;
    for (uint32_t rank = 0; rank < 8; ++rank) {
        ranks.emplace_back(run, rank);
    }
    for (auto &rank : ranks) {
        rank.join();
    }
    for (int rank = 0; rank < 8; ++rank) {
        std::printf("rank %d received %g .. %g\n", rank, received[rank][0], received[rank][7]);
    }
    ACLCHECK(aclFinalize());
    return 0;
}
