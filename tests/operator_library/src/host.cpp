// The host part: it checks a call, makes the resources of a communicator in the first one, and
// launches the kernel, which finds them in an engine context.
#include "own_collectives.h"

#include <dlfcn.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "hccl/hccl_channel.h"
#include "hccl/hccl_rank_graph.h"
#include "hccl/hccl_res.h"
#include "hccl/hccl_res_expt.h"
#include "hcomm/hcomm_primitives.h"
#include "resources.h"

#define RETURN_IF_FAILED(call)                                                                     \
    do {                                                                                           \
        const HcclResult code = (call);                                                            \
        if (code != HCCL_SUCCESS) {                                                                \
            return code;                                                                           \
        }                                                                                          \
    } while (0)

#define RETURN_IF_RUNTIME_FAILED(call)                                                             \
    do {                                                                                           \
        if ((call) != ACL_SUCCESS) {                                                               \
            return HCCL_E_RUNTIME;                                                                 \
        }                                                                                          \
    } while (0)

namespace {

constexpr const char *TAG = "own_collectives";
constexpr const char *KERNEL = "OwnCollectivesKernel";
constexpr CommEngine HOST = COMM_ENGINE_CPU_TS;
constexpr CommEngine AICPU = COMM_ENGINE_AICPU_TS;

bool IsAscend950()
{
    const char *name = aclrtGetSocName();
    return name != nullptr && std::strstr(name, "Ascend950") != nullptr;
}

HcclResult ElementBytes(HcclDataType dataType, uint32_t &bytes)
{
    switch (dataType) {
        case HCCL_DATA_TYPE_INT8: bytes = 1; return HCCL_SUCCESS;
        case HCCL_DATA_TYPE_INT16:
        case HCCL_DATA_TYPE_FP16:
        case HCCL_DATA_TYPE_BFP16: bytes = 2; return HCCL_SUCCESS;
        case HCCL_DATA_TYPE_INT32:
        case HCCL_DATA_TYPE_FP32: bytes = 4; return HCCL_SUCCESS;
        default: return HCCL_E_NOT_SUPPORT;
    }
}

// Finds the kernel for the device of the calling thread. The descriptor is beside this library.
HcclResult Kernel(aclrtFuncHandle &kernel)
{
    thread_local std::map<int32_t, aclrtFuncHandle> known;
    int32_t device = 0;
    RETURN_IF_RUNTIME_FAILED(aclrtGetDevice(&device));
    const auto found = known.find(device);
    if (found != known.end()) {
        kernel = found->second;
        return HCCL_SUCCESS;
    }
    Dl_info about;
    if (dladdr(reinterpret_cast<const void *>(&OwnAllReduce), &about) == 0) {
        return HCCL_E_INTERNAL;
    }
    const std::string library = about.dli_fname;
    const size_t end = library.rfind('/');
    const std::string directory = end == std::string::npos ? "." : library.substr(0, end);
    const std::string descriptor = directory + "/libown_collectives_kernel.json";
    aclrtBinaryLoadOption option;
    std::memset(&option, 0, sizeof option);
    option.type = ACL_RT_BINARY_LOAD_OPT_CPU_KERNEL_MODE;
    option.value.cpuKernelMode = 0;
    aclrtBinaryLoadOptions options = {&option, 1};
    aclrtBinHandle binary = nullptr;
    RETURN_IF_RUNTIME_FAILED(aclrtBinaryLoadFromFile(descriptor.c_str(), &options, &binary));
    RETURN_IF_RUNTIME_FAILED(aclrtBinaryGetFunction(binary, KERNEL, &kernel));
    known[device] = kernel;
    return HCCL_SUCCESS;
}

// Describes a channel to another rank. On A2 and A3 the rank and the protocol select the channel,
// on Ascend 950 the ends of a link.
HcclResult Describe(HcclComm comm, uint32_t rank, uint32_t peer, HcclChannelDesc &desc)
{
    RETURN_IF_FAILED(HcclChannelDescInit(&desc, 1));
    desc.remoteRank = peer;
    desc.notifyNum = own::CHANNEL_NOTIFIES;
    desc.channelProtocol = COMM_PROTOCOL_HCCS;
    if (!IsAscend950()) {
        return HCCL_SUCCESS;
    }
    CommLink *links = nullptr;
    uint32_t count = 0;
    RETURN_IF_FAILED(HcclRankGraphGetLinks(comm, 0, rank, peer, &links, &count));
    for (uint32_t at = 0; at < count; ++at) {
        if (links[at].linkAttr.linkProtocol == COMM_PROTOCOL_UB_CTP) {
            desc.channelProtocol = COMM_PROTOCOL_UB_CTP;
            desc.localEndpoint = links[at].srcEndpointDesc;
            desc.remoteEndpoint = links[at].dstEndpointDesc;
            return HCCL_SUCCESS;
        }
    }
    return HCCL_E_NOT_FOUND;
}

HcclResult Acquire(HcclComm comm, own::Resources &it)
{
    RETURN_IF_FAILED(HcclGetRankId(comm, &it.rank));
    RETURN_IF_FAILED(HcclGetRankSize(comm, &it.ranks));
    it.acquires = IsAscend950() ? 0 : 1;
    it.start = it.ranks - 1;
    it.threads.resize(it.ranks);
    RETURN_IF_FAILED(HcclThreadAcquire(comm, AICPU, it.ranks, it.ranks, it.threads.data()));
    RETURN_IF_FAILED(HcclGetHcclBuffer(comm, &it.buffer, &it.bufferBytes));
    it.channels.resize(it.ranks);
    it.peerBuffers.resize(it.ranks);
    std::vector<HcclChannelDesc> descs;
    std::vector<uint32_t> peers;
    for (uint32_t peer = 0; peer < it.ranks; ++peer) {
        if (peer != it.rank) {
            HcclChannelDesc desc;
            RETURN_IF_FAILED(Describe(comm, it.rank, peer, desc));
            descs.push_back(desc);
            peers.push_back(peer);
        }
    }
    if (peers.empty()) {
        return HCCL_SUCCESS;
    }
    std::vector<ChannelHandle> channels(peers.size());
    RETURN_IF_FAILED(HcclChannelAcquire(
        comm, AICPU, descs.data(), static_cast<uint32_t>(descs.size()), channels.data()));
    for (size_t at = 0; at < peers.size(); ++at) {
        uint64_t bytes = 0;
        void *&buffer = it.peerBuffers[peers[at]];
        it.channels[peers[at]] = channels[at];
        RETURN_IF_FAILED(HcclChannelGetHcclBuffer(comm, channels[at], &buffer, &bytes));
        if (bytes < it.bufferBytes) {
            return HCCL_E_PARA;
        }
    }
    return HCCL_SUCCESS;
}

// Finds the rank's resources in the form for the kernel, and the main thread in the form for the
// host. Both are made in the first call of a communicator, which keeps them.
HcclResult Find(HcclComm comm, own::Call &call, ThreadHandle &mainOnHost, uint32_t &start)
{
    void *context = nullptr;
    uint64_t bytes = 0;
    struct {
        ThreadHandle main;
        uint32_t start;
    } host;
    if (HcclEngineCtxGet(comm, TAG, AICPU, &context, &bytes) == HCCL_SUCCESS) {
        void *kept = nullptr;
        uint64_t keptBytes = 0;
        RETURN_IF_FAILED(HcclEngineCtxGet(comm, TAG, HOST, &kept, &keptBytes));
        if (keptBytes != sizeof host) {
            return HCCL_E_INTERNAL;
        }
        std::memcpy(&host, kept, sizeof host);
    } else {
        own::Resources it;
        RETURN_IF_FAILED(Acquire(comm, it));
        std::memset(&host, 0, sizeof host);
        host.start = it.start;
        RETURN_IF_FAILED(HcclThreadExportToCommEngine(comm, 1, &it.threads[0], HOST, &host.main));
        const std::vector<uint8_t> serialised = it.Serialise();
        bytes = serialised.size();
        void *kept = nullptr;
        RETURN_IF_FAILED(HcclEngineCtxCreate(comm, TAG, HOST, sizeof host, &kept));
        std::memcpy(kept, &host, sizeof host);
        RETURN_IF_FAILED(HcclEngineCtxCreate(comm, TAG, AICPU, bytes, &context));
        RETURN_IF_FAILED(HcclEngineCtxCopy(comm, AICPU, TAG, serialised.data(), bytes, 0));
    }
    call.resources = static_cast<const uint8_t *>(context);
    call.resourcesBytes = bytes;
    mainOnHost = host.main;
    start = host.start;
    return HCCL_SUCCESS;
}

HcclResult Launch(own::Call &call, HcclComm comm, aclrtStream stream)
{
    aclrtFuncHandle kernel = nullptr;
    RETURN_IF_FAILED(Kernel(kernel));
    RETURN_IF_FAILED(HcclGetCommName(comm, call.comm));
    std::strncpy(call.tag, TAG, sizeof call.tag - 1);
    ThreadHandle mainOnHost = 0;
    uint32_t start = 0;
    RETURN_IF_FAILED(Find(comm, call, mainOnHost, start));
    // The stream may be another one in each call.
    ThreadHandle host = 0;
    RETURN_IF_FAILED(HcclThreadAcquireWithStream(comm, HOST, stream, 1, &host));
    RETURN_IF_FAILED(HcclThreadExportToCommEngine(comm, 1, &host, AICPU, &call.hostThread));

    aclrtArgsHandle arguments = nullptr;
    aclrtParamHandle parameter = nullptr;
    RETURN_IF_RUNTIME_FAILED(aclrtKernelArgsInit(kernel, &arguments));
    RETURN_IF_RUNTIME_FAILED(aclrtKernelArgsAppend(arguments, &call, sizeof call, &parameter));
    RETURN_IF_RUNTIME_FAILED(aclrtKernelArgsFinalize(arguments));
    aclrtLaunchKernelAttr timeout;
    std::memset(&timeout, 0, sizeof timeout);
    timeout.id = ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT;
    timeout.value.timeout = own::LONGEST;
    aclrtLaunchKernelCfg cfg = {&timeout, 1};

    // The main thread waits for the stream, and the stream for the main thread.
    RETURN_IF_FAILED(static_cast<HcclResult>(
        HcommThreadNotifyRecordOnThread(host, mainOnHost, start)));
    RETURN_IF_RUNTIME_FAILED(
        aclrtLaunchKernelWithConfig(kernel, 1, stream, &cfg, arguments, nullptr));
    return static_cast<HcclResult>(HcommThreadNotifyWaitOnThread(host, 0, own::LONGEST));
}

} // namespace

HcclResult OwnAllReduce(
    void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
    HcclComm comm, aclrtStream stream)
{
    if (count == 0) {
        return HCCL_SUCCESS;
    }
    if (sendBuf == nullptr || recvBuf == nullptr || comm == nullptr || stream == nullptr) {
        return HCCL_E_PTR;
    }
    if (op != HCCL_REDUCE_SUM && op != HCCL_REDUCE_MAX && op != HCCL_REDUCE_MIN) {
        return HCCL_E_NOT_SUPPORT;
    }
    own::Call call;
    std::memset(&call, 0, sizeof call);
    RETURN_IF_FAILED(ElementBytes(dataType, call.elementBytes));
    call.operation = own::ALL_REDUCE;
    call.send = static_cast<const uint8_t *>(sendBuf);
    call.recv = static_cast<uint8_t *>(recvBuf);
    call.count = count;
    call.dataType = static_cast<uint32_t>(dataType);
    call.reduceOp = static_cast<uint32_t>(op);
    return Launch(call, comm, stream);
}

HcclResult OwnScatter(
    void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
    HcclComm comm, aclrtStream stream)
{
    if (recvCount == 0) {
        return HCCL_SUCCESS;
    }
    if (recvBuf == nullptr || comm == nullptr || stream == nullptr) {
        return HCCL_E_PTR;
    }
    uint32_t rank = 0;
    uint32_t ranks = 0;
    RETURN_IF_FAILED(HcclGetRankId(comm, &rank));
    RETURN_IF_FAILED(HcclGetRankSize(comm, &ranks));
    if (root >= ranks) {
        return HCCL_E_PARA;
    }
    if (rank == root && sendBuf == nullptr) {
        return HCCL_E_PTR;
    }
    own::Call call;
    std::memset(&call, 0, sizeof call);
    RETURN_IF_FAILED(ElementBytes(dataType, call.elementBytes));
    call.operation = own::SCATTER;
    call.send = static_cast<const uint8_t *>(sendBuf);
    call.recv = static_cast<uint8_t *>(recvBuf);
    call.count = recvCount;
    call.dataType = static_cast<uint32_t>(dataType);
    call.root = root;
    return Launch(call, comm, stream);
}
